"""Every compiled sampler decides as its slow twin does, uniform by uniform."""

import math
from collections import Counter
from itertools import product

import numpy as np
import pytest
from bart.kernels.testing import ScriptedBitGenerator, ancestors, final_index
from checks import check_no_empty_leaf, check_nodes, check_partition, check_size, check_support
from compiled import (
    COMPOSED,
    both_step,
    cells_of,
    make_pair,
    make_params,
    make_state,
    script_of,
    staged_paths,
    stuck_staged,
)
from oracle import Problem
from tiny import PROBLEMS
from twin_particles import ParticleGibbs
from twin_random import scripted
from twin_resampling import SCHEMES

pytestmark = pytest.mark.kernel

SAMPLERS = {
    "growprune": ("growprune", {}),
    "growprune-.3": ("growprune", {"p_grow": 0.3}),
    "growprune-authors": ("growprune", {"bookkeeping": "authors"}),
    "cgm": ("cgm", {}),
    "cgm-unequal": ("cgm", {"move_probs": (0.25, 0.25, 0.40, 0.10)}),
    "cgm-authors": ("cgm", {"bookkeeping": "authors"}),
    "perturb": ("perturb", {}),
    "rotate": ("rotate", {}),
    "splice": ("splice", {}),
    "reroute": ("reroute", {}),
    "pg-1": ("pg", {"n_particles": 1}),
    "pg-2": ("pg", {"n_particles": 2}),
    "pg-authors": ("pg", {"n_particles": 4, "bookkeeping": "authors"}),
    "pg-authors-2-forced": ("pg", {"n_particles": 2, "bookkeeping": "authors", "final": "forced"}),
} | {f"pg-{c}-{scheme}-{t}-{final}": ("pg", {"n_particles": c, "resampling": scheme, "ess_threshold": t,
                                             "final": final})
     for (c, t), scheme, final in product([(2, 0.9), (3, None), (5, 0.5), (10, None), (4, 0.0)], SCHEMES,
                                          ("plain", "forced")) if t != 0 or scheme == "multinomial"}
OPTIMAL = {"n_particles": 2, "proposal": "optimal"}
SAMPLERS |= {
    "pg-optimal": ("pg", OPTIMAL),
    "pg-optimal-1": ("pg", OPTIMAL | {"n_particles": 1}),
    "pg-optimal-cells": ("pg", OPTIMAL | {"n_bins": 3, "final": "forced"}),
    "pg-optimal-one-cell": ("pg", OPTIMAL | {"n_bins": 2, "ess_threshold": 0.9}),
    "pg-optimal-subset-1": ("pg", OPTIMAL | {"n_particles": 5, "subset": 1, "ess_threshold": 0.5}),
    "pg-optimal-subset-2": ("pg", OPTIMAL | {"n_particles": 3, "subset": 2, "n_bins": 3, "resampling": "killing"}),
    "pg-optimal-subset-9": ("pg", OPTIMAL | {"subset": 9}),
    "pg-optimal-share": ("pg", OPTIMAL | {"n_particles": 4, "prior_share": 0.3, "n_bins": 3}),
    "pg-optimal-mixed": ("pg", OPTIMAL | {"n_particles": 10, "subset": 2, "prior_share": 0.5, "final": "forced",
                                          "resampling": "systematic", "ess_threshold": 0.5, "n_bins": 3}),
    "pg-subtree": ("pg", {"n_particles": 3, "region": "subtree"}),
    "pg-subtree-1": ("pg", {"n_particles": 1, "region": "subtree"}),
    "pg-subtree-forced": ("pg", {"n_particles": 5, "region": "subtree", "descend": 0.8, "resampling": "systematic",
                                 "ess_threshold": 0.5, "final": "forced"}),
    "pg-subtree-optimal": ("pg", OPTIMAL | {"region": "subtree", "ess_threshold": 0.0, "final": "forced"}),
    "pg-subtree-optimal-mixed": ("pg", OPTIMAL | {"n_particles": 3, "region": "subtree", "descend": 0.8, "subset": 1,
                                                  "prior_share": 0.3, "n_bins": 3, "resampling": "killing"}),
    "pg-subtree-optimal-16": ("pg", OPTIMAL | {"region": "subtree", "prior_share": 0.1, "n_bins": 17}),
    "local": ("local", {}),
    "local-candidates": ("local", {"n_bins": 3, "subset": 1}),
    "local-cells": ("local", {"n_bins": 3}),
    "local-subset-1": ("local", {"subset": 1, "descend": 0.7}),
    "local-subset-2": ("local", {"subset": 2, "n_bins": 3, "descend": 0.3}),
    "local-16": ("local", {"n_bins": 17, "descend": 0.7}),
    "recut": ("recut", {"subset": None}),
    "recut-cells": ("recut", {"subset": None, "n_bins": 3}),
    "recut-one-cell": ("recut", {"subset": None, "n_bins": 2}),
    "recut-subset-1": ("recut", {}),
    "recut-subset-2": ("recut", {"subset": 2, "n_bins": 3}),
    "recut-16": ("recut", {"subset": 9, "n_bins": 17}),
    "transpose": ("transpose", {}),
    "transpose-cells": ("transpose", {"n_bins": 3}),
    "transpose-16": ("transpose", {"n_bins": 17}),
} | COMPOSED
RULES_ALONE = ("perturb", "rotate", "recut", "transpose", "reroute")    # which never grow a stump


def check_step(state, sampler, twin, tree, uniforms, staged=frozenset()):
    """One step of each; returns what the twin arrived at."""
    info, used, result, twin_used = both_step(state, sampler, twin, tree, uniforms, staged)
    assert state.structure == result.tree
    assert used == twin_used
    assert info.move == result.move
    assert info.n_stages == result.n_stages
    roots_differ = (tree and tree[:2]) != (result.tree and result.tree[:2])
    assert info.changed == (tree != result.tree if result.changed is None else result.changed)
    assert info.root_changed == (roots_differ if result.root_changed is None else result.root_changed)
    assert info.n_leaves == state.n_leaves
    assert info.row_visits == result.row_visits
    if math.isfinite(result.log_ratio):
        assert info.log_ratio == pytest.approx(result.log_ratio, abs=1e-9, rel=1e-9)
    problem = twin.problem
    check_size(result.tree, state.n_leaves, state.depth)
    check_partition(problem, result.tree, state.leaf_of_row)
    if isinstance(twin, ParticleGibbs):
        assert stuck_staged(problem, result.tree, staged_paths(state)) == result.staged
    return result


def run_chain(problem, kind, options, rng, n_steps, tree=None):
    """Compiled sampler and twin side by side from one tree, each step on a fresh stretch of uniforms."""
    sampler, twin = make_pair(problem, kind, **options)
    state, staged, trees = make_state(problem, tree, options.get("n_bins")), frozenset(), []
    n_particles = options.get("n_particles", 3 * len(options.get("parts", [0])))
    length = 40 * n_particles * (problem.n_rows + problem.n_dims) + 100
    for _ in range(n_steps):
        result = check_step(state, sampler, twin, tree, script_of(rng, length), staged)
        tree, staged = result.tree, result.staged
        trees.append(tree)
    check_support(problem, tree)
    check_no_empty_leaf(problem, tree)
    return trees


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_from_enumerated_trees(sampler, name, rng):
    """From up to 25 trees of each tiny problem, two steps each."""
    problem = PROBLEMS[name]()
    trees = problem.posterior().trees
    kind, options = SAMPLERS[sampler]
    for i in rng.permutation(len(trees))[:25]:
        run_chain(problem, kind, options, rng, 2, trees[i])


@pytest.mark.parametrize("sampler", [name for name in SAMPLERS if SAMPLERS[name][0] not in RULES_ALONE])
def test_chains_move(sampler, rng):
    """Along a chain, so that caches and marks left by one step are read by the next."""
    kind, options = SAMPLERS[sampler]
    seen = set()
    for name in ("line", "ties", "plane", "weighted", "grid"):
        trees = run_chain(PROBLEMS[name](), kind, options, rng, 40)
        seen |= {(name, tree) for tree in trees}
    assert len(seen) > 10 or options.get("n_particles") == 1


def run_cycle(problem, rng, n_rounds, tree=None):
    """Moves of rules between other moves, so that each reads the caches that the others left; how often each changed
    the tree."""
    kinds = ("growprune", "rotate", "splice", "recut", "transpose", "reroute", "perturb", "reroute", "cgm", "rotate")
    pairs = [*(make_pair(problem, kind) for kind in kinds), make_pair(problem, "recut", subset=None)]
    state, changed = make_state(problem, tree), Counter()
    for _ in range(n_rounds):
        for sampler, twin in pairs:
            result = check_step(state, sampler, twin, tree, script_of(rng, 40 * (problem.n_rows + problem.n_dims)))
            check_nodes(problem, state.dump())
            changed[result.move] += result.tree != tree
            tree = result.tree
    return changed


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name not in ("pair", "square", "unsplit_root")])
def test_moves_of_rules_in_a_cycle(name, rng):
    changed = run_cycle(PROBLEMS[name](), rng, 100)
    assert changed["grow"] and changed["perturb"] + changed["rotate"] and changed["insert"] and changed["delete"]


def whole_trees(kind, options):
    """Whether each step redraws the whole tree: few of them are many decisions."""
    return kind == "pg" and options.get("region", "tree") == "tree"


def random_problem(n, rng):
    """n rows in 1 to 4 columns: distinct, tied or constant; any prior."""
    # Tied values are not round numbers: a grid's cut equal to a value falls on either side by rounding.
    columns = [rng.random(n), rng.random(4)[rng.integers(0, 4, n)], np.full(n, 2.5),
               np.exp(3 * rng.random(n)), rng.random(11)[rng.integers(0, 11, n)]]
    chosen = rng.permutation(len(columns))[:rng.integers(1, 5)]
    X = np.column_stack([columns[i] for i in chosen])
    weights = rng.integers(0, 3, len(chosen)) + (np.arange(len(chosen)) == 0) if rng.random() < 0.5 else None
    cuts = {"cuts": "grid", "n_cuts": int(rng.integers(2, 30))} if rng.random() < 0.3 else {}
    sigma2, leaf_var = np.exp(rng.normal(-1, 1, 2))
    alpha, beta = rng.uniform(0.3, 0.97), rng.uniform(0.2, 2)
    return Problem(X, rng.standard_normal(n), sigma2, leaf_var, rng.normal(0, 0.3), alpha=alpha, beta=beta,
                   dim_weights=weights, **cuts)


@pytest.mark.parametrize("sampler", ["growprune", "cgm", "pg-3-multinomial-None-plain", "pg-authors",
                                     "pg-5-systematic-0.5-forced", "pg-10-killing-None-plain", "pg-optimal",
                                     "pg-optimal-subset-2", "pg-optimal-mixed", "pg-subtree-forced",
                                     "pg-subtree-optimal-mixed", "local", "local-subset-2", "splice",
                                     "cycle-pg-grow-cgm", "cycle-of-mixture"])
@pytest.mark.parametrize("n", range(1, 41))
def test_random_data(n, sampler, rng):
    kind, options = SAMPLERS[sampler]
    run_chain(random_problem(n, rng), kind, options, rng, 6 if whole_trees(kind, options) else 25)


@pytest.mark.parametrize("n", range(1, 41))
def test_random_data_in_a_cycle(n, rng):
    """From a tree of the prior."""
    problem = random_problem(n, rng)
    state = make_state(problem)
    state.draw_from_prior(rng)
    run_cycle(problem, rng, 15, state.structure)


@pytest.mark.parametrize("n", [300, 1500])
def test_larger_data_in_a_cycle(n, rng):
    """With little to say, so that moves are accepted."""
    problem = larger_problem(n, rng, 20.0)
    state = make_state(problem)
    state.overgrow(n // 10, rng)
    changed = run_cycle(problem, rng, 25, state.structure)
    assert all(changed[move] for move in ("perturb", "rotate", "insert", "delete", "recut", "shift")), changed
    assert changed["shed"] + changed["absorb"], changed


@pytest.mark.parametrize("n", [20, 100, 300])
@pytest.mark.parametrize("sampler", [name for name in SAMPLERS if name.startswith(("recut", "transpose"))])
def test_recut_and_transpose_of_large_trees(sampler, n, rng):
    """More leaves than factors are kept as a product, on either side of a rule."""
    kind, options = SAMPLERS[sampler]
    for problem in (larger_problem(n, rng, 20.0), random_problem(n, rng)):
        state = make_state(problem)
        state.overgrow(n // 5, rng)
        run_chain(problem, kind, options, rng, 12, state.structure)


def lattice(codes, dims):
    """The full tree with one rule at each depth."""
    if not dims:
        return None
    return dims[0], codes[dims[0]], *(lattice(codes, dims[1:]) for _ in range(2))


@pytest.mark.parametrize("n_bins", [None, 3, 17])
@pytest.mark.parametrize("n", [40, 300, 1500])
def test_transpose_of_lattices(n, n_bins, rng):
    """Trees whose every node above two others can be transposed, with little to say, so that it is."""
    problem = larger_problem(n, rng, 20.0)
    codes = [len(values) // 2 - 1 for values in problem.values]
    bins = {} if n_bins is None else {"n_bins": n_bins}
    for dims in ((0, 1), (1, 0, 2), (2, 0, 1)):
        tree = lattice(codes, dims)
        trees = run_chain(problem, "transpose", bins, rng, 40, tree)
        assert len({tree, *trees}) > 1


def halved(problem, rows, depth, k=0):
    """The dimensions by turns, each rule at the median of its rows, as deep as asked or as there are ranges."""
    dim = k % problem.n_dims
    low, high = problem.code_range(rows, dim)
    if k == depth or low == high:
        return None
    code = min(sorted(problem.codes[dim][n] for n in rows)[len(rows) // 2], high - 1)
    return dim, code, *(halved(problem, part, depth, k + 1) for part in problem.divide(rows, dim, code))


@pytest.mark.parametrize("weighted", [False, True])
def test_transpose_of_hundreds_of_leaves(weighted, rng):
    """Labels of two bytes: nodes and what is kept of their rows, after steps that moved and steps that did not."""
    n = 1200
    weights = np.exp(rng.standard_normal(n)) if weighted else None
    problem = Problem(np.column_stack([rng.random(n), rng.random(n)]), 0.3 * rng.standard_normal(n), 20.0, 0.2,
                      alpha=0.97, beta=0.1, weights=weights)
    sampler, _ = make_pair(problem, "transpose")
    state = make_state(problem, halved(problem, problem.all_rows, 9))
    n_leaves, n_changed = state.n_leaves, 0
    assert n_leaves > 256
    for _ in range(4):
        n_changed += sum(sampler.step(state, problem.target, make_params(problem), rng).changed for _ in range(150))
        check_nodes(problem, state.dump())
        check_partition(problem, state.structure, state.leaf_of_row)
    assert n_changed >= 20 and state.n_leaves == n_leaves


def larger_problem(n, rng, sigma2=0.5):
    """Enough rows for codes of two bytes, for row lists as well as predicates, and for their switch."""
    X = np.column_stack([rng.random(n), np.round(rng.random(n), 1), rng.integers(0, 2, n)])
    target = np.sin(6 * X[:, 0]) + X[:, 2] * X[:, 1] + 0.1 * rng.standard_normal(n)
    return Problem(X, target, sigma2, 0.2, alpha=0.97, beta=0.3)


@pytest.mark.parametrize("n", [300, 1500])
@pytest.mark.parametrize("sampler", ["growprune", "cgm", "pg-3-multinomial-None-plain", "pg-authors", "pg-subtree",
                                     "pg-subtree-optimal-16", "pg-optimal-mixed", "local-16", "splice"])
def test_larger_data(n, sampler, rng):
    kind, options = SAMPLERS[sampler]
    run_chain(larger_problem(n, rng), kind, options, rng, 4 if whole_trees(kind, options) else 40)


@pytest.mark.parametrize("n_bins", [None, 2, 3, 17])
@pytest.mark.parametrize("name", PROBLEMS)
def test_cells_cover_every_gap_once(name, n_bins):
    """At most `n_bins` - 1 of them, each with a gap of its own; every gap its own cell where there are few."""
    problem = PROBLEMS[name]()
    cells = zip(cells_of(make_state(problem, n_bins=n_bins)), problem.values, problem.dim_weights, strict=True)
    for (first, rep), values, weight in cells:
        n_gaps = len(values) - 1 if weight > 0 else 0
        assert len(first) == len(rep) + 1 and first[0] == 0 and first[-1] == n_gaps
        assert all(a <= r < b for a, b, r in zip(first, first[1:], rep, strict=False))
        if n_bins is None or n_gaps < n_bins:
            assert rep == list(range(n_gaps))
        else:
            assert 1 <= len(rep) <= n_bins - 1


# ---------------------------------------------------------------- resampling and the final index alone
def weight_vectors(rng):
    """Weights of 2 to 12 particles: even, skewed, with zeros, with all the weight on one."""
    for n in (2, 3, 5, 12):
        yield np.full(n, 1.0 / n)
        for concentration in (0.05, 1.0, 20.0):
            w = rng.dirichlet(np.full(n, concentration))
            yield w / w.sum()
        w = rng.random(n) * (rng.random(n) < 0.5)
        w[rng.integers(1, n)] += 0.1
        yield w / w.sum()
        for c in range(2):
            w = np.zeros(n)
            w[c] = 1.0
            yield w


@pytest.mark.parametrize("scheme", SCHEMES)
def test_ancestors(scheme, rng):
    for weights in weight_vectors(rng):
        for _ in range(50):
            uniforms = script_of(rng, 4 * len(weights) + 4)
            bits, source = ScriptedBitGenerator(uniforms), scripted(uniforms)
            drawn = ancestors(weights, scheme, bits.generator)[0].tolist()
            assert drawn == SCHEMES[scheme](weights.tolist(), source)
            assert bits.n_used == source.n_used


@pytest.mark.parametrize("final", ["plain", "forced"])
def test_final_index(final, rng):
    for weights in weight_vectors(rng):
        twin = ParticleGibbs(PROBLEMS["line"](), len(weights), final=final)
        for _ in range(50):
            uniforms = script_of(rng, 4)
            bits, source = ScriptedBitGenerator(uniforms), scripted(uniforms)
            assert final_index(weights, final == "forced", bits.generator)[0] == twin.final_index(
                weights.tolist(), source)
            assert bits.n_used == source.n_used
