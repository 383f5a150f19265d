"""The rejection-free local move: grow, prune and change in one."""

from __future__ import annotations

from ..inputs import check_count, check_real
from ..kernels.plan import KernelPlan
from .base import TreeSampler


class Local(TreeSampler):
    """Draw a leaf, or a node with two leaf children, anew from its full conditional: stop, or any split of it.

    The slot's law does not depend on the tree; where it holds another kind of node, the step does nothing. Columns with
    more gaps than cells are proposed by cells and accepted by the exact ratio; otherwise nothing is rejected but for
    children that cannot split.

    Parameters
    ----------
    subset : int or None
        Weigh so many columns, drawn anew each time; None: all.
    descend : float
        Probability of each step down to the slot, in (0, 1), as in `ParticleGibbs`.
    """

    name = "local"

    def __init__(self, subset=None, descend=0.5):
        self.subset = None if subset is None else check_count(subset, "subset")
        self.descend = check_real(descend, "descend", 0, 1)

    def __repr__(self):
        return f"Local(subset={self.subset}, descend={self.descend})"

    def plan(self):
        return KernelPlan(move="local", subset=self.subset or 0, descend=self.descend)
