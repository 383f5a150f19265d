"""Partial dependence, ICE and permutation importance: against slow loops, and where one column has the signal."""

import numpy as np
import pytest
from chain_helpers import make_data
from scipy import stats
from view_helpers import all_draws

import bart


@pytest.fixture(scope="module")
def post():
    pandas = pytest.importorskip("pandas")
    X, y = make_data(60)
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    return bart.sample(
        bart.Model(frame, y, n_trees=3), "cgm", n_burn=20, n_draws=12, n_chains=2, seed=4, progress=False
    )


@pytest.fixture(scope="module")
def signal():
    """A run on data whose signal is in column 3 alone, and new rows of it (probe 10)."""
    rng = np.random.default_rng(3)
    X = rng.random((300, 5))
    y = 4.0 * (X[:, 3] > 0.5) + rng.normal(0, 0.2, 300)
    post = bart.sample(
        bart.Model(X[:200], y[:200], n_trees=20), "growprune", n_burn=200, n_draws=100, n_chains=2, seed=1,
        progress=False,
    )  # fmt: skip
    return post, X[200:], y[200:]


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(8).random((9, 3))


def slow_curve(post, rows, columns, points, every):
    """(n_chains, n_draws, n_points, n) of f at rows with some columns set."""
    found = []
    for point in points:
        changed = rows.copy()
        changed[:, columns] = point
        found.append(all_draws(post, changed, every))
    return np.stack(found, axis=2)


@pytest.mark.parametrize(("column", "every", "centred"), [(0, 1, False), ("b", 2, False), (2, 1, True)])
def test_partial_dependence_on_one_column(post, rows, column, every, centred):
    grid, number = [0.2, 0.45, 0.9], {"b": 1}.get(column, column)
    found = post.partial_dependence(rows, column, grid, interval=0.8, every=every, centred=centred)
    slow = slow_curve(post, rows, [number], grid, every).mean(axis=3)
    if centred:
        slow = slow - slow[:, :, :1]
        assert not found.interval[:, 0].any()
    np.testing.assert_allclose(found.draws, slow, rtol=1e-10, atol=1e-12)
    flat = slow.reshape(-1, 3)
    np.testing.assert_allclose(found.mean, flat.mean(axis=0), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.interval, np.quantile(flat, [0.1, 0.9], axis=0), rtol=1e-10, atol=1e-12)
    assert found.columns == (number,) and found.labels == ("abc"[number],) and found.level == 0.8
    np.testing.assert_array_equal(found.grid[0], grid)


@pytest.mark.parametrize("centred", [False, True])
def test_partial_dependence_on_two_columns(post, rows, centred):
    grids = [0.3, 0.6], [0.1, 0.5, 0.8]
    found = post.partial_dependence(rows, ("c", 0), grids, every=4, centred=centred)
    points = [(a, b) for a in grids[0] for b in grids[1]]
    slow = slow_curve(post, rows, [2, 0], points, 4).mean(axis=3).reshape(2, 3, 2, 3)
    if centred:
        slow = slow - slow[:, :, :1, :1]
    np.testing.assert_allclose(found.draws, slow, rtol=1e-10, atol=1e-12)
    ends = np.quantile(slow.reshape(-1, 2, 3), [0.05, 0.95], axis=0)
    np.testing.assert_allclose(found.interval, ends, rtol=1e-10, atol=1e-12)
    assert found.mean.shape == (2, 3) and found.columns == (2, 0) and found.labels == ("c", "a")


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("numbers", [1, 100, 10**7])
def test_individual_dependence(post, rows, monkeypatch, centred, numbers):
    monkeypatch.setattr("bart.dependence._BLOCK_NUMBERS", numbers)
    grid = [0.2, 0.45, 0.9]
    found = post.individual_dependence(rows, "a", grid, interval=0.6, every=3, centred=centred)
    slow = slow_curve(post, rows, [0], grid, 3)
    if centred:
        slow = slow - slow[:, :, :1]
    flat = slow.reshape(-1, 3, len(rows))
    np.testing.assert_allclose(found.mean, flat.mean(axis=0).T, rtol=1e-10, atol=1e-12)
    ends = np.quantile(flat, [0.2, 0.8], axis=0).transpose(0, 2, 1)
    np.testing.assert_allclose(found.interval, ends, rtol=1e-10, atol=1e-12)
    assert found.label == "a" and found.column == 0 and found.centred is centred


def test_curves_average_to_the_partial_dependence(post, rows):
    whole, single = post.partial_dependence(rows, 1), post.individual_dependence(rows, 1)
    np.testing.assert_array_equal(whole.grid[0], single.grid)
    np.testing.assert_allclose(single.mean.mean(axis=0), whole.mean, rtol=1e-12)


def test_blocks_threads_and_the_callers_rows(post, rows, monkeypatch):
    before = rows.copy()
    expected = post.partial_dependence(rows, 0)
    monkeypatch.setattr("bart.prediction._BLOCK_ROWS", 2)
    found = post.partial_dependence(rows, 0, n_threads=2)
    np.testing.assert_allclose(found.draws, expected.draws, rtol=1e-12)
    post.individual_dependence(rows, 0)
    post.permutation_importance(rows, rows[:, 0], n_repeats=1)
    np.testing.assert_array_equal(rows, before)


def test_the_grid_that_is_not_given(post):
    X = np.zeros((50, 3))
    X[:, 0] = np.repeat([3.0, 1.0], 25)
    X[:, 1] = np.arange(50) ** 2
    assert post.partial_dependence(X, 0).grid[0].tolist() == [1.0, 3.0]
    grid = post.partial_dependence(X, 1, n_grid=7).grid[0]
    # The quantiles 0, 1/3, 2/3, 1, and what is nearest to 1/4, 1/2, 3/4 of 49^2.
    assert grid.tolist() == [value**2 for value in (0, 16, 24, 33, 35, 42, 49)]
    assert post.partial_dependence(X, 2).grid[0].tolist() == [0.0]
    both = post.partial_dependence(X, (0, 1), n_grid=3).grid
    assert [len(part) for part in both] == [2, 3]


def test_dependence_where_one_column_has_the_signal(signal):
    post, X, _ = signal
    whole = post.partial_dependence(X, 3, grid=[0.1, 0.3, 0.7, 0.9])
    assert np.abs(whole.mean - [0, 0, 4, 4]).max() < 0.3 and np.ptp(whole.interval, axis=0).max() < 0.6
    for column in (0, 1, 2, 4):
        assert np.ptp(post.partial_dependence(X, column).mean) < 0.3
    single = post.individual_dependence(X[:20], 3, grid=[0.1, 0.9])
    assert np.abs(single.mean - [0, 4]).max() < 0.7


@pytest.mark.parametrize(
    ("columns", "options", "error", "match"),
    [
        ("d", {}, ValueError, "'d'"), (3, {}, ValueError, "3"), (-1, {}, ValueError, "at least 0"),
        (0.0, {}, TypeError, "integer"), ((0, 1, 2), {}, ValueError, "one column or two, got 3"),
        ((), {}, ValueError, "got 0"), ((1, "b"), {}, ValueError, "twice"),
        (0, {"grid": [1.0, 1.0]}, ValueError, "increase"), ((0, 1), {"grid": ([1], [2, 1])}, ValueError, r"grid\[1\]"),
        (0, {"grid": [1.0, np.nan]}, ValueError, "grid is NaN"), (0, {"grid": []}, ValueError, "grid is empty"),
        ((0, 1), {"grid": [1.0, 2.0, 3.0]}, TypeError, "pair"),
        (0, {"n_grid": 2}, ValueError, "n_grid"), (0, {"interval": 1.0}, ValueError, "interval"),
        (0, {"centred": 1}, TypeError, "centred"), (0, {"every": 0}, ValueError, "every"),
        (0, {"n_threads": 0}, ValueError, "n_threads"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused(post, rows, columns, options, error, match):
    with pytest.raises(error, match=match):
        post.partial_dependence(rows, columns, **options)
    if not isinstance(columns, tuple):
        with pytest.raises(error, match=match):
            post.individual_dependence(rows, columns, **options)


def test_bad_rows_are_refused(post, signal, rows):
    with pytest.raises(ValueError, match="no rows"):
        post.partial_dependence(rows[:0], 0)
    with pytest.raises(ValueError, match="2 columns"):
        post.individual_dependence(rows[:, :2], 0)
    with pytest.raises(ValueError, match="no column names"):
        signal[0].partial_dependence(np.zeros((2, 5)), "a")


# Permutation importance


@pytest.mark.parametrize("metric", ["mse", "log_score"])
def test_importance_where_one_column_has_the_signal(signal, metric):
    post, X, y = signal
    found = post.permutation_importance(X, y, n_repeats=4, metric=metric, seed=2)
    assert np.argmax(found.mean) == 3 and found.repeats.shape == (4, 5)
    # y's mean squared error when column 3 is drawn anew: twice the signal's variance, 2 * 4.
    assert metric != "mse" or abs(found.mean[3] - 8.0) < 2.0
    assert np.abs(np.delete(found.mean, 3)).max() < 0.02 * found.mean[3]
    np.testing.assert_allclose(found.sd, found.repeats.std(axis=0, ddof=1))
    assert str(found).splitlines()[1].startswith("x3") and metric in str(found)
    again = post.permutation_importance(X, y, n_repeats=4, metric=metric, seed=2)
    np.testing.assert_array_equal(again.repeats, found.repeats)


def test_importance_by_loops(post, rows, monkeypatch):
    y = np.linspace(-1, 2, len(rows))
    seen = []
    predict = bart.Posterior.predict
    monkeypatch.setattr(bart.Posterior, "predict", lambda self, X, **o: seen.append(X.copy()) or predict(self, X, **o))
    found = post.permutation_importance(rows, y, n_repeats=2, seed=1)
    assert len(seen) == 7 and found.baseline == pytest.approx(np.mean((y - all_draws(post, rows).mean((0, 1))) ** 2))
    for place, changed in enumerate(seen[1:]):
        repeat, dim = divmod(place, 3)
        assert sorted(changed[:, dim]) == sorted(rows[:, dim])
        np.testing.assert_array_equal(np.delete(changed, dim, axis=1), np.delete(rows, dim, axis=1))
        loss = np.mean((y - all_draws(post, changed).mean(axis=(0, 1))) ** 2)
        assert found.repeats[repeat, dim] == pytest.approx(loss - found.baseline, abs=1e-12)


@pytest.mark.parametrize("numbers", [1, 10**7])
def test_the_log_score_by_loops(post, rows, monkeypatch, numbers):
    monkeypatch.setattr("bart.permutation._BLOCK_NUMBERS", numbers)
    y = np.linspace(-1, 2, len(rows))
    found = post.permutation_importance(rows, y, n_repeats=1, metric="log_score", every=3, seed=1)
    density = stats.norm.pdf(y, all_draws(post, rows, 3), post["sigma"][:, ::3, None])
    assert found.baseline == pytest.approx(np.log(density.mean(axis=(0, 1))).mean(), rel=1e-10)
    assert np.isnan(found.sd).all()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n_repeats": 0}, "n_repeats"), ({"metric": "mae"}, "metric"), ({"every": 0}, "every"),
        ({"y": np.zeros(3)}, "9 rows, but y has 3"), ({"y": np.full(9, np.nan)}, "y is NaN"),
        ({"X": np.zeros((1, 3)), "y": [1.0]}, "one row"), ({"seed": -1}, "seed must be at least 0"),
    ],
)  # fmt: skip
def test_bad_arguments_of_importance(post, rows, options, match):
    given = {"X": rows, "y": np.zeros(9)} | options
    with pytest.raises(ValueError, match=match):
        post.permutation_importance(given.pop("X"), given.pop("y"), **given)


def test_importance_of_probit():
    """Brier score and log score of the predictive probability of 1."""
    X, y = make_data(60)
    post = bart.sample(bart.Model(X, y > 1.0, n_trees=5, outcome="probit"), "cgm", n_burn=50, n_draws=20, n_chains=2,
                       seed=1, progress=False)  # fmt: skip
    y, p = (y > 1.0).astype(float), post.predict_proba(X)
    found = post.permutation_importance(X, y, n_repeats=1, seed=1)
    assert found.baseline == pytest.approx(np.mean((y - p) ** 2)) and np.argmax(found.mean) == 0
    found = post.permutation_importance(X, y, n_repeats=1, seed=1, metric="log_score")
    assert found.baseline == pytest.approx(np.mean(np.log(np.where(y == 1, p, 1 - p)))) and np.argmax(found.mean) == 0
    with pytest.raises(ValueError, match="y must be 0 or 1"):
        post.permutation_importance(X, y + 0.5, metric="log_score")
