"""What ends a run early decides how many draws there are, never which: callback, time limit, targets; the bar."""

import concurrent.futures
import sys
import time
import warnings

import numpy as np
import pytest
from chain_helpers import assert_same, make_model

import bart
from bart import diagnostics
from bart.progress import Bar

SIZE = {"n_burn": 6, "n_chains": 3, "seed": 21, "progress": False}


@pytest.fixture(scope="module")
def model():
    return make_model()


@pytest.fixture(scope="module")
def long_run(model):
    """More draws than any of the runs below makes."""
    return bart.sample(model, "growprune", n_draws=3000, **SIZE)


@pytest.fixture
def small_segments(monkeypatch):
    """Segments of about one sweep, so that what looks at a run has much to look at."""
    monkeypatch.setattr("bart.chain._CHUNK_SECONDS", 1e-9)
    monkeypatch.setattr("bart.executors._SEGMENT_SECONDS", 1e-9)


def assert_first_draws(post, whole):
    """`post` holds the first draws of `whole`, bit for bit, as many of every chain, forests included."""
    n, n_trees = post.n_draws, post.header["n_trees"]
    assert 0 < n <= whole.n_draws
    for name in post:
        if name != "seconds":
            np.testing.assert_array_equal(post.burn[name], whole.burn[name])
            np.testing.assert_array_equal(post[name], whole[name][:, :n])
    for mine, other in zip(post.forests, whole.forests, strict=True):
        first = other.first(n, n_trees)
        assert mine.nodes.tobytes() == first.nodes.tobytes() and mine.starts.tobytes() == first.starts.tobytes()


# Callback


@pytest.mark.parametrize("executor", [None, 2])
@pytest.mark.parametrize("how", ["return", "raise"])
def test_a_callback_ends_the_run_and_keeps_the_draws(model, long_run, small_segments, how, executor):
    seen = []

    def callback(state):
        seen.append(state)
        if state.n_draws.min() >= 5:
            if how == "raise":
                raise bart.StopSampling
            return True
        return False

    post = bart.sample(model, "growprune", n_draws=3000, callback=callback, callback_every=1e-9, executor=executor,
                       **SIZE)  # fmt: skip
    assert post.stopped == "callback" and 5 <= post.n_draws < 3000
    assert post.header["n_draws_asked"] == 3000
    assert_first_draws(post, long_run)
    assert post.predict(np.zeros((2, 3))).shape == (2,)
    counts = [state.n_sweeps.sum() for state in seen]
    assert counts == sorted(counts) and counts[0] >= 1


def test_what_a_callback_sees(model, long_run, small_segments):
    seen = []
    bart.sample(model, "growprune", n_draws=30, callback=seen.append, callback_every=1e-9, **SIZE)
    first, middle, last = seen[0], seen[len(seen) // 2], seen[-1]
    assert first["sigma"].shape == (3, 0) and np.isnan(first.r_hat("sigma")) and not first.is_done
    assert last.is_done and last["sigma"].shape == (3, 30) and last.n_sweeps.tolist() == [36, 36, 36]
    assert last.n_sweeps_planned == 36 and last.seconds >= middle.seconds >= first.seconds > 0
    np.testing.assert_array_equal(last["sigma"], long_run["sigma"][:, :30])
    assert last.r_hat("sigma") == diagnostics.split_rhat(last["sigma"])
    assert last.ess_bulk("n_leaves") == diagnostics.ess_bulk(last["n_leaves"])
    for chain, sweeps in enumerate(middle.sweeps("log_likelihood")):     # a snapshot: it did not move on
        n = middle.n_sweeps[chain]
        np.testing.assert_array_equal(sweeps, long_run.sweeps["log_likelihood"][chain][:n])
    with pytest.raises(KeyError, match="no trace"):
        last["mu"]


def test_with_thinning_a_callback_sees_kept_draws(small_segments):
    seen = []
    post = bart.sample(make_model(), "growprune", n_draws=7, thin=3, callback=seen.append, callback_every=1e-9, **SIZE)
    np.testing.assert_array_equal(seen[-1]["sigma"], post["sigma"])
    assert seen[-1].n_draws.tolist() == [7, 7, 7]


def test_a_callback_is_called_no_more_often_than_asked(model, small_segments):
    calls = []
    bart.sample(model, "growprune", n_draws=200, callback=lambda state: calls.append(None), callback_every=1e6, **SIZE)
    assert len(calls) == 1          # the one at the end


def broken(state):
    if state.n_sweeps.sum() > 40:
        raise ZeroDivisionError("mine")


@pytest.mark.parametrize("executor", [None, 2])
def test_an_error_in_a_callback_comes_out_and_loses_no_sweep(model, small_segments, executor, tmp_path):
    options = {"n_draws": 200, **SIZE, "callback_every": 1e-9, "executor": executor}
    with pytest.raises(ZeroDivisionError, match="mine"):
        bart.sample(model, "growprune", callback=broken, **options, checkpoint=tmp_path / "run")
    seen = []
    post = bart.resume(tmp_path / "run", callback=seen.append, callback_every=1e-9)
    assert seen[0].n_sweeps.sum() > 40
    options.pop("callback_every")
    assert_same(post, bart.sample(model, "growprune", **options))
    with pytest.raises(TypeError, match="callback must return"):
        bart.sample(model, "growprune", n_draws=200, callback=lambda state: "stop", callback_every=1e-9, **SIZE)


@pytest.mark.parametrize("callback, what", [(broken, "ZeroDivisionError.'mine'"), (lambda state: 1, "must return")])
def test_an_error_in_the_last_call_is_a_warning(model, callback, what, small_segments):
    plain = bart.sample(model, "growprune", n_draws=30, **SIZE)
    with pytest.warns(UserWarning, match=f"the last call of callback failed, the draws are whole: .*{what}") as told:
        post = bart.sample(model, "growprune", n_draws=30, callback=callback, callback_every=1e6, **SIZE)
    assert_same(post, plain)
    assert told[0].filename == __file__ and post.stopped is None


def test_a_run_that_ends_in_the_burn_in_says_so_and_may_be_resumed(model, tmp_path, small_segments):
    options = {"n_draws": 5, **SIZE, "checkpoint": tmp_path / "run"}
    with pytest.raises(RuntimeError, match="callback ended the run before every chain .*run' holds it, to be resumed"):
        bart.sample(model, "growprune", callback=lambda state: True, callback_every=1e-9, **options)
    assert list((tmp_path / "run").glob("chain-*-state.npz"))       # what was swept is not lost
    assert_same(bart.resume(tmp_path / "run"), bart.sample(model, "growprune", n_draws=5, **SIZE))


# Time


@pytest.mark.parametrize("executor", [None, 2, "pool"])
def test_a_time_limit_cuts_at_a_draw_and_is_recorded(tmp_path, executor):
    model = make_model(n_trees=60, n_rows=300)
    options = {**SIZE, "keep_trees": True, "thin": 2, "checkpoint": tmp_path / "run"}
    began = time.monotonic()
    if executor == "pool":
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            post = bart.sample(model, "cgm", n_draws=10**6, time_limit=0.8, executor=pool, **options)
    else:
        post = bart.sample(model, "cgm", n_draws=10**6, time_limit=0.8, executor=executor, **options)
    assert time.monotonic() - began < 20.0          # generous: machines pause
    assert post.stopped == "time_limit" and post.header["time_limit"] == 0.8
    assert len({len(chain) for chain in post["sigma"]}) == 1
    whole = bart.sample(model, "cgm", n_draws=post.n_draws, **{**options, "checkpoint": None})
    assert whole.stopped is None
    assert_same(post, whole)
    more = bart.resume(tmp_path / "run", n_draws=post.n_draws + 3)
    assert_first_draws(post, more)


def test_a_time_limit_within_the_burn_in(model):
    with pytest.raises(RuntimeError, match=r"time_limit ended .* chain \d had made \d+ sweeps"):
        bart.sample(model, "growprune", n_draws=5, time_limit=0.05, **{**SIZE, "n_burn": 10**7})


# Targets


def test_targets_fix_the_number_of_draws_whatever_the_executor(model, tmp_path, monkeypatch):
    long_run = bart.sample(model, "local", n_draws=1000, **SIZE)
    targets = bart.Targets(names=("sigma", "log_likelihood"), r_hat=1.05, ess_bulk=200, every=20)
    options = {**SIZE, "n_draws": 1000, "stop_when": targets}
    post = bart.sample(model, "local", **options)
    assert post.stopped == "stop_when" and post.n_draws % 20 == 0 and post.n_draws < 1000
    assert_first_draws(post, long_run)
    for name in targets.names:
        assert diagnostics.split_rhat(post[name]) <= 1.05 and diagnostics.ess_bulk(post[name]) >= 200
    looks, n = [], 0
    while (n := targets.next_look(n)) < post.n_draws:
        looks.append(targets.missed({name: long_run[name][:, :n] for name in targets.names}))
    assert looks and all(looks)         # at no earlier look were they met
    assert_same(post, bart.sample(model, "local", executor=2, **options))
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        monkeypatch.setattr("bart.executors._SEGMENT_SECONDS", 1e-9)
        as_dict = {"names": ["sigma", "log_likelihood"], "r_hat": 1.05, "ess_bulk": 200, "every": 20}
        parts = bart.sample(model, "local", executor=pool, checkpoint=tmp_path / "run",
                            **{**options, "stop_when": as_dict})  # fmt: skip
        assert_same(post, parts)
    again = bart.resume(tmp_path / "run")
    assert again.stopped == "stop_when"
    assert_same(post, again)
    assert bart.resume(tmp_path / "run", stop_when=None, n_draws=post.n_draws + 7).n_draws == post.n_draws + 7


def test_targets_that_are_missed_warn(model):
    with pytest.warns(UserWarning, match="stop_when is not met after 12 draws: sigma has bulk ESS"):
        post = bart.sample(model, "local", n_draws=12, stop_when={"names": "sigma", "r_hat": None, "ess_bulk": 1e6},
                           **SIZE)  # fmt: skip
    assert post.stopped is None and post.n_draws == 12


def test_looks_grow_with_the_number_of_draws():
    targets, looks = bart.Targets(every=10), [0]
    while looks[-1] < 100_000:
        looks.append(targets.next_look(looks[-1]))
    assert looks[1:4] == [10, 20, 30] and len(looks) < 150 and all(n % 10 == 0 for n in looks)


@pytest.mark.parametrize(
    "change",
    [{"names": ("sigma", "n_leaves")}, {"r_hat": 1.0001}, {"ess_bulk": 300.0}, {"every": 70}],
    ids=lambda change: next(iter(change)),
)
def test_every_target_matters(model, change):
    targets = {"names": "sigma", "r_hat": 1.3, "ess_bulk": 30.0, "every": 20}
    options = {**SIZE, "n_draws": 300, "keep_trees": False}
    few = bart.sample(model, "local", stop_when=targets, **options)
    assert few.stopped == "stop_when"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)        # the hard ones are not met
        other = bart.sample(model, "local", stop_when={**targets, **change}, **options)
    assert other.n_draws > few.n_draws


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("callback", 3), ("callback_every", 0), ("time_limit", 0), ("time_limit", "1"), ("time_limit", float("nan")),
        ("stop_when", 1.01), ("stop_when", {"rhat": 1.01}), ("stop_when", {"names": "mu"}), ("stop_when", {"names": 3}),
        ("stop_when", {"r_hat": 1.0}), ("stop_when", {"ess_bulk": -1}), ("stop_when", {"every": 3}),
        ("stop_when", {"r_hat": None, "ess_bulk": None}), ("stop_when", {"names": ()}),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused_by_name(model, tmp_path, name, value):
    with pytest.raises((TypeError, ValueError), match=name):
        bart.sample(model, "local", n_draws=3, checkpoint=tmp_path / "run", **{**SIZE, "callback": print, name: value})
    assert not (tmp_path / "run").exists()


def test_targets_that_nothing_can_reach_are_refused(model):
    with pytest.raises(ValueError, match="stop_when: R-hat needs two chains"):
        bart.sample(model, "local", n_draws=3, stop_when=bart.Targets(), **{**SIZE, "n_chains": 1})
    fixed = make_model(sigma=0.5)
    with pytest.raises(ValueError, match="stop_when: sigma is fixed"):
        bart.sample(fixed, "local", n_draws=3, stop_when=bart.Targets("sigma"), **SIZE)
    free = bart.sample(make_model(), "local", n_draws=200, stop_when={"r_hat": 9.0, "ess_bulk": 5.0}, **SIZE)
    assert "('sigma', 'log_likelihood')" in free.header["stop_when"]
    post = bart.sample(fixed, "local", n_draws=200, stop_when={"r_hat": 9.0, "ess_bulk": 5.0}, **SIZE)
    assert "('log_likelihood',)" in post.header["stop_when"] and post.stopped == free.stopped == "stop_when"
    one = {"r_hat": None, "ess_bulk": 5, "names": "n_leaves", "every": 10}
    assert bart.sample(fixed, "local", n_draws=300, stop_when=one, **{**SIZE, "n_chains": 1}).stopped == "stop_when"


def test_targets_without_arviz_name_the_extra(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match="diagnostics"):
        bart.sample(model, "local", n_draws=3, stop_when=bart.Targets(), **SIZE)
    assert bart.sample(model, "local", n_draws=3, **SIZE).n_draws == 3


def test_what_stopped_a_run_is_saved(model, tmp_path):
    post = bart.sample(model, "local", n_draws=400, stop_when={"r_hat": 3.0, "ess_bulk": 5.0}, **SIZE)
    post.save(tmp_path / "run.npz")
    found = bart.load(tmp_path / "run.npz")
    assert found.stopped == post.stopped == "stop_when" and found.header == post.header


# The bar


def test_a_bar_without_tqdm_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match=r"pip install 'pgbart\[progress\]'"):
        Bar(True, 1, "sweep", "sampling")


def test_the_bar_shows_r_hat_as_it_goes(model, monkeypatch, capsys, small_segments):
    monkeypatch.setattr("bart.stopping._NOTE_SECONDS", 0.0)
    monkeypatch.setattr("bart.stopping._NOTE_SHARE", 1e9)
    notes = []
    monkeypatch.setattr(Bar, "note", lambda bar, text: notes.append(text))
    bart.sample(model, "growprune", n_draws=40, **{**SIZE, "progress": True})
    assert notes[0] == "burn-in" and any(note.startswith("R-hat ") and "ESS" in note for note in notes)
    monkeypatch.setitem(sys.modules, "arviz", None)
    bart.sample(model, "growprune", n_draws=10, **{**SIZE, "progress": True})
    assert "sampling" in capsys.readouterr().err
