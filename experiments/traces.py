"""The drawing of the trace figures: figure 3 and the two of the supplement."""

import numpy as np

from . import pictures
from .paper import SAMPLER_NAMES

__all__ = ["QUANTITIES", "describe", "draw"]

# Name in the results, label, and whether its axis is logarithmic.
QUANTITIES = (
    ("log_likelihood", "log-likelihood\n(nats)", False),
    ("n_leaves", "number of\nleaves", False),
    ("train_mse", "training MSE\n(units of $y^2$)", True),
    ("test_mse", "test MSE\n(units of $y^2$)", True),
)
_HEIGHT = 5.2
_MARGINS = {"left": 0.185, "right": 0.985, "top": 0.918, "bottom": 0.062, "hspace": 0.07, "wspace": 0.07}
_MAX_POINTS = 2000
_MARGIN = 0.06
# Of the legend, at its usual size.
_MAX_COLUMNS = 4

_REFERENCE = {"color": "0.0", "lw": 0.8, "ls": (0, (4, 2)), "zorder": 3}
_VARIANCE = {"color": "0.25", "lw": 0.9, "ls": (0, (1, 1.2)), "zorder": 3}
_NOISE = {"color": "0.25", "lw": 0.9, "ls": (0, (4, 1.5, 1, 1.5)), "zorder": 3}
_BURN = "0.93"


def draw(results, dim, n_burn, level=None, variances=None):
    """Traces of all chains: a row a quantity, a column a sampler, the axis of y shared along a row.

    Parameters
    ----------
    results : dict
        By sampler, in the order of the columns, a list of chains: dicts with ``start`` (its kind),
        ``log_likelihood``, ``n_leaves``, ``train_mse`` and ``test_mse``, each of shape (n_sweeps,) and in
        the units of y. Values that are not finite are gaps, and so are an MSE of zero, unless all are zero:
        then the axis is linear.
    dim : int
        Of the hypercube: the true tree has 2^dim leaves.
    n_burn : int
        Sweeps shaded as burn-in.
    level : float, optional
        Reference level of the log-likelihood.
    variances : dict, optional
        Lines of the panels of the MSE: ``train`` and ``test``, the variances of the labels (the MSE of the
        best constant), and ``noise``, that of the noise. One far outside what the chains visit is left out.

    Returns
    -------
    matplotlib.figure.Figure
        One column wide.
    """
    with pictures.style():
        figure = pictures.new_figure(pictures.COLUMN_WIDTH, _HEIGHT)
        axes = figure.subplots(
            len(QUANTITIES), len(results), sharex=True, sharey="row", squeeze=False, gridspec_kw=_MARGINS
        )
        n_sweeps = _n_sweeps(results)
        for row, (name, label, logarithmic) in enumerate(QUANTITIES):
            values = _finite(results, name, logarithmic)
            if logarithmic and not values.size:
                logarithmic, values = False, _finite(results, name)
            lines = _lines(results, name, dim, level, variances)
            for column, (sampler, chains) in enumerate(results.items()):
                _panel(axes[row, column], chains, name, n_sweeps, n_burn, lines, logarithmic)
                if row == 0:
                    axes[row, column].set_title(SAMPLER_NAMES.get(sampler, sampler))
            axes[row, 0].set_ylabel(label, fontsize=7.5, linespacing=1.1)
            bounds = np.concatenate([values, [place for place, _ in lines]])
            if values.size and logarithmic:
                _log_axes(axes[row], bounds)
            elif values.size:
                _linear_axis(axes[row, 0], bounds, _lowest_level(results) if row == 0 else 0.0, name)
        axes[-1, len(results) // 2].set_xlabel("sweep", fontsize=7.5)
        figure.align_ylabels(axes[:, 0])
        _legend(figure, results, n_burn, variances)
        return figure


def describe(results, dim, n_burn, level=None, variances=None):
    """What the lines of `draw` stand for, for its caption.

    Parameters
    ----------
    results, dim, n_burn, level, variances
        As in `draw`.

    Returns
    -------
    str
    """
    n_chains = sorted({len(chains) for chains in results.values()})
    chains = " or ".join(str(count) for count in n_chains)
    drawn = _drawn(results, variances)
    level_text = "" if level is None else f"the reference level of the log-likelihood, {level:.1f} nats, and "
    parts = [
        f"Traces of {chains} chain{'' if n_chains == [1] else 's'} a sampler over {_n_sweeps(results)} sweeps, coloured"
        " by kind of start; MSE of the current draw against noisy labels",
        f"dashed: {level_text}the {2**dim} leaves of the true tree",
    ]
    if "variance" in drawn:
        shown = [key for key in ("train", "test") if _shown(results, f"{key}_mse", variances.get(key))]
        values = ", ".join(f"{variances[key]:.3g} ({key})" for key in shown)
        parts.append(f"dotted: the variance of the labels, {values}, the MSE of a constant")
    if "noise" in drawn:
        parts.append(f"dash-dotted: the variance of the noise, {variances['noise']:.3g}")
    if n_burn > 0:
        parts.append(f"grey: burn-in, {n_burn} sweeps")
    n_hidden, last = _hidden(results)
    if n_hidden:
        parts.append(f"{n_hidden} values below the axis of the log-likelihood are not shown, the last at sweep {last}")
    return "; ".join(parts) + "."


def _n_sweeps(results):
    return max(len(chain["log_likelihood"]) for chains in results.values() for chain in chains)


def _finite(results, name, positive=False, first=0):
    """All values of a quantity that an axis can show, from sweep number `first` (from 0) on."""
    traces = [np.asarray(chain[name], dtype=float)[first:] for chains in results.values() for chain in chains]
    values = np.concatenate(traces)
    values = values[np.isfinite(values)]
    return values[values > 0.0] if positive else values


def _lines(results, name, dim, level, variances):
    """(place, style) of the straight lines of a row."""
    if name == "log_likelihood":
        return [] if level is None or not np.isfinite(level) else [(level, _REFERENCE)]
    if name == "n_leaves":
        return [(2**dim, _REFERENCE)]
    return _mse_lines(results, name, variances)


def _mse_lines(results, name, variances):
    variances = variances or {}
    found = [(variances.get(name.removesuffix("_mse")), _VARIANCE), (variances.get("noise"), _NOISE)]
    return [(place, look) for place, look in found if _shown(results, name, place)]


def _shown(results, name, place):
    """Whether a line of the MSE lies where the chains are, or within a factor 4 of it."""
    values = _finite(results, name, positive=True)
    return bool(place and values.size and values.min() / 4.0 <= place <= values.max() * 4.0)


def _drawn(results, variances):
    """Which kinds of straight lines the panels of the MSE have."""
    looks = [look for name in ("train_mse", "test_mse") for _, look in _mse_lines(results, name, variances)]
    return [kind for kind, look in (("variance", _VARIANCE), ("noise", _NOISE)) if look in looks]


def _panel(axis, chains, name, n_sweeps, n_burn, lines, logarithmic):
    if n_burn > 0:
        axis.axvspan(0, n_burn, color=_BURN, lw=0, zorder=0)
    for place, look in lines:
        axis.axhline(place, **look)
    for chain in chains:
        trace = np.array(chain[name], dtype=float)
        trace[~np.isfinite(trace)] = np.nan
        if logarithmic:
            trace[~(trace > 0.0)] = np.nan
        sweeps, trace = _thinned(np.arange(1, len(trace) + 1), trace)
        axis.plot(sweeps, trace, lw=0.4, alpha=0.75, color=pictures.start_colour(chain["start"]), rasterized=True)
    axis.set_xlim(0, n_sweeps)
    axis.set_xticks(_sweep_ticks(n_sweeps))
    axis.grid(True, which="major")


def _thinned(sweeps, trace):
    """At most about `_MAX_POINTS` points: the lowest and the highest of each of equally long pieces."""
    if len(trace) <= _MAX_POINTS:
        return sweeps, trace
    width = -(-len(trace) // (_MAX_POINTS // 2))
    padded = np.full(-(-len(trace) // width) * width, np.nan)
    padded[: len(trace)] = trace
    pieces = padded.reshape(-1, width)
    gaps = np.isnan(pieces)
    extremes = [np.where(gaps, np.inf, pieces).argmin(axis=1), np.where(gaps, -np.inf, pieces).argmax(axis=1)]
    # A piece of gaps alone is kept by its first one.
    kept = np.unique(np.arange(len(pieces)) * width + extremes)
    return sweeps[kept], trace[kept]


def _sweep_ticks(n_sweeps):
    """Two or three round numbers, none near the right end, where the label would meet the next panel's 0."""
    if n_sweeps < 4:
        return [0]
    rough = n_sweeps / 3.0
    power = 10.0 ** np.floor(np.log10(rough))
    step = max(1.0, next(factor for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= rough) * power)
    return [place for place in np.arange(0.0, n_sweeps, step) if place <= 0.75 * n_sweeps]


def _linear_axis(axis, bounds, low, name):
    from matplotlib.ticker import MaxNLocator

    is_count = name == "n_leaves"
    low, high = min(low, bounds.max()), bounds.max()
    margin = _MARGIN * ((high - low) or abs(high) or 1.0)
    axis.set_ylim(low - (0.0 if is_count else margin), high + margin)
    axis.yaxis.set_major_locator(MaxNLocator(5, integer=is_count, min_n_ticks=3))


def _lowest_level(results):
    """Where the axis of the log-likelihood begins: the lowest usual value, for the first sweeps lie far below."""
    skipped = min(10, _n_sweeps(results) // 5)
    values = _finite(results, "log_likelihood", first=skipped)
    return float(np.quantile(values, 0.002)) if values.size else 0.0


def _hidden(results):
    """Number of finite values below the axis of the log-likelihood, and the last sweep that has one."""
    lowest, values = _lowest_level(results), _finite(results, "log_likelihood")
    limit = lowest - _MARGIN * (values.max(initial=lowest) - lowest)
    traces = [np.asarray(chain["log_likelihood"]) for chains in results.values() for chain in chains]
    sweeps = np.concatenate([1 + np.flatnonzero(np.isfinite(trace) & (trace < limit)) for trace in traces])
    return len(sweeps), int(sweeps.max(initial=0))


def _log_axes(axes, bounds):
    """Logarithmic axes, labelled at powers of ten and, where they span little, at 2 and 5 of each decade."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = bounds.min(), bounds.max()
    decades = np.log10(high / low)
    wide = decades > 1.7
    pad = 10.0 ** (_MARGIN * max(decades, 0.5))
    for axis in axes:
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=7 if wide else 12))
        axis.yaxis.set_minor_locator(LogLocator(subs=np.arange(2.0, 10.0), numticks=12))
        axis.yaxis.set_major_formatter(FuncFormatter(_power if wide else _plain))
        axis.yaxis.set_minor_formatter(NullFormatter())
    axes[0].set_ylim(low / pad, high * pad)


def _power(value, _):
    return rf"$10^{{{round(np.log10(value))}}}$"


def _plain(value, _):
    if 0.0009 < value < 9999.0:
        return f"{value:g}"
    power = int(np.floor(np.log10(value) + 1e-9))
    return rf"${value / 10.0**power:.0f}\cdot10^{{{power}}}$"


def _legend(figure, results, n_burn, variances):
    """Two rows above the panels: the starts, then the straight lines and the burn-in."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    found = [chain["start"] for chains in results.values() for chain in chains]
    kinds = sorted(set(found), key=lambda kind: ([*pictures.START_COLOURS, kind].index(kind), kind))
    starts = [
        Line2D([], [], lw=1.6, color=pictures.start_colour(kind), label=pictures.start_label(kind)) for kind in kinds
    ]
    others = [Line2D([], [], label="reference", **_REFERENCE)]
    looks = {"variance": (_VARIANCE, "variance of $y$"), "noise": (_NOISE, "noise variance")}
    for kind in _drawn(results, variances):
        look, label = looks[kind]
        others.append(Line2D([], [], label=label, **look))
    if n_burn > 0:
        others.append(Patch(facecolor=_BURN, edgecolor="0.6", linewidth=0.4, label="burn-in"))
    n_columns = max(len(starts), len(others))
    if n_columns > _MAX_COLUMNS:
        n_columns = -(-len(starts + others) // 2)
        starts, others = (starts + others)[:n_columns], (starts + others)[n_columns:]
    rows = [row + [Line2D([], [], ls="none", label=" ")] * (n_columns - len(row)) for row in (starts, others)]
    # A legend is filled column by column.
    handles = [row[column] for column in range(n_columns) for row in rows]
    tight = n_columns > _MAX_COLUMNS
    figure.legend(
        handles=handles, loc="upper center", ncols=n_columns, fontsize=6.2 if tight else 7.2,
        handlelength=1.1 if tight else 1.5, handletextpad=0.35, columnspacing=0.5 if tight else 0.9,
        labelspacing=0.25, borderaxespad=0.15, borderpad=0.1,
    )  # fmt: skip
