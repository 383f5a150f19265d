"""Effective sizes against coda's values and an independent computation, ArviZ's figures by hand."""

import json
import math
import sys

import numpy as np
import pytest
from scipy.linalg import solve_toeplitz
from scipy.stats import norm, rankdata

from bart import diagnostics
from bart.diagnostics import effective_size, ess_bulk, ess_tail, mcse, split_rhat, summarise


def autoregression(rng, n, coefficients, burn=200):
    p = len(coefficients)
    x = np.zeros(n + burn)
    noise = rng.normal(size=n + burn)
    for t in range(p, n + burn):
        x[t] = noise[t] + np.dot(coefficients, x[t - p : t][::-1])
    return x[burn:]


# coda's effective size


def test_every_reference_value(reference_dir):
    cases = json.loads((reference_dir / "coda_effective_size.json").read_text())
    assert len(cases) == 13
    for case in cases:
        x = np.loadtxt(reference_dir / "ess_series" / case["series"])
        assert x.size == case["n"]
        size = effective_size(x)
        if case["effective_size"] == 0:
            assert size == 0.0, case["series"]
        else:
            assert size == pytest.approx(case["effective_size"], rel=1e-8), case["series"]


def by_linear_systems(x):
    """The definition, every order solved on its own as a Toeplitz system."""
    n = len(x)
    z = x - np.mean(x)
    r = np.array([np.sum(z[: n - k] * z[k:]) / n for k in range(min(n - 1, int(10 * math.log10(n))) + 1)])
    fits = []
    for p in range(len(r)):
        phi = solve_toeplitz(r[:p], r[1 : p + 1]) if p else np.empty(0)
        v = r[0] - phi @ r[1 : p + 1]
        fits.append((n * math.log(v) + 2 * p + 2, p, v, phi))
    _, p, v, phi = min(fits, key=lambda fit: fit[:2])
    return n * np.var(x, ddof=1) / (v * n / (n - p - 1) / (1 - phi.sum()) ** 2)


def test_effective_size_against_linear_systems(rng):
    for _ in range(60):
        n = int(rng.integers(5, 400))
        coefficients = [(0.7,), (-0.6,), (0.5, 0.3), (1.2, -0.5), (0.2, 0.0, 0.0, 0.6), ()][rng.integers(6)]
        x = autoregression(rng, n, coefficients) * 10.0 ** rng.integers(-3, 4) + rng.normal()
        assert effective_size(x) == pytest.approx(by_linear_systems(x), rel=1e-8)


def test_effective_size_by_hand():
    # Ten values +1, -1, ...: c0 = 1, c1 = -9/10, order 1 has the least criterion, and then
    # ESS = n (n - 2) / (n - 1) (1 - phi) / (1 + phi) with phi = -9/10.
    assert effective_size([1, -1] * 5) == pytest.approx(10 * 8 / 9 * 19, rel=1e-12)
    # Three values: no order pays for its parameter, and ESS = n.
    assert effective_size([1.0, 2.0, 4.0]) == pytest.approx(3.0, rel=1e-12)


def test_effective_size_does_not_depend_on_units(rng):
    x = autoregression(rng, 300, (0.8,))
    size = effective_size(x)
    for scale in (-1.0, 2.0**400, 1e300 / np.abs(x).max(), 1e-3):
        assert effective_size(x * scale) == pytest.approx(size, rel=1e-10)
    assert effective_size(x + 1e4) == pytest.approx(size, rel=1e-8)


def test_effective_size_is_exactly_zero_without_movement():
    small = 1e-9 * np.array([1, -1, 2, 0, 1])
    lines = (np.arange(50), 0.1 * np.arange(9) - 4, [0, 1])
    for x in (np.zeros(10), np.full(1000, 3.25), np.full(7, 1e300), small, *lines):
        assert effective_size(x) == 0.0
    assert effective_size(100 * small) > 0


def test_effective_size_by_columns_and_of_any_numbers(rng):
    x = np.column_stack([autoregression(rng, 200, (0.5,)), np.ones(200), rng.normal(size=200)])
    sizes = effective_size(np.asfortranarray(x))
    assert sizes.tolist() == [effective_size(column) for column in x.T.copy()] and sizes[1] == 0.0
    assert isinstance(effective_size(x[:, 0]), float)
    counts = rng.integers(0, 5, size=100)
    before = counts.copy()
    assert effective_size(counts) == effective_size(counts.astype(float)) == effective_size(counts.tolist())
    np.testing.assert_array_equal(counts, before)
    assert effective_size(counts > 2) == effective_size((counts > 2).astype(float))


@pytest.mark.parametrize(
    "x, message",
    [
        ([], "shape"),
        ([1.0], "at least two draws"),
        (np.zeros((1, 3)), "at least two draws"),
        (3.0, "shape"),
        (np.zeros((2, 2, 2)), "shape"),
        (["a", "b"], "real numbers"),
        ([1j, 2], "real numbers"),
        ([1.0, np.nan, 2.0], "x is nan at position 1"),
        ([[1.0, 2.0], [3.0, np.inf]], r"x is inf at position \(1, 1\)"),
    ],
)
def test_bad_series_are_refused(x, message):
    with pytest.raises(ValueError, match=message):
        effective_size(x)


# Through ArviZ


def rhat_by_hand(draws):
    """Rank-normalised split R-hat of Vehtari et al. (2021)."""

    def plain(z):
        n = z.shape[1]
        within, between = z.var(axis=1, ddof=1).mean(), n * z.mean(axis=1).var(ddof=1)
        return math.sqrt((between / within + n - 1) / n)

    def normal_scores(z):
        return norm.ppf((rankdata(z).reshape(z.shape) - 0.375) / (z.size + 0.25))

    half = draws.shape[1] // 2
    split = np.vstack([draws[:, :half], draws[:, -half:]])
    return max(plain(normal_scores(split)), plain(normal_scores(np.abs(split - np.median(split)))))


def test_rhat_by_hand(rng):
    pytest.importorskip("arviz")
    for _ in range(20):
        chains, n = rng.integers(2, 6), 2 * rng.integers(5, 100)
        draws = rng.normal(size=(chains, n)) + rng.choice([0.0, 1.0]) * rng.normal(size=(chains, 1))
        assert split_rhat(draws) == pytest.approx(rhat_by_hand(draws), rel=1e-10)


def test_ess_and_mcse_of_known_processes(rng):
    pytest.importorskip("arviz")
    # Error rates: the estimates of 4 x 5000 draws have a relative sd of a few per cent; 40 % is beyond 6 sd.
    for coefficient in (0.0, 0.8):
        draws = np.array([autoregression(rng, 5000, (coefficient,)) for _ in range(4)])
        wanted = draws.size * (1 - coefficient) / (1 + coefficient)
        assert ess_bulk(draws) == pytest.approx(wanted, rel=0.4)
        assert mcse(draws) == pytest.approx(draws.std() / math.sqrt(wanted), rel=0.3)
        assert 0.3 * wanted < ess_tail(draws) < 2.5 * wanted
        assert split_rhat(draws) < 1.02


def test_chains_that_disagree_are_seen(rng):
    pytest.importorskip("arviz")
    draws = rng.normal(size=(4, 200))
    draws[0] += 5.0
    assert split_rhat(draws) > 1.5 and ess_bulk(draws) < 20
    assert split_rhat(np.arange(4.0)[:, None] + np.zeros((4, 10))) > 10


def test_nothing_is_said_where_nothing_can_be(rng):
    pytest.importorskip("arviz")
    for function in (split_rhat, ess_bulk, ess_tail, mcse):
        assert math.isnan(function(np.ones((4, 100)))) and math.isnan(function(rng.normal(size=(4, 3))))
    one = rng.normal(size=(1, 100))
    assert math.isnan(split_rhat(one)) and ess_bulk(one) > 10
    with pytest.raises(ValueError, match=r"draws must be real numbers of shape \(chain, draw\)"):
        ess_bulk(np.ones(10))
    with pytest.raises(ValueError, match=r"draws is nan at position \(1, 0\)"):
        mcse([[1.0, 2.0], [np.nan, 1.0]])


def test_summary(rng):
    pytest.importorskip("arviz")
    draws = rng.normal(3.0, 2.0, size=(3, 40))
    summary = summarise(draws)
    assert list(summary) == ["mean", "sd", "mcse", "ess_bulk", "ess_tail", "r_hat"]
    assert summary["mean"] == pytest.approx(draws.sum() / 120)
    assert summary["sd"] == pytest.approx(math.sqrt(((draws - draws.mean()) ** 2).sum() / 119))
    assert summary["r_hat"] == split_rhat(draws) and summary["ess_bulk"] == ess_bulk(draws)
    assert summary["mcse"] == mcse(draws) and summary["ess_tail"] == ess_tail(draws)
    assert all(type(value) is float for value in summary.values())


def test_without_arviz_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r"pgbart\[diagnostics\]"):
        diagnostics.ess_bulk([[1.0, 2.0, 3.0, 5.0]])
