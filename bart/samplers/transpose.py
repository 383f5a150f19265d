"""Transpose: a node's rule changes places with that of both its children."""

from __future__ import annotations

from ..kernels.plan import KernelPlan
from .base import TreeSampler


class Transpose(TreeSampler):
    """Exchange the dimension of an internal node with the one that both its children split.

    ``a <= tau`` above ``b <= c_0`` and ``b <= c_1`` becomes ``b <= c_s`` above twice ``a``, once at ``tau`` and once at
    a code drawn by prior times likelihood; the four subtrees below are dealt out anew, and rows between the codes
    change sides. Accepted by Metropolis-Hastings.

    The upper rules of a deep tree can be asked for in many orders, which no other move exchanges without taking apart
    what is below. Exact but not irreducible: the number of leaves stays. Use it beside a sampler that grows and prunes.
    """

    name = "transpose"

    def __repr__(self):
        return "Transpose()"

    def plan(self):
        return KernelPlan(move="transpose")
