"""The priors against hand calculation and scipy's distributions."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from bart.priors import FixedNoise, LeafPrior, NoisePrior, TreePrior, estimate_sigma

TINY = 5e-324


# Trees


def test_split_probability_by_hand():
    prior = TreePrior(alpha=0.95, beta=2.0)
    assert [prior.p_split(d) for d in range(3)] == pytest.approx([0.95, 0.95 / 4, 0.95 / 9], rel=1e-15)
    assert TreePrior(beta=0).p_split(50) == 0.95 and TreePrior(alpha=0).p_split(0) == 0.0
    assert TreePrior(beta=0.25).p_split(10_000) == pytest.approx(0.95 * 10_001**-0.25)


def test_dimension_weights():
    assert TreePrior().dim_log_weights(3).tolist() == [0.0, 0.0, 0.0]
    assert TreePrior(dim_weights=[2, 2]).dim_log_weights(2).tolist() == [0.0, 0.0]
    logs = TreePrior(dim_weights=np.array([1, 0, 4.0])).dim_log_weights(3)
    assert logs == pytest.approx([-math.log(4), -math.inf, 0.0]) and logs.dtype == np.float64
    extreme = TreePrior(dim_weights=(1e-300, 1e300)).dim_log_weights(2)
    assert extreme == pytest.approx([-600 * math.log(10), 0])
    with pytest.raises(ValueError, match="dim_weights has 2 values, but X has 3 columns"):
        TreePrior(dim_weights=(1, 1)).dim_log_weights(3)


def test_gap_mass_by_width(rng):
    values = [np.array([-1.0, 0.5, 3.0]), np.array([2.0]), np.sort(rng.normal(size=50))]
    mass = TreePrior().gap_mass(values)
    for v, cum in zip(values, mass, strict=True):
        np.testing.assert_array_equal(np.diff(cum), np.diff(v))


def test_gap_mass_by_width_of_extreme_columns():
    one_up = np.nextafter(1.0, 2.0)
    narrow, wide, sub = TreePrior().gap_mass(
        [np.array([1.0, one_up]), np.array([-1.7e308, 1e308, 1.7e308]), np.array([-TINY, 0.0, TINY])]
    )
    assert np.all(np.diff(narrow) > 0) and np.diff(sub).tolist() == [TINY, TINY]
    assert np.all(np.isfinite(np.diff(wide))) and math.isfinite(wide[-1] - wide[0])
    assert np.diff(wide)[0] / np.diff(wide)[1] == pytest.approx(2.7 / 0.7)


def test_grid_by_hand():
    prior = TreePrior(cuts="grid", n_cuts=3)
    values = np.array([0.0, 1.0, 2.5, 4.0])
    assert prior.grid(values).tolist() == [1.0, 2.0, 3.0]
    # The cut at 1 sends x = 1 to the left: it lies in the gap between 1 and 2.5.
    assert np.diff(prior.gap_mass([values])[0]).tolist() == [0.0, 2.0, 1.0]
    assert TreePrior(cuts="grid").grid(values).size == 100
    assert prior.grid(np.array([7.0])).size == 0 and prior.gap_mass([np.array([7.0])])[0].tolist() == [0.0]


def test_quantiles_by_hand():
    values = np.array([0.0, 1.0, 3.0, 100.0, 104.0])
    every = TreePrior(cuts="quantile")
    assert every.grid(values).tolist() == [0.5, 2.0, 51.5, 102.0]
    assert np.diff(every.gap_mass([values])[0]).tolist() == [1.0, 1.0, 1.0, 1.0]
    two = TreePrior(cuts="quantile", n_cuts=2)
    assert two.grid(values).tolist() == [2.0, 102.0]       # the gaps at ranks 1/4 and 3/4
    assert np.diff(two.gap_mass([values])[0]).tolist() == [0.0, 1.0, 0.0, 1.0]
    assert every.grid(np.array([7.0])).size == 0


def test_quantiles_are_cut_points_of_gaps_of_their_own(rng):
    for n_values in (2, 3, 50, 101, 102, 5000):
        values = np.unique(np.exp(10 * rng.random(n_values)))
        prior = TreePrior(cuts="quantile")
        cuts, mass = prior.grid(values), np.diff(prior.gap_mass([values])[0])
        assert cuts.size == min(100, values.size - 1) and np.all(np.diff(cuts) > 0)
        assert set(mass) <= {0.0, 1.0} and mass.sum() == cuts.size
        ranks = np.flatnonzero(mass)
        assert np.ptp(np.diff(ranks)) <= 1 if cuts.size > 1 else True


def test_grid_against_counting(rng):
    for _ in range(100):
        n_cuts = int(rng.integers(1, 40))
        prior = TreePrior(cuts="grid", n_cuts=n_cuts)
        values = np.unique(rng.integers(0, 30, size=rng.integers(2, 20)) * 0.3 + 1e3 * rng.normal())
        if values.size < 2:
            continue
        cuts, mass = prior.grid(values), prior.gap_mass([values])[0]
        assert cuts.size == n_cuts and np.all(cuts > values[0]) and np.all(cuts < values[-1])
        np.testing.assert_allclose(np.diff(cuts), (values[-1] - values[0]) / (n_cuts + 1), rtol=1e-9)
        for gap in range(values.size - 1):
            inside = sum(values[gap] <= c < values[gap + 1] for c in cuts)
            assert mass[gap + 1] - mass[gap] == inside
        assert mass[-1] - mass[0] == n_cuts and mass.dtype == np.float64


@pytest.mark.parametrize(
    "values", [[1.0, 1.0 + 2**-52], [-TINY, 0.0, TINY], [-1.7e308, 0.0, 1.7e308], [1e16, 1e16 + 2, 1e16 + 4]]
)
def test_every_point_of_a_grid_separates(values):
    values = np.array(values)
    prior = TreePrior(cuts="grid", n_cuts=10)
    cuts = prior.grid(values)
    assert cuts.size == 10 and np.all(np.diff(cuts) >= 0)
    assert np.all(cuts >= values[0]) and np.all(cuts < values[-1])
    cum = prior.gap_mass([values])[0]
    assert cum[-1] - cum[0] == 10


@pytest.mark.parametrize(
    "name, value, error",
    [
        ("alpha", 1.0, ValueError),
        ("alpha", -0.1, ValueError),
        ("alpha", np.nan, ValueError),
        ("alpha", "0.9", TypeError),
        ("beta", -1, ValueError),
        ("beta", np.inf, ValueError),
        ("threshold", "middle", ValueError),
        ("cuts", "median", ValueError),
        ("n_cuts", 0, ValueError),
        ("n_cuts", 10.0, TypeError),
        ("n_cuts", 10, ValueError),  # without cuts="grid" it would do nothing
        ("dim_weights", (0, 0), ValueError),
        ("dim_weights", (), ValueError),
        ("dim_weights", (1, -1), ValueError),
        ("dim_weights", (1, np.inf), ValueError),
        ("dim_weights", 3, TypeError),
        ("dim_weights", "12", TypeError),
    ],
)
def test_bad_tree_priors_are_refused_by_name(name, value, error):
    with pytest.raises(error, match=name):
        TreePrior(**{name: value})


def test_midpoints_of_a_grid_are_refused():
    with pytest.raises(ValueError, match="threshold='midpoint' has no effect"):
        TreePrior(cuts="grid", threshold="midpoint")


def test_priors_are_frozen_and_hashable():
    for prior in (TreePrior(dim_weights=[1, 2]), LeafPrior(0, 1), NoisePrior(3, 1), FixedNoise(1)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(prior, dataclasses.fields(prior)[0].name, 2.0)
        assert hash(prior) == hash(dataclasses.replace(prior))
    assert dataclasses.replace(TreePrior(), alpha=0.5).alpha == 0.5


# Leaves


def test_leaf_recipe_by_hand():
    recipe = LeafPrior.calibrate(2, 200)
    assert recipe.mean == 0.0 and recipe.var == pytest.approx(1 / 3200, rel=1e-14)
    assert LeafPrior.calibrate(2.0, 1).var == 1 / 16
    assert LeafPrior(var=0.04) == LeafPrior(0.0, 0.04)


@pytest.mark.parametrize("k, n_trees", [(0, 1), (-1, 1), (np.inf, 1), (1, 0)])
def test_bad_leaf_recipes(k, n_trees):
    with pytest.raises(ValueError, match="k must|n_trees must"):
        LeafPrior.calibrate(k, n_trees)
    for bad in (0.0, -1.0):
        with pytest.raises(ValueError, match="var must"):
            LeafPrior(var=bad)
    with pytest.raises(TypeError, match="var must"):
        LeafPrior()


# Noise


def test_noise_recipe_against_chi2(rng):
    for _ in range(50):
        nu, q, s = rng.uniform(0.5, 30), rng.uniform(0.01, 0.99), 10.0 ** rng.uniform(-8, 8)
        prior = NoisePrior.calibrate(nu, q, s)
        assert prior.shape == nu / 2 and prior.rate == pytest.approx(nu * prior.lam / 2)
        assert prior.lam == pytest.approx(s * s * stats.chi2.ppf(1 - q, nu) / nu, rel=1e-9)
        assert stats.invgamma(prior.shape, scale=prior.rate).cdf(s * s) == pytest.approx(q, rel=1e-9)


def test_noise_recipe_of_the_papers_defaults():
    # chi2 with 3 degrees of freedom has its 10 % point at 0.584374374155.
    assert NoisePrior.calibrate(3, 0.9, 2.0).lam == pytest.approx(4 * 0.584374374155 / 3, rel=1e-11)


def test_noise_recipe_with_the_full_shape():
    prior = NoisePrior.calibrate(3, 0.9, 0.7, shape=3)
    assert prior.shape == 3.0 and prior.rate == pytest.approx(1.5 * prior.lam)
    assert stats.gamma(prior.shape, scale=1 / prior.rate).sf(1 / 0.49) == pytest.approx(0.9, rel=1e-12)


@pytest.mark.parametrize(
    "name, values",
    [
        ("nu", (0, 0.9, 1)),
        ("q", (3, 0, 1)),
        ("q", (3, 1, 1)),
        ("sigma_hat", (3, 0.9, 0)),
        ("shape", (3, 0.9, 1, 0)),
    ],
)
def test_bad_noise_recipes(name, values):
    with pytest.raises(ValueError, match=f"{name} must be"):
        NoisePrior.calibrate(*values)


def test_fixed_noise():
    assert FixedNoise(2).sigma2 == 2.0
    with pytest.raises(ValueError, match="sigma2 must be"):
        FixedNoise(0.0)


# The rough estimate of sigma


def by_lstsq(X, y):
    design = np.column_stack([np.ones(len(y)), X])
    residual = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    return math.sqrt(residual @ residual / (len(y) - design.shape[1]))


def sigma_hat(X, y, method="ols"):
    return estimate_sigma(X, y, method)[0]


def test_least_squares_against_lstsq(rng):
    for _ in range(50):
        d = int(rng.integers(1, 6))
        n = d + 2 + int(rng.integers(0, 40))
        X, y = rng.normal(size=(n, d)), rng.normal(size=n)
        value, method = estimate_sigma(X, y, "ols")
        assert method == "ols" and value == pytest.approx(by_lstsq(X, y), rel=1e-10)
        assert estimate_sigma(X, y, "sd") == (pytest.approx(np.std(y)), "sd")
        # Units and offsets of X and y do not matter.
        scale, shift = 10.0 ** rng.integers(-150, 150, size=d), rng.normal(size=d) * 1e3
        assert sigma_hat((X + shift) * scale, y) == pytest.approx(value, rel=1e-8)
        assert sigma_hat(X, 1e200 * y) == pytest.approx(1e200 * value, rel=1e-10)
        assert sigma_hat(X, 1e6 + y) == pytest.approx(value, rel=1e-8)


def test_least_squares_in_several_blocks(rng):
    X = rng.normal(size=(450_000, 1)) + 100.0
    y = 3.0 * X[:, 0] + 0.1 * rng.normal(size=450_000)
    assert sigma_hat(X, y) == pytest.approx(by_lstsq(X, y), rel=1e-9)


def test_least_squares_falls_back_on_the_spread(rng):
    X = rng.normal(size=(10, 3))
    y = rng.normal(size=10)
    cases = {
        "as many rows as unknowns": (X[:4], y[:4]),
        "more columns than rows": (rng.normal(size=(10, 20)), y),
        "constant column": (np.column_stack([X, np.ones(10)]), y),
        "repeated column": (np.column_stack([X, 2 * X[:, 1] - 5]), y),
        "exact fit": (X, X @ [1.0, -2.0, 0.3] + 7),
    }
    for name, (columns, response) in cases.items():
        assert estimate_sigma(columns, response, "ols") == (pytest.approx(np.std(response)), "sd"), name
    assert estimate_sigma([[1.0], [2.0], [3.0]], [4, 4, 4]) == (0.0, "sd")
    assert estimate_sigma([[1.0]], [4.0]) == (0.0, "sd")


def test_the_spread_of_awkward_units():
    X = [[0], [1], [0], [1]]
    assert sigma_hat(X, [1e12, 1e12 + 1, 1e12, 1e12 + 1], "sd") == 0.5
    assert sigma_hat(X, [0, 1e-300, 0, 1e-300], "sd") == pytest.approx(5e-301)
    assert sigma_hat(X, [-1e308, 1e308, -1e308, 1e308], "sd") == pytest.approx(1e308)


def test_bad_input_to_the_estimate():
    with pytest.raises(ValueError, match="sigma_hat must be one of 'ols', 'sd', got 'mad'"):
        sigma_hat([[1], [2]], [1, 2], "mad")
    with pytest.raises(ValueError, match="X has 3 rows, but y has 2 values"):
        sigma_hat([[1], [2], [3]], [1, 2])
    with pytest.raises(ValueError, match="y is NaN at position 1"):
        sigma_hat([[1], [2]], [1, np.nan])
