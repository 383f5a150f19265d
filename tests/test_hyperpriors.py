"""Priors of the split probabilities and of k: exact posteriors, their updates alone, the joint test, known errors; and
their place in runs and files."""

import concurrent.futures
import math
import os

import numpy as np
import pytest
from bart.kernels.hyper import rule_columns, set_log_weights
from bart.kernels.state import TreeState
from bart.kernels.testing import replicate
from chain_helpers import assert_same, interrupted_at
from chain_laws import assert_means, z_scores
from hyper_law import exact_means, rules_of, simplex_nodes
from laws import g_test
from oracle import Problem
from scipy import stats
from test_compose import hide

import bart
from bart.cli import main
from bart.hyperpriors import LeafScale, SplitProbabilities, log_gamma_draws, log_sum
from bart.tempering import TemperedEnsemble
from experiments import sparse

# Binary columns and few rows: below the root most nodes cannot split some column.
CUBE = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]], dtype=float)
SQUARE = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [1, 1]], dtype=float)
Y = np.array([0.3, -0.5, 0.8, 0.1, -0.2, 0.6])
SIGMA, LEAF_MEAN, LEAF_VAR = 0.6, 0.2, 0.4
TREE = {"alpha": 0.95, "beta": 0.3}
CHI = bart.ChiK(3.0, 1.5)
SAMPLERS = {
    "growprune": bart.GrowPrune(),
    "cgm": bart.CGM(),
    "local-1": bart.Local(subset=1),
    "local-2-recut": bart.Cycle(bart.Local(subset=2), bart.Recut(subset=1), bart.Recut(subset=2)),
    "optimal": bart.ParticleGibbs(3, proposal="optimal", subset=2, prior_share=0.3),
    "slide": bart.Cycle(bart.GrowPrune(), bart.Slide(every=1)),
    "python": hide(bart.CGM()),
}
HEAVY = {
    "pg": bart.ParticleGibbs(3),
    "local": bart.Cycle(bart.Local(), bart.Recut(), bart.Levels(every=1)),
    "local-slot": bart.Local(subset=1, descend=0.7),
    "optimal-1": bart.ParticleGibbs(2, proposal="optimal", subset=1, region="subtree", final="forced"),
    "perturb-rotate": bart.Cycle(bart.CGM(), bart.Perturb(), bart.Rotate(), bart.Transpose(),
                                 bart.JointLeaves(every=2)),
    "splice": bart.Cycle(bart.Splice(), bart.Reroute()),
}
# Sweeps to a record. A kernel that draws one column by the weights keeps small weights for thousands of sweeps, and
# standard errors from a chain of 80 000 are too small by 1.3 to 1.9 (spread of 24 such chains, whose mean is exact).
THIN = {"optimal-1": 20}


def make_model(case, **options):
    X, given = CASES[case]
    given = {"leaf_var": LEAF_VAR} | given if "k" not in given else given
    return bart.Model(X, Y[: len(X)], n_trees=1, sigma=SIGMA, leaf_mean=LEAF_MEAN, scale=False, **TREE, **given,
                      **options)


CASES = {
    "cube": (CUBE, {"dim_weights": bart.Dirichlet(theta=1.5)}),
    "square": (SQUARE, {"dim_weights": "dirichlet"}),
    "both": (CUBE, {"dim_weights": bart.Dirichlet(theta=3.0), "k": CHI}),
    "k": (SQUARE[:, :1] + np.arange(5)[:, None] // 2, {"k": CHI, "dim_weights": bart.Dirichlet(theta=1.0)}),
}
LAWS = {}


def law_of(case):
    if case not in LAWS:
        X, given = CASES[case]
        model = make_model(case)
        thetas = model.tree_prior.dim_weights.thetas(X.shape[1])
        X = X if X.shape[1] > 1 else np.hstack([X, np.zeros_like(X)])       # a constant column has no part
        LAWS[case] = exact_means(X, Y[: len(X)], SIGMA**2, LEAF_MEAN, thetas, model.k_prior, model.leaf_var_of_k(1.0),
                                 LEAF_VAR, **TREE)
        if case == "k":
            LAWS[case] |= {"s": 1.0, "s2": 1.0}
    return LAWS[case]


def record(ensemble, n_records, exact, thin=1):
    """Traces by name, every `thin` sweeps after a burn-in, of an Ensemble's state or that of a ladder's cold one."""
    ensemble.run(200)
    trees, rows = [], []
    for _ in range(n_records):
        rows.append(ensemble.run(thin))
        trees.append(getattr(ensemble, "seen", ensemble).structures()[0])
    s = np.array([row["split_probabilities"][-1, 0] for row in rows])
    theta = np.array([row["theta"][-1] for row in rows])
    traces = {"s": s, "s2": s * s, "theta": theta / (1 + theta)}
    if "k" in exact:
        k = np.array([row["k"][-1] for row in rows])
        traces |= {"k": k, "k2": k * k}
    names = np.array([f"tree {tree}" if f"tree {tree}" in exact else "rare trees" for tree in trees])
    traces |= {name: names == name for name in exact if "tree" in name}
    return {name: traces[name] for name in exact}


def run_case(case, sampler, seed, n_records, thin=1):
    ensemble = bart.Ensemble(make_model(case), sampler, np.random.default_rng(seed))
    return record(ensemble, n_records, law_of(case), thin)


# -------------------------------------------------------------------------------------------------- the exact posterior


def test_the_exact_law_by_two_quadratures():
    """Finer quadrature changes less than the chains below can see; a Dirichlet's moments are right; masses sum to 1."""
    X, _ = CASES["cube"]
    args = (X, Y, SIGMA**2, LEAF_MEAN, [1.5], None, 1.0, LEAF_VAR)
    coarse, fine = (exact_means(*args, **TREE, n=n) for n in (40, 80))
    for name, value in coarse.items():
        assert math.isclose(value, fine[name], rel_tol=1e-3), name
    assert math.isclose(sum(value for name, value in fine.items() if "tree" in name), 1.0)
    s, w = simplex_nodes(3, 1.5, 40)
    np.testing.assert_allclose(w @ s, np.full(3, 1 / 3), rtol=1e-9)
    np.testing.assert_allclose(w @ s**2, np.full(3, 0.5 * 1.5 / (1.5 * 2.5)), rtol=1e-9)


@pytest.mark.parametrize("case, sampler", [
    *(("cube", name) for name in SAMPLERS), ("square", "cgm"), ("square", "local-1"), ("both", "cgm"),
    ("both", "local-2-recut"), ("k", "growprune"),
    *(pytest.param(case, name, marks=pytest.mark.long) for case in CASES for name in HEAVY),
])  # fmt: skip
def test_exact_posterior(case, sampler, seed):
    thin = THIN.get(sampler, 1)
    sampler = (SAMPLERS | HEAVY)[sampler]
    assert_means(lambda n, repeat: run_case(case, sampler, seed + repeat, n, thin), law_of(case), 8000)


@pytest.mark.parametrize("sampler", ["cgm", "local-1"])
def test_exact_posterior_in_a_ladder(sampler, seed):
    """s, theta and k belong to the state of a rung: swaps of temperatures leave the law at t = 1 what it is."""
    def run(n, repeat):
        ladder = bart.Ladder(temperatures=(1.0, 0.5, 0.1))
        made = TemperedEnsemble(make_model("both"), SAMPLERS[sampler], np.random.default_rng(seed + repeat), ladder)
        swap = made._swap

        def look_and_swap(swapped):
            made.seen = Seen(made.cold.structures())       # traces are those before the swap
            swap(swapped)

        made._swap = look_and_swap
        return record(made, n, law_of("both"))

    assert_means(run, law_of("both"), 8000)


class Seen:
    def __init__(self, found):
        self._found = found

    def structures(self):
        return self._found


def plain_dirichlet(block, states, counts, valid, rng):
    """As if every node could split every column."""
    DRAW_GIVEN(block, states, counts, valid[:0], rng)


def degrees_off_by_one(block, kernel, rng):
    LEAF_REDRAW(LeafScale(bart.ChiK(block.prior.degrees + 1, block.prior.scale), block._c), kernel, rng)


def without_leaf_mean(block, kernel, rng):
    mean, kernel.leaf_mean = kernel.leaf_mean, 0.0
    LEAF_REDRAW(block, kernel, rng)
    kernel.leaf_mean = mean


DRAW_GIVEN, LEAF_REDRAW = SplitProbabilities.draw_given, LeafScale.redraw
KNOWN = {
    "plain Dirichlet": (SplitProbabilities, "draw_given", plain_dirichlet, "cube"),
    "degrees": (LeafScale, "redraw", degrees_off_by_one, "k"),
    "leaf mean": (LeafScale, "redraw", without_leaf_mean, "k"),
}


@pytest.mark.parametrize("error", KNOWN)
def test_known_errors_are_caught(error, seed, monkeypatch):
    """The test of the exact posterior fails with each of them, by far."""
    where, name, wrong, case = KNOWN[error]
    exact = law_of(case)
    monkeypatch.setattr(where, name, wrong)
    worst = z_scores(run_case(case, bart.CGM(), seed, 25_000), exact)
    assert max(abs(z) for z in worst.values()) > 8, worst


# -------------------------------------------------------------------------------------------------- each update alone


def one_update(n, rng):
    """Replicas of (theta, s, three trees) from the prior, then one update of theta and s: their statistics."""
    prior = bart.Dirichlet(a=2.0, b=1.5, rho=4.0)
    domain = bart.Model(CUBE, Y, n_trees=3, dim_weights=prior, alpha=0.99, beta=0.1).domain.with_random_weights()
    block, states = SplitProbabilities(prior, domain), [TreeState(domain)]
    for _ in range(2):
        states.append(TreeState(domain))
    kernel = type("Kernel", (), {"states": states})
    rows = np.empty((n, 4))
    for row in rows:
        block.theta, log_s = prior.draw(3, rng)
        for state in states:
            set_log_weights([state], log_s)
        for state in states:
            state.draw_from_prior(rng)
        block.redraw(kernel, rng)
        s = block.probabilities
        share = np.mean([tree is not None and tree[0] == 0 for tree in (state.structure for state in states)])
        row[:] = block.theta, s[0], s[0] * share, s[0] * s[1]
    return rows, prior


def z_of_update(n, rng):
    rows, prior = one_update(n, rng)
    thetas = prior.thetas(3)
    a = thetas / 3
    second = (a * (a + 1) / (thetas * (thetas + 1))).mean()
    exact = {"theta": (thetas / (thetas + 4)).mean(), "s": 1 / 3, "s and rules": 0.99 * second,
             "pair": (a * a / (thetas * (thetas + 1))).mean()}
    found = [rows[:, 0] / (rows[:, 0] + 4), *rows.T[1:]]
    return {name: (values.mean() - mean) / (values.std() / math.sqrt(n))
            for (name, mean), values in zip(exact.items(), found, strict=True)}


def test_one_update_of_the_split_probabilities(rng):
    """Independent replicas: |z| < 4.9, four statistics, 1e-6 each."""
    z = z_of_update(8000, rng)
    assert max(map(abs, z.values())) < 4.9, z


def test_one_plain_update_is_caught(rng, monkeypatch):
    monkeypatch.setattr(SplitProbabilities, "draw_given", plain_dirichlet)
    assert max(map(abs, z_of_update(8000, rng).values())) > 8


def test_one_update_of_k(rng):
    """k and leaf values from the prior, then one update: k is from the prior still."""
    model = bart.Model(CUBE, Y, n_trees=4, k=CHI, leaf_mean=0.3, scale=False)
    ensemble = bart.Ensemble(model, "growprune", rng, init="overgrown")
    kernel, block, c = ensemble._kernel, ensemble._blocks[0], model.leaf_var_of_k(1.0)
    found = np.empty(5000)
    for i in range(len(found)):
        kernel.leaf_var = c / (CHI.scale**2 * rng.chisquare(CHI.degrees))
        for state in kernel.states:
            state.leaf_values = 0.3 + math.sqrt(kernel.leaf_var) * rng.standard_normal(state.n_leaves)
        block.redraw(kernel, rng)
        found[i] = math.sqrt(c / kernel.leaf_var)
    assert stats.kstest(found / CHI.scale, stats.chi(CHI.degrees).cdf).pvalue > 1e-5


# ---------------------------------------------------------------------------------------------------- the joint test

X_JOINT = np.array([[0.0, 1.0, 1], [0.1, 0.3, 0], [0.9, 0.3, 0], [1.0, 0.0, 1], [2.5, 1.0, 0], [2.5, 1.0, 1]])


def joint_model(weights=None):
    return bart.Model(X_JOINT, [-1.0, -0.6, 0.1, 0.3, 0.8, 1.0], n_trees=3, alpha=0.9, beta=0.7, nu=20.0, q=0.5,
                      leaf_mean=0.1, k=bart.ChiK(5.0, 1.0), dim_weights=bart.Dirichlet(a=2.0, b=1.5, rho=4.0),
                      weights=weights)


def joint_means(model):
    thetas, noise = model.tree_prior.dim_weights.thetas(3), model.noise_prior
    a, chi = thetas / 3, stats.chi(5.0)
    return {
        "theta": (thetas / (thetas + 4)).mean(), "s": 1 / 3, "s2": (a * (a + 1) / (thetas * (thetas + 1))).mean(),
        "k": chi.mean(), "k2": 5.0, "sigma2": noise.rate / (noise.shape - 1), "stump": 0.1, "root 2": 0.9 / 3,
        "s and root": 0.9 * (a * (a + 1) / (thetas * (thetas + 1))).mean(), "standard": 1.0,
    }


def joint_run(model, sampler, seed, n_sweeps):
    """The joint chain over parameters and data."""
    rng = np.random.default_rng(seed)
    ensemble = bart.Ensemble(model, sampler, rng, init="prior")
    names = tuple(joint_means(model))
    spread = 1.0 if model.dataset.weights is None else 1.0 / np.sqrt(model.dataset.weights)
    rows, mean, c = np.empty((n_sweeps, len(names))), model.leaf_prior.mean, model.leaf_var_of_k(1.0)
    for i, row in enumerate(rows):
        ensemble.residual[:] = math.sqrt(ensemble.sigma2) * spread * rng.standard_normal(len(X_JOINT))
        ensemble.sweep()
        s, k, theta = ensemble.split.probabilities, math.sqrt(c / ensemble.leaf_var), ensemble.split.theta
        tree = ensemble.trees[i % 3]
        root = -1 if tree.n_leaves == 1 else tree.structure[0]
        row[:] = (theta / (theta + 4), s[0], s[0] ** 2, k, k * k, ensemble.sigma2, root == -1, root == 2,
                  s[2] * (root == 2), (tree.leaf_values[0] - mean) ** 2 / ensemble.leaf_var)
    return {name: row.astype(bool) if name in ("stump", "root 2") else row
            for name, row in zip(names, rows.T, strict=True)}


@pytest.mark.parametrize("sampler", ["cgm", "local-2-recut", "optimal", *(
    pytest.param(name, marks=pytest.mark.long) for name in ("slide", *HEAVY))])
def test_joint_law_is_the_prior(sampler, seed):
    model, sampler = joint_model(), (SAMPLERS | HEAVY)[sampler]
    assert_means(lambda n, repeat: joint_run(model, sampler, seed + repeat, n), joint_means(model), 8000)


@pytest.mark.parametrize("sampler", ["cgm", "local-2-recut"])
def test_joint_law_with_weights_of_rows(sampler, seed):
    model, sampler = joint_model([4.0, 0.25, 1.0, 9.0, 0.1, 2.0]), SAMPLERS[sampler]
    assert_means(lambda n, repeat: joint_run(model, sampler, seed + repeat, n), joint_means(model), 8000)


# -------------------------------------------------------------------------------------------------------- the kernels


def one_step(sampler, weights, n, rng):
    """p-value of the trees after one step from each of n exact draws of them, given the split probabilities."""
    problem = Problem(CUBE, Y, SIGMA**2, LEAF_VAR, LEAF_MEAN, dim_weights=weights, **TREE)
    law = problem.posterior()
    model = bart.Model(CUBE, Y, n_trees=1, dim_weights="dirichlet", **TREE)
    state = TreeState(model.domain.with_random_weights())
    set_log_weights([state], np.log(weights))
    index, counts = {}, np.zeros(law.n_trees)
    for i, tree in enumerate(law.trees):
        state.structure = tree
        index[state.key()] = i
    params = bart.StepParams(problem.sigma2, problem.leaf_var, problem.leaf_mean)
    for tree, m in zip(law.trees, rng.multinomial(n, law.p).tolist(), strict=True):
        for key, count in replicate(sampler, state, tree, problem.target, params, rng, m).items():
            counts[index[key]] += count
    return g_test(counts, law.p)


STEPS = {
    "local-1": bart.Local(subset=1), "local-2": bart.Local(subset=2), "recut-1": bart.Recut(subset=1),
    "recut-2": bart.Recut(subset=2), "slot-1": bart.Local(subset=1, descend=0.7), "cgm": bart.CGM(),
    "transpose": bart.Transpose(), "reroute": bart.Reroute(),
    "optimal-1": bart.ParticleGibbs(2, proposal="optimal", subset=1, final="forced", ess_threshold=0.5),
    "optimal-2-share": bart.ParticleGibbs(3, proposal="optimal", subset=2, prior_share=0.3, region="subtree"),
}


@pytest.mark.parametrize("weights", [(6.0, 2.0, 1.0), (1.0, 1e-300, 3e-300)], ids=["plain", "vanishing"])
@pytest.mark.parametrize("sampler", STEPS)
def test_one_step_given_split_probabilities(sampler, weights, rng):
    """Columns of a subset come by their weights, and decisions are exact all the same."""
    p = one_step(STEPS[sampler], weights, 60_000, rng)
    if p <= 1e-5 and not os.environ.get("BART_MUTANT"):         # a failure counts if it repeats with more replicas
        p = one_step(STEPS[sampler], weights, 600_000, rng)
    assert p > 1e-5


@pytest.mark.parametrize("sampler", ["growprune", "cgm", "local", "optimal"])
def test_weights_that_vanish_as_doubles(sampler, seed):
    """Columns whose weights are 1e-300 of another's are told apart where that cannot be split."""
    weights = (1.0, 1e-300, 3e-300)
    model = bart.Model(CUBE, Y, n_trees=1, sigma=SIGMA, leaf_mean=LEAF_MEAN, leaf_var=LEAF_VAR, scale=False,
                       dim_weights=weights, **TREE)
    law = Problem(CUBE, Y, SIGMA**2, LEAF_VAR, LEAF_MEAN, dim_weights=weights, **TREE).posterior()
    names = {tree: p for tree, p in zip(law.trees, law.p, strict=True) if p > 0.01}
    kernel = (SAMPLERS | HEAVY)[sampler]

    def run(n, repeat):
        ensemble = bart.Ensemble(model, kernel, np.random.default_rng(seed + repeat))
        ensemble.run(200)
        trees = []
        for _ in range(n):
            ensemble.run(1)
            trees.append(ensemble.structures()[0])
        return {str(tree): np.array([seen == tree for seen in trees]) for tree in names}

    assert_means(run, {str(tree): p for tree, p in names.items()}, 8000)


def test_priors_of_rules_are_forgotten_with_the_probabilities(seed):
    """What trees keep of them is what a tree that keeps nothing finds."""
    model = bart.Model(CUBE, Y, n_trees=4, dim_weights=bart.Dirichlet(theta=2.0), **TREE)
    ensemble = bart.Ensemble(model, "cgm", np.random.default_rng(seed))
    n_kept = 0
    for _ in range(50):
        ensemble.run(1)
        s = ensemble.split.probabilities
        problem = Problem(CUBE, Y, 1.0, 1.0, dim_weights=s, **TREE)
        for state in ensemble.trees:
            nodes, waiting = state.dump(), [(0, problem.all_rows)]
            while waiting:
                node, rows = waiting.pop()
                dim, code, left = (int(nodes[node][name]) for name in ("dim", "code", "left"))
                if left < 0:
                    continue
                if not np.isnan(nodes[node]["log_rule"]):
                    n_kept += 1
                    assert math.isclose(nodes[node]["log_rule"], math.log(problem.rules(rows)[dim, code]), rel_tol=1e-9)
                waiting += zip((left, left + 1), problem.divide(rows, dim, code), strict=True)
    assert n_kept > 20


def test_weights_beyond_doubles(rng):
    """Logarithms -1000 and -1000 + log 3 below that of the only column of the root."""
    model = bart.Model(CUBE, Y, n_trees=1, dim_weights="dirichlet", alpha=0.99, beta=0.0)
    state = TreeState(model.domain.with_random_weights())
    set_log_weights([state], np.array([0.0, -1000.0, -1000.0 + math.log(3)]))
    first = np.zeros(3, dtype=int)
    for _ in range(4000):
        state.draw_from_prior(rng)
        if state.structure is not None:
            assert state.structure[0] == 0
            if state.structure[2] is not None:
                first[state.structure[2][0]] += 1
    assert first[0] == 0 and stats.binomtest(int(first[1]), int(first.sum()), 0.25).pvalue > 1e-5


def test_valid_columns_are_those_of_the_oracle(rng):
    X = np.column_stack([rng.integers(0, 2, 30), rng.integers(0, 2, 30), rng.integers(0, 3, 30), rng.random(30),
                         np.zeros(30)]).astype(float)
    for cuts in ({}, {"cuts": "grid", "n_cuts": 1}):
        model = bart.Model(X, X[:, 3], n_trees=1, alpha=0.99, beta=0.1, **cuts)
        problem = Problem(X, np.zeros(30), 1.0, 1.0, **cuts)
        states = [TreeState(model.domain) for _ in range(5)]
        for _ in range(50):
            expected, counts = [], np.zeros(5, dtype=int)
            for state in states:
                state.draw_from_prior(rng)
                for dim, valid in rules_of(problem, state.structure):
                    counts[dim] += 1
                    if len(valid) < 4:
                        expected.append(valid)
            found_counts, found = rule_columns(states)
            np.testing.assert_array_equal(found_counts, counts)
            assert sorted(tuple(np.flatnonzero(row).tolist()) for row in found) == sorted(expected)


def test_small_shapes(rng):
    """log of Gamma(a) for a of any size: finite, and -a log G tends to an exponential."""
    for a in (1e-100, 1e-8):
        drawn = log_gamma_draws(np.full(2000, a), rng)
        assert np.isfinite(drawn).all() and stats.kstest(-a * drawn, "expon").pvalue > 1e-5
    drawn = log_gamma_draws(np.full(2000, 2.5), rng)
    assert stats.kstest(np.exp(drawn), stats.gamma(2.5).cdf).pvalue > 1e-5
    assert math.isclose(log_sum(np.array([-2000.0, -2000.0])), -2000.0 + math.log(2))


@pytest.mark.parametrize("theta", [1e-100, 1e-3, 1e6])
def test_extreme_theta_runs(theta):
    model = bart.Model(CUBE, Y, n_trees=3, dim_weights=bart.Dirichlet(theta=theta), **TREE)
    traces = bart.Ensemble(model, "cgm", np.random.default_rng(1)).run(300)
    assert np.isfinite(traces["log_likelihood"]).all()
    np.testing.assert_allclose(traces["split_probabilities"].sum(axis=1), 1.0)


# ------------------------------------------------------------------------------------------------ in runs and files

RUN = {"n_burn": 12, "n_draws": 10, "n_chains": 3, "seed": 7, "keep_burn_trees": True, "ladder": None}
OPTIONS = {"dim_weights": "dirichlet", "k": bart.ChiK()}


def make_data(n_rows=50):
    rng = np.random.default_rng(8)
    X = np.column_stack([rng.random(n_rows), rng.integers(0, 2, n_rows), rng.random(n_rows), np.ones(n_rows)])
    return X, 3.0 * X[:, 0] + rng.normal(0.0, 0.3, n_rows)


def small_model(**options):
    X, y = make_data()
    y = (y > 1.5).astype(int) if "outcome" in options else y
    return bart.Model(X, y, n_trees=5, **{**OPTIONS, **options})


KINDS = {
    "auto": ("auto", {}, {}),
    "joint": ("cgm + joint(every=3) + levels(every=2)", {}, {}),
    "slide": ("growprune + slide(every=2)", {}, {"ladder": bart.Ladder(n_rungs=2, t_min=0.3, every=3)}),
    "python": (hide(bart.GrowPrune()), {}, {}),
    "probit": ("local(subset=1)", {"outcome": "probit"}, {}),
    "ladder": ("cgm", {}, {"ladder": bart.Ladder(n_rungs=3, t_min=0.3, every=2)}),
    "weights, offsets, ladder": ("cgm + transpose + joint(every=2)",
                                 {"weights": np.linspace(0.5, 2.0, 50), "offset": np.linspace(-1.0, 1.0, 50)},
                                 {"ladder": bart.Ladder(n_rungs=3, t_min=0.3, every=2)}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_run_goes_on_bit_for_bit(kind, tmp_path, monkeypatch):
    sampler, options, more = KINDS[kind]
    model, run = small_model(**options), {**RUN, **more}
    whole = bart.sample(model, sampler, **run)
    assert_same(bart.sample(model, sampler, executor=2, **run), whole)
    for cut in (1, 3, 6) if kind != "python" else ():
        options = {**run, "checkpoint": tmp_path / str(cut), "checkpoint_sweeps": 5}
        with interrupted_at(monkeypatch, cut):
            bart.sample(model, sampler, **options)
        assert_same(bart.resume(tmp_path / str(cut)), whole)


def test_processes_make_the_same_draws():
    serial = bart.sample(small_model(), **RUN)
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        assert_same(bart.sample(small_model(), executor=pool, **RUN), serial)


def test_compiled_and_python_sweeps_make_the_same_bits():
    assert_same(bart.sample(small_model(), bart.CGM(), **RUN), bart.sample(small_model(), hide(bart.CGM()), **RUN))


def test_traces_and_files(tmp_path):
    post = bart.sample(small_model(), **RUN)
    s = post["split_probabilities"]
    assert s.shape == (3, 10, 4) and post["theta"].shape == post["k"].shape == (3, 10)
    assert post.burn["k"].shape == (3, 12) and (post["k"] > 0).all()
    np.testing.assert_allclose(s.sum(axis=2), 1.0)
    assert (s[:, :, 3] == 0).all() and (s[:, :, :3] > 0).any()
    assert {"k", "theta"} <= set(post) and "split_probabilities" not in set(post)
    assert set(post.summary(["k", "theta"])) == {"k", "theta"}
    with pytest.raises(ValueError, match="split_probabilities is one number a column in each draw"):
        post.summary(["split_probabilities"])
    assert repr(bart.ChiK()) in repr(small_model(k=bart.ChiK())) == repr(small_model(k="chi"))
    with pytest.raises(ValueError, match="there are .* and with priors of them theta, k"):
        bart.Targets(names="split_probabilities")
    post.save(tmp_path / "run.npz")
    assert_same(bart.load(tmp_path / "run.npz"), post)
    assert len(post.to_coda(tmp_path / "coda")) == 4
    shares = post.inclusion(model=small_model(), seed=1)
    assert shares.prior[3] == 0 and np.isclose(shares.prior.sum(), 1.0)
    plain = bart.sample(small_model(dim_weights=None, k=2.0), **RUN)
    assert set(plain) == set(post) - {"k", "theta"} and "split_probabilities" not in plain.sweeps


def test_arviz_has_the_hyperparameters():
    pytest.importorskip("arviz")
    post = bart.sample(small_model(), **RUN)
    data = post.to_arviz()
    for name in ("k", "theta", "split_probabilities"):
        np.testing.assert_array_equal(data["posterior"][name].values, post[name])
        np.testing.assert_array_equal(data["warmup_posterior"][name].values, post.burn[name])


def test_convergence_is_judged_by_the_hyperparameters_too(tmp_path, capsys):
    pytest.importorskip("arviz")
    targets, seen = {"r_hat": 9.0, "ess_bulk": 1.0, "every": 4}, []
    options = {**RUN, "n_draws": 8, "stop_when": targets}
    post = bart.sample(small_model(), **options, callback=seen.append)
    assert "('sigma', 'log_likelihood', 'theta', 'k')" in post.header["stop_when"]
    assert list(post.summary())[-2:] == ["theta", "k"] and seen[-1].r_hat("k") > 0
    fixed = small_model(dim_weights=bart.Dirichlet(theta=1.0), k=2.0, sigma=0.3)
    post = bart.sample(fixed, **options, callback=seen.append)
    assert "names=('log_likelihood',)" in post.header["stop_when"] and "theta" in seen[-1] and "k" not in seen[-1]
    with pytest.raises(KeyError, match="no trace 'k': there are"):
        seen[-1]["k"]
    with pytest.raises(ValueError, match="stop_when: theta is fixed"):
        bart.sample(fixed, **RUN, stop_when={"names": "theta"})
    # A run in which k alone has not converged.
    rng = np.random.default_rng(1)
    traces = {name: rng.normal(size=trace.shape) for name, trace in post.sweeps.items() if trace.ndim == 2}
    stuck = {"k": traces["sigma"] + np.array([[0.0], [100.0], [200.0]])}
    bart.Posterior(traces | stuck, post.header | {"n_burn": 0}).save(tmp_path / "run.npz")
    assert main(["diagnose", str(tmp_path / "run.npz"), "--strict", "--ess", "1e-3", "--r-hat", "2"]) == 1
    assert "not converged: k has R-hat" in capsys.readouterr().out


def test_other_hyperpriors_are_another_model(tmp_path):
    run = {**RUN, "n_draws": 2, "checkpoint": tmp_path, "sampler": "growprune"}
    bart.sample(small_model(), **run)
    for other in ({"k": bart.ChiK(scale=3.0)}, {"k": bart.ChiK().start}, {"dim_weights": None},
                  {"dim_weights": bart.Dirichlet(a=1.0)}):
        with pytest.raises(ValueError, match="other model"):
            bart.sample(small_model(**other), **run)


def test_chains_have_weights_of_their_own():
    model = small_model()
    first, second = (bart.Ensemble(model, "growprune", np.random.default_rng(i)) for i in (1, 2))
    first.run(5)
    assert (second.split.log_s == second.split.log_s[0]).all() and not model.domain.make_bins()
    assert (first.split.log_s != second.split.log_s).any()


@pytest.mark.parametrize("make, error, match", [
    (lambda: bart.Dirichlet(theta=0.0), ValueError, "theta"),
    (lambda: bart.Dirichlet(theta=1.0, a=1.0), ValueError, "no effect with theta"),
    (lambda: bart.Dirichlet(a=-1.0), ValueError, "dim_weights: a"),
    (lambda: bart.Dirichlet(rho="x"), TypeError, "dim_weights: rho"),
    (lambda: bart.ChiK(scale=math.inf), ValueError, "improper"),
    (lambda: bart.ChiK(degrees=0.0), ValueError, "k: degrees"),
    (lambda: small_model(dim_weights="uniform"), TypeError, "dim_weights"),
    (lambda: small_model(leaf_var=1.0), ValueError, "has no effect when leaf_var"),
    (lambda: bart.sample(small_model(k=2.0), **RUN, stop_when=bart.Targets(names=("k",))), ValueError, "no trace 'k'"),
])
def test_bad_arguments(make, error, match):
    with pytest.raises(error, match=match):
        make()


def test_the_script_that_measures_the_gain():
    found = sparse.measure("Dirichlet, chi k", 1, n_dims=8, n_burn=5, n_draws=10, n_chains=2)
    assert found["rmse"] > 0 and 0 < found["share"] <= 1


@pytest.mark.parametrize("keep_trees", [False, True])
def test_split_probabilities_count_as_memory(monkeypatch, keep_trees):
    monkeypatch.setattr("bart.sampling._WARN_BYTES", 8.0 * 4 * 66 - 1)        # 4 columns, 3 chains of 22 sweeps
    monkeypatch.setattr("bart.sampling.bytes_per_draw", lambda model: 1e-3)
    options = {**RUN, "keep_trees": keep_trees, "keep_burn_trees": False}
    with pytest.warns(UserWarning, match="split probabilities: 0.00211 MB for 66 sweeps" + "; keep_trees" * keep_trees):
        bart.sample(small_model(), "growprune", **options)


def test_an_interrupt_between_two_writes_leaves_theta_and_its_s(monkeypatch):
    ensemble = bart.Ensemble(small_model(), "growprune", np.random.default_rng(1))
    ensemble.run(3)
    before = ensemble.split.get_state()

    def torn(*args):
        monkeypatch.setattr("bart.hyperpriors.set_log_weights", set_log_weights)
        set_log_weights(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr("bart.hyperpriors.set_log_weights", torn)
    with pytest.raises(KeyboardInterrupt):
        ensemble.split.redraw(ensemble._kernel, ensemble.rng)
    after = ensemble.split.get_state()
    assert after["theta"] == before["theta"]
    np.testing.assert_array_equal(after["log_weights"], before["log_weights"])


def test_no_column_can_be_split():
    model = bart.Model(np.ones((4, 2)), [0.0, 1.0, 2.0, 3.0], n_trees=2, dim_weights="dirichlet", sigma=1.0)
    traces = bart.Ensemble(model, "cgm", np.random.default_rng(1)).run(3)
    assert (traces["n_leaves"] == 2).all() and (traces["split_probabilities"] == 0).all()
