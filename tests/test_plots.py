"""Plots: what is drawn is what was computed; axes in and out; no state of pyplot."""

import sys

import numpy as np
import pytest

import bart
from bart import diagnostics

matplotlib = pytest.importorskip("matplotlib")
pytest.importorskip("arviz")

from bart import plots  # noqa: E402


@pytest.fixture(scope="module")
def model():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(5)
    X = rng.random((60, 4))
    y = 3.0 * (X[:, 0] > 0.4) + 2.0 * X[:, 1] + rng.normal(0.0, 0.3, 60)
    return bart.Model(pandas.DataFrame(X, columns=["age", "size", "third", "d"]), y, n_trees=5)


@pytest.fixture(scope="module")
def post(model):
    return bart.sample(model, "cgm", n_burn=30, n_draws=40, n_chains=3, thin=2, seed=4, progress=False)


@pytest.fixture(scope="module")
def shares(post, model):
    null = bart.permutation_null(model, 10, sampler="cgm", n_burn=10, n_draws=20, seed=1)
    return post.inclusion(model=model, null=null, n_prior=20, seed=1)


@pytest.fixture
def ax():
    return plots.new_axes()[0, 0]


def texts(ax):
    return [text.get_text() for text in ax.texts]


def labels(ax):
    return ax.get_legend_handles_labels()[1]


def test_traces(post):
    axes = plots.traces(post)
    for panel, name in zip(axes, ("sigma", "log_likelihood", "n_leaves"), strict=True):
        lines = [line for line in panel.lines if len(line.get_xdata()) > 2]
        assert len(lines) == 3
        for chain, line in enumerate(lines):
            np.testing.assert_array_equal(line.get_ydata(), post.sweeps[name][chain])
            np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 111))
    assert labels(axes[0]) == ["chain 0 (empty)", "chain 1 (prior)", "chain 2 (overgrown)"]
    assert "burn-in" in axes[-1].get_xlabel()
    (panel,) = plots.traces(post, "sigma", burn=False)
    np.testing.assert_array_equal(panel.lines[1].get_ydata(), post["sigma"][1])
    np.testing.assert_array_equal(panel.lines[1].get_xdata(), 30 + 2 * np.arange(1, 41))


def test_labels_have_the_units_of_the_outcome(post, model):
    probit = bart.Posterior(post.sweeps, post.header | {"outcome": "probit"}, post.forests)
    for run, units in ((post, "units of y"), (probit, "latent units")):
        assert plots.traces(run, "sigma")[0].get_ylabel() == rf"$\sigma$ ({units})"
        assert labels(plots.convergence(run, "sigma")[0]) == [rf"$\sigma$ ({units})"]
        X = model.dataset.X[:4]
        found = run.partial_dependence(X, "age", n_grid=3, every=20, centred=True)
        assert plots.dependence(found).get_ylabel() == f"change of f ({units})"
        found = run.individual_dependence(X, "age", n_grid=3, every=20)
        assert plots.individual_dependence(found).get_ylabel() == f"f ({units})"


def test_a_far_start_does_not_press_the_rest_flat(post):
    sweeps = {name: np.array(trace) for name, trace in post.sweeps.items()}
    sweeps["sigma"][0, 0] = 1e6
    far = bart.Posterior(sweeps, post.header, post.forests)
    (panel,) = plots.traces(far, "sigma")
    assert panel.get_ylim()[1] < 10 * sweeps["sigma"][:, 10:].max()


def test_convergence(post):
    axes = plots.convergence(post, ["sigma", "depth"], n_points=5)
    ends = np.unique(np.linspace(8, 40, 5).astype(int))
    for number, name in enumerate(("sigma", "depth")):
        r_hat, ess = axes[0].lines[number], axes[1].lines[number]
        np.testing.assert_array_equal(r_hat.get_xdata(), 30 + 2 * ends)
        for place, end in enumerate(ends):
            assert r_hat.get_ydata()[place] == diagnostics.split_rhat(post[name][:, :end])
            assert ess.get_ydata()[place] == diagnostics.ess_bulk(post[name][:, :end])
    np.testing.assert_array_equal(axes[1].lines[2].get_ydata(), 3 * ends)


def test_intervals(post, model, ax):
    truth = np.linspace(-1, 7, 60)
    found = post.predict(model.dataset.X, interval=0.8, kind="outcome")
    assert plots.intervals(found, truth, ax=ax) is ax
    inside = (found.interval[0] <= truth) & (truth <= found.interval[1])
    assert 0 < inside.sum() < 60
    both = ("inside", inside), ("missed", ~inside)
    assert labels(ax) == [f"{word}: {hits.sum()} of 60 ({hits.mean():.1%})" for word, hits in both]
    bars, missed = [c for c in ax.collections if hasattr(c, "get_segments")]
    assert len(bars.get_segments()) == inside.sum() and len(missed.get_segments()) == (~inside).sum()
    at = np.flatnonzero(inside)[0]
    np.testing.assert_allclose(bars.get_segments()[0], [[truth[at], end] for end in found.interval[:, at]])


def test_inclusion(shares):
    panel = plots.inclusion(shares, level=0.2, rule="max")
    order = np.argsort(-shares.mean)
    np.testing.assert_allclose([bar.get_width() for bar in panel.patches], shares.mean[order])
    assert [label.get_text() for label in panel.get_yticklabels()] == [shares.labels[dim] for dim in order]
    limit = shares.null.threshold(0.2, "max")
    dark = [matplotlib.colors.to_hex(bar.get_facecolor()).upper() == plots.COLOURS[0] for bar in panel.patches]
    assert dark == (shares.mean > limit)[order].tolist()
    assert len(labels(panel)) == 3 and "max threshold at 0.2" in " ".join(labels(panel))
    few = plots.inclusion(shares._replace(prior=None, null=None), top=2)
    assert len(few.patches) == 2 and len(labels(few)) == 1


def test_importance(post, model):
    found = post.permutation_importance(model.dataset.X, model.dataset.y, n_repeats=3, seed=1)
    panel = plots.importance(found, top=3)
    order = np.argsort(-found.mean)[:3]
    np.testing.assert_allclose([bar.get_width() for bar in panel.patches], found.mean[order])
    offsets = np.array([points.get_offsets()[:, 0] for points in panel.collections])
    np.testing.assert_allclose(offsets, found.repeats[:, order])


def test_interactions(post):
    found = post.interactions()
    panel = plots.interactions(found)
    drawn, matrix = panel.images[0].get_array(), found.matrix()
    for a in range(4):
        for b in range(4):
            assert (drawn[a, b] is np.ma.masked) if b > a else drawn[a, b] == matrix[a, b]
    assert plots.interactions(found, top=2).images[0].get_array().shape == (2, 2)


def test_dependence_on_one_column(post, model, ax):
    found = post.partial_dependence(model.dataset.X, "age", n_grid=8)
    assert plots.dependence(found, ax=ax, X=model.dataset.X, colour="#009E73") is ax
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), np.stack([found.grid[0], found.mean], axis=1))
    corners = ax.collections[0].get_paths()[0].vertices
    assert corners[:, 1].min() == found.interval[0].min() and corners[:, 1].max() == found.interval[1].max()
    assert ax.get_xlabel() == "age" and labels(ax) == ["90% credible band", "posterior mean"]
    np.testing.assert_array_equal(ax.lines[1].get_xdata(), model.dataset.X[:, 0])
    assert matplotlib.colors.to_hex(ax.lines[0].get_color()).upper() == "#009E73"


def test_dependence_on_two_columns(post, model):
    found = post.partial_dependence(model.dataset.X, ("size", "age"), n_grid=5, every=10, centred=True)
    panel = plots.dependence(found, X=model.dataset.X)
    np.testing.assert_array_equal(np.ravel(panel.collections[0].get_array()), found.mean.T.ravel())
    assert panel.get_xlabel() == "size" and panel.get_ylabel() == "age"
    assert "change" in panel.figure.axes[1].get_ylabel()
    assert all(np.min(found.mean) < level < np.max(found.mean) for level in panel.collections[1].levels)
    # A cell holds the rows nearest to its point of the grid; the others are pale, and not in the colours' range.
    few = model.dataset.X[:3, list(found.columns)]
    near = [np.abs(few[:, d, None] - grid).argmin(axis=1) for d, grid in enumerate(found.grid)]
    seen = np.zeros((5, 5), dtype=bool)
    seen[tuple(near)] = True
    panel = plots.dependence(found, X=model.dataset.X[:3])
    image, veil = panel.collections[0], panel.collections[2]
    np.testing.assert_array_equal(np.ma.getmaskarray(veil.get_array()).reshape(5, 5), seen.T)
    assert image.get_clim() == (found.mean[seen].min(), found.mean[seen].max())
    plots.dependence(post.partial_dependence(model.dataset.X, (0, 1), ([0.5], [0.1, 0.9]), every=10))


def test_individual_dependence(post, model):
    found = post.individual_dependence(model.dataset.X, 0, n_grid=6, every=10)
    panel = plots.individual_dependence(found, band=True, most=7)
    rows = np.unique(np.linspace(0, 59, 7).astype(int))
    for line, row in zip(panel.lines, rows, strict=False):
        np.testing.assert_array_equal(line.get_ydata(), found.mean[row])
    np.testing.assert_allclose(panel.lines[7].get_ydata(), found.mean.mean(axis=0))
    assert len(panel.collections) == 7 and labels(panel) == ["7 of 60 rows", "mean of all rows"]


def test_a_tree(post, model, ax):
    trees = [tree for draw in range(40) for tree in post.trees(0, draw)]
    drawn = max(trees, key=lambda tree: tree.n_leaves)
    assert plots.tree(drawn, X=model.dataset.X, ax=ax) is ax
    shown = texts(ax)
    for node in drawn.nodes:
        rule = f"{drawn.column_names[node['dim']]} ≤ {node['threshold']:.4g}"
        wanted = f"{node['value']:+.4g}" if node["dim"] < 0 else rule
        assert any(text.startswith(wanted) for text in shown)
    reached = np.bincount(drawn.apply(model.dataset.X), minlength=len(drawn))
    for at in np.flatnonzero(drawn.nodes["dim"] < 0):
        assert f"{drawn.nodes['value'][at]:+.4g}\nn = {reached[at]}" in shown
    assert shown.count("yes") == shown.count("no") == 1 and any(text.endswith("n = 60") for text in shown)
    # The left child stands left of the right one, both below their parent.
    ends = [line.get_xydata() for line in ax.lines]
    for left, right in zip(ends[::2], ends[1::2], strict=True):
        assert left[1, 0] < left[0, 0] < right[1, 0] and left[1, 1] < left[0, 1] and right[1, 1] == left[1, 1]
    stump = plots.tree(bart.Forest.from_json(
        '{"format": "bart forest", "version": 1, "offset": 0, "n_dims": 1, "column_names": null, '
        '"trees": [[{"value": 0.0}]]}')[0])  # fmt: skip
    assert texts(stump) == ["+0"]


def test_every_picture_can_be_written_and_given_axes(post, model, shares, tmp_path):
    X, y = model.dataset.X, model.dataset.y
    pictures = {
        "intervals": lambda ax: plots.intervals(post.predict(X, interval=0.5), y, ax=ax),
        "inclusion": lambda ax: plots.inclusion(shares, ax=ax),
        "interactions": lambda ax: plots.interactions(post.interactions(), ax=ax),
        "dependence": lambda ax: plots.dependence(post.partial_dependence(X, 0, every=20), ax=ax),
        "two": lambda ax: plots.dependence(post.partial_dependence(X, (0, 1), n_grid=4, every=20), ax=ax),
        "ice": lambda ax: plots.individual_dependence(post.individual_dependence(X, 0, every=20), ax=ax),
        "tree": lambda ax: plots.tree(post.trees(0, 0)[0], ax=ax),
    }
    axes = plots.new_axes(3, 3, size=(15, 15))
    for place, (name, draw) in enumerate(pictures.items()):
        given = axes.ravel()[place]
        assert draw(given) is given
        draw(None).figure.savefig(tmp_path / f"{name}.png", dpi=50)
    plots.traces(post, ["sigma", "depth"], axes=axes[2, 1:])
    axes[0, 0].figure.savefig(tmp_path / "all.png", dpi=50)
    assert all(path.stat().st_size > 1000 for path in tmp_path.iterdir())


def test_pyplot_and_its_settings_are_left_alone(post, model, shares):
    from matplotlib import pyplot

    before, figures = dict(matplotlib.rcParams), pyplot.get_fignums()
    plots.traces(post)
    plots.convergence(post)
    plots.inclusion(shares)
    plots.tree(post.trees(0, 0)[0])
    assert pyplot.get_fignums() == figures and dict(matplotlib.rcParams) == before


def test_bad_arguments_are_refused(post, model, shares):
    X = model.dataset.X
    for question, match in (
        (lambda: plots.traces(post, []), "names is empty"),
        (lambda: plots.traces(post, ["tau"]), r"names\[0\] is 'tau'"),
        (lambda: plots.traces(post, axes=plots.new_axes(2)), "axes must hold 3"),
        (lambda: plots.convergence(post, n_points=1), "n_points"),
        (lambda: plots.intervals(post.predict(X), X[:, 0]), "no interval"),
        (lambda: plots.intervals(post.predict(X, interval=0.5), X[:3, 0]), "truth has 3"),
        (lambda: plots.inclusion(shares, top=0), "top"), (lambda: plots.inclusion(shares, rule="all"), "rule"),
        (lambda: plots.inclusion(shares, level=2), "level"),
        (lambda: plots.dependence(post.partial_dependence(X, 2), X=X[:, :2]), "X has 2 columns"),
        (lambda: plots.individual_dependence(post.individual_dependence(X, 0), most=0), "most"),
        (lambda: plots.tree(post.trees(0, 0)[0], X=[[np.nan] * 4]), "NaN"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=match):
            question()


def test_without_matplotlib_the_extra_is_named(post, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    for question in (lambda: plots.traces(post), lambda: plots.tree(post.trees(0, 0)[0])):
        with pytest.raises(ImportError, match=r"pgbart\[plots\]"):
            question()
