"""Partial dependence and ICE, drawn."""

from __future__ import annotations

import numpy as np

from .axes import COLOURS, one_axes, tidy
from .inputs import as_matrix, check_count, check_flag

__all__ = ["dependence", "individual_dependence"]


def dependence(found, ax=None, X=None, colour=COLOURS[0]):
    """Partial dependence: of one column a curve with its credible band, of two a filled map.

    Parameters
    ----------
    found : bart.dependence.Dependence
    ax : matplotlib.axes.Axes, optional
    X : array-like, shape (n, n_dims), optional
        Rows whose values of the columns are marked: where there are none, f is extrapolated. On a map the cells
        without rows are pale, and the colours' range is that of the others.
    colour : colour of matplotlib
        Of curve and band, so that several curves go on one axes.

    Returns
    -------
    Axes
    """
    X = None if X is None else as_matrix(X, "X")[0]
    if X is not None and X.shape[1] <= max(found.columns):
        raise ValueError(f"X has {X.shape[1]} columns, but the dependence is on column {max(found.columns)} (from 0)")
    if len(found.columns) == 1:
        ax = one_axes(ax)
        (grid,), (column,) = found.grid, found.columns
        ax.fill_between(grid, *found.interval, color=colour, alpha=0.22, linewidth=0,
                        label=f"{found.level:.0%} credible band")  # fmt: skip
        ax.plot(grid, found.mean, color=colour, linewidth=1.8, label="posterior mean")
        if X is not None:
            _rug(ax, X[:, column])
        ax.set_ylabel(_dependence_label(found))
        ax.set_xlabel(found.labels[0])
        ax.legend(fontsize=8, frameon=False)
        tidy(ax)
        return ax
    ax = one_axes(ax, (5.8, 4.6))
    from matplotlib.ticker import MaxNLocator

    first, second = found.grid
    seen = np.ones(found.mean.shape, dtype=bool) if X is None else _with_rows(X[:, list(found.columns)], found.grid)
    low, high = found.mean[seen].min(), found.mean[seen].max()
    image = ax.pcolormesh(first, second, found.mean.T, cmap="cividis", shading="nearest", rasterized=True, vmin=low,
                          vmax=high)  # fmt: skip
    if min(len(first), len(second)) > 2 and high > low:
        levels = MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high)
        levels = levels[(levels > low) & (levels < high)]
        lines = ax.contour(first, second, found.mean.T, levels=levels, colors="white", linewidths=0.7)
        ax.clabel(lines, fontsize=7, fmt="%g")
    if not seen.all():
        veil = np.ma.masked_where(seen.T, np.zeros(seen.T.shape))
        ax.pcolormesh(first, second, veil, cmap="gray_r", vmin=0, vmax=1, alpha=0.6, shading="nearest", rasterized=True,
                      zorder=2.5)  # fmt: skip
    if X is not None:
        ax.scatter(*X[:, list(found.columns)].T, s=4, color="white", edgecolor="0.2", linewidth=0.3, alpha=0.7,
                   zorder=3)  # fmt: skip
    ax.set_xlabel(found.labels[0])
    ax.set_ylabel(found.labels[1])
    ax.figure.colorbar(image, ax=ax, label=_dependence_label(found))
    return ax


def _dependence_label(found):
    return f"change of f ({found.units})" if found.centred else f"f ({found.units})"


def _with_rows(values, grids):
    """Whether a cell, the points that are nearest to one of the grid, holds a row; shape of the grid."""
    both = zip(grids, values.T, strict=True)
    cells = [np.searchsorted(0.5 * (grid[1:] + grid[:-1]), column) for grid, column in both]
    seen = np.zeros([len(grid) for grid in grids], dtype=bool)
    seen[tuple(cells)] = True
    return seen


def _rug(ax, values):
    low, high = ax.get_xlim()
    inside = values[(values >= low) & (values <= high)]
    ax.plot(inside, np.zeros(len(inside)), "|", color="0.25", markersize=7, alpha=0.35, clip_on=False,
            transform=ax.get_xaxis_transform(), scalex=False, scaley=False)  # fmt: skip


def individual_dependence(found, band=False, most=200, ax=None):
    """ICE: one thin curve a row, and their mean.

    Parameters
    ----------
    found : bart.dependence.IndividualDependence
    band : bool
        Shade each curve's credible band, for a few rows.
    most : int
        Curves drawn, spread evenly over the rows; the mean is over all rows.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    Axes
    """
    check_flag(band, "band")
    n = len(found.mean)
    chosen = np.unique(np.linspace(0, n - 1, min(check_count(most, "most"), n)).astype(int))
    ax = one_axes(ax)
    fade = float(np.clip(20 / len(chosen), 0.12, 0.8))
    for place, row in enumerate(chosen):
        label = f"{len(chosen)} of {n} rows" if place == 0 else None
        ax.plot(found.grid, found.mean[row], color=COLOURS[0], linewidth=0.8, alpha=fade, label=label)
        if band:
            ax.fill_between(found.grid, *found.interval[:, row], color=COLOURS[0], alpha=0.15, linewidth=0)
    ax.plot(found.grid, found.mean.mean(axis=0), color=COLOURS[1], linewidth=2.2, label="mean of all rows")
    ax.set_xlabel(found.label)
    ax.set_ylabel(_dependence_label(found))
    legend = ax.legend(fontsize=8, frameon=False)
    for handle in legend.legend_handles:
        handle.set_alpha(1.0)
    tidy(ax)
    return ax
