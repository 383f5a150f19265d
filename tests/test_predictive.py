"""Predictive intervals of outcomes: the mixture over draws against root finding, simulation and blocks."""

import tracemalloc

import numpy as np
import pytest
from chain_helpers import make_data
from scipy import stats
from scipy.optimize import brentq

import bart
from bart.predictive import mixture_quantiles, normal_log_density

LEVELS = [1e-12, 0.001, 0.05, 0.3, 0.5, 0.7, 0.95, 0.999, 1 - 1e-12]


@pytest.fixture(scope="module")
def post():
    return bart.sample(
        bart.Model(*make_data(60), n_trees=5), "cgm", n_burn=20, n_draws=30, n_chains=3, seed=4, progress=False
    )


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(8).random((40, 3))


def by_root_finding(f, sigma, level):
    """A quantile of one mixture, by scipy, of the tail that the level lies in."""
    if level > 0.5:
        return -by_root_finding(-f, sigma, 1.0 - level)
    ends = stats.norm.ppf(level, f, sigma)
    if ends.min() == ends.max():
        return ends[0]
    return brentq(
        lambda t: np.log(stats.norm.cdf(t, f, sigma).mean()) - np.log(level), ends.min(), ends.max(), xtol=1e-13
    )


@pytest.mark.parametrize(
    ("spread", "sigmas"), [(1.0, (0.5, 2.0)), (100.0, (0.01, 0.02)), (0.0, (1.0, 1.0)), (1e-9, (1e-8, 1.0))]
)
def test_quantiles_of_mixtures_are_the_roots(rng, spread, sigmas):
    f = rng.normal(3.0, 1.0, (25, 6)) * spread
    sigma = rng.uniform(*sigmas, 25)
    found = mixture_quantiles(f, sigma, LEVELS)
    for place, level in enumerate(LEVELS):
        expected = [by_root_finding(column, sigma, level) for column in f.T]
        np.testing.assert_allclose(found[place], expected, rtol=1e-10, atol=1e-10 * sigma.min())
    assert np.all(np.diff(found, axis=0) >= 0)


def test_two_far_modes_and_the_ends():
    f, sigma = np.array([[-1e6], [1e6], [1e6], [1e6]]), np.full(4, 1e-3)
    found = mixture_quantiles(f, sigma, [0.0, 0.2, 0.25, 0.6, 1.0])[:, 0]
    assert found[0] == -np.inf and found[-1] == np.inf
    assert found[1] == pytest.approx(-1e6 + 1e-3 * stats.norm.ppf(0.8), abs=1e-8)
    assert -1e6 < found[2] < 1e6
    assert found[3] == pytest.approx(1e6 + 1e-3 * stats.norm.ppf((0.6 - 0.25) / 0.75), abs=1e-8)


def test_one_normal_law_is_its_own_mixture():
    found = mixture_quantiles(np.full((1, 2), 5.0), np.array([2.0]), LEVELS)
    np.testing.assert_allclose(found[:, 0], stats.norm.ppf(LEVELS, 5.0, 2.0), rtol=1e-9)


def test_predict_takes_the_mixture_of_all_draws(post, rows):
    f = post.predict(rows, draws=True).draws.reshape(90, -1)
    found = post.predict(rows, kind="outcome", quantiles=[0.1, 0.5], interval=0.8)
    np.testing.assert_array_equal(found.mean, post.predict(rows))
    sigma = post["sigma"].ravel()
    expected = [[by_root_finding(column, sigma, level) for column in f.T] for level in (0.1, 0.5, 0.9)]
    np.testing.assert_allclose(found.quantiles, expected[:2], rtol=1e-9)
    np.testing.assert_allclose(found.interval, [expected[0], expected[2]], rtol=1e-9)
    credible = post.predict(rows, interval=0.8).interval
    assert np.all(np.ptp(found.interval, axis=0) > np.ptp(credible, axis=0))


def test_thinned_draws_keep_their_sigma(post, rows):
    f = post.predict(rows, draws=True).draws[:, ::4].reshape(-1, len(rows))
    found = post.predict(rows, kind="outcome", quantiles=[0.2], every=4).quantiles
    expected = mixture_quantiles(f, post["sigma"][:, ::4].ravel(), [0.2])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("block_rows", "numbers", "visits"), [(1, 1, 1), (7, 100, 400), (10**6, 10**9, 10**9)])
def test_blocks_and_threads_change_nothing(post, rows, monkeypatch, block_rows, numbers, visits):
    options = {"draws": True, "quantiles": [0.3], "interval": 0.5, "kind": "outcome", "seed": 7}
    expected = post.predict(rows, **options)
    for name, value in (("ROWS", block_rows), ("NUMBERS", numbers), ("VISITS", visits)):
        monkeypatch.setattr(f"bart.prediction._BLOCK_{name}", value)
    monkeypatch.setattr("bart.predictive._BLOCK_NUMBERS", numbers)
    for threads in (1, 2):
        for first, second in zip(expected, post.predict(rows, n_threads=threads, **options), strict=True):
            np.testing.assert_array_equal(first, second)


def test_simulated_outcomes_are_normal_around_their_draw(post, rows):
    rows = np.tile(rows, (20, 1))
    simulated = post.predict(rows, draws=True, kind="outcome", seed=3)
    f = post.predict(rows, draws=True).draws
    z = (simulated.draws - f) / post["sigma"][:, :, None]
    assert stats.kstest(z.ravel(), "norm").pvalue > 1e-5
    # No two draws, and no two rows, share their noise.
    assert len(np.unique(z)) > 0.9999 * z.size
    np.testing.assert_array_equal(simulated.mean, post.predict(rows))
    again = post.predict(rows, draws=True, kind="outcome", seed=3).draws
    np.testing.assert_array_equal(simulated.draws, again)
    assert not np.array_equal(again, post.predict(rows, draws=True, kind="outcome", seed=4).draws)
    assert not np.array_equal(again, post.predict(rows, draws=True, kind="outcome").draws)


def test_intervals_hold_their_share_of_simulated_outcomes(post, rows):
    interval = post.predict(rows, interval=0.7, kind="outcome").interval
    many = np.concatenate(
        [post.predict(rows, draws=True, kind="outcome", seed=seed).draws.reshape(-1, len(rows)) for seed in range(40)]
    )
    below, above = (many < interval[0]).mean(axis=0), (many > interval[1]).mean(axis=0)
    error = np.sqrt(0.15 * 0.85 / len(many))
    assert np.abs(below - 0.15).max() < 5 * error and np.abs(above - 0.15).max() < 5 * error


@pytest.mark.parametrize("what", ["outcome", "credible", "blocks", "partial", "ice"])
def test_memory_is_bounded(monkeypatch, what):
    """All draws of all rows take 24 MB; what is asked for takes a fifth of it at most."""
    X, y = make_data(2000)
    post = bart.sample(
        bart.Model(X, y, n_trees=2), "cgm", n_burn=5, n_draws=750, n_chains=2, seed=4, progress=False
    )
    for name in ("prediction._BLOCK", "predictive._BLOCK", "dependence._BLOCK"):
        monkeypatch.setattr(f"bart.{name}_NUMBERS", 40_000)
    questions = {
        "outcome": lambda: post.predict(X, interval=0.9, kind="outcome"),
        "credible": lambda: post.predict(X, interval=0.9),
        "blocks": lambda: max(block.values.size for block in post.log_likelihood_blocks(X, y)),
        "partial": lambda: post.partial_dependence(X, 0, [0.2, 0.8]),
        "ice": lambda: post.individual_dependence(X, 0, [0.2, 0.8], centred=True),
    }
    tracemalloc.start()
    try:
        questions[what]()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5e6


def test_no_rows(post, rows):
    found = post.predict(rows[:0], draws=True, quantiles=[0.5], interval=0.9, kind="outcome")
    assert [part.shape for part in found] == [(0,), (3, 30, 0), (1, 0), (2, 0)]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"kind": "median"}, "kind"), ({"seed": 1}, "seed=1 has no effect"),
        ({"kind": "outcome", "interval": 0.5, "seed": 1}, "seed=1 has no effect"),
        ({"kind": "outcome", "draws": True, "seed": -1}, "seed must be at least 0"),
        ({"kind": "outcome", "interval": 1.5}, "interval"), ({"kind": "outcome", "every": 0}, "every"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused(post, rows, options, match):
    with pytest.raises(ValueError, match=match):
        post.predict(rows, **options)


def test_other_outcomes_are_refused(post, rows):
    other = bart.Posterior(post.sweeps, post.header | {"outcome": "probit"}, post.forests)
    with pytest.raises(ValueError, match="Gaussian"):
        other.predict(rows, kind="outcome", interval=0.5)
    with pytest.raises(ValueError, match="y must be 0 or 1"):
        other.pointwise_log_likelihood(rows, rows[:, 0])
    own = bart.Posterior(post.sweeps, post.header | {"outcome": "counts"}, post.forests)
    with pytest.raises(ValueError, match="is about Gaussian or probit outcomes"):
        own.pointwise_log_likelihood(rows, rows[:, 0])
    np.testing.assert_array_equal(other.predict(rows), post.predict(rows))


def test_log_density():
    np.testing.assert_allclose(
        normal_log_density(np.array([1.0, -3.0]), 0.5, np.array([2.0, 0.1])),
        stats.norm.logpdf([1.0, -3.0], 0.5, [2.0, 0.1]), rtol=1e-12,
    )  # fmt: skip
