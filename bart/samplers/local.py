"""The rejection-free local move: grow, prune and change in one."""

from __future__ import annotations

from ..inputs import check_count, check_real
from ..kernels.plan import KernelPlan
from .base import TreeSampler


class Local(TreeSampler):
    """Draw a leaf, or a node with two leaf children, anew from its full conditional: stop, or any split of it.

    Columns with more gaps than cells are proposed by cells and accepted by the exact ratio; otherwise nothing is
    rejected but for children that cannot split.

    Parameters
    ----------
    subset : int or None
        Weigh so many columns, drawn anew each time, uniformly, or by their weights and with replacement where those are
        unequal; None: all.
    descend : float or None
        None: one of these nodes uniformly, each decision weighed by 1 / their number after it. Else the node at a slot,
        as in `ParticleGibbs`, with this probability of each step down, in (0, 1); where the slot holds another kind of
        node, the step does nothing.
    """

    name = "local"

    def __init__(self, subset=None, descend=None):
        self.subset = None if subset is None else min(check_count(subset, "subset"), 2**31 - 1)
        self.descend = None if descend is None else check_real(descend, "descend", 0, 1)

    def __repr__(self):
        return f"Local(subset={self.subset}, descend={self.descend})"

    def plan(self):
        return KernelPlan(move="local", subset=self.subset or 0, descend=-1.0 if self.descend is None else self.descend)
