"""Stored chains of the experiments: keys, what is kept, and runs that are cut, killed, repeated or fail."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chain_helpers import child_environment

import bart
from experiments import chains, problems, runner, store
from experiments.settings import AUTHORS, PAPER

ROOT = Path(__file__).resolve().parent.parent
TRACES = ("log_likelihood", "sigma", "n_leaves", "depth", "tree_changed", "root_changed", "row_visits")


def spec_of(**options):
    spec = chains.ChainSpec("hypercube-2", 1, PAPER, "growprune", "empty", 0, 30, 10)
    return replace(spec, **options)


@pytest.fixture
def some_specs():
    return [spec_of(sampler=sampler, chain=chain) for sampler in ("cgm", "growprune", "pg") for chain in (0, 1)]


# Keys


def test_the_key_depends_on_everything_that_the_draws_depend_on(monkeypatch):
    spec = spec_of()
    others = [
        spec_of(problem="hypercube-3"),
        spec_of(data_seed=2),
        spec_of(settings=AUTHORS),
        spec_of(settings=replace(PAPER, k=3.0)),
        spec_of(sampler="cgm"),
        spec_of(start="prior"),
        spec_of(chain=1),
        spec_of(n_sweeps=31),
        spec_of(n_burn=11),
    ]
    assert len({other.key for other in [spec, *others]}) == len(others) + 1
    assert spec_of(settings=replace(PAPER, name="the same")).key == spec.key
    for_pg = replace(PAPER, n_particles=3, resampling="killing", ess_threshold=0.5, final="forced")
    assert spec_of(settings=for_pg).key == spec.key
    assert spec_of(sampler="pg", settings=for_pg).key != spec_of(sampler="pg").key
    before = spec.key
    monkeypatch.setattr(chains, "kernels_hash", lambda: "other kernels")
    assert spec_of().key != before


def test_the_key_depends_on_the_data(monkeypatch):
    before = spec_of().key
    changed = problems.hypercube(2, 1)
    changed.y_train[0] += 1e-12
    monkeypatch.setattr(chains, "_load", lambda *_: changed)
    chains.data_digest.cache_clear()
    try:
        assert spec_of().key != before
    finally:
        chains.data_digest.cache_clear()


def test_the_hash_of_the_kernels_sees_every_source(tmp_path, monkeypatch):
    folder = tmp_path / "bart"
    for name in ("kernels/splits.pyx", "kernels/lanes.h", "samplers/cgm.py", *chains._SOURCES):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("one")
    monkeypatch.setattr(bart, "__file__", str(folder / "__init__.py"))
    seen = set()
    try:
        changed = ("kernels/splits.pyx", "kernels/lanes.h", "samplers/cgm.py", *chains._SOURCES)
        for name in (None, *changed):
            if name:
                (folder / name).write_text("two")
            chains.kernels_hash.cache_clear()
            seen.add(chains.kernels_hash())
        (folder / "kernels/splits.so").write_text("built")
        chains.kernels_hash.cache_clear()
        assert chains.kernels_hash() in seen and len(seen) == 1 + len(changed)
        os.utime(folder / "kernels/splits.so", (1, 1))
        chains.kernels_hash.cache_clear()
        with pytest.raises(RuntimeError, match="is newer than the kernels.*make build"):
            chains.kernels_hash()
    finally:
        chains.kernels_hash.cache_clear()


def test_the_hash_sees_every_module_that_a_chain_runs():
    """What is run but not hashed is named here: it files, watches and shows, and no draw depends on it."""
    besides = {"checkpoints.py", "executors.py", "progress.py", "stopping.py", "storage.py", "summaries.py"}
    folder, seen = os.path.dirname(bart.__file__), set()

    def see(frame, *_):
        seen.add(frame.f_code.co_filename)

    problem = problems.hypercube(2, 1)
    X, y = problem.X_train, problem.y_train
    size = {"n_burn": 2, "n_draws": 4, "n_chains": 1, "seed": 1, "progress": False, "keep_burn_trees": True}
    sys.setprofile(see)
    try:
        hyper = bart.Model(X, y, n_trees=1, k=bart.ChiK(), dim_weights=bart.Dirichlet())
        for model, options in (
            (bart.Model(X, y, n_trees=1), {"ladder": bart.Ladder(n_rungs=2), "init": "prior"}),
            (bart.Model(X, y, n_trees=1), {"init": [[problems.true_tree(problem)]]}),
            (hyper, {"init": "smc"}),
            (bart.Model(X, y > y.mean(), n_trees=3, outcome="probit"), {"init": "overgrown", "init_leaves": 4}),
        ):
            bart.sample(model, "auto", **size, **options).predict(X, draws=True)
    finally:
        sys.setprofile(None)
    run = {os.path.basename(name) for name in seen if os.path.dirname(name) == folder}
    assert {"tempering.py", "hyperpriors.py", "outcomes.py", "prediction.py"} < run
    assert run - besides <= set(chains._SOURCES)


def test_seeds_of_chains_differ():
    seeds = {tuple(spec_of(chain=chain, start=start).seed) for chain in range(20) for start in ("empty", "smc")}
    assert len(seeds) == 40
    assert all(0 <= number < 2**32 for seed in seeds for number in seed)


# What is kept


@pytest.mark.parametrize("sampler", ["cgm", "pg"])
def test_a_stored_chain_is_what_sample_gives(tmp_path, sampler):
    spec, kept = spec_of(sampler=sampler, start="overgrown"), store.Store(tmp_path)
    runner.run_missing(kept, [spec], 1, False)
    chain = kept.read(spec)
    problem = problems.hypercube(2, 1)
    post = bart.sample(
        PAPER.model(problem), PAPER.sampler(sampler), n_burn=10, n_draws=20, n_chains=1, seed=spec.seed,
        init="overgrown", init_leaves=16, keep_burn_trees=True, progress=False,
    )  # fmt: skip
    for name in TRACES:
        np.testing.assert_array_equal(chain.traces[name], post.sweeps[name][0], err_msg=name)
    assert chain.kept("sigma").shape == (20,)
    draws = post.predict(problem.X_test, draws=True)
    errors = ((draws.draws[0] - problem.y_test) ** 2).mean(axis=1)
    np.testing.assert_allclose(chain.kept("test_mse"), errors, rtol=1e-12)
    np.testing.assert_allclose(chain.test_fit, draws.mean, rtol=1e-12)
    np.testing.assert_array_equal(chain.f, draws.draws[0][:, chains.test_points(problem)].astype(np.float32))
    # The log-likelihood of every sweep, burn-in included, follows from sigma and the training error.
    sigma, n_rows = chain.traces["sigma"], len(problem.y_train)
    terms = -0.5 * n_rows * (np.log(2 * np.pi * sigma**2) + chain.traces["train_mse"] / sigma**2)
    np.testing.assert_allclose(chain.traces["log_likelihood"], terms, rtol=1e-9)


def test_provenance_is_kept(tmp_path):
    spec, kept = spec_of(), store.Store(tmp_path)
    runner.run_missing(kept, [spec], 1, False)
    header = kept.read(spec).header
    assert header["seed"] == spec.seed and header["key"] == spec.key
    assert header["cpu_seconds"] > 0.0 and header["wall_seconds"] > 0.0
    origin = header["provenance"]
    assert origin["versions"]["numpy"] == np.__version__ and origin["cpu"] and origin["commit"] and origin["date"]
    assert origin["kernels"] == chains.kernels_hash()
    assert len(kept.origins) == 1


def test_chains_from_the_truth_and_draws_from_the_prior(tmp_path):
    truth = spec_of(start=chains.TRUTH, sampler="cgm", n_sweeps=300)
    prior = spec_of(start=chains.PRIOR, sampler=chains.PRIOR, n_sweeps=4000, n_burn=0)
    kept = store.Store(tmp_path)
    runner.run_missing(kept, [truth, prior], 1, False)
    assert kept.read(truth).traces["n_leaves"][0] in (3, 4, 5)
    assert kept.read(truth).kept("train_mse").mean() < 0.05 * np.var(truth.load().y_train)
    leaves = kept.read(prior).traces["n_leaves"]
    # Every root can be split: P(1 leaf) = 1 - alpha; bound at 5 standard errors.
    assert abs(np.mean(leaves == 1) - 0.05) < 5 * np.sqrt(0.05 * 0.95 / 4000)


# Missing, damaged, repeated


def test_missing_chains_name_the_command(tmp_path):
    kept = store.Store(tmp_path)
    with pytest.raises(store.MissingChains, match="1 of 1 chains .* run this first"):
        kept.check([spec_of(), spec_of()], "run this first")
    with pytest.raises(store.MissingChains):
        kept.read(spec_of())


def test_a_damaged_file_is_named(tmp_path):
    spec, kept = spec_of(), store.Store(tmp_path)
    runner.run_missing(kept, [spec], 1, False)
    path = Path(kept.path(spec))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=f"{path.name}.*remove it"):
        kept.read(spec)
    assert kept.missing([spec]) == [spec], "a file that was cut is sampled again"
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + bytes(40) + whole[middle + 40 :])
    with pytest.raises(ValueError, match=f"{path.name}.*remove it"):
        kept.read(spec)
    other = spec_of(chain=5)
    path.write_bytes(whole)
    os.replace(path, kept.path(other))
    with pytest.raises(ValueError, match="another chain"):
        kept.read(other)


def test_nothing_is_sampled_twice(tmp_path, some_specs):
    kept = store.Store(tmp_path)
    first = runner.run_missing(kept, some_specs[:4], 2, False)
    again = runner.run_missing(kept, [*some_specs, some_specs[0]], 2, False)
    assert (first["n_sampled"], first["n_stored"]) == (4, 0)
    assert (again["n_sampled"], again["n_stored"]) == (2, 4)
    finished = [line["chain"] for line in log_of(tmp_path) if line["event"] == "finished"]
    assert len(finished) == len(set(finished)) == 6


def log_of(folder):
    return [json.loads(line) for line in (Path(folder) / "log.jsonl").read_text().splitlines()]


def test_equal_settings_of_other_names_share_a_chain(tmp_path):
    kept = store.Store(tmp_path)
    twice = [spec_of(), spec_of(settings=replace(PAPER, name="again"))]
    assert runner.run_missing(kept, twice, 1, False)["n_sampled"] == 1
    assert len(kept.read_all(twice)) == 2


def test_the_number_of_processes_changes_no_draw(tmp_path, some_specs):
    alone, together = store.Store(tmp_path / "1"), store.Store(tmp_path / "2")
    runner.run_missing(alone, some_specs, 1, False)
    runner.run_missing(together, some_specs, 2, False)
    assert_same_draws(alone, together, some_specs)


def assert_same_draws(first, second, specs):
    for spec in specs:
        one, other = first.read(spec), second.read(spec)
        for name in (*TRACES, "train_mse", "test_mse"):
            np.testing.assert_array_equal(one.traces[name], other.traces[name])
        np.testing.assert_array_equal(one.f, other.f)
        np.testing.assert_array_equal(one.train_fit, other.train_fit)


def test_a_chain_that_fails_is_named_and_the_others_stay(tmp_path):
    kept = store.Store(tmp_path)
    good, bad = spec_of(n_sweeps=60), spec_of(start="nowhere")
    with pytest.raises(RuntimeError, match="nowhere"):
        runner.run_missing(kept, [good, bad], 1, False)
    assert runner.run_missing(kept, [good], 1, False)["n_sampled"] == 0, "the longer one came first"


def dies(*_):
    os._exit(3)


def test_a_worker_that_dies_is_said_in_words(tmp_path, monkeypatch, some_specs):
    monkeypatch.setattr(runner, "run_chain", dies)
    with pytest.raises(RuntimeError, match="a worker process was killed"):
        runner.run_missing(store.Store(tmp_path), some_specs, 2, False)
    monkeypatch.undo()
    assert runner.run_missing(store.Store(tmp_path), some_specs, 2, False)["n_sampled"] == len(some_specs)


def test_two_runs_at_a_time_are_refused(tmp_path, monkeypatch):
    pytest.importorskip("fcntl")
    monkeypatch.setattr(store, "_LOCK_SECONDS", 0.2)
    with store.Store(tmp_path).lock():
        with pytest.raises(RuntimeError, match="another run"):
            runner.run_missing(store.Store(tmp_path), [spec_of()], 1, False)
    assert runner.run_missing(store.Store(tmp_path), [spec_of()], 1, False)["n_sampled"] == 1


def test_progress_without_a_terminal_is_lines(tmp_path, capfd, some_specs, monkeypatch):
    monkeypatch.setattr(runner, "_LINE_SECONDS", 0.0)
    runner.run_missing(store.Store(tmp_path), some_specs, 1)
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 6 and lines[-1].startswith("6 of 6 chains") and "min left" in lines[0]


# Killed


_DRIVER = """
import sys
from experiments import chains, runner, store
from test_store import long_specs

chains._CHECKPOINT_SECONDS = 0.05
if __name__ == "__main__":
    runner.run_missing(store.Store(sys.argv[1]), long_specs(), 2, False)
"""


def long_specs():
    """Chains of some tenths of a second."""
    return [
        chains.ChainSpec("friedman-200-5", seed, replace(PAPER, real_trees=50), sampler, "empty", 0, 600, 100)
        for seed in (1, 2)
        for sampler in ("cgm", "growprune", "pg")
    ]


def start_driver(tmp_path, folder):
    script = tmp_path / "driver.py"
    script.write_text(_DRIVER)
    environment = child_environment()
    environment["PYTHONPATH"] = os.pathsep.join([environment["PYTHONPATH"], str(ROOT), str(ROOT / "tests")])
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", str(script), str(folder)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, start_new_session=True,
    )  # fmt: skip


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_killed_run_goes_on(tmp_path, how, rng):
    """Killed several times, in the middle of chains: the same chains in the end, none of them finished twice."""
    folder = tmp_path / "killed"
    kept, whole = store.Store(folder), store.Store(tmp_path / "whole")
    n_kills, resumed = 0, set()
    for _ in range(40):
        before = progress_of(folder)
        process = start_driver(tmp_path, folder)
        wait_until(lambda before=before: progress_of(folder) != before, process)
        time.sleep(rng.uniform(0.0, 0.3))
        if process.poll() is None:
            process.send_signal(how)
            n_kills += 1
        process.wait(timeout=60)
        resumed |= under_way(folder)
        if not kept.missing(long_specs()):
            break
    assert not kept.missing(long_specs())
    assert n_kills >= 1 and resumed
    assert runner.run_missing(kept, long_specs(), 1, False)["n_sampled"] == 0  # and tidies up
    runner.run_missing(whole, long_specs(), 2, False)
    assert_same_draws(kept, whole, long_specs())
    finished = [line["chain"] for line in log_of(folder) if line["event"] == "finished"]
    assert len(finished) == len(set(finished))
    assert not under_way(folder), "checkpoints of finished chains are removed"
    assert not list(folder.rglob("*.tmp")) and not (folder / "under_way").exists()


def test_what_a_killed_run_leaves_is_tidied(tmp_path):
    kept, spec = store.Store(tmp_path), spec_of()
    runner.run_missing(kept, [spec], 1, False)
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(log.read_text().splitlines()[:-1]) + '\n{"time": "2026')  # the last line was cut
    os.makedirs(kept.scratch(spec))
    (Path(kept.scratch(spec)) / "chain-000-state.npz").write_bytes(b"")
    folder = Path(kept.path(spec)).parent
    (folder / ".x.npz.1-0123abcd.tmp").write_bytes(b"")
    (folder / "notes.tmp").write_text("of somebody else")
    runner.run_missing(kept, [spec], 1, False)
    assert (folder / "notes.tmp").exists()
    os.unlink(folder / "notes.tmp")
    assert kept.finished() == {os.path.relpath(kept.path(spec), tmp_path)}
    assert not list(tmp_path.rglob("*.tmp")) and not (tmp_path / "under_way").exists()


def under_way(folder):
    """Chains that have a checkpoint."""
    return {path.parent.name for path in (Path(folder) / "under_way").glob("*/*-state.npz")}


def progress_of(folder):
    """Changes with every checkpoint and every finished chain."""
    files = {os.path.join(place, name) for place, _, names in os.walk(folder) for name in names}
    return {path for path in files if path.endswith(".npz") and "-state" not in path}


def wait_until(condition, process, seconds=60.0):
    until = time.monotonic() + seconds
    while time.monotonic() < until and process.poll() is None and not condition():
        time.sleep(0.02)
