"""The scripts of the mixing experiments: which runs they take, what their tables show, and what they refuse."""

import json

import numpy as np
import pytest
from test_mixing import PROBLEM, make_record

from experiments import mixing_all, mixing_friedman, mixing_hypercube, mixing_measures, mixing_real, mixing_runs
from experiments.mixing_tables import tables

pytest.importorskip("arviz")

def test_tables_from_the_store(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(mixing_friedman, "PROBLEMS", {PROBLEM: lambda seed: seed})
    arguments = ["--budget", "0.2", "--seeds", "0", "1"]
    arguments += ["--store", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    ours = [*arguments, "--systems", "growprune", "cgm"]
    with pytest.raises(SystemExit, match="no run in"):
        mixing_friedman.main([*ours, "--tables-only"])
    assert mixing_friedman.main(ours) == 0
    text = (tmp_path / "out" / "mixing_friedman.txt").read_text()
    assert text in capsys.readouterr().out
    assert text.count(f"{PROBLEM}  cgm") == 3 and "by the best peer" not in text
    record = json.loads((tmp_path / "out" / "mixing_friedman.json").read_text())
    assert len(record["runs"]) == 4 and record["ratios"] is None
    assert len(record["held_out"][PROBLEM]["cgm"]["log_score"]) == 2
    before = sorted((tmp_path / "runs").rglob("*.npz"))
    assert mixing_friedman.main(ours) == 0 and sorted((tmp_path / "runs").rglob("*.npz")) == before
    monkeypatch.setattr(mixing_all, "PROBLEMS", {PROBLEM: lambda seed: seed})
    assert mixing_all.main([*ours, "--tables-only"]) == 0
    assert (tmp_path / "out" / "mixing_all.txt").read_text() == text
    with pytest.raises(SystemExit, match="sampler"):
        mixing_friedman.main([*arguments, "--systems", "gibbs"])


def test_all_problems_are_those_of_both_scripts():
    assert len(mixing_all.PROBLEMS) == 8
    for one in (mixing_friedman, mixing_real):
        assert one.PROBLEMS.items() <= mixing_all.PROBLEMS.items()


def test_what_the_tables_show(rng):
    one = mixing_measures.measure(make_record(rng), np.zeros(1000))
    found = {(PROBLEM, "growprune"): {0: one}, (PROBLEM, "bartz"): {0: one}}
    made = tables(found, "growprune", 20.0)
    assert made[3].rows[-1] == ["median of 1", "1", *["1"] * 4] and made[3].rows[0][2] == "1 bartz"
    found = {key: {0: one, 1: one} for key in found}
    assert tables(found, "growprune", 20.0)[3].rows[0][1:3] == ["2", "1 (1, 1) bartz"]
    assert all(len(row) == len(table.columns) for table in made for row in table.rows if row)
    # A quantity whose chains disagree is in brackets: the random walk of the log-likelihood, and sigma with it.
    assert made[0].rows[0][2].startswith("(") and not made[0].rows[0][4].startswith("(")
    # What is measured is shown: ESS a second and R-hat, where the chains are, held-out rows.
    assert len(made[0].rows[0][2:-1]) == 2 * len(mixing_measures.RATES) and made[1].rows[0][4:9] == [
        "2.00", "10", "400", "8.0", "1.00"]  # fmt: skip
    assert made[2].rows[0][7:12] == ["-"] * 5 and made[2].rows[1][7] == "+0.0000"


def test_the_hypercube_table(tmp_path):
    out = tmp_path / "out"
    arguments = ["--budget", "0.4", "--dims", "2", "--data-seeds", "0", "--systems", "cgm", "--out", str(out)]
    assert mixing_hypercube.main([*arguments, "--store", str(tmp_path / "runs")]) == 0
    (one,) = json.loads((out / "mixing_hypercube.json").read_text())["runs"]
    assert len(one["gaps"]) == len(one["leaves"]) == 4 and 3.5 < one["reference_leaves"] < 5.0
    assert abs(one["gap"]) < 25.0 and set(one["r_hat"]) == {"log_likelihood", "n_leaves", "f"}
    assert "D = 2" in (out / "mixing_hypercube.txt").read_text()


def hypercube(tmp_path, *more):
    arguments = ["--budget", "0.4", "--dims", "2", "--data-seeds", "0", "--out", str(tmp_path / "out")]
    return mixing_hypercube.main([*arguments, "--store", str(tmp_path / "runs"), *more])


def test_ladders_of_the_hypercubes_are_shown_and_keep_their_own_files(tmp_path, monkeypatch):
    truth = {"level": -100.0, "levels": [-100.0], "leaves": 4.0}
    monkeypatch.setattr(mixing_hypercube, "references", lambda folder, keys, sample: dict.fromkeys(keys, truth))
    ladder = "n_rungs=3, t_min=0.5"
    assert hypercube(tmp_path, "--systems", "cgm") == hypercube(tmp_path, "--systems", "cgm", "--ladder", ladder) == 0
    plain, tempered = (tmp_path / "out" / f"mixing_hypercube{end}" for end in ("", "-n_rungs_3__t_min_0_5"))
    (one,) = json.loads(plain.with_suffix(".json").read_text())["runs"]
    assert one["system"] == "cgm" and "swap_rates" not in one
    assert "adder" not in plain.with_suffix(".txt").read_text()
    (one,) = json.loads(tempered.with_suffix(".json").read_text())["runs"]
    assert one["system"] == f"cgm, ladder({ladder})"
    assert np.shape(one["temperatures"]) == (4, 3) and np.shape(one["swap_rates"]) == (4, 2)
    text = " ".join(tempered.with_suffix(".txt").read_text().split())
    rates = " ".join(f"{rate:.2f}" for rate in np.mean(one["swap_rates"], axis=0))
    assert f"D = 2 cgm, ladder({ladder})" in text and f"swaps {rates}, the lowest" in text


def test_the_hypercubes_tables_run_nothing(tmp_path, monkeypatch):
    with pytest.raises(SystemExit, match="no run in"):
        hypercube(tmp_path, "--systems", "cgm", "--tables-only")
    spec = mixing_hypercube.specs((2,), (0,), ("cgm",), budget=0.4)
    mixing_runs.RunStore(tmp_path / "runs").run_missing(spec, lambda _: None)
    monkeypatch.setattr(mixing_hypercube, "run_missing", pytest.fail)
    with pytest.raises(SystemExit, match="error: no reference chains .*: D = 2, data 0$"):
        hypercube(tmp_path, "--systems", "cgm", "--tables-only")


def test_other_packages_are_refused_on_the_hypercubes(tmp_path):
    with pytest.raises(SystemExit, match="error: bartz: another package"):
        hypercube(tmp_path, "--systems", "growprune", "bartz")
    assert not (tmp_path / "runs").exists()


def test_hypercube_budgets():
    found = mixing_hypercube.specs((5, 7), (0,), ("cgm",))
    assert [spec.budget for spec in found] == [60.0, 300.0]
    found = mixing_hypercube.specs((5, 7), (0, 1), ("cgm",), "quick", ladder="8")
    assert [spec.budget for spec in found] == [6.0, 20.0] * 2 and {spec.ladder for spec in found} == {"8"}
