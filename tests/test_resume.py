"""resume(): a run goes on from its folder alone, killed at any instant, and equals the run that was not cut."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from chain_helpers import assert_same, child_environment, interrupted_at, make_data, make_model, wait_for

import bart
from bart.checkpoints import CheckpointFolder
from bart.runs import model_of_record, model_record
from bart.storage import read_record, write_record

SIZE = {"n_burn": 5, "n_draws": 6, "n_chains": 3, "seed": 4, "progress": False}


class Mine(bart.TreeSampler):
    """A sampler of one's own, which no file can hold."""

    def __repr__(self):
        return "Mine()"

    def step(self, state, target, params, rng):
        return bart.GrowPrune().step(state, target, params, rng)


MODELS = {
    "plain": {},
    "grid": {"cuts": "grid", "n_cuts": 7, "noise_shape": "full"},
    "quantiles": {"cuts": "quantile", "dim_weights": (1.0, 0.0, 2.0), "sigma_hat": 0.3},
    "fixed": {"sigma": 0.4, "leaf_mean": 0.1, "leaf_var": 0.7, "threshold": "midpoint"},
    "probit": {"outcome": "probit", "offset": 0.3},
    "unscaled": {"scale": False, "sigma_hat": "sd", "alpha": 0.5, "beta": 0.25, "k": 1.5, "nu": 4.0, "q": 0.75},
}


def probit_model():
    X, y = make_data()
    return bart.Model(X, y > y.mean(), n_trees=4, **MODELS["probit"])


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_is_made_again_bit_for_bit(kind, tmp_path):
    model = make_model(**MODELS[kind]) if kind != "probit" else probit_model()
    write_record(tmp_path / "model", model_record(model))
    again = model_of_record(read_record(tmp_path / "model"))
    assert repr(again) == repr(model)
    assert vars(again).keys() == vars(model).keys() and vars(again.dataset).keys() == vars(model.dataset).keys()
    for name, value in vars(model.dataset).items():
        np.testing.assert_array_equal(getattr(again.dataset, name), value, err_msg=name)
    assert type(again.outcome) is type(model.outcome)
    for name in set(vars(model)) - {"dataset", "codes", "_domain", "outcome"}:
        assert getattr(again, name) == getattr(model, name), name
    np.testing.assert_array_equal(again.codes.codes, model.codes.codes)
    options = {**SIZE, "keep_burn_trees": True}
    assert_same(bart.sample(again, "growprune", **options), bart.sample(model, "growprune", **options))


@pytest.mark.parametrize("cut", [1, 4, 8])
@pytest.mark.parametrize(
    "options",
    [
        {"sampler": "cgm", "keep_burn_trees": True, "thin": 2},
        {"sampler": "auto", "n_trees": 1, "keep_trees": False},
        {"sampler": "growprune + joint(every=2)", "tree_order": "random", "executor": 2},
        {"sampler": "growprune + slide", "keep_burn_trees": True},
        {"sampler": "growprune", "ladder": bart.Ladder(n_rungs=3, t_min=0.3, every=2), "init": ["prior", "empty"]},
        {"sampler": "pg(n_particles=3)", "init": [[(0, 3, None, None), None, None, None], "overgrown"],
         "init_leaves": 3},
    ],
    ids=["thin", "auto", "joint", "slide", "ladder", "starts"],
)  # fmt: skip
def test_resume_goes_on_without_model_sampler_or_settings(tmp_path, monkeypatch, options, cut):
    options = {**SIZE, **options}
    model = make_model(options.pop("n_trees", 4))
    whole = bart.sample(model, **options)
    with interrupted_at(monkeypatch, cut):
        bart.sample(model, checkpoint=tmp_path / "run", checkpoint_sweeps=1, **options)
    post = bart.resume(tmp_path / "run", progress=False)
    assert_same(whole, post)
    assert post.header["starts"] == whole.header["starts"] and post.sampler == whole.sampler
    assert post.ladder == whole.ladder and post.header["priors"] == whole.header["priors"]
    assert_same(whole, bart.resume(tmp_path / "run"))           # of a finished run: the same again


def test_a_run_that_was_cut_before_its_first_checkpoint(tmp_path, monkeypatch):
    def cut(*_):
        raise KeyboardInterrupt

    model = make_model()
    with monkeypatch.context() as patch:
        patch.setattr("bart.sampling.run_chains", cut)
        with pytest.raises(KeyboardInterrupt):
            bart.sample(model, "cgm", checkpoint=tmp_path / "run", **{**SIZE, "seed": None})
    post = bart.resume(tmp_path / "run")
    assert_same(post, bart.sample(model, "cgm", **{**SIZE, "seed": post.seed}))
    again = bart.sample(model, "cgm", checkpoint=tmp_path / "run", **{**SIZE, "seed": None})
    assert again.seed == post.seed


def test_more_draws_and_chains(tmp_path):
    model = make_model()
    bart.sample(model, "cgm", checkpoint=tmp_path / "run", **SIZE)
    post = bart.resume(tmp_path / "run", n_draws=11, n_chains=5, executor=2, n_threads=2, checkpoint_every=1.0)
    assert_same(post, bart.sample(model, "cgm", **{**SIZE, "n_draws": 11, "n_chains": 5}))


def test_names_of_columns_are_kept(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = make_data()
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    bart.sample(bart.Model(frame, y, n_trees=3), "cgm", checkpoint=tmp_path / "run", **SIZE)
    post = bart.resume(tmp_path / "run")
    assert post.header["column_names"] == ("a", "b", "c")
    with pytest.raises(ValueError, match="another order"):
        post.predict(frame[["b", "a", "c"]])


def test_a_sampler_of_ones_own_has_to_be_given(tmp_path, monkeypatch):
    model = make_model()
    with interrupted_at(monkeypatch, 2):
        bart.sample(model, Mine(), checkpoint=tmp_path / "run", checkpoint_sweeps=1, **SIZE)
    with pytest.raises(ValueError, match="give sampler="):
        bart.resume(tmp_path / "run")
    assert_same(bart.resume(tmp_path / "run", sampler=Mine()), bart.sample(model, Mine(), **SIZE))
    with pytest.raises(ValueError, match="other sampler"):
        bart.resume(tmp_path / "run", sampler="cgm")


def test_a_model_of_ones_own_has_to_be_given(tmp_path):
    class Own(bart.Model):
        pass

    model = Own(*make_data(), n_trees=3)
    whole = bart.sample(model, "cgm", checkpoint=tmp_path / "run", **SIZE)
    with pytest.raises(ValueError, match="give model="):
        bart.resume(tmp_path / "run")
    assert_same(bart.resume(tmp_path / "run", model=model), whole)
    with pytest.raises(ValueError, match="other data"):
        bart.resume(tmp_path / "run", model=Own(make_data()[0], make_data()[1] + 1e-9, n_trees=3))
    with pytest.raises(TypeError, match="model must be a Model"):
        bart.resume(tmp_path / "run", model=3)


def test_what_is_no_run_is_refused(tmp_path):
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(ValueError, match="no checkpointed run"):
            bart.resume(path)
    bart.sample(make_model(), "cgm", checkpoint=tmp_path / "run", **SIZE)
    with pytest.raises(TypeError, match="n_burn.*another run"):
        bart.resume(tmp_path / "run", n_burn=3)
    with pytest.raises(TypeError, match="n_draws"):
        bart.resume(tmp_path / "run", n_draws=2.5)
    file = tmp_path / "run" / "run.npz"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="run.npz"):
        bart.resume(tmp_path / "run")
    record = {"format": "bart run 99"}
    write_record(file, record)
    with pytest.raises(ValueError, match="format"):
        bart.resume(tmp_path / "run")
    file.unlink()
    with pytest.raises(ValueError, match="earlier versions"):
        bart.resume(tmp_path / "run")


def test_a_model_file_of_another_run_is_refused(tmp_path):
    X, y = make_data()
    for name, data in (("run", y), ("other", y + 1.0)):
        bart.sample(bart.Model(X, data, n_trees=3), "cgm", checkpoint=tmp_path / name, **SIZE)
    (mine,), (other,) = (list((tmp_path / name).glob("model-*.npz")) for name in ("run", "other"))
    mine.write_bytes(other.read_bytes())
    with pytest.raises(ValueError, match="other data"):
        bart.resume(tmp_path / "run")


def test_loading_runs_no_code(tmp_path):
    """A pickle, or a name of a class that is not one of the package's records, is refused."""

    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "exploded"),)

    bart.sample(make_model(), "cgm", checkpoint=tmp_path / "run", **SIZE)
    (file,) = (tmp_path / "run").glob("model-*.npz")
    record = read_record(file)
    whole = file.read_bytes()
    np.savez(tmp_path / "bomb.npz", record=np.array([Bomb()], dtype=object), allow_pickle=True)
    for content in ((tmp_path / "bomb.npz").read_bytes(), pickle.dumps(Bomb())):
        file.write_bytes(content)
        with pytest.raises(ValueError):
            bart.resume(tmp_path / "run")
    for label in ("os:mkdir", "bart.storage:atomic_file", "bart.model:Model", "pathlib:Path"):
        fields = {"path": {"value": str(tmp_path / "exploded")}}
        record["attributes"]["tree_prior"] = {"record": label, "fields": fields}
        write_record(file, record)
        with pytest.raises(ValueError, match="unknown"):
            bart.resume(tmp_path / "run")
    assert not (tmp_path / "exploded").exists()
    file.write_bytes(whole)
    assert bart.resume(tmp_path / "run").n_draws == 6


@pytest.mark.parametrize("kind", ["draws", "forests", "nodes", "traces"])
def test_parts_that_are_not_those_of_the_state_are_refused(tmp_path, kind):
    bart.sample(make_model(), "cgm", checkpoint=tmp_path / "run", **SIZE)
    file = tmp_path / "run" / "chain-001-part-00001.npz"
    record = read_record(file)
    n_trees = 4
    if kind in ("draws", "forests"):
        record["starts"] = record["starts"][: 3 * n_trees + 1]
        record["nodes"] = record["nodes"][: record["starts"][-1]]
    if kind == "draws":
        record["traces"] = {name: trace[:3] for name, trace in record["traces"].items()}
    elif kind == "nodes":
        record["nodes"]["left"][record["nodes"]["dim"] >= 0] = 2**31 - 1
    elif kind == "traces":
        record["traces"]["depth"] = record["traces"]["depth"][:3]
    write_record(file, record)
    match = "parts of chain 1 in .*run' hold 8 sweeps.* 11" if kind == "draws" else "part-00001.npz' is damaged"
    with pytest.raises(ValueError, match=match):
        bart.resume(tmp_path / "run", n_draws=12)


@pytest.mark.parametrize("name", ["run", "model-*", "chain-000-state", "chain-000-part-00000"])
def test_a_file_that_lacks_something_is_named(tmp_path, name):
    bart.sample(make_model(), "cgm", checkpoint=tmp_path / "run", **SIZE)
    (file,) = (tmp_path / "run").glob(f"{name}.npz")
    record = read_record(file)
    first = next(key for key in record if key != "format" and key != "outcome")
    write_record(file, {key: value for key, value in record.items() if key != first})
    with pytest.raises(ValueError, match=f"{file.name}' is damaged: KeyError"):
        bart.resume(tmp_path / "run", n_draws=12)


def test_a_damaged_state_of_a_chain_is_refused(tmp_path):
    bart.sample(make_model(), "cgm", checkpoint=tmp_path / "run", **SIZE)
    file = tmp_path / "run" / "chain-000-state.npz"
    whole = read_record(file)
    for name, match in (("trees", "by their leaf numbers"), ("order", "damaged state of a chain: KeyError")):
        record = read_record(file)
        if name == "trees":
            record["state"]["ensemble"]["trees"][0]["leaf"] = 2_000_000_000
        else:
            del record["state"]["ensemble"][name]
        write_record(file, record)
        with pytest.raises(ValueError, match=match):
            bart.resume(tmp_path / "run", n_draws=12)
        write_record(file, whole)


def test_two_runs_in_one_folder_are_refused(tmp_path):
    pytest.importorskip("fcntl")
    bart.sample(make_model(), "cgm", checkpoint=tmp_path / "run", **SIZE)
    (tmp_path / "run" / ".run.npz.1-ab.tmp").write_text("of the run under way")
    with CheckpointFolder(tmp_path / "run").lock():
        for begin in (bart.resume, lambda path: bart.sample(make_model(), "cgm", checkpoint=path, **SIZE)):
            with pytest.raises(RuntimeError, match="another run is under way in .*run"):
                begin(tmp_path / "run")
    assert (tmp_path / "run" / ".run.npz.1-ab.tmp").exists()
    bart.resume(tmp_path / "run")


def _wait(pipe):
    pipe.send("ready")
    pipe.recv()


def test_a_forked_worker_does_not_keep_the_lock(tmp_path):
    """As after a kill -9 of the process that began it."""
    pytest.importorskip("fcntl")
    fork = multiprocessing.get_context("fork")
    mine, other = fork.Pipe()
    child = fork.Process(target=_wait, args=(other,))
    with CheckpointFolder(tmp_path).lock():
        child.start()
        mine.recv()
    with CheckpointFolder(tmp_path).lock():
        assert child.is_alive()
    mine.send("go")
    child.join()


def test_files_left_by_a_kill_are_cleared(tmp_path):
    bart.sample(make_model(), "cgm", checkpoint=tmp_path / "run", **SIZE)
    litter = [".chain-000-state.npz.1-ab.tmp", ".run.npz.1-ab.tmp", ".model-0.npz.2-cd.tmp"]
    for name in [*litter, "notes.tmp", ".mine"]:
        (tmp_path / "run" / name).write_text("x")
    bart.resume(tmp_path / "run")
    left = {path.name for path in (tmp_path / "run").iterdir()}
    assert not left & set(litter) and {"notes.tmp", ".mine"} <= left


# kill -9

SCRIPT = """
    import sys
    import numpy as np
    import bart
    from chain_helpers import make_data
    options = dict(n_draws=int(sys.argv[2]), n_burn=15, n_chains=3, seed=8, progress=False, keep_burn_trees=True,
                   checkpoint=sys.argv[1], checkpoint_sweeps=2)
    if sys.argv[3] == "begin":
        bart.sample(bart.Model(*make_data(400), n_trees=20), "cgm", **options)
    else:
        bart.resume(sys.argv[1])
    print("done", flush=True)
"""
N_DRAWS = 150


def killed(folder, how, wait):
    """Begin a run in a process, or resume it, and kill -9 it `wait` seconds after its settings are stored."""
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), str(folder), str(N_DRAWS), how],
        env=kill_environment(), stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        wait_for(lambda: (folder / "run.npz").exists() or child.poll() is not None)
        time.sleep(wait)
    finally:
        child.send_signal(signal.SIGKILL)
        out = child.communicate()[0]
    return b"done" not in out


def kill_environment():
    environment = child_environment()
    return {**environment, "PYTHONPATH": os.pathsep.join([environment["PYTHONPATH"], os.path.dirname(__file__)])}


@pytest.fixture(scope="module")
def uncut():
    model = bart.Model(*make_data(400), n_trees=20)
    return bart.sample(model, "cgm", n_draws=N_DRAWS, n_burn=15, n_chains=3, seed=8, progress=False,
                       keep_burn_trees=True)  # fmt: skip


def check_kills(uncut, folder, waits):
    """Each run is killed, and resumed here; every third one is killed again while it is resumed. Kills that hit."""
    n_hit = 0
    for number, wait in enumerate(waits):
        path = folder / str(number)
        n_hit += killed(path, "begin", wait)
        if number % 3 == 2:
            n_hit += killed(path, "resume", 0.4 + wait)
        assert_same(uncut, bart.resume(path, progress=False))
    return n_hit


def test_killed_at_random_instants(uncut, tmp_path, rng):
    assert check_kills(uncut, tmp_path, rng.uniform(0.0, 0.5, 3)) >= 1


@pytest.mark.long
def test_killed_at_twenty_random_instants(uncut, tmp_path, rng):
    assert check_kills(uncut, tmp_path, rng.uniform(0.0, 1.0, 20)) >= 5
