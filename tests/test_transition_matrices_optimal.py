"""Exact transition matrices of optimal proposals, of subtree particle Gibbs and of the local move, and what follows."""

import math
from itertools import product

import numpy as np
import pytest
from compiled import make_pair
from oracle import Problem, bfs
from test_transition_matrices import FEW, SETTINGS, check_invariant
from tiny import PROBLEMS
from twin_local import Local
from twin_particles import ParticleGibbs
from twin_proposals import OptimalProposal, PriorProposal, cells_of_width, singletons
from twin_random import outcomes, scripted, transition_matrix
from twin_recut import Recut
from twin_transpose import MUTANTS as TRANSPOSE_MUTANTS
from twin_transpose import Transpose
from twins import draw_slot, nodes_of

# (gaps a cell, place of the representative) and the options of the kernel.
OPTIMAL = {
    "singletons": ((1, 0), {}),
    "cells": ((2, 0), {}),
    "cells-last": ((2, 1), {}),
    "cells-3": ((3, 1), {}),
    "subset-1": ((1, 0), {"subset": 1}),
    "subset-2": ((2, 1), {"subset": 2}),
    "share": ((3, 2), {"prior_share": 0.3}),
    "mixed": ((2, 1), {"subset": 1, "prior_share": 0.3}),
    "subtree": ((1, 0), {"region": "subtree", "descend": 0.7}),
    "subtree-mixed": ((2, 0), {"subset": 2, "prior_share": 0.3, "region": "subtree"}),
    "subtree-prior": ((1, 0), {"region": "subtree", "proposal": "prior", "descend": 0.6}),
}
LOCAL = {
    "singletons": ((1, 0), {}),
    "cells": ((2, 1), {}),
    "cells-3": ((3, 0), {"descend": 0.7}),
    "subset-1": ((1, 0), {"subset": 1}),
    "subset-2": ((2, 0), {"subset": 2, "descend": 0.3}),
    "mixed": ((3, 1), {"subset": 1}),
    "slot": ((2, 1), {"descend": 0.5}),
}
RECUT = {
    "singletons": ((1, 0), {"subset": None}),
    "cells": ((2, 1), {"subset": None}),
    "cells-3": ((3, 0), {"subset": None}),
    "subset-1": ((1, 0), {}),
    "subset-2": ((2, 0), {"subset": 2}),
    "mixed": ((3, 1), {}),
}
LIGHT = ("line", "square", "ties", "shallow", "weighted_three", "grid", "triple", "cube", "weighted_cube",
         "triple_line", "pair", "unsplit_root", "authors", "precise_ties")
HEAVY = ("long_line", "weighted", "plane")
# Particles, option: three and more.
LARGER = [("pair", 4, "cells"), ("triple_line", 3, "share"), ("triple_line", 3, "subtree-mixed"),
          ("triple_line", 4, "cells"), ("square", 3, "mixed"), ("triple", 3, "subset-1")]
LARGEST = [("triple", 3, "singletons"), ("cube", 3, "mixed"), ("line", 3, "share"), ("ties", 3, "subset-1"),
           ("weighted_three", 3, "subtree-mixed"), ("line", 3, "subtree-prior"), ("triple", 3, "subtree-mixed")]


def make_twin(problem, size, option, setting):
    """Particle Gibbs with an entry of OPTIMAL."""
    cells, options = OPTIMAL[option]
    return ParticleGibbs(problem, size, *setting, cells=cells_of_width(problem, *cells),
                         **{"proposal": "optimal"} | options)


def particle_cases():
    """(problem, particles, option, setting): each option on each light problem with one setting, the rest long."""
    pairs = list(product(LIGHT, OPTIMAL))
    cases = [(name, 2, option, FEW[i % len(FEW)]) for i, (name, option) in enumerate(pairs)]
    cases += [(name, 2, "mixed", s) for name in ("ties", "cube") for s in SETTINGS]
    cases += [("long_line", 2, option, FEW[1]) for option in ("singletons", "cells-3", "subtree")]
    cases += [(*larger, FEW[1]) for larger in LARGER]
    heavy = [(name, 2, option, s) for name, option in pairs for s in FEW]
    heavy += [(name, 2, option, FEW[1]) for name in HEAVY for option in OPTIMAL]
    heavy += [(*larger, s) for larger in LARGER + LARGEST for s in FEW] + [("cube", 3, "subset-2", FEW[1])]
    marked = [pytest.param(*c, marks=pytest.mark.long, id=identify(c)) for c in heavy if c not in cases]
    return [pytest.param(*c, id=identify(c)) for c in dict.fromkeys(cases)] + marked


def identify(case):
    name, size, option, (scheme, threshold, final) = case
    return f"{name}-{size}-{option}-{scheme}-{threshold}-{final}"


@pytest.mark.parametrize("name, size, option, setting", particle_cases())
def test_particle_gibbs(name, size, option, setting):
    problem = PROBLEMS[name]()
    check_invariant(make_twin(problem, size, option, setting), problem)


@pytest.mark.parametrize("option", LOCAL)
@pytest.mark.parametrize("name", PROBLEMS)
def test_local(name, option):
    problem = PROBLEMS[name]()
    cells, options = LOCAL[option]
    check_invariant(Local(problem, cells=cells_of_width(problem, *cells), **options), problem)


@pytest.mark.parametrize("option", RECUT)
@pytest.mark.parametrize("name", PROBLEMS)
def test_recut(name, option):
    problem = PROBLEMS[name]()
    cells, options = RECUT[option]
    check_invariant(Recut(problem, cells=cells_of_width(problem, *cells), **options), problem)


@pytest.mark.parametrize("n_bins", [2, 3, 4])
@pytest.mark.parametrize("subset", [1, 2, None])
@pytest.mark.parametrize("name", PROBLEMS)
def test_recut_with_the_cells_of_the_kernel(name, subset, n_bins):
    problem = PROBLEMS[name]()
    check_invariant(make_pair(problem, "recut", n_bins, subset=subset)[1], problem)


def make_transpose(problem, cells):
    """From (gaps a cell, place of the representative)."""
    return Transpose(problem, cells=cells_of_width(problem, *cells))


@pytest.mark.parametrize("cells", [(1, 0), (2, 1), (3, 0)], ids=str)
@pytest.mark.parametrize("name", PROBLEMS)
def test_transpose(name, cells):
    problem = PROBLEMS[name]()
    check_invariant(make_transpose(problem, cells), problem)


@pytest.mark.parametrize("name, least", [("square", 0.1), ("plane", 0.01), ("terrace", 0.002), ("weighted", 0.001)])
def test_transpose_moves_where_it_can(name, least):
    """Else its invariance says nothing: the share of the posterior that a step moves, and the way back."""
    problem = PROBLEMS[name]()
    post = problem.posterior()
    matrix = transition_matrix(make_transpose(problem, (2, 1)), post.trees)
    assert 1 - post.p @ np.diag(matrix) > least
    assert np.array_equal(matrix > 0, matrix.T > 0)


def stands_on_rules(tree):
    """Whether both children of the root and one of theirs are internal."""
    return tree is not None and None not in tree[2:] and any(child[2:] != (None, None) for child in tree[2:])


@pytest.mark.parametrize("n_bins", [None, 2, 3])
def test_transpose_above_other_rules(n_bins):
    """On most problems all that moves is four leaves, each of which claims by its side alone."""
    problem = PROBLEMS["tiles"]()
    post = problem.posterior()
    twin = make_pair(problem, "transpose", n_bins)[1]
    matrix = transition_matrix(twin, post.trees)
    flow = post.p[:, None] * matrix
    assert abs(flow - flow.T).max() < 1e-12
    assert sum(flow[i].sum() - flow[i, i] for i, tree in enumerate(post.trees) if stands_on_rules(tree)) > 0.09
    for mutant in (*TRANSPOSE_MUTANTS, "present rows for claims") if n_bins == 3 else ():
        wrong = transition_matrix(Transpose(problem, cells=twin.proposal.cells, mutant=mutant), post.trees)
        assert abs(post.p @ wrong - post.p).max() > 5e-4, mutant


def test_recut_moves_most_problems():
    """Else its invariance says nothing: the share of the posterior that a step moves."""
    moved = {}
    for name, make in PROBLEMS.items():
        problem = make()
        post = problem.posterior()
        moved[name] = 1 - post.p @ np.diag(transition_matrix(Recut(problem, None), post.trees))
    assert sum(share > 0.04 for share in moved.values()) >= 9, moved


@pytest.mark.parametrize("option", OPTIMAL)
def test_one_particle_is_the_identity(option):
    problem = PROBLEMS["cube"]()
    trees = problem.posterior().trees
    twin = make_twin(problem, 1, option, FEW[0])
    np.testing.assert_allclose(transition_matrix(twin, trees), np.eye(len(trees)), rtol=0, atol=1e-15)


@pytest.mark.parametrize("name", ["line", "cube"])
@pytest.mark.parametrize("kind", ["mixed", "subtree", "local"])
def test_powers_converge_to_the_posterior(kind, name):
    """Irreducible and aperiodic: every row of K^n tends to the posterior."""
    problem = PROBLEMS[name]()
    post = problem.posterior()
    twin = Local(problem, subset=1) if kind == "local" else make_twin(problem, 2, kind, FEW[0])
    power = np.linalg.matrix_power(transition_matrix(twin, post.trees), 2 ** 15)
    assert abs(power - post.p).max() < 1e-9


# ---------------------------------------------------------------- grow-from-root as an exact Metropolis step
def growth(problem, tree, cells):
    """(q, w) of a tree: probability that optimal proposals grow it, and the product of their Z times exact / cell."""
    q = w = 1.0
    for node in nodes_of(problem, tree):
        if not problem.can_split(node.rows):
            continue

        def ratio(dim, gap, rows=node.rows):
            left, right = problem.divide(rows, dim, gap)
            return math.exp(problem.log_likelihood(left) + problem.log_likelihood(right)
                            - problem.log_likelihood(rows))

        def of_cell(dim, gap):
            first, rep = cells[dim]
            return ratio(dim, next(r for a, b, r in zip(first, first[1:], rep, strict=False) if a <= gap < b))

        p = problem.split_probability(node.rows, node.depth)
        weights = {rule: p * share * of_cell(*rule) for rule, share in problem.rules(node.rows).items()}
        z = 1.0 - p + sum(weights.values())
        w *= z
        if node.tree is None:
            q *= (1.0 - p) / z
        else:
            rule = node.tree[:2]
            q *= weights[rule] / z
            w *= ratio(*rule) / of_cell(*rule)
    return q, w


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("name", ["line", "square", "ties", "weighted_three", "grid", "cube", "shallow", "triple"])
def test_two_particles_never_resampled_are_a_metropolis_step(name, width):
    """C = 2, no resampling, forced: accept a tree grown from the root with min(1, w' / w)."""
    problem = PROBLEMS[name]()
    cells = cells_of_width(problem, width, 1)
    post = problem.posterior()
    q, w = np.array([growth(problem, tree, cells) for tree in post.trees]).T
    assert q.sum() == pytest.approx(1.0, abs=1e-12)
    expected = q * np.minimum(1.0, w / w[:, None])
    np.fill_diagonal(expected, 0.0)
    np.fill_diagonal(expected, 1.0 - expected.sum(axis=1))
    twin = ParticleGibbs(problem, 2, ess_threshold=0.0, final="forced", proposal="optimal", cells=cells)
    np.testing.assert_allclose(transition_matrix(twin, post.trees), expected, atol=1e-12)


# ---------------------------------------------------------------- the proposals
@pytest.mark.parametrize("option", [o for o in OPTIMAL if o not in ("subtree-prior", "subtree")])
@pytest.mark.parametrize("name", ["line", "ties", "weighted", "grid", "cube"])
def test_factors_give_back_the_prior(name, option):
    """The sum of q P / q over the dimensions looked at is the prior of each decision, at every node."""
    problem = PROBLEMS[name]()
    cells, options = OPTIMAL[option]
    proposal = OptimalProposal(problem, cells_of_width(problem, *cells), options.get("subset"),
                               options.get("prior_share", 0.0))
    for node in {n for tree in problem.posterior().trees for n in nodes_of(problem, tree)}:
        p = problem.split_probability(node.rows, node.depth)
        found = {}
        for (rule, log_ratio, _), q in outcomes(lambda random, n=node: proposal.propose(n, random)).items():
            found[rule] = found.get(rule, 0.0) + q * math.exp(log_ratio)
        expected = {rule: p * share for rule, share in problem.rules(node.rows).items()} | {None: 1.0 - p}
        assert found == pytest.approx(expected, abs=1e-12)


def test_order_of_draws():
    """Dimensions by rejection, the stored one first; share; stop, then cells; the gap inside its cell."""
    problem = PROBLEMS["cube"]()
    root = nodes_of(problem, None)[0]
    part = root._replace(rows=(1, 2))           # dimension 1 is invalid there
    proposal = OptimalProposal(problem, cells_of_width(problem, 2, 1), subset=2, prior_share=0.25)
    assert proposal.subset(root, scripted([0.7, 0.6])) == (2, 1)
    assert proposal.subset(root, scripted([0.7]), (0, 1)) == (0, 2)
    assert proposal.subset(part, scripted([0.5, 0.99, 0.0])) == (2, 0)
    assert proposal.subset(part, scripted([0.1, 0.9]), (2, 0)) == (2, 0)
    # From the prior: split as .1 is below p_s = .9, second of the dimensions, and the lower of its gaps .3 and .7.
    source = scripted([0.2, 0.1, 0.5, 0.2])
    assert proposal.propose(root, source, (1, 2))[0] == (2, 0) and source.n_used == 4
    source = scripted([0.2, 0.95])
    assert proposal.propose(root, source, (1, 2))[0] is None and source.n_used == 2
    # From the weights: one uniform for the cell; a rule takes another one for the gap.
    source = scripted([0.25, 0.0])
    assert proposal.propose(root, source, (1, 2))[0] is None and source.n_used == 2
    source = scripted([0.25, 0.999999, 0.31])
    assert proposal.propose(root, source, (1, 2))[0] == (2, 1) and source.n_used == 3
    stuck = root._replace(rows=(1,))
    for p in (proposal, PriorProposal(problem)):
        assert p.log_ratio(stuck, None, scripted([])) == (0.0, 0)
    assert proposal.propose(stuck, scripted([])) == (None, 0.0, 0)


def test_only_weights_that_rules_use_make_weights_unequal():
    """The third column is constant: its weight is that of no candidate. Unequal ones draw the subset."""
    X, y = [[0.0, 1.0, 7.0], [1.0, 0.0, 7.0], [2.0, 3.0, 7.0]], [0.1, -0.2, 0.3]
    root = nodes_of(Problem(X, y, 1.0, 1.0), None)[0]
    for weights, looked in (((1, 1, 2), (1,)), ((1.9, 1, 1), (0,))):
        proposal = OptimalProposal(Problem(X, y, 1.0, 1.0, dim_weights=weights), subset=1)
        assert proposal.subset(root, scripted([0.6])) == looked


def test_the_root_shares_its_dimensions_with_the_clamped_particle():
    """With one dimension looked at, no free particle splits a root on another one than the clamped particle."""
    problem = PROBLEMS["triple"]()
    for option in ("subset-1", "mixed"):
        law = make_twin(problem, 2, option, FEW[0]).law((0, 1, None, None))
        assert {tree[0] for tree in law if tree} == {0} and len(law) > 3


def test_slot_leaves_the_tree_at_a_leaf():
    problem, tree = PROBLEMS["line"](), (0, 1, None, (0, 2, None, None))
    law = outcomes(lambda random: draw_slot(problem, tree, 0.6, random))
    assert {node and node.path: p for node, p in law.items()} == pytest.approx(
        {"": 0.4, "L": 0.12, "R": 0.12, "RL": 0.036, "RR": 0.036, None: 0.288})
    assert all(node is None or node.depth == len(node.path) for node in law)


def test_local_rejects_only_where_a_child_cannot_split():
    """With every gap its own cell, from each tree and over every draw."""
    seen = set()
    for name in ("line", "ties", "cube", "long_line"):
        problem = PROBLEMS[name]()
        twin = Local(problem)
        for tree in problem.posterior().trees:
            stuck = any(n.tree is None and n.path and not problem.can_split(n.rows) for n in nodes_of(problem, tree))
            for result in outcomes(lambda random, t=tree, w=twin: w.step(t, random)):
                seen.add((stuck, result.log_ratio < -1e-9))
                assert stuck or result.log_ratio > -1e-9
    assert (True, True) in seen and (False, False) in seen


def test_row_visits_by_hand():
    """Two rows: each decision weighs them once, a split drawn and a split replayed ask them once more."""
    problem = PROBLEMS["pair"]()
    split = (0, 0, None, None)
    twin = ParticleGibbs(problem, 2, proposal="optimal")
    for tree, cost in ((None, 4), (split, 6)):
        visits = {r.row_visits for r in outcomes(lambda random, t=tree: twin.step(t, random))}
        assert visits == {cost, cost + 2}
    twin = ParticleGibbs(problem, 2, proposal="optimal", region="subtree")
    assert {r.row_visits for r in outcomes(lambda random: twin.step(split, random))} == {0, 6, 8}
    assert {r.row_visits for r in outcomes(lambda random: Local(problem, descend=0.5).step(None, random))} == {0, 2}


# ---------------------------------------------------------------- the cells contain what they are for
@pytest.mark.parametrize("width, place", sorted({cells for cells, _ in [*OPTIMAL.values(), *LOCAL.values(),
                                                                *RECUT.values()]}))
def test_cells_cover_every_gap_once(width, place):
    for make in PROBLEMS.values():
        problem = make()
        for (first, rep), values in zip(cells_of_width(problem, width, place), problem.values, strict=True):
            assert first[0] == 0 and first[-1] == len(values) - 1 and len(first) == len(rep) + 1
            assert all(a <= r < b for a, b, r in zip(first, first[1:], rep, strict=False))
    assert singletons(PROBLEMS["line"]()) == [([0, 1, 2, 3], [0, 1, 2])]


@pytest.mark.parametrize("name, width, place", [("line", 2, 0), ("line", 2, 1), ("cube", 2, 1), ("long_line", 3, 1)])
def test_some_cells_are_weighed_outside_the_node(name, width, place):
    problem = PROBLEMS[name]()
    cells = cells_of_width(problem, width, place)
    proposal = OptimalProposal(problem, cells)
    nodes = {n for tree in problem.posterior().trees for n in nodes_of(problem, tree) if problem.can_split(n.rows)}
    outside = 0
    for node, (dim, (_, rep)) in product(nodes, enumerate(cells)):
        low, high = problem.code_range(node.rows, dim)
        within = [proposal.cell_within(node.rows, dim, k) for k in range(len(rep))]
        outside += sum(c.low < c.high and not low <= r < high for c, r in zip(within, rep, strict=True))
    assert outside > 0


def test_some_nodes_of_the_cube_lose_a_dimension():
    problem = PROBLEMS["cube"]()
    sizes = {len(problem.valid_dims(n.rows)) for tree in problem.posterior().trees for n in nodes_of(problem, tree)
             if problem.can_split(n.rows)}
    assert sizes == {2, 3}
    assert any(len(list(bfs(tree))) == 5 for tree in problem.posterior().trees)
