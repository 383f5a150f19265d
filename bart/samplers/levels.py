"""Levels: what the trees' leaf values have in common, shared out anew between the trees."""

from __future__ import annotations

from .base import BetweenSweeps


class Levels(BetweenSweeps):
    """Add a number to all leaf values of each tree, the numbers summing to 0, after every so many sweeps.

    A part of a `Cycle` at its end, behind samplers of trees: ``Cycle(GrowPrune(), Levels(every=5))``.

    Parameters
    ----------
    every : int
        The levels are redrawn after the sweeps whose number, counted from the start of the chain, is a multiple.

    Notes
    -----
    f stays as it is, so that the shifts' conditional law is that of the prior, whatever the data: K_j leaves with
    values mu have c_j ~ N(mean of (leaf_mean - mu), leaf_var / K_j), given sum c_j = 0. A draw costs as many additions
    as there are leaves. One tree at a time, given the others, a tree's level moves by sigma / sqrt(N) at most, far less
    than the prior's leaf_var^(1/2) where N is large, and levels that cancel each other stay for thousands of sweeps.

    It is done when the next sweep begins, before sigma2 is drawn: traces and stored forests of a sweep are those before
    it, and its time counts to the sweep that follows.
    """

    name = "levels"

    def redraw(self, kernel, rng):
        kernel.shift_levels(rng.standard_normal(len(kernel.states)))
