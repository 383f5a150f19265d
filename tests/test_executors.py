"""Serial, threads, processes and a Dask cluster of two workers: the same bits, and the same ends of a run."""

import concurrent.futures
import multiprocessing

import numpy as np
import pytest
from chain_helpers import assert_same, make_model

import bart

SIZE = {"n_burn": 6, "n_draws": 8, "n_chains": 4, "seed": 17, "progress": False, "keep_burn_trees": True}
SAMPLERS = {
    "cgm": {"sampler": "cgm"},
    "pg": {"sampler": "pg(n_particles=4) + joint(every=3)"},
    "ladder": {"sampler": "growprune", "ladder": bart.Ladder(n_rungs=3, t_min=0.3)},
}


@pytest.fixture(autouse=True)
def _global_random_state_untouched():
    """In place of the guard of the same name: Dask's own threads in this process draw from `random`."""
    before = np.random.get_state()[1].tobytes()
    yield
    assert np.random.get_state()[1].tobytes() == before


@pytest.fixture(scope="module")
def dask_executor():
    distributed = pytest.importorskip("distributed", reason="needs the extra 'dask'")
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**settings) as cluster, distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=120)
        workers = client.run(_process)
        assert len(set(workers.values())) == 2      # two processes, none of them this one
        yield client.get_executor(pure=False)


def _process():
    return multiprocessing.current_process().pid


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_dask_cluster_changes_nothing(dask_executor, monkeypatch, name):
    """Also where chains travel after every sweep."""
    model, options = make_model(), {**SIZE, **SAMPLERS[name]}
    serial = bart.sample(model, **options)
    assert_same(serial, bart.sample(model, executor=dask_executor, **options))
    assert_same(serial, bart.sample(model, executor=2, **options))
    if name == "cgm":           # tests/test_sampling.py has processes of all kinds with all samplers
        context = multiprocessing.get_context("spawn")
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
            assert_same(serial, bart.sample(model, executor=pool, **options))
    monkeypatch.setattr("bart.executors._REMOTE_SEGMENT_SECONDS", 0.0)
    assert_same(serial, bart.sample(model, executor=dask_executor, **options))


def test_a_dask_cluster_with_checkpoint_targets_callback_and_limit(dask_executor, tmp_path, monkeypatch):
    monkeypatch.setattr("bart.executors._REMOTE_SEGMENT_SECONDS", 0.05)
    model, seen = make_model(), []
    options = {**SIZE, "sampler": "local", "n_draws": 500}
    options["stop_when"] = {"r_hat": 1.1, "ess_bulk": 60, "every": 20}
    serial = bart.sample(model, **options)
    far = {**options, "executor": dask_executor, "checkpoint": tmp_path / "run", "callback": seen.append}
    post = bart.sample(model, callback_every=1e-6, **far)
    assert_same(serial, post)
    assert post.stopped == "stop_when" and seen
    assert_same(serial, bart.resume(tmp_path / "run", executor=dask_executor))
    del far["stop_when"], far["checkpoint"]
    short = bart.sample(model, time_limit=2.0, **{**far, "n_draws": 10**6, "keep_trees": False})
    assert short.stopped == "time_limit"
    n = min(short.n_draws, 500)
    whole = bart.sample(model, **{**options, "stop_when": None, "n_draws": n})
    np.testing.assert_array_equal(short["sigma"][:, :n], whole["sigma"])


def test_an_error_on_the_cluster_comes_out(dask_executor):
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        bart.sample(make_model(), Failing(), executor=dask_executor, **SIZE)


class Failing(bart.TreeSampler):
    """Fails in its first step."""

    def step(self, state, target, params, rng):
        raise ZeroDivisionError("on purpose")
