"""CGM: the sampler of Chipman, George & McCulloch (1998): grow, prune, change, swap."""

from __future__ import annotations

import numpy as np

from ..inputs import check_choice
from ..kernels.plan import KernelPlan
from .base import BOOKKEEPING, TreeSampler


class CGM(TreeSampler):
    """One of grow, prune, change, swap.

    Parameters
    ----------
    move_probs : sequence of 4 floats
        Probabilities of grow, prune, change and swap; equal by default (the paper). (0.25, 0.25, 0.40, 0.10) is the
        choice of Chipman, George & McCulloch (2010).
    bookkeeping : str
        "canonical" (exact), or "authors": growing the root is always accepted, as in the paper's scripts (inexact).
    """

    name = "cgm"

    def __init__(self, move_probs=(0.25, 0.25, 0.25, 0.25), bookkeeping="canonical"):
        probs = np.asarray(move_probs, dtype=np.float64)
        if probs.shape != (4,):
            raise ValueError(f"move_probs must hold 4 probabilities (grow, prune, change, swap), got {move_probs!r}")
        if not (probs >= 0).all() or abs(probs.sum() - 1.0) > 1e-9:
            raise ValueError(f"move_probs must be non-negative and sum to 1, got {move_probs!r}")
        if (probs[0] > 0) != (probs[1] > 0):
            raise ValueError(f"move_probs: grow and prune undo each other, both or neither, got {move_probs!r}")
        self.move_probs = tuple(float(p) for p in probs)
        self.bookkeeping = check_choice(bookkeeping, "bookkeeping", BOOKKEEPING)

    def __repr__(self):
        return f"CGM(move_probs={self.move_probs}, bookkeeping={self.bookkeeping!r})"

    def plan(self):
        return KernelPlan(move_probs=self.move_probs, authors=self.bookkeeping == "authors")
