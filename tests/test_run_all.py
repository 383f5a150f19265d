"""The driver of the experiments and the scripts of the items, in the smallest profile."""

import ast
import csv
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from chain_helpers import child_environment

import bart
from experiments import (
    chains,
    command,
    hypercube,
    real,
    real_data,
    report,
    run_all,
    runner,
    store,
    table_4,
)
from experiments.settings import AUTHORS, PAPER, PROFILES

ROOT = Path(__file__).resolve().parent.parent
TINY = PROFILES["tiny"]
TABLES = ("table_1", "table_2", "table_3", "table_4", "table_5", "claims", "stuck", "ablations", "authors_runs")
FIGURES = ("figure_1", "figure_2", "figure_3", "figure_s1", "figure_s2", "figure_stuck")


def run_driver(*arguments, data=None):
    environment = child_environment()
    environment.pop("PGBART_DATA", None)
    environment["XDG_CACHE_HOME"] = os.path.join(tempfile.gettempdir(), "pgbart-tests-without-downloads")
    if data is not None:
        environment["PGBART_DATA"] = str(data)
    environment["PYTHONPATH"] += f":{ROOT}"
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", *map(str, arguments)],
        capture_output=True, text=True, env=environment, check=False, cwd=ROOT,
    )  # fmt: skip


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory):
    """Everything in the smallest profile, on the embedded data."""
    for package in ("sklearn", "arviz", "matplotlib"):
        pytest.importorskip(package)
    folder = tmp_path_factory.mktemp("tiny")
    command_line = (
        "experiments.run_all", "--tiny", "--no-progress", "--out", folder / "figures", "--store", folder / "runs"
    )  # fmt: skip
    run = run_driver(*command_line)
    assert run.returncode == 0, run.stderr
    return folder, run.stdout, command_line


def test_the_driver_prints_every_item(tiny_run):
    _, text, _ = tiny_run
    titles = [f"Table {number}." for number in range(1, 6)] + [f"Figure {number}." for number in (1, 2, 3)]
    titles += [f"Supplement, figure {number}." for number in (1, 2)] + [f"Ablation {number}." for number in range(1, 5)]
    titles += ["Claim:", "Stuck chains.", "The authors' scripts", "not converged", "Wall time", "data not available"]
    for title in titles:
        assert title in text, title
    words = " ".join(text.split())
    for key, definition in report.DEFINITIONS.items():
        assert " ".join(definition.split())[:60] in words, key
    assert re.search(r"D = 2 +CGM +752", text)
    assert re.search(r"CaliforniaHouses +PG +76\.8 +- +- +data not available", text)
    # Widths vary with the times in the tables.
    assert max(len(line) for line in text.splitlines() if not line.startswith("Files")) <= 150


def test_the_driver_writes_every_file(tiny_run):
    folder, text, _ = tiny_run
    names = {path.name for path in (folder / "figures").iterdir()}
    expected = {f"{stem}.{end}" for stem in TABLES for end in ("txt", "csv", "json")}
    expected |= {"table_1_chains.csv", "table_4_chains.csv"}
    assert names == expected | {f"{stem}.{end}" for stem in FIGURES for end in ("txt", "png", "json")}
    for stem in TABLES:
        assert (folder / "figures" / f"{stem}.txt").read_text().strip() in text
        record = json.loads((folder / "figures" / f"{stem}.json").read_text())
        origin = record["provenance"]
        assert origin["profile"]["name"] == "tiny"
        assert all(part["cpu"] and part["kernels"] == chains.kernels_hash() for part in origin["chains"])
        with open(folder / "figures" / f"{stem}.csv", newline="") as file:
            assert len(list(csv.DictReader(file))) == len(record["table"])
    for stem in FIGURES:
        assert (folder / "figures" / f"{stem}.png").read_bytes().startswith(b"\x89PNG")


def test_a_second_run_samples_nothing_and_writes_the_same(tiny_run):
    folder, text, command_line = tiny_run
    before = {path.name: path.read_bytes() for path in (folder / "figures").glob("*.[tcp]*")}
    run = run_driver(*command_line)
    assert run.returncode == 0, run.stderr
    assert ", 0 of them to sample" in run.stdout and "Sampled 0 chains" in run.stdout
    assert {path.name: path.read_bytes() for path in (folder / "figures").glob("*.[tcp]*")} == before


def test_a_script_reads_the_store_and_never_samples(tiny_run, tmp_path):
    folder, text, _ = tiny_run
    n_files = len(list((folder / "runs").rglob("*.npz")))
    arguments = ("--tiny", "--out", tmp_path)
    run = run_driver("experiments.table_1", *arguments, "--store", folder / "runs")
    assert run.returncode == 0 and run.stdout.strip() in text
    assert len(list((folder / "runs").rglob("*.npz"))) == n_files
    run = run_driver("experiments.table_1", *arguments, "--store", tmp_path / "empty")
    assert run.returncode == 1 and not (tmp_path / "empty").exists()
    assert re.fullmatch(
        rf"error: 32 of 32 chains are not in {tmp_path}/empty .*: python -m experiments.run_all --only table_1 --tiny"
        rf" --store {tmp_path}/empty\n",
        run.stderr,
    )


def names_in(path):
    """Every name that a module reads, calls or imports."""
    found = set()
    for node in ast.walk(ast.parse(Path(path).read_text())):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {alias.name for alias in node.names}
    return found


def test_no_script_of_an_item_samples():
    assert "run_missing" in names_in(run_all.__file__) and "sample" in names_in(chains.__file__)
    for module in (*run_all.ITEMS.values(), hypercube, real):
        names = names_in(module.__file__)
        assert not names & {"run_missing", "run_chain"}, module.__name__
        if module.__name__ != "experiments.figure_1":
            assert not names & {"sample", "Ensemble", "bart"}, module.__name__


def test_each_item_is_a_script_of_its_own():
    assert [f"table_{number}" for number in range(1, 6)] == [name for name in run_all.ITEMS if name.startswith("table")]
    for name, module in run_all.ITEMS.items():
        assert module.NAME == name and module.__doc__
        assert importlib.import_module(f"experiments.{name}") is module
        ends = Path(module.__file__).read_text()
        assert ends.endswith("if __name__ == \"__main__\":\n    run_script(NAME, specs, make, __doc__)\n")
        assert isinstance(module.specs(PAPER, TINY), list)


def test_the_real_rows_with_the_data_at_hand(data_dir, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    profile = replace(TINY, real_sweeps=4, real_burn=0, real_chains=4)
    kept = store.Store(tmp_path / "runs")
    specs = real.specs(PAPER, profile)
    assert {spec.problem for spec in specs} >= {"CaliforniaHouses", "gas", "pol", "ct_slices_head", "diabetes"}
    runner.run_missing(kept, specs, 2, False)
    text = table_4.make(kept, PAPER, profile, str(tmp_path))
    row = next(line for line in text.splitlines() if re.match("CaliforniaHouses +PG", line))
    assert row.split()[2] == "76.8" and "not available" not in row
    n_missing = sum(not real_data.available(name) for name in real_data.PAPER_SETS)
    assert len(re.findall("data not available", text)) == 3 * n_missing
    assert re.search(r"^gas +CGM +- ", text, re.MULTILINE)


def test_the_authors_settings_run(tmp_path):
    profile = replace(TINY, dims=(2,), n_sweeps=20, n_burn=4)
    kept = store.Store(tmp_path / "runs")
    runner.run_missing(kept, hypercube.specs(AUTHORS, profile), 2, False)
    text = run_all.ITEMS["table_1"].make(kept, AUTHORS, profile, str(tmp_path))
    assert "Settings 'authors'" in text and "label noise sd 0," in " ".join(text.split())


def test_command_lines(tmp_path):
    def parse(*arguments):
        parser = command.argparse.ArgumentParser()
        command.add_options(parser)
        return command.parse(parser, list(arguments))

    options = parse()
    assert options.profile.name == "full" and options.settings is PAPER and options.out == "figures"
    assert Path(options.store.folder) == ROOT / "experiments" / "runs"
    options = parse("--quick", "--settings", "authors", "--out", "x", "--store", str(tmp_path))
    assert options.profile.name == "quick" and options.settings is AUTHORS and options.store.folder == str(tmp_path)
    for bad in (["--quick", "--full"], ["--settings", "mine"]):
        with pytest.raises(SystemExit):
            parse(*bad)
    for bad in (["--jobs", "0"], ["--only", "table_9"]):
        with pytest.raises(SystemExit):
            run_all.main(bad)


def test_one_item_that_fails_does_not_stop_the_others(tmp_path, monkeypatch, capsys):
    def fails(*_):
        raise OSError("no space")

    monkeypatch.setattr(run_all.ITEMS["figure_2"], "make", fails)
    arguments = ["--tiny", "--no-progress", "--only", "figure_1", "figure_2", "table_3"]
    assert run_all.main([*arguments, "--out", str(tmp_path), "--store", str(tmp_path / "runs")]) == 1
    captured = capsys.readouterr()
    assert "Figure 1." in captured.out and "Table 3." in captured.out
    assert "no space" in captured.err and "failed: figure_2" in captured.err


def test_the_package_knows_nothing_of_the_experiments():
    for path in Path(bart.__file__).parent.rglob("*.py"):
        assert "experiments" not in path.read_text(), path


BLOCK = """
import importlib.util, runpy, sys

found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == {name!r} else found(name, *rest)
sys.argv = ["run_all", "--tiny", "--only", "table_1", "--out", {out!r}, "--store", {store!r}]
runpy.run_module("experiments.run_all", run_name="__main__")
"""


@pytest.mark.parametrize("package", ["arviz", "matplotlib"])
def test_a_library_that_is_missing_is_named_before_any_work(tmp_path, package):
    code = BLOCK.format(name=package, out=str(tmp_path / "figures"), store=str(tmp_path / "runs"))
    environment = child_environment()
    environment["PYTHONPATH"] += f":{ROOT}"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False, cwd=ROOT
    )
    assert run.returncode == 1 and run.stderr.splitlines()[-1].startswith("error:")
    assert package in run.stderr and "pip install 'pgbart[all]'" in run.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "data", "text"),
    [
        (["--out", "FILE"], None, "FILE"),
        (["--store", "FILE"], None, "FILE"),
        ([], "FILE", "PGBART_DATA names no folder: FILE"),
        ([], "CUT", "cal_housing.data: expected 20640 rows of 9 numbers, got (2, 9) (is the file cut?)"),
    ],
)
def test_bad_input_is_one_line_before_any_work(tmp_path, arguments, data, text):
    file, cut = tmp_path / "file", tmp_path / "cut"
    file.write_text("")
    (cut / "california_housing").mkdir(parents=True)
    (cut / "california_housing" / "cal_housing.data").write_text("1,2,3,4,5,6,7,8,9\n" * 2)
    places = {"FILE": str(file), "CUT": str(cut)}
    defaults = ["--out", tmp_path / "figures", "--store", tmp_path / "runs"]
    arguments = [places.get(part, part) for part in arguments]
    run = run_driver(
        "experiments.run_all", "--tiny", "--only", "table_4", *defaults, *arguments, data=places.get(data, data)
    )
    assert run.returncode == 1
    assert run.stderr.startswith("error: ") and len(run.stderr.splitlines()) == 1
    assert text.replace("FILE", str(file)) in run.stderr
    assert not (tmp_path / "runs").exists()


def test_a_closed_pipe_loses_no_file(tmp_path):
    environment = child_environment()
    environment["PYTHONPATH"] += f":{ROOT}"
    command_line = f"{sys.executable} -m experiments.run_all --tiny --only figure_2 table_3 --out {tmp_path}/figures"
    subprocess.run(f"{command_line} --store {tmp_path}/runs | head -c 1", shell=True, env=environment, cwd=ROOT)
    assert (tmp_path / "figures" / "table_3.txt").exists() and (tmp_path / "figures" / "figure_2.png").exists()


def test_numbers_that_json_does_not_have(tmp_path):
    report.write_json(tmp_path / "x.json", {"r_hat": [1.0, float("inf")], "se": float("nan"), "n": (1, None, True)})
    assert json.loads((tmp_path / "x.json").read_text()) == {"r_hat": [1.0, "inf"], "se": "nan", "n": [1, None, True]}


def test_no_placeholder_is_left_in_a_readme():
    for path in (ROOT / "README.md", *(ROOT / "experiments").glob("*.md")):
        assert not re.search("@[A-Z]+@", path.read_text()), path
