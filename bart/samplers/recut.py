"""Recut: a rule drawn anew given everything below it."""

from __future__ import annotations

from ..inputs import check_count
from ..kernels.plan import KernelPlan
from .base import TreeSampler


class Recut(TreeSampler):
    """Draw the rule of one internal node anew from its full conditional, given the subtrees below it.

    Parameters
    ----------
    subset : int or None
        Columns weighed, that of the present rule always among them, the others drawn anew each time; None: all.
    """

    name = "recut"

    def __init__(self, subset=1):
        self.subset = None if subset is None else min(check_count(subset, "subset"), 2**31 - 1)

    def __repr__(self):
        return f"Recut(subset={self.subset})"

    def plan(self):
        return KernelPlan(move="recut", subset=self.subset or 0)
