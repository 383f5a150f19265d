"""The twins themselves: sources of randomness, mutants, the authors' bookkeeping."""

import math

import numpy as np
import pytest
from oracle import Problem, n_leaves
from scipy import stats
from tiny import PROBLEMS
from twin_local import Local
from twin_particles import ParticleGibbs
from twin_proposals import cells_of_width
from twin_random import from_generator, outcomes, scripted, stationary, transition_matrix
from twin_recut import MUTANTS as RECUT_TWIN_MUTANTS
from twin_recut import Recut
from twin_resampling import SCHEMES
from twin_transpose import MUTANTS as TRANSPOSE_TWIN_MUTANTS
from twin_transpose import Transpose
from twins import CGM, MUTANTS, GrowPrune, draw_rule
from twins_rules import MUTANTS as RULE_MUTANTS
from twins_rules import Perturb, Reroute, Rotate, Splice

WEIGHTS = [(0.5, 0.5), (0.05, 0.95), (0.2, 0.5, 0.3), (0.7, 0.1, 0.15, 0.05), (1 / 3, 1 / 3, 1 / 3),
           (1.0, 0.0, 0.0), (0.0, 0.4, 0.6)]

# mutant -> (problem on which it shows, options of the twin)
LOCAL_MUTANTS = {
    "missing prunable count": "line",
    "prunable count plus one": "line",
    "sigma for variance": "ties",
    "stop of unsplittable children counted": "line",
    "growable count after the move": "line",
}
CGM_MUTANTS = {
    "change without the subtree's prior": "line",
    "change counts its own rule": "line",
    "node-gap midpoints": "plane",
    "swap overwrites both children": "plane",
}
PERTURB_MUTANTS = {"mass of the codes left out": "line", "interval around the old code": "line",
                   "old code left out": "plane"}
# Four rows in a line are too few to see the first.
ROTATE_MUTANTS = {"parent first": "long_line", "always accepted": "line", "depths left out": "terrace",
                  "rules left out": "terrace"}
REROUTE_MUTANTS = {"masses of the cells left out": "line", "places counted after it": "line",
                   "internal nodes not counted": "line", "coin left out": "line"}
SPLICE_MUTANTS = {"pairs before the move": "line", "side left out": "line", "depths not shifted": "line"}
PARTICLE_MUTANTS = {
    "reference outside the pool": ("line", {}),
    "sorted draws, one overwritten": ("line", {}),
    "late finish": ("line", {}),
    "skipped stages": ("line", {}),
    "root always split": ("shallow", {}),
    "weights kept on copy": ("line", {}),
    "sigma for variance": ("ties", {}),
    "killing without the shift": ("line", {"resampling": "killing"}),
    "systematic offset unconditioned": ("line", {"resampling": "systematic"}),
    # Resampling after every stage leaves equal weights to the final draw, whose last stage only stops.
    "forced ratio inverted": ("line", {"final": "forced", "ess_threshold": 0.0}),
    "final draw among the free": ("line", {"ess_threshold": 0.0}),
    "stop of unsplittable nodes weighted": ("line", {}),
}
# mutant -> (problem on which it shows, gaps a cell, options of the twin)
RECUT_MUTANTS = {
    "ratio of the cells left out": ("line", 1, {}),
    "present rows for claims": ("weighted", 1, {"subset": None}),
    "subset unconditioned": ("cube", 1, {"subset": 2}),
    "cell share left out": ("line", 2, {}),
}
TRANSPOSE_MUTANTS = {
    "proposals left out": ("plane", 1, {}),
    "one code for all": ("weighted", 2, {}),
    "same child on the way back": ("terrace", 2, {}),
}
OPTIMAL_MUTANTS = {
    "stop weight one": ("line", 1, {}),
    "subset unconditioned": ("cube", 1, {"subset": 2}),
    "cell weight for exact ratio": ("line", 2, {}),
    "cell share left out": ("line", 2, {}),
    "prior share left out": ("line", 1, {"prior_share": 0.3}),
}
SUBTREE_MUTANTS = {
    "depth without offset": ("line", 1, {}),
    "path that leaves the tree redrawn": ("line", 1, {}),
    "path that leaves the tree stopped": ("line", 1, {}),
}
LOCAL_TWIN_MUTANTS = {
    "subset unconditioned": ("cube", 1, {"subset": 2}),
    "cell weight for exact ratio": ("line", 2, {}),
    "cell share left out": ("line", 2, {}),
    "stops of the children left out": ("line", 1, {}),
    "unsplittable child counted": ("ties", 1, {}),
    "candidates not counted": ("line", 1, {}),
    "path that leaves the tree redrawn": ("line", 1, {"descend": 0.5}),
    "path that leaves the tree stopped": ("line", 1, {"descend": 0.5}),
}


def gap(twin, problem):
    post = problem.posterior()
    return abs(post.p @ transition_matrix(twin, post.trees) - post.p).max()


@pytest.mark.parametrize("twin", [GrowPrune, CGM])
@pytest.mark.parametrize("mutant", LOCAL_MUTANTS)
def test_mutants_of_grow_and_prune_are_caught(mutant, twin):
    problem = PROBLEMS[LOCAL_MUTANTS[mutant]]()
    assert gap(twin(problem, mutant=mutant), problem) > 1e-6


@pytest.mark.parametrize("mutant", CGM_MUTANTS)
def test_mutants_of_change_and_swap_are_caught(mutant):
    problem = PROBLEMS[CGM_MUTANTS[mutant]]()
    assert gap(CGM(problem, mutant=mutant), problem) > 1e-6


@pytest.mark.parametrize("mutant", PERTURB_MUTANTS)
def test_mutants_of_perturb_are_caught(mutant):
    problem = PROBLEMS[PERTURB_MUTANTS[mutant]]()
    assert gap(Perturb(problem, mutant=mutant), problem) > 1e-6


@pytest.mark.parametrize("mutant", ROTATE_MUTANTS)
def test_mutants_of_rotate_are_caught(mutant):
    problem = PROBLEMS[ROTATE_MUTANTS[mutant]]()
    assert gap(Rotate(problem, mutant=mutant), problem) > 1e-6


@pytest.mark.parametrize("mutant", SPLICE_MUTANTS)
def test_mutants_of_splice_are_caught(mutant):
    problem = PROBLEMS[SPLICE_MUTANTS[mutant]]()
    assert gap(Splice(problem, mutant=mutant), problem) > 1e-6


@pytest.mark.parametrize("mutant", REROUTE_MUTANTS)
def test_mutants_of_reroute_are_caught(mutant):
    problem = PROBLEMS[REROUTE_MUTANTS[mutant]]()
    assert gap(Reroute(problem, mutant=mutant), problem) > 1e-6


@pytest.mark.parametrize("mutant", PARTICLE_MUTANTS)
def test_mutants_of_particle_gibbs_are_caught(mutant):
    name, options = PARTICLE_MUTANTS[mutant]
    problem = PROBLEMS[name]()
    assert gap(ParticleGibbs(problem, mutant=mutant, **options), problem) > 1e-6


def gap_of_mutant(twin, mutant, case, **fixed):
    """The gap with the mutant, after a check that without it there is none."""
    name, width, options = case
    problem = PROBLEMS[name]()
    options = options | fixed | {"cells": cells_of_width(problem, width)}
    assert gap(twin(problem, **options), problem) < 1e-12
    return gap(twin(problem, mutant=mutant, **options), problem)


@pytest.mark.parametrize("mutant", OPTIMAL_MUTANTS)
@pytest.mark.parametrize("region", ["tree", "subtree"])
def test_mutants_of_optimal_proposals_are_caught(mutant, region):
    case = OPTIMAL_MUTANTS[mutant]
    assert gap_of_mutant(ParticleGibbs, mutant, case, proposal="optimal", region=region) > 1e-6


@pytest.mark.parametrize("mutant", SUBTREE_MUTANTS)
@pytest.mark.parametrize("proposal", ["prior", "optimal"])
def test_mutants_of_subtree_particle_gibbs_are_caught(mutant, proposal):
    case = SUBTREE_MUTANTS[mutant]
    assert gap_of_mutant(ParticleGibbs, mutant, case, proposal=proposal, region="subtree") > 1e-6


@pytest.mark.parametrize("mutant", LOCAL_TWIN_MUTANTS)
def test_mutants_of_the_local_move_are_caught(mutant):
    assert gap_of_mutant(Local, mutant, LOCAL_TWIN_MUTANTS[mutant]) > 1e-6


@pytest.mark.parametrize("mutant", RECUT_MUTANTS)
def test_mutants_of_recut_are_caught(mutant):
    assert gap_of_mutant(Recut, mutant, RECUT_MUTANTS[mutant]) > 1e-6


@pytest.mark.parametrize("mutant", TRANSPOSE_MUTANTS)
def test_mutants_of_transpose_are_caught(mutant):
    assert gap_of_mutant(Transpose, mutant, TRANSPOSE_MUTANTS[mutant]) > 1e-6


def test_every_mutant_is_tested():
    assert set(LOCAL_MUTANTS) == set(MUTANTS["GrowPrune"])
    assert set(CGM_MUTANTS) == set(MUTANTS["CGM"])
    assert set(PARTICLE_MUTANTS) == set(MUTANTS["ParticleGibbs"])
    assert set(PERTURB_MUTANTS) == set(RULE_MUTANTS["Perturb"])
    assert set(ROTATE_MUTANTS) == set(RULE_MUTANTS["Rotate"])
    assert set(SPLICE_MUTANTS) == set(RULE_MUTANTS["Splice"])
    assert set(REROUTE_MUTANTS) == set(RULE_MUTANTS["Reroute"])
    assert set(OPTIMAL_MUTANTS) == set(MUTANTS["optimal"])
    assert set(SUBTREE_MUTANTS) == set(MUTANTS["subtree"])
    assert set(LOCAL_TWIN_MUTANTS) == set(MUTANTS["Local"])
    assert set(RECUT_MUTANTS) == set(RECUT_TWIN_MUTANTS)
    assert set(TRANSPOSE_MUTANTS) == set(TRANSPOSE_TWIN_MUTANTS)


def test_node_gap_midpoints_are_invisible_in_one_dimension_and_real_in_two():
    """In two dimensions the law of the number of leaves itself is off, not only the codes."""
    problem = PROBLEMS["line"]()
    assert gap(CGM(problem, mutant="node-gap midpoints"), problem) < 1e-12
    problem = PROBLEMS["plane"]()
    post = problem.posterior()
    matrix = transition_matrix(CGM(problem, mutant="node-gap midpoints"), post.trees)
    law = np.bincount([n_leaves(t) for t in post.trees], stationary(matrix), minlength=5)[1:]
    assert abs(law - post.p_n_leaves()).max() > 1e-4


# ---------------------------------------------------------------- the authors' bookkeeping
def law_of_leaves(twin, problem):
    """Stationary law of the number of leaves over trees with their staged nodes."""
    states, rows = [(None, frozenset())], []
    while len(rows) < len(states):
        rows.append(twin.law_with_history(*states[len(rows)]))
        states += [s for s in rows[-1] if s not in states]
    matrix = np.array([[row.get(s, 0.0) for s in states] for row in rows])
    assert abs(matrix.sum(axis=1) - 1).max() < 1e-12
    return np.bincount([n_leaves(t) for t, _ in states], stationary(matrix), minlength=problem.n_rows + 1)[1:]


@pytest.mark.parametrize("size, known", [(2, 0.67), pytest.param(3, 0.65, marks=pytest.mark.long)])
def test_authors_particle_gibbs_is_as_inexact_as_the_scripts(size, known):
    problem = PROBLEMS["authors"]()
    exact = problem.posterior().p_n_leaves()
    np.testing.assert_allclose(exact, [0.0106, 0.2028, 0.2682, 0.5184], atol=5e-5)
    law = law_of_leaves(ParticleGibbs(problem, size, bookkeeping="authors"), problem)
    assert law[3] == pytest.approx(known, abs=0.005)


@pytest.mark.long
def test_authors_particle_gibbs_with_ten_particles(rng):
    """The rate .568 of a first run; 20 000 correlated steps give it to .02 with an error below 1e-4."""
    problem = PROBLEMS["authors"]()
    twin, random = ParticleGibbs(problem, 10, bookkeeping="authors"), from_generator(rng)
    tree, staged, count = None, frozenset(), 0
    for _ in range(20000):
        result = twin.step(tree, random, staged)
        tree, staged = result.tree, result.staged
        count += n_leaves(tree) == 4
    assert count / 20000 == pytest.approx(0.57, abs=0.02)


def test_canonical_particle_gibbs_has_no_memory():
    """Only the authors' bookkeeping remembers anything beside the tree."""
    problem = PROBLEMS["authors"]()
    twin = ParticleGibbs(problem, 2)
    assert {staged for _, staged in twin.law_with_history(None)} == {frozenset()}


@pytest.mark.parametrize("twin", [GrowPrune, CGM])
def test_authors_root_growth_is_always_accepted(twin):
    state = np.random.RandomState(3)
    x = np.sort(state.rand(4))
    problem = Problem(x[:, None], 0.1 * state.randn(4), 0.25, 1.0, alpha=0.3, beta=1.0)
    post = problem.posterior()
    root = post.index[None]
    assert post.p[root] == pytest.approx(0.833, abs=5e-4)
    authors = stationary(transition_matrix(twin(problem, bookkeeping="authors"), post.trees))
    assert authors[root] == pytest.approx(0.475, abs=1e-3)
    exact = stationary(transition_matrix(twin(problem), post.trees))
    assert exact[root] == pytest.approx(post.p[root], abs=1e-12)


# ---------------------------------------------------------------- randomness
def test_choice_takes_the_first_index_above_the_uniform():
    source = scripted([0.0, 0.25, 0.7499, 0.75, 0.999, 0.5])
    assert [source.choice([0.25, 0.5, 0.25]) for _ in range(5)] == [0, 1, 1, 2, 2]
    assert source.below(3) == 1 and source.n_used == 6


def test_outcomes_of_a_sum_of_dice():
    law = outcomes(lambda random: random.below(3) + random.choice([0.5, 0.0, 0.5]))
    assert law == pytest.approx({0: 1 / 6, 1: 1 / 6, 2: 1 / 3, 3: 1 / 6, 4: 1 / 6})


def test_a_node_without_a_rule_uses_one_uniform_for_each_candidate():
    problem = Problem([[0, 0, 1], [0, 0, 1], [1, 1, 2]], [0.0] * 3, 1.0, 1.0, dim_weights=(1, 0, 2))
    source = scripted([0.9, 0.1, 0.5])
    assert draw_rule(problem, (0, 1), source) is None and source.n_used == 2
    assert draw_rule(problem, (0,), source) is None and source.n_used == 2


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_clamped_particle_without_weight_keeps_its_slot(scheme):
    """Weights underflow on large data; the clamped slot holds and the others come from the rest."""
    law = outcomes(lambda random: tuple(SCHEMES[scheme]([0.0, 0.75, 0.25], random)))
    assert sum(law.values()) == pytest.approx(1.0, abs=1e-12)
    assert all(a[0] == 0 and 0 not in a[1:] for a in law)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_slot_has_the_law_of_the_weights(scheme, weights):
    """With the clamped particle drawn by the weights and slots in cyclic order, P(A_k = i) = W_i."""
    size = len(weights)
    slots = np.zeros((size, size))
    for clamped in range(size):
        if weights[clamped] == 0:
            continue
        order = [(clamped + i) % size for i in range(size)]
        seen = [weights[i] for i in order]
        law = outcomes(lambda random, w=seen: tuple(SCHEMES[scheme](w, random)))
        assert sum(law.values()) == pytest.approx(1.0, abs=1e-12)
        for ancestors, p in law.items():
            assert ancestors[0] == 0
            for slot, a in enumerate(ancestors):
                slots[slot, order[a]] += weights[clamped] * p
    np.testing.assert_allclose(slots, np.tile(weights, (size, 1)), atol=1e-12)


TWINS = {"growprune": lambda p: GrowPrune(p), "cgm": lambda p: CGM(p)} | {
    f"pg-{scheme}": lambda p, s=scheme: ParticleGibbs(p, 3, s, final="forced") for scheme in SCHEMES} | {
    "pg-optimal": lambda p: ParticleGibbs(p, 2, proposal="optimal", prior_share=0.3, cells=cells_of_width(p, 2)),
    "pg-subtree": lambda p: ParticleGibbs(p, 2, region="subtree"),
    "pg-optimal-subtree": lambda p: ParticleGibbs(p, 2, proposal="optimal", region="subtree"),
    "local": lambda p: Local(p, cells=cells_of_width(p, 2)), "splice": lambda p: Splice(p),
    "reroute": lambda p: Reroute(p)}


@pytest.mark.parametrize("name", TWINS)
def test_simulation_follows_the_enumerated_law(name, rng):
    """G-test of 4000 simulated steps at level 1e-4: the enumerator and the sampler are one kernel."""
    problem = PROBLEMS["triple_line"]()
    twin, random = TWINS[name](problem), from_generator(rng)
    start = (0, 0, None, None)
    law = twin.law(start)
    drawn = [twin.step(start, random).tree for _ in range(4000)]
    assert set(drawn) <= set(law)
    counts = np.array([drawn.count(t) for t in law])
    expected = 4000 * np.array(list(law.values()))
    keep = expected > 5
    counts = np.append(counts[keep], counts[~keep].sum())
    expected = np.append(expected[keep], expected[~keep].sum() + 1e-9)
    g = 2 * sum(c * math.log(c / e) for c, e in zip(counts, expected, strict=True) if c > 0)
    assert stats.chi2.sf(g, max(len(counts) - 1, 1)) > 1e-4
