"""The model: every unit converted, every parameter effective or refused."""

import dataclasses
import math
import pickle

import numpy as np
import pytest
from scipy import stats

import bart
from bart.model import Model
from bart.priors import FixedNoise, LeafPrior, NoisePrior, TreePrior

X = np.array([[0.0, 1.0], [1.0, 3.0], [2.0, 2.0], [3.0, 5.0], [4.0, 4.0], [5.0, 7.0]])
Y = np.array([10.0, 30.0, 20.0, 50.0, 30.0, 20.0])  # range 40


def values(prior):
    return pytest.approx(dataclasses.astuple(prior), rel=1e-12)


def test_defaults_are_the_papers_recipes():
    model = Model(X, Y)
    assert model.n_trees == 200 and model.tree_prior == TreePrior(0.95, 2.0)
    assert dataclasses.astuple(model.leaf_prior) == values(LeafPrior(0.0, 1 / 3200))
    design = np.column_stack([np.ones(6), X])
    residual = Y - design @ np.linalg.solve(design.T @ design, design.T @ Y)
    s = math.sqrt(residual @ residual / 3)
    assert model.sigma_hat == pytest.approx(s) and model.sigma_hat_method == "ols"
    lam = (s / 40) ** 2 * stats.chi2.ppf(0.1, 3) / 3
    assert dataclasses.astuple(model.noise_prior) == values(NoisePrior(3.0, lam, 1.5))
    assert model.dataset.y_range == 40.0 and model.codes.n_values.tolist() == [6, 6]
    assert "n_trees=200" in repr(model)


def test_sigma_hat_by_standard_deviation_and_by_hand():
    model = Model(X, Y, sigma_hat="sd")
    assert model.sigma_hat == pytest.approx(np.std(Y)) and model.sigma_hat_method == "sd"
    assert model.noise_prior == NoisePrior.calibrate(3, 0.9, np.std(Y) / 40)
    model = Model(X, Y, sigma_hat=4, nu=10, q=0.75)
    assert model.sigma_hat == 4.0 and model.sigma_hat_method == "given"
    assert model.noise_prior == NoisePrior.calibrate(10, 0.75, 0.1)
    assert Model(X[:3], Y[:3]).sigma_hat_method == "sd"


def test_full_noise_shape():
    prior = Model(X, Y, sigma_hat=4.0, noise_shape="full").noise_prior
    assert prior == NoisePrior.calibrate(3, 0.9, 0.1, shape=3.0) and prior.shape == 3.0


def test_given_noise_and_leaves_are_in_the_units_of_y():
    model = Model(X, Y, sigma=2.0, leaf_mean=4.0, leaf_var=16.0, n_trees=5)
    assert dataclasses.astuple(model.noise_prior) == values(FixedNoise((2 / 40) ** 2))
    assert dataclasses.astuple(model.leaf_prior) == values(LeafPrior(0.1, 0.01))
    assert model.sigma_hat is None and model.sigma_hat_method is None
    # The prior mean of f, in the units of y, is the midrange plus the trees' means.
    assert model.dataset.to_y(5 * model.leaf_prior.mean) == pytest.approx(30 + 5 * 4)
    only_mean = Model(X, Y, leaf_mean=-4.0, n_trees=1).leaf_prior
    assert dataclasses.astuple(only_mean) == values(LeafPrior(-0.1, 1 / 16))


def test_noise_below_the_spread_of_y():
    y = np.array([-1000.0, 900.0, 1100.0, -1000.0, 50.0, 7.0])
    model = Model(X, y, sigma=0.37)
    assert math.sqrt(model.noise_prior.sigma2) * model.dataset.y_range == pytest.approx(0.37, rel=1e-14)


def test_without_scaling_everything_is_in_the_units_of_y():
    model = Model(X, Y, scale=False, sigma=0.7, leaf_mean=1.5, leaf_var=0.04, n_trees=1)
    assert dataclasses.astuple(model.noise_prior) == values(FixedNoise(0.49))
    assert dataclasses.astuple(model.leaf_prior) == values(LeafPrior(1.5, 0.04))
    assert model.dataset.y_scaled.tolist() == Y.tolist()
    assert Model(X, Y, scale=False, n_trees=4).leaf_prior.var == 1 / 64
    assert Model(X, Y, scale=False).noise_prior.lam == pytest.approx(1600 * Model(X, Y).noise_prior.lam)


def test_units_of_y_change_nothing_in_scaled_units(rng):
    for _ in range(20):
        scale, shift = 10.0 ** rng.integers(-12, 12), 1e3 * rng.normal()
        a = Model(X, Y, sigma_hat="sd", leaf_var=9.0, leaf_mean=2.0)
        b = Model(X, (Y + shift) * scale, sigma_hat="sd", leaf_var=9.0 * scale**2, leaf_mean=2.0 * scale)
        assert b.noise_prior.lam == pytest.approx(a.noise_prior.lam, rel=1e-10)
        assert (b.leaf_prior.mean, b.leaf_prior.var) == pytest.approx((a.leaf_prior.mean, a.leaf_prior.var))
        assert b.sigma_hat == pytest.approx(a.sigma_hat * scale, rel=1e-10)


def test_constant_y_needs_a_noise_level():
    for y in ([3.0] * 6, [0] * 6):
        for method in ("ols", "sd"):
            with pytest.raises(ValueError, match="y is constant .* give sigma= or a number for sigma_hat="):
                Model(X, y, sigma_hat=method)
        assert Model(X, y, sigma=2.0).noise_prior == FixedNoise(4.0)
        assert Model(X, y, sigma_hat=2.0).sigma_hat == 2.0
    with pytest.raises(ValueError, match=r"y is constant \(1 values of 3\)"):
        Model([[1.0]], [3.0])


@pytest.mark.parametrize("y", [1e12 + np.arange(6) % 2, 1e-12 * Y, np.where(np.arange(6) == 2, 1e9, Y)])
def test_awkward_y(y):
    model = Model(X, y)
    assert 0 < model.noise_prior.lam < 1 and np.ptp(model.dataset.y_scaled) == 1.0
    assert 0 < model.sigma_hat < np.ptp(y)


@pytest.mark.parametrize("n", [2, 3])
def test_few_rows(rng, n):
    model = Model(rng.normal(size=(n, 7)), np.arange(n))
    assert model.sigma_hat_method == "sd" and model.codes.codes.shape == (7, n)


@pytest.mark.parametrize("columns", [np.ones((6, 2)), np.column_stack([np.arange(6), np.ones(6)])])
def test_constant_columns(columns):
    model = Model(columns, Y)
    assert model.sigma_hat_method == "sd" and model.codes.n_values[1] == 1


def test_tree_prior_options_arrive():
    model = Model(X, Y, alpha=0.5, beta=1, cuts="grid", n_cuts=7, dim_weights=[0, 1])
    assert model.tree_prior == TreePrior(0.5, 1.0, "uniform", "grid", 7, (0.0, 1.0))
    assert Model(X, Y, threshold="midpoint").tree_prior.threshold == "midpoint"


BAD = [
    ("n_trees", 0, ValueError),
    ("n_trees", 2.0, TypeError),
    ("alpha", 1, ValueError),
    ("beta", -0.5, ValueError),
    ("k", 0, ValueError),
    ("k", "2", TypeError),
    ("nu", 0, ValueError),
    ("q", 0, ValueError),
    ("q", 1, ValueError),
    ("sigma_hat", "mad", ValueError),
    ("sigma_hat", 0, ValueError),
    ("sigma_hat", None, TypeError),
    ("sigma", 0, ValueError),
    ("sigma", -1, ValueError),
    ("sigma", "ols", TypeError),
    ("leaf_mean", np.inf, ValueError),
    ("leaf_var", 0, ValueError),
    ("scale", 1, TypeError),
    ("threshold", "mean", ValueError),
    ("cuts", "equal", ValueError),
    ("n_cuts", 5, ValueError),
    ("dim_weights", [1, 2, 3], ValueError),
    ("dim_weights", [1, -2], ValueError),
    ("noise_shape", "nu", ValueError),
]


@pytest.mark.parametrize("name, value, error", BAD)
def test_bad_parameters_are_refused_by_name(name, value, error):
    with pytest.raises(error, match=rf"\b{name}\b"):
        Model(X, Y, **{name: value})


@pytest.mark.parametrize("name, value, error", [c for c in BAD if c[0] not in ("dim_weights", "scale")])
def test_parameters_are_checked_before_the_data_are_touched(name, value, error):
    with pytest.raises(error, match=rf"\b{name}\b"):
        Model(None, None, **{name: value})


@pytest.mark.parametrize(
    "given, idle, value",
    [
        ({"sigma": 1.0}, "nu", 4.0),
        ({"sigma": 1.0}, "q", 0.5),
        ({"sigma": 1.0}, "sigma_hat", "sd"),
        ({"sigma": 1.0}, "noise_shape", "full"),
        ({"leaf_var": 1.0}, "k", 3.0),
    ],
)
def test_parameters_without_effect_are_refused(given, idle, value):
    Model(X, Y, **given)
    with pytest.raises(ValueError, match=f"{idle}={value!r} has no effect when {next(iter(given))} is given"):
        Model(X, Y, **given, **{idle: value})


@pytest.mark.parametrize("name", ["sigma", "sigma_hat", "leaf_var", "leaf_mean"])
def test_values_out_of_proportion_are_refused(name):
    with pytest.raises(ValueError, match=f"{name} is out of proportion to the range of y"):
        Model(X, 1e-290 * Y, **{name: 1e300})


def test_bad_data_are_named():
    with pytest.raises(ValueError, match="X is NaN at row 0, column 1"):
        Model([[0, np.nan]], [1.0])
    with pytest.raises(ValueError, match="X has 6 rows, but y has 5 values"):
        Model(X, Y[:5])


def test_california(data_dir):
    raw = np.loadtxt(data_dir / "california_housing" / "cal_housing.data", delimiter=",")
    features, price = raw[:, 2:8], raw[:, 8]
    model = Model(features, price)
    design = np.column_stack([np.ones(len(price)), features])
    residual = price - design @ np.linalg.lstsq(design, price, rcond=None)[0]
    s = math.sqrt(residual @ residual / (len(price) - 7))
    assert model.sigma_hat == pytest.approx(s, rel=1e-8) and model.sigma_hat_method == "ols"
    assert model.codes.codes.dtype == np.uint16
    for d in range(6):
        np.testing.assert_array_equal(model.codes.values[d][model.codes.codes[d]], features[:, d])


def test_chains_share_the_codes_bound_to_the_prior(rng):
    model = bart.Model(rng.random((30, 2)), rng.random(30), n_trees=2)
    first, second = (bart.Ensemble(model, bart.CGM(), rng) for _ in range(2))
    assert first._kernel.domain is second._kernel.domain is model.domain
    copied = pickle.loads(pickle.dumps(model))
    assert copied.domain is not model.domain and copied.domain.codes is copied.codes
    model.tree_prior = bart.TreePrior(alpha=0.5)
    assert model.domain.prior is model.tree_prior
