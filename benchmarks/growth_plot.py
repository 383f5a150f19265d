"""The figure of part growth: passes a tree update against N, D, C and m."""

import json
import os
import textwrap

import numpy as np

from bart.storage import atomic_file

from .growth import VARIABLES, lines
from .measure import provenance_line

FILE = "benchmark_growth.png"
# Colour-blind safe (Okabe & Ito).
COLOURS = {"GrowPrune": "#0072B2", "CGM": "#D55E00", "PG": "#009E73"}
OTHER_COLOURS = ("#CC79A7", "#E69F00", "#56B4E9")
STYLES = {"default": "-", "deep": (0, (4, 2.2))}
TARGETS = {"GrowPrune": 8, "CGM": 12, "PG": 40}
TARGET_ROWS = 2000
LABELS = {"n_rows": "rows N", "n_dims": "features D", "n_particles": "particles C", "n_trees": "trees m"}
GREY = "0.45"


def make(results, folder):
    """Draw the figure from ``results/growth.json``, with Friedman's data from ``friedman.json`` where it exists.

    Parameters
    ----------
    results, folder : str
        Where the JSON files are, and where the figure goes.

    Returns
    -------
    str
        The file written.

    Raises
    ------
    ImportError
        Without matplotlib.
    FileNotFoundError
        Without results.
    """
    stored = _read(results, "growth")
    if stored is None:
        raise FileNotFoundError(f"{os.path.join(results, 'growth.json')} is missing: run part growth first")
    friedman = _read(results, "friedman")
    figure = draw(stored["records"], friedman["records"] if friedman else [], stored["provenance"])
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, FILE)
    with atomic_file(path) as file:
        figure.savefig(file, format="png", dpi=160)
    return path


def _read(results, part):
    try:
        with open(os.path.join(results, f"{part}.json"), encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def draw(records, friedman, origin):
    """Four panels on logarithmic axes that share the scale of the cost.

    Parameters
    ----------
    records, friedman : list of dict
        Of the parts growth and friedman.
    origin : dict
        From `benchmarks.measure.provenance`.

    Returns
    -------
    matplotlib.figure.Figure
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("it needs matplotlib (pip install 'pgbart[plots]')") from error
    figure = Figure(figsize=(10.0, 8.6))
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 2, sharey=True, gridspec_kw={"left": 0.075, "right": 0.985, "top": 0.905, "bottom": 0.135,
                                                           "hspace": 0.3, "wspace": 0.11})
    colours = _colours(records)
    for axis, variable in zip(axes.flat, VARIABLES, strict=True):
        found = [group for group in lines(records) if group[0] == variable]
        _panel(axis, variable, found, records[0]["base"], colours)
    _friedman(axes[0, 0], friedman, colours)
    _guides(axes, records)
    _targets(axes[0, 0], colours)
    _plain_ticks(axes[0, 0].yaxis)
    for axis in axes[:, 0]:
        axis.set_ylabel("passes a tree update", fontsize=10)
    _legend(figure, records, colours, bool(friedman))
    caption = _caption(records, origin)
    figure.text(0.02, 0.012, "\n".join(textwrap.wrap(caption, 178)), fontsize=7.8, va="bottom", linespacing=1.35)
    return figure


def _colours(records):
    names = dict.fromkeys(r["sampler"] for r in records)
    others = iter(OTHER_COLOURS)
    return {name: COLOURS.get(name) or next(others, "black") for name in names}


def _panel(axis, variable, found, base, colours):
    """One variable: a line for each sampler and prior."""
    ticks = set()
    for _, sampler, prior, group in found:
        values = [r[variable] for r in group]
        ticks.update(values)
        axis.plot(values, [r["passes"]["median"] for r in group], ls=STYLES.get(prior, ":"), color=colours[sampler],
                  lw=1.6, marker="o", ms=3.8, zorder=3)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel(LABELS[variable], fontsize=10)
    rest = [f"{VARIABLES[name]} = {_number(value)}" for name, value in base.items() if name != variable]
    axis.set_title(f"{LABELS[variable]}   ({', '.join(rest)})", fontsize=10, loc="left")
    axis.grid(True, which="major", color="0.9", lw=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(which="both", labelsize=9)
    if variable == "n_rows":
        _plain_ticks(axis.xaxis)
    else:
        _tick_values(axis.xaxis, sorted(ticks))


def _number(value, _=None):
    """Digits in groups of three where there are more than four."""
    return f"{value:,.0f}".replace(",", " ") if value >= 10_000 else f"{value:g}"


def _plain_ticks(axis):
    """Whole numbers at the decades, not powers of ten."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(_number))
    axis.set_minor_formatter(NullFormatter())


def _tick_values(axis, values):
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.set_major_locator(FixedLocator(values))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(_number))


def _friedman(axis, friedman, colours):
    """Open squares: Friedman's data under the default prior."""
    for r in friedman:
        name = r["sampler"].split(" C=")[0]
        if name in colours:
            axis.plot(r["n_rows"], r["passes"]["median"], ls="", marker="s", ms=7.5, mfc="none", mew=1.2,
                      color=colours[name], zorder=4)


def _guides(axes, records):
    """Slopes to compare with: -1 in N, a cost that does not depend on the rows; 1 in D and C."""
    for axis, variable, sampler, prior, power, text in (
            (axes[0, 0], "n_rows", "PG", "default", -1, "slope -1: fixed cost"),
            (axes[0, 1], "n_dims", "CGM", "deep", 1, "slope 1"),
            (axes[1, 0], "n_particles", "PG", "default", 1, "slope 1")):
        group = next((group for *key, group in lines(records) if key == [variable, sampler, prior]), None)
        if group is None:
            continue
        low, high = group[0], group[-1]
        if power < 0:
            start, stop, level = low[variable], 6 * low[variable], 1.9 * low["passes"]["median"]
        else:
            stop = high[variable]
            start = max(low[variable], stop / 6)
            level = high["passes"]["median"] / 1.9 * start / stop
        ends = np.array([start, stop], float)
        axis.plot(ends, level * (ends / start)**power, color=GREY, lw=0.9, ls=(0, (1, 1.5)), zorder=1)
        middle = np.sqrt(start * stop)
        axis.annotate(text, (middle, level * (middle / start)**power), xytext=(6, 4 if power < 0 else -9),
                      textcoords="offset points", fontsize=8, color=GREY)


def _targets(axis, colours):
    """Lines where the targets hold, their levels in the margin."""
    right = axis.get_xlim()[1]
    shown = {name: level for name, level in TARGETS.items() if name in colours}
    for name, level in shown.items():
        axis.plot([TARGET_ROWS, right], [level, level], color=colours[name], lw=0.9, ls=":", zorder=2,
                  scalex=False)
        axis.annotate(f"{level}", (1.0, level), xycoords=("axes fraction", "data"), xytext=(4, 0), va="center",
                      textcoords="offset points", fontsize=8, color=colours[name])
    if shown:
        axis.annotate("target", (1.0, max(shown.values())), xycoords=("axes fraction", "data"), xytext=(4, 10),
                      textcoords="offset points", va="center", fontsize=8, color=GREY)


def _legend(figure, records, colours, with_friedman):
    """A row for the colours, a row for the styles."""
    from matplotlib.lines import Line2D

    names = {"PG": "particle Gibbs (PG)"}
    samplers = [Line2D([], [], color=colour, lw=2, label=names.get(name, name)) for name, colour in colours.items()]
    styles = []
    for prior in dict.fromkeys(r["prior"] for r in records):
        same = [r for r in records if r["prior"] == prior]
        leaves = np.mean([r["mean_leaves"] for r in same])
        label = f"{prior} prior (beta {same[0]['beta']:g}), {leaves:.1f} leaves a tree"
        styles.append(Line2D([], [], color="0.2", lw=1.6, ls=STYLES.get(prior, ":"), label=label))
    if with_friedman:
        label = "Friedman's data, default prior"
        styles.append(Line2D([], [], color="0.2", ls="", marker="s", ms=7, mfc="none", label=label))
    for handles, top in ((samplers, 0.998), (styles, 0.972)):
        figure.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.53, top), ncols=len(handles),
                      frameon=False, fontsize=9.5, borderaxespad=0.2)


def _caption(records, origin):
    return ("CPU time of one tree's update in passes: multiples of one streaming masked sum over the N rows, measured "
            "in turn in the same process; medians. A level line in N is a cost in proportion to N. The data are drawn "
            "from the model, the chain starts at the trees that made them. Dotted in colour: targets for the default "
            f"prior, N = 2000 and more. {provenance_line(origin)}")
