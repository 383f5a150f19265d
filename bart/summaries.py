"""What Posterior returns: predictions, blocks of them, and tables of statistics."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from .inputs import check_real

__all__ = ["Block", "Prediction", "Summary", "make_prediction", "quantile_levels", "split_levels"]


class Prediction(NamedTuple):
    """What `Posterior.predict` returns when more than the mean is asked for, all in the units of y.

    Attributes
    ----------
    mean : ndarray, shape (n,)
        Posterior mean of f.
    draws : ndarray or None, shape (n_chains, n_draws, n)
        f of each kept draw; an outcome simulated from it with ``kind="outcome"``.
    quantiles : ndarray or None, shape (n_quantiles, n)
        Posterior quantiles of f, or of the outcome.
    interval : ndarray or None, shape (2, n)
        Lower and upper end of the central interval of f, or of the outcome.
    """

    mean: np.ndarray
    draws: np.ndarray | None = None
    quantiles: np.ndarray | None = None
    interval: np.ndarray | None = None


class Block(NamedTuple):
    """A block of predictions: f in the units of y (n_block_draws, n_block_rows), and its place."""

    chain: int
    draws: slice
    rows: slice
    values: np.ndarray


class Summary(Mapping):
    """A table of statistics: ``summary["sigma"]["r_hat"]``; printing it shows the table.

    Attributes
    ----------
    statistics : tuple of str
        "mean", "sd", "mcse", "ess_bulk", "ess_tail", "r_hat".
    notes : tuple of str
        Lines below the table.
    """

    statistics = ("mean", "sd", "mcse", "ess_bulk", "ess_tail", "r_hat")

    def __init__(self, rows, notes=()):
        self._rows = dict(rows)
        self.notes = tuple(notes)

    def __getitem__(self, name):
        return self._rows[name]

    def __iter__(self):
        return iter(self._rows)

    def __len__(self):
        return len(self._rows)

    def __str__(self):
        width = max([len(name) for name in self._rows], default=0)
        lines = [" " * width + "".join(f"{name:>12}" for name in self.statistics)]
        for name, row in self._rows.items():
            lines.append(f"{name:<{width}}" + "".join(_cell(key, row[key]) for key in self.statistics))
        return "\n".join([*lines, *self.notes])

    __repr__ = __str__


def _cell(name, value):
    if name.startswith("ess"):
        return f"{value:>12.0f}"
    return f"{value:>12.3f}" if name == "r_hat" else f"{value:>12.5g}"


def split_levels(found, quantiles, interval):
    """Quantiles and interval of what was found at `quantile_levels`, a row each; None for what was not asked."""
    n_quantiles = len(found) - 2 * (interval is not None)
    return None if quantiles is None else found[:n_quantiles], None if interval is None else found[n_quantiles:]


def make_prediction(mean, draws, found, quantiles, interval):
    """The mean alone, or a Prediction where more was asked for."""
    if draws is None and quantiles is None and interval is None:
        return mean
    return Prediction(mean, draws, *split_levels(found, quantiles, interval))


def quantile_levels(quantiles, interval):
    """Levels of the quantiles that `Posterior.predict` is asked for, then the two of the interval, if any."""
    levels = []
    if quantiles is not None:
        if isinstance(quantiles, str) or not np.iterable(quantiles):
            quantiles = [quantiles]
        levels = [check_real(level, f"quantiles[{place}]", 0, 1, "both") for place, level in enumerate(quantiles)]
    if interval is not None:
        width = check_real(interval, "interval", 0, 1)
        levels += [0.5 - 0.5 * width, 0.5 + 0.5 * width]
    return levels
