"""GrowPrune: the local sampler of Pratola et al. (2013) that the paper compares with."""

from __future__ import annotations

from ..inputs import check_choice, check_real
from ..kernels.plan import KernelPlan
from .base import BOOKKEEPING, TreeSampler


class GrowPrune(TreeSampler):
    """Grow or prune one node.

    Parameters
    ----------
    p_grow : float
        Probability of trying to grow, in (0, 1).
    bookkeeping : str
        "canonical" (exact), or "authors": growing the root is always accepted, as in the paper's scripts (inexact).
    """

    name = "growprune"

    def __init__(self, p_grow=0.5, bookkeeping="canonical"):
        self.p_grow = check_real(p_grow, "p_grow", 0, 1)
        self.bookkeeping = check_choice(bookkeeping, "bookkeeping", BOOKKEEPING)

    def __repr__(self):
        return f"GrowPrune(p_grow={self.p_grow}, bookkeeping={self.bookkeeping!r})"

    def plan(self):
        return KernelPlan(move_probs=(self.p_grow, 1.0 - self.p_grow, 0.0, 0.0),
                          authors=self.bookkeeping == "authors")
