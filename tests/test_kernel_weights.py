"""Rows of known relative precisions, noise variance sigma2 / w: statistics, twins, laws, and what they must equal."""

import numpy as np
import pytest
from bart.kernels.joint import leaf_statistics
from bart.kernels.testing import ScriptedBitGenerator, tabulated_log_L, trace_steps
from bart.kernels.testing_rows import RowLoops
from chain_laws import assert_means
from compiled import make_pair, make_params, make_state
from oracle import Problem
from scipy import stats
from sweep_helpers import IRREDUCIBLE, OF_TREES, ORDERS, SAMPLERS, STARTS, make_data, run_store
from test_compose import COMPOSED, hide
from test_joint_leaves import BOUND, N_DRAWS, indicators, small_ensemble, worst_z
from test_kernel_geweke import SAMPLERS as GEWEKE
from test_kernel_geweke import exact_means, make_model, run
from test_samplers import own_states, own_sweep
from test_twins_compiled import SAMPLERS as TWINS
from test_twins_compiled import larger_problem, random_problem, run_chain, run_cycle
from tiny import PROBLEMS

import bart
from bart.kernels import rowops
from bart.samplers import draw_leaf_values

WEIGHTED = ("precise", "precise_ties")


def weigh(problem, weights):
    """The problem with weights of its rows."""
    return Problem(problem.X, problem.target, problem.sigma2, problem.leaf_var, problem.leaf_mean, problem.alpha,
                   problem.beta, problem.cuts, problem.n_cuts, problem.dim_weights, weights)


def uneven(n, rng):
    """Weights from 0.02 to 50, some of them equal."""
    return np.exp(rng.uniform(-4, 4, max(1, n // 2)))[rng.integers(0, max(1, n // 2), n)]


# -------------------------------------------------------------------------------------------------- the statistics


def test_the_oracle_has_the_density_of_the_rows():
    """N(leaf_mean 1, sigma2 / W + leaf_var 1 1') to 1e-12, and the leaf value's mean given them."""
    problem = PROBLEMS["precise_ties"]()
    for rows in ((0,), (1, 3), (0, 1, 2, 3, 4)):
        noise = problem.sigma2 / np.array(problem.weights)[list(rows)]
        cov = np.diag(noise) + problem.leaf_var
        r = problem.target[list(rows)]
        expected = stats.multivariate_normal.logpdf(r, np.full(len(rows), problem.leaf_mean), cov)
        assert problem.log_likelihood(rows) == pytest.approx(expected, abs=1e-12)
        gain = problem.leaf_var * np.linalg.solve(cov, np.ones(len(rows)))
        assert problem.leaf_posterior_mean(rows) == pytest.approx(
            problem.leaf_mean + gain @ (r - problem.leaf_mean), abs=1e-12)


def test_log_likelihood_of_a_node(rng):
    n, w = np.array([1, 1, 4, 9]), np.array([0.3, 17.0, 4.0, 2.5])
    s, sigma2, leaf_mean, leaf_var = rng.normal(size=4), 0.7, 0.2, 0.3
    v = sigma2 + w * leaf_var
    expected = 0.5 * np.log(sigma2 / v) + leaf_var * (s - w * leaf_mean) ** 2 / (2 * sigma2 * v)
    np.testing.assert_allclose(tabulated_log_L(sigma2, leaf_mean, leaf_var, n, s, w), expected, rtol=1e-14)
    ones = n.astype(float)
    np.testing.assert_array_equal(tabulated_log_L(sigma2, leaf_mean, leaf_var, n, s, ones),
                                  tabulated_log_L(sigma2, leaf_mean, leaf_var, n, s))


def test_loops_over_weights(rng):
    """Products and their sum, the same bits from every build; that of a vector with itself is its sum of squares."""
    for n in (*range(1, 20), 4095, 4096, 4097, 10_001):
        a, b = rng.normal(size=n), rng.normal(size=n)
        found = []
        for name in rowops.TARGETS:
            loops = RowLoops(name)
            np.testing.assert_array_equal(loops.multiply(a, b), a * b)
            found.append(loops.sum_products(a, b))
            assert found[-1] == pytest.approx(a @ b, rel=1e-11, abs=1e-11)
            assert loops.sum_products(a, a) == loops.sum_squares(a)
        assert len(set(found)) == 1


def fixed_step(problem, sampler, tree, seed):
    """(log ratio, tree after, leaf values drawn) of one step on given uniforms."""
    state = make_state(problem, tree)
    bits = ScriptedBitGenerator(np.random.default_rng(seed).random(4000).tolist())
    info = sampler.step(state, problem.target, make_params(problem), bits.generator)
    draw_leaf_values(state, problem.target, make_params(problem), np.random.default_rng(seed))
    return info.log_ratio, state.structure, state.leaf_values


@pytest.mark.parametrize("kind", ["growprune", "cgm", "perturb", "splice", "reroute", "local", "recut"])
def test_integer_weights_are_repeated_rows_to_a_fixed_tree(kind, rng):
    """Ratios of moves (to 1e-9 where integers stand for targets) and leaf values to 1e-11."""
    moved = 0
    for seed in range(60):
        n = 12
        X, weights = rng.permuted(np.tile(np.arange(n / 2)[:, None], (2, 2)), axis=0), rng.integers(1, 5, n)
        rows = np.repeat(np.arange(n), weights)
        target = rng.normal(size=n)
        few = Problem(X, target, 0.8, 0.5, 0.1, weights=weights)
        many = Problem(X[rows], target[rows], 0.8, 0.5, 0.1)
        sampler = make_pair(few, kind)[0]
        tree = (0, 2, (1, 3, None, None), None)
        if make_state(few).n_leaves != 1 or few.log_joint(tree) == -np.inf:
            continue
        first, second = (fixed_step(p, sampler, tree, seed) for p in (few, many))
        if first[1] == second[1]:               # nodes with one row of few and several of many draw other numbers
            moved += first[1] != tree
            assert first[0] == pytest.approx(second[0], abs=1e-11 if kind not in ("local", "recut") else 1e-9)
            np.testing.assert_allclose(first[2], second[2], rtol=1e-11, atol=1e-11)
    assert moved > 2


@pytest.mark.parametrize("kind, n", [("ties", 40), ("three rows", 3)])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", SAMPLERS)
def test_ones_are_no_weights_and_fours_a_quarter_of_the_variance(name, order, kind, n, seed):
    """Bit for bit: in powers of two nothing is rounded."""
    X, y = make_data(kind, np.random.default_rng(seed))
    found = []
    for weights, factor in ((None, 1.0), (np.ones(n), 1.0), (np.full(n, 4.0), 2.0)):
        model = bart.Model(X, y, n_trees=5, beta=0.5, sigma_hat=0.5 * factor, weights=weights)
        ensemble = bart.Ensemble(model, SAMPLERS[name], np.random.default_rng(seed), init="prior", tree_order=order)
        found.append(run_store(ensemble, 110))
        sigma = np.frombuffer(found[-1].pop("sigma")) / factor
        log_likelihood = np.frombuffer(found[-1].pop("log_likelihood"))
        found[-1] |= {"residual": ensemble.residual.tobytes(), "sigma": sigma.tobytes()}
        np.testing.assert_allclose(log_likelihood[-1], ensemble.log_likelihood, rtol=1e-12, atol=1e-12)
        if len(found) == 1:
            expected = log_likelihood
        np.testing.assert_allclose(log_likelihood, expected, rtol=1e-12, atol=1e-12)
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("init", STARTS)
def test_starts_take_weights(init, seed):
    X, y = make_data("ties", np.random.default_rng(seed))
    found = []
    for weights, factor in ((None, 1.0), (np.full(40, 4.0), 2.0)):
        model = bart.Model(X, y, n_trees=3, sigma_hat=0.5 * factor, weights=weights)
        ensemble = bart.Ensemble(model, "cgm", np.random.default_rng(seed), init=init)
        found.append((ensemble.structures(), ensemble.residual.tobytes()))
    assert found[0] == found[1]


# ------------------------------------------------------------------------------------------------------------- twins


@pytest.mark.parametrize("n", [2, 3, 5, 9, 17, 40])
@pytest.mark.parametrize("sampler", ["growprune", "cgm", "pg-3-multinomial-None-plain", "pg-5-systematic-0.5-forced",
                                     "pg-optimal", "pg-optimal-subset-2", "pg-optimal-mixed", "pg-subtree-forced",
                                     "pg-subtree-optimal-mixed", "local", "local-subset-2", "splice",
                                     "recut-cells", "reroute", "cycle-pg-grow-cgm", "cycle-of-mixture"])
def test_twins_on_random_data(n, sampler, rng):
    kind, options = TWINS[sampler]
    run_chain(weigh(random_problem(n, rng), uneven(n, rng)), kind, options, rng, 15)


@pytest.mark.parametrize("sampler", ["cgm", "pg-3-multinomial-None-plain", "pg-subtree", "pg-subtree-optimal-16",
                                     "pg-optimal-mixed", "local-16", "splice"])
def test_twins_on_larger_data(sampler, rng):
    """Row lists as well as predicates."""
    kind, options = TWINS[sampler]
    run_chain(weigh(larger_problem(300, rng), uneven(300, rng)), kind, options, rng, 15)


@pytest.mark.parametrize("sampler", ["cgm", "pg-subtree-forced", "local", "recut-cells", "splice", "reroute"])
def test_twins_on_weights_of_twelve_orders(sampler, rng):
    """Light rows beside heavy ones: the same decisions, ratios to 1e-9."""
    kind, options = TWINS[sampler]
    for n in (5, 40):
        problem = random_problem(n, rng)
        problem.sigma2 = 1.0
        run_chain(weigh(problem, 10 ** rng.uniform(-10, 0, n)), kind, options, rng, 25)


@pytest.mark.parametrize("n", [30, 300])
def test_twins_in_a_cycle(n, rng):
    problem = weigh(larger_problem(n, rng, 20.0), uneven(n, rng))
    state = make_state(problem)
    state.overgrow(n // 10, rng)
    run_cycle(problem, rng, 25, state.structure)


# -------------------------------------------------------------------------------------------------------------- laws


@pytest.mark.parametrize("name", WEIGHTED)
@pytest.mark.parametrize("sampler", [n for n in IRREDUCIBLE if n in OF_TREES and n != "pg-authors"])
def test_chains_have_the_exact_law(sampler, name, seed):
    """Leaves and f at each row, |z| < 4.5."""
    problem = PROBLEMS[name]()
    post = problem.posterior()
    exact = {f"{k} leaves": p for k, p in enumerate(post.p_n_leaves(), start=1)}
    exact |= {f"f at row {n}": f for n, f in enumerate(post.mean_f())}

    def traces(n, repeat):
        rng, state = np.random.default_rng([seed, repeat]), make_state(problem)
        trace_steps(IRREDUCIBLE[sampler], state, problem.target, make_params(problem), rng, n // 50)
        leaves, _, _, f = trace_steps(IRREDUCIBLE[sampler], state, problem.target, make_params(problem), rng, n)
        return ({f"{k} leaves": leaves == k for k in range(1, problem.n_rows + 1)}
                | {f"f at row {n}": f[:, n] for n in range(problem.n_rows)})

    assert_means(traces, exact, 20_000)


def test_leaf_values_follow_their_posterior(rng):
    """N(mean, var) of each leaf: Kolmogorov-Smirnov at level 1e-5."""
    problem = PROBLEMS["precise"]()
    tree = (0, 1, None, (1, 1, None, None))
    state, params = make_state(problem, tree), make_params(problem)
    draws = np.array([draw_leaf_values(state, problem.target, params, rng) for _ in range(20_000)])
    for rows, _ in problem.leaves(tree):
        variance = 1.0 / (1.0 / problem.leaf_var + sum(problem.weights[n] for n in rows) / problem.sigma2)
        z = (draws[:, rows[0]] - problem.leaf_posterior_mean(rows)) / np.sqrt(variance)
        assert stats.kstest(z, "norm").pvalue > 1e-5


@pytest.mark.parametrize("n_trees", [1, 3])
@pytest.mark.parametrize("sampler", GEWEKE)
def test_joint_law_is_the_prior(sampler, n_trees, seed):
    """Geweke's test with sigma2 free: data redrawn with variances sigma2 / w."""
    weights = np.array([0.2, 3.0, 5.0, 1.0, 0.5, 2.0])
    model = make_model(n_trees, "width", weights)
    exact = exact_means(model)
    exact["y2"] = exact["f2"] + exact["sigma2"] / weights[2]
    order = "random" if n_trees > 1 else "sequential"
    assert_means(lambda n, repeat: run(model, GEWEKE[sampler], order, seed + repeat, n), exact, 10_000)


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_moments_of_joint_leaves(temperature, rng):
    """The joint law of all leaf values, |z| < 5.5 of 54 moments."""
    ensemble = small_ensemble(rng, temperature)
    ensemble.weights = weights = uneven(10, rng)
    kernel, part = ensemble._kernel, bart.JointLeaves()
    Z, s2 = indicators(kernel.states), kernel.sigma2 / temperature
    precision = Z.T @ (weights[:, None] * Z) / s2 + np.eye(Z.shape[1]) / kernel.leaf_var
    mean = np.linalg.solve(precision, Z.T @ (weights * kernel.y) / s2 + kernel.leaf_mean / kernel.leaf_var)
    draws = np.empty((N_DRAWS, len(mean)))
    for i in range(N_DRAWS):
        part.redraw(kernel, rng)
        draws[i] = np.concatenate([state.leaf_values for state in kernel.states])
    assert worst_z(draws, mean, precision) < BOUND


@pytest.mark.parametrize("n, leaves", [(1, (1,)), (2, (1, 2)), (700, (300, 2, 270)), (5000, (2, 3))])
def test_statistics_of_joint_leaves(n, leaves, rng):
    X, y, weights = rng.random((n, 2)), rng.standard_normal(n), uneven(n, rng)
    states = [bart.TreeState(bart.RankCodes(X), bart.TreePrior())]
    states += [bart.TreeState(states[0].domain) for _ in leaves[1:]]
    for state, n_leaves in zip(states, leaves, strict=True):
        state.overgrow(n_leaves, rng)
    Z = indicators(states)
    found, sums = leaf_statistics(states, y, weights)
    np.testing.assert_allclose(found, np.tril(Z.T @ (weights[:, None] * Z)), rtol=1e-11)
    np.testing.assert_allclose(sums, Z.T @ (weights * y), rtol=1e-10, atol=1e-10)
    with pytest.raises(ValueError, match="weights must have shape"):
        leaf_statistics(states, y, np.ones(n + 1))


def test_a_ladder_has_the_exact_law(seed):
    """Leaves of the cold state, |z| < 4.5."""
    problem = PROBLEMS["precise_ties"]()
    exact = {f"{k} leaves": p for k, p in enumerate(problem.posterior().p_n_leaves(), start=1)}
    model = bart.Model(problem.X, problem.target, n_trees=1, alpha=problem.alpha, beta=problem.beta, scale=False,
                       sigma=problem.sigma2**0.5, leaf_mean=problem.leaf_mean, leaf_var=problem.leaf_var,
                       weights=problem.weights)

    def traces(n, repeat):
        post = bart.sample(model, "cgm", n_burn=n // 50, n_draws=n, n_chains=1, seed=[seed, repeat], keep_trees=False,
                           ladder=bart.Ladder(n_rungs=3, t_min=0.2, tune=False), progress=False)
        return {f"{k} leaves": post["n_leaves"][0] == k for k in range(1, problem.n_rows + 1)}

    assert_means(traces, exact, 10_000)


# -------------------------------------------------------------------------------------------- the forms of a sweep


def weighted_model(seed, **options):
    rng = np.random.default_rng(seed)
    X, y = make_data("ties", rng)
    return bart.Model(X, y, n_trees=5, beta=0.5, weights=uneven(len(y), rng), **options)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", COMPOSED)
def test_compiled_and_from_python_alike(name, order, seed):
    found = []
    for one in (COMPOSED[name], hide(COMPOSED[name])):
        ensemble = bart.Ensemble(weighted_model(seed), one, np.random.default_rng(seed), init="prior", tree_order=order)
        found.append(run_store(ensemble, 110))
        found[-1] |= {"residual": ensemble.residual.tobytes(), "rng": ensemble.rng.bit_generator.state}
    assert found[0] == found[1]


@pytest.mark.parametrize("name", COMPOSED)
def test_an_ensemble_makes_the_trees_of_an_own_loop(name, seed):
    """On the residual of all trees as on targets of one's own, which have other roundings alone."""
    model = weighted_model(seed, sigma=0.9, leaf_mean=0.02)
    ensemble = bart.Ensemble(model, COMPOSED[name], np.random.default_rng(seed))
    states, residual = own_states(ensemble)
    rng = np.random.default_rng()
    rng.bit_generator.state = ensemble.rng.bit_generator.state
    params = bart.StepParams(model.noise_prior.sigma2, model.leaf_prior.var, model.leaf_prior.mean)
    for _ in range(60):
        ensemble.sweep()
        own_sweep(states, residual, COMPOSED[name], params, rng)
        assert [state.structure for state in states] == ensemble.structures()
    np.testing.assert_allclose(residual, ensemble.residual, atol=1e-9)


@pytest.mark.parametrize("name", SAMPLERS)
def test_builds_of_the_loops_give_the_same_bits(name, seed):
    found, before = [], rowops.TARGET
    for target in rowops.TARGETS:
        rowops.use(target)
        found.append(run_store(bart.Ensemble(weighted_model(seed), SAMPLERS[name], np.random.default_rng(seed)), 30))
    rowops.use(before)
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("name", ["cgm", "pg", "levels", "slide", "subtree-optimal"])
def test_threads_of_a_sweep_change_no_bit(name):
    rng = np.random.default_rng(3)
    X = rng.integers(0, 300, (70_001, 3)).astype(float)
    y = np.sin(X[:, 0] / 60) + 0.1 * rng.standard_normal(len(X))
    model, found = bart.Model(X, y, n_trees=4, weights=uneven(len(y), rng)), []
    for n_threads in (1, 2, 5):
        ensemble = bart.Ensemble(model, SAMPLERS[name], np.random.default_rng(1), n_threads=n_threads)
        found.append(run_store(ensemble, 3) | {"residual": ensemble.residual.tobytes()})
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("name", SAMPLERS)
def test_weights_may_change_between_runs(name, seed):
    """What then follows is what follows from the same state under a model that has them."""
    model = weighted_model(seed, sigma_hat=1.0)
    X, y = model.dataset.X, model.dataset.y
    start = bart.Ensemble(bart.Model(X, y, n_trees=5, beta=0.5, sigma_hat=1.0), SAMPLERS[name],
                          np.random.default_rng(seed), init="prior")
    other = bart.Ensemble(model, SAMPLERS[name], np.random.default_rng(0))
    start.run(5)
    start.weights = model.dataset.weights
    other.set_state(start.get_state())
    other.rng.bit_generator.state = start.rng.bit_generator.state
    assert run_store(start, 20) == run_store(other, 20)
    start.weights = None
    assert start.weights is None and start.log_likelihood != other.log_likelihood
    again = bart.Ensemble(start.model, SAMPLERS[name], np.random.default_rng(0))
    again.set_state(start.get_state())
    again.rng.bit_generator.state = start.rng.bit_generator.state
    assert again.weights is None and run_store(start, 20) == run_store(again, 20)
