"""Other programs' forms of a run: pointwise log-likelihood, ArviZ of both generations, coda's files."""

import itertools
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest
from chain_helpers import make_data
from probit_law import ProbitProblem
from scipy import stats
from scipy.special import logsumexp
from view_helpers import all_draws

import bart


@pytest.fixture(scope="module")
def model():
    return bart.Model(*make_data(25), n_trees=3)


@pytest.fixture(scope="module")
def post(model):
    return bart.sample(model, "cgm", n_burn=6, n_draws=10, n_chains=2, thin=3, seed=4, progress=False)


# Pointwise log-likelihood


def test_the_log_likelihood_is_that_of_each_row_and_sums_to_the_trace(post, model):
    X, y = make_data(25)
    found = post.pointwise_log_likelihood(X, y)
    expected = stats.norm.logpdf(y, all_draws(post, X), post["sigma"][:, :, None])
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.sum(axis=2), post["log_likelihood"], rtol=1e-9)
    np.testing.assert_array_equal(found, post.pointwise_log_likelihood(model=model))
    np.testing.assert_array_equal(found[:, ::4], post.pointwise_log_likelihood(X, y, every=4, n_threads=2))


def test_log_likelihood_in_blocks_and_into_a_file(post, tmp_path, monkeypatch):
    X, y = make_data(25)
    expected = post.pointwise_log_likelihood(X, y)
    monkeypatch.setattr("bart.prediction._BLOCK_ROWS", 7)
    monkeypatch.setattr("bart.prediction._BLOCK_NUMBERS", 20)
    file = np.memmap(tmp_path / "ll", dtype=np.float64, mode="w+", shape=(2, 10, 25))
    assert post.pointwise_log_likelihood(X, y, out=file) is file
    np.testing.assert_array_equal(file, expected)
    found = np.full((2, 10, 25), np.nan)
    for block in post.log_likelihood_blocks(X, y):
        assert block.values.size <= 20
        found[block.chain, block.draws, block.rows] = block.values
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({}, "X is missing"), ({"X": np.zeros((2, 3))}, "y is missing"), ({"y": [1.0]}, "X is missing"),
        ({"X": np.zeros((2, 3)), "y": [1.0]}, "2 rows, but y has 1"), ({"X": [[1.0]], "y": [1.0]}, "1 columns"),
        ({"X": np.zeros((1, 3)), "y": [np.inf]}, "y is inf"),
        ({"X": np.zeros((1, 3)), "y": [1.0], "every": 0}, "every"),
    ],
)  # fmt: skip
def test_bad_data_are_refused_before_any_work(post, options, match):
    for question in (post.pointwise_log_likelihood, post.log_likelihood_blocks):
        with pytest.raises(ValueError, match=match):
            question(**options)


def test_bad_places_are_refused(post, model):
    X, y = make_data(25)
    for out in (np.empty((2, 10, 24)), np.empty((2, 10, 25), dtype=int), [1.0]):
        with pytest.raises(ValueError, match="out must be"):
            post.pointwise_log_likelihood(X, y, out=out)
    with pytest.raises(ValueError, match="model has no effect"):
        post.pointwise_log_likelihood(X, y, model=model)
    with pytest.raises(ValueError, match="not that of this run"):
        post.pointwise_log_likelihood(model=bart.Model(X, y + 1, n_trees=3))


@pytest.fixture(scope="module")
def probit():
    X, y = make_data(25)
    model = bart.Model(X, y > np.median(y), n_trees=3, outcome="probit")
    return model, bart.sample(model, "cgm", n_burn=6, n_draws=10, n_chains=2, thin=3, seed=4, progress=False)


def test_of_probit_the_latent_variables_are_integrated_out(probit, monkeypatch):
    model, post = probit
    X, y = model.dataset.X, model.dataset.y
    f = all_draws(post, X)
    expected = np.where(y == 1, stats.norm.logcdf(f), stats.norm.logsf(f))
    found = post.pointwise_log_likelihood(X, y)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    np.testing.assert_allclose(found.sum(axis=2), post["log_likelihood"], rtol=1e-9)
    np.testing.assert_array_equal(found, post.pointwise_log_likelihood(model=model))
    # The integral itself: z has density N(f, 1) and must be on the side of y.
    z, step = np.linspace(-40, 40, 400_001, retstep=True)
    for row in (0, 7, 24):
        side = z > 0 if y[row] == 1 else z < 0
        mass = np.log(np.sum(stats.norm.pdf(z - f[1, 3, row])[side]) * step)
        assert found[1, 3, row] == pytest.approx(mass, abs=1e-3)
    monkeypatch.setattr("bart.prediction._BLOCK_ROWS", 7)
    monkeypatch.setattr("bart.prediction._BLOCK_NUMBERS", 20)
    np.testing.assert_array_equal(post.pointwise_log_likelihood(X, y), found)
    other = post.pointwise_log_likelihood(X, 1 - y)
    np.testing.assert_allclose(np.exp(other) + np.exp(found), 1.0, rtol=1e-12)
    for wrong in ([0.5] * 25, y + 1):
        with pytest.raises(ValueError, match="y must be 0 or 1 .* at position"):
            post.pointwise_log_likelihood(X, wrong)


def test_known_errors_of_probit_are_seen(probit):
    """The density of z given f, and that of a Gaussian outcome, are others."""
    model, post = probit
    X, y = model.dataset.X, model.dataset.y
    found, f = post.pointwise_log_likelihood(model=model), all_draws(post, X)
    for wrong in (stats.norm.logpdf(y, f, 1.0), stats.norm.logcdf(f), stats.norm.logcdf((2 * y - 1) * f / np.sqrt(2))):
        assert np.abs(wrong - found).max() > 0.1


# ArviZ


def test_arviz_with_data(post, model):
    pytest.importorskip("arviz")
    X, y = make_data(25)
    for options in ({"X": X, "y": y}, {"model": model}):
        data = post.to_arviz(**options, log_likelihood=True)
        np.testing.assert_array_equal(data["log_likelihood"]["y"].values, post.pointwise_log_likelihood(X, y))
        assert data["log_likelihood"]["y"].dims[:2] == ("chain", "draw")
        np.testing.assert_array_equal(data["observed_data"]["y"].values, y)
        np.testing.assert_array_equal(data["posterior"]["sigma"].values, post["sigma"])
    for options in ({"y": y}, {"model": model}):
        data = post.to_arviz(**options)
        np.testing.assert_array_equal(data["observed_data"]["y"].values, y)
        assert "log_likelihood" not in groups_of(data)
    assert "observed_data" not in groups_of(post.to_arviz())


def groups_of(data):
    groups = data.groups() if callable(data.groups) else data.groups
    return [group.strip("/") for group in groups]


def test_bad_arguments_of_arviz(post, model):
    pytest.importorskip("arviz")
    X, y = make_data(25)
    for options, match in (
        ({"log_likelihood": True}, "needs the data"), ({"X": X, "y": y}, "X has no effect"),
        ({"X": X, "log_likelihood": True}, "y is missing"), ({"y": y, "log_likelihood": True}, "X is missing"),
        ({"model": model, "y": y}, "model has no effect"), ({"y": [np.nan]}, "y is NaN"),
        ({"model": bart.Model(X, y, n_trees=2)}, "not that of this run"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=match):
            post.to_arviz(**options)
    with pytest.raises(TypeError, match="log_likelihood"):
        post.to_arviz(model=model, log_likelihood=1)


@pytest.mark.parametrize("version", ["0.23.4", "1.2.0"])
def test_both_generations_are_given_what_they_take(post, model, monkeypatch, version):
    """0.x takes groups as keywords, 1.x one dict of groups first."""
    calls = []
    fake = types.ModuleType("arviz")
    fake.__version__ = version
    fake.from_dict = lambda *args, **kwargs: calls.append((args, kwargs))
    monkeypatch.setitem(sys.modules, "arviz", fake)
    post.to_arviz(model=model, log_likelihood=True)
    ((args, kwargs),) = calls
    assert kwargs.pop("save_warmup") is True
    groups = kwargs if version.startswith("0") else args[0]
    assert len(args) == (0 if version.startswith("0") else 1) and (not kwargs or groups is kwargs)
    names = ["posterior", "sample_stats", "warmup_posterior", "warmup_sample_stats", "log_likelihood", "observed_data"]
    assert list(groups) == names
    assert groups["log_likelihood"]["y"].shape == (2, 10, 25) and groups["observed_data"]["y"].shape == (25,)


def test_without_arviz_the_extra_is_named(post, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r"pgbart\[diagnostics\]"):
        post.to_arviz()


def loo_model(keep):
    """Few distinct rows, each several times, and no scaling: leaving one out changes the likelihood alone."""
    X = np.repeat([[0.0], [1.0], [2.0]], 5, axis=0)
    y = np.concatenate([np.linspace(-1, 1, 5) - 1.0, np.linspace(-1, 1, 5), np.linspace(-1, 1, 5) + 2.5])
    return bart.Model(X[keep], y[keep], n_trees=2, sigma=0.8, leaf_var=1.0, scale=False), X, y


def test_loo_against_fits_without_a_row(seed):
    """arviz.loo of the whole run against the predictive densities of 15 fits that each lack a row."""
    arviz = pytest.importorskip("arviz")
    options = {"n_burn": 100, "n_chains": 2, "progress": False}
    model, X, y = loo_model(slice(None))
    post = bart.sample(model, "cgm", n_draws=6000, seed=seed, **options)
    data = post.to_arviz(model=model, log_likelihood=True)
    found = arviz.loo(data, pointwise=True)
    values = np.asarray(getattr(found, "loo_i", None) if hasattr(found, "loo_i") else found.elpd_i)
    expected = np.empty(15)
    for row in range(15):
        keep = np.arange(15) != row
        fit = bart.sample(loo_model(keep)[0], "cgm", n_draws=6000, seed=[seed, row], **options)
        left_out = fit.pointwise_log_likelihood(X[[row]], y[[row]]).ravel()
        expected[row] = np.log(np.exp(left_out).mean())
    np.testing.assert_allclose(values, expected, atol=0.08)
    raw = -np.log(np.exp(-post.pointwise_log_likelihood(model=model)).mean(axis=(0, 1)))
    np.testing.assert_allclose(values, raw, atol=0.05)
    assert np.ptp(expected) > 0.5


LOO_ROWS = np.repeat([[0.0], [1.0], [2.0]], 5, axis=0)
LOO_CLASSES = np.array([0, 0, 0, 0, 1, 0, 1, 0, 1, 1, 1, 1, 1, 1, 0.0])


def exact_loo_of_probit(n_trees, offset):
    """log p(y_n | the other y): of the evidences of all data with either class in row n, by enumerated trees."""
    def log_evidence(y):
        problem = ProbitProblem(LOO_ROWS, y, offset, 0.3, alpha=0.95, beta=2.0)
        log_prior = {tree: problem.log_prior(tree) for tree, _ in problem.enumerate()}
        forests = itertools.product(log_prior, repeat=n_trees)
        return logsumexp([problem.law_of_f(each)[0] + sum(log_prior[tree] for tree in each) for each in forests])

    whole, found = log_evidence(LOO_CLASSES), {}
    for row in (0, 4, 5, 6, 10, 14):            # the others are like one of these
        other = log_evidence(np.where(np.arange(15) == row, 1 - LOO_CLASSES, LOO_CLASSES))
        found[row] = whole - np.logaddexp(whole, other)
    return found


def test_loo_of_probit_against_its_exact_value(seed):
    """The offset is given: that of the shares of the classes would change with the row."""
    arviz = pytest.importorskip("arviz")
    model = bart.Model(LOO_ROWS, LOO_CLASSES, n_trees=2, leaf_var=0.3, outcome="probit", offset=0.2)
    post = bart.sample(model, "cgm", n_burn=100, n_draws=10_000, n_chains=4, seed=seed, progress=False)
    found = arviz.loo(post.to_arviz(model=model, log_likelihood=True), pointwise=True)
    values = np.asarray(getattr(found, "loo_i", None) if hasattr(found, "loo_i") else found.elpd_i)
    for row, expected in exact_loo_of_probit(2, 0.2).items():
        assert values[row] == pytest.approx(expected, abs=0.03)
    assert np.ptp(values) > 1.0


# coda


def read_coda(chain, index):
    """What R's read.coda makes of a chain and its index: start, thin and a column for each name.

    Written after its documentation: the index has a line "name first last", the places of the variable's lines in the
    chain's file from 1, which has a line "iteration value" each.
    """
    lines = [line.split() for line in chain.read_text().splitlines()]
    assert all(len(line) == 2 for line in lines)
    numbers = np.array([float(line[0]) for line in lines])
    values = np.array([float(line[1]) for line in lines])
    columns, spacing = {}, None
    for line in index.read_text().splitlines():
        name, first, last = line.split()
        own = numbers[int(first) - 1 : int(last)]
        (thin,) = set(np.diff(own))
        assert spacing in (None, (own[0], thin))
        spacing = own[0], thin
        columns[name] = values[int(first) - 1 : int(last)]
    assert sum(map(len, columns.values())) == len(lines)
    return *spacing, columns


@pytest.mark.parametrize("stem", ["", "run1_"])
def test_coda_files_are_read_back_to_the_last_bit(post, tmp_path, stem):
    folder = tmp_path / "new" / "coda"
    paths = post.to_coda(folder, stem=stem)
    index = folder / f"{stem}CODAindex.txt"
    assert [str(index), *(str(folder / f"{stem}CODAchain{c}.txt") for c in (1, 2))] == paths
    assert len(list(folder.iterdir())) == 3
    for chain in range(2):
        start, thin, columns = read_coda(folder / f"{stem}CODAchain{chain + 1}.txt", index)
        assert (start, thin) == (9, 3) and list(columns) == list(post)
        for name in post:
            np.testing.assert_array_equal(columns[name], post[name][chain])


def test_some_traces_in_coda_files(post, tmp_path):
    post.to_coda(tmp_path, names=["sigma", "depth"])
    assert (tmp_path / "CODAindex.txt").read_text() == "sigma 1 10\ndepth 11 20\n"


@pytest.mark.long
def test_coda_itself_reads_them(model, tmp_path):
    """R's read.coda and effectiveSize, where there is an R with coda."""
    rscript = shutil.which("Rscript")
    if rscript is None or subprocess.run([rscript, "-e", "library(coda)"], capture_output=True).returncode:
        pytest.skip("no R with the package coda")
    post = bart.sample(model, "cgm", n_burn=10, n_draws=500, n_chains=2, thin=2, seed=4, progress=False)
    names = ["sigma", "log_likelihood", "n_leaves", "row_visits"]
    post.to_coda(tmp_path, names)
    code = """library(coda); options(digits = 17)
        for (chain in read.openbugs("", quiet = TRUE))
            write.table(rbind(colMeans(chain), apply(chain, 2, sd), effectiveSize(chain), chain[nrow(chain), ],
                              rep(mcpar(chain)[1], ncol(chain)), rep(mcpar(chain)[3], ncol(chain))),
                        col.names = FALSE)"""
    told = subprocess.run([rscript, "-e", code], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    rows = np.array([[float(cell) for cell in line.split()[1:]] for line in told.splitlines()])
    for chain, found in enumerate(rows.reshape(2, 6, len(names))):
        draws = np.stack([post[name][chain] for name in names], axis=1).astype(np.float64)
        np.testing.assert_allclose(found[0], draws.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(found[1], draws.std(axis=0, ddof=1), rtol=1e-12)
        np.testing.assert_allclose(found[2], bart.effective_size(draws), rtol=1e-9)
        np.testing.assert_allclose(found[3], draws[-1], rtol=1e-14)
        assert set(found[4]) == {12.0} and set(found[5]) == {2.0}


def test_bad_arguments_of_coda(post, model, tmp_path):
    for options, match in (
        ({"names": []}, "names is empty"), ({"names": ["sigma", "tau"]}, r"names\[1\] is 'tau'"),
        ({"names": ["sigma", "sigma"]}, "twice"), ({"stem": "a/b"}, "stem"), ({"stem": 3}, "stem"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=match):
            post.to_coda(tmp_path, **options)
    one = bart.sample(model, "cgm", n_burn=0, n_draws=1, n_chains=1, seed=1, progress=False)
    with pytest.raises(ValueError, match="at least two"):
        one.to_coda(tmp_path)
    assert list(tmp_path.iterdir()) == []
