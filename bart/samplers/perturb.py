"""Perturb: another code for one rule."""

from __future__ import annotations

from ..kernels.plan import KernelPlan
from .base import TreeSampler


class Perturb(TreeSampler):
    """Move the code of one rule between the other rules of its dimension.

    The node is uniform among the internal ones, the code is drawn by width from the column's range cut by the rules of
    the same dimension above and below the node; accepted by Metropolis-Hastings.

    Exact but not irreducible: the number of leaves and the dimension of each rule stay. Use it beside a sampler that
    grows and prunes.
    """

    name = "perturb"

    def __repr__(self):
        return "Perturb()"

    def plan(self):
        return KernelPlan(move="perturb")
