"""The estimators: scikit-learn's own checks, agreement with `bart.sample`, what is predicted, and pipelines."""

import doctest
import pickle
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.feature_selection import SelectFromModel
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

import bart
from bart.estimators import BARTClassifier, BARTRegressor

FAST = {"n_trees": 10, "n_burn": 20, "n_draws": 15, "n_chains": 2, "random_state": 3, "max_r_hat": None}
ESTIMATORS = (BARTRegressor, BARTClassifier)


def make_data(kind=BARTRegressor, n_rows=80):
    rng = np.random.default_rng(2)
    X = rng.random((n_rows, 3))
    f = 4.0 * (X[:, 0] - 0.5)
    y = f + rng.normal(0, 0.5, n_rows) if kind is BARTRegressor else rng.random(n_rows) < ndtr(f)
    return X, y


def fitted(kind, **options):
    return kind(**FAST | options).fit(*make_data(kind))


# ---------------------------------------------------------------------------------------------- scikit-learn's checks

# Expected to fail.
UNLIKE = {
    BARTRegressor: {
        "check_sample_weight_equivalence_on_dense_data": "weights are precisions: a weight of 2 is not two rows, which "
                                                         "would be two to the rules of a node and to the draw of sigma",
    },
    BARTClassifier: {},
}
CHECKED = {"n_trees": 20, "n_burn": 60, "n_draws": 60, "n_chains": 2, "max_r_hat": None}


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_all_checks_of_scikit_learn(kind):
    """Not one check fails; one is skipped, for want of SCIPY_ARRAY_API, and one is expected to fail: see UNLIKE."""
    state = np.random.get_state()               # the checks seed the global generator
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(kind(**CHECKED), on_skip=None, expected_failed_checks=UNLIKE[kind])
    np.random.set_state(state)
    assert len(found) > 40
    assert {check["check_name"] for check in found if check["status"] == "skipped"} <= {"check_array_api_input"}
    assert {check["check_name"] for check in found if check["status"] not in ("passed", "skipped")} == set(UNLIKE[kind])


@pytest.mark.long
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_all_checks_with_the_defaults(kind):
    state = np.random.get_state()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for estimator, check in estimator_checks_generator(kind()):
            if check.func.__name__ not in ("check_array_api_input", *UNLIKE[kind]):
                check(estimator)
    np.random.set_state(state)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_what_the_docstring_shows(kind):
    runner = doctest.DocTestRunner()
    for test in doctest.DocTestFinder(recurse=False).find(kind, kind.__name__, globs={}):
        assert runner.run(test).failed == 0


# ------------------------------------------------------------------------------------------------- what is predicted


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_fit_is_a_run_of_sample(kind):
    X, y = make_data(kind)
    options = {"alpha": 0.8, "beta": 1.0, "k": 1.5, "cuts": "grid", "n_cuts": 30, "dim_weights": [2, 1, 1]}
    own = {"nu": 4.0, "q": 0.8, "sigma_hat": "sd"} if kind is BARTRegressor else {"offset": 0.2}
    run = {"sampler": "cgm", "init": "prior", "thin": 2}
    found = fitted(kind, **options, **own, **run, model_options={"leaf_mean": 0.01},
                   sample_options={"tree_order": "random"})
    outcome = {} if kind is BARTRegressor else {"outcome": "probit"}
    model = bart.Model(X, y, n_trees=10, **options, **own, leaf_mean=0.01, **outcome)
    post = bart.sample(model, n_burn=20, n_draws=15, n_chains=2, seed=3, tree_order="random", **run)
    np.testing.assert_array_equal(found.posterior_["log_likelihood"], post["log_likelihood"])
    expected = post.predict(X) if kind is BARTRegressor else post.predict_proba(X)
    got = found.predict(X) if kind is BARTRegressor else found.predict_proba(X)[:, 1]
    np.testing.assert_array_equal(got, expected)
    assert found.posterior_.seed == 3 and found.model_.n_trees == 10 and found.n_features_in_ == 3


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_each_parameter_changes_the_draws(kind):
    base = fitted(kind).posterior_["log_likelihood"]
    changes = {"n_trees": 11, "alpha": 0.5, "beta": 1.0, "k": 3.0, "cuts": "quantile", "dim_weights": [1, 2, 3],
               "sampler": "cgm", "init": "prior", "n_burn": 21, "n_draws": 16, "n_chains": 3, "thin": 2,
               "random_state": 4, "model_options": {"leaf_mean": 0.1}, "sample_options": {"tree_order": "random"}}
    changes |= {"nu": 10.0, "q": 0.5, "sigma_hat": "sd", "sigma": 0.3} if kind is BARTRegressor else {"offset": 1.0}
    for name, value in changes.items():
        other = fitted(kind, **{name: value}).posterior_["log_likelihood"]
        assert other.shape != base.shape or (other != base).any(), name
    grid = fitted(kind, cuts="grid").posterior_["log_likelihood"]
    assert (fitted(kind, cuts="grid", n_cuts=7).posterior_["log_likelihood"] != grid).any()
    untouched = {"n_jobs", "max_r_hat", "n_cuts"}
    assert set(changes) | untouched == set(kind().get_params())


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_threads_change_nothing(kind):
    X, _ = make_data(kind)
    one, two, all_ = (fitted(kind, n_jobs=n) for n in (None, 2, -1))
    for other in (two, all_):
        np.testing.assert_array_equal(other.predict(X), one.predict(X))
        np.testing.assert_array_equal(other.posterior_["log_likelihood"], one.posterior_["log_likelihood"])


def test_parts_of_a_regression(monkeypatch):
    X, _ = make_data()
    reg = fitted(BARTRegressor)
    draws = reg.sample_posterior(X)
    assert draws.shape == (2, 15, 80)
    flat, sigma = draws.reshape(30, 80), reg.posterior_["sigma"].ravel()
    np.testing.assert_allclose(reg.predict(X), flat.mean(axis=0), rtol=1e-12)
    for block in (None, 3 * 30):                # rows at a time change nothing
        if block:
            monkeypatch.setattr(sys.modules["bart.prediction"], "_BLOCK_NUMBERS", block)
        mean, std, quantiles, interval = reg.predict(X, return_std=True, quantiles=[0.1, 0.5, 0.7], interval=0.8)
        np.testing.assert_array_equal(mean, reg.predict(X))
        np.testing.assert_allclose(std, flat.std(axis=0), rtol=1e-10)
        np.testing.assert_allclose(quantiles, np.quantile(flat, [0.1, 0.5, 0.7], axis=0).T)
        np.testing.assert_allclose(interval, np.quantile(flat, [0.1, 0.9], axis=0).T)
    mean, std, quantiles, interval = reg.predict(X, True, [0.1, 0.5, 0.7], 0.8, "outcome")
    np.testing.assert_allclose(std, np.sqrt(flat.var(axis=0) + np.mean(sigma**2)))
    for level, found in ((0.1, quantiles[:, 0]), (0.7, quantiles[:, 2]), (0.1, interval[:, 0]), (0.9, interval[:, 1])):
        np.testing.assert_allclose(ndtr((found - flat) / sigma[:, None]).mean(axis=0), level, atol=1e-9)
    just = reg.predict(X, interval=0.5)
    assert len(just) == 2 and just[1].shape == (80, 2)
    assert len(reg.predict(X, quantiles=0.5)) == 2


def test_draws_of_outcomes():
    X, _ = make_data()
    reg = fitted(BARTRegressor, n_draws=300)
    f, y = reg.sample_posterior(X), reg.sample_posterior(X, kind="outcome")
    np.testing.assert_allclose(((y - f) / reg.posterior_["sigma"][:, :, None]).std(), 1.0, atol=0.03)
    np.testing.assert_array_equal(y, reg.sample_posterior(X, kind="outcome"))
    assert (y != reg.sample_posterior(X, kind="outcome", random_state=1)).any()
    clf = fitted(BARTClassifier, n_draws=300)
    p, latent = clf.sample_posterior(X), clf.sample_posterior(X, kind="latent")
    np.testing.assert_array_equal(p, ndtr(latent))
    labels = clf.sample_posterior(X, kind="outcome")
    assert labels.dtype == bool and labels.shape == p.shape
    np.testing.assert_allclose(labels.mean(axis=(0, 1)), p.mean(axis=(0, 1)), atol=0.12)
    for est in (reg, clf):
        with pytest.raises(ValueError, match="random_state=1 has no effect"):
            est.sample_posterior(X, random_state=1)
        with pytest.raises(ValueError, match="kind must be one of"):
            est.sample_posterior(X, kind="median")


@pytest.mark.parametrize("labels", [[0, 1], [-1, 1], ["no", "yes"], [False, True],
                                    np.array(["a", "b"], dtype=object)])  # fmt: skip
def test_labels_of_any_name(labels):
    X, y = make_data(BARTClassifier)
    clf = BARTClassifier(**FAST).fit(X, np.asarray(labels)[y.astype(int)])
    assert list(clf.classes_) == list(labels)
    p = clf.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(clf.predict(X), np.asarray(labels)[(p[:, 1] > 0.5).astype(int)])
    np.testing.assert_array_equal(p, fitted(BARTClassifier).predict_proba(X))
    np.testing.assert_allclose(ndtr(clf.decision_function(X)), p[:, 1], rtol=1e-12)
    assert 0.6 < clf.score(X, np.asarray(labels)[y.astype(int)]) <= 1.0


def test_probabilities_with_intervals():
    X, _ = make_data(BARTClassifier)
    clf = fitted(BARTClassifier)
    draws = clf.sample_posterior(X).reshape(30, 80)
    p, quantiles, interval = clf.predict_proba(X, quantiles=[0.2], interval=0.6)
    np.testing.assert_array_equal(p, clf.predict_proba(X))
    np.testing.assert_allclose(quantiles, np.quantile(draws, [0.2], axis=0).T)
    np.testing.assert_allclose(interval, np.quantile(draws, [0.2, 0.8], axis=0).T)
    assert len(clf.predict_proba(X, interval=0.6)) == 2


def test_predictive_intervals_cover():
    rng = np.random.default_rng(6)
    X = rng.random((1200, 3))
    f = 10 * (X[:, 0] - 0.5) ** 2 + X[:, 1]
    y = f + rng.normal(0, 0.3, 1200)
    reg = BARTRegressor(n_trees=50, n_burn=200, n_draws=100, n_chains=2, random_state=1, max_r_hat=None)
    reg.fit(X[:600], y[:600])
    _, of_mean = reg.predict(X[600:], interval=0.9)
    _, of_outcome = reg.predict(X[600:], interval=0.9, kind="outcome")
    covers = [np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
              for ends, truth in ((of_mean, f[600:]), (of_outcome, y[600:]), (of_mean, y[600:]))]
    assert covers[0] > 0.85 and 0.85 < covers[1] < 0.95 and covers[2] < 0.6
    assert reg.score(X[600:], y[600:]) > 0.75


# --------------------------------------------------------------------------------------------------- in scikit-learn


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_frames_keep_their_names(kind):
    X, y = make_data(kind)
    frame = pd.DataFrame(X, columns=["age", "b", "c"], index=np.arange(80) + 7)
    est = kind(**FAST).fit(frame, pd.Series(y, index=frame.index))
    assert list(est.feature_names_in_) == ["age", "b", "c"]
    assert est.model_.dataset.column_names == est.posterior_.header["column_names"] == ("age", "b", "c")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(est.predict(frame), fitted(kind).predict(X))
    with pytest.raises(ValueError, match="[Ff]eature names"):
        est.predict(frame[["b", "age", "c"]])
    with pytest.raises(ValueError, match="other order"):
        est.posterior_.predict(frame[["b", "age", "c"]])
    assert not hasattr(kind(**FAST).fit(X, y), "feature_names_in_")
    assert fitted(kind).posterior_.header["column_names"] is None


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_pipeline_of_frames(kind):
    X, y = make_data(kind)
    frame = pd.DataFrame(X, columns=list("abc")).assign(group=np.where(X[:, 1] > 0.5, "u", "v"))
    columns = make_column_transformer((OneHotEncoder(sparse_output=False), ["group"]), remainder=StandardScaler(),
                                      verbose_feature_names_out=False)
    pipe = make_pipeline(columns, kind(**FAST)).set_output(transform="pandas").fit(frame, y)
    assert list(pipe[-1].feature_names_in_) == ["group_u", "group_v", "a", "b", "c"]
    assert pipe.predict(frame).shape == (80,) and pipe.score(frame, y) > 0.3
    found = permutation_importance(pipe, frame, y, n_repeats=3, random_state=0)
    assert np.argmax(found.importances_mean) == 0


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_clone_and_grid_search(kind):
    X, y = make_data(kind)
    est = kind(**FAST)
    assert clone(est).get_params() == est.get_params()
    search = GridSearchCV(est, {"k": [1.0, 3.0], "sampler": ["growprune", "local"]}, cv=2, n_jobs=2).fit(X, y)
    assert set(search.best_params_) == {"k", "sampler"} and np.isfinite(search.cv_results_["mean_test_score"]).all()
    serial = GridSearchCV(est, {"k": [1.0, 3.0], "sampler": ["growprune", "local"]}, cv=2).fit(X, y)
    np.testing.assert_array_equal(serial.cv_results_["mean_test_score"], search.cv_results_["mean_test_score"])
    scoring = "neg_log_loss" if kind is BARTClassifier else "r2"
    assert np.isfinite(cross_val_score(est, X, y, cv=2, scoring=scoring)).all()
    assert cross_val_predict(est, X, y, cv=2).shape == (80,)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_pickles_predict_the_same(kind):
    X, _ = make_data(kind)
    est = fitted(kind)
    again = pickle.loads(pickle.dumps(est))
    np.testing.assert_array_equal(again.predict(X), est.predict(X))
    np.testing.assert_array_equal(again.sample_posterior(X), est.sample_posterior(X))


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_random_states(kind):
    def trace(random_state):
        return fitted(kind, random_state=random_state).posterior_["log_likelihood"]

    assert (trace(None) != trace(None)).any()
    for make in (np.random.RandomState, np.random.default_rng):
        np.testing.assert_array_equal(trace(make(1)), trace(make(1)))
        one = make(1)
        assert (trace(one) != trace(one)).any()
    first = fitted(kind, random_state=None)
    again = fitted(kind, random_state=None, sample_options={"tree_order": "sequential"})
    assert first.posterior_.seed != again.posterior_.seed
    repeat = bart.sample(first.model_, n_burn=20, n_draws=15, n_chains=2, seed=first.posterior_.seed)
    np.testing.assert_array_equal(repeat["log_likelihood"], first.posterior_["log_likelihood"])


# ----------------------------------------------------------------------------------------------- convergence, errors


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_chains_that_have_not_converged_are_told(kind):
    with pytest.warns(ConvergenceWarning, match="R-hat of .* above max_r_hat=1.0001"):
        est = fitted(kind, max_r_hat=1.0001)
    traces = {"log_likelihood", "f"} | ({"sigma"} if kind is BARTRegressor else set())
    assert set(est.r_hat_) == traces
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fine = fitted(kind, max_r_hat=100.0)
        assert fine.r_hat_ == est.r_hat_
        single = fitted(kind, max_r_hat=1.1, n_chains=1)
        assert all(np.isnan(value) for value in single.r_hat_.values())
    np.testing.assert_allclose(fine.r_hat_["log_likelihood"], bart.diagnostics.split_rhat(
        fine.posterior_["log_likelihood"]))
    assert set(fitted(kind, max_r_hat=100.0, k="chi", dim_weights="dirichlet").r_hat_) == traces | {"k", "theta"}


def test_without_arviz(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    assert fitted(BARTRegressor).r_hat_ is None
    with pytest.raises(ImportError, match="max_r_hat=None"):
        fitted(BARTRegressor, max_r_hat=1.1)


def test_without_scikit_learn(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("sklearn")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    for name in ("bart.estimators", "bart.estimator_base"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(bart, "estimators")
    with pytest.raises(ImportError, match=r"scikit-learn 1.6 or newer: pip install 'pgbart\[sklearn\]'"):
        _ = bart.estimators
    with pytest.raises(AttributeError, match="no attribute 'estimator'"):
        _ = bart.estimator


@pytest.mark.parametrize("options, error, message", [
    ({"n_trees": 0}, ValueError, "n_trees must be at least 1"), ({"k": -1}, ValueError, "k must be"),
    ({"cuts": "best"}, ValueError, "cuts must be one of"), ({"n_cuts": 5}, ValueError, "n_cuts=5 has no effect"),
    ({"dim_weights": [1, 2]}, ValueError, "dim_weights has 2 values"), ({"n_draws": 0}, ValueError, "n_draws must be"),
    ({"sampler": "gibbs"}, ValueError, "gibbs"), ({"max_r_hat": 0.9}, ValueError, "max_r_hat must be"),
    ({"random_state": -1}, ValueError, "random_state must be"), ({"random_state": 1.5}, TypeError, "random_state must"),
    ({"model_options": {"k": 1.0}}, ValueError, "model_options: 'k' is a parameter of"),
    ({"model_options": {"outcome": "probit"}}, ValueError, "model_options: 'outcome' is set by"),
    ({"model_options": [1]}, TypeError, "model_options must be a dict"),
    ({"model_options": {"trees": 1}}, TypeError, "trees"),
    ({"sample_options": {"seed": 1}}, ValueError, "'seed' is set"), ({"n_jobs": 0}, ValueError, "n_jobs"),
    ({"sample_options": {"keep_trees": False}}, ValueError, "'keep_trees' is set by"),
])  # fmt: skip
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_bad_parameters(kind, options, error, message):
    with pytest.raises(error, match=message):
        fitted(kind, **options)


def test_bad_data():
    X, y = make_data()
    with pytest.raises(ValueError, match="y is constant"):
        BARTRegressor(**FAST).fit(X, np.ones(80))
    constant = BARTRegressor(**FAST, sigma=1.0).fit(X, np.ones(80))
    assert np.isfinite(constant.predict(X)).all()
    with pytest.raises(ValueError, match="one class only: 'a'"):
        BARTClassifier(**FAST).fit(X, ["a"] * 80)
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        BARTClassifier(**FAST).fit(X, np.arange(80) % 3)
    with pytest.raises(ValueError, match="NaN"):
        BARTRegressor(**FAST).fit(np.where(X > 0.9, np.nan, X), y)
    for kind in ESTIMATORS:
        of_classes = ("predict_proba", "decision_function") if kind is BARTClassifier else ()
        for method in ("predict", "sample_posterior", *of_classes):
            with pytest.raises(NotFittedError):
                getattr(kind(), method)(X)
    reg = fitted(BARTRegressor)
    with pytest.raises(ValueError, match="features"):
        reg.predict(X[:, :2])
    with pytest.raises(ValueError, match="kind must be one of 'mean', 'outcome'"):
        reg.predict(X, kind="median")
    with pytest.raises(ValueError, match="interval must be"):
        reg.predict(X, interval=90)
    with pytest.raises(ValueError, match="sample_weight"):
        reg.fit(X, y, sample_weight=np.ones(79))


# ---------------------------------------------------------------------------------------------------------- houses


@pytest.mark.long
def test_the_defaults_on_20640_houses(data_dir):
    table = np.loadtxt(data_dir / "california_housing" / "cal_housing.data", delimiter=",")
    X, y = table[:, :8], table[:, 8]
    order = np.random.default_rng(0).permutation(len(y))
    with pytest.warns(ConvergenceWarning):
        reg = BARTRegressor(random_state=0, n_jobs=2).fit(X, y)
    assert reg.score(X, y) > 0.8
    some = order[:2000]
    _, interval = reg.predict(X[some], interval=0.9, kind="outcome")
    assert 0.85 < np.mean((interval[:, 0] <= y[some]) & (y[some] <= interval[:, 1])) < 0.96


# --------------------------------------------------------------------------------------------------------- importances


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_importances_are_inclusion_proportions(kind):
    found = fitted(kind, n_trees=20, n_burn=100, n_draws=100)
    post = found.posterior_
    shares = np.zeros(3)
    for chain in range(2):
        for draw in range(100):
            dims = np.concatenate([tree.nodes["dim"] for tree in post.trees(chain, draw)])
            shares += np.bincount(dims[dims >= 0], minlength=3) / max(1, np.sum(dims >= 0)) / 200
    np.testing.assert_allclose(found.feature_importances_, shares, rtol=1e-12)
    np.testing.assert_array_equal(found.feature_importances_, post.inclusion().mean)
    assert found.feature_importances_.sum() == pytest.approx(1.0) and np.argmax(found.feature_importances_) == 0
    with pytest.raises(NotFittedError):
        _ = kind().feature_importances_
    assert not hasattr(kind(), "feature_importances_")


def test_importances_select_features():
    X, y = make_data()
    pipe = make_pipeline(SelectFromModel(BARTRegressor(**FAST), max_features=1, threshold=-np.inf), StandardScaler())
    np.testing.assert_allclose(pipe.fit_transform(X, y)[:, 0], StandardScaler().fit_transform(X[:, :1])[:, 0])
