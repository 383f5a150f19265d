"""Rotate: two rules of one dimension change places, the partition stays."""

from __future__ import annotations

from ..kernels.plan import KernelPlan
from .base import TreeSampler


class Rotate(TreeSampler):
    """Rotate a parent and its child that split the same dimension.

    The edge is uniform among those of the tree. P(L(A, B), C) becomes L(A, P(B, C)), and the reverse; the rows of
    every leaf stay, so only the prior decides; accepted by Metropolis-Hastings.

    Exact but not irreducible: leaves keep their rows. Use it beside a sampler that grows and prunes.
    """

    name = "rotate"

    def __repr__(self):
        return "Rotate()"

    def plan(self):
        return KernelPlan(move="rotate")
