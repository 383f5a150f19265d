"""Quantiles of the law of y at new rows: an equal mixture of normal laws over the draws."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

__all__ = ["mixture_quantiles"]

# Relative to the spread of the components; a step of Newton's below it is the last.
_TOLERANCE = 1e-10
_MOST_STEPS = 200


def mixture_quantiles(f, sigma, levels):
    """Quantiles of equal mixtures of normal laws: those of y at new rows, over the draws.

    Parameters
    ----------
    f : (S, n) float64
        Means of the S components, for each of n mixtures.
    sigma : (S,) float64
        Standard deviations, > 0.
    levels : sequence of float in [0, 1]

    Returns
    -------
    (len(levels), n) float64
        -inf and inf for the levels 0 and 1. By Newton's method on the distribution function between bounds, to 1e-10 of
        the components' spread; a column's result does not depend on those beside it.
    """
    found = np.empty((len(levels), f.shape[1]))
    for k, level in enumerate(levels):
        if level in (0.0, 1.0):
            found[k] = -np.inf if level == 0.0 else np.inf
        else:
            found[k] = _mixture_quantile(f, sigma[:, None], level)
    return found


def _mixture_quantile(means, sds, level):
    # The quantile of a mixture lies between the least and the largest of its components'.
    ends = means + sds * ndtri(level)
    low, high = ends.min(axis=0), ends.max(axis=0)
    place, out = 0.5 * low + 0.5 * high, np.empty(means.shape[1])
    limit = _TOLERANCE * (np.ptp(means, axis=0) + sds.max())
    open_ = np.arange(means.shape[1])
    for _ in range(_MOST_STEPS):
        u = (place - means[:, open_]) / sds
        excess = ndtr(u).mean(axis=0) - level
        density = (np.exp(-0.5 * u * u) / sds).mean(axis=0) / np.sqrt(2.0 * np.pi)
        low, high = np.where(excess < 0, place, low), np.where(excess > 0, place, high)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            moved = place - excess / density
        moved = np.where((moved > low) & (moved < high), moved, 0.5 * low + 0.5 * high)
        settled = (np.abs(moved - place) <= limit[open_]) | (excess == 0)
        out[open_[settled]] = np.where(excess == 0, place, moved)[settled]
        open_, place, low, high = open_[~settled], moved[~settled], low[~settled], high[~settled]
        if not len(open_):
            break
    out[open_] = place
    return out
