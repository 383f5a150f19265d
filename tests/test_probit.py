"""Probit: the truncated normal, the exact posterior, a joint test, known errors, and its place in runs and files."""

import concurrent.futures
import math
import shutil
import sys

import numpy as np
import pytest
from chain_helpers import assert_same, interrupted_at
from chain_laws import assert_means, z_scores
from oracle import Problem
from probit_law import ProbitProblem, exact_means
from scipy import stats
from scipy.special import log_ndtr, ndtr, ndtri
from test_compose import hide

import bart
from bart.outcomes import Latent, Outcome, Probit, draw_positive

LEVEL = 1e-5

# ------------------------------------------------------------------------------------------- the truncated normal


def draws_by_rejection(mean, n, rng):
    """The slow twin: draws of the whole law, those that are not positive thrown away."""
    kept = np.empty(0)
    while len(kept) < n:
        drawn = mean + rng.standard_normal(n)
        kept = np.concatenate([kept, drawn[drawn > 0]])
    return kept[:n]


@pytest.mark.parametrize("mean", [-1.5, -0.2, 0.0, 0.7, 4.0])
def test_draws_are_those_of_the_slow_twin(mean, rng):
    n = 20_000
    assert stats.ks_2samp(draw_positive(np.full(n, mean), rng), draws_by_rejection(mean, n, rng)).pvalue > LEVEL


@pytest.mark.parametrize("mean", [-1e5, -260.0, -30.0, -8.0, -1.0, 0.0, 1.0, 8.0, 30.0, 1e5])
def test_draws_are_truncated_normal(mean, rng):
    drawn = draw_positive(np.full(20_000, mean), rng)
    law = stats.truncnorm(-mean, np.inf, loc=mean)
    if mean < -1e3:             # of truncnorm, loc + x has no digits left there: x itself is all but exponential
        law = stats.expon(scale=-1.0 / mean)
    assert stats.kstest(drawn, law.cdf).pvalue > LEVEL
    assert (drawn > 0).all()


def test_draws_far_below_zero_keep_their_digits():
    """On both sides of the switch: a x + x^2 / 2 + log R(a) - log R(a + x) is the exponential, R Mills' ratio."""
    for mean in (-240.0, -260.0, -1e4):
        drawn = draw_positive(np.full(1000, mean), np.random.default_rng(3))
        exponent, a = np.random.default_rng(3).standard_exponential(1000), -mean
        found = a * drawn + 0.5 * drawn**2 + _log_mills(a) - _log_mills(a + drawn)
        np.testing.assert_allclose(found, exponent, atol=1e-7)


def _log_mills(x):
    return -np.log(x) + np.log1p(-1 / x**2 + 3 / x**4)


@pytest.mark.parametrize("mean", [-1e300, -1e10, -37.6, 0.0, 37.6, 1e10, 1e300])
def test_draws_are_finite_and_positive(mean):
    class Extremes:
        """What a generator may give at worst."""

        def standard_exponential(self, n):
            return np.array([0.0, 5e-324, 1e-300, 1e-20, 1.0, 50.0])[:n]

    drawn = draw_positive(np.full(6, mean), Extremes())
    assert np.isfinite(drawn).all() and (drawn > 0).all()


def test_classes_take_their_sides(rng):
    y = np.array([0.0, 1.0] * 500)
    mean = np.where(y > 0, -20.0, 20.0)         # as wrong as can be
    z = Probit().draw(y, mean, rng)
    assert ((z > 0) == (y == 1)).all()
    # the sides mirror each other
    np.testing.assert_array_equal(Probit().draw(y, mean, np.random.default_rng(1)) * (2 * y - 1),
                                  draw_positive(np.full(1000, -20.0), np.random.default_rng(1)))


# -------------------------------------------------------------------------------------------- the exact posterior

TREE = {"alpha": 0.9, "beta": 0.5}
ONE = ProbitProblem([[0.0, 0.1], [0.3, 2.0], [1.9, 0.0], [2.0, 0.7]], [1, 0, 0, 1], 0.4, 1.5, -0.2, **TREE)
TWO = ProbitProblem([[0.0], [1.0], [3.0]], [1, 0, 1], 0.25, 0.8, 0.1, **TREE)
PROBLEMS = {1: ONE, 2: TWO}
SAMPLERS = {
    "growprune": bart.GrowPrune(),
    "pg": bart.ParticleGibbs(3),
    "local": bart.Local(),
    "optimal": bart.ParticleGibbs(2, proposal="optimal", region="subtree"),
    "joint": bart.Cycle(bart.CGM(), bart.JointLeaves(every=2)),
    "slide": bart.Cycle(bart.GrowPrune(), bart.Slide(every=1)),
    "python": hide(bart.CGM()),
}
HEAVY = {
    "cgm": bart.CGM(),
    "recut": bart.Cycle(bart.Local(), bart.Recut()),
    "splice": bart.Cycle(bart.Splice(), bart.Reroute()),
    "joint-each": bart.Cycle(bart.Local(), bart.JointLeaves(every=1)),
    "mixture": bart.Mixture((0.5, bart.CGM()), (0.5, bart.ParticleGibbs(2))),
}


def make_model(problem, n_trees):
    return bart.Model(problem.X, problem.target, n_trees=n_trees, outcome="probit", offset=problem.offset,
                      leaf_mean=problem.leaf_mean, leaf_var=problem.leaf_var, **TREE)


def record(problem, n_trees, sampler, seed, n_sweeps, names):
    """Traces of a chain by name, after a short burn-in."""
    ensemble = bart.Ensemble(make_model(problem, n_trees), sampler, np.random.default_rng(seed))
    ensemble.run(100)
    f, first = np.empty((n_sweeps, problem.n_rows)), []
    for row in f:
        ensemble.run(1)
        row[:] = ensemble.fit()
        first.append(ensemble.trees[0].structure)
    traces = {f"f[{n}]": f[:, n] for n in range(problem.n_rows)}
    traces |= {f"p[{n}]": ndtr(f[:, n]) for n in range(problem.n_rows)}
    first = np.array([f"tree {tree}" if f"tree {tree}" in names else "rare trees" for tree in first])
    return traces | {name: first == name for name in names if "tree" in name}


def assert_exact(problem, n_trees, sampler, seed, n_sweeps=6000):
    exact = exact_means(problem, n_trees)
    assert_means(lambda n, repeat: record(problem, n_trees, sampler, seed + repeat, n, exact), exact, n_sweeps)


def test_the_exact_law_by_two_ways():
    """One tree: the product over its leaves, and quadrature in the space of f."""
    for problem in PROBLEMS.values():
        for tree, log_joint in problem.enumerate():
            log_evidence = problem.law_of_f((tree,))[0]
            np.testing.assert_allclose(problem.log_prior(tree) + log_evidence, log_joint, atol=1e-8)
    assert math.isclose(sum(p for name, p in exact_means(TWO, 2).items() if "tree" in name), 1.0)


@pytest.mark.parametrize("n_trees, sampler", [
    *((1, name) for name in SAMPLERS), (2, "growprune"), (2, "joint"), (2, "local"),
    *(pytest.param(m, name, marks=pytest.mark.long) for name in HEAVY for m in (1, 2)),
])  # fmt: skip
def test_exact_posterior(n_trees, sampler, seed):
    assert_exact(PROBLEMS[n_trees], n_trees, (SAMPLERS | HEAVY)[sampler], seed)


def wrong_offset(latent, kernel, rng):
    """z drawn as if the offset were 0."""
    fit = kernel.y - kernel.residual
    kernel.y[:] = latent.outcome.draw(latent.y, fit, rng) - latent.offset
    kernel.set_residual()


def never_again(latent, kernel, rng):
    """z drawn once, before the first sweep."""
    if kernel.n_sweeps == 0:
        REDRAW(latent, kernel, rng)


def given_residual(latent, kernel, rng):
    """z drawn around the old z rather than around f."""
    kernel.y[:] = latent.outcome.draw(latent.y, latent.offset + kernel.y, rng) - latent.offset
    kernel.set_residual()


def untruncated(latent, kernel, rng):
    """z drawn whatever y is."""
    fit = kernel.y - kernel.residual
    kernel.y[:] = fit + rng.standard_normal(len(fit))
    kernel.set_residual()


REDRAW = Latent.redraw


@pytest.mark.parametrize("mutant", [wrong_offset, never_again, given_residual, untruncated])
def test_known_errors_are_caught(mutant, seed, monkeypatch):
    """The test above fails with each of them, by far."""
    monkeypatch.setattr(Latent, "redraw", mutant)
    exact = exact_means(ONE, 1)
    worst = z_scores(record(ONE, 1, bart.CGM(), seed, 6000, exact), exact)
    assert max(abs(z) for z in worst.values()) > 8


# ------------------------------------------------------------------------------------------------- the joint test

X_JOINT = np.array([[0.0, 1.0], [0.1, 0.3], [0.9, 0.3], [1.0, 0.0], [2.5, 1.0], [2.5, 1.0]])


def joint_model(n_trees):
    return bart.Model(X_JOINT, [0, 1, 1, 0, 1, 0], n_trees=n_trees, alpha=0.9, beta=0.7, k=1.5, leaf_mean=0.1,
                      outcome="probit", offset=0.3)


def joint_means(model):
    """Prior means of what `joint_run` records: f is normal, and E[f Phi(o + f)] is its mean and Stein's identity."""
    law = Problem(X_JOINT, np.zeros(6), 1e12, 1e-12, alpha=0.9, beta=0.7).posterior().p_n_leaves()
    m, leaf, offset = model.n_trees, model.leaf_prior, model.dataset.y_mid
    mean, var = m * leaf.mean, m * leaf.var
    at, scale = (offset + mean) / math.sqrt(1 + var), math.sqrt(1 + var)
    exact = {"f": mean, "f2": var + mean**2, "value2": leaf.var + leaf.mean**2, "y": ndtr(at),
             "yf": mean * ndtr(at) + var * stats.norm.pdf(at) / scale}
    return exact | {f"{k} leaves": p for k, p in enumerate(law, start=1)}


def joint_run(model, sampler, seed, n_sweeps):
    """The joint chain over trees, latent variables and data: new classes given f, then a sweep."""
    rng = np.random.default_rng(seed)
    ensemble = bart.Ensemble(model, sampler, rng, init="prior")
    leaves, names = np.empty(n_sweeps, dtype=int), ("f", "f2", "value2", "y", "yf")
    traces = {name: np.empty(n_sweeps) for name in names}
    for i in range(n_sweeps):
        f = ensemble.fit()
        ensemble.latent.y[:] = rng.random(len(f)) < ndtr(f)
        y, f = ensemble.latent.y[2], f[2] - model.dataset.y_mid
        tree = ensemble.trees[i % model.n_trees]
        leaves[i] = tree.n_leaves
        for name, value in zip(names, (f, f * f, tree.leaf_values[0] ** 2, y, y * f), strict=True):
            traces[name][i] = value
        ensemble.run(1)
    return traces | {f"{k} leaves": leaves == k for k in range(1, 7)}


@pytest.mark.parametrize("n_trees, sampler", [(1, "growprune"), *((3, name) for name in ("joint", "slide", "optimal",
                                                                                         "local")),
                                              *(pytest.param(3, name, marks=pytest.mark.long) for name in HEAVY)])
def test_joint_law_is_the_prior(n_trees, sampler, seed):
    model, kernel = joint_model(n_trees), (SAMPLERS | HEAVY)[sampler]
    assert_means(lambda n, repeat: joint_run(model, kernel, seed + repeat, n), joint_means(model), 8000)


def test_the_joint_test_sees_a_wrong_offset(seed, monkeypatch):
    monkeypatch.setattr(Latent, "redraw", wrong_offset)
    model = joint_model(3)
    worst = z_scores(joint_run(model, bart.GrowPrune(), seed, 8000), joint_means(model))
    assert max(abs(z) for z in worst.values()) > 8


# ------------------------------------------------------------------------------------------------ in runs and files


def make_data(n_rows=60):
    rng = np.random.default_rng(8)
    X = rng.random((n_rows, 3))
    return X, (rng.random(n_rows) < ndtr(3.0 * (X[:, 0] - 0.4))).astype(int)


def small_model(n_trees=5, **options):
    return bart.Model(*make_data(), n_trees=n_trees, outcome="probit", **options)


class Named(bart.TreeSampler):
    """A sampler in Python whose settings can be read off."""

    def __init__(self, inner):
        self.inner = inner

    def __repr__(self):
        return f"Named({self.inner!r})"

    def step(self, state, target, params, rng):
        return self.inner.step(state, target, params, rng)


RUN = {"n_burn": 12, "n_draws": 10, "n_chains": 4, "seed": 7, "keep_burn_trees": True}
KINDS = {"default": "auto", "joint": "local + joint(every=3)", "python": Named(bart.GrowPrune())}


@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_run_goes_on_bit_for_bit(kind, tmp_path, monkeypatch):
    model, sampler = small_model(), KINDS[kind]
    whole = bart.sample(model, sampler, **RUN)
    for cut in (1, 3, 6):
        options = {**RUN, "checkpoint": tmp_path / str(cut), "checkpoint_sweeps": 5}
        with interrupted_at(monkeypatch, cut):
            bart.sample(model, sampler, **options)
        if kind != "python":            # from the folder alone
            shutil.copytree(options["checkpoint"], f"{options['checkpoint']} copied")
            assert_same(bart.resume(f"{options['checkpoint']} copied"), whole)
        assert_same(bart.sample(model, sampler, **options), whole)


def test_a_checkpoint_of_another_outcome_is_refused(tmp_path):
    X, y = make_data()
    options = {"n_trees": 3, "leaf_var": 1.0}
    run = {"n_burn": 2, "n_draws": 2, "n_chains": 1, "seed": 1, "checkpoint": tmp_path, "sampler": "growprune"}
    bart.sample(bart.Model(X, y, outcome="probit", offset=0.0, **options), **run)
    for model in (bart.Model(X, y, sigma=1.0, scale=False, **options),
                  bart.Model(X, y, outcome="probit", offset=0.1, **options)):
        with pytest.raises(ValueError, match="other model"):
            bart.sample(model, **run)


def test_executors_make_the_same_draws():
    model = small_model()
    serial = bart.sample(model, **RUN)
    assert_same(bart.sample(model, executor=2, **RUN), serial)
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        assert_same(bart.sample(model, executor=pool, **RUN), serial)


@pytest.mark.parametrize("init", ["empty", "prior", "overgrown", "smc", "grow"])
def test_starts(init):
    model = small_model(n_trees=3)
    first, second = (bart.sample(model, init=init, **{**RUN, "n_chains": 1}) for _ in range(2))
    assert_same(first, second)
    ensemble = bart.Ensemble(model, "growprune", np.random.default_rng(1), init=init)
    assert np.isfinite(ensemble.residual).all() and ensemble.log_likelihood < 0
    np.testing.assert_allclose(ensemble.residual, model.dataset.y_scaled + model.dataset.y_mid - ensemble.fit())


def test_compiled_and_python_sweeps_make_the_same_bits():
    model = small_model()
    joint = bart.JointLeaves(every=2)
    for sampler, hidden in ((bart.CGM(), hide(bart.CGM())),
                            (bart.Cycle(bart.GrowPrune(), joint), bart.Cycle(hide(bart.GrowPrune()), joint))):
        assert_same(bart.sample(model, sampler, **RUN), bart.sample(model, hidden, **RUN))


def test_traces_are_what_the_forests_say():
    X, y = make_data()
    post = bart.sample(small_model(), **RUN)
    f = post.predict(X, draws=True).draws
    np.testing.assert_allclose(post["log_likelihood"], log_ndtr((2 * y - 1) * f).sum(axis=2), rtol=1e-12)
    assert (post["sigma"] == 1.0).all()
    summary = post.summary(["log_likelihood"])
    np.testing.assert_allclose(summary["log_likelihood"]["mean"], post["log_likelihood"].mean())


def test_probabilities():
    X, y = make_data()
    post = bart.sample(small_model(), **RUN)
    f = post.predict(X, draws=True).draws
    found = post.predict_proba(X, draws=True, quantiles=[0.1, 0.5], interval=0.8)
    np.testing.assert_array_equal(found.draws, ndtr(f))
    np.testing.assert_allclose(found.mean, ndtr(f).mean(axis=(0, 1)), rtol=1e-12)
    np.testing.assert_array_equal(post.predict_proba(X), found.mean)
    np.testing.assert_allclose(found.quantiles, np.quantile(ndtr(f).reshape(-1, len(X)), [0.1, 0.5], axis=0))
    np.testing.assert_allclose(found.interval, np.quantile(ndtr(f).reshape(-1, len(X)), [0.1, 0.9], axis=0))
    every = post.predict_proba(X[:4], draws=True, every=3, n_threads=2)
    np.testing.assert_array_equal(every.draws, found.draws[:, ::3, :4])
    assert every.quantiles is None and every.interval is None
    assert post.predict_proba(X[:0]).shape == (0,)
    for row in (0, 17):                         # the rows beside it do not matter
        np.testing.assert_array_equal(post.predict_proba(X[row:row + 1]), found.mean[row:row + 1])
    with pytest.raises(ValueError, match=r"quantiles\[0\]"):
        post.predict_proba(X, quantiles=[2])
    with pytest.raises(TypeError, match="draws must be True or False"):
        post.predict_proba(X, draws="no")
    with pytest.raises(ValueError, match="columns"):
        post.predict_proba(X[:, :2])
    other = bart.sample(bart.Model(X, y, n_trees=2), n_burn=1, n_draws=2, n_chains=1, seed=1)
    with pytest.raises(RuntimeError, match="outcome='probit'"):
        other.predict_proba(X)


def test_blocks_of_rows_change_nothing(monkeypatch):
    X, _ = make_data()
    post = bart.sample(small_model(), **RUN)
    whole = post.predict_proba(X, draws=True, interval=0.5)
    monkeypatch.setattr(sys.modules["bart.prediction"], "_BLOCK_NUMBERS", 3 * post.n_chains * post.n_draws)
    for a, b in zip(post.predict_proba(X, draws=True, interval=0.5), whole, strict=True):
        np.testing.assert_array_equal(a, b)


def test_files_and_arviz(tmp_path):
    X, _ = make_data()
    post = bart.sample(small_model(), **RUN)
    post.save(tmp_path / "run.npz")
    again = bart.load(tmp_path / "run.npz")
    assert_same(again, post)
    assert again.header["outcome"] == "probit"
    np.testing.assert_array_equal(again.predict_proba(X), post.predict_proba(X))
    found = post.to_arviz()
    np.testing.assert_array_equal(np.asarray(found["posterior"]["total_log_likelihood"]), post["log_likelihood"])


def test_state_of_an_ensemble():
    """The state in the middle of a chain, changed labels and offsets in it, goes on bit for bit."""
    model = small_model()
    first = bart.Ensemble(model, "growprune + joint(every=2)", np.random.default_rng(1))
    first.run(5)
    first.latent.y[3] = 1 - first.latent.y[3]
    first.residual[:] -= 0.25
    second = bart.Ensemble(model, "growprune + joint(every=2)", np.random.default_rng(9), init="prior")
    second.set_state(first.get_state())
    second.rng.bit_generator.state = first.rng.bit_generator.state
    a, b = first.run(9), second.run(9)
    for name in set(a) - {"seconds"}:
        np.testing.assert_array_equal(a[name], b[name])
    np.testing.assert_array_equal(first.residual, second.residual)


def test_a_change_of_the_residual_is_one_of_the_offset():
    """Two forests in turn, or an offset by row: the residual less delta is an offset larger by delta."""
    model = small_model()
    ensemble = bart.Ensemble(model, "growprune", np.random.default_rng(1))
    ensemble.run(3)
    delta = np.linspace(-1.0, 2.0, 60)
    z = ensemble._kernel.y + ensemble.latent.offset
    ensemble.residual[:] -= delta
    ensemble.take_up_changes()
    ensemble.note_residual()
    np.testing.assert_allclose(ensemble.latent.offset, model.dataset.y_mid + delta)
    np.testing.assert_allclose(ensemble._kernel.y + ensemble.latent.offset, z)
    ensemble.run(105)
    _, y = make_data()
    mean = model.dataset.y_mid + delta + sum(state.fit() for state in ensemble.trees)
    np.testing.assert_allclose(ensemble.log_likelihood, log_ndtr((2 * y - 1) * mean).sum())
    z = ensemble._kernel.y + ensemble.latent.offset
    assert ((z > 0) == (y == 1)).all()
    np.testing.assert_allclose(ensemble.residual, z - mean, atol=1e-12)


def test_an_interrupt_between_two_writes_leaves_a_state():
    model = small_model()
    ensemble = bart.Ensemble(model, "growprune", np.random.default_rng(1))
    ensemble.run(2)

    class Torn:
        """A kernel whose residual cannot be written just now."""

        y, n_sweeps = ensemble._kernel.y, ensemble.n_sweeps

        def __getattr__(self, name):
            if name == "residual" and self.reads:
                raise KeyboardInterrupt
            self.__dict__["reads"] = True
            return getattr(ensemble._kernel, name)

    torn = Torn()
    torn.__dict__["reads"] = False
    with pytest.raises(KeyboardInterrupt):
        ensemble.latent.redraw(torn, ensemble.rng)
    fit = sum(state.fit() for state in ensemble.trees)
    np.testing.assert_allclose(ensemble.residual, ensemble._kernel.y - fit, atol=1e-12)
    assert ensemble.run(1)["log_likelihood"][0] < 0


@pytest.mark.parametrize("n_trees", [1, 50])
def test_separated_classes(n_trees):
    """Nothing overflows, and the prior holds f back: with 0 and 1 apart its posterior stays of the prior's size."""
    x = np.linspace(0, 1, 200)
    post = bart.sample(bart.Model(x[:, None], x > 0.5, n_trees=n_trees, outcome="probit"), n_burn=200, n_draws=200,
                       n_chains=2, seed=3)
    p = post.predict_proba(x[:, None])
    assert np.isfinite(post["log_likelihood"]).all()
    assert (p[:90] < 0.1).all() and (p[110:] > 0.9).all()
    assert np.abs(post.predict(x[:, None])).max() < 6
    mistaken = bart.Model(x[:, None], x > 0.5, n_trees=n_trees, outcome="probit", offset=40.0)
    post = bart.sample(mistaken, n_burn=5, n_draws=5, n_chains=4, seed=3)
    assert np.isfinite(post["log_likelihood"]).all() and np.isfinite(post.predict(x[:, None])).all()


def test_probabilities_are_calibrated():
    """On data drawn from a known probability."""
    rng = np.random.default_rng(4)
    X = rng.random((3000, 3))
    p = ndtr(2.0 * np.sin(4.0 * X[:, 0]) * X[:, 1] - 0.5)
    y = rng.random(3000) < p
    post = bart.sample(bart.Model(X[:1500], y[:1500], n_trees=50, outcome="probit"), n_burn=150, n_draws=100,
                       n_chains=2, seed=1)
    found = post.predict_proba(X[1500:])
    assert np.abs(found - p[1500:]).mean() < 0.06
    ends = post.predict_proba(X[1500:], interval=0.9).interval
    assert 0.8 < np.mean((ends[0] <= p[1500:]) & (p[1500:] <= ends[1])) <= 1.0


# ------------------------------------------------------------------------------------------------------ the model


def test_priors():
    X, y = make_data()
    model = bart.Model(X, y, n_trees=50, k=3.0, outcome="probit")
    assert math.isclose(model.leaf_prior.var, (3.0 / (3.0 * math.sqrt(50))) ** 2)
    assert model.noise_prior.sigma2 == 1.0 and model.sigma_hat is None
    assert math.isclose(model.dataset.y_mid, ndtri(np.mean(y))) and model.dataset.y_range == 1.0
    assert bart.Model(X, y, outcome=Probit(), offset=-1.5).dataset.y_mid == -1.5
    assert isinstance(bart.Model(X, y.astype(bool), outcome="probit").outcome, Probit)
    np.testing.assert_array_equal(model.dataset.y, y)
    for value, sign in zip(model.dataset.y_scaled + model.dataset.y_mid, 2 * y - 1, strict=True):
        assert math.isclose(value, sign * stats.truncnorm(-sign * model.dataset.y_mid, np.inf,
                                                          loc=sign * model.dataset.y_mid).mean())
    assert bart.Model(X, y).outcome is None
    assert "Probit()" in repr(model)


@pytest.mark.parametrize("options, message", [
    ({"sigma": 1.0}, "sigma=1.0 has no effect"), ({"nu": 4.0}, "nu=4.0 has no effect"), ({"q": 0.5}, "q=0.5 has no"),
    ({"sigma_hat": "sd"}, "sigma_hat='sd' has no effect"), ({"scale": False}, "scale=False has no effect"),
    ({"noise_shape": "full"}, "noise_shape='full' has no"), ({"k": 1.0, "leaf_var": 2.0}, "k=1.0 has no effect"),
    ({"offset": math.inf}, "offset must be finite"), ({"outcome": "logit"}, "outcome must be one of 'gaussian', "),
    ({"outcome": None}, "outcome must be one of"),
])  # fmt: skip
def test_bad_parameters(options, message):
    X, y = make_data()
    with pytest.raises(ValueError, match=message):
        bart.Model(X, y, **{"outcome": "probit"} | options)


def test_bad_classes():
    X, y = make_data()
    with pytest.raises(ValueError, match="y must be 0 or 1 .* it is 2 at position 5"):
        bart.Model(X, [*y[:5], 2, *y[6:]], outcome="probit")
    with pytest.raises(ValueError, match="one class only, 1 in all 60 rows"):
        bart.Model(X, np.ones(60), outcome="probit")
    with pytest.raises(TypeError, match="offset must be a real number"):
        bart.Model(X, y, outcome="probit", offset="1")


def test_ladders_are_refused():
    model = small_model(n_trees=1)
    with pytest.raises(ValueError, match="ladder: parallel tempering is not exact with outcome='probit'"):
        bart.sample(model, "cgm", ladder=bart.Ladder(n_rungs=2))
    assert bart.sample(model, **{**RUN, "n_chains": 1}).ladder is None
    ensemble = bart.Ensemble(model, "cgm", np.random.default_rng(1))
    with pytest.raises(ValueError, match="temperature must be 1"):
        ensemble.temperature = 0.5
    with pytest.raises(ValueError, match="sigma2 is 1"):
        ensemble.sigma2 = 2.0
    ensemble.temperature = ensemble.sigma2 = 1.0


# ----------------------------------------------------------------------------------------------- outcomes of one's own


class Seen(Outcome):
    """z itself is seen: the outcome that must change nothing."""

    name, half_range = "seen", 0.5

    def check(self, y):
        pass

    def default_offset(self, y):
        return 0.0

    def start(self, y, offset):
        return y.copy()

    def draw(self, y, mean, rng):
        return y

    def log_likelihood(self, y, mean):
        return float(stats.norm.logpdf(y - mean).sum())


def test_an_outcome_that_is_seen_is_a_regression():
    X, _ = make_data()
    y = 2.0 * X[:, 0] + np.random.default_rng(1).standard_normal(60)
    post = bart.sample(bart.Model(X, y, n_trees=5, outcome=Seen()), **RUN)
    plain = bart.sample(bart.Model(X, y, n_trees=5, sigma=1.0, scale=False), **RUN)
    for name in ("log_likelihood", "n_leaves", "tree_changed", "row_visits"):
        np.testing.assert_allclose(post[name], plain[name], rtol=1e-9)
    np.testing.assert_allclose(post.predict(X), plain.predict(X), rtol=1e-9)
    with pytest.raises(RuntimeError, match="outcome='probit'"):
        post.predict_proba(X)
