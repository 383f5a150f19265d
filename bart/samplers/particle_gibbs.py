"""Particle Gibbs: the paper's sampler, algorithm 2."""

from __future__ import annotations

from ..inputs import check_choice, check_count, check_real
from ..kernels.plan import RESAMPLING, KernelPlan
from .base import BOOKKEEPING, TreeSampler

FINAL = ("plain", "forced")
PROPOSALS = ("prior", "optimal")
REGIONS = ("tree", "subtree")
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
    proposal : str
        "prior" (the paper), or "optimal": stop or split in proportion to prior times likelihood one step ahead. Gaps
        are weighed in cells, by histograms of the target; weights are exact whatever the cells.
    subset : int or None
        With "optimal", weigh so many columns at a node, drawn anew each time, uniformly, or by their weights and with
        replacement where those are unequal; None: all.
    prior_share : float
        With "optimal", the share of proposals from the prior, in [0, 1).
    region : str
        "tree" (the paper), or "subtree": redraw the subtree at a slot whose law does not depend on the tree.
    descend : float
        With "subtree", the probability of each step down to the slot, in (0, 1): a slot at depth d has probability
        (1 - descend) (descend / 2)^d. Where the path leaves the tree, the step does nothing.

    Raises
    ------
    ValueError
        An option is out of range, or without effect beside the others.
    """

    name = "pg"

    def __init__(self, n_particles=10, resampling="multinomial", ess_threshold=None, final="plain",
                 bookkeeping="canonical", max_stages=None, proposal="prior", subset=None, prior_share=0.0,
                 region="tree", descend=0.5):
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

        self.proposal = check_choice(proposal, "proposal", PROPOSALS)
        self.subset = None if subset is None else min(check_count(subset, "subset"), 2**31 - 1)
        self.prior_share = check_real(prior_share, "prior_share", 0, 1, closed="low")
        self.region = check_choice(region, "region", REGIONS)
        self.descend = check_real(descend, "descend", 0, 1)
        if proposal == "prior" and (subset is not None or prior_share > 0):
            raise ValueError("subset and prior_share belong to proposal='optimal'")
        if region == "tree" and self.descend != 0.5:
            raise ValueError("descend belongs to region='subtree'")
        if self.ess_threshold == 0 and resampling != "multinomial":
            raise ValueError("resampling has no effect with ess_threshold=0, which never resamples")
        if bookkeeping == "authors" and (proposal, region) != ("prior", "tree"):
            raise ValueError("bookkeeping='authors' knows proposal='prior' and region='tree' alone")

    def __repr__(self):
        return (f"ParticleGibbs(n_particles={self.n_particles}, resampling={self.resampling!r}, "
                f"ess_threshold={self.ess_threshold}, final={self.final!r}, bookkeeping={self.bookkeeping!r}, "
                f"max_stages={self.max_stages}, proposal={self.proposal!r}, subset={self.subset}, "
                f"prior_share={self.prior_share}, region={self.region!r}, descend={self.descend})")

    def plan(self):
        return KernelPlan(
            n_particles=self.n_particles, resampling=self.resampling,
            ess_threshold=-1.0 if self.ess_threshold is None else self.ess_threshold,
            forced=self.final == "forced", max_stages=self.max_stages or 0,
            authors=self.bookkeeping == "authors", optimal=self.proposal == "optimal", subset=self.subset or 0,
            prior_share=self.prior_share, subtree=self.region == "subtree", descend=self.descend,
        )
