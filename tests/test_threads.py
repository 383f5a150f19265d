"""Threads within a sweep and within a prediction change no bit, and none of them is left behind."""

import multiprocessing
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from bart.kernels.columns import Domain
from chain_helpers import child_environment

import bart

N_ROWS = 70_001        # a sweep is shared from 65 536 rows on; the last block is not whole
SAMPLERS = {
    "growprune": bart.GrowPrune(),
    "cgm": bart.CGM(),
    "pg": bart.ParticleGibbs(4),
    "optimal": bart.ParticleGibbs(3, proposal="optimal", final="forced", ess_threshold=0.5),
    "subtree-optimal": bart.ParticleGibbs(2, proposal="optimal", region="subtree", subset=2),
    "recut": bart.Cycle(bart.Local(subset=1), bart.Recut(subset=2), bart.Recut(None)),
    "cycle": bart.Cycle(bart.Local(), bart.Perturb(), bart.Rotate()),
    "pg-many": bart.ParticleGibbs(70, "systematic"),        # more root splits than a team has room for at once
}


@pytest.fixture(scope="module", params=[7, 30_000, 100_000], ids=["uint8", "uint16", "uint32"])
def model(request):
    rng = np.random.default_rng(3)
    X = rng.integers(0, request.param, (N_ROWS, 3)).astype(float)
    y = np.sin(X[:, 0] / request.param * 5) + X[:, 1] / request.param + 0.1 * rng.standard_normal(N_ROWS)
    return bart.Model(X, y, n_trees=4)


def draws(model, sampler, n_threads, init, n_sweeps=4):
    """All that a run leaves, as bytes."""
    leaves = 80 if init == "overgrown" else None            # more leaves than a team has room for
    ensemble = bart.Ensemble(model, sampler, np.random.default_rng(1), init=init, init_leaves=leaves,
                             n_threads=n_threads)
    traces = ensemble.run(n_sweeps)
    return [traces[name].tobytes() for name in ("log_likelihood", "sigma", "n_leaves")] + [ensemble.residual.tobytes()]


@pytest.mark.parametrize("init", ["empty", "overgrown"])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_threads_of_a_sweep_change_no_bit(model, sampler, init):
    before = threading.active_count()
    alone = draws(model, SAMPLERS[sampler], 1, init)
    for n_threads in (2, 5):
        assert draws(model, SAMPLERS[sampler], n_threads, init) == alone
    assert threading.active_count() == before


def in_a_child(model, queue):
    queue.put(draws(model, SAMPLERS["pg"], 2, "empty"))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_process_may_use_threads_too(model, method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    expected = draws(model, SAMPLERS["pg"], 2, "empty")     # the parent has had threads before the child is made
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=in_a_child, args=(model, queue))
    child.start()
    assert queue.get(timeout=120) == expected
    child.join(timeout=60)
    assert child.exitcode == 0


def test_sample_with_threads(model):
    def run(**options):
        post = bart.sample(model, bart.CGM(), n_burn=1, n_draws=2, n_chains=2, seed=4, init="prior", progress=False,
                           **options)
        return [post[name].tobytes() for name in ("sigma", "log_likelihood")]

    assert run(n_threads=2) == run() == run(n_threads=2, executor=2)
    with pytest.raises(ValueError, match="n_threads"):
        bart.sample(model, bart.CGM(), n_threads=0)


def test_an_interrupt_ends_a_shared_sweep(model):
    ensemble = bart.Ensemble(model, bart.GrowPrune(), np.random.default_rng(1), n_threads=2)
    ensemble.run(1)
    ensemble.interrupt()
    with pytest.raises(KeyboardInterrupt):
        ensemble.run(1)
    whole = bart.Ensemble(model, bart.GrowPrune(), np.random.default_rng(1))
    whole.run(2)
    ensemble.run(1)
    assert ensemble.residual.tobytes() == whole.residual.tobytes()


def test_an_interrupt_while_threads_start_leaves_none_behind(model, monkeypatch):
    """`with` does not close what an interrupt kept from opening."""
    class Interrupted(threading.Thread):
        def start(self):
            super().start()
            raise KeyboardInterrupt

    ensemble = bart.Ensemble(model, bart.GrowPrune(), np.random.default_rng(1), n_threads=3)
    before = threading.active_count()
    with monkeypatch.context() as patch:
        patch.setattr(threading, "Thread", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            ensemble.run(1)
    assert threading.active_count() == before
    ensemble.run(1)


WITHIN_A_SWEEP = """
import signal
import numpy as np
import bart
rng = np.random.default_rng(0)
X = rng.random((70_000, 3))
model = bart.Model(X, X[:, 0], n_trees=2, alpha=0.99, beta=0.1)
outer, inner = (bart.Ensemble(model, bart.ParticleGibbs(100), np.random.default_rng(k), n_threads=2) for k in (1, 2))
ran = []
def handler(*_):
    if not ran:
        ran.append(True)
        inner.run(1)
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
while not ran:
    outer.run(1)
signal.setitimer(signal.ITIMER_REAL, 0)
outer.run(1)
print("done")
"""


def test_a_signal_handler_may_run_a_shared_sweep_within_one():
    """A signal is looked for within a particle step; its handler's team must not take the place of the sweep's own."""
    said = subprocess.run([sys.executable, "-c", WITHIN_A_SWEEP], env=child_environment(), check=True, text=True,
                          stdout=subprocess.PIPE, timeout=300)
    assert said.stdout == "done\n"


@pytest.mark.parametrize("make, counted", [("make_order", "argsort"), ("make_bins", "searchsorted")])
def test_what_chains_on_threads_share_is_made_once(make, counted, monkeypatch):
    """Arrays that a second thread made would replace, and free, those that the first one's kernels read."""
    def run(n_threads):
        domain, calls, made = Domain(bart.RankCodes(X), bart.TreePrior()), [], getattr(np, counted)

        def slow(*args, **options):
            calls.append(args)
            time.sleep(0.01)
            return made(*args, **options)

        monkeypatch.setattr(np, counted, slow)
        threads = [threading.Thread(target=getattr(domain, make)) for _ in range(n_threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        monkeypatch.setattr(np, counted, made)
        return len(calls)

    X = np.random.default_rng(0).random((50, 3))
    assert run(4) == run(1) > 0


def test_more_threads_than_work():
    small = bart.Model(np.arange(40.0).reshape(20, 2), np.arange(20.0), n_trees=2)
    bart.Ensemble(small, bart.CGM(), np.random.default_rng(1), n_threads=2**40).run(1)
    post = bart.sample(small, bart.CGM(), n_burn=1, n_draws=2, n_chains=1, seed=1, progress=False)
    assert post.predict(np.zeros((3, 2)), n_threads=2**40).shape == (3,)


def test_threads_of_a_prediction_change_no_bit():
    rng = np.random.default_rng(5)
    X = rng.random((60, 3))
    post = bart.sample(bart.Model(X, X[:, 0], n_trees=9), bart.CGM(), n_burn=5, n_draws=6, n_chains=2, seed=1,
                       progress=False)
    for n in (0, 1, 3, 5000):
        rows = rng.random((n, 3))
        alone = post.predict(rows, draws=True, interval=0.5)
        shared = post.predict(rows, draws=True, interval=0.5, n_threads=3)
        np.testing.assert_array_equal(alone.draws, shared.draws)
        np.testing.assert_array_equal(alone.mean, shared.mean)
        blocks = list(post.predict_blocks(rows, n_threads=3))
        np.testing.assert_array_equal(np.concatenate([b.values for b in blocks if b.chain == 0], axis=1) if n else
                                      np.empty((6, 0)), alone.draws[0])
    with pytest.raises(ValueError, match="n_threads"):
        post.predict(rows, n_threads=0)
