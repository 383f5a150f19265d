"""Figures: the sequence of partial trees, the files of each figure, and the drawing of traces."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from experiments import command, figure_1, figure_2, paper, pictures, problems, traces  # noqa: E402
from experiments.settings import PAPER  # noqa: E402

QUANTITIES = [name for name, _, _ in traces.QUANTITIES]
EPSILON = figure_1.ROOT


def pixel_size(path):
    """Width and height in the header of a PNG file."""
    head = Path(path).read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", head[16:24])


def is_cut_off(figure):
    """Whether anything drawn reaches beyond the picture."""
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    return min(box.x0, box.y0, width - box.x1, height - box.y1) < -1e-6


# The sequence of partial trees


def random_structure(rng, depth=0):
    if depth > 5 or rng.random() > 0.75 / (1 + 0.2 * depth):
        return None
    dim, rule = int(rng.integers(4)), float(rng.normal())
    return dim, rule, random_structure(rng, depth + 1), random_structure(rng, depth + 1)


def node_names(structure, name=""):
    if structure is None:
        return [name or EPSILON]
    below = [other for bit in (0, 1) for other in node_names(structure[2 + bit], f"{name}{bit}")]
    return [name or EPSILON, *below]


def rebuild(stages, rules):
    """The tree of a sequence, from which nodes were split and the rules in the order of the stages."""
    rule = dict(zip((stage.node for stage in stages if stage.action == "split"), rules, strict=True))

    def build(name):
        key = name or EPSILON
        return (*rule[key], build(name + "0"), build(name + "1")) if key in rule else None

    return build("")


def breadth_first_rules(structure):
    found, waiting = [], [structure]
    while waiting:
        node = waiting.pop(0)
        if node is not None:
            found.append(node[:2])
            waiting += node[2:]
    return found


def test_the_tree_of_the_papers_figure():
    stages = figure_1.partial_trees((0, 0.5, None, (1, 0.3, None, None)))
    assert [tuple(stage) for stage in stages] == [
        (0, None, "start", [EPSILON]),
        (1, EPSILON, "split", ["0", "1"]),
        (2, "0", "stop", ["1"]),
        (3, "1", "split", ["10", "11"]),
        (4, "10", "stop", ["11"]),
        (5, "11", "stop", []),
    ]


def test_an_empty_tree_has_one_stage():
    assert [tuple(stage) for stage in figure_1.partial_trees(None)] == [
        (0, None, "start", [EPSILON]),
        (1, EPSILON, "stop", []),
    ]


@pytest.mark.parametrize("seed", range(20))
def test_each_stage_pops_the_first_eligible_node_and_appends_its_children(seed):
    structure = random_structure(np.random.default_rng(seed))
    stages = figure_1.partial_trees(structure)
    names = node_names(structure)
    assert [stage.stage for stage in stages] == list(range(len(names) + 1))
    assert sorted(stage.node for stage in stages[1:]) == sorted(names)
    assert stages[0].eligible == [EPSILON] and stages[-1].eligible == []
    for before, after in zip(stages, stages[1:], strict=False):
        assert after.node == before.eligible[0]
        stem = "" if after.node == EPSILON else after.node
        children = [stem + "0", stem + "1"] if after.action == "split" else []
        assert (after.action == "split") == (stem + "0" in names)
        assert after.eligible == before.eligible[1:] + children
    depths = [0 if stage.node == EPSILON else len(stage.node) for stage in stages[1:]]
    assert depths == sorted(depths)
    assert rebuild(stages, breadth_first_rules(structure)) == structure


# Files


def test_figure_1(tmp_path):
    caption = figure_1.make(folder=tmp_path / "new")
    path = tmp_path / "new" / "figure_1.png"
    assert pixel_size(path)[0] == round(pictures.TEXT_WIDTH * pictures.DPI)
    assert path.with_suffix(".txt").read_text(encoding="utf-8") == caption
    words = " ".join(caption.split())
    for part in (f"data seed {figure_1.DATA_SEED}", f"with seed {figure_1.CHAIN_SEED}", "settings 'paper'"):
        assert part in words
    record = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    assert record["settings"]["n_particles"] == 10 and record["sweep"] >= figure_1.FIRST_SWEEP
    assert f"sweep {record['sweep']}," in words
    assert len(record["stages"]) == 2 * figure_1.N_LEAVES
    assert sum(stage["action"] == "stop" for stage in record["stages"]) == figure_1.N_LEAVES
    assert record["shown"][0] == 0 and record["shown"][-1] == 2 * figure_1.N_LEAVES - 1
    before = path.read_bytes()
    assert figure_1.make(folder=tmp_path / "new") == caption and path.read_bytes() == before
    assert sorted(file.name for file in path.parent.iterdir()) == ["figure_1.json", "figure_1.png", "figure_1.txt"]


def test_the_rules_of_figure_1_split_the_data():
    """The stored thresholds leave no side of a node without training rows."""
    problem = problems.hypercube(2, figure_1.DATA_SEED)
    structure, _ = figure_1.sampled_tree(problem)

    def check(node, rows):
        assert rows.any()
        if node is not None:
            left = problem.X_train[:, node[0]] <= node[1]
            check(node[2], rows & left)
            check(node[3], rows & ~left)

    check(structure, np.ones(len(problem.X_train), dtype=bool))


@pytest.mark.parametrize(
    "structure",
    [None, (0, 0.5, None, None), (0, 0.5, None, (1, -0.3, None, None)), (1, 1.25, (0, 0.5, None, None), None)],
)
def test_figure_1_of_other_trees(structure):
    with pictures.style():
        assert not is_cut_off(figure_1.draw(structure))


def test_figure_2(tmp_path):
    caption = figure_2.make(folder=tmp_path)
    path = tmp_path / "figure_2.png"
    assert pixel_size(path)[0] == round(pictures.COLUMN_WIDTH * pictures.DPI)
    words = " ".join(path.with_suffix(".txt").read_text(encoding="utf-8").split())
    assert words == " ".join(caption.split())
    for part in (f"data seed {figure_2.DATA_SEED}", "settings 'paper'", f"N(0, {PAPER.label_noise:g}^2)", "N(0, 3^2)"):
        assert part in words
    record = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    problem = problems.hypercube(2, figure_2.DATA_SEED, PAPER.label_noise)
    assert record["X_train"] == problem.X_train.tolist() and record["y_test"] == problem.y_test.tolist()
    assert [entry["vertex"] for entry in record["vertices"]] == [[-1, -1], [1, -1], [-1, 1], [1, 1]]
    assert [entry["f"] for entry in record["vertices"]] == problem.f_train[::10].tolist()


def test_the_command_lines(tmp_path, capsys):
    for script, stem in ((figure_1, "figure_1"), (figure_2, "figure_2")):
        command.run_script(stem, script.specs, script.make, "about", ["--out", str(tmp_path)])
        assert capsys.readouterr().out.strip() == (tmp_path / f"{stem}.txt").read_text(encoding="utf-8").strip()


def test_no_text_of_figures_1_and_2_is_cut_off():
    with pictures.style():
        problem = problems.hypercube(2, figure_1.DATA_SEED)
        for figure in (figure_1.draw(figure_1.sampled_tree(problem)[0]), figure_2.draw(problem)):
            assert not is_cut_off(figure)


# Traces


def chain(start, n_sweeps, rng):
    return {
        "start": start,
        "log_likelihood": -100 + 3 * rng.normal(size=n_sweeps),
        "n_leaves": rng.integers(1, 12, n_sweeps),
        "train_mse": np.exp(rng.normal(size=n_sweeps)),
        "test_mse": np.exp(rng.normal(size=n_sweeps)),
    }


def made(n_sweeps, starts=("empty", "prior", "overgrown", "smc")):
    rng = np.random.default_rng(n_sweeps)
    return {sampler: [chain(start, n_sweeps, rng) for start in starts] for sampler in paper.SAMPLERS}


VARIANCES = {"train": 2.0, "test": 3.0, "noise": 0.05}


@pytest.mark.parametrize("n_sweeps", [1, 3, 30, 2000, 20000])
def test_traces_of_any_length(n_sweeps):
    results = made(n_sweeps)
    figure = traces.draw(results, 3, n_sweeps // 2, -95.0, VARIANCES)
    assert not is_cut_off(figure)
    assert len(figure.axes) == len(QUANTITIES) * len(paper.SAMPLERS)
    for axis in figure.axes:
        lines = [line for line in axis.lines if len(line.get_xdata()) > 2]
        assert all(len(line.get_xdata()) <= 2000 for line in lines)
    assert f"{n_sweeps} sweeps" in traces.describe(results, 3, n_sweeps // 2, -95.0, VARIANCES)


def test_thinning_keeps_the_extremes():
    trace = np.random.default_rng(1).normal(size=20000)
    trace[500:700] = np.nan
    sweeps, kept = traces._thinned(np.arange(1, 20001), trace)
    assert len(kept) <= 2000 and np.all(np.diff(sweeps) > 0)
    assert np.nanmin(kept) == np.nanmin(trace) and np.nanmax(kept) == np.nanmax(trace)
    assert np.array_equal(kept, trace[sweeps - 1], equal_nan=True)


def test_traces_of_one_chain_with_values_that_no_axis_shows(tmp_path):
    results = made(30, ("empty",))
    for chains in results.values():
        chains[0]["train_mse"][:] = 0.0
        chains[0]["test_mse"][5:8] = (np.inf, np.nan, 0.0)
        chains[0]["log_likelihood"][2] = -np.inf
    figure = traces.draw(results, 2, 0)
    assert not is_cut_off(figure)
    for axis in figure.axes:
        assert np.isfinite([*axis.get_ylim(), *axis.get_xlim()]).all()
    scales = [axis.get_yscale() for axis in figure.axes[:: len(paper.SAMPLERS)]]
    assert scales == ["linear", "linear", "linear", "log"]
    pictures.save(figure, tmp_path, "traces", traces.describe(results, 2, 0), {})
    assert pixel_size(tmp_path / "traces.png") == (1340, 2080)


def test_values_that_never_were_finite_are_drawn_as_nothing():
    results = {"pg": [chain("given", 20, np.random.default_rng(3))]}
    for name in QUANTITIES:
        results["pg"][0][name] = np.full(20, np.nan)
    assert not is_cut_off(traces.draw(results, 2, 5, np.nan, {"noise": 0.0}))
    assert "1 chain a sampler" in traces.describe(results, 2, 5)


def test_the_description_names_the_lines_that_are_drawn():
    results = made(200)
    words = traces.describe(results, 3, 100, -95.0, VARIANCES)
    for part in ("-95.0 nats", "8 leaves", "2 (train), 3 (test)", "noise, 0.05", "burn-in, 100 sweeps"):
        assert part in words
    far = traces.describe(results, 3, 0, None, {"train": 1e9, "test": 3.0, "noise": 1e-9})
    assert "3 (test)" in far and "train)" not in far
    assert not any(part in far for part in ("noise,", "nats", "burn-in"))


def test_the_description_counts_the_values_below_the_axis():
    results = made(200, ("smc",))
    results["pg"][0]["log_likelihood"][:4] = -1000.0
    assert "4 values below the axis of the log-likelihood are not shown, the last at sweep 4" in traces.describe(
        results, 2, 0
    )


def test_legend_of_more_kinds_of_starts_than_usual():
    figure = traces.draw(made(50, ("empty", "prior", "overgrown", "smc", "given")), 2, 10, -95.0, VARIANCES)
    assert not is_cut_off(figure)


def test_a_label_beyond_the_picture_is_noticed():
    figure = traces.draw(made(50), 2, 10)
    figure.axes[0].set_ylabel("a label on\nfar\ntoo\nmany\nlines")
    assert is_cut_off(figure)


def test_style_is_left_behind():
    import matplotlib

    before = dict(matplotlib.rcParams)
    with pictures.style():
        assert matplotlib.rcParams["font.family"] == ["STIXGeneral"]
    traces.draw(made(10), 2, 2)
    assert dict(matplotlib.rcParams) == before
