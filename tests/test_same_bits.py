"""Chains: what gives the same bits, however a run is cut, moved, stored or vectorised."""

import pickle
import subprocess
import sys
from itertools import product

import numpy as np
import pytest
from bart.kernels.forest import ForestStore
from bart.kernels.rowops import TARGETS
from chain_helpers import child_environment
from sweep_helpers import ORDERS, SAMPLERS, STARTS, TRACES, make_data, run_store

import bart


def make_pair(sampler, seed, start="prior", order="random", **options):
    """Two equal ensembles."""
    X, y = make_data("ties", np.random.default_rng(seed))
    model = bart.Model(X, y, n_trees=5, **options)
    return [bart.Ensemble(model, SAMPLERS[sampler], np.random.default_rng(seed), init=start, tree_order=order)
            for _ in range(2)]


@pytest.mark.parametrize("start, order", list(product(STARTS, ORDERS)))
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_same_seed_and_split_runs(sampler, start, order, seed):
    whole, split = make_pair(sampler, seed, start, order)
    expected = run_store(whole, 115)
    parts = [run_store(split, n) for n in (1, 7, 0, 92, 15)]
    assert expected == {name: b"".join(part[name] for part in parts) for name in expected}
    assert whole.residual.tobytes() == split.residual.tobytes() and whole.structures() == split.structures()
    first, second = make_pair(sampler, seed + 1, start, order)
    assert run_store(first, 20) == run_store(second, 20)
    assert first.structures() != whole.structures() or first.sigma != whole.sigma


@pytest.mark.parametrize("threshold", ["uniform", "grid"])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_state_taken_at_any_sweep_continues_with_the_same_bits(sampler, threshold, seed):
    options = {"cuts": "grid", "n_cuts": 30} if threshold == "grid" else {}
    going, other = make_pair(sampler, seed, **options)
    for n in (0, 3, 96, 5):
        going.run(n)
        going.temperature = 0.5 + n / 100
        state = pickle.loads(pickle.dumps((going.get_state(), going.rng.bit_generator.state)))
        other.set_state(state[0])
        other.rng.bit_generator.state = state[1]
        assert run_store(other, 6) == run_store(going, 6)
        assert other.n_sweeps == going.n_sweeps and other.temperature == going.temperature


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_state_taken_within_a_sweep_continues_with_the_same_bits(sampler, seed):
    """As an interrupt leaves it; and the size of a call changes nothing."""
    going, other = make_pair(sampler, seed)
    going.run(98)
    for _ in range(7):      # one tree at a time, across the sweep in which the residual is summed anew
        kernel = going._kernel
        traces = np.empty((1, len(TRACES)))
        assert kernel.advance(going._plan, going.rng, traces, 0, None, going._threshold_rng, 1, 1) in (0, 1)
        other.set_state(pickle.loads(pickle.dumps(going.get_state())))
        other.rng.bit_generator.state = going.rng.bit_generator.state
        assert other._kernel.position == kernel.position
        going._seen[:] = going.residual
    assert kernel.position == 2
    assert run_store(other, 4) == run_store(going, 4)


@pytest.mark.parametrize("sampler", ["growprune", "pg", "cycle", "joint", "slide", "optimal-mixed", "local",
                                     "mixture"])
def test_the_size_of_a_call_changes_nothing(sampler, seed, monkeypatch):
    first, second = make_pair(sampler, seed)
    expected = run_store(first, 20)
    monkeypatch.setattr("bart.backfitting.BUDGET", 1)
    assert run_store(second, 20) == expected


def test_storing_changes_no_draw(seed):
    stored, plain = make_pair("cgm", seed)
    expected = run_store(stored, 30)
    traces = plain.run(30)
    assert all(traces[name].tobytes() == expected[name] for name in TRACES)
    assert stored.rng.bit_generator.state == plain.rng.bit_generator.state


def test_every_nth_forest(seed):
    whole, some = make_pair("cgm", seed, threshold="midpoint")
    stores = ForestStore(5), ForestStore(5)
    whole.run(20, store=stores[0])
    some.run(20, store=stores[1], store_every=3)
    assert (stores[0].n_draws, stores[1].n_draws) == (20, 6)
    nodes, starts = stores[0].nodes, stores[0].starts
    kept = [nodes[starts[5 * i]:starts[5 * i + 5]] for i in range(2, 20, 3)]
    assert np.concatenate(kept).tobytes() == stores[1].nodes.tobytes()


CHAINS = """
import hashlib, sys
import numpy as np
import bart
from bart.kernels.forest import ForestStore
from bart.kernels.rowops import TARGET
rng = np.random.default_rng(12)
digest = hashlib.sha256()
for n, levels in ((1, 2), (37, 3), (700, 40), (700, 100000)):
    X = rng.integers(0, levels, (n, 3)).astype(float)
    y = X[:, 0] / levels + rng.standard_normal(n)
    model = bart.Model(X, y, n_trees=4, sigma_hat=1.0, beta=0.5)
    for sampler in (bart.GrowPrune(), bart.CGM(), bart.ParticleGibbs(5),
                    bart.ParticleGibbs(3, "systematic", 0.5, "forced"), bart.ParticleGibbs(3, "killing"),
                    bart.ParticleGibbs(3, proposal="optimal", subset=2, prior_share=0.2),
                    bart.ParticleGibbs(2, proposal="optimal", region="subtree", final="forced"),
                    bart.Mixture(bart.Local(), bart.Cycle(bart.Perturb(), bart.Rotate(), bart.Local(subset=1))),
                    bart.Cycle(bart.Recut(None), bart.CGM(), bart.Recut()), bart.Cycle(bart.CGM(), bart.Slide(every=1)),
                    bart.Cycle(bart.GrowPrune(), bart.Mixture(bart.CGM(), bart.ParticleGibbs(2)),
                               bart.JointLeaves(every=12))):
        for start in ("smc", "overgrown", "grow"):
            store = ForestStore(4)
            ensemble = bart.Ensemble(model, sampler, rng, init=start,
                                     init_leaves=300 if start == "overgrown" else None)
            traces = ensemble.run(25, store=store)
            for name in sorted(set(traces) - {"seconds"}):
                digest.update(traces[name].tobytes())
            digest.update(store.nodes.tobytes() + ensemble.residual.tobytes())
print(TARGET, digest.hexdigest())
"""


def test_vector_width_changes_no_bit():
    """Chains of every sampler in a new process for each build of the row loops that this processor runs."""
    found = {}
    for target in TARGETS:
        environment = child_environment() | {"BART_SIMD": target}
        said = subprocess.check_output([sys.executable, "-c", CHAINS], env=environment, text=True)
        used, found[target] = said.split()
        assert used == target
    if len(found) < 2:
        pytest.skip(f"this processor runs {list(found)} alone")
    assert len(set(found.values())) == 1, found


def test_a_state_taken_at_an_interrupt_on_the_last_tree_continues(rng):
    """The sweep is not closed yet; the continuation closes it and equals the run without an interrupt."""
    X = rng.random((50, 2))
    model = bart.Model(X, X[:, 0], n_trees=1, sigma=0.1)
    whole, cut = (bart.Ensemble(model, bart.GrowPrune(), np.random.default_rng(5)) for _ in range(2))
    expected = whole.run(6)
    cut.run(3)
    cut.interrupt()
    with pytest.raises(KeyboardInterrupt):
        cut.run(1)
    after = bart.Ensemble(model, bart.GrowPrune(), np.random.default_rng(2))
    after.rng.bit_generator.state = cut.rng.bit_generator.state
    after.set_state(cut.get_state())
    np.testing.assert_array_equal(after.run(3)["log_likelihood"], expected["log_likelihood"][3:])


def make_clipped(sampler, seed=1, **options):
    """Trees whose prior lies so far from y that targets exceed what the sweep's histograms have room for."""
    X = np.random.default_rng(3).random((40, 3))
    model = bart.Model(X, np.round(X[:, 0] - X[:, 1], 2), n_trees=5, scale=False, sigma=0.5, leaf_mean=4.0,
                       leaf_var=0.25, alpha=0.99, beta=0.2)
    return bart.Ensemble(model, sampler, np.random.default_rng(seed), init="empty", **options)


class Driven(bart.TreeSampler):
    """A compiled sampler driven from Python."""

    def __init__(self, inner):
        self.inner = inner

    def step(self, state, target, params, rng):
        return self.inner.step(state, target, params, rng)


CLIPPED = ("optimal", "subtree-optimal", "local", "mixture")


@pytest.mark.parametrize("sampler", CLIPPED)
def test_the_unit_of_histograms_is_part_of_a_state_within_a_sweep(sampler):
    """From some of such starts the rest of the sweep differs where the unit is another."""
    differs = 0
    for seed, keep in product(range(15), (True, False)):
        going, other = (make_clipped(SAMPLERS[sampler], seed, tree_order="random") for _ in range(2))
        for _ in range(2):
            going._kernel.advance(going._plan, going.rng, np.empty((1, len(TRACES))), 0, None, going._threshold_rng,
                                  1, 1)
        assert going._kernel.position == 2
        state = pickle.loads(pickle.dumps(going.get_state()))
        assert state["sweep_top"] == 4 * abs(going.model.dataset.y_scaled).max()
        other.set_state(state if keep else state | {"sweep_top": 1e3})
        other.rng.bit_generator.state = going.rng.bit_generator.state
        same = run_store(other, 5) == run_store(going, 5)
        assert same or not keep
        differs += not same
    assert differs > 0


@pytest.mark.parametrize("sampler", CLIPPED)
def test_the_unit_of_histograms_is_that_of_the_sweep_when_driven_from_python(sampler):
    first, second = make_clipped(SAMPLERS[sampler]), make_clipped(Driven(SAMPLERS[sampler]))
    assert run_store(first, 30) == run_store(second, 30)


def test_a_python_sweep_cut_by_an_error_keeps_its_unit():
    """The next run takes the sweep up; a state taken in between does too."""
    whole, cut = make_clipped(bart.Local()), make_clipped(Driven(bart.Local()))
    expected, calls = run_store(whole, 30), []

    def fail_once(*arguments):
        calls.append(None)
        if len(calls) == 3:
            raise RuntimeError("stop")
        return bart.Local().step(*arguments)

    cut.sampler.step = fail_once
    with pytest.raises(RuntimeError, match="stop"):
        cut.run(1)
    after = make_clipped(Driven(bart.Local()))
    after.set_state(pickle.loads(pickle.dumps(cut.get_state())))
    after.rng.bit_generator.state = cut.rng.bit_generator.state
    assert after._kernel.position == 2
    assert run_store(after, 30) == expected
