"""The command line: what it writes is what the library computes, and errors are one line with the right exit code."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from chain_helpers import assert_same, child_environment, make_data

import bart
from bart.cli import main
from bart.cli_options import _MODEL, _SAMPLE, AUTHORS_FLAGS
from bart.storage import write_record

RUN = ["--sampler", "growprune", "--n-trees", "4", "--n-burn", "5", "--n-draws", "7", "--n-chains", "2", "--seed", "3"]
OPTIONS = {"n_burn": 5, "n_draws": 7, "n_chains": 2, "seed": 3, "progress": False}


def write(path, header, rows):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows([[repr(float(cell)) for cell in row] for row in rows])
    return str(path)


@pytest.fixture
def data(tmp_path):
    X, y = make_data()
    return write(tmp_path / "data.csv", ["a", "b", "target", "c"], np.column_stack([X[:, :2], y, X[:, 2]]))


@pytest.fixture
def run(data, tmp_path, capsys):
    out = str(tmp_path / "run.npz")
    assert main(["fit", data, "--target", "target", *RUN, "--out", out]) == 0
    capsys.readouterr()
    return out


def said(capsys):
    """The one line on stderr, without the program's name; nothing on stdout."""
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == "" and len(lines) == 1 and ": error: " in lines[0], (out, err)
    return lines[0].split(": error: ", 1)[1]


# What it computes


def test_fit_is_the_librarys_run(data, run):
    X, y = make_data()
    post = bart.load(run)
    assert_same(post, bart.sample(bart.Model(X, y, n_trees=4), "growprune", **OPTIONS))
    assert post.header["column_names"] == ("a", "b", "c")


@pytest.mark.parametrize(
    ("flags", "model", "options"),
    [
        (["--alpha", ".5", "--beta", "1", "--k", "3", "--nu", "4", "--q", ".75", "--sigma-hat", "sd"],
         {"alpha": 0.5, "beta": 1.0, "k": 3.0, "nu": 4.0, "q": 0.75, "sigma_hat": "sd"}, {}),
        (["--sigma", ".4", "--leaf-mean", ".1", "--leaf-var", ".2", "--threshold", "midpoint", "--no-scale"],
         {"sigma": 0.4, "leaf_mean": 0.1, "leaf_var": 0.2, "threshold": "midpoint", "scale": False}, {}),
        (["--cuts", "grid", "--n-cuts", "5", "--dim-weights", "1,0,2", "--noise-shape", "full", "--sigma-hat", ".3"],
         {"cuts": "grid", "n_cuts": 5, "dim_weights": (1, 0, 2), "noise_shape": "full", "sigma_hat": 0.3}, {}),
        (["--sampler", "pg(n_particles=3) + joint(every=2)", "--thin", "2", "--init", "overgrown", "--init-leaves", "3",
          "--tree-order", "random", "--n-jobs", "2", "--n-threads", "2", "--no-trees", "--quiet"], {},
         {"sampler": "pg(n_particles=3) + joint(every=2)", "thin": 2, "init": "overgrown", "init_leaves": 3,
          "tree_order": "random", "keep_trees": False}),
        (["--n-rungs", "3", "--t-min", ".3", "--swap-every", "2", "--init", "prior,empty"], {},
         {"ladder": bart.Ladder(n_rungs=3, t_min=0.3, every=2), "init": ["prior", "empty"]}),
        (["--sampler", "auto"], {}, {"sampler": "auto"}),
    ],
    ids=["priors", "fixed", "cuts", "sampler", "ladder", "auto"],
)  # fmt: skip
def test_every_flag_does_what_its_argument_does(data, tmp_path, flags, model, options):
    out = str(tmp_path / "out.npz")
    assert main(["fit", data, "--target", "target", *RUN, "--out", out, *flags]) == 0
    X, y = make_data()
    options = {"sampler": "growprune", **OPTIONS, **options}
    found, expected = bart.load(out), bart.sample(bart.Model(X, y, **{"n_trees": 4, **model}), **options)
    assert_same(found, expected)
    assert found.header["priors"] == expected.header["priors"] and found.ladder == expected.ladder


def test_columns_may_be_chosen_and_left_out(data, tmp_path):
    X, y = make_data()
    two = bart.sample(bart.Model(X[:, [2, 0]], y, n_trees=4), "growprune", **OPTIONS)
    out = str(tmp_path / "out.npz")
    assert main(["fit", data, "--target", "target", *RUN, "--out", out, "--columns", "c,a"]) == 0
    assert_same(bart.load(out), two)
    text = open(data).read().splitlines()
    odd = [text[0] + ",id", *(f"{line},row {i}" for i, line in enumerate(text[1:]))]
    (tmp_path / "odd.csv").write_text("\n".join(odd).replace(",", ";"))
    args = ["fit", str(tmp_path / "odd.csv"), "--target", "target", *RUN, "--out", out, "--delimiter", ";"]
    assert main([*args, "--exclude", "id"]) == 0
    assert_same(bart.load(out), bart.sample(bart.Model(X, y, n_trees=4), "growprune", **OPTIONS))


def test_weights_are_a_column(tmp_path, capsys):
    X, y = make_data()
    weights = np.exp(np.linspace(-1, 1, len(y)))
    path = write(tmp_path / "data.csv", ["a", "w", "b", "c", "y"], np.column_stack([X[:, 0], weights, X[:, 1:], y]))
    out = str(tmp_path / "out.npz")
    fit = ["fit", path, "--target", "y", *RUN, "--out", out]
    assert main([*fit, "--weights", "w"]) == 0
    assert_same(bart.load(out), bart.sample(bart.Model(X, y, n_trees=4, weights=weights), "growprune", **OPTIONS))
    assert bart.load(out).header["column_names"] == ("a", "b", "c")
    assert main([*fit, "--weights", "w", "--columns", "c,a"]) == 0
    two = bart.Model(X[:, [2, 0]], y, n_trees=4, weights=weights)
    assert_same(bart.load(out), bart.sample(two, "growprune", **OPTIONS))
    capsys.readouterr()
    for flags, code, message in ((["--weights", "w", "--columns", "a,w"], 2, "--columns names the weights 'w'"),
                                 (["--weights", "w", "--exclude", "w"], 2, "--exclude names the weights 'w'"),
                                 (["--weights", "y"], 2, "--weights names the target 'y'"),
                                 (["--weights", "v"], 1, "no column 'v', the weights"),
                                 (["--weights", "a", "--columns", "b"], 0, ""),
                                 (["--weights", "w", "--outcome", "probit"], 2, "--weights are for outcome=")):
        assert main([*fit, *flags]) == code
        assert message in capsys.readouterr().err
    bad = write(tmp_path / "bad.csv", ["a", "w", "y"], np.column_stack([X[:, 0], -weights, y]))
    assert main(["fit", bad, "--target", "y", *RUN, "--out", out, "--weights", "w"]) == 1
    assert said(capsys).startswith(f"{bad}: row 1, column 'w': -0.367")


def test_a_cell_that_cannot_be_meant_is_named_by_row_and_column(tmp_path, capsys, monkeypatch):
    """As one that is no number is, whatever the column is for; even where the file has the name of an argument."""
    monkeypatch.chdir(tmp_path)
    X, y = make_data()
    table = np.column_stack([X[:, :2], np.ones(len(y)), y])
    run, names = ["--out", "run.npz"], ["a", "w", "o", "y"]
    table[:, 1] += 1.0
    good = write(tmp_path / "good.csv", names, table)
    assert main(["fit", good, "--target", "y", *RUN, *run, "--offset-column", "o"]) == 0
    capsys.readouterr()
    table[4, 1], table[2, 2], table[2, 3] = 0.0, 1e308, -1e308
    write("k.csv", names, table)
    fit = ["fit", "k.csv", "--target", "y", *RUN, *run]
    predict = ["predict", "run.npz", "k.csv", "--offset-column", "o", "--kind", "outcome", "--interval", ".9"]
    for args, place in (
        ([*fit, "--weights", "w"], "row 5, column 'w': 0.0 is not positive"),
        ([*fit, "--offset-column", "o"], "row 3, column 'y': y less its offset overflows"),
        ([*fit[:1], good, *fit[2:], "--outcome", "probit"], "row 1, column 'y': y must be 0 or 1"),
        ([*predict, "--weights", "w"], "row 5, column 'w': 0.0 is not positive"),
    ):
        assert main(args) == 1
        assert said(capsys).startswith(f"{args[1 if args[0] == 'fit' else 2]}: {place}")


def test_weights_of_new_rows_are_a_column(tmp_path, capsys):
    X, y = make_data()
    w = np.exp(np.linspace(-1, 1, len(y)))
    out, offset = str(tmp_path / "run.npz"), X[:, 0] - 0.5
    path = write(tmp_path / "data.csv", ["a", "w", "o", "b", "y"], np.column_stack([X[:, 0], w, offset, X[:, 1], y]))
    fit = ["fit", path, "--target", "y", *RUN, "--out", out, "--weights", "w", "--offset-column", "o", "--k", "chi",
           "--dim-weights", "dirichlet"]  # fmt: skip
    assert main(fit) == 0
    model = bart.Model(X[:, :2], y, n_trees=4, weights=w, offset=offset, k=bart.ChiK(), dim_weights="dirichlet")
    post = bart.load(out)
    assert_same(post, bart.sample(model, "growprune", **OPTIONS))
    capsys.readouterr()
    assert main(["diagnose", out, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["weighted"] and facts["row_offset"] and facts["priors"]["ChiK"] == {"degrees": 1.25, "scale": 2.0}
    assert facts["priors"]["TreePrior"]["dim_weights"]["theta"] is None
    predict = ["predict", out, path, "--offset-column", "o", "--interval", ".9", "--json"]
    assert main([*predict, "--kind", "outcome", "--weights", "w"]) == 0
    columns = json.loads(capsys.readouterr().out)["columns"]
    expected = post.predict(X[:, :2], interval=0.9, kind="outcome", offset=offset, weights=w)
    np.testing.assert_array_equal([columns["lower"], columns["upper"]], expected.interval)
    for flags, code, message in ((["--weights", "w"], 2, "--weights has no effect without --kind outcome"),
                                 (["--kind", "outcome", "--weights", "o"], 2, "--weights names the offset 'o'"),
                                 (["--kind", "outcome", "--weights", "v"], 1, "no column 'v'")):
        assert main([*predict, *flags]) == code
        assert message in said(capsys)


def test_fit_as_json(data, tmp_path, capsys):
    out = str(tmp_path / "out.npz")
    assert main(["fit", data, "--target", "target", *RUN, "--out", out, "--json"]) == 0
    printed, err = capsys.readouterr()
    found, post = json.loads(printed), bart.load(out)
    assert found["seed"] == 3 and found["n_draws"] == 7 and found["sampler"] == "growprune" and found["out"] == out
    assert found["columns"] == ["a", "b", "c"] and found["stopped"] is None
    assert (found["outcome"], found["weighted"], found["row_offset"]) == ("gaussian", False, False)
    assert found["version"] == bart.__version__ == post.header["version"]
    assert list(found["priors"]) == ["TreePrior", "LeafPrior", "NoisePrior"]
    assert found["priors"]["TreePrior"]["alpha"] == 0.95 and found["priors"]["TreePrior"]["dim_weights"] is None
    assert found["summary"]["sigma"]["mean"] == post.summary()["sigma"]["mean"]
    assert [warning for warning in found["warnings"] if "not converged" in warning]
    assert len(err.splitlines()) == 1 and "warning: not converged" in err


def test_predictions_are_the_posteriors(run, data, tmp_path, capsys):
    post, X = bart.load(run), make_data()[0]
    shuffled = write(tmp_path / "new.csv", ["c", "x", "b", "a"], np.column_stack([X[:, 2], X[:, 0], X[:, 1], X[:, 0]]))
    out = tmp_path / "pred.csv"
    args = ["predict", run, shuffled, "--interval", ".9", "--quantiles", ".25,.5", "--out", str(out)]
    assert main(args) == 0
    assert capsys.readouterr().err == "columns that the run does not use: x\n"
    rows = list(csv.reader(out.open()))
    assert rows[0] == ["mean", "lower", "upper", "q0.25", "q0.5"]
    found = np.array(rows[1:], dtype=float)
    whole = post.predict(X, quantiles=[0.25, 0.5], interval=0.9)
    np.testing.assert_array_equal(found[:, 0], whole.mean)          # to the last bit
    np.testing.assert_array_equal(found[:, 1:3].T, whole.interval)
    np.testing.assert_array_equal(found[:, 3:].T, whole.quantiles)
    assert main([*args, "--kind", "outcome"]) == 0
    wide = post.predict(X, quantiles=[0.25, 0.5], interval=0.9, kind="outcome")
    found = np.array(list(csv.reader(out.open()))[1:], dtype=float)
    np.testing.assert_array_equal(found.T, np.vstack([wide.mean, wide.interval, wide.quantiles]))
    capsys.readouterr()
    assert main(["predict", run, shuffled, "--quantiles", ".1234567,.12345674"]) == 0     # alike in six digits
    assert capsys.readouterr().out.startswith("mean,q0.1234567,q0.12345674\n")
    assert main(["predict", run, shuffled, "--every", "2"]) == 0
    mean = [float(row[0]) for row in csv.reader(capsys.readouterr().out.splitlines()[1:])]
    np.testing.assert_array_equal(mean, post.predict(X, every=2))
    assert main(["predict", run, shuffled, "--interval", ".9", "--json", "--n-threads", "2"]) == 0
    columns = json.loads(capsys.readouterr().out)["columns"]
    np.testing.assert_array_equal(columns["upper"], whole.interval[1])


def test_a_run_without_names_predicts_by_position(tmp_path, capsys):
    X, y = make_data()
    post = bart.sample(bart.Model(X, y, n_trees=3), "growprune", **OPTIONS)
    post.save(tmp_path / "run.npz")
    new = write(tmp_path / "new.csv", ["u", "v", "w"], X)
    assert main(["predict", str(tmp_path / "run.npz"), new]) == 0
    out = capsys.readouterr().out.splitlines()
    np.testing.assert_array_equal([float(line) for line in out[1:]], post.predict(X))
    wide = write(tmp_path / "wide.csv", ["u", "v", "w", "x"], np.column_stack([X, y]))
    assert main(["predict", str(tmp_path / "run.npz"), wide, "--exclude", "x"]) == 0
    assert capsys.readouterr().out.splitlines() == out
    assert main(["predict", str(tmp_path / "run.npz"), wide]) == 1
    assert "has 4 columns" in said(capsys)


def test_diagnose(run, capsys):
    assert main(["diagnose", run]) == 0
    out = capsys.readouterr().out
    assert str(bart.load(run).summary()) in out and "not converged: " in out and "seed 3" in out
    assert main(["diagnose", run, "--strict", "--json", "--names", "sigma"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["converged"] and list(found["summary"]) == ["sigma"] and "ESS" in " ".join(found["trouble"])
    assert main(["diagnose", run, "--strict", "--names", "sigma", "--r-hat", "99", "--ess", "1e-3"]) == 0
    assert "R-hat <= 99" in capsys.readouterr().out


def test_json_of_an_older_file_has_null_for_what_it_does_not_tell(capsys):
    file = Path(__file__).parent / "files" / "posterior-3.npz"
    assert main(["diagnose", str(file), "--json", "--names", "sigma"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["version"] is None and found["priors"] is None and found["outcome"] == "gaussian"


def test_json_has_no_nan(data, tmp_path, capsys):
    out = str(tmp_path / "out.npz")
    few = [*RUN, "--n-chains", "1", "--n-draws", "2", "--sigma", ".5"]
    assert main(["fit", data, "--target", "target", *few, "--out", out, "--json"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert found["summary"]["sigma"]["r_hat"] is None
    assert any("one chain" in warning for warning in found["warnings"])


def test_json_has_what_the_ladder_did(data, tmp_path, capsys):
    out = str(tmp_path / "out.npz")
    ladder = ["--n-rungs", "3", "--t-min", ".5", "--n-draws", "20"]
    assert main(["fit", data, "--target", "target", *RUN, *ladder, "--out", out, "--json"]) == 0
    fitted, post = json.loads(capsys.readouterr().out), bart.load(out)
    assert main(["diagnose", out, "--json"]) == 0
    for found in (fitted, json.loads(capsys.readouterr().out)):
        for name in ("temperatures", "swap_rates", "round_trips"):
            np.testing.assert_array_equal(found[name], getattr(post, name))
    assert main(["fit", data, "--target", "target", *RUN, "--out", out, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["swap_rates"] is None


def test_checkpoints_are_resumed(data, tmp_path, capsys):
    out, folder = str(tmp_path / "out.npz"), str(tmp_path / "run")
    assert main(["fit", data, "--target", "target", *RUN, "--out", out, "--checkpoint", folder]) == 0
    assert main(["resume", folder, "--out", out, "--n-draws", "12", "--n-jobs", "2", "--quiet"]) == 0
    X, y = make_data()
    assert_same(bart.load(out), bart.sample(bart.Model(X, y, n_trees=4), "growprune", **{**OPTIONS, "n_draws": 12}))
    capsys.readouterr()
    assert main(["fit", data, "--target", "target", *RUN, "--out", out, "--checkpoint", folder, "--alpha", ".5"]) == 1
    assert "other model" in said(capsys)
    assert main(["resume", str(tmp_path / "none"), "--out", out]) == 1
    assert "no checkpointed run" in said(capsys)


def test_runs_end_by_targets_and_time(data, tmp_path, capsys):
    out = str(tmp_path / "out.npz")
    fit = ["fit", data, "--target", "target", *RUN, "--out", out, "--sampler", "local", "--n-draws", "2000"]
    targets = ["--stop-r-hat", "1.2", "--stop-ess", "50", "--stop-names", "sigma"]
    assert main([*fit, *targets]) == 0
    assert "ended by stop_when" in capsys.readouterr().out and bart.load(out).n_draws < 2000
    assert main([*fit, "--n-draws", "100000000", "--no-trees", "--time-limit", ".8"]) == 0
    assert bart.load(out).stopped == "time_limit"


# Errors: wrong usage is 2, a failure 1


@pytest.mark.parametrize(
    ("args", "word"),
    [
        ([], "COMMAND"), (["fi"], "invalid choice"), (["fit"], "--target"), (["fit", "DATA", "--out", "x"], "--target"),
        (["fit", "DATA", "--target", "target"], "--out"), (["FIT", "--alpha", "x"], "--alpha"),
        (["FIT", "--alpha", "1"], "--alpha must be"), (["FIT", "--n-trees", "0"], "--n-trees must be"),
        (["FIT", "--sampler", "nuts"], "--sampler 'nuts'"), (["FIT", "--init", "nowhere"], "--init must be"),
        (["FIT", "--sigma-hat", "mad"], "--sigma-hat"), (["FIT", "--k", "3", "--leaf-var", "1"], "--k=3.0 has no"),
        (["FIT", "--t-min", "2"], "--t-min must be"),
        (["FIT", "--swap-every", "0"], "--swap-every must be"), (["FIT", "--dim-weights", "1,x"], "--dim-weights"),
        (["FIT", "--stop-names", "sigma"], "--stop-names"), (["FIT", "--time-limit", "-1"], "--time-limit must be"),
        (["FIT", "--stop-ess", "-3"], "--stop-ess"), (["FIT", "--stop-r-hat", "2", "--n-chains", "1"], "--stop-r-hat"),
        (["FIT", "--n-jobs", "0"], "--n-jobs must be"), (["FIT", "--seed", "-1"], "--seed must be"),
        (["FIT", "--delimiter", ",,"], "--delimiter"), (["FIT", "--columns", "a,target"], "--columns names"),
        (["FIT", "--exclude", "target"], "--exclude names the target"), (["FIT", "--out", "/no/such/x.npz"], "--out"),
        (["FIT", "--n-tree", "3"], "unrecognized"), (["predict", "RUN", "DATA", "--interval", "2"], "--interval must"),
        (["predict", "RUN", "DATA", "--quantiles", "2"], "--quantiles[0] must be"),
        (["predict", "RUN", "DATA", "--kind", "outcome"], "--kind outcome has no effect"),
        (["predict", "RUN", "DATA", "--every", "0"], "--every must"), (["diagnose", "RUN", "--names", "mu"], "--names"),
        (["predict", "RUN", "DATA", "--n-threads", "0"], "--n-threads must be"),
        (["predict", "RUN", "DATA", "--quantiles", ".5,.1,.50"], "--quantiles has a level twice"),
        (["FIT", "--checkpoint-every", "5"], "--checkpoint-every has no effect without --checkpoint"),
        (["diagnose", "RUN", "--ess", "nan"], "--ess must be finite and > 0"),
        (["diagnose", "RUN", "--r-hat", "-3"], "--r-hat must be finite and > 1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_wrong_usage_is_one_line_and_2(run, data, tmp_path, capsys, args, word):
    fit = ["fit", data, "--target", "target", *RUN, "--out", str(tmp_path / "out.npz")]
    args = [part for arg in args for part in {"FIT": fit, "DATA": [data], "RUN": [run]}.get(arg, [arg])]
    assert main(args) == 2
    assert word in said(capsys)
    assert not (tmp_path / "out.npz").exists()


def test_out_is_no_file_that_is_read_or_continued(run, data, tmp_path, capsys):
    folder, link = tmp_path / "run", tmp_path / "link.csv"
    fit = ["fit", data, "--target", "target", *RUN]
    assert main([*fit, "--out", run, "--checkpoint", str(folder)]) == 0
    capsys.readouterr()
    os.link(data, link)
    (tmp_path / "other").symlink_to(folder)
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for args, out, word in (
        (fit, data, "that is read"), (fit, link, "that is read"), (["predict", run, data], run, "that is read"),
        (["predict", run, data], data, "that is read"), (["resume", str(folder)], folder / "run.npz", "checkpoint"),
        (["resume", str(folder)], tmp_path / "other" / "new.npz", "checkpoint"),
        ([*fit, "--checkpoint", str(folder)], folder / "run.npz", "checkpoint"),
        ([*fit, "--checkpoint", str(tmp_path / "new")], tmp_path / "new", "checkpoint"),
    ):  # fmt: skip
        assert main([*args, "--out", str(out)]) == 2
        assert word in said(capsys)
    assert files == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert main(["resume", str(folder), "--out", str(tmp_path / "run-2.npz")]) == 0     # beside it


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "header row, is empty"), ("a,b,y\n", "no rows"), ("1,2,3\n4,5,6\n", "must be a header row"),
        ("a,a,y\n1,2,3\n", "two columns named 'a'"), ("a,,y\n1,2,3\n", "column 2 of the header has no name"),
        ("a,b,y\n1,2,3\n4,x,6\n", "row 2 (line 3), column 'b': 'x' is not a finite number"),
        ("a,b,y\n1,2,3\n\n4,,6\n", "row 2 (line 4), column 'b': the cell is empty"),
        ("a,b,y\n1,nan,3\n", "row 1 (line 2), column 'b': 'nan'"), ("a,b,y\n1,2,inf\n", "column 'y': 'inf'"),
        ("a,b,y\n1,1_0,3\n", "column 'b': '1_0'"), ("a,b,y\n1,9007199254740993,3\n", "beyond 2^53"),
        ("a,b,y\n1,2,3\n4,5\n", "row 2 (line 3) has 2 cells, the header has 3"), ("a,b,z\n1,2,3\n", "no column 'y'"),
        ("y\n1\n2\n", "no column beside the target"), ("a,y\n1,5\n2,5\n", "y is constant"),
        (b"a,y\n\xff\xfe,2\n", "UTF-8"), ('a,y\n"1\n', "row 1"),
    ],
)  # fmt: skip
def test_a_bad_table_is_one_line_and_1(tmp_path, capsys, text, word):
    path = tmp_path / "data.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert main(["fit", str(path), "--target", "y", *RUN, "--out", str(tmp_path / "out.npz")]) == 1
    assert word in said(capsys)


def test_other_failures_are_one_line_and_1(run, data, tmp_path, capsys):
    for args, word in [
        (["predict", run, str(tmp_path / "none.csv")], "No such file"),
        (["predict", str(tmp_path / "none.npz"), data], "none.npz: No such file or directory"),
        (["predict", data, data], "not a file written by this package"),
        (["diagnose", data], "not a file written by this package"),
        (["fit", str(tmp_path), "--target", "y", "--out", str(tmp_path / "o.npz")], "Is a directory"),
    ]:
        assert main(args) == 1
        assert word in said(capsys)
    write_record(tmp_path / "none.npz", {"format": "bart posterior 3", "header": {}, "forests": None})
    assert main(["diagnose", str(tmp_path / "none.npz")]) == 1
    assert "none.npz' is not a saved run" in said(capsys)
    lacking = write(tmp_path / "new.csv", ["a", "b"], make_data()[0][:, :2])
    assert main(["predict", run, lacking]) == 1
    assert "no column 'c'" in said(capsys)
    out = str(tmp_path / "out.npz")
    assert main(["fit", data, "--target", "target", *RUN, "--out", out, "--no-trees"]) == 0
    capsys.readouterr()
    assert main(["predict", out, data, "--exclude", "target"]) == 1
    assert "stored no trees" in capsys.readouterr().err


def test_without_arviz_fit_says_what_it_lacks(data, tmp_path, capsys, monkeypatch, run):
    monkeypatch.setitem(sys.modules, "arviz", None)
    assert main(["fit", data, "--target", "target", *RUN, "--out", str(tmp_path / "out.npz")]) == 0
    assert "no convergence figures" in capsys.readouterr().err
    assert main(["diagnose", run]) == 1
    assert "pgbart[diagnostics]" in said(capsys)


def test_an_interrupt_is_one_line_and_130(data, tmp_path, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("bart.cli.sample", interrupted)
    assert main(["fit", data, "--target", "target", *RUN, "--out", str(tmp_path / "out.npz")]) == 130
    assert said(capsys) == "interrupted"


# As a program


def test_as_a_module_with_stdin_and_a_closed_pipe(data, tmp_path):
    program = [sys.executable, "-m", "bart"]
    options = {"env": child_environment(), "text": True, "capture_output": True}
    out = str(tmp_path / "run.npz")
    fit = subprocess.run([*program, "fit", "-", "--target", "target", *RUN, "--out", out], stdin=open(data), **options)
    assert fit.returncode == 0 and "2 chains of 7 draws" in fit.stdout, fit.stderr
    assert "python -m bart: warning" in fit.stderr
    wrong = subprocess.run([*program, "fit", data], **options)
    assert wrong.returncode == 2 and len(wrong.stderr.splitlines()) == 1 and wrong.stdout == ""
    rows = tmp_path / "many.csv"
    rows.write_text("a,b,c\n" + "0.5,0.5,0.5\n" * 20_000)
    environment = options["env"]
    shell = f"'{sys.executable}' -m bart predict '{out}' '{rows}' | head -n 1"
    piped = subprocess.run(["sh", "-c", shell], env=environment, text=True, capture_output=True)
    assert piped.stdout == "mean\n" and piped.stderr == ""


def test_help_lists_what_replaces_the_options_of_the_authors_scripts(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["fit", "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    for theirs, ours in AUTHORS_FLAGS:
        assert theirs in text and ours in text
    flags = {word.strip(",;'") for _, ours in AUTHORS_FLAGS for word in ours.split() if word.startswith("--")}
    assert all(flag in text.split("options of the scripts")[0] for flag in flags)
    texts = " ".join(ours for _, ours in AUTHORS_FLAGS).replace("=C", "=7").replace("=S", "=.5")
    samplers = re.findall(r"'(.*?)'", texts)
    assert len(samplers) == 4 and all(bart.parse_sampler(sampler) for sampler in samplers)
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0 and bart.__version__ in capsys.readouterr().out


def test_every_argument_has_a_flag():
    """Of Model and sample, but for what README names as without one, and what the commands give themselves."""
    import inspect

    assert set(inspect.signature(bart.Model).parameters) - {"X", "y"} == set(_MODEL)
    without = {"keep_burn_trees", "callback", "callback_every", "checkpoint_sweeps"}
    elsewhere = {"model", "sampler", "ladder", "stop_when", "progress"}
    assert set(inspect.signature(bart.sample).parameters) - elsewhere - without == set(_SAMPLE)
    text = (Path(__file__).parent.parent / "README.md").read_text()
    said = text.split("have flags (`fit --help`), but for")[1].split(";")[0]
    assert set(re.findall("`(.*?)`", said)) == without


def test_a_probit_run_predicts_probabilities(tmp_path, capsys):
    X = make_data()[0]
    table = write(tmp_path / "two.csv", ["a", "b", "c", "y"], np.column_stack([X, X[:, 0] > np.median(X[:, 0])]))
    run = str(tmp_path / "two.npz")
    assert main(["fit", table, "--target", "y", "--outcome", "probit", *RUN, "--out", run]) == 0
    capsys.readouterr()
    post = bart.load(run)
    for kind, found in ((None, post.predict_proba(X, interval=0.5)), ("mean", post.predict(X, interval=0.5))):
        options = [] if kind is None else ["--kind", kind]
        assert main(["predict", run, table, "--interval", ".5", *options]) == 0
        printed = np.array(list(csv.reader(capsys.readouterr().out.splitlines()))[1:], dtype=float)
        np.testing.assert_array_equal(printed.T, np.vstack([found.mean, found.interval]))
    assert main(["predict", run, table, "--interval", ".5", "--kind", "outcome"]) != 0
    assert "Gaussian" in capsys.readouterr().err
