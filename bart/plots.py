"""Pictures of a Posterior and of what its methods return: matplotlib axes in and out (extra: plots).

Every function takes the axes to draw on, or makes a figure of its own, and returns the axes;
``ax.figure.savefig(path)`` writes it. No state of pyplot is read or made. Colours are Okabe and Ito's, safe for the
colour-blind.
"""

from __future__ import annotations

import numpy as np

from .axes import COLOURS, new_axes, one_axes, tidy
from .dependence_plot import dependence, individual_dependence
from .diagnostics import ess_bulk, split_rhat
from .inputs import as_vector, check_count, check_flag
from .tree_plot import tree

__all__ = [
    "convergence", "dependence", "importance", "inclusion", "individual_dependence", "interactions", "intervals",
    "traces", "tree",
]  # fmt: skip

_LABELS = {
    "log_likelihood": "log-likelihood",
    "sigma": r"$\sigma$",
    "n_leaves": "leaves, all trees",
    "depth": "largest depth",
    "tree_changed": "share of trees changed",
    "root_changed": "share of roots changed",
    "row_visits": "row visits a sweep",
    "seconds": "CPU seconds a sweep",
}
# Vehtari et al. 2021 ask for an R-hat below this.
_RHAT_LIMIT = 1.01


def _several(axes, n, height=1.9, **options):
    if axes is None:
        return new_axes(n, size=(6.8, 0.5 + height * n), **options)[:, 0]
    axes = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    if len(axes) != n:
        raise ValueError(f"axes must hold {n} axes, got {len(axes)}")
    return axes


def _label(post, name):
    label = _LABELS.get(name, name)
    return f"{label} ({post.units})" if name == "sigma" else label


def _check_names(post, names):
    names = [names] if isinstance(names, str) else list(names)
    if not names:
        raise ValueError("names is empty")
    for place, name in enumerate(names):
        if name not in post:
            raise ValueError(f"names[{place}] is {name!r}, which is none of {', '.join(post)}")
    return names


def traces(post, names=("sigma", "log_likelihood", "n_leaves"), burn=True, axes=None):
    """Traces of all chains, one panel a trace; the burn-in is shaded.

    Parameters
    ----------
    post : Posterior
    names : str or sequence of str
    burn : bool
        Draw the burn-in too, on the left of a line; all sweeps are then drawn, whatever the thinning.
    axes : sequence of matplotlib.axes.Axes, optional
        One a trace.

    Returns
    -------
    ndarray of Axes, shape (n_names,)
    """
    names, burn = _check_names(post, names), check_flag(burn, "burn")
    axes = _several(axes, len(names), sharex=True)
    thin = post.header["thin"]
    for ax, name in zip(axes, names, strict=True):
        if burn:
            values, sweeps = post.sweeps[name], np.arange(1, post.sweeps[name].shape[1] + 1)
        else:
            values, sweeps = post[name], post.n_burn + thin * np.arange(1, post.n_draws + 1)
        for chain, trace in enumerate(values):
            start = post.starts[chain] if chain < len(post.starts) else ""
            label = f"chain {chain} ({start})" if start else f"chain {chain}"
            ax.plot(sweeps, trace, color=COLOURS[chain % len(COLOURS)], linewidth=0.7, alpha=0.85, label=label)
        if burn and post.n_burn:
            ax.axvspan(0, post.n_burn + 0.5, color="0.92", zorder=0)
        ax.set_ylabel(_label(post, name))
        ax.set_xlim(0 if burn else sweeps[0], sweeps[-1])
        if values.dtype.kind == "f":
            _clip_start(ax, values, post.n_burn if burn else 0)
        tidy(ax)
    axes[0].figure.align_ylabels(axes)
    axes[-1].set_xlabel("sweep (shaded: burn-in)" if burn and post.n_burn else "sweep")
    handles, labels = axes[0].get_legend_handles_labels()
    axes[0].legend(handles[:8], labels[:8], ncols=min(4, len(handles)), loc="lower center", fontsize=8,
                   frameon=False, bbox_to_anchor=(0.5, 1.0))  # fmt: skip
    return axes


def _clip_start(ax, values, n_burn):
    """Limits by the kept part and the later burn-in: the first sweeps, from far away, would press the rest flat."""
    later = values[:, n_burn // 4 :]
    low, high = float(later.min()), float(later.max())
    margin = 0.06 * (high - low)
    if margin > 0 and (values.min() < low - 4 * margin or values.max() > high + 4 * margin):
        ax.set_ylim(low - margin, high + margin)


def convergence(post, names=("sigma", "log_likelihood"), n_points=30, axes=None):
    """R-hat and bulk ESS of the kept draws so far, as sweeps go (extra: diagnostics).

    Parameters
    ----------
    post : Posterior
        With two chains or more for R-hat.
    names : str or sequence of str
    n_points : int
        Places along the run at which they are computed, at least 2.
    axes : pair of matplotlib.axes.Axes, optional
        For R-hat, for the ESS.

    Returns
    -------
    ndarray of Axes, shape (2,)
    """
    names, n_points = _check_names(post, names), check_count(n_points, "n_points", 2)
    if post.n_draws < 8:
        raise ValueError(f"the run has {post.n_draws} kept draws a chain, too few to see convergence")
    ends = np.unique(np.linspace(max(4, post.n_draws // n_points), post.n_draws, n_points).astype(int))
    sweeps = post.n_burn + post.header["thin"] * ends
    axes = _several(axes, 2, sharex=True)
    for number, name in enumerate(names):
        draws = post[name]
        style = {"color": COLOURS[number % len(COLOURS)], "marker": "o", "markersize": 2.5, "linewidth": 1.2}
        style["label"] = _label(post, name)
        axes[0].plot(sweeps, [split_rhat(draws[:, :end]) for end in ends], **style)
        axes[1].plot(sweeps, [ess_bulk(draws[:, :end]) for end in ends], **style)
    axes[0].axhline(_RHAT_LIMIT, color="0.4", linewidth=0.8, linestyle="--")
    axes[0].annotate(f"{_RHAT_LIMIT}", (1.0, _RHAT_LIMIT), xycoords=("axes fraction", "data"), color="0.4", fontsize=8,
                     xytext=(-2, 2), textcoords="offset points", ha="right")  # fmt: skip
    axes[0].set_ylabel(r"$\hat{R}$")
    axes[1].plot(sweeps, post.n_chains * ends, color="0.4", linewidth=0.8, linestyle="--", label="independent draws")
    axes[1].set_yscale("log")
    axes[1].set_ylabel("bulk ESS, all chains")
    axes[1].set_xlabel(f"sweep (draws kept from {post.n_burn} on)")
    axes[1].legend(fontsize=8, frameon=False)
    for ax in axes:
        tidy(ax)
    axes[0].figure.align_ylabels(axes)
    return axes


def intervals(prediction, truth, ax=None):
    """Intervals and means of rows, against the truth; what missed is marked, and the coverage counted.

    Parameters
    ----------
    prediction : Prediction
        Of ``post.predict(X, interval=...)``: of f against a known f, or with ``kind="outcome"`` against y.
    truth : array-like, shape (n,)
        In the units of the prediction.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    Axes
    """
    if getattr(prediction, "interval", None) is None:
        raise ValueError("prediction has no interval: make it by post.predict(X, interval=...)")
    truth = as_vector(truth, "truth")
    if len(truth) != len(prediction.mean):
        raise ValueError(f"truth has {len(truth)} values, but prediction {len(prediction.mean)} rows")
    ax = one_axes(ax, (5.2, 5.0))
    low, high = prediction.interval
    inside = (low <= truth) & (truth <= high)
    fade = float(np.clip(150 / len(truth), 0.15, 0.8))
    for hits, colour, label in ((inside, COLOURS[0], "inside"), (~inside, COLOURS[1], "missed")):
        if not hits.any():
            continue
        ax.vlines(truth[hits], low[hits], high[hits], color=colour, linewidth=1.0, alpha=fade, zorder=2)
        ax.scatter(truth[hits], prediction.mean[hits], s=9, color=colour, linewidth=0, zorder=3,
                   label=f"{label}: {hits.sum()} of {len(truth)} ({hits.mean():.1%})")  # fmt: skip
    ends = [truth.min(), truth.max()]
    ax.plot(ends, ends, color="0.35", linewidth=0.9, linestyle="--", zorder=1)
    ax.set_xlabel("truth")
    ax.set_ylabel("posterior mean and interval")
    ax.legend(fontsize=8, frameon=False, loc="upper left")
    tidy(ax)
    return ax


def _bars(ax, labels, order):
    ax.set_yticks(np.arange(len(order)), [labels[dim] for dim in order])
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.grid(axis="x", color="0.9", linewidth=0.6)
    ax.set_axisbelow(True)
    tidy(ax)


def _top(mean, top):
    n = len(mean) if top is None else min(check_count(top, "top"), len(mean))
    return np.argsort(-mean, kind="stable")[:n]


def inclusion(found, top=None, level=0.05, rule="local", ax=None):
    """Shares of splits by column with their Monte Carlo error, the prior's reference and the permutation null.

    Parameters
    ----------
    found : bart.inclusion.Inclusion
        Of `Posterior.inclusion`; with ``model=`` it has a prior's reference, with ``null=`` a null.
    top : int, optional
        Only so many columns, those of the largest shares.
    level : float in (0, 1)
    rule : {"local", "max", "se"}
        Of the null's threshold, see `PermutationNull.threshold`; columns above it are drawn darker.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    Axes
    """
    order = _top(found.mean, top)
    places = np.arange(len(order))
    limit = None if found.null is None else found.null.threshold(level, rule)
    ax = one_axes(ax, (6.4, 1.4 + 0.3 * len(order)))
    colours = [COLOURS[0] if limit is None or found.mean[dim] > limit[dim] else "#9CC3E0" for dim in order]
    errors = np.nan_to_num(found.mcse[order])
    ax.barh(places, found.mean[order], height=0.62, color=colours, label="posterior (± 2 MCSE)")
    ax.errorbar(found.mean[order], places, xerr=2 * errors, fmt="none", ecolor="0.15", elinewidth=1.0, capsize=2)
    if found.prior is not None:
        ax.scatter(found.prior[order], places, marker="D", s=26, color=COLOURS[4], edgecolor="0.15", linewidth=0.5,
                   zorder=4, label="prior")  # fmt: skip
    if limit is not None:
        ax.vlines(limit[order], places - 0.4, places + 0.4, color=COLOURS[1], linewidth=1.8, zorder=3,
                  label=f"permutation null, {rule} threshold at {level:g}")  # fmt: skip
    what = {"splits": "share of splits", "trees": "share of trees", "any": "posterior probability of a split"}
    ax.set_xlabel(what[found.kind])
    ax.set_xlim(left=0)
    _bars(ax, found.labels, order)
    ax.legend(fontsize=8, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    return ax


def importance(found, top=None, ax=None):
    """Permutation importance by column: the mean over repeats, and each repeat as a point.

    Parameters
    ----------
    found : bart.permutation.Importance
    top : int, optional
        Only so many columns, the most important.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    Axes
    """
    order = _top(found.mean, top)
    ax = one_axes(ax, (6.4, 1.1 + 0.3 * len(order)))
    places = np.arange(len(order))
    ax.barh(places, found.mean[order], height=0.62, color="#9CC3E0")
    for repeat in found.repeats:
        ax.scatter(repeat[order], places, s=12, color=COLOURS[0], alpha=0.8, linewidth=0, zorder=3)
    ax.axvline(0.0, color="0.4", linewidth=0.8)
    what = {"mse": "increase of the mean squared error", "log_score": "loss of mean log predictive density"}
    ax.set_xlabel(f"{what[found.metric]} when the column is permuted")
    ax.xaxis.set_major_formatter("{x:.3g}")     # no power of ten in the corner, which the label would cover
    _bars(ax, found.labels, order)
    return ax


def interactions(found, top=None, ax=None):
    """Pairs of columns that meet in one tree, as a matrix.

    Parameters
    ----------
    found : bart.inclusion.Interactions
    top : int, optional
        Only so many columns, those with the largest sums.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    Axes
    """
    matrix = found.matrix()
    order = np.sort(_top(matrix.sum(axis=1), top))
    matrix, labels = matrix[np.ix_(order, order)], [found.labels[dim] for dim in order]
    size = 2.2 + 0.42 * len(order)
    ax = one_axes(ax, (size + 0.8, size))
    lower = np.ma.masked_where(np.triu(np.ones_like(matrix, dtype=bool), 1), matrix)
    image = ax.imshow(lower, cmap="Blues", vmin=0.0)
    ticks = np.arange(len(order))
    ax.set_xticks(ticks, labels, rotation=90 if max(map(len, labels)) > 3 else 0)
    ax.set_yticks(ticks, labels)
    if len(order) <= 12:
        dark = 0.55 * max(float(matrix.max()), 1e-300)
        for a in ticks:
            for b in range(a + 1):
                colour = "white" if matrix[a, b] > dark else "black"
                ax.text(b, a, f"{matrix[a, b]:.2f}", ha="center", va="center", fontsize=7, color=colour)
    what = {"splits": "share of pairs of nested nodes", "trees": "share of trees with such nested nodes"}
    ax.figure.colorbar(image, ax=ax, label=what[found.kind], shrink=0.85)
    tidy(ax)
    return ax
