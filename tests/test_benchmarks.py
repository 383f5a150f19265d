"""The benchmarks' command lines: they start, and say what they take."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from bart.kernels.testing_rows import RowLoops
from chain_helpers import child_environment

from benchmarks import kernels, sweeps

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = sorted(
    path.stem for path in (ROOT / "benchmarks").glob("*.py") if "ArgumentParser(" in path.read_text()
)


def test_the_scripts_that_the_readme_names_exist():
    assert {"sweeps", "peers", "kernels", "threads"} <= set(SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_help(name):
    environment = child_environment()
    environment["PYTHONPATH"] += f":{ROOT}"
    command = [sys.executable, "-m", f"benchmarks.{name}", "--help"]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert run.returncode == 0, run.stderr
    assert "usage" in run.stdout


def test_every_loop_is_timed_but_the_one_that_predicts():
    table = (ROOT / "bart/kernels/rowops.pxd").read_text()
    loops = set(re.findall(r"\(\*(\w+)\)\(", table))
    assert all(hasattr(RowLoops, loop) for loop in loops)
    cases = kernels.all_cases(200)
    assert {case.loop for case in cases} == loops - {"add_tree"}
    for case in cases:
        case.run(RowLoops("baseline"))


def test_targets():
    named = {name: sweeps.target_of(name, 10) for name in (
        "GrowPrune", "CGM", "PG C=10", "growprune", "local", "local(subset=1)", "local(subset=99)",
        "pg(n_particles=10, region=subtree)", "pg(n_particles=20)", "growprune + perturb")}
    assert named == {
        "GrowPrune": 8, "CGM": 12, "PG C=10": 40, "growprune": 8, "local": 13, "local(subset=1)": 8.5,
        "local(subset=99)": 13, "pg(n_particles=10, region=subtree)": 25, "pg(n_particles=20)": None,
        "growprune + perturb": None}
