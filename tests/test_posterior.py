"""Posterior: prediction by hand, in blocks and beside itself; files, summaries and ArviZ."""

import os
import subprocess
import sys

import numpy as np
import pytest
from chain_helpers import assert_same, child_environment, make_data

import bart
from bart import diagnostics
from bart.chain import TRACES, Forests
from bart.posterior import Posterior
from bart.storage import read_record, write_record

NODE = np.dtype([("dim", "<i4"), ("left", "<i4"), ("value", "<f8")])


@pytest.fixture(scope="module")
def model():
    return bart.Model(*make_data(60), n_trees=5)


@pytest.fixture(scope="module")
def post(model):
    return bart.sample(
        model, bart.CGM(), n_burn=20, n_draws=30, n_chains=3, seed=4, keep_burn_trees=True, progress=False
    )


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(8).random((50, 3))


def by_hand(n_draws=2):
    """One chain of a stump and of a tree that splits column 1 at 0.5: scaled sums 0.1 + (-0.2 or 0.3)."""
    forest = np.array([(-1, 0, 0.1), (1, 1, 0.5), (-1, 0, -0.2), (-1, 0, 0.3)] * n_draws, dtype=NODE)
    starts = np.concatenate([[0], np.cumsum([1, 3] * n_draws)]).astype(np.int64)
    traces = {name: np.ones((1, n_draws)) for name in TRACES}
    header = {"n_trees": 2, "n_dims": 2, "column_names": None, "y_mid": 10.0, "y_range": 4.0}
    header |= {"n_burn": 0, "thin": 1, "seed": 1, "starts": ["empty"]}
    return Posterior(traces, header, [Forests(forest, starts)])


# Prediction


def test_prediction_by_hand():
    post = by_hand()
    X = [[9.0, 0.5], [9.0, 0.5000001], [-9.0, -1.0]]
    expected = [10.0 - 0.4, 10.0 + 1.6, 10.0 - 0.4]
    np.testing.assert_allclose(post.predict(X), expected, rtol=1e-15)
    both = post.predict(X, draws=True, quantiles=[0.5], interval=0.5)
    np.testing.assert_allclose(both.draws, np.broadcast_to(expected, (1, 2, 3)), rtol=1e-15)
    np.testing.assert_allclose(both.quantiles, [expected], rtol=1e-15)
    np.testing.assert_allclose(both.interval, [expected, expected], rtol=1e-15)


def test_only_what_is_asked_for_is_returned(post, rows):
    assert isinstance(post.predict(rows), np.ndarray)
    found = post.predict(rows, interval=0.9)
    assert found.draws is None and found.quantiles is None and found.interval.shape == (2, 50)
    found = post.predict(rows, quantiles=[0.1, 0.5, 0.9])
    assert found.quantiles.shape == (3, 50) and found.interval is None


def test_mean_and_quantiles_are_those_of_the_draws(post, rows):
    found = post.predict(rows, draws=True, quantiles=[0.25, 0.5], interval=0.8)
    assert found.draws.shape == (3, 30, 50)
    flat = found.draws.reshape(90, 50)
    np.testing.assert_allclose(found.mean, flat.mean(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(found.quantiles, np.quantile(flat, [0.25, 0.5], axis=0))
    np.testing.assert_allclose(found.interval, np.quantile(flat, [0.1, 0.9], axis=0), rtol=1e-12)


@pytest.mark.parametrize(
    ("block_rows", "numbers", "visits"), [(1, 1, 1), (7, 100, 400), (10**6, 10**9, 10**9)]
)
def test_blocks_change_nothing(post, rows, monkeypatch, block_rows, numbers, visits):
    expected = post.predict(rows, draws=True, quantiles=[0.3], interval=0.5)
    monkeypatch.setattr("bart.prediction._BLOCK_ROWS", block_rows)
    monkeypatch.setattr("bart.prediction._BLOCK_NUMBERS", numbers)
    monkeypatch.setattr("bart.prediction._BLOCK_VISITS", visits)
    for first, second in zip(
        expected, post.predict(rows, draws=True, quantiles=[0.3], interval=0.5), strict=True
    ):
        np.testing.assert_array_equal(first, second)


def test_a_row_does_not_depend_on_its_neighbours(post, rows):
    together = post.predict(rows)
    for row in range(0, 50, 7):
        assert post.predict(rows[row : row + 1])[0] == together[row]


def test_every_nth_draw(post, rows):
    draws = post.predict(rows, draws=True).draws
    some = post.predict(rows, draws=True, every=4)
    np.testing.assert_array_equal(some.draws, draws[:, ::4])
    np.testing.assert_allclose(some.mean, draws[:, ::4].mean(axis=(0, 1)), rtol=1e-12)


def test_blocks_cover_each_draw_and_row_once(post, rows, monkeypatch):
    monkeypatch.setattr("bart.prediction._BLOCK_ROWS", 17)
    monkeypatch.setattr("bart.prediction._BLOCK_NUMBERS", 100)
    for every, burn in ((1, False), (4, False), (1, True)):
        found = np.full((3, len(range(0, 20 if burn else 30, every)), 50), np.nan)
        for block in post.predict_blocks(rows, every=every, burn=burn):
            assert np.isnan(found[block.chain, block.draws, block.rows]).all()
            assert block.values.size <= 100
            found[block.chain, block.draws, block.rows] = block.values
        assert not np.isnan(found).any()
        if not burn:
            np.testing.assert_array_equal(found, post.predict(rows, draws=True, every=every).draws)


@pytest.mark.parametrize("n_dims", [1, 3, 60])
def test_one_row_no_row_one_cell(n_dims):
    rng = np.random.default_rng(2)
    X = rng.random((20, n_dims))
    post = bart.sample(
        bart.Model(X, X[:, 0], n_trees=3),
        bart.GrowPrune(),
        n_burn=2,
        n_draws=5,
        n_chains=2,
        seed=1,
        progress=False,
    )
    assert post.predict(X[:1]).shape == (1,)
    assert post.predict(X[:0]).shape == (0,)
    found = post.predict(X[:0], draws=True, quantiles=[0.5], interval=0.9)
    assert [part.shape for part in found] == [(0,), (2, 5, 0), (1, 0), (2, 0)]
    assert list(post.predict_blocks(X[:0])) == []


def test_prediction_at_the_training_rows_is_in_the_range_of_y(model, post):
    fit = post.predict(model.dataset.X)
    assert np.corrcoef(fit, model.dataset.y)[0, 1] > 0.8
    assert np.all(np.abs(fit - model.dataset.y_mid) < model.dataset.y_range)


@pytest.mark.parametrize(
    ("X", "match"),
    [
        (np.zeros((4, 2)), "2 columns"), (np.zeros((4, 4)), "4 columns"), (np.zeros(3), "X"),
        ([[0.0, np.nan, 0.0]], "NaN"), ([[0.0, 1.0, np.inf]], "X"),
    ],
)  # fmt: skip
def test_bad_rows_are_refused(post, X, match):
    for predict in (post.predict, lambda rows: list(post.predict_blocks(rows))):
        with pytest.raises(ValueError, match=match):
            predict(X)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("quantiles", [0.5, 1.5]), ("quantiles", [-0.1]), ("interval", 0.0), ("interval", 1.0), ("every", 0),
        ("quantiles", "abc"), ("quantiles", [[0.1, 0.2]]), ("quantiles", True), ("draws", "no"), ("progress", "no"),
    ],
)  # fmt: skip
def test_bad_levels_are_refused(post, rows, name, value):
    with pytest.raises((ValueError, TypeError), match=rf"^{name}\b.* must be"):
        post.predict(rows, **{name: value})


def test_columns_of_a_frame_are_checked(rows):
    pandas = pytest.importorskip("pandas")
    X, y = make_data()
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    size = {"n_burn": 2, "n_draws": 5, "n_chains": 2, "seed": 1, "progress": False}
    post = bart.sample(bart.Model(frame, y, n_trees=3), bart.GrowPrune(), **size)
    new = pandas.DataFrame(rows, columns=["a", "b", "c"])
    np.testing.assert_array_equal(post.predict(new), post.predict(rows))
    with pytest.raises(ValueError, match="another order"):
        post.predict(new[["b", "a", "c"]])
    with pytest.raises(ValueError, match="lacks"):
        post.predict(new.rename(columns={"c": "d"}))


# Files


def test_a_new_process_predicts_the_same_to_the_last_bit(post, rows, tmp_path):
    post.save(tmp_path / "run.npz")
    np.save(tmp_path / "rows.npy", rows)
    script = (
        "import sys, numpy as np, bart\n"
        "post = bart.load(sys.argv[1] + '/run.npz')\n"
        "np.save(sys.argv[1] + '/mean.npy', post.predict(np.load(sys.argv[1] + '/rows.npy')))\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, env=child_environment())
    np.testing.assert_array_equal(np.load(tmp_path / "mean.npy"), post.predict(rows))


def test_a_loaded_run_is_the_same(post, tmp_path):
    post.save(tmp_path / "run.npz")
    found = bart.load(tmp_path / "run.npz")
    assert_same(post, found)
    assert found.header == post.header and type(found.header["starts"]) is list
    np.testing.assert_array_equal(found.sweeps["seconds"], post.sweeps["seconds"])
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]


def test_names_of_columns_are_kept(tmp_path, rows):
    pandas = pytest.importorskip("pandas")
    X, y = make_data()
    model = bart.Model(pandas.DataFrame(X, columns=["a", "b", "c"]), y, n_trees=2)
    bart.sample(model, bart.GrowPrune(), n_burn=0, n_draws=2, n_chains=1, seed=1, progress=False).save(
        tmp_path / "run"
    )
    with pytest.raises(ValueError, match="another order"):
        bart.load(tmp_path / "run").predict(pandas.DataFrame(rows, columns=["b", "a", "c"]))


def test_a_file_without_trees_refuses_to_predict(model, rows, tmp_path):
    size = {"n_burn": 2, "n_draws": 5, "n_chains": 2, "seed": 1, "progress": False}
    bart.sample(model, bart.GrowPrune(), keep_trees=False, **size).save(tmp_path / "run.npz")
    found = bart.load(tmp_path / "run.npz")
    for predict in (found.predict, lambda X: list(found.predict_blocks(X))):
        with pytest.raises(RuntimeError, match="stored no trees"):
            predict(rows)
    with pytest.raises(RuntimeError, match="keep_burn_trees"):
        list(found.predict_blocks(rows, burn=True))
    assert found["sigma"].shape == (2, 5)


def test_other_files_are_refused(tmp_path):
    (tmp_path / "text").write_text("no run")
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    np.save(tmp_path / "array.npy", np.zeros(3))
    for name in ("text", "other.npz", "array.npy"):
        with pytest.raises(ValueError, match="not a file"):
            bart.load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        bart.load(tmp_path / "missing.npz")


def test_a_damaged_file_is_refused(post, tmp_path):
    post.save(tmp_path / "run.npz")
    data = (tmp_path / "run.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(data[: len(data) // 2])
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    np.save(tmp_path / "array.npy", np.zeros(3))
    for name in ("cut.npz", "table.csv", "array.npy"):
        with pytest.raises(ValueError, match="not a file written by this package: it is no .npz archive"):
            bart.load(tmp_path / name)      # and no word of pickles


NODES = {
    "whole": ([(0, 1), (-1, -1), (1, 3), (-1, -1), (-1, -1)], True),
    "children before their parent": ([(0, 3), (-1, -1), (-1, -1), (1, 1), (-1, -1)], True),
    "own parent": ([(-1, -1), (0, 1), (-1, -1)], False),
    "two that are each other's": ([(0, 5), (0, 3), (-1, -1), (0, 1), (-1, -1), (-1, -1), (-1, -1)], False),
    "left over": ([(-1, -1), (-1, -1), (-1, -1)], False),
    "back to the root": ([(0, 0), (-1, -1), (-1, -1)], False),
    "beyond the last": ([(0, 1), (0, 3), (-1, -1)], False),
    "far beyond": ([(0, 2**31 - 1), (-1, -1), (-1, -1)], False),
    "dim": ([(0, 1), (-2, -1), (-1, -1)], False),
}


@pytest.mark.parametrize("kind", NODES)
def test_forests_are_whole_where_each_node_is_reached_from_its_root(kind):
    nodes, is_whole = NODES[kind]
    nodes = np.array([(dim, left, 0.5) for dim, left in nodes], dtype=NODE)
    starts = np.array([0, 1, 1 + len(nodes)])
    nodes = np.concatenate([np.array([(-1, -1, 0.0)], dtype=NODE), nodes])       # a stump before it
    assert Forests(nodes, starts).is_whole == is_whole
    assert not Forests(nodes, starts[:2]).is_whole and not Forests(nodes, starts.astype(float)).is_whole
    assert not Forests(nodes, starts - 1).is_whole and not Forests(nodes["left"], starts).is_whole


@pytest.mark.parametrize("kind", ["no traces", "empty traces", "no sigma", "short", "header", "number", "few forests",
                                  "forest", "list", "tempering", "draws", "burn"])  # fmt: skip
def test_what_is_no_saved_run_is_refused(post, tmp_path, kind):
    file = tmp_path / "run.npz"
    post.save(file)
    record = read_record(file)
    forest = record["forests"][1]
    changes = {
        "no traces": lambda: record.pop("traces"), "empty traces": lambda: record["traces"].clear(),
        "no sigma": lambda: record["traces"].pop("sigma"), "header": lambda: record["header"].pop("y_mid"),
        "short": lambda: record["traces"].update(depth=record["traces"]["depth"][:, 1:]),
        "number": lambda: record.update(header=3), "few forests": lambda: record["forests"].pop(),
        "forest": lambda: record["forests"].append(None), "list": lambda: record.update(traces=[1, 2]),
        "tempering": lambda: record.update(tempering={"swaps": 1}),
        "draws": lambda: forest.update(starts=forest["starts"][:-1], nodes=forest["nodes"][: forest["starts"][-2]]),
        "burn": lambda: record.update(burn_forests=record["forests"]),
    }  # fmt: skip
    changes[kind]()
    write_record(file, record)
    with pytest.raises(ValueError, match="run.npz' (is not a saved run|holds damaged)"):
        bart.load(file)


def test_a_record_of_another_form_is_refused(tmp_path):
    for text in ("[1]", '{"dict": 3}', '{"dict": [[1]]}', '{"list": null}', '{"bytes": 3}', '{"array": "a9"}', "{}"):
        np.savez(tmp_path / "run.npz", record=np.frombuffer(text.encode(), dtype=np.uint8))
        with pytest.raises(ValueError, match="not a (file written by this package|saved run)"):
            bart.load(tmp_path / "run.npz")


def test_saving_over_a_file_is_all_or_nothing(post, tmp_path, monkeypatch):
    post.save(tmp_path / "run.npz")
    before = (tmp_path / "run.npz").read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk")))
    with pytest.raises(OSError, match="disk"):
        post.save(tmp_path / "run.npz")
    assert (tmp_path / "run.npz").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]


# Summaries


def test_traces_are_read_only_and_named(post):
    assert list(post) == list(TRACES) and "sigma" in post and "sigmas" not in post
    with pytest.raises(KeyError, match="sigmas"):
        post["sigmas"]
    with pytest.raises(ValueError, match="read-only"):
        post["sigma"][0, 0] = 1.0
    assert "3 chains of 30 draws" in repr(post)


def test_summary(post):
    pytest.importorskip("arviz")
    table = post.summary()
    assert list(table) == ["sigma", "log_likelihood", "n_leaves", "depth"]
    sigma = post["sigma"]
    row = table["sigma"]
    assert row["mean"] == pytest.approx(sigma.mean()) and row["sd"] == pytest.approx(sigma.std(ddof=1))
    assert row["r_hat"] == diagnostics.split_rhat(sigma) and row["ess_bulk"] == diagnostics.ess_bulk(sigma)
    assert 0 < row["mcse"] < row["sd"]
    lines = str(table).splitlines()
    assert len(lines) == 5 and len({len(line) for line in lines}) == 1
    assert "r_hat" in lines[0] and lines[1].startswith("sigma")


def test_to_arviz(post):
    pytest.importorskip("arviz")
    data = post.to_arviz()
    assert data["posterior"]["sigma"].dims == ("chain", "draw")
    np.testing.assert_array_equal(data["posterior"]["sigma"].values, post["sigma"])
    levels = data["posterior"]["total_log_likelihood"].values
    np.testing.assert_array_equal(levels, post["log_likelihood"])
    for name in ("tree_changed", "row_visits"):
        np.testing.assert_array_equal(data["sample_stats"][name].values, post[name])
    np.testing.assert_array_equal(data["warmup_posterior"]["n_leaves"].values, post.burn["n_leaves"])
