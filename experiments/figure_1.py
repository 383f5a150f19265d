"""Figure 1 of the paper: the sequential generative process, on a tree that particle Gibbs returned."""

from collections import deque
from typing import NamedTuple

import bart

from . import pictures
from .command import run_script
from .problems import hypercube
from .settings import PAPER

__all__ = ["NAME", "Stage", "draw", "make", "partial_trees", "sampled_tree", "specs"]

NAME = "figure_1"
DATA_SEED = 1
CHAIN_SEED = 1
FIRST_SWEEP = 21
LAST_SWEEP = 60
N_LEAVES = 4
ROOT = "\N{GREEK SMALL LETTER EPSILON}"
MAX_PANELS = 5

# Inches.
_RADIUS = 0.105
_LEVEL = 0.46
_GAP = 0.7
_SIDE = 0.08
_WIDEST_SLOT = 0.55
_TITLE = 0.58
_KEY = 0.36

_GREY = "0.72"
_EDGE = "0.1"
_LAST_POPPED = "#0072B2"


class Stage(NamedTuple):
    """One stage of the sequential process.

    Attributes
    ----------
    stage : int
        t: 0 for the empty tree, then 1, 2, ... by popped node.
    node : str or None
        The node popped in this stage; None in stage 0.
    action : str
        "start" in stage 0; "split" where the node became an internal node, "stop" where it became a leaf.
    eligible : list of str
        E after the stage, first in first out.
    """

    stage: int
    node: str | None
    action: str
    eligible: list


def partial_trees(structure):
    """The sequence of partial trees that makes a tree: the map is one to one.

    Nodes are named as in the paper: the root is epsilon, the children of node 1 are 10 (left) and 11.

    Parameters
    ----------
    structure : nested tuples
        None for a leaf, (dim, rule, left, right) for an internal node.

    Returns
    -------
    list of Stage
        Stage 0 and one for each node of the tree; the last one's E is empty.
    """
    queue = deque([(ROOT, structure)])
    stages = [Stage(0, None, "start", [ROOT])]
    while queue:
        name, node = queue.popleft()
        if node is not None:
            left, right = _children(name)
            queue.append((left, node[2]))
            queue.append((right, node[3]))
        action = "stop" if node is None else "split"
        stages.append(Stage(len(stages), name, action, [other for other, _ in queue]))
    return stages


def _children(name):
    stem = "" if name == ROOT else name
    return stem + "0", stem + "1"


def _rules(structure, name=ROOT):
    """(dim, threshold) of each internal node by name."""
    if structure is None:
        return {}
    dim, threshold, left, right = structure
    first, second = _children(name)
    return {name: (dim, threshold), **_rules(left, first), **_rules(right, second)}


def sampled_tree(problem, settings=PAPER):
    """The first tree of `N_LEAVES` leaves that particle Gibbs returns from sweep `FIRST_SWEEP` on.

    Parameters
    ----------
    problem : Problem
    settings : Settings

    Returns
    -------
    structure : nested tuples
        None for a leaf, (dim, threshold, left, right) for an internal node.
    sweep : int
        The sweep that returned it, counted from 1.
    """
    post = bart.sample(
        settings.model(problem),
        settings.sampler("pg"),
        n_burn=FIRST_SWEEP - 1,
        n_draws=LAST_SWEEP - FIRST_SWEEP + 1,
        n_chains=1,
        seed=CHAIN_SEED,
        init="empty",
        progress=False,
    )
    forest = post.forests[0]
    for draw_number, (begin, end) in enumerate(zip(forest.starts[:-1], forest.starts[1:], strict=True)):
        nodes = forest.nodes[begin:end]
        if int((nodes["dim"] < 0).sum()) == N_LEAVES:
            return _structure(nodes, 0), FIRST_SWEEP + draw_number
    raise RuntimeError(f"no tree of {N_LEAVES} leaves in sweeps {FIRST_SWEEP} to {LAST_SWEEP}")


def _structure(nodes, number):
    dim, left = int(nodes["dim"][number]), int(nodes["left"][number])
    if dim < 0:
        return None
    threshold = float(nodes["value"][number])
    return dim, threshold, _structure(nodes, left), _structure(nodes, left + 1)


def specs(settings, profile):
    """No stored chains."""
    return []


def make(store=None, settings=PAPER, profile=None, folder="figures"):
    """Sample a tree, draw its partial trees, and write figure, caption and data."""
    problem = hypercube(2, DATA_SEED, PAPER.label_noise)
    structure, sweep = sampled_tree(problem)
    stages = partial_trees(structure)
    record = {
        "settings": PAPER.as_dict(),
        "data_seed": DATA_SEED,
        "chain_seed": CHAIN_SEED,
        "sweep": sweep,
        "tree": structure,
        "stages": [stage._asdict() for stage in stages],
        "shown": [stage.stage for stage in _shown(stages)],
    }
    with pictures.style():
        figure = draw(structure)
    return pictures.save(figure, folder, NAME, _caption(problem, structure, sweep), record)


def _shown(stages):
    """All stages where there is room, else the first ones and the last."""
    return stages if len(stages) <= MAX_PANELS else [*stages[: MAX_PANELS - 1], stages[-1]]


def _hidden(stages):
    """Which stages are not drawn, in words, or nothing."""
    if len(stages) <= MAX_PANELS:
        return ""
    first, last = MAX_PANELS - 1, len(stages) - 2
    return f"stage {first} not shown" if first == last else f"stages {first} to {last} not shown"


def _caption(problem, structure, sweep):
    stages = partial_trees(structure)
    hidden = _hidden(stages)
    done = {
        "split": "is popped and becomes an internal node, its children are appended",
        "stop": "is popped and becomes a leaf",
    }
    steps = "; ".join(f"stage {s.stage}: {s.node} {done[s.action]}" for s in _shown(stages)[1:])
    left_out = f" ({hidden})" if hidden else ""
    return (
        "Figure 1. Sequential generative process for decision trees, on a tree that the PG sampler returned. T_(t)"
        " is the partial tree after stage t, E_(t) its nodes eligible for expansion in the order of a first-in"
        " first-out queue (grey circles). White circles are internal nodes with their rules (rows that satisfy it go"
        " left), squares are leaves; a thick blue outline marks the node popped in the stage."
        f" {steps[0].upper()}{steps[1:]}{left_out}. The process ends when E is empty, after as many stages as the tree"
        f" has nodes, {len(stages) - 1} (the paper prints the empty E of its tree of five nodes as that of stage 6,"
        " this count gives 5). Tree and sequence determine each other."
        f" Tree: the first one of {N_LEAVES} leaves returned from sweep {FIRST_SWEEP} on, sweep {sweep}, of a chain"
        f" started at the empty tree with seed {CHAIN_SEED}; PG with {PAPER.n_particles} particles,"
        f" {PAPER.resampling} resampling, settings '{PAPER.name}' (alpha {PAPER.alpha:g}, beta {problem.beta:g},"
        f" k {PAPER.k:g}, nu {PAPER.nu:g}, q {PAPER.q:g}), one tree. Data: {problem.name}, data seed {DATA_SEED},"
        f" {len(problem.y_train)} rows, {problem.note}."
    )


def draw(structure):
    """The partial trees of a tree, side by side across the full text width.

    Parameters
    ----------
    structure : nested tuples
        None for a leaf, (dim, threshold, left, right) for an internal node.

    Returns
    -------
    matplotlib.figure.Figure
    """
    stages, rules = partial_trees(structure), _rules(structure)
    shown = _shown(stages)
    states = [_states(stages[: stage.stage + 1]) for stage in shown]
    places = [_places(state) for state in states]
    depth = max(level for place in places for _, level in place.values())
    height = _TITLE + depth * _LEVEL + 2 * _RADIUS + _KEY
    figure = pictures.new_figure(pictures.TEXT_WIDTH, height)
    axis = figure.add_axes((0, 0, 1, 1))
    axis.set(xlim=(0, pictures.TEXT_WIDTH), ylim=(0, height))
    axis.set_axis_off()
    # A title needs the room of two leaves.
    n_slots = [max(2, sum(state[name] != "split" for name in state)) for state in states]
    gaps = [_GAP if after.stage > before.stage + 1 else 0.0 for before, after in zip(shown, shown[1:], strict=False)]
    slot = min(_WIDEST_SLOT, (pictures.TEXT_WIDTH - 2 * _SIDE - sum(gaps)) / sum(n_slots))
    left = 0.5 * (pictures.TEXT_WIDTH - sum(n_slots) * slot - sum(gaps))
    for number, (stage, state, place) in enumerate(zip(shown, states, places, strict=True)):
        width = slot * n_slots[number]
        span = max(x for x, _ in place.values()) + min(x for x, _ in place.values())
        origin = left + 0.5 * (width - span * slot)
        _panel_title(axis, left + 0.5 * width, height - 0.06, stage)
        _panel(axis, origin, height - _TITLE - _RADIUS, slot, stage, state, place, rules)
        left += width
        if number < len(gaps) and gaps[number]:
            axis.text(
                left + 0.5 * gaps[number], height - _TITLE - _RADIUS, _hidden(stages).replace(" not", "\nnot"),
                ha="center", va="center", fontsize=7.5, style="italic", color="0.25",
            )  # fmt: skip
            left += gaps[number]
    _key(axis)
    return figure


def _states(stages):
    """Split, stop or eligible, for each node of the partial tree after some stages."""
    state = {stage.node: stage.action for stage in stages[1:]}
    state.update(dict.fromkeys(stages[-1].eligible, "eligible"))
    return state


def _places(state):
    """(slot, depth) of each node: a slot for each node without children, parents halfway between theirs."""
    places = {}

    def place(name, depth, n_used):
        if state[name] != "split":
            places[name] = (n_used, depth)
            return n_used + 1
        for child in _children(name):
            n_used = place(child, depth + 1, n_used)
        places[name] = (0.5 * sum(places[child][0] for child in _children(name)), depth)
        return n_used

    place(ROOT, 0, 0)
    return places


def _panel_title(axis, x, y, stage):
    names = ", ".join(r"\epsilon" if name == ROOT else name for name in stage.eligible)
    index = f"{{({stage.stage})}}"
    text = rf"$\mathcal{{T}}_{index}$" + "\n" + rf"$E_{index} = \{{{names}\}}$"
    axis.text(x, y, text, ha="center", va="top", fontsize=8.5, linespacing=1.25)


def _panel(axis, x, y, slot, stage, state, places, rules):
    """One partial tree, its root at height y, its first slot at x."""
    points = {name: (x + slot * place, y - _LEVEL * level) for name, (place, level) in places.items()}
    for name, point in points.items():
        if state[name] == "split":
            for child in _children(name):
                axis.plot(*zip(point, points[child], strict=True), color=_EDGE, lw=0.7, zorder=1)
    for name, point in points.items():
        _node(axis, point, state[name], name == stage.node)
        label = r"$\epsilon$" if name == ROOT else name
        axis.text(*point, label, ha="center", va="center_baseline", fontsize=7.5, zorder=3)
        if state[name] == "split":
            _rule(axis, point, name, *rules[name])


def _rule(axis, point, name, dim, threshold):
    """The rule above its node, on the side away from the edge to the parent."""
    text = rf"$x_{{{dim + 1}}} \leq {{{threshold:.2f}}}$"
    if name == ROOT:
        axis.text(point[0], point[1] + _RADIUS + 0.03, text, ha="center", va="bottom", fontsize=7.5)
        return
    side = -1.0 if name.endswith("0") else 1.0
    axis.text(
        point[0] - 0.4 * side * _RADIUS, point[1] + _RADIUS + 0.02, text,
        ha="right" if side < 0 else "left", va="bottom", fontsize=7.5,
    )  # fmt: skip


def _node(axis, point, state, is_last):
    from matplotlib.patches import Circle, Rectangle

    options = {
        "facecolor": _GREY if state == "eligible" else "white",
        "edgecolor": _LAST_POPPED if is_last else _EDGE,
        "linewidth": 1.5 if is_last else 0.7,
        "zorder": 2,
    }
    if state == "stop":
        side = 1.8 * _RADIUS
        patch = Rectangle((point[0] - 0.5 * side, point[1] - 0.5 * side), side, side, **options)
    else:
        patch = Circle(point, _RADIUS, **options)
    axis.add_patch(patch)


def _key(axis):
    """One line under the trees that says what the shapes are."""
    y, x = _RADIUS + 0.04, 0.97
    entries = (
        ("eligible", False, "eligible for expansion", 1.50),
        ("split", False, "internal node with its rule", 1.65),
        ("stop", False, "leaf", 0.77),
        ("split", True, "popped in this stage", 0.0),
    )
    for state, is_last, text, width in entries:
        _node(axis, (x, y), state, is_last)
        axis.text(x + _RADIUS + 0.05, y, text, ha="left", va="center_baseline", fontsize=7.5)
        x += width


if __name__ == "__main__":
    run_script(NAME, specs, make, __doc__)
