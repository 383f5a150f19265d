"""The joint redraw of all leaf values of an ensemble between sweeps."""

from __future__ import annotations

import numpy as np

from ..kernels.cholesky import normal_draw
from ..kernels.joint import leaf_statistics
from .base import BetweenSweeps


class JointLeaves(BetweenSweeps):
    """Redraw the leaf values of all trees jointly, after every so many sweeps.

    A part of a `Cycle` at its end, behind samplers of trees: ``Cycle(GrowPrune(), JointLeaves(every=5))``.

    Parameters
    ----------
    every : int
        The values are redrawn after the sweeps whose number, counted from the start of the chain, is a multiple.

    Notes
    -----
    mu | trees, sigma2 ~ N(A^-1 b, A^-1) with A = Z'Z / s2 + I / leaf_var, b = Z'y / s2 + leaf_mean / leaf_var and
    s2 = sigma2 / temperature; Z holds the leaf indicators of all trees, one column for each of the K leaves. With
    weights of the rows Z'WZ and Z'Wy, W = diag(weights), in place of Z'Z and Z'y: n_trees^2 / 2 passes over the rows.

    See `Levels` for when it is done. The cost grows as K^3 and the memory as 16 K^2 bytes: it is made for K in the
    thousands. Where rounding leaves A not definite (sigma2 below some 1e-10 of N leaf_var) the
    values stay as they are, which is exact too: A is a function of the trees and sigma2, which do not change.
    """

    name = "joint"

    def redraw(self, kernel, rng):
        counts, sums = leaf_statistics(kernel.states, kernel.y, kernel.weights)
        values = draw_values(counts, sums, kernel.sigma2 / kernel.temperature, kernel.leaf_mean, kernel.leaf_var, rng)
        if values is not None:
            kernel.set_leaf_values(values)


def draw_values(counts, sums, sigma2, leaf_mean, leaf_var, rng):
    """A draw from N(A^-1 b, A^-1).

    Parameters
    ----------
    counts : (K, K) float64
        Lower triangle of Z'Z (or Z'WZ); overwritten.
    sums : (K,) float64
        Z'y (or Z'Wy).
    sigma2, leaf_mean, leaf_var : float
    rng : numpy.random.Generator

    Returns
    -------
    (K,) float64, or None where rounding leaves A not definite
    """
    precision = counts
    precision /= sigma2
    precision[np.diag_indices_from(precision)] += 1.0 / leaf_var
    return normal_draw(precision, sums / sigma2 + leaf_mean / leaf_var, rng.standard_normal(len(sums)))
