"""Weights of the rows as a user meets them: model, noise prior, traces, predictions, files, the estimator, refusals."""

import numpy as np
import pytest
from chain_helpers import assert_same, interrupted_at, make_data
from scipy import stats
from scipy.special import logsumexp

import bart
from bart.permutation import permuted_model
from bart.priors import estimate_sigma
from bart.runs import model_of_record, model_record
from bart.storage import read_record, write_record

SIZE = {"n_burn": 5, "n_draws": 6, "n_chains": 2, "seed": 4, "progress": False}
OPTIONS = {
    "auto": {"sampler": "auto"},
    "joint": {"sampler": "growprune + joint(every=2)", "tree_order": "random", "executor": 2},
    "ladder": {"sampler": "cgm", "ladder": bart.Ladder(n_rungs=3, t_min=0.3, every=2)},
}


def make_weights(n=40):
    return np.exp(np.random.default_rng(8).uniform(-2, 2, n))


def make_model(weights=None, **options):
    X, y = make_data()
    return bart.Model(X, y, n_trees=4, weights=make_weights() if weights is None else weights, **options)


# ------------------------------------------------------------------------------------------------ model and priors


def test_sigma_hat_is_that_of_weighted_least_squares():
    X, y = make_data()
    w = make_weights()
    design = np.column_stack([np.ones(40), X]) * np.sqrt(w)[:, None]
    rss = np.linalg.lstsq(design, y * np.sqrt(w), rcond=None)[1][0]
    assert make_model().sigma_hat == pytest.approx(np.sqrt(rss / 36), rel=1e-10)
    assert make_model(100 * w).sigma_hat == pytest.approx(10 * make_model().sigma_hat, rel=1e-10)
    assert make_model(np.ones(40)).sigma_hat == pytest.approx(bart.Model(X, y).sigma_hat, rel=1e-10)
    sd = np.sqrt(np.mean(w * (y - np.average(y, weights=w)) ** 2))
    assert make_model(sigma_hat="sd").sigma_hat == pytest.approx(sd, rel=1e-10)
    assert estimate_sigma(X, y, "sd", np.ones(40))[0] == pytest.approx(y.std(), rel=1e-12)
    rows = np.repeat(np.arange(40), 2)
    assert estimate_sigma(X, y, "sd", np.full(40, 2.0))[0] == pytest.approx(np.sqrt(2) * y[rows].std(), rel=1e-12)


def test_weights_are_a_copy_that_stays():
    given = make_weights()
    model = make_model(given)
    given[:] = 1.0
    np.testing.assert_array_equal(model.dataset.weights, make_weights())
    assert not model.dataset.weights.flags.writeable
    assert "weighted" in repr(model) and "weighted" not in repr(bart.Model(*make_data()))
    ensemble = bart.Ensemble(model, "cgm", np.random.default_rng(0))
    assert not ensemble.weights.flags.writeable
    ensemble.weights = given
    given[0] = 2.0
    assert ensemble.weights[0] == 1.0


@pytest.mark.parametrize(("weights", "error", "message"), [
    (np.ones(39), ValueError, r"weights must have shape \(40,\), got \(39,\)"),
    (np.ones((40, 2)), ValueError, "weights"),
    (np.r_[np.ones(7), 0.0, np.ones(32)], ValueError, r"weights\[7\] = 0.0 is not positive"),
    (np.r_[np.ones(7), -1.0, np.ones(32)], ValueError, r"weights\[7\] = -1.0 is not positive"),
    (np.r_[np.ones(7), np.nan, np.ones(32)], ValueError, "weights.* 7"),
    (np.r_[np.ones(7), np.inf, np.ones(32)], ValueError, "weights.* 7"),
    (np.r_[np.ones(7), 1e-12, np.ones(32)], ValueError, r"weights\[7\] = 1e-12 is 3.9e\+13 times smaller"),
    (np.full(40, 1e-120), ValueError, "largest of weights is 1e-120"),
    (["1"] * 39 + ["x"], ValueError, "weights"),
    (2.0, ValueError, "weights"),
])  # fmt: skip
def test_bad_weights_are_refused(weights, error, message):
    with pytest.raises(error, match=message):
        make_model(weights)
    ensemble = bart.Ensemble(make_model(), "cgm", np.random.default_rng(0))
    with pytest.raises(error, match=message):
        ensemble.weights = weights
    np.testing.assert_array_equal(ensemble.weights, make_weights())


def test_other_outcomes_and_other_labels_are_refused():
    X, y = make_data()
    with pytest.raises(ValueError, match="weights are for outcome='gaussian', the outcome is 'probit'"):
        bart.Model(X, y > y.mean(), outcome="probit", weights=np.ones(40))
    ensemble = bart.Ensemble(bart.Model(X, y > y.mean(), n_trees=3, outcome="probit"), "cgm", np.random.default_rng(0))
    with pytest.raises(ValueError, match="weights are for outcome='gaussian'"):
        ensemble.weights = np.ones(40)
    ensemble.weights = None
    pandas = pytest.importorskip("pandas")
    frame, series = pandas.DataFrame(X), pandas.Series(np.ones(40), index=np.arange(1, 41))
    with pytest.raises(ValueError, match="row labels of X and weights differ"):
        bart.Model(frame, y, weights=series)


def test_a_permutation_takes_weights_with_their_responses():
    model, order = make_model(), np.random.default_rng(0).permutation(40)
    made = permuted_model(model, order)
    np.testing.assert_array_equal(made.dataset.weights, model.dataset.weights[order])
    assert made.sigma_hat == pytest.approx(
        bart.Model(made.dataset.X, made.dataset.y, weights=made.dataset.weights).sigma_hat)


# --------------------------------------------------------------------------------------------- traces, predictions


@pytest.fixture(scope="module")
def post():
    return bart.sample(make_model(), "cgm", n_burn=50, n_draws=40, n_chains=2, seed=1, progress=False)


def densities(post, X, y, weights):
    f, sigma = post.predict(X, draws=True).draws, post["sigma"][:, :, None]
    return stats.norm.logpdf(y, f, sigma / np.sqrt(weights))


def test_log_likelihoods_are_those_of_the_weighted_rows(post):
    """The trace, and row by row from a model or from data: to 1e-9."""
    X, y = make_data()
    w, model = make_weights(), make_model()
    expected = densities(post, X, y, w)
    np.testing.assert_allclose(post["log_likelihood"], expected.sum(axis=2), rtol=1e-9)
    np.testing.assert_allclose(post.pointwise_log_likelihood(model=model), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(post.pointwise_log_likelihood(X, y, weights=w), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(post.pointwise_log_likelihood(X, y), densities(post, X, y, 1.0), rtol=1e-9, atol=1e-9)
    total = sum(block.values.sum() for block in post.log_likelihood_blocks(X, y, weights=w))
    assert total == pytest.approx(expected.sum(), rel=1e-9)
    with pytest.raises(ValueError, match="model has no effect beside X, y, offset and weights"):
        post.pointwise_log_likelihood(model=model, weights=w)
    with pytest.raises(ValueError, match="X has 40 rows, but weights has 39 values"):
        post.pointwise_log_likelihood(X, y, weights=w[1:])
    with pytest.raises(ValueError, match=r"weights\[3\] = 0.0 is not positive"):
        post.pointwise_log_likelihood(X, y, weights=np.where(np.arange(40) == 3, 0, w))


def test_arviz_takes_weights(post):
    pytest.importorskip("arviz")
    X, y = make_data()
    expected = densities(post, X, y, make_weights())
    for arguments in ({"model": make_model()}, {"X": X, "y": y, "weights": make_weights()}):
        found = post.to_arviz(**arguments, log_likelihood=True)
        np.testing.assert_allclose(found["log_likelihood"]["y"], expected, rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="weights has no effect without log_likelihood"):
        post.to_arviz(y=y, weights=make_weights())


@pytest.mark.parametrize("other", [None, np.ones(40), 2 * make_weights()])
def test_a_model_of_other_weights_is_not_that_of_the_run(other):
    """Nothing else tells them apart where sigma_hat is given: the log-likelihoods would be silently wrong."""
    X, y = make_data()
    post = bart.sample(make_model(sigma_hat=1.0), "cgm", **SIZE)
    assert post.pointwise_log_likelihood(model=make_model(sigma_hat=1.0)).shape == (2, 6, 40)
    model = bart.Model(X, y, n_trees=4, sigma_hat=1.0, weights=other)
    with pytest.raises(ValueError, match="model is not that of this run: weights"):
        post.pointwise_log_likelihood(model=model)
    with pytest.raises(ValueError, match="model is not that of this run: weights"):
        bart.sample(model, "cgm", **SIZE).inclusion(model=make_model(sigma_hat=1.0))


def test_importance_takes_weights(post):
    """Its baseline is the log predictive density at the weights given: to 1e-9; weights of 1 are none, bit for bit."""
    X, y = make_data()
    w, options = make_weights(), {"n_repeats": 1, "metric": "log_score", "seed": 1}
    found = post.permutation_importance(X, y, weights=w, **options)
    each = densities(post, X, y, w).reshape(-1, 40)
    expected = (logsumexp(each, axis=0) - np.log(len(each))).mean()
    assert found.baseline == pytest.approx(expected, rel=1e-9)
    plain, ones = (post.permutation_importance(X, y, weights=given, **options) for given in (None, np.ones(40)))
    np.testing.assert_array_equal(ones.repeats, plain.repeats)
    assert abs(plain.baseline - found.baseline) > 0.01
    with pytest.raises(ValueError, match="weights have no effect with metric='mse'"):
        post.permutation_importance(X, y, weights=w)
    with pytest.raises(ValueError, match="X has 40 rows, but weights has 39 values"):
        post.permutation_importance(X, y, weights=w[1:], **options)


def test_outcomes_of_new_rows_take_their_weights(post):
    X, _ = make_data()
    w, f, sigma = make_weights(), post.predict(X, draws=True).draws, post["sigma"]
    found = post.predict(X, kind="outcome", interval=0.9, draws=True, seed=1, weights=w)
    plain = post.predict(X, kind="outcome", interval=0.9, draws=True, seed=1)
    np.testing.assert_allclose((found.draws - f) * np.sqrt(w), plain.draws - f, atol=1e-12)
    for n in (0, 17):
        for end, level in zip(found.interval[:, n], (0.05, 0.95), strict=True):
            cdf = stats.norm.cdf(end, f[:, :, n], sigma / np.sqrt(w[n])).mean()
            assert cdf == pytest.approx(level, abs=1e-10)
    np.testing.assert_array_equal(
        post.predict(X, kind="outcome", interval=0.9, weights=np.ones(40)).interval, plain.interval)
    np.testing.assert_array_equal(found.mean, post.predict(X))
    assert post.predict(X[:0], kind="outcome", interval=0.9, weights=[]).interval.shape == (2, 0)
    with pytest.raises(ValueError, match="weights have no effect with kind='mean'"):
        post.predict(X, weights=w)
    with pytest.raises(ValueError, match="X has 40 rows, but weights has 2 values"):
        post.predict(X, kind="outcome", interval=0.9, weights=[1.0, 2.0])


def test_it_learns_from_precise_rows(seed):
    """Half of the rows have 100 times the variance: f is nearer to the truth with weights that say so."""
    rng = np.random.default_rng(seed)
    X = rng.random((400, 2))
    truth, w = np.sin(6 * X[:, 0]), np.where(rng.random(400) < 0.5, 1.0, 0.01)
    y = truth + 0.2 / np.sqrt(w) * rng.standard_normal(400)
    options = {"n_burn": 300, "n_draws": 300, "n_chains": 2, "seed": 1, "progress": False}
    fits = [bart.sample(bart.Model(X, y, n_trees=50, weights=given), **options) for given in (w, None)]
    errors = [np.mean((fit.predict(X) - truth) ** 2) for fit in fits]
    assert errors[0] < 0.25 * errors[1]
    assert abs(fits[0]["sigma"].mean() - 0.2) < 0.03


def test_offsets_beside_weights():
    """The trees of y - offset with the same weights, bit for bit; rows of weight 0 take their offsets with them."""
    pytest.importorskip("sklearn")
    from bart.estimators import BARTRegressor

    X, y = make_data()
    w, offset = make_weights(), np.linspace(-1.0, 2.0, 40)
    with_offset = bart.Model(X, y, n_trees=4, weights=w, offset=offset)
    models = with_offset, bart.Model(X, y - offset, n_trees=4, weights=w)
    runs = [bart.sample(model, "cgm", **SIZE) for model in models]
    np.testing.assert_array_equal(runs[0]["sigma"], runs[1]["sigma"])
    np.testing.assert_allclose(runs[0].pointwise_log_likelihood(model=with_offset).sum(axis=2),
                               runs[0]["log_likelihood"], rtol=1e-9)
    np.testing.assert_allclose(runs[0].pointwise_log_likelihood(X, y, offset=offset, weights=w),
                               runs[1].pointwise_log_likelihood(X, y - offset, weights=w), rtol=1e-9, atol=1e-9)
    assert model_of_record(model_record(with_offset)).dataset.weights.tolist() == w.tolist()
    w[[3, 20]] = 0.0
    options = {"n_trees": 4, "n_burn": 5, "n_draws": 6, "n_chains": 2, "random_state": 4, "max_r_hat": None}
    reg = BARTRegressor(**options).fit(X, y, sample_weight=w, offset=offset)
    np.testing.assert_array_equal(reg.model_.dataset.offset, offset[w > 0])
    np.testing.assert_array_equal(reg.model_.dataset.weights, w[w > 0])


# ------------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("cut", [1, 4, 8])
@pytest.mark.parametrize("kind", OPTIONS)
def test_a_run_that_was_cut_goes_on_bit_for_bit(kind, cut, tmp_path, monkeypatch):
    model, options = make_model(), {**SIZE, **OPTIONS[kind]}
    whole = bart.sample(model, **options)
    with interrupted_at(monkeypatch, cut):
        bart.sample(model, checkpoint=tmp_path / "run", checkpoint_sweeps=1, **options)
    assert_same(whole, bart.resume(tmp_path / "run", progress=False))
    whole.save(tmp_path / "run.npz")
    assert_same(whole, bart.load(tmp_path / "run.npz"))


def test_a_model_is_made_again_bit_for_bit(tmp_path):
    model = make_model()
    record = model_record(model)
    write_record(tmp_path / "model", record)
    again = model_of_record(read_record(tmp_path / "model"))
    np.testing.assert_array_equal(again.dataset.weights, model.dataset.weights)
    assert repr(again) == repr(model) and vars(again.dataset).keys() == vars(model.dataset).keys()
    del record["dataset"]["weights"]                        # as files from before there were any
    assert model_of_record(record).dataset.weights is None


@pytest.mark.parametrize("other", [None, np.ones(40), 2 * make_weights()])
def test_other_weights_are_other_data(other, tmp_path):
    X, y = make_data()
    bart.sample(make_model(sigma_hat=1.0), "cgm", checkpoint=tmp_path / "run", **SIZE)
    with pytest.raises(ValueError, match="other data"):
        bart.sample(bart.Model(X, y, n_trees=4, sigma_hat=1.0, weights=other), "cgm", checkpoint=tmp_path / "run",
                    **SIZE)


def test_states_from_before_there_were_weights_load():
    X, y = make_data()
    ensemble = bart.Ensemble(bart.Model(X, y, n_trees=3), "cgm", np.random.default_rng(0))
    state = ensemble.get_state()
    assert state.pop("weights") is None
    ensemble.set_state(state)
    assert ensemble.weights is None


# ------------------------------------------------------------------------------------------------- the estimator


def test_the_estimator_passes_weights_on():
    pytest.importorskip("sklearn")
    from bart.estimators import BARTClassifier, BARTRegressor

    X, y = make_data()
    w = make_weights()
    w[[3, 20]] = 0.0
    options = {"n_trees": 4, "n_burn": 5, "n_draws": 6, "n_chains": 2, "random_state": 4, "max_r_hat": None}
    reg = BARTRegressor(**options).fit(X, y, sample_weight=w)
    kept = w > 0
    post = bart.sample(bart.Model(X[kept], y[kept], n_trees=4, weights=w[kept]), "auto", **SIZE)
    np.testing.assert_array_equal(reg.posterior_["sigma"], post["sigma"])
    np.testing.assert_array_equal(reg.predict(X), post.predict(X))
    assert BARTRegressor(**options).fit(X, y).model_.dataset.weights is None
    for bad, message in ((-w, "sample_weight is negative, .* at position"), (0 * w, "sample_weight is zero in all"),
                         (w[1:], "sample_weight has 39 values, but X has 40 rows")):
        with pytest.raises(ValueError, match=message):
            BARTRegressor(**options).fit(X, y, sample_weight=bad)
    with pytest.raises(TypeError, match="sample_weight"):
        BARTClassifier(**options).fit(X, y > 1, sample_weight=w)
