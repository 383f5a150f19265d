"""Slide: exact transition matrices of one node's cut, the compiled kernel beside its twin, and what stays invariant."""

import os

import numpy as np
import pytest
from checks import check_nodes, check_partition
from compiled import make_pair, make_params, make_state, script_of
from laws import g_test
from oracle import Problem, bfs, depth_of, replace_at
from scipy import stats
from test_one_step import LEVEL
from test_twins_compiled import check_step
from tiny import PROBLEMS
from twin_random import from_generator
from twin_slide import DEEPEST, MUTANTS, Slide, read

import bart
from bart.samplers import draw_leaf_values

pytestmark = pytest.mark.kernel


# ------------------------------------------------------------------------------------- the matrix of one node's cuts


def lattice(**options):
    """Nine rows: a column of steps, one with ties, one without; trees three levels deep and more."""
    X = np.column_stack([[0.0, 0.3, 0.9, 1.0, 1.6, 2.0, 3.1, 3.3, 4.0], [0, 1, 2, 0, 1, 2, 0, 1, 4],
                         [0.2, 0.9, 0.1, 0.5, 0.7, 0.0, 0.4, 0.3, 1.5]])
    target = [0.5, -0.7, 0.9, 0.1, -1.1, 0.3, 0.8, -0.2, 0.4]
    return Problem(X, target, 0.6, 0.5, 0.1, alpha=0.95, beta=0.4, **options)


MADE = {
    "width": lattice,
    "weights": lambda: lattice(dim_weights=(3, 0.5, 1), weights=(0.3, 4, 1, 0.7, 2, 1, 0.1, 3, 1)),
    "quantile": lambda: lattice(cuts="quantile", n_cuts=4),
    "quantile-weights": lambda: lattice(cuts="quantile", n_cuts=5, dim_weights=(1, 2, 5),
                                         weights=(0.3, 4, 1, 0.7, 2, 1, 0.1, 3, 1)),
    "steps": lambda: lattice(cuts="grid", n_cuts=6),
}
ENUMERATED = ("line", "plane", "ties", "grid", "weighted", "terrace", "precise_ties", "tiles")


def make_problem(name):
    return MADE[name]() if name in MADE else PROBLEMS[name]()


def some_trees(problem, name, rng):
    """Trees of two levels and more."""
    if name not in MADE:
        deep = [tree for tree in problem.posterior().trees if depth_of(tree) > 1]
        return [deep[i] for i in rng.permutation(len(deep))[:12]]
    state, trees = make_state(problem), []
    for n_leaves in (3, 3, 4, 4, 5, 6, 7, 9):
        state.overgrow(n_leaves, rng)
        trees.append(state.structure)
    return trees


def values_of(problem, tree, rng):
    """Leaf values from their prior, by path."""
    return {path: problem.leaf_mean + problem.leaf_var**0.5 * rng.standard_normal()
            for path, node in bfs(tree) if node is None}


def fit_of(problem, tree, values, path="", rows=None):
    """The tree's value at each row, row by row."""
    rows = problem.all_rows if rows is None else rows
    if tree is None:
        return dict.fromkeys(rows, values[path])
    left, right = problem.divide(rows, *tree[:2])
    return (fit_of(problem, tree[2], values, path + "L", left)
            | fit_of(problem, tree[3], values, path + "R", right))


def residual_of(problem, tree, values):
    fit = fit_of(problem, tree, values)
    return np.array([problem.target[n] - fit[n] for n in problem.all_rows])


def log_density(problem, tree, values, temperature):
    """Log of prior of the tree times likelihood given its leaf values, up to a constant: by the oracle alone."""
    log_joint = problem.log_joint(tree)
    if log_joint == -np.inf:
        return -np.inf
    log_prior = log_joint - sum(problem.log_likelihood(rows) for rows, _ in problem.leaves(tree))
    r = residual_of(problem, tree, values)
    return log_prior - temperature / (2 * problem.sigma2) * sum(problem.weight(n) * r[n] ** 2 for n in problem.all_rows)


def node_matrix(problem, tree, path, twin, values):
    """(places of the cuts that the node may have, pi over them, the twin's matrix)."""
    node = dict(bfs(tree))[path]
    grid, _ = twin.row(tree, values, residual_of(problem, tree, values), path)
    changed = [replace_at(tree, path, (node[0], code, *node[2:])) for code in grid]
    logs = np.array([log_density(problem, other, values, twin.temperature) for other in changed])
    places = np.flatnonzero(logs > -np.inf)
    pi = np.exp(logs[places] - logs.max())
    rows = [twin.row(changed[i], values, residual_of(problem, changed[i], values), path)[1] for i in places]
    return places, pi / pi.sum(), np.array(rows)


def matrices(name, rng, **options):
    """Those of every internal node of some trees, leaf values drawn."""
    problem = make_problem(name)
    twin = Slide(problem, **options)
    for tree in some_trees(problem, name, rng):
        values = values_of(problem, tree, rng)
        for path, node in bfs(tree):
            if node is not None:
                yield (node, twin, *node_matrix(problem, tree, path, twin, values))


def error_of(places, pi, matrix):
    """Largest |pi K - pi|, or what leaves the support."""
    out = np.zeros(matrix.shape[1])
    out[places] = pi
    return abs(pi @ matrix - out).max()


@pytest.mark.parametrize("n_gaps, n_rows, temperature", [(2, 1, 1.0), (3, 4, 0.3), (16, 64, 1.0)])
@pytest.mark.parametrize("name", [*MADE, *ENUMERATED])
def test_one_slide_leaves_the_cuts_law_invariant(name, n_gaps, n_rows, temperature, rng):
    """pi K = pi to 1e-12 for each node, and a step from each cut to every other that shares a window with it: so it is
    irreducible where no more cuts in a row leave a leaf empty than a window holds."""
    wide = 0
    for node, twin, places, pi, matrix in matrices(name, rng, n_gaps=n_gaps, n_rows=n_rows, temperature=temperature):
        assert abs(matrix.sum(axis=1) - 1).max() < 1e-12
        assert error_of(places, pi, matrix) < 1e-12
        inside = matrix[:, places]
        width = twin.width(matrix.shape[1])
        assert ((inside > 0) == (abs(places[:, None] - places) < width)).all()
        wide += len(places) > 2 and node[2:] != (None, None)
    assert wide or name in ENUMERATED


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_matrix_sees_errors(mutant, rng):
    worst = max(error_of(*found) for _, _, *found in matrices("weights", rng, n_gaps=3, n_rows=4, mutant=mutant))
    assert worst > 1e-4


# ------------------------------------------------------------------------------------------ compiled beside its twin


def random_problem(kind, rng):
    """Columns with ties, without and constant, and whatever the kind adds; 30 rows or so."""
    n = int(rng.integers(20, 45))
    X = np.column_stack([rng.random(n), rng.integers(0, 4, n) ** 1.5, np.full(n, 2.5),
                         rng.random(9)[rng.integers(0, 9, n)], np.exp(3 * rng.random(n))])
    weights = np.exp(rng.uniform(-2, 2, n)) if "weights" in kind else None
    cuts = {"cuts": "quantile", "n_cuts": int(rng.integers(3, 12))} if "quantile" in kind else {}
    dims = rng.integers(1, 4, 5) * (np.arange(5) != 4) if "dims" in kind else None
    return Problem(X, rng.standard_normal(n), np.exp(rng.normal(0, 0.5)), 0.3, 0.1, alpha=0.95, beta=0.5,
                   weights=weights, dim_weights=dims, **cuts)


def make_ensemble(problem, n_trees, rng, leaves=None, structures=None, temperature=1.0):
    """Trees of random rules or those given, with leaf values of the prior."""
    cuts = {} if problem.cuts == "width" else {"cuts": problem.cuts, "n_cuts": problem.n_cuts}
    model = bart.Model(problem.X, problem.target, n_trees=n_trees, alpha=problem.alpha, beta=problem.beta, scale=False,
                       sigma=problem.sigma2**0.5, leaf_mean=problem.leaf_mean, leaf_var=problem.leaf_var,
                       weights=problem.weights, dim_weights=problem.dim_weights, **cuts)
    ensemble = bart.Ensemble(model, bart.Cycle(bart.GrowPrune(), bart.Slide(every=1)), rng)
    ensemble.temperature = temperature
    for i, state in enumerate(ensemble.trees):
        if structures is None:
            state.overgrow(int(rng.integers(1, leaves + 1)) if n_trees > 1 else leaves, rng)
        else:
            state.structure = structures[i]
        state.leaf_values = problem.leaf_mean + problem.leaf_var**0.5 * rng.standard_normal(state.n_leaves)
    ensemble.recompute_residual()
    return ensemble


def check_ensemble(problem, ensemble):
    """Counts, labels and whatever is kept of nodes are those of the structures, the residual that of the trees."""
    for state in ensemble.trees:
        check_nodes(problem, state.dump())
        check_partition(problem, state.structure, state.leaf_of_row)
        again = make_state(problem, state.structure)
        assert sorted(again.leaf_counts()) == sorted(state.leaf_counts())
    fit = sum(state.fit() for state in ensemble.trees)
    np.testing.assert_allclose(ensemble.residual, ensemble._kernel.y - fit, rtol=0, atol=1e-10)


def compare(problem, ensemble, seed, window, n_times=3):
    """Slides of both from one generator; how often a cut moved."""
    twin, n_moved = Slide(problem, *window, ensemble.temperature), 0
    part = bart.Slide(1, *window)
    first, second = np.random.default_rng(seed), np.random.default_rng(seed)
    for _ in range(n_times):
        trees, values, numbers = zip(*map(read, ensemble.trees), strict=True)
        new, residual = twin.sweep(trees, values, ensemble.residual.copy(), from_generator(second))
        part.redraw(ensemble._kernel, first)
        assert ensemble.structures() == new
        assert first.bit_generator.state == second.bit_generator.state
        np.testing.assert_allclose(ensemble.residual, residual, rtol=0, atol=1e-10)
        for state, tree, of_tree, number in zip(ensemble.trees, new, values, numbers, strict=True):
            labels = twin.fit(tree, "", number, np.arange(problem.n_rows))
            np.testing.assert_array_equal(state.leaf_of_row, labels)
            assert read(state)[1] == of_tree
        check_ensemble(problem, ensemble)
        n_moved += sum(a[1] != b[1] for old, tree in zip(trees, new, strict=True)
                       for (_, a), (_, b) in zip(bfs(old), bfs(tree), strict=True) if a)
    return n_moved


@pytest.mark.parametrize("window", [(2, 1), (3, 7), (16, 64)], ids=str)
@pytest.mark.parametrize("kind", ["plain", "weights", "dims", "quantile", "quantile-weights-dims"])
def test_the_compiled_kernel_slides_as_its_twin(kind, window, rng):
    """Then other moves on the trees that it leaves, ratios compared: they read what is kept of nodes."""
    n_moved = 0
    for temperature in (1.0, 0.2, 1.0, 0.5):
        problem = random_problem(kind, rng)
        ensemble = make_ensemble(problem, 4, rng, leaves=9, temperature=temperature)
        n_moved += compare(problem, ensemble, int(rng.integers(2**32)), window)
        for name in ("growprune", "cgm", "perturb", "rotate", "splice"):
            state = ensemble.trees[0]
            sampler, twin = make_pair(problem, name)
            check_step(state, sampler, twin, state.structure, script_of(rng, 400))
            check_nodes(problem, state.dump())
    assert n_moved > 5


@pytest.mark.parametrize("n", range(1, 9))
def test_tiny_data(n, rng):
    for _ in range(10):
        X = np.column_stack([rng.random(n), rng.integers(0, 3, n)])
        problem = Problem(X, rng.standard_normal(n), 0.5, 0.5, alpha=0.95, beta=0.5)
        window = rng.integers(2, 65, 2).tolist()
        compare(problem, make_ensemble(problem, 2, rng, leaves=n), int(rng.integers(2**32)), window)


@pytest.mark.parametrize("weighted", [False, True])
def test_labels_of_two_bytes(weighted, rng):
    n = 1200
    problem = Problem(np.column_stack([rng.random(n), rng.random(n), rng.integers(0, 40, n)]), np.zeros(n), 2.0, 0.3,
                      alpha=0.97, beta=0.1, weights=np.exp(rng.standard_normal(n)) if weighted else None)
    ensemble = make_ensemble(problem, 1, rng, leaves=300)
    assert ensemble.trees[0].n_leaves == 300
    assert compare(problem, ensemble, int(rng.integers(2**32)), (2, 64) if weighted else (100, 1), n_times=2) > 30


@pytest.mark.parametrize("n_deep", [11, 12, 13, 20])
def test_nodes_above_very_deep_ones_stay(n_deep, rng):
    """A chain of rules: nothing moves where the last leaf is deeper than the kernel goes, nor above it."""
    problem = Problem(np.column_stack([np.arange(120.0), np.arange(120) % 2]), np.zeros(120), 4.0, 0.3, alpha=0.95,
                      beta=0.1)
    deep = None
    for depth in range(n_deep - 1, 0, -1):
        deep = (0, 100 - 4 * depth, deep, None)
    tree = (1, 0, deep, (0, 60, (0, 30, None, None), None))
    ensemble = make_ensemble(problem, 2, rng, structures=[tree, (0, 50, None, (1, 0, None, None))])
    assert depth_of(tree) == n_deep and (n_deep <= DEEPEST) == (n_deep < 13)
    moved = compare(problem, ensemble, int(rng.integers(2**32)), (16, 64), n_times=6)
    assert moved > 6
    assert (ensemble.trees[0].structure[2] == deep) == (n_deep > DEEPEST)


# -------------------------------------------------------------------------------------------------------- invariance

SIX = [[0.0], [1.0], [1.7], [2.5], [3.3], [4.1]]
# Little enough to say that trees leave room for cuts to slide.
EXACT = {
    "line": lambda: Problem(SIX, [0.9, 0.7, 0.3, -0.8, -0.7, -1.0], 0.5, 1.0, alpha=0.95, beta=1.0),
    "weights": lambda: Problem(SIX, [1, 1, -1, -1, 1, 1], 0.6, 1.0, alpha=0.95, beta=1.0,
                               weights=(0.4, 3.0, 1.0, 0.6, 4.0, 0.5)),
    "terrace": PROBLEMS["terrace"],
    "quantile": lambda: Problem([[0.0, 0.0], [0.1, 1.0], [0.4, 0.4], [0.9, 0.3], [1.0, 0.45], [1.2, 0.7]],
                                [1, 1, -1, -1, 1, 1], 0.6, 1.0, alpha=0.95, beta=0.8, cuts="quantile", n_cuts=3),
}


def count_slides(problem, post, n, window, rng):
    """Counts by tree and thirds of its first and last leaf value given the tree, after three slides from exact draws.

    These thirds are equally probable given the tree and independent: slides that weigh rows wrongly show in them.
    """
    ensemble = make_ensemble(problem, 1, rng, leaves=1)
    kernel, state, part = ensemble._kernel, ensemble.trees[0], bart.Slide(1, *window)
    target, params = np.array(problem.target), make_params(problem)
    counts, laws = np.zeros((post.n_trees, 3, 3)), {}
    edge = stats.norm.ppf(1 / 3)

    def thirds(tree):
        if tree not in laws:
            leaves = {path: rows for (rows, _), path in zip(problem.leaves(tree), leaf_paths(tree), strict=True)}
            laws[tree] = [(path, problem.leaf_posterior_mean(rows), 1 / problem.leaf_var + problem.weighed(rows)[1]
                           / problem.sigma2) for path, rows in leaves.items()]
        return laws[tree]

    for i, many in enumerate(rng.multinomial(n, post.p)):
        tree = post.trees[i]
        numbers = None
        for _ in range(many):
            if numbers is None or state.structure != tree:
                state.structure = tree
                numbers = read(state)[2]
            draw_leaf_values(state, target, params, rng)
            ensemble.recompute_residual()
            for _ in range(3):
                part.redraw(kernel, rng)
            new, values = state.structure, state.leaf_values
            ends = [thirds(new)[end] for end in (0, -1)]
            z = [(values[numbers[path]] - mean) * precision**0.5 for path, mean, precision in ends]
            cell = [int(x > edge) + int(x > -edge) for x in z]
            counts[post.index[new], cell[0], cell[1]] += 1
    return counts


def leaf_paths(tree, path=""):
    """Paths of the leaves, left to right."""
    return [path] if tree is None else leaf_paths(tree[2], path + "L") + leaf_paths(tree[3], path + "R")


def exact_cells(post):
    """A lone leaf is the first and the last one."""
    cells = np.full((post.n_trees, 3, 3), 1 / 9) * post.p[:, None, None]
    cells[post.index[None]] = np.eye(3) / 3 * post.p[post.index[None]]
    return cells


@pytest.mark.parametrize("name, window", [*((name, (16, 64)) for name in EXACT), ("weights", (2, 1))],
                         ids=[*EXACT, "two gaps"])
def test_slides_from_an_exact_draw_of_tree_and_values(name, window, rng):
    problem = EXACT[name]()
    post = problem.posterior()
    for n in (12_000, 120_000):             # a failure counts if it repeats with ten times the draws
        p = g_test(count_slides(problem, post, n, window, rng).ravel(), exact_cells(post).ravel())
        if p > LEVEL or os.environ.get("BART_MUTANT"):
            break
    assert p > LEVEL


# --------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("make, message", [
    (lambda: bart.Slide(every=0), "every must be at least 1"),
    (lambda: bart.Slide(n_rows=0), "n_rows must be at least 1"),
    (lambda: bart.Slide(n_gaps=1), "n_gaps must be at least 2"),
    (lambda: bart.Cycle(bart.Slide()), "Slide .*a Cycle has a sampler of trees before it"),
    (lambda: bart.Cycle(bart.Slide(), bart.CGM()), "Slide acts between sweeps and comes last"),
    (lambda: bart.Mixture(bart.CGM(), bart.Slide()), r"parts\[1\]: Slide acts between sweeps"),
    (lambda: bart.Mixture(bart.Cycle(bart.CGM(), bart.Slide()), bart.CGM()), r"parts\[0\]: Slide acts between"),
])
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_it_needs_an_ensemble(rng):
    model = bart.Model([[0.0], [1.0], [2.0]], [0.0, 1.0, 3.0], n_trees=2)
    with pytest.raises(ValueError, match="Slide .*behind a sampler of trees"):
        bart.Ensemble(model, bart.Slide(), rng)
    with pytest.raises(ValueError, match="a step on one tree cannot"):
        bart.Cycle(bart.CGM(), bart.Slide()).step(bart.TreeState(model.codes, model.tree_prior),
                                                  model.dataset.y_scaled, bart.StepParams(1, 1), rng)
