"""Particle Gibbs: the paper's sampler, algorithm 2."""

from __future__ import annotations

from ..inputs import check_choice, check_count, check_real
from ..kernels.state import RESAMPLING, KernelPlan
from .base import BOOKKEEPING, TreeSampler

FINAL = ("plain", "forced")
MAX_PARTICLES = 1_000_000


class ParticleGibbs(TreeSampler):
    """Conditional SMC over whole trees; one particle is clamped to the current tree.

    Parameters
    ----------
    n_particles : int
        C, the clamped particle included; at least 1. With 1 the tree never changes.
    resampling : str
        "multinomial" (the paper), "systematic" (Chopin & Singh 2015) or "killing", each in its conditional form.
    ess_threshold : float or None
        Resample only when 1 / sum W^2 < ess_threshold * C, in [0, 1); 0 is never. None: after every stage (the paper).
    final : str
        "plain": the new tree by weight over all particles (the paper); "forced": a Metropolised move away from the
        clamped one, never worse.
    bookkeeping : str
        "canonical" (exact) or "authors": the stages as in the paper's scripts, which leave the posterior not quite
        invariant; for comparison with published traces only.
    max_stages : int or None
        RuntimeError when a filter is not finished after so many stages; None: no limit (a tree needs at most 2N - 1).
    """

    name = "pg"

    def __init__(self, n_particles=10, resampling="multinomial", ess_threshold=None, final="plain",
                 bookkeeping="canonical", max_stages=None):
        self.n_particles = check_count(n_particles, "n_particles")
        if self.n_particles > MAX_PARTICLES:
            raise ValueError(f"n_particles must be at most {MAX_PARTICLES}, got {n_particles}")
        self.resampling = check_choice(resampling, "resampling", RESAMPLING)
        if ess_threshold is not None:
            ess_threshold = check_real(ess_threshold, "ess_threshold", 0, 1, closed="low")
        self.ess_threshold = ess_threshold
        self.final = check_choice(final, "final", FINAL)
        self.bookkeeping = check_choice(bookkeeping, "bookkeeping", BOOKKEEPING)
        # A tree of at most 2^31 - 1 nodes never needs more.
        self.max_stages = None if max_stages is None else min(check_count(max_stages, "max_stages"), 2**31 - 1)

    def __repr__(self):
        return (f"ParticleGibbs(n_particles={self.n_particles}, resampling={self.resampling!r}, "
                f"ess_threshold={self.ess_threshold}, final={self.final!r}, bookkeeping={self.bookkeeping!r}, "
                f"max_stages={self.max_stages})")

    def plan(self):
        return KernelPlan(
            n_particles=self.n_particles, resampling=self.resampling,
            ess_threshold=-1.0 if self.ess_threshold is None else self.ess_threshold,
            forced=self.final == "forced", max_stages=self.max_stages or 0,
            authors=self.bookkeeping == "authors",
        )
