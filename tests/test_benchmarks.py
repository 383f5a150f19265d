"""The benchmarks' command lines: they start, and say what they take."""

import subprocess
import sys
from pathlib import Path

import pytest
from chain_helpers import child_environment

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
