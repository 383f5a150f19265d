"""Figure 2 of the paper: a hypercube-2 data set."""

import numpy as np

from . import pictures
from .command import run_script
from .problems import ROWS_PER_VERTEX, hypercube
from .settings import PAPER

__all__ = ["NAME", "draw", "make", "specs"]

NAME = "figure_2"
DATA_SEED = 1
_HEIGHT = 2.8
_LIMIT = 1.45


def specs(settings, profile):
    """No stored chains."""
    return []


def make(store=None, settings=PAPER, profile=None, folder="figures"):
    """Draw the data set, and write figure, caption and data."""
    problem = hypercube(2, DATA_SEED, PAPER.label_noise)
    with pictures.style():
        figure = draw(problem)
    record = {
        "data_seed": DATA_SEED,
        "settings": PAPER.as_dict(),
        "note": problem.note,
        "vertices": [{"vertex": vertex.tolist(), "f": value} for vertex, value in _vertices(problem)],
        **{name: getattr(problem, name).tolist() for name in ("X_train", "y_train", "X_test", "y_test")},
    }
    return pictures.save(figure, folder, NAME, _caption(problem), record)


def _vertices(problem):
    """Each vertex and its function value, in the order of the rows."""
    first = range(0, len(problem.y_train), ROWS_PER_VERTEX)
    return [(np.sign(problem.X_train[row]), float(problem.f_train[row])) for row in first]


def _caption(problem):
    return (
        f"Figure 2. A hypercube-2 data set (data seed {DATA_SEED}, settings '{PAPER.name}'): {ROWS_PER_VERTEX}"
        f" training rows (filled) and {ROWS_PER_VERTEX} test rows (open) near each vertex v of [-1, 1]^2 (cross),"
        " x = v + N(0, 0.1^2 I). Beside each vertex its function value f(v), drawn from N(0, 3^2); colour: the label"
        f" y = f(v) + N(0, {PAPER.label_noise:g}^2), a noise too small to be seen. Each set has"
        f" {len(problem.y_train)} rows. x and y are numbers without a physical unit."
    )


def draw(problem):
    """The rows of both sets in the plane, coloured by label.

    Parameters
    ----------
    problem : Problem
        Of two features.

    Returns
    -------
    matplotlib.figure.Figure
    """
    import matplotlib
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    # The bright end of the map is left out: open circles of that colour vanish on white.
    colours = LinearSegmentedColormap.from_list("labels", matplotlib.colormaps["viridis"](np.linspace(0, 0.87, 64)))
    labels = np.concatenate([problem.y_train, problem.y_test])
    norm = Normalize(np.floor(labels.min()), np.ceil(labels.max()))
    figure = pictures.new_figure(pictures.COLUMN_WIDTH, _HEIGHT)
    axis = figure.add_axes((0.125, 0.115, 0.68, 0.68 * pictures.COLUMN_WIDTH / _HEIGHT))
    points = axis.scatter(*problem.X_train.T, c=problem.y_train, cmap=colours, norm=norm, s=11, linewidths=0)
    axis.scatter(
        *problem.X_test.T, s=11, linewidths=0.7, facecolors="none", edgecolors=colours(norm(problem.y_test))
    )
    for vertex, value in _vertices(problem):
        axis.plot(*vertex, "+", color="0.1", ms=5, mew=0.7)
        text = rf"$f(\mathbf{{v}}) = {value:.2f}$"
        axis.text(vertex[0], 0.62 * vertex[1], text, ha="center", va="center", fontsize=8)
    axis.set(xlim=(-_LIMIT, _LIMIT), ylim=(-_LIMIT, _LIMIT), xticks=(-1, 0, 1), yticks=(-1, 0, 1))
    axis.set_xlabel("feature $x_1$ (no unit)")
    axis.set_ylabel("feature $x_2$ (no unit)")
    bar = figure.colorbar(points, cax=figure.add_axes((0.83, 0.115, 0.035, axis.get_position().height)))
    bar.set_label("label $y$ (units of $y$)")
    bar.outline.set_linewidth(0.6)
    _key(figure)
    return figure


def _key(figure):
    from matplotlib.lines import Line2D

    options = {"ls": "none", "color": "0.2"}
    handles = [
        Line2D([], [], marker="o", ms=3.4, mew=0, label="training row", **options),
        Line2D([], [], marker="o", ms=3.4, mew=0.7, mfc="none", label="test row", **options),
        Line2D([], [], marker="+", ms=5, mew=0.7, label=r"vertex $\mathbf{v}$", **options),
    ]
    figure.legend(
        handles=handles, loc="upper center", bbox_to_anchor=(0.465, 1.0), ncols=3,
        handletextpad=0.1, columnspacing=1.2, borderaxespad=0.1,
    )  # fmt: skip


if __name__ == "__main__":
    run_script(NAME, specs, make, __doc__)
