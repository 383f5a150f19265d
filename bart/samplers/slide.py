"""Slide: the cuts of rules among their neighbours, given all leaf values."""

from __future__ import annotations

from ..inputs import check_count
from ..kernels.slide import slide_cuts
from .base import BetweenSweeps

MOST = 2**31 - 1


class Slide(BetweenSweeps):
    """Draw the cut of every rule of every tree anew among its neighbours, after every so many sweeps.

    A part of a `Cycle` at its end, behind samplers of trees that also change dimensions and numbers of leaves:
    ``Cycle(GrowPrune(), Slide())``.

    Parameters
    ----------
    every : int
        The cuts slide after the sweeps whose number, counted from the start of the chain, is a multiple.
    n_gaps : int
        Neighbouring gaps of a column in a window.
    n_rows : int
        Training rows in a window, about, where n_gaps gaps hold fewer. It never has more than 64 gaps and, beyond two,
        no more than hold some 1000 rows.

    Notes
    -----
    One rule after the other, given all leaf values: of w neighbouring gaps, the rule's own at a uniform place among
    them, one is drawn by prior times likelihood, and accepted by the prior of what hangs below, as rows that change
    sides change what can be split there. The rows in the window are read, and, where a rule with others below it moves,
    what tells which columns these rows can be split by: on continuous columns little beside a sweep, on hundreds of
    columns full of ties more than one (``every=10``). Given the other trees a cut moves by a few rows at a time, and a
    sweep changes few of them: most of what f forgets slowly is where the cuts are.

    See `Levels` for when it is done. Rules above nodes of depth 13 or more stay.
    """

    name = "slide"

    def __init__(self, every=1, n_gaps=16, n_rows=64):
        super().__init__(every)
        self.n_gaps = check_count(n_gaps, "n_gaps", 2)
        self.n_rows = check_count(n_rows, "n_rows")

    def __repr__(self):
        return f"Slide(every={self.every}, n_gaps={self.n_gaps}, n_rows={self.n_rows})"

    def redraw(self, kernel, rng):
        slide_cuts(kernel.states, kernel.residual, kernel.sigma2 / kernel.temperature, rng,
                   min(self.n_gaps, MOST), min(self.n_rows, MOST))
