"""How f depends on one column or two, averaged over rows (partial dependence) or row by row (ICE)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .data import check_rows
from .inputs import as_vector, check_count, check_flag, check_real
from .prediction import predict_blocks
from .probabilities import all_draws
from .progress import Bar
from .trees import column_label

__all__ = ["Dependence", "IndividualDependence", "column_number", "individual_dependence", "partial_dependence"]

_BLOCK_NUMBERS = 4_000_000


class Dependence(NamedTuple):
    """Partial dependence of f on one column or two, in the units of y (latent ones for probit).

    Attributes
    ----------
    columns : tuple of int
        One or two.
    grid : tuple of ndarray
        Of each column, the values that it takes, shape (n_grid,).
    mean : ndarray, shape (n_grid,) or (n_grid_1, n_grid_2)
        Posterior mean.
    interval : ndarray, shape (2, ...)
        Lower and upper end of the pointwise central credible interval.
    draws : ndarray, shape (n_chains, n_draws, ...)
        The average over rows in each draw.
    level : float
        Probability of the interval.
    centred : bool
        Whether the value at the first point of the grid is subtracted in each draw.
    labels : tuple of str
        Names of the columns.
    units : str
        Of f, as `Posterior.units`.
    """

    columns: tuple
    grid: tuple
    mean: np.ndarray
    interval: np.ndarray
    draws: np.ndarray
    level: float
    centred: bool
    labels: tuple
    units: str = "units of y"


class IndividualDependence(NamedTuple):
    """Individual conditional expectations (ICE): f of each row as one column goes over its grid, in the units of y
    (latent ones for probit).

    Attributes
    ----------
    column : int
    grid : ndarray, shape (n_grid,)
    mean : ndarray, shape (n, n_grid)
        Posterior mean of each row's curve.
    interval : ndarray, shape (2, n, n_grid)
        Pointwise central credible interval.
    level : float
    centred : bool
        Whether a row's value at the first point of the grid is subtracted in each draw.
    label : str
        Name of the column.
    units : str
        Of f, as `Posterior.units`.
    """

    column: int
    grid: np.ndarray
    mean: np.ndarray
    interval: np.ndarray
    level: float
    centred: bool
    label: str
    units: str = "units of y"


def column_number(column, header, name="columns"):
    """The number of a column given by number or by its name in the training frame.

    Raises
    ------
    TypeError, ValueError
        It is neither, or there is no such column.
    """
    names, n_dims = header["column_names"], header["n_dims"]
    if isinstance(column, str):
        if names is None:
            raise ValueError(f"{name} holds {column!r}, but the training X had no column names")
        if column not in names:
            raise ValueError(f"{name} holds {column!r}, which is none of {', '.join(map(repr, names))}")
        return list(names).index(column)
    number = check_count(column, name, 0)
    if number >= n_dims:
        raise ValueError(f"{name} holds {number}, but there are {n_dims} columns (from 0)")
    return number


def _grid_of(values, given, n_grid, name):
    """The grid of one column: the given one, else all its distinct values, or some of them."""
    if given is not None:
        grid = as_vector(given, name)
        if np.any(np.diff(grid) <= 0):
            place = int(np.flatnonzero(np.diff(grid) <= 0)[0]) + 1
            raise ValueError(f"{name} must increase, but does not at position {place}")
        return grid
    distinct = np.unique(values)
    if len(distinct) <= n_grid:
        return distinct
    # Quantiles alone leave the ends of a skew column bare, even steps alone its middle.
    n_even = n_grid // 2
    even = np.linspace(distinct[0], distinct[-1], n_even + 2)[1:-1]
    after = np.searchsorted(distinct, even)
    nearest = np.where(even - distinct[after - 1] < distinct[after] - even, after - 1, after)
    ranks = np.linspace(0.0, 1.0, n_grid - n_even)
    return np.unique(np.concatenate([np.quantile(values, ranks, method="nearest"), distinct[nearest]]))


def _grids(X, columns, grid, n_grid):
    """The grid of each column from what the user gave: nothing, one vector, or one vector for each of two."""
    check_count(n_grid, "n_grid", 3)
    if len(columns) == 1:
        grids = [_grid_of(X[:, columns[0]], grid, n_grid, "grid")]
    elif grid is None:
        grids = [_grid_of(X[:, column], None, n_grid, "grid") for column in columns]
    else:
        if not isinstance(grid, (list, tuple)) or len(grid) != 2:
            raise TypeError("grid must be a pair of vectors for two columns")
        both = zip(columns, grid, strict=True)
        grids = [_grid_of(X[:, c], g, n_grid, f"grid[{i}]") for i, (c, g) in enumerate(both)]
    return grids


def _rows(post, X):
    X = check_rows(X, post.header["n_dims"], post.header["column_names"], "X")
    if not len(X):
        raise ValueError("X has no rows to average over")
    return X


def partial_dependence(post, X, columns, grid=None, n_grid=20, interval=0.9, centred=False, every=1, n_threads=1,
                       progress=False):  # fmt: skip
    """`Posterior.partial_dependence`."""
    level, centred = check_real(interval, "interval", 0, 1), check_flag(centred, "centred")
    check_count(every, "every")
    check_count(n_threads, "n_threads")
    X = _rows(post, X)
    given = list(columns) if isinstance(columns, (list, tuple)) else [columns]
    if len(given) not in (1, 2):
        raise ValueError(f"columns must be one column or two, got {len(given)}")
    columns = tuple(column_number(column, post.header) for column in given)
    if len(set(columns)) != len(columns):
        raise ValueError(f"columns holds column {columns[0]} twice")
    grids = _grids(X, columns, grid, n_grid)
    shape = tuple(len(part) for part in grids)
    draws = np.zeros((post.n_chains, len(range(0, post.n_draws, every)), *shape))
    changed = np.array(X)
    with Bar(progress, int(np.prod(shape)), "point", "partial dependence") as bar:
        for place in np.ndindex(shape):
            for column, part, at in zip(columns, grids, place, strict=True):
                changed[:, column] = part[at]
            total = draws[(slice(None), slice(None), *place)]
            for block in predict_blocks(post, changed, every=every, n_threads=n_threads):
                total[block.chain, block.draws] += block.values.sum(axis=1)
            bar.update(1)
    draws /= len(X)
    if centred:
        first = (slice(None), slice(None), *[slice(0, 1)] * len(shape))
        draws -= draws[first].copy()
    flat = draws.reshape(-1, *shape)
    ends = np.quantile(flat, _ends(level), axis=0)
    labels = tuple(column_label(post.header["column_names"], column) for column in columns)
    return Dependence(columns, tuple(grids), flat.mean(axis=0), ends, draws, level, centred, labels, post.units)


def individual_dependence(post, X, column, grid=None, n_grid=20, interval=0.9, centred=False, every=1, n_threads=1,
                          progress=False):  # fmt: skip
    """`Posterior.individual_dependence`."""
    level, centred = check_real(interval, "interval", 0, 1), check_flag(centred, "centred")
    check_count(every, "every")
    check_count(n_threads, "n_threads")
    X, column = _rows(post, X), column_number(column, post.header, "column")
    (grid,) = _grids(X, (column,), grid, n_grid)
    n_used = post.n_chains * len(range(0, post.n_draws, every))
    step = max(1, _BLOCK_NUMBERS // n_used)
    mean, ends = np.empty((len(X), len(grid))), np.empty((2, len(X), len(grid)))
    with Bar(progress, len(X) * len(grid), "point", "ICE") as bar:
        for first in range(0, len(X), step):
            rows = slice(first, min(first + step, len(X)))
            changed, anchor = np.array(X[rows]), None
            for place, value in enumerate(grid):
                changed[:, column] = value
                blocks = [values for _, values in all_draws(post, changed, every, n_threads)]
                held = np.concatenate(blocks, axis=2).reshape(n_used, -1)
                if centred:
                    anchor = held.copy() if anchor is None else anchor
                    held -= anchor
                mean[rows, place] = held.mean(axis=0)
                ends[:, rows, place] = np.quantile(held, _ends(level), axis=0, overwrite_input=True)
                bar.update(rows.stop - first)
    label = column_label(post.header["column_names"], column)
    return IndividualDependence(column, grid, mean, ends, level, centred, label, post.units)


def _ends(level):
    return [0.5 - 0.5 * level, 0.5 + 0.5 * level]
