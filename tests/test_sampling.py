"""sample(): the same bits however chains are run, cut, resumed or stored, and what traces must look like."""

import concurrent.futures
import logging
import multiprocessing
import pickle
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from chain_helpers import assert_same, child_environment, interrupted_at, make_data, make_model, wait_for

import bart
from bart.chain import START_KINDS, Chain, ChainPlan, join_segments
from bart.checkpoints import describe
from bart.sampling import bytes_per_draw, sample
from bart.storage import read_record, write_record

SAMPLERS = [bart.GrowPrune(), bart.CGM(), bart.ParticleGibbs(n_particles=4)]
IDS = ["growprune", "cgm", "pg"]
SIZE = {"n_burn": 7, "n_draws": 9, "n_chains": 4, "seed": 11, "progress": False}


@pytest.fixture(scope="module")
def model():
    return make_model()


@pytest.fixture(scope="module", params=SAMPLERS, ids=IDS)
def whole(request, model):
    """A run that nothing disturbed."""
    return request.param, sample(model, request.param, keep_burn_trees=True, **SIZE)


# The draws depend on nothing but model, sampler, seed and number of the chain


def test_same_seed_same_bits_and_another_seed_others(model, whole):
    sampler, post = whole
    assert_same(post, sample(model, sampler, keep_burn_trees=True, **SIZE))
    other = sample(model, sampler, **{**SIZE, "seed": 12})
    assert not np.array_equal(post["sigma"], other["sigma"])


@pytest.mark.parametrize("executor", [1, 2, 4])
def test_threads_change_nothing(model, whole, executor):
    sampler, post = whole
    assert_same(post, sample(model, sampler, keep_burn_trees=True, executor=executor, **SIZE))


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_processes_change_nothing(model, whole, method):
    sampler, post = whole
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        assert_same(post, sample(model, sampler, keep_burn_trees=True, executor=pool, **SIZE))


def test_chains_are_pairwise_different_and_do_not_depend_on_their_number(model, whole):
    sampler, post = whole
    sigma = post["sigma"]
    assert len({chain.tobytes() for chain in sigma}) == len(sigma)
    two = sample(model, sampler, keep_burn_trees=True, **{**SIZE, "n_chains": 2})
    np.testing.assert_array_equal(two["sigma"], sigma[:2])


def test_progress_and_size_of_segments_change_nothing(model, whole, monkeypatch):
    sampler, post = whole
    monkeypatch.setattr("bart.chain._CHUNK_SECONDS", 1e-9)
    monkeypatch.setattr("bart.executors._SEGMENT_SECONDS", 1e-9)
    assert_same(post, sample(model, sampler, keep_burn_trees=True, **{**SIZE, "progress": True}))


def test_seeds_without_a_number_are_recorded(model):
    size = {**SIZE, "seed": None}
    post = sample(model, SAMPLERS[0], **size)
    assert_same(post, sample(model, SAMPLERS[0], **{**size, "seed": post.seed}))
    assert not np.array_equal(post["sigma"], sample(model, SAMPLERS[0], **size)["sigma"])


def test_a_sequence_may_be_the_seed(model):
    size = {**SIZE, "seed": [3, 1, 4]}
    post = sample(model, SAMPLERS[0], **size)
    assert post.seed == [3, 1, 4]
    assert_same(post, sample(model, SAMPLERS[0], **{**size, "seed": np.array([3, 1, 4])}))


# Cut and resumed


@pytest.mark.parametrize("executor", [None, 2])
@pytest.mark.parametrize("cut", [1, 3, 6, 9])
def test_cut_at_any_checkpoint_and_resumed(model, whole, tmp_path, monkeypatch, cut, executor):
    sampler, post = whole
    options = {**SIZE, "keep_burn_trees": True, "executor": executor}
    options |= {"checkpoint": tmp_path / "run", "checkpoint_sweeps": 1}
    with interrupted_at(monkeypatch, cut):
        sample(model, sampler, **options)
    resumed = sample(model, sampler, **{**options, "seed": None})
    assert resumed.seed == SIZE["seed"]
    assert_same(post, resumed)


def test_a_finished_run_is_extended_and_shortened(model, whole, tmp_path):
    sampler, post = whole
    options = {**SIZE, "keep_burn_trees": True, "checkpoint": tmp_path / "run"}
    short = sample(model, sampler, **{**options, "n_draws": 4})
    np.testing.assert_array_equal(short["sigma"], post["sigma"][:, :4])
    assert_same(post, sample(model, sampler, **options))
    assert_same(short, sample(model, sampler, **{**options, "n_draws": 4}))


def test_resuming_with_thinning_and_an_odd_burn_in(tmp_path):
    model = make_model()
    options = {"n_burn": 5, "n_draws": 6, "thin": 3, "n_chains": 2, "seed": 1, "keep_burn_trees": True}
    post = sample(model, SAMPLERS[1], progress=False, **options)
    options |= {"checkpoint": tmp_path / "run", "checkpoint_sweeps": 1, "progress": False}
    sample(model, SAMPLERS[1], **{**options, "n_draws": 2})
    assert_same(post, sample(model, SAMPLERS[1], **options))


def test_more_chains_may_be_added(model, whole, tmp_path):
    sampler, post = whole
    options = {**SIZE, "keep_burn_trees": True, "checkpoint": tmp_path / "run"}
    sample(model, sampler, **{**options, "n_chains": 2})
    assert_same(post, sample(model, sampler, **options))


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("data", {"y": 1e-9}),
        ("model", {"alpha": 0.9}),
        ("sampler", {"sampler": bart.CGM(move_probs=(0.25, 0.25, 0.4, 0.1))}),
        ("run", {"n_burn": 8}),
        ("run", {"tree_order": "random"}),
        ("seed", {"seed": 12}),
        ("start", {"init": "empty"}),
    ],
)
def test_resuming_something_else_is_refused(tmp_path, what, change):
    X, y = make_data()
    options = {**SIZE, "checkpoint": tmp_path / "run"}
    sample(bart.Model(X, y, n_trees=4), SAMPLERS[1], **{**options, "n_draws": 2})
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    model = bart.Model(X, y + change.pop("y", 0.0) * X[:, 0], n_trees=4, alpha=change.pop("alpha", 0.95))
    sampler = change.pop("sampler", SAMPLERS[1])
    with pytest.raises(ValueError, match=f"other {what}"):
        sample(model, sampler, **{**options, **change})
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}


def test_a_checkpoint_is_a_folder(model, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="folder"):
        sample(model, SAMPLERS[0], checkpoint=tmp_path / "file", **SIZE)


def test_no_temporary_files_are_left(model, tmp_path):
    sample(model, SAMPLERS[0], checkpoint=tmp_path / "run", **SIZE)
    names = sorted(path.name for path in (tmp_path / "run").iterdir() if path.name != "lock")
    assert names and all(name.startswith(("chain-", "model-", "run")) and name.endswith(".npz") for name in names)


# Interrupts

SCRIPT = """
    import sys, time
    import numpy as np
    import bart
    X = np.random.default_rng(5).random((2000, 3))
    model = bart.Model(X, X[:, 0] + X[:, 1], n_trees=50)
    print("ready", flush=True)
    try:
        bart.sample(model, bart.GrowPrune(), n_draws=10_000_000, n_burn=0, n_chains=2, seed=1,
                    keep_trees=False, executor=EXECUTOR, checkpoint=sys.argv[1], checkpoint_every=0.05,
                    progress=False)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.mark.parametrize("executor", ["None", "2"])
def test_an_interrupt_is_honoured_and_leaves_the_last_checkpoint(tmp_path, executor):
    script = textwrap.dedent(SCRIPT).replace("EXECUTOR", executor)
    run = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "run")],
        stdout=subprocess.PIPE,
        text=True,
        env=child_environment(),
    )
    try:
        assert run.stdout.readline() == "ready\n"
        wait_for(lambda: list((tmp_path / "run").glob("*-state.npz")))
        run.send_signal(signal.SIGINT)
        out, _ = run.communicate(timeout=60)
    finally:
        run.kill()
    assert "interrupted" in out and run.returncode == 0
    states = [read_record(path) for path in (tmp_path / "run").glob("*-state.npz")]
    assert states and all(record["state"]["n_done"] > 0 for record in states)
    assert not list((tmp_path / "run").glob(".*"))


# Traces


def test_shapes_and_units(model, whole):
    _, post = whole
    assert post["sigma"].shape == (4, 9) and post.burn["sigma"].shape == (4, 7)
    assert post.sweeps["sigma"].shape == (4, 16)
    names = ("log_likelihood", "sigma", "n_leaves", "depth", "tree_changed", "root_changed", "row_visits", "seconds")
    for name in names:
        assert post[name].shape == (4, 9) and np.all(np.isfinite(post.sweeps[name]))
    assert np.all(post.sweeps["sigma"] > 0) and np.all(post.sweeps["seconds"] >= 0)
    assert np.all(post.sweeps["n_leaves"] >= model.n_trees) and np.all(post.sweeps["depth"] >= 0)
    for name in ("tree_changed", "root_changed"):
        assert np.all((post.sweeps[name] >= 0) & (post.sweeps[name] <= 1))
    assert np.all(post.sweeps["root_changed"] <= post.sweeps["tree_changed"])


def test_stored_forests_agree_with_the_traces(model, whole):
    _, post = whole
    for forest, leaves in zip(post.forests, post["n_leaves"], strict=True):
        per_tree = np.add.reduceat(forest.nodes["dim"] == -1, forest.starts[:-1])
        np.testing.assert_array_equal(per_tree.reshape(-1, model.n_trees).sum(axis=1), leaves)


def test_the_log_likelihood_is_that_of_the_stored_forest(model, whole):
    """sum_n log N(y_n | f(x_n), sigma^2), with the sigma of the sweep, in the units of y."""
    _, post = whole
    f = post.predict(model.dataset.X, draws=True).draws
    sigma = post["sigma"][..., None]
    terms = -0.5 * np.log(2.0 * np.pi * sigma**2) - 0.5 * ((model.dataset.y - f) / sigma) ** 2
    np.testing.assert_allclose(post["log_likelihood"], terms.sum(axis=2), rtol=1e-9)


@pytest.mark.parametrize(
    ("n_burn", "n_draws", "thin", "n_chains"), [(3, 7, 2, 3), (0, 5, 3, 2), (10, 1, 1, 1)]
)
def test_numbers_that_do_not_divide(model, n_burn, n_draws, thin, n_chains):
    size = {"n_burn": n_burn, "n_draws": n_draws, "thin": thin, "n_chains": n_chains, "seed": 2}
    post = sample(model, SAMPLERS[0], keep_burn_trees=True, progress=False, **size)
    assert post["sigma"].shape == (n_chains, n_draws)
    assert post.sweeps["sigma"].shape == (n_chains, n_burn + n_draws * thin)
    assert np.all(post.sweeps["sigma"] > 0) and np.all(post.sweeps["n_leaves"] > 0)
    np.testing.assert_array_equal(post["sigma"], post.sweeps["sigma"][:, n_burn + thin - 1 :: thin])
    assert all(len(forest.starts) == n_draws * model.n_trees + 1 for forest in post.forests)
    assert all(len(forest.starts) == n_burn // thin * model.n_trees + 1 for forest in post.burn_forests)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=IDS)
def test_fixed_noise_is_in_the_units_of_y(sampler):
    X, y = make_data()
    y = 1000.0 * (y - y.mean()) / y.std()
    post = sample(bart.Model(X, y, n_trees=3, sigma=0.37), sampler, **{**SIZE, "n_chains": 1})
    np.testing.assert_allclose(post.sweeps["sigma"], 0.37, rtol=1e-12)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=IDS)
def test_stored_draws_share_no_memory(sampler):
    post = sample(make_model(n_trees=2), sampler, **{**SIZE, "n_burn": 0, "n_draws": 60, "n_chains": 1})
    changed = post["tree_changed"][0] > 0
    assert changed.any()
    f = post.predict(make_data()[0], draws=True).draws[0]
    assert not np.any(np.all(f[1:] == f[:-1], axis=1))


# Small and degenerate data


@pytest.mark.parametrize("sampler", SAMPLERS, ids=IDS)
@pytest.mark.parametrize(
    ("X", "most_leaves"),
    [
        ([[0.3]], 1),
        ([[0.3], [0.4]], 2),
        ([[1.0, 5.0], [2.0, 5.0], [2.0, 5.0]], 2),
        ([[7.0, 7.0]] * 6, 1),
        ([[1.0], [2.0]] * 50, 2),
        ([list(range(30)), list(range(1, 31))], 2),
    ],
    ids=[
        "one row",
        "two rows",
        "constant column",
        "identical rows",
        "two distinct rows",
        "more columns than rows",
    ],
)
def test_small_data(sampler, X, most_leaves):
    X = np.array(X, dtype=float)
    y = np.linspace(-1.0, 1.0, len(X))
    post = sample(bart.Model(X, y, n_trees=2, sigma=0.5), sampler, **SIZE)
    assert np.all(post.sweeps["n_leaves"] <= 2 * most_leaves) and np.all(post.sweeps["n_leaves"] >= 2)
    assert np.all(np.isfinite(post.sweeps["log_likelihood"]))
    assert np.all(np.isfinite(post.predict(X))) and post.predict(X).shape == (len(X),)


class InPython(bart.TreeSampler):
    """A user's own sampler around a compiled step."""

    def __init__(self, inner):
        self.inner = inner

    def step(self, state, target, params, rng):
        return self.inner.step(state, target, params, rng)


def test_a_sampler_in_python_gives_the_bits_of_the_compiled_sweep(model, whole):
    sampler, post = whole
    found = sample(model, InPython(sampler), keep_burn_trees=True, **SIZE)
    assert_same(found, post)
    assert_same(found, sample(model, InPython(sampler), keep_burn_trees=True, executor=2, **SIZE))


# Starts


def test_dispersed_starts_cycle(model):
    post = sample(model, SAMPLERS[0], **{**SIZE, "n_chains": 6})
    assert post.starts == [*START_KINDS, "empty", "prior"]
    alone = sample(model, SAMPLERS[0], **{**SIZE, "n_chains": 1, "init": "empty"})
    np.testing.assert_array_equal(alone["sigma"][0], post["sigma"][0])


def test_given_structures_are_the_start():
    X = np.arange(12.0)[:, None]
    model = bart.Model(X, np.repeat([0.0, 5.0], 6) + 0.01 * X[:, 0], n_trees=2, sigma=0.1)
    stump, split = [None, None], [(0, 5, None, None), None]
    size = {"n_burn": 0, "n_draws": 1, "n_chains": 3, "seed": 1}
    post = sample(model, bart.GrowPrune(), init=[stump, split, "empty"], **size)
    assert post.starts == ["given", "given", "empty"]
    one_step = post["n_leaves"][:, 0]
    assert abs(one_step[1] - 3) <= 2 and post["log_likelihood"][1, 0] > post["log_likelihood"][0, 0]


@pytest.mark.parametrize("init", ["nowhere", [], ["empty", "nowhere"], [[None]], 3, None])
def test_bad_starts_are_refused(model, init):
    with pytest.raises((TypeError, ValueError), match="init"):
        sample(model, SAMPLERS[0], **{**SIZE, "init": init})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_burn", -1), ("n_burn", 1.5), ("n_draws", 0), ("n_draws", True), ("n_chains", 0), ("thin", 0),
        ("seed", -1), ("seed", 1.0), ("tree_order", "none"), ("executor", 0), ("executor", "threads"),
        ("checkpoint_sweeps", 0), ("checkpoint_every", 0.0), ("keep_trees", 1),
        ("progress", "no"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused_by_name(model, tmp_path, name, value):
    with pytest.raises((TypeError, ValueError), match=f"{name}.* (must|got)"):
        sample(model, SAMPLERS[0], **{**SIZE, "checkpoint": tmp_path / "run", name: value})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("idle, of", [
    ({"checkpoint_every": 60.0}, "checkpoint"), ({"checkpoint_sweeps": 5}, "checkpoint"),
    ({"callback_every": 1.0}, "callback"),
])  # fmt: skip
def test_arguments_without_effect_are_refused(model, idle, of):
    with pytest.raises(ValueError, match=f"{next(iter(idle))}=.* has no effect without {of}"):
        sample(model, SAMPLERS[0], **SIZE, **idle)


def test_only_models_and_samplers_are_sampled(model):
    with pytest.raises(TypeError, match="model"):
        sample(make_data(), SAMPLERS[0], **SIZE)
    with pytest.raises(TypeError, match="sampler"):
        sample(model, 3, **SIZE)


# Every parameter that defines the draws changes them


@pytest.mark.parametrize(
    "change",
    [
        {"alpha": 0.5}, {"beta": 0.5}, {"k": 1.0}, {"nu": 10.0}, {"q": 0.5}, {"sigma_hat": "sd"},
        {"sigma": 0.2}, {"leaf_mean": 0.5}, {"leaf_var": 0.5}, {"n_trees": 5}, {"noise_shape": "full"},
        {"cuts": "grid"}, {"dim_weights": (1.0, 0.0, 1.0)}, {"scale": False},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_every_model_parameter_changes_the_draws(change):
    size = {**SIZE, "n_chains": 1, "n_draws": 30, "init": "empty", "keep_trees": False}
    options = {"n_trees": 4, **change}
    first = sample(make_model(), SAMPLERS[1], **size)
    other = sample(bart.Model(*make_data(), **options), SAMPLERS[1], **size)
    assert not np.array_equal(first["log_likelihood"], other["log_likelihood"])


def test_the_threshold_rule_changes_predictions():
    size = {**SIZE, "n_chains": 1, "init": "empty"}
    rows = np.random.default_rng(1).random((200, 3))
    first = sample(make_model(), SAMPLERS[1], **size).predict(rows)
    other = sample(make_model(threshold="midpoint"), SAMPLERS[1], **size).predict(rows)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (bart.GrowPrune(), bart.GrowPrune(p_grow=0.7)),
        (bart.CGM(), bart.CGM(move_probs=(0.25, 0.25, 0.4, 0.1))),
        (bart.ParticleGibbs(), bart.ParticleGibbs(n_particles=5)),
        (bart.ParticleGibbs(), bart.ParticleGibbs(resampling="systematic")),
        (bart.ParticleGibbs(), bart.ParticleGibbs(resampling="killing")),
        (bart.ParticleGibbs(), bart.ParticleGibbs(ess_threshold=0.5)),
        (bart.ParticleGibbs(), bart.ParticleGibbs(final="forced")),
        (bart.ParticleGibbs(), bart.ParticleGibbs(bookkeeping="authors")),
    ],
)
def test_every_sampler_parameter_changes_the_draws(model, first, other):
    size = {**SIZE, "n_chains": 1, "n_draws": 60, "init": "overgrown", "keep_trees": False}
    traces = [sample(model, sampler, **size)["log_likelihood"] for sampler in (first, other)]
    assert not np.array_equal(*traces)


def test_tree_order_changes_the_draws(model):
    traces = [
        sample(model, SAMPLERS[0], tree_order=order, **SIZE)["sigma"] for order in ("sequential", "random")
    ]
    assert not np.array_equal(*traces)


# Size


def test_bytes_are_reported_before_the_run(model, caplog):
    with caplog.at_level(logging.INFO, "bart.sampling"):
        sample(model, SAMPLERS[0], **SIZE)
    assert any("kB a draw" in record.message for record in caplog.records)


def test_the_expected_bytes_of_a_draw():
    # Under alpha 0 every tree is one node: 16 bytes, and 8 for its start.
    assert bytes_per_draw(make_model(n_trees=10, alpha=0.0)) == 10 * 24
    # Default prior: p_split .95, .2375, .1056, ... at depths 0, 1, 2, ...: about 2.5 leaves, 4 nodes a tree.
    assert 10 * (16 * 3.7 + 8) < bytes_per_draw(make_model(n_trees=10)) < 10 * (16 * 4.5 + 8)


def test_a_large_run_warns_before_it_starts(monkeypatch):
    class Begun(Exception):
        pass

    def begin(*_):
        raise Begun

    monkeypatch.setattr("bart.sampling.run_chains", begin)
    with pytest.warns(UserWarning, match="kB a draw"), pytest.raises(Begun):
        sample(make_model(n_trees=200), SAMPLERS[0], n_draws=1_000_000, progress=False)


def test_the_pickle_is_no_larger_than_the_memory(model):
    for keep_trees in (True, False):
        post = sample(model, SAMPLERS[0], keep_trees=keep_trees, **{**SIZE, "n_draws": 500})
        assert len(pickle.dumps(post)) < 1.2 * post.nbytes
    assert_same(post, pickle.loads(pickle.dumps(post)))


# Parts


def test_a_chain_travels_between_processes(model):
    plan = ChainPlan(n_burn=3, n_draws=8, keep_burn_trees=True)
    seeds = np.random.SeedSequence(3).spawn(2)
    for start in ("overgrown", "prior", "grow"):
        plain, moved = (Chain(model, SAMPLERS[2], plan, seeds[1], start) for _ in range(2))
        expected = [plain.advance(60.0), plain.advance(60.0)]
        found = []
        while not moved.is_done:
            moved = pickle.loads(pickle.dumps(moved))
            found.append(moved.advance(0.0, 1))
        assert len(found) == 11
        for in_burn, whole_phase in zip((True, False), expected, strict=True):
            part = join_segments([item for item in found if item.in_burn == in_burn], model.n_trees)
            np.testing.assert_array_equal(part.traces["sigma"], whole_phase.traces["sigma"])
            assert part.forests.nodes.tobytes() == whole_phase.forests.nodes.tobytes()


def test_records_keep_types_and_bits(tmp_path):
    record = {
        "none": None, "flag": True, "large": 2**127 + 1, "float": 0.1, "nan": float("inf"), "text": "ü",
        "bytes": b"\x00\xff", "list": [1, (2, [3.0])], 5: {"a": np.float32(0.1)},
        "array": np.arange(6, dtype=np.uint16).reshape(2, 3),
        "structured": np.zeros(2, [("a", "<i4"), ("b", "<f8")]),
        "empty": np.zeros((0, 2)), "tree": (0, 1, None, (1, 2, None, None)), "nothing": {},
    }  # fmt: skip
    write_record(tmp_path / "record", record)
    found = read_record(tmp_path / "record")
    assert list(found) == list(record)
    for key, value in record.items():
        if isinstance(value, np.ndarray):
            assert found[key].dtype == value.dtype and found[key].tobytes() == value.tobytes()
        else:
            assert found[key] == value and type(found[key]) is type(value)
    assert isinstance(found[5]["a"], np.float32) and isinstance(found["list"][1], tuple)


def test_a_record_that_cannot_be_written_leaves_the_old_file(tmp_path):
    write_record(tmp_path / "record", {"a": 1})
    for bad in (object(), np.array([None]), {"deep": [set()]}):
        with pytest.raises(TypeError):
            write_record(tmp_path / "record", {"a": bad})
    assert read_record(tmp_path / "record") == {"a": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["record"]


def test_settings_are_described_by_value():
    assert describe(bart.CGM()) == describe(bart.CGM())
    assert describe(bart.ParticleGibbs(n_particles=3)) != describe(bart.ParticleGibbs(n_particles=4))
    assert describe([1, 1.0, "1"]) != describe([1, "1", 1.0])
    assert describe(np.arange(3)) != describe(np.arange(3.0))

    class Opaque:
        __slots__ = ()

    with pytest.raises(TypeError, match="cannot be read off"):
        describe(Opaque())
