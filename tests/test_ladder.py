"""Ladders in chains: settings, tuning, the same bits however chains are run and cut, and what is reported."""

import concurrent.futures
import itertools
import multiprocessing
import pickle

import numpy as np
import pytest
from bart.kernels.forest import ForestStore
from chain_helpers import assert_same, interrupted_at, make_model

import bart
from bart import tempering
from bart.ladder import Tempering, even_temperatures
from bart.sampling import sample
from bart.tempering import TemperedEnsemble

# Rounds of swaps that end within draws, and a burn-in that ends within a round.
LADDER = bart.Ladder(n_rungs=3, t_min=0.2, every=3, tune=True)
SIZE = {"n_burn": 85, "n_draws": 9, "thin": 2, "n_chains": 2, "seed": 11, "keep_burn_trees": True, "progress": False,
        "ladder": LADDER}
SAMPLER = bart.CGM()


@pytest.fixture(scope="module")
def model():
    return make_model(n_trees=2)


@pytest.fixture(scope="module")
def whole(model):
    """A run that nothing disturbed."""
    return sample(model, SAMPLER, **SIZE)


def make_ladder(model, ladder, seed=1, **options):
    return TemperedEnsemble(model, SAMPLER, np.random.default_rng(seed), ladder, **options)


# Settings


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"n_rungs": 1}, "n_rungs"),
        ({"t_min": 0.0}, "t_min"),
        ({"t_min": 1.0}, "t_min"),
        ({"t_min": float("nan")}, "t_min"),
        ({"every": 0}, "every"),
        ({"temperatures": [1.0]}, "temperatures"),
        ({"temperatures": [0.9, 0.5]}, "temperatures"),
        ({"temperatures": [1.0, 0.5, 0.5]}, r"temperatures\[2\]"),
        ({"temperatures": [1.0, 0.0]}, r"temperatures\[1\]"),
        ({"temperatures": [1.0, 0.5], "n_rungs": 2}, "n_rungs"),
        ({"temperatures": [1.0, 0.5], "t_min": 0.5}, "t_min"),
    ],
)
def test_bad_settings_are_named(options, name):
    with pytest.raises(ValueError, match=name):
        bart.Ladder(**options)


@pytest.mark.parametrize("options", [{"n_rungs": 2.0}, {"every": True}, {"tune": 1}, {"temperatures": 0.5}])
def test_settings_of_another_type_are_named(options):
    with pytest.raises(TypeError, match=next(iter(options))):
        bart.Ladder(**options)


def test_what_is_no_ladder_is_refused(model):
    with pytest.raises(TypeError, match="ladder"):
        sample(model, SAMPLER, **{**SIZE, "ladder": 8})


def test_settings_are_filled_in_and_read_back():
    ladder = bart.Ladder(n_rungs=3, t_min=0.01)
    np.testing.assert_allclose(ladder.temperatures, [1.0, 0.1, 0.01])
    assert ladder.tune and not bart.Ladder(temperatures=[1, 0.5]).tune
    for one in (ladder, bart.Ladder(temperatures=(1.0, 0.5, 0.3), every=2, tune=True)):
        assert eval(repr(one), {"Ladder": bart.Ladder}) == one


# One chain, its states and their rounds


def test_without_accepted_swaps_each_state_is_a_chain_of_its_own(model, monkeypatch):
    """Traces, stored forests and sums over states, to the last bit."""
    monkeypatch.setattr(tempering, "log_swap_ratio", lambda *_: -np.inf)
    ladder, store = make_ladder(model, bart.Ladder(temperatures=(1.0, 0.5, 0.2)), init="prior"), ForestStore(2)
    found = ladder.run(30, store=store, store_every=4)
    alone = []
    for rng, t in zip(np.random.default_rng(1).spawn(3), (1.0, 0.5, 0.2), strict=True):
        ensemble, own = bart.Ensemble(model, SAMPLER, rng, init="prior"), ForestStore(2)
        ensemble.temperature = t
        alone.append((ensemble.run(30, store=own, store_every=4), own))
    for name in ("log_likelihood", "sigma", "n_leaves", "depth", "tree_changed", "root_changed"):
        np.testing.assert_array_equal(found[name], alone[0][0][name])
    np.testing.assert_array_equal(found["row_visits"], sum(traces["row_visits"] for traces, _ in alone))
    assert store.nodes.tobytes() == alone[0][1].nodes.tobytes()
    assert not np.array_equal(found["sigma"], alone[1][0]["sigma"])


def test_seconds_count_every_state(model):
    """Ten states take more than three times as long as one."""
    one = bart.Ensemble(model, bart.ParticleGibbs(20), np.random.default_rng(1)).run(200)["seconds"].sum()
    ladder = TemperedEnsemble(model, bart.ParticleGibbs(20), np.random.default_rng(1), bart.Ladder(n_rungs=10))
    assert ladder.run(200)["seconds"].sum() > 3 * one


def test_traces_and_forests_are_those_of_the_state_at_one(model):
    """Along a run in which states change places, against the states themselves."""
    ladder, store = make_ladder(model, bart.Ladder(temperatures=(1.0, 0.9, 0.8), every=2)), ForestStore(2)
    seen, n_swaps = set(), 0
    for sweep in range(300):
        cold = ladder.cold
        assert cold.temperature == 1.0 and [e.temperature for e in ladder.ensembles].count(1.0) == 1
        traces = ladder.run(1, store=store)
        assert traces["n_leaves"][0] == sum(tree.n_leaves for tree in cold.trees)
        np.testing.assert_allclose(traces["log_likelihood"][0], cold.log_likelihood, rtol=1e-10)
        leaves = (store.nodes["dim"][store.starts[-3] :] == -1).sum()
        assert leaves == traces["n_leaves"][0] and len(store.starts) == 2 * (sweep + 1) + 1
        assert (traces["swaps"] >= 0).any() == (sweep % 2 == 1)
        seen.add(id(cold))
        n_swaps += (traces["swaps"] == 1).sum()
    assert len(seen) == 3 and n_swaps > 5


def test_even_and_odd_pairs_take_turns_and_one_pair_swaps_in_each_round(model):
    swaps = make_ladder(model, bart.Ladder(n_rungs=5)).run(6)["swaps"]
    np.testing.assert_array_equal(swaps >= 0, [[True, False] * 2, [False, True] * 2] * 3)
    assert (make_ladder(model, bart.Ladder(n_rungs=2)).run(6)["swaps"] >= 0).all()


@pytest.mark.parametrize("init", ["prior", "overgrown"])
def test_each_state_makes_its_own_start(model, init):
    ladder = make_ladder(model, bart.Ladder(n_rungs=4, t_min=0.5), init=init)
    starts = [ensemble.structures() for ensemble in ladder.ensembles]
    assert all(a != b for a, b in itertools.combinations(starts, 2))


class Slow(bart.TreeSampler):
    """CGM driven from Python."""

    def step(self, state, target, params, rng):
        return SAMPLER.step(state, target, params, rng)


def test_a_sampler_written_in_python_gives_the_same_bits(model):
    compiled = make_ladder(model, LADDER, n_tune=80).run(100)
    slow = TemperedEnsemble(model, Slow(), np.random.default_rng(1), LADDER, n_tune=80).run(100)
    for name in set(compiled) - {"seconds"}:
        np.testing.assert_array_equal(compiled[name], slow[name])


def test_an_interrupt_leaves_a_usable_state(model):
    ladder = make_ladder(model, bart.Ladder(n_rungs=4, t_min=0.5, every=3))
    ladder.run(4)
    ladder.ensembles[ladder.order[2]].interrupt()
    with pytest.raises(KeyboardInterrupt):
        ladder.run(10)
    ladder.interrupt()
    with pytest.raises(KeyboardInterrupt):
        ladder.run(10)
    before = ladder.n_sweeps
    traces = ladder.run(10)
    assert np.isfinite(traces["sigma"]).all() and (traces["sigma"] > 0).all()
    assert {ensemble.n_sweeps for ensemble in ladder.ensembles} == {before + 10}
    assert ladder.n_rounds == (before + 10) // 3


def test_a_state_of_another_ladder_is_refused(model):
    state = make_ladder(model, bart.Ladder(n_rungs=3)).get_state()
    with pytest.raises(ValueError, match="3 rungs"):
        make_ladder(model, bart.Ladder(n_rungs=4)).set_state(state)


# Tuning


def test_even_temperatures():
    t = np.geomspace(1.0, 0.1, 5)
    np.testing.assert_allclose(even_temperatures(t, np.full(4, 0.3)), t, rtol=1e-12)
    moved = even_temperatures(t, np.array([0.1, 0.9, 0.1, 0.1]))
    assert moved[0] == 1.0 and moved[-1] == t[-1] and (np.diff(moved) < 0).all()
    inside = ((moved < t[1]) & (moved > t[2])).sum()
    assert inside >= 2      # they gather where swaps are rejected
    for rejection in ([0.0] * 4, [1.0, 0.0, 0.0, 1.0]):
        moved = even_temperatures(t, np.array(rejection))
        assert (np.diff(moved) < 0).all() and moved[-1] == t[-1]


def test_tuning_evens_out_the_swaps_and_ends_with_the_burn_in():
    model = make_model(n_trees=1, n_rows=200)
    rates, n_burn = {}, 4_000
    for tune in (False, True):
        ladder = make_ladder(model, bart.Ladder(n_rungs=5, t_min=0.001, tune=tune), n_tune=n_burn)
        ladder.run(n_burn)
        frozen = list(ladder.temperatures)
        assert [ladder.ensembles[e].temperature for e in ladder.order] == frozen
        swaps = ladder.run(4_000)["swaps"]
        assert ladder.temperatures == frozen and (frozen != list(ladder.ladder.temperatures)) == tune
        rates[tune] = (swaps == 1).sum(axis=0) / (swaps >= 0).sum(axis=0)
    assert np.ptp(rates[True]) < 0.5 * np.ptp(rates[False]), rates


def test_tuning_needs_swaps_to_learn_from(model):
    """Ten of each pair, two rounds each: a short burn-in moves nothing."""
    ladder = make_ladder(model, bart.Ladder(n_rungs=3, t_min=0.2), n_tune=19)
    ladder.run(100)
    assert ladder.temperatures == list(ladder.ladder.temperatures)


def check_frozen(model):
    short, long = (sample(model, SAMPLER, **{**SIZE, "n_draws": n}) for n in (1, 120))
    assert not np.array_equal(short.temperatures[0], LADDER.temperatures)
    np.testing.assert_array_equal(short.temperatures, long.temperatures)


def test_temperatures_are_frozen_after_the_burn_in(model, monkeypatch):
    check_frozen(model)
    # Tuning that goes on is seen.
    monkeypatch.setattr(TemperedEnsemble, "_tunes", lambda ladder: min(ladder._tried) >= 10)
    with pytest.raises(AssertionError):
        check_frozen(model)


# The same bits


def test_same_seed_same_bits_and_chains_do_not_depend_on_their_number(model, whole):
    assert_same(whole, sample(model, SAMPLER, **SIZE))
    one = sample(model, SAMPLER, **{**SIZE, "n_chains": 1})
    np.testing.assert_array_equal(one["sigma"][0], whole["sigma"][0])
    assert not np.array_equal(whole["sigma"][0], whole["sigma"][1])
    assert (whole.tempering.swaps == 1).any()


@pytest.mark.parametrize("options", [{"executor": 2}, {"n_threads": 2}])
def test_threads_change_nothing(model, whole, options):
    assert_same(whole, sample(model, SAMPLER, **SIZE, **options))


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_processes_change_nothing(model, whole, method):
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
        assert_same(whole, sample(model, SAMPLER, executor=pool, **SIZE))


@pytest.mark.parametrize("block", [1, 5, 4096])
def test_size_of_segments_and_blocks_change_nothing(model, whole, monkeypatch, block):
    monkeypatch.setattr("bart.chain._CHUNK_SECONDS", 1e-9)
    monkeypatch.setattr("bart.executors._SEGMENT_SECONDS", 1e-9)
    monkeypatch.setattr("bart.tempering._BLOCK", block)
    assert_same(whole, sample(model, SAMPLER, **SIZE))


def test_blocks_within_one_call_change_nothing(model, monkeypatch):
    whole = make_ladder(model, LADDER, n_tune=80).run(100)
    monkeypatch.setattr("bart.tempering._BLOCK", 7)
    cut = make_ladder(model, LADDER, n_tune=80).run(100)
    for name in set(whole) - {"seconds"}:
        np.testing.assert_array_equal(whole[name], cut[name])


@pytest.mark.parametrize("cut", [1, 10, 42, 44, 47])
def test_cut_at_a_checkpoint_and_resumed(model, whole, tmp_path, monkeypatch, cut):
    """A draw a segment: cuts within rounds, at the end of the burn-in, after it."""
    options = {**SIZE, "checkpoint": tmp_path / "run", "checkpoint_sweeps": 1}
    with interrupted_at(monkeypatch, cut):
        sample(model, SAMPLER, **options)
    assert_same(whole, sample(model, SAMPLER, **{**options, "seed": None}))


def test_a_finished_run_is_extended_and_shortened(model, whole, tmp_path):
    options = {**SIZE, "checkpoint": tmp_path / "run"}
    short = sample(model, SAMPLER, **{**options, "n_draws": 4})
    assert_same(whole, sample(model, SAMPLER, **options))
    assert_same(short, sample(model, SAMPLER, **{**options, "n_draws": 4}))


def test_resuming_another_ladder_is_refused(model, tmp_path):
    options = {**SIZE, "checkpoint": tmp_path / "run"}
    sample(model, SAMPLER, **options)
    for other in (None, bart.Ladder(n_rungs=3, t_min=0.3, every=3), bart.Ladder(n_rungs=3, t_min=0.2)):
        with pytest.raises(ValueError, match="other run"):
            sample(model, SAMPLER, **{**options, "ladder": other})


# What is reported


def test_swap_rates_and_round_trips_of_known_swaps():
    """Burn-in of one sweep; then a state goes 0 -> 1 -> 2 and back, another follows it up."""
    swaps = np.array([[1, 1], [1, -1], [-1, 1], [0, -1], [-1, 1], [1, -1]], dtype=np.int8)[None]
    found = Tempering(np.array([[1.0, 0.5, 0.2]]), swaps, 1)
    np.testing.assert_allclose(found.swap_rates, [[2 / 3, 1.0]])
    np.testing.assert_array_equal(found.round_trips, [1])
    # The state at t = 1 turns back before the last rung; and a burn-in that leaves no round.
    turned = np.array([[1, -1], [-1, 0], [1, -1]], dtype=np.int8)[None]
    np.testing.assert_array_equal(Tempering(found.temperatures, turned, 0).round_trips, [0])
    assert np.isnan(Tempering(found.temperatures, turned, 3).swap_rates).all()


def test_two_rungs_make_a_round_trip_with_two_swaps():
    swaps = np.array([1, 0, 1, 1, 1, 1], dtype=np.int8).reshape(1, 6, 1)
    found = Tempering(np.array([[1.0, 0.5]]), swaps, 0)
    # Either state makes its own; of the five swaps made, the first comes back with 2 and 4, the second with 3 and 5.
    np.testing.assert_array_equal(found.round_trips, [4])


def test_a_run_reports_its_ladder(whole):
    assert whole.temperatures.shape == (2, 3) and whole.swap_rates.shape == (2, 2)
    assert whole.round_trips.shape == (2,)
    assert (whole.temperatures[:, 0] == 1).all() and (whole.temperatures[:, -1] == 0.2).all()
    assert ((whole.swap_rates >= 0) & (whole.swap_rates <= 1)).all()
    assert "tempering: 3 rungs" in str(whole.summary()).splitlines()[-1]
    assert whole.header["ladder"] == repr(LADDER)
    assert "swaps" not in list(whole)


def test_a_run_without_a_ladder_reports_none(model):
    plain = sample(model, SAMPLER, **{**SIZE, "ladder": None})
    assert plain.temperatures is None and plain.swap_rates is None and plain.round_trips is None
    assert "tempering" not in str(plain.summary())


def test_files_and_pickles_keep_it(whole, tmp_path):
    whole.save(tmp_path / "run.npz")
    for copy in (bart.load(tmp_path / "run.npz"), pickle.loads(pickle.dumps(whole))):
        assert_same(whole, copy)
        np.testing.assert_array_equal(copy.swap_rates, whole.swap_rates)
        np.testing.assert_array_equal(copy.round_trips, whole.round_trips)
