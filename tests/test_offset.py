"""Offsets: a run with one is a run on y - offset, bit for bit; probit with one a row against the exact posterior."""

import csv

import numpy as np
import pandas as pd
import pytest
from chain_helpers import assert_same, interrupted_at, make_data
from chain_laws import assert_means, z_scores
from probit_law import ProbitProblem, exact_means
from scipy.special import log_ndtr, ndtr
from sklearn import config_context
from sklearn.model_selection import GridSearchCV
from test_probit import record

import bart
from bart.cli import main
from bart.data import Dataset
from bart.estimators import BARTClassifier, BARTRegressor
from bart.outcomes import Latent
from bart.permutation import permuted_model
from bart.runs import model_of_record, model_record
from bart.storage import read_record, write_record

RUN = {"n_burn": 8, "n_draws": 7, "n_chains": 2, "seed": 3, "progress": False}
X, Y = make_data()
OFFSET = np.random.default_rng(1).normal(0, 5, 40) * 2.0**-3
NEW = make_data(9)[0]
O_NEW = np.linspace(-2.0, 3.0, 9)
CLASSES = (Y > Y.mean()).astype(float)


def gaussian(y=Y, offset=OFFSET, **options):
    return bart.Model(X, y, n_trees=4, offset=offset, **options)


def probit(offset=OFFSET, **options):
    return bart.Model(X, CLASSES, n_trees=4, outcome="probit", offset=offset, **options)


@pytest.fixture(scope="module")
def post():
    return bart.sample(gaussian(), "growprune", **RUN)


@pytest.fixture(scope="module")
def less():
    """The run that knows nothing of offsets."""
    return bart.sample(bart.Model(X, Y - OFFSET, n_trees=4), "growprune", **RUN)


# ------------------------------------------------------------------------------------------------- y = offset + f + e


@pytest.mark.parametrize("sampler", ["growprune", "pg(n_particles=3)", "local + recut + joint(every=2)"])
@pytest.mark.parametrize("options", [
    {}, {"sigma_hat": "sd"}, {"sigma_hat": 0.3, "noise_shape": "full"}, {"sigma": 0.4, "leaf_mean": 0.1},
    {"scale": False, "leaf_var": 0.5},
], ids=str)  # fmt: skip
def test_it_is_a_run_on_the_difference(sampler, options):
    model, other = gaussian(**options), bart.Model(X, Y - OFFSET, n_trees=4, **options)
    for name in ("tree_prior", "leaf_prior", "noise_prior", "sigma_hat", "sigma_hat_method"):
        assert getattr(model, name) == getattr(other, name)
    assert f"y from {Y.min():g} to {Y.max():g}" in repr(model)
    a, b = bart.sample(model, sampler, **RUN), bart.sample(other, sampler, **RUN)
    assert_same(a, b)
    np.testing.assert_array_equal(a.predict(NEW, offset=0.0), b.predict(NEW))
    np.testing.assert_allclose(a.predict(NEW, offset=O_NEW), b.predict(NEW) + O_NEW, rtol=1e-12)


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("offset", [2.5, -1e3, 7])
def test_a_number_is_part_of_f(offset, scale):
    a = bart.sample(gaussian(offset=offset, scale=scale), "growprune", **RUN)
    b = bart.sample(bart.Model(X, Y - offset, n_trees=4, scale=scale), "growprune", **RUN)
    assert_same(a, b)
    np.testing.assert_allclose(a.predict(NEW), b.predict(NEW) + offset, rtol=1e-12)
    np.testing.assert_allclose(a.trees(0, 1).predict(NEW), b.trees(0, 1).predict(NEW) + offset, rtol=1e-12)
    # So that all else needs none.
    np.testing.assert_allclose(
        a.pointwise_log_likelihood(X, Y), b.pointwise_log_likelihood(X, Y - offset), rtol=1e-9, atol=1e-9
    )
    with pytest.raises(ValueError, match="offset has no effect: the model had none for each row"):
        a.predict(NEW, offset=offset)


def not_of_the_scale(dataset, y):
    """y scaled as it is, the offset taken away afterwards: the prior of another range."""
    return y


def forgotten(dataset, y):
    dataset.offset = None
    return y


@pytest.mark.parametrize("mutant", [not_of_the_scale, forgotten])
def test_known_errors_are_seen(mutant, less, monkeypatch):
    monkeypatch.setattr(Dataset, "_less_offset", mutant)
    wrong = bart.sample(gaussian(), "growprune", **RUN)
    assert np.abs(wrong["sigma"] - less["sigma"]).max() > 0.01
    with pytest.raises(AssertionError):
        assert_same(wrong, less)


def test_no_offset_and_none_are_the_same():
    assert bart.Model(X, Y).dataset.offset is None
    zero = bart.Model(X, Y, offset=0.0)
    np.testing.assert_array_equal(zero.dataset.y_scaled, bart.Model(X, Y).dataset.y_scaled)
    assert zero.dataset.y_mid == bart.Model(X, Y).dataset.y_mid
    scaled = bart.Model(X, Y, offset=1.5).dataset
    np.testing.assert_allclose(scaled.to_scaled(Y), scaled.y_scaled, rtol=1e-12)
    np.testing.assert_allclose(scaled.to_y(scaled.y_scaled), Y, rtol=1e-12)
    rows = gaussian().dataset
    np.testing.assert_allclose(rows.to_y(rows.y_scaled) + OFFSET, Y, rtol=1e-12)


# --------------------------------------------------------------------------------------------------- what is predicted


def test_all_parts_of_a_prediction_move_by_the_offset(post, less):
    for kind in ("mean", "outcome"):
        options = {"kind": kind, "draws": True, "quantiles": [0.2, 0.9], "interval": 0.5}
        if kind == "outcome":
            options["seed"] = 5
        a, b = post.predict(NEW, offset=O_NEW, **options), less.predict(NEW, **options)
        for name in ("mean", "draws", "quantiles", "interval"):
            np.testing.assert_allclose(getattr(a, name), getattr(b, name) + O_NEW, rtol=1e-10, err_msg=name)
    np.testing.assert_allclose(post.predict(NEW, offset=-1.5), less.predict(NEW) - 1.5, rtol=1e-12)
    np.testing.assert_array_equal(post.predict(NEW, offset=O_NEW, n_threads=2), post.predict(NEW, offset=O_NEW))
    np.testing.assert_array_equal(post.predict(NEW, offset=list(O_NEW)), post.predict(NEW, offset=O_NEW))
    assert post.predict(NEW[:0], offset=[]).shape == (0,)


def test_in_blocks(post, less, monkeypatch):
    whole = post.predict(NEW, draws=True, interval=0.5, offset=O_NEW)
    monkeypatch.setattr("bart.prediction._BLOCK_ROWS", 2)
    monkeypatch.setattr("bart.prediction._BLOCK_NUMBERS", 5)
    cut = post.predict(NEW, draws=True, interval=0.5, offset=O_NEW)
    for name in ("mean", "draws", "interval"):
        np.testing.assert_array_equal(getattr(cut, name), getattr(whole, name))
    found = np.full((2, 7, 9), np.nan)
    for block in post.predict_blocks(NEW, offset=O_NEW):
        found[block.chain, block.draws, block.rows] = block.values
    np.testing.assert_array_equal(found, whole.draws)


def test_what_is_about_f_alone_needs_none(post, less):
    a, b = (run.partial_dependence(X, 0, n_grid=4) for run in (post, less))
    np.testing.assert_array_equal(a.draws, b.draws)
    a, b = (run.individual_dependence(X[:3], 1, n_grid=4) for run in (post, less))
    np.testing.assert_array_equal(a.mean, b.mean)
    np.testing.assert_array_equal(post.trees(1, 2).predict(X), less.trees(1, 2).predict(X))


def test_what_is_about_y_takes_them(post, less):
    model = gaussian()
    expected = less.pointwise_log_likelihood(X, Y - OFFSET)
    np.testing.assert_allclose(post.pointwise_log_likelihood(X, Y, offset=OFFSET), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(post.pointwise_log_likelihood(model=model), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(expected.sum(axis=2), post["log_likelihood"], rtol=1e-9)
    for metric in ("mse", "log_score"):
        a = post.permutation_importance(X, Y, n_repeats=2, metric=metric, seed=1, offset=OFFSET)
        b = less.permutation_importance(X, Y - OFFSET, n_repeats=2, metric=metric, seed=1)
        np.testing.assert_allclose(a.repeats, b.repeats, rtol=1e-9, atol=1e-12)
    pytest.importorskip("arviz")
    for options in ({"model": model}, {"X": X, "y": Y, "offset": OFFSET}):
        data = post.to_arviz(**options, log_likelihood=True)
        np.testing.assert_allclose(data["log_likelihood"]["y"].values, expected, rtol=1e-9, atol=1e-9)
    assert post.inclusion(model=model, n_prior=2, seed=1).prior is not None


def test_a_missing_offset_is_no_zero(post):
    """A prediction of y without it would be silently wrong."""
    for question in (post.predict, lambda rows: list(post.predict_blocks(rows)),
                     lambda rows: post.pointwise_log_likelihood(rows, np.zeros(9)),
                     lambda rows: post.permutation_importance(rows, np.zeros(9))):  # fmt: skip
        with pytest.raises(ValueError, match="offset is missing: the model had one for each row"):
            question(NEW)
    with pytest.raises(ValueError, match="model is not that of this run: row_offset"):
        post.pointwise_log_likelihood(model=gaussian(offset=OFFSET + np.eye(40)[0]))
    with pytest.raises(ValueError, match="model has no effect beside"):
        post.pointwise_log_likelihood(model=gaussian(), offset=OFFSET)
    with pytest.raises(ValueError, match="offset has no effect without log_likelihood"):
        post.to_arviz(y=Y, offset=OFFSET)


@pytest.mark.parametrize("make", [gaussian, probit])
@pytest.mark.parametrize(("offset", "error", "match"), [
    (OFFSET[:39], ValueError, "offset has 39 values, but X has 40 rows"),
    ("1", TypeError, "offset must be a real number"),
    ([*OFFSET[:7], np.nan, *OFFSET[8:]], ValueError, "offset is NaN at position 7"),
    (np.inf, ValueError, "offset must be finite"), (np.ones((40, 2)), ValueError, "offset must have shape"),
    (True, TypeError, "offset must be a real number"),
    (["a"] * 40, ValueError, "offset holds no real number but 'a' .* at position 0"),
], ids=["length", "text", "nan", "inf", "shape", "flag", "texts"])  # fmt: skip
def test_bad_offsets_are_refused(make, offset, error, match, post):
    with pytest.raises(error, match=match):
        make(offset=offset)
    with pytest.raises(error, match=match.replace("39 values, but X has 40", "39 values, but X has 9")):
        post.predict(NEW, offset=offset if np.ndim(offset) == 0 or len(offset) == 39 else offset[:9])


def test_offsets_that_cannot_be_taken_away():
    with pytest.raises(ValueError, match="y less its offset overflows at position 3"):
        gaussian(1e308 * np.where(np.arange(40) == 3, 1, 0), -1e308 * np.ones(40))
    with pytest.raises(ValueError, match="y less its offset is constant"):
        gaussian(np.arange(40.0) + 1.0, np.arange(40))
    with pytest.raises(ValueError, match="y is 1e\\+200 at position 2"):
        gaussian(np.zeros(40), -1e200 * np.eye(40)[2], scale=False, sigma=1.0)
    frame = pd.DataFrame(X, index=np.arange(40) + 1)
    with pytest.raises(ValueError, match="the row labels of X and offset differ"):
        bart.Model(frame, Y, offset=pd.Series(OFFSET))
    own = OFFSET.copy()
    model = gaussian(offset=own)
    own[:] = 0.0
    np.testing.assert_array_equal(model.dataset.offset, OFFSET)
    with pytest.raises(ValueError, match="read-only"):
        model.dataset.offset[0] = 1.0


# -------------------------------------------------------------------------------------------------------------- probit

TREE = {"alpha": 0.9, "beta": 0.5}
ONE = ProbitProblem([[0.0, 0.1], [0.3, 2.0], [1.9, 0.0], [2.0, 0.7]], [1, 0, 0, 1], [0.6, -0.9, 1.4, -0.3], 1.5, -0.2,
                    **TREE)  # fmt: skip
TWO = ProbitProblem([[0.0], [1.0], [3.0]], [1, 0, 1], [1.1, -0.8, 0.3], 0.8, 0.1, **TREE)
PROBLEMS = {1: ONE, 2: TWO}


def rows_of(problem, n_trees, sampler, seed, n_sweeps, names):
    """`test_probit.record`, whose f is here that of the trees: the offsets of the rows come to it."""
    traces = record(problem, n_trees, sampler, seed, n_sweeps, names)
    for n, offset in enumerate(problem.offset):
        traces[f"f[{n}]"] = traces[f"f[{n}]"] + offset
        traces[f"p[{n}]"] = ndtr(traces[f"f[{n}]"])
    return traces


@pytest.mark.parametrize(("n_trees", "sampler"), [
    (1, "growprune"), (1, "pg(n_particles=3)"), (1, "local"), (2, "growprune"), (2, "local + joint(every=2)"),
])  # fmt: skip
def test_exact_posterior(n_trees, sampler, seed):
    problem = PROBLEMS[n_trees]
    exact = exact_means(problem, n_trees)
    kernel = bart.parse_sampler(sampler)
    assert_means(lambda n, repeat: rows_of(problem, n_trees, kernel, seed + repeat, n, exact), exact, 6000)


def their_mean(latent, kernel, rng):
    """z drawn as if all rows had the mean offset."""
    whole = latent.offset.copy()
    latent.offset[:] = whole.mean()
    REDRAW(latent, kernel, rng)
    latent.offset[:] = whole


def of_the_next_row(latent, kernel, rng):
    latent.offset[:] = np.roll(latent.offset, 1)
    REDRAW(latent, kernel, rng)
    latent.offset[:] = np.roll(latent.offset, -1)


REDRAW = Latent.redraw


@pytest.mark.parametrize("mutant", [their_mean, of_the_next_row])
def test_known_errors_of_probit_are_caught(mutant, seed, monkeypatch):
    """The test above fails with each of them, by far."""
    monkeypatch.setattr(Latent, "redraw", mutant)
    exact = exact_means(ONE, 1)
    worst = z_scores(rows_of(ONE, 1, bart.CGM(), seed, 6000, exact), exact)
    assert max(abs(z) for z in worst.values()) > 8


def test_equal_offsets_are_a_number():
    rows = bart.sample(probit(np.full(40, 0.3)), "growprune", **RUN)
    number = bart.sample(probit(0.3), "growprune", **RUN)
    assert_same(rows, number)
    np.testing.assert_allclose(rows.predict(NEW, offset=0.3), number.predict(NEW), rtol=1e-12)


def test_probabilities_take_the_offsets_of_their_rows():
    post = bart.sample(probit(), "growprune", **RUN)
    f = post.predict(NEW, draws=True, offset=0.0).draws
    found = post.predict_proba(NEW, draws=True, interval=0.5, offset=O_NEW)
    np.testing.assert_allclose(found.draws, ndtr(f + O_NEW), rtol=1e-12)
    np.testing.assert_allclose(found.mean, ndtr(f + O_NEW).mean(axis=(0, 1)), rtol=1e-12)
    expected = np.quantile(ndtr(f + O_NEW).reshape(-1, 9), [0.25, 0.75], axis=0)
    np.testing.assert_allclose(found.interval, expected, rtol=1e-12)
    with pytest.raises(ValueError, match="offset is missing"):
        post.predict_proba(NEW)
    own = post.predict(X, draws=True, offset=OFFSET).draws
    density = log_ndtr((2 * CLASSES - 1) * own)
    np.testing.assert_allclose(density.sum(axis=2), post["log_likelihood"], rtol=1e-9)
    np.testing.assert_allclose(post.pointwise_log_likelihood(model=probit()), density, rtol=1e-9, atol=1e-12)


# ---------------------------------------------------------------------------- files, checkpoints, permuted responses


@pytest.mark.parametrize("make", [gaussian, probit])
@pytest.mark.parametrize("offset", [OFFSET, 1.25], ids=["rows", "number"])
def test_files_and_checkpoints(make, offset, tmp_path, monkeypatch):
    model = make(offset=offset)
    write_record(tmp_path / "model", model_record(model))
    again = model_of_record(read_record(tmp_path / "model"))
    for name, value in vars(model.dataset).items():
        np.testing.assert_array_equal(getattr(again.dataset, name), value, err_msg=name)
    whole = bart.sample(model, "growprune", **RUN)
    with interrupted_at(monkeypatch, 4):
        bart.sample(model, "growprune", checkpoint=tmp_path / "run", checkpoint_sweeps=1, **RUN)
    post = bart.resume(tmp_path / "run", progress=False)
    assert_same(post, whole)
    known = {"offset": O_NEW} if np.ndim(offset) else {}
    post.save(tmp_path / "run.npz")
    found = bart.load(tmp_path / "run.npz").predict(NEW, **known)
    np.testing.assert_array_equal(found, whole.predict(NEW, **known))
    other = offset + (np.eye(40)[3] if np.ndim(offset) else 1e-3)
    with pytest.raises(ValueError, match="other data" if make is gaussian or np.ndim(offset) else "other model"):
        bart.sample(make(offset=other), "growprune", checkpoint=tmp_path / "run", **RUN)


def test_older_records_are_read():
    record = model_record(probit(0.3))
    record["outcome"]["offset"] = record["dataset"].pop("offset")
    assert model_of_record(record).dataset.y_mid == 0.3
    record = model_record(bart.Model(X, Y, n_trees=4))
    del record["dataset"]["offset"]
    assert model_of_record(record).dataset.offset is None


@pytest.mark.parametrize("make", [gaussian, probit])
def test_permuted_responses_take_their_offsets_along(make):
    """Under the null (y, offset) has nothing to do with X; permuted alone, y would have nothing to do with offset."""
    order = np.random.default_rng(2).permutation(40)
    model = make()
    made = permuted_model(model, order)
    expected = bart.Model(X, model.dataset.y[order], n_trees=4, offset=OFFSET[order],
                          outcome="gaussian" if make is gaussian else "probit")  # fmt: skip
    assert repr(made) == repr(expected)
    for name in ("y", "y_scaled", "offset"):
        np.testing.assert_array_equal(getattr(made.dataset, name), getattr(expected.dataset, name), err_msg=name)
    np.testing.assert_array_equal(model.dataset.offset, OFFSET)


# --------------------------------------------------------------------------------------------------------- estimators

FAST = {"n_trees": 10, "n_burn": 20, "n_draws": 15, "n_chains": 2, "random_state": 3, "max_r_hat": None}


def test_regressor():
    reg = BARTRegressor(**FAST).fit(X, Y, offset=OFFSET)
    less = BARTRegressor(**FAST).fit(X, Y - OFFSET)
    assert_same(reg.posterior_, less.posterior_)
    np.testing.assert_allclose(reg.predict(NEW, offset=O_NEW), less.predict(NEW) + O_NEW, rtol=1e-12)
    for kind in ("mean", "outcome"):
        a = reg.predict(NEW, return_std=True, quantiles=[0.3], interval=0.9, kind=kind, offset=O_NEW)
        b = less.predict(NEW, return_std=True, quantiles=[0.3], interval=0.9, kind=kind)
        for place, (mine, other) in enumerate(zip(a, b, strict=True)):
            shift = 0.0 if place == 1 else O_NEW if place == 0 else O_NEW[:, None]
            np.testing.assert_allclose(mine, other + shift, rtol=1e-9)
        draws = less.sample_posterior(NEW, kind)
        np.testing.assert_allclose(reg.sample_posterior(NEW, kind, offset=O_NEW), draws + O_NEW)
    assert reg.score(X, Y, offset=OFFSET) == pytest.approx(
        1 - np.sum((Y - reg.predict(X, offset=OFFSET)) ** 2) / np.sum((Y - Y.mean()) ** 2)
    )
    with pytest.raises(ValueError, match="offset is missing"):
        reg.predict(NEW)
    with pytest.raises(ValueError, match="offset has 39 values, but X has 40 rows"):
        BARTRegressor(**FAST).fit(X, Y, offset=OFFSET[:39])
    looked_at = {**FAST, "max_r_hat": 1e9}
    a, b = BARTRegressor(**looked_at).fit(X, Y, offset=OFFSET), BARTRegressor(**looked_at).fit(X, Y - OFFSET)
    assert a.r_hat_["sigma"] == b.r_hat_["sigma"] and np.isfinite(a.r_hat_["f"])    # f at other rows


def test_classifier():
    labels = np.where(CLASSES > 0, "yes", "no")
    clf = BARTClassifier(**FAST).fit(X, labels, offset=OFFSET)
    f = clf.sample_posterior(NEW, "latent", offset=O_NEW)
    np.testing.assert_allclose(f, clf.sample_posterior(NEW, "latent", offset=0.0) + O_NEW, rtol=1e-12)
    np.testing.assert_allclose(clf.predict_proba(NEW, offset=O_NEW)[:, 1], ndtr(f).mean(axis=(0, 1)), rtol=1e-12)
    found = clf.predict(X, offset=OFFSET)
    assert (found == np.where(clf.decision_function(X, offset=OFFSET) > 0, "yes", "no")).all()
    assert clf.score(X, labels, offset=OFFSET) == np.mean(found == labels)
    with pytest.raises(ValueError, match="offset is missing"):
        clf.predict(NEW)
    with pytest.raises(ValueError, match="the parameter offset=0.5 has no effect"):
        BARTClassifier(offset=0.5, **FAST).fit(X, labels, offset=OFFSET)


def test_offsets_are_routed_through_a_search():
    with config_context(enable_metadata_routing=True):
        reg = BARTRegressor(**FAST).set_fit_request(offset=True).set_score_request(offset=True)
        search = GridSearchCV(reg, {"k": [1.0, 2.0]}, cv=2).fit(X, Y, offset=OFFSET)
    less = BARTRegressor(**FAST, k=search.best_params_["k"]).fit(X, Y - OFFSET)
    assert_same(search.best_estimator_.posterior_, less.posterior_)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


# --------------------------------------------------------------------------------------------------- the command line


def write(path, names, columns):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([names, *np.column_stack(columns).tolist()])
    return str(path)


def test_command_line(tmp_path, capsys):
    data = write(tmp_path / "data.csv", ["a", "known", "y", "b", "c"], [X[:, 0], OFFSET, Y, X[:, 1], X[:, 2]])
    new = write(tmp_path / "new.csv", ["known", "c", "b", "a"], [O_NEW, NEW[:, 2], NEW[:, 1], NEW[:, 0]])
    out, pred = str(tmp_path / "run.npz"), str(tmp_path / "pred.csv")
    args = ["--n-trees", "4", "--n-burn", "8", "--n-draws", "7", "--n-chains", "2", "--seed", "3", "--quiet",
            "--sampler", "growprune", "--out", out]  # fmt: skip
    fit = ["fit", data, "--target", "y", "--offset-column"]
    assert main([*fit, "known", *args]) == 0
    post = bart.load(out)
    assert_same(post, bart.sample(gaussian(), "growprune", **RUN))
    assert post.header["column_names"] == ("a", "b", "c")
    assert main(["predict", out, new, "--offset-column", "known", "--out", pred, "--quiet"]) == 0
    found = [float(line) for line in open(pred).read().splitlines()[1:]]
    np.testing.assert_array_equal(found, post.predict(NEW, offset=O_NEW))
    assert main([*fit, "known", "--columns", "a,b,c", *args]) == 0
    assert_same(bart.load(out), post)
    assert main(["fit", data, "--target", "y", "--exclude", "known", "--offset", "1.5", *args]) == 0
    assert_same(bart.load(out), bart.sample(gaussian(offset=1.5), "growprune", **RUN))
    capsys.readouterr()
    for wrong, code, message in (
        ([*fit, "x", *args], 1, "no column 'x', the offset"), ([*fit, "y", *args], 2, "cannot be the target"),
        ([*fit, "known", "--offset", "1", *args], 2, "no place beside --offset"),
        ([*fit, "known", "--columns", "a,known", *args], 2, "--columns names the offset"),
        (["predict", out, new, "--offset-column", "known"], 2, "--offset-column has no effect"),
        (["predict", out, new, "--offset-column", "x"], 1, "no column 'x'"),
    ):  # fmt: skip
        assert main(wrong) == code, wrong
        assert message in capsys.readouterr().err
    assert main([*fit, "known", *args]) == 0
    capsys.readouterr()
    assert main(["predict", out, new]) == 2 and "--offset-column is missing" in capsys.readouterr().err
