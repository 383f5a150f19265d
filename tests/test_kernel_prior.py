"""No likelihood: with a noise so large, or a temperature so small, that y says nothing, samplers return the prior.

On six rows the prior is enumerated; on 200 rows it is drawn tree by tree by a slow recursion.
"""

import numpy as np
import pytest
from auto_choices import AUTO
from bart.kernels.forest import ForestStore
from bart.kernels.state import TreeState
from compiled import count_keys
from laws import g_test
from oracle import Problem, depth_of
from oracle import n_leaves as n_leaves_of
from scipy import stats

import bart

LEVEL = 1e-5
HUGE = 1e6
SAMPLERS = {
    "growprune": bart.GrowPrune(),
    "growprune-.3": bart.GrowPrune(0.3),
    "cgm": bart.CGM(),
    "cgm-unequal": bart.CGM((0.25, 0.25, 0.40, 0.10)),
    "pg": bart.ParticleGibbs(5),
    "pg-systematic": bart.ParticleGibbs(5, "systematic", 0.5, "forced"),
    "pg-killing": bart.ParticleGibbs(3, "killing"),
    "pg-optimal": bart.ParticleGibbs(3, proposal="optimal", subset=2, prior_share=0.2),
    "subtree-optimal": bart.ParticleGibbs(3, proposal="optimal", region="subtree", final="forced"),
    "local": bart.Local(),
    "local-slot": bart.Local(descend=0.7),
    "recut": bart.Cycle(bart.Local(subset=1), bart.Recut(subset=2)),
    "transpose": bart.Cycle(bart.CGM(), bart.Splice(), bart.Transpose()),
    "reroute": bart.Cycle(bart.CGM(), bart.Reroute()),
    "cycle": bart.Cycle(bart.Local(), bart.Perturb(), bart.Rotate(), bart.ParticleGibbs(4, region="subtree")),
} | AUTO
# Ties, and 0.41 and 0.45 lie between two of four cut points of the grid.
X6 = np.array([[0.0, 0.0, 1.0], [0.2, 0.41, 1.0], [0.9, 0.45, 1.0], [1.0, 1.0, 1.0], [2.5, 0.45, 2.0],
               [2.5, 1.0, 2.0]])
Y6 = np.array([-1.0, -0.6, 0.1, 0.3, 0.8, 1.0])
CUTS = {"width": {}, "grid": {"cuts": "grid", "n_cuts": 4}}


def make_model(X, y, n_trees=1, **options):
    """A model without data weight; leaf values are N(0.3, 2)."""
    options = {"alpha": 0.9, "beta": 0.5} | options
    return bart.Model(X, y, n_trees=n_trees, sigma=HUGE, leaf_mean=0.3, leaf_var=2.0, scale=False, **options)


def trees_of(store, n_dims):
    """Of each stored tree: leaves, depth of the deepest, internal nodes by dimension, index of its root."""
    nodes, starts = store.nodes, store.starts
    tree = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    depth = np.zeros(len(nodes), dtype=int)
    level = starts[:-1][nodes["dim"][starts[:-1]] >= 0]
    while level.size:
        left = starts[tree[level]] + nodes["left"][level]
        depth[left] = depth[left + 1] = depth[level] + 1
        level = np.concatenate([left, left + 1])
        level = level[nodes["dim"][level] >= 0]
    deepest = np.maximum.reduceat(depth, starts[:-1])
    by_dim = [np.add.reduceat((nodes["dim"] == d).astype(int), starts[:-1]) for d in range(n_dims)]
    leaves = np.add.reduceat((nodes["dim"] < 0).astype(int), starts[:-1])
    return leaves, deepest, np.array(by_dim).T, starts[:-1]


# ------------------------------------------------------------------------------------------------ six rows, exactly


def problem_of(cuts, dim_weights=None):
    return Problem(X6, np.zeros(6), 1e12, 1e-12, alpha=0.75, beta=1.0, dim_weights=dim_weights, **CUTS[cuts])


def six_rows(n_trees, cuts, dim_weights=None):
    return make_model(X6, Y6, n_trees, alpha=0.75, beta=1.0, dim_weights=dim_weights, **CUTS[cuts])


def check_law(ensemble, problem, n_sweeps):
    """The trees of an ensemble, independent without data weight, after enough sweeps from stumps: the law of leaves,
    depth, root dimension, root rule and of the whole tree."""
    law = problem.posterior()
    ensemble.run(n_sweeps)
    trees = ensemble.structures()
    views = {"tree": lambda tree: tree, "leaves": n_leaves_of, "depth": depth_of,
             "root dim": lambda tree: tree and tree[0], "root": lambda tree: tree and tree[:2]}
    for name, view in views.items():
        p, counts = {}, {}
        for tree, mass in zip(law.trees, law.p, strict=True):
            p[view(tree)] = p.get(view(tree), 0.0) + mass
        for tree in trees:
            counts[view(tree)] = counts.get(view(tree), 0) + 1
        assert counts.keys() <= p.keys(), f"{name}: outside the support"
        assert g_test([counts.get(cell, 0) for cell in p], list(p.values())) > LEVEL, name


def enough(sampler):
    """Local moves go one node at a time, and that at a random slot seldom comes to a deep one."""
    return 30 if sampler.startswith("pg") else 600 if sampler == "local-slot" else 120


@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_six_rows(sampler, cuts, rng):
    model = six_rows(3_000, cuts)
    check_law(bart.Ensemble(model, SAMPLERS[sampler], rng), problem_of(cuts), enough(sampler))


@pytest.mark.parametrize("sampler", ["growprune", "cgm", "pg", "pg-optimal", "local", "recut"])
def test_six_rows_with_weights(sampler, rng):
    model = six_rows(3_000, "width", (1, 0, 3))
    check_law(bart.Ensemble(model, SAMPLERS[sampler], rng), problem_of("width", (1, 0, 3)), enough(sampler))


@pytest.mark.parametrize("weights", [None, (1, 0, 3)])
@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("sampler", [bart.Perturb(), bart.Rotate(), bart.Recut(), bart.Recut(None)], ids=str)
def test_six_rows_stay_in_the_prior(sampler, cuts, weights, rng):
    """Moves that are not irreducible, from draws of the prior."""
    ensemble = bart.Ensemble(six_rows(20_000, cuts, weights), sampler, rng, init="prior")
    before = ensemble.structures()
    check_law(ensemble, problem_of(cuts, weights), 5)
    changed = sum(a != b for a, b in zip(before, ensemble.structures(), strict=True))
    # Above another rule each of the two columns has but one gap of the grid that leaves no side empty.
    can_move = sampler != bart.Recut() or cuts != "grid" or weights is None
    assert changed > 50 if can_move else changed == 0


@pytest.mark.parametrize("sampler", ["growprune", "cgm", "pg-systematic", "subtree-optimal", "local", "recut"])
def test_a_temperature_near_zero(sampler, rng):
    """The trees keep their prior, and so does sigma2: the gamma law of its inverse, draw by draw."""
    model = bart.Model(X6, Y6, n_trees=3_000, alpha=0.75, beta=1.0)
    ensemble, noise = bart.Ensemble(model, SAMPLERS[sampler], rng), model.noise_prior
    ensemble.temperature = 1e-12
    check_law(ensemble, problem_of("width"), enough(sampler))
    model = bart.Model(X6, Y6, n_trees=1)
    ensemble = bart.Ensemble(model, SAMPLERS[sampler], rng)
    ensemble.temperature = 1e-12
    precision = (model.dataset.y_range / ensemble.run(5_000)["sigma"]) ** 2
    assert stats.kstest(precision, stats.gamma(noise.shape, scale=1 / noise.rate).cdf).pvalue > LEVEL


@pytest.mark.parametrize("weights", [None, (1, 0, 3)])
@pytest.mark.parametrize("cuts", CUTS)
def test_draws_of_starts_follow_the_whole_law(cuts, weights, rng):
    """`draw_from_prior` over every enumerated tree."""
    problem = problem_of(cuts, weights)
    law = problem.posterior()
    model = six_rows(1, cuts, weights)
    counts = count_keys(TreeState(model.codes, model.tree_prior), lambda state: state.draw_from_prior(rng), 50_000)
    keys = [TreeState(model.codes, model.tree_prior, structure=tree).key() for tree in law.trees]
    assert sum(counts.get(key, 0) for key in keys) == 50_000, "a tree outside the support"
    assert g_test([counts.get(key, 0) for key in keys], law.p) > LEVEL


def test_overgrown_starts_have_the_leaves_asked_for(rng):
    """Or as many as the data allow, and stay in the support."""
    for cuts, weights in (("width", None), ("grid", None), ("width", (1, 0, 3))):
        problem = problem_of(cuts, weights)
        model = six_rows(1, cuts, weights)
        state = TreeState(model.codes, model.tree_prior)
        most = max(n_leaves_of(tree) for tree, _ in problem.enumerate())
        for wanted in (1, 2, 3, 4, 100):
            state.overgrow(wanted, rng)
            assert state.n_leaves == min(wanted, most) and np.isfinite(problem.log_joint(state.structure))


# ------------------------------------------------------------------------------------ leaf values and thresholds


@pytest.mark.parametrize("rule", ["uniform", "midpoint", "grid"])
@pytest.mark.parametrize("sampler", ["growprune", "cgm", "pg"])
def test_leaf_values_and_thresholds(sampler, rule, rng):
    """Both are drawn anew in each sweep, so independent ones: Kolmogorov-Smirnov, and a G-test on the grid."""
    options = CUTS["grid"] if rule == "grid" else {"threshold": rule}
    model = make_model(X6, Y6, n_trees=3, **options)
    store = ForestStore(3)
    bart.Ensemble(model, SAMPLERS[sampler], rng).run(3_000, store=store)
    nodes = store.nodes
    values = nodes["value"][nodes["dim"] < 0]
    assert stats.kstest((values - 0.3) / np.sqrt(2.0), "norm").pvalue > LEVEL
    for d in range(3):
        tau, distinct = nodes["value"][nodes["dim"] == d], model.codes.values[d]
        code = np.searchsorted(distinct, tau, side="right") - 1
        low, high = distinct[code], distinct[code + 1]
        assert ((low <= tau) & (tau < high)).all()
        if rule == "uniform":
            assert stats.kstest((tau - low) / (high - low), "uniform").pvalue > LEVEL
        elif rule == "midpoint":
            np.testing.assert_allclose(tau, (low + high) / 2, rtol=1e-15)
        else:
            grid = model.tree_prior.grid(distinct)
            assert np.isin(tau, grid).all()
            for g in np.unique(code):
                inside = grid[(distinct[g] <= grid) & (grid < distinct[g + 1])]
                counts = [(tau[code == g] == c).sum() for c in inside]
                assert g_test(counts, np.full(len(inside), 1 / len(inside))) > LEVEL


# --------------------------------------------------------------------------------------------------- 200 rows


def slow_prior_tree(X, model, rng):
    """(leaves, depth, splits by dimension) of one tree of the prior, by recursion over its rows."""
    prior, weights = model.tree_prior, model.tree_prior.dim_weights
    grids = [prior.grid(v) if prior.cuts == "grid" else None for v in model.codes.values]
    splits = np.zeros(X.shape[1], dtype=int)

    def grow(rows, depth):
        cuts = {}
        for d in range(X.shape[1]):
            low, high = X[rows, d].min(), X[rows, d].max()
            inside = None if grids[d] is None else grids[d][(low <= grids[d]) & (grids[d] < high)]
            possible = high > low if inside is None else inside.size > 0
            if possible and (weights is None or weights[d] > 0):
                cuts[d] = (low, high, inside)
        if not cuts or rng.random() >= prior.alpha * (1 + depth) ** -prior.beta:
            return 1, depth
        p = np.array([1.0 if weights is None else weights[d] for d in cuts])
        dim = rng.choice(list(cuts), p=p / p.sum())
        low, high, inside = cuts[dim]
        tau = rng.uniform(low, high) if inside is None else rng.choice(inside)
        splits[dim] += 1
        left = grow(rows[X[rows, dim] <= tau], depth + 1)
        right = grow(rows[X[rows, dim] > tau], depth + 1)
        return left[0] + right[0], max(left[1], right[1])

    return *grow(np.arange(len(X)), 0), splits


def columns(kind, rng):
    if kind == "levels":
        return np.column_stack([rng.integers(0, k, 200) for k in (2, 3, 7, 40)]).astype(float)
    return rng.random((200, 4)) ** 2


def last_trees(model, sampler, rng, n_sweeps):
    """Leaves, depth and splits of every tree after some sweeps from the prior: without data weight the trees of one
    ensemble are independent."""
    ensemble, store = bart.Ensemble(model, sampler, rng, init="prior"), ForestStore(model.n_trees)
    changed = ensemble.run(n_sweeps, store=store, store_every=n_sweeps)["tree_changed"]
    assert changed.sum() > 3, "the trees hardly moved"
    return trees_of(store, 4)[:3]


@pytest.mark.parametrize("cuts, kind", [("width", "noise"), ("width", "levels"), ("grid", "levels")])
@pytest.mark.parametrize("sampler", ["growprune", "cgm", "pg-systematic", "pg-optimal", "cycle"])
def test_200_rows_against_independent_draws(sampler, cuts, kind, seed):
    """Means of leaves, depth and splits: |z| < 4.5 (7e-6 each) or, once repeated with more of both, again."""
    X = columns(kind, np.random.default_rng(seed))
    options = {"cuts": "grid", "n_cuts": 10} if cuts == "grid" else {}
    z = None
    for repeat in (1, 5):
        rng = np.random.default_rng([seed, repeat])
        model = make_model(X, X[:, 0], n_trees=1_000 * repeat, **options)
        slow = zip(*(slow_prior_tree(X, model, rng) for _ in range(400 * repeat)), strict=True)
        sides = []
        for leaves, depth, splits in (map(np.array, slow), last_trees(model, SAMPLERS[sampler], rng, 30)):
            sides.append(np.column_stack([leaves, depth, splits, leaves <= 2, leaves <= 6, depth <= 4]))
        error = np.sqrt(sum(side.var(axis=0) / len(side) for side in sides))
        z = (sides[0].mean(axis=0) - sides[1].mean(axis=0)) / error
        if abs(z).max() < 4.5:
            return
    raise AssertionError(f"z = {z}")


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_exchangeable_columns_are_used_alike(sampler, rng):
    """Chi-square of the roots, and Hotelling's T^2 on the differences of the counts of all splits, at 1e-5 each."""
    X = rng.random((200, 4))
    model = make_model(X, rng.standard_normal(200), n_trees=1_500, alpha=0.8, beta=1.5)
    ensemble, store = bart.Ensemble(model, SAMPLERS[sampler], rng, init="empty"), ForestStore(1_500)
    ensemble.run(enough(sampler), store=store, store_every=enough(sampler))
    _, _, counts, roots = trees_of(store, 4)
    root = store.nodes["dim"][roots]
    assert stats.chisquare(np.bincount(root[root >= 0], minlength=4)).pvalue > LEVEL
    n, d = len(counts), counts[:, :3] - counts[:, 3:]
    t2 = n * d.mean(axis=0) @ np.linalg.solve(np.cov(d.T), d.mean(axis=0))
    assert stats.f.sf(t2 * (n - 3) / (3 * (n - 1)), 3, n - 3) > LEVEL


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_columns_of_weight_zero_are_never_split(sampler, rng):
    X = rng.random((60, 4))
    weights = (1, 0, 1, 1)
    for start in ("empty", "prior", "overgrown", "smc", "grow"):
        store = ForestStore(5)
        model = bart.Model(X, X[:, 1] + 0.1 * rng.random(60), n_trees=5, dim_weights=weights)
        bart.Ensemble(model, SAMPLERS[sampler], rng, init=start).run(200, store=store)
        used = np.bincount(store.nodes["dim"][store.nodes["dim"] >= 0], minlength=4)
        assert used[1] == 0 and (used[[0, 2, 3]] > 0).all()
