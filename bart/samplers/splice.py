"""Splice: insert or delete a node anywhere in the tree."""

from __future__ import annotations

from ..kernels.plan import KernelPlan
from .base import TreeSampler


class Splice(TreeSampler):
    """Insert an internal node above any node of the tree, or delete one above a leaf.

    Each with probability 1/2. Insert draws a node uniformly, leaves included, and a rule from the prior given its rows;
    the node's subtree goes to a side drawn evenly, over the rows that the rule leaves it, and a new leaf to the other.
    Delete draws a leaf uniformly and removes it with its parent, whose place is taken by the leaf's sibling and what
    hangs below it. Accepted by Metropolis-Hastings.

    Irreducible: at leaves it grows and prunes. Meant to stand beside other samplers, whose redundant rules it removes
    from within a tree.
    """

    name = "splice"

    def __repr__(self):
        return "Splice()"

    def plan(self):
        return KernelPlan(move="splice")
