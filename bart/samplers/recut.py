"""Recut: a rule drawn anew given everything below it."""

from __future__ import annotations

from ..inputs import check_count
from ..kernels.plan import KernelPlan
from .base import TreeSampler


class Recut(TreeSampler):
    """Draw the rule of a uniform node with an internal child anew, given the subtrees below it.

    Every rule is weighed by its prior times the likelihood of the leaves it would make, by cells of gaps, and the one
    drawn is accepted by the exact ratio, as the rules below it then have another prior.

    Exact but not irreducible: the shape of the tree stays. Use it beside a sampler that grows and prunes.

    Parameters
    ----------
    subset : int or None
        Weigh so many columns, that of the present rule among them, the others drawn anew each time, as in `Local`;
        None: all.
    """

    name = "recut"

    def __init__(self, subset=1):
        self.subset = None if subset is None else min(check_count(subset, "subset"), 2**31 - 1)

    def __repr__(self):
        return f"Recut(subset={self.subset})"

    def plan(self):
        return KernelPlan(move="recut", subset=self.subset or 0)
