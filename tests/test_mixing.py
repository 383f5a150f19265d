"""The mixing experiments: what a run records, what is measured on it, how runs are kept, and the scripts."""

import math
import os
import time
import zipfile
from dataclasses import replace

import numpy as np
import pytest

import bart
from benchmarks import peer_runs
from experiments import (
    mixing,
    mixing_measures,
    mixing_runs,
    mixing_worker,
    real_data,
)
from experiments.mixing_runs import RunSpec, RunStore
from experiments.real_sources import SOURCES

pytest.importorskip("arviz")

PROBLEM = "friedman-60-5"
TINY = RunSpec(PROBLEM, 0, "growprune", 0, 0.2, n_records=40)


def make_task(folder, **changes):
    """A task whose test rows are the training rows."""
    problem = mixing_runs.load(PROBLEM, 0)
    task, _ = mixing_runs._task(TINY, problem, str(folder))
    with np.load(task["data"]) as file:
        data = dict(file)
    data["X_rows"] = data["X"]
    np.savez(task["data"], **data)
    return {**task, **changes}, problem


def log_likelihood(y, fits, sigma):
    z = (y - fits) / sigma[:, None]
    return np.sum(-0.5 * z**2 - np.log(sigma * math.sqrt(2 * math.pi))[:, None], axis=1)


# Systems as strings


def test_systems():
    names = ["auto", "growprune", "pg(n_particles=7)"]
    assert mixing.check_systems(names) == names


@pytest.mark.parametrize("text", ["gibbs", "pg(n_particles=0)", "growprune cgm", ""])
def test_bad_samplers(text):
    with pytest.raises(ValueError):
        mixing.check_systems(["auto", text])


def test_ladders_of_strings():
    assert mixing_worker.ladder_of("") is None
    assert mixing_worker.ladder_of("n_rungs=3, t_min=0.5") == bart.Ladder(n_rungs=3, t_min=0.5)
    for text in ("8", "rungs=8", "n_rungs=1", "n_rungs=", ") + (1"):
        with pytest.raises(ValueError, match="ladder"):
            mixing_worker.ladder_of(text)


# What a run records


@pytest.mark.parametrize("number", [0, 3])
def test_our_records_are_those_of_the_state(tmp_path, number):
    """f, sigma and the log-likelihood of a record belong to one sweep, in the units of y."""
    task, problem = make_task(tmp_path)
    chain = mixing_worker.OwnChain(task, number)
    about, kept = chain.run(), chain.records()
    at = np.arange(len(kept["fits"])) * chain.fit_every
    assert len(kept["fits"]) > 5 and at[-1] < len(kept["sigma"])
    np.testing.assert_array_equal(kept["fit_sigma"], kept["sigma"][at])
    expected = log_likelihood(problem.y_train, kept["fits"], kept["fit_sigma"])
    np.testing.assert_allclose(kept["log_likelihood"][at], expected, rtol=1e-9)
    assert about["start"] == ("empty", "prior", "overgrown", "smc")[number]
    assert len(kept["sigma"]) == len(kept["f"]) == about["n_sweeps"] // about["sweeps_a_record"]
    assert about["cpu"] == pytest.approx(about["burn_cpu"] + about["kept_cpu"])
    assert about["burn_cpu"] >= max(task["burn"], about["start_cpu"]) and about["kept_cpu"] >= task["kept"]


def test_a_ladder_is_tuned_in_the_burn_in_alone(tmp_path, monkeypatch):
    # the default burn-in holds, on a busy machine, too few swaps to tune by
    task, _ = make_task(tmp_path, ladder="n_rungs=3, t_min=0.9, every=2", burn=0.5)
    chain, seen = mixing_worker.OwnChain(task, 0), []
    keep = mixing_worker.OwnChain._keep
    monkeypatch.setattr(
        mixing_worker.OwnChain, "_keep",
        lambda self, segment, thin: (seen.append(segment.temperatures), keep(self, segment, thin)),
    )  # fmt: skip
    about = chain.run()
    assert about["temperatures"] != list(mixing_worker.ladder_of(task["ladder"]).temperatures)
    assert all(temperatures == about["temperatures"] for temperatures in seen)
    assert len(about["swap_rates"]) == 2 and all(0 < rate <= 1 for rate in about["swap_rates"])


class Known(peer_runs.Run):
    """A package whose n-th sweep leaves a known state: noise variance 1 / n, residual n, f = n."""

    packages = ("numpy",)

    def start(self):
        self.n = 0

    def sweep(self, n):
        self.n += n
        until = time.process_time() + 1e-4 * n
        while time.process_time() < until:
            pass

    def state(self):
        return 1.0 / self.n, np.full(len(self.y), float(self.n))

    def held_out(self):
        return np.full(len(self.X_test), float(self.n))

    def mean_leaves(self):
        return 1.0


class KnownFits(mixing_worker._Fits, Known):
    def fit_now(self):
        return np.full(len(self.X_rows), float(self.n))


def test_a_peers_records_are_in_the_units_of_y(tmp_path, monkeypatch):
    monkeypatch.setitem(mixing_worker.PEERS, "known", KnownFits)
    task, problem = make_task(tmp_path, system="known", burn=0.02, kept=0.05, n_records=50, n_fits=5)
    kept, about, _ = mixing_worker.peer_chain(task, 0)
    n = (kept["f"][:, 0] - task["y_mid"]) / task["y_range"]
    steps = np.diff(n)
    assert np.allclose(steps, about["sweeps_a_record"]) and n[0] > about["n_burn"]
    np.testing.assert_allclose(kept["sigma"], task["y_range"] / np.sqrt(n))
    scaled = -0.5 * len(problem.y_train) * (np.log(2 * np.pi / n) + n**3)
    expected = scaled - len(problem.y_train) * np.log(task["y_range"])
    np.testing.assert_allclose(kept["log_likelihood"], expected)
    fits = (kept["fits"][:, 0] - task["y_mid"]) / task["y_range"]
    np.testing.assert_allclose(kept["fit_sigma"], task["y_range"] / np.sqrt(fits))
    assert 2 <= len(fits) <= len(n) and fits[-1] == pytest.approx(n[-1])
    assert about["cpu"] == pytest.approx(about["burn_cpu"] + about["kept_cpu"])


def test_a_warm_start_grows_from_the_root_first(monkeypatch):
    done = []
    monkeypatch.setattr(peer_runs.StochTree, "sweep", lambda self, n: done.append((n, self.from_root)))
    chain = mixing_worker.WarmStochTree.__new__(mixing_worker.WarmStochTree)
    chain.n_root, chain.root_seconds = 5, 100.0
    for n in (2, 4, 3):
        chain.sweep(n)
    assert done == [*[(1, True)] * 5, (1, False), (3, False)]
    chain.n_root, chain.root_seconds = 5, -1.0
    chain.sweep(2)
    assert done[-1] == (2, False)


def test_the_predictive_law():
    """Two draws of f and sigma at two rows, by hand."""
    arrays = {}
    for number, (f, sigma) in enumerate((((0.0, 1.0), 1.0), ((2.0, 1.0), 2.0))):
        arrays |= {f"fits_{number}": np.array([f], np.float32), f"fit_sigma_{number}": np.array([sigma]),
                   f"sigma_{number}": np.ones(3)}  # fmt: skip
    found = mixing_runs._kept(arrays, 2, np.array([0.0, 1.0]))
    density = [0.5 * (1 + math.exp(-0.5) / 2) / math.sqrt(2 * math.pi), 0.5 * (1 + 1 / 2) / math.sqrt(2 * math.pi)]
    np.testing.assert_allclose(found["test"]["log_score"], np.log(density))
    np.testing.assert_allclose(found["test"]["pit"], [0.5 * (0.5 + 0.15865525393145707), 0.5])
    np.testing.assert_allclose(found["test"]["mean"], [1.0, 1.0])
    assert found["test"]["n_draws"] == 2 and len(found["chains"]) == 2


# What is measured


def make_record(rng, n=(400, 500, 400, 400), shift=0.0):
    """A run of independent draws with a calibrated predictive law; `shift` moves one chain's sigma."""
    parts = [
        {"sigma": rng.normal(shift * (chain == 0), 1.0, k), "log_likelihood": np.cumsum(rng.normal(size=k)),
         "f": rng.normal(size=(k, 6)).astype(np.float32)} for chain, k in enumerate(n)
    ]  # fmt: skip
    about = {"cpu": 2.0, "kept_cpu": 1.0, "wall": 1.0, "n_burn": 5, "n_sweeps": 5, "mean_leaves": 2.0}
    pit = (np.arange(1000) + 0.5) / 1000
    test = {"log_score": rng.normal(size=1000), "pit": pit, "mean": np.zeros(1000), "n_draws": 4}
    header = {"chains": [about] * len(n), "test": "a", "us_per_pass": [1.0, 1.0], "kernels": "peer"}
    return {"header": header, "chains": parts, "test": test}


def test_measures_of_independent_draws(rng):
    found = mixing_measures.measure(make_record(rng), np.full(1000, 2.0))
    assert found["seconds"] == 8.0 and found["n_records"] == 400 and found["rmse"] == 2.0
    for name in ("sigma", "f_median"):
        assert 0.7 * 1600 < found["ess"][name] < 1.4 * 1600
        assert found["rate"][name] == pytest.approx(found["ess"][name] / 8.0)
        assert found["r_hat"][name] < 1.01
    assert found["ess"]["log_likelihood"] < 40 and found["r_hat"]["log_likelihood"] > 1.2
    assert found["coverage"] == pytest.approx(list(mixing_measures.NOMINAL), abs=1.1e-3)
    assert found["r_hat"]["f_median"] <= found["r_hat"]["f_worst"] and found["ess"]["f_low"] <= found["ess"]["f_median"]


def test_chains_that_disagree_have_few_effective_draws(rng):
    found = mixing_measures.measure(make_record(rng, shift=8.0), np.zeros(1000))
    assert found["ess"]["sigma"] < 20 and found["r_hat"]["sigma"] > 1.2


def test_figures_without_draws():
    assert mixing_measures.figures(np.zeros((4, 3))) == (0.0, math.inf)
    assert mixing_measures.figures(np.ones((4, 60))) == (0.0, 1.0)
    assert mixing_measures.figures(np.arange(4.0)[:, None] * np.ones((4, 60)))[1] > 1e6


def test_few_draws_have_no_ess(rng):
    draws = rng.normal(size=(4, mixing_measures.LEAST_DRAWS))
    assert mixing_measures.figures(draws)[0] > 50
    ess, r_hat = mixing_measures.figures(draws[:, 1:])
    assert ess == 0.0 and 0.9 < r_hat < 1.2


def test_chains_of_unequal_length_are_thinned_over_their_whole_length():
    found = mixing_measures.together([np.arange(3), np.arange(9)])
    np.testing.assert_array_equal(found, [[0, 1, 2], [0, 3, 6]])


def rated(value, seconds=10.0):
    return {"rate": dict.fromkeys(mixing_measures.RATES, value), "seconds": seconds}


def test_ratio_to_the_best_peer():
    found = {
        ("a", "growprune"): {0: rated(8.0), 1: rated(8.0)}, ("a", "bartz"): {0: rated(1.0), 1: rated(4.0)},
        ("a", "stochtree"): {0: rated(1.0), 1: rated(1.0)}, ("b", "growprune"): {0: rated(3.0), 1: rated(3.0)},
        ("b", "bartz"): {0: rated(0.0), 1: rated(0.0)}, ("a", "cgm"): {0: rated(100.0), 1: rated(100.0)},
    }  # fmt: skip
    found = mixing_measures.compare(found, "growprune")["sigma"]
    ratio, low, high, best = found["ratios"]["a"]
    assert (ratio, low, high, best) == (pytest.approx(4.0), pytest.approx(2.0), pytest.approx(8.0), "bartz")
    # No ESS counts as four effective draws in ten seconds.
    assert found["ratios"]["b"][:3] == pytest.approx((7.5, 7.5, 7.5))
    assert found["median"] == pytest.approx((5.75, 4.75, 7.75))


def test_a_problem_is_compared_by_its_own_seeds_and_the_median_by_common_ones():
    found = {
        ("a", "growprune"): {0: rated(8.0), 1: rated(2.0)}, ("a", "bartz"): {0: rated(1.0), 1: rated(1.0)},
        ("b", "growprune"): {0: rated(2.0)}, ("b", "bartz"): {0: rated(1.0), 1: rated(9.0)},
    }  # fmt: skip
    one = mixing_measures.compare(found, "growprune")["sigma"]
    assert one["ratios"]["a"][:3] == pytest.approx((4.0, 2.0, 8.0)) and one["ratios"]["b"][0] == pytest.approx(2.0)
    assert one["seeds"] == {"a": [0, 1], "b": [0]} and one["n_seeds"] == 1
    assert one["median"] == pytest.approx((5.0, 5.0, 5.0))
    found["b", "bartz"] = found["b", "growprune"] = {2: rated(1.0)}
    one = mixing_measures.compare(found, "growprune")["sigma"]
    assert one["median"] is None and one["ratios"]["b"][3] == "bartz"


def test_no_ratio_without_peers_or_common_seeds():
    assert mixing_measures.compare({("a", "growprune"): {0: rated(1.0)}}, "growprune") is None
    found = {("a", "growprune"): {0: rated(1.0)}, ("a", "bartz"): {1: rated(1.0)}}
    assert mixing_measures.compare(found, "growprune") is None


def on_rows(log_score, inside, test="a"):
    return {"test": test, "rows": {"log_score": np.asarray(log_score), "inside": np.asarray(inside)}}


def test_held_out_differences():
    ours = {0: on_rows([1.0, 2.0], [0.1, 0.3]), 1: on_rows([3.0, 4.0], [0.1, 0.3])}
    theirs = {0: on_rows([0.0, 0.0], [0.0, 0.1]), 1: on_rows([0.0, 0.0], [0.0, 0.1]), 2: on_rows([9.0, 9.0], [0, 0])}
    found = mixing_measures.held_out_differences(ours, theirs)
    # The rows of one test set are averaged over the seeds that both have: differences 2 and 3.
    assert found["log_score"] == pytest.approx((2.5, 0.5))
    # At the level 0.5, half of our rows are inside and all of theirs: |0| - |0.5|.
    assert found["coverage"][0][0] == pytest.approx(-0.5)
    other = {0: ours[0], 1: {**ours[1], "test": "b"}}
    assert mixing_measures.held_out_differences(other, theirs)["log_score"][0] == pytest.approx(2.5)
    same = mixing_measures.held_out_differences(ours, ours)
    assert same["log_score"] == (0.0, 0.0) and all(pair == (0.0, 0.0) for pair in same["coverage"])


# The store


def test_a_run_is_kept_and_not_made_again(tmp_path):
    store, lines = RunStore(tmp_path / "runs"), []
    assert store.read(TINY) is None
    assert store.run_missing([TINY], lines.append) == [] and len(lines) == 1
    record = store.read(TINY)
    assert [chain["start"] for chain in record["header"]["chains"]] == ["empty", "prior", "overgrown", "smc"]
    assert record["chains"][0]["f"].shape[1] == 50 and len(record["test"]["pit"]) == 60
    assert all(chain["cpu"] >= 0.05 for chain in record["header"]["chains"])
    assert store.run_missing([TINY], lines.append) == [] and len(lines) == 1
    path = store.find(TINY)
    with open(path, "r+b") as file:
        file.truncate(100)
    assert store.find(TINY) is None
    assert [name for name in os.listdir(os.path.dirname(path)) if name != os.path.basename(path)] == []


def test_what_names_a_run(monkeypatch):
    peer = replace(TINY, system="bartz")
    others = [replace(TINY, budget=0.3), replace(TINY, data_seed=1), replace(TINY, seed=1), replace(TINY, ladder="4"),
              replace(TINY, system="cgm"), replace(TINY, problem="friedman-61-5"), peer]  # fmt: skip
    assert len({spec.key for spec in (TINY, *others)}) == 8
    store = RunStore("runs")
    before = [store.path(spec) for spec in (TINY, peer)]
    monkeypatch.setattr(mixing_runs.chains, "kernels_hash", lambda: "f" * 64)
    after = [store.path(spec) for spec in (TINY, peer)]
    assert before[0] != after[0] and before[1] == after[1]


def test_runs_by_earlier_kernels_are_taken_where_asked(tmp_path, monkeypatch):
    store = RunStore(tmp_path)
    path = store.path(TINY)
    os.makedirs(os.path.dirname(path))
    with zipfile.ZipFile(path, "w"):
        pass
    monkeypatch.setattr(mixing_runs.chains, "kernels_hash", lambda: "f" * 64)
    assert store.find(TINY) is None
    assert RunStore(tmp_path, any_kernels=True).find(TINY) == path
    assert RunStore(tmp_path, any_kernels=True).find(replace(TINY, seed=1)) is None


def test_of_runs_by_earlier_kernels_the_newest_is_taken_and_the_table_says_so(tmp_path, monkeypatch):
    store, paths = RunStore(tmp_path, any_kernels=True), []
    present = mixing_runs.chains.kernels_hash()
    for age, kernels in enumerate("cba"):
        monkeypatch.setattr(mixing_runs.chains, "kernels_hash", lambda kernels=kernels: kernels * 64)
        paths.append(store.path(TINY))
        os.makedirs(os.path.dirname(paths[-1]), exist_ok=True)
        with zipfile.ZipFile(paths[-1], "w"):
            pass
        os.utime(paths[-1], (1e9 - age, 1e9 - age))
    assert store.find(TINY) == paths[2]                      # of the present kernels
    monkeypatch.setattr(mixing_runs.chains, "kernels_hash", lambda: present)
    assert store.find(TINY) == paths[0]
    (note,) = mixing_runs.kernels_notes(["c" * 12, "peer", present[:12], "c" * 12])
    assert note.endswith("the newest in the store: 2 by cccccccccccc.")
    assert mixing_runs.kernels_notes(["peer", present[:12]]) == []


def test_a_run_that_fails_is_named_and_the_others_are_made(tmp_path):
    lines = []
    bad = replace(TINY, system="gibbs")
    store = RunStore(tmp_path)
    assert store.run_missing([bad, TINY], lines.append) == [bad]
    assert "gibbs" in " ".join(lines) and store.find(TINY) and not store.find(bad)


# Problems


def test_all_rows_of_a_real_set():
    source = SOURCES["CaliforniaHouses"]
    train, test = real_data._rows(source, "all")
    assert sorted([*train, *test]) == list(range(source.shape[0])) and len(test) == source.n_test
    np.testing.assert_array_equal(test, real_data._rows(source, 2)[1])
    with pytest.raises(ValueError, match="split"):
        real_data.load("diabetes", "all")


def test_constant_columns_are_left_out(monkeypatch):
    made = mixing_runs.problems.made(PROBLEM, 0)
    X = made.X_train.copy()
    X[:, 1] = 3.0
    monkeypatch.setattr(mixing_runs.problems, "made", lambda *_: replace(made, X_train=X))
    mixing_runs._load.cache_clear()
    try:
        problem = mixing_runs.load("friedman-60-5", 12345)
        np.testing.assert_array_equal(problem.X_train, X[:, [0, 2, 3, 4]])
        np.testing.assert_array_equal(problem.X_test, made.X_test[:, [0, 2, 3, 4]])
    finally:
        mixing_runs._load.cache_clear()
