"""Reroute: a cut moves past a few rows, and the leaf that held them goes, or one comes for them."""

from __future__ import annotations

from ..kernels.plan import KernelPlan
from .base import TreeSampler


class Reroute(TreeSampler):
    """Move a cut past a few rows and, in the same step, delete the leaf that they leave empty or insert one for them.

    An internal node and a direction are drawn uniformly, and how many of the values of the node's rows on that side
    its cut passes: one with probability 1/2, two with 1/4 and so on, eight at most. Between the last of them and the
    next it comes by its prior. If one leaf loses all of its rows, it goes with its parent, as in the delete of
    `Splice`. If none does, then in one case of two a node is inserted below, on the side where the rows arrive, with a
    rule from the prior of which one side must hold arrivals alone, for which it gets a leaf. If several do, nothing
    happens. Accepted by Metropolis-Hastings.

    A deep tree with an upper cut on the wrong side of a few rows has leaves below that hold these rows, and neither
    can be mended before the other. Not irreducible: it never changes the root's dimension. Meant to stand beside
    other samplers.
    """

    name = "reroute"

    def __repr__(self):
        return "Reroute()"

    def plan(self):
        return KernelPlan(move="reroute")
