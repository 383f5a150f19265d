"""What every tree sampler offers: one exact update of a single tree given a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..inputs import check_count, check_real

BOOKKEEPING = ("canonical", "authors")


@dataclass(frozen=True)
class StepParams:
    """What a single-tree step conditions on, in the units of the target.

    Parameters
    ----------
    sigma2 : float
        Noise variance, of a row of weight 1.
    leaf_var : float
        Prior variance of a leaf value.
    leaf_mean : float
        Prior mean of a leaf value.
    temperature : float
        t: tree and leaf kernels see sigma2 / t, so that the likelihood is raised to the power t.

    Raises
    ------
    ValueError
        A variance or the temperature is not positive and finite, or the mean not finite.
    """

    sigma2: float
    leaf_var: float
    leaf_mean: float = 0.0
    temperature: float = 1.0

    def __post_init__(self):
        for name in ("sigma2", "leaf_var", "temperature"):
            check_real(getattr(self, name), name, 0)
        check_real(self.leaf_mean, "leaf_mean")


class StepInfo(NamedTuple):
    """What one step did.

    Attributes
    ----------
    move : str
        "grow", "prune", "change", "swap", "pg", "local", "perturb", "rotate", "insert", "delete", "recut",
        "transpose", "shift", "shed" or "absorb": the move tried. What a composition says: see `Cycle`.
    changed, root_changed : bool
        Whether the structure, and the root's decision, differ from before.
    log_ratio : float
        Log of the Metropolis-Hastings ratio; 0 where none was formed.
    n_leaves : int
        Leaves after the step.
    n_stages : int
        Particle stages; 0 for local moves.
    row_visits : int
        Cost of the step to the algorithm, whatever the implementation reads: for each rule tried at a node, the
        number of that node's training rows.

        - grow, prune: the rows of the leaf to be split, of the node to be made a leaf.
        - change, swap, perturb: the rows of the changed node (the parent of the pair) and of all internal nodes below
          it, each counted under the old rules, so that it does not matter where a proposal with an empty leaf is given
          up.
        - rotate: the rows of the parent and of both middle nodes, the child before the move and the one after it.
        - insert, delete: the rows of all internal nodes of the subtree that moves a level down, or of the one that the
          deleted node heads, each counted under the old rules; and for an insert those of the node where the new rule
          is tried.
        - shift, shed, absorb: what change counts at the node whose code changes; and for a shed the rows of the node
          where the new rule is tried, these alone where no side of it holds only rows that arrive.
        - local: the rows of the node, once for every column that is weighed there.
        - recut: the rows of the node, once for every column; for each internal node below it those that come to it
          where the node sends all of its rows to that side; and what change counts, where another rule is drawn than
          the one already there.
        - transpose: at both children whose codes are drawn, on the way back and forth, what recut counts there; and
          what change counts at the node.
        - pg: for each split that a free particle draws, be it chosen or not, the rows of the node it splits; and the
          rows of all internal nodes of the old tree, as the clamped particle is weighted anew (there is none in the
          unconditional filters of the starts "smc" and "grow"). With optimal proposals also, for each particle and
          node where it decides, the rows of the node, once for every column that is weighed.

        Rejected proposals count as accepted ones do. 0 where nothing is tried: no candidate for the move, no
        rule to insert, a cut that cannot pass a row or would empty several leaves, a change or perturb that draws the
        rule already there, one particle alone; and from a sampler that does not say.
    """

    move: str
    changed: bool
    root_changed: bool
    log_ratio: float
    n_leaves: int
    n_stages: int
    row_visits: int = 0


class Value:
    """Objects of one class that say the same (``repr``) are equal; one without a ``__repr__`` equals itself alone."""

    def __eq__(self, other):
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self):
        return hash((type(self), repr(self)))


class BetweenSweeps(Value):
    """A kernel that leaves the posterior of all trees and leaf values invariant and acts after every so many sweeps.

    It is done when the next sweep begins, before sigma2 is drawn: traces and stored forests of a sweep are those before
    it, and its time counts to the sweep that follows.

    Parameters
    ----------
    every : int
        It follows the sweeps whose number, counted from the start of the chain, is a multiple.
    """

    name = "between"

    def __init__(self, every=5):
        self.every = check_count(every, "every")

    def __repr__(self):
        return f"{type(self).__name__}(every={self.every})"

    def sweeps_left(self, n_sweeps):
        """Sweeps until it is due, after `n_sweeps` of them."""
        return self.every - n_sweeps % self.every

    def is_due(self, n_sweeps):
        """Whether it follows the last of `n_sweeps` sweeps."""
        return n_sweeps > 0 and n_sweeps % self.every == 0

    def redraw(self, kernel, rng):
        """Redraw leaf values or rules.

        Parameters
        ----------
        kernel : bart.kernels.sweep.EnsembleKernel
            Its trees change in place, and the residual where f changes.
        rng : numpy.random.Generator
        """
        raise NotImplementedError


class TreeSampler(Value):
    """A kernel that leaves the conditional posterior of one tree invariant.

    A sampler written in Python overrides `step`; a compiled one defines `plan`, and `step` follows from it.
    """

    name = "sampler"

    def plan(self):
        """The compiled plan of a sweep; None for a sampler written in Python."""
        return None

    def step(self, state, target, params, rng):
        """Update one tree's structure given the target R_j, leaf values integrated out.

        Parameters
        ----------
        state : bart.TreeState
            The tree, changed in place; its leaf values are then stale (see `draw_leaf_values`). ``state.weights`` are
            the weights of the rows, by which sigma2 is divided, or None.
        target : (N,) float64
            R_j, eq. (residual) of the paper.
        params : StepParams
        rng : numpy.random.Generator

        Returns
        -------
        StepInfo

        Raises
        ------
        ValueError
            The target has a wrong shape or is not finite.
        """
        plan = self.plan()
        if plan is None:
            raise NotImplementedError(f"{type(self).__name__} defines neither plan() nor step()")
        return step_plan(plan, state, target, params, rng)


def step_plan(plan, state, target, params, rng):
    """One update by a compiled plan; arguments as in `TreeSampler.step`."""
    return StepInfo(*state.step(plan, check_target(target), params, rng))


def check_target(target):
    """The target as a contiguous float64 vector; ValueError naming the first value that is not finite."""
    target = np.ascontiguousarray(target, dtype=np.float64)
    if target.ndim != 1:
        raise ValueError(f"target must have one dimension, got shape {target.shape}")
    if not np.isfinite(target).all():
        bad = int(np.flatnonzero(~np.isfinite(target))[0])
        raise ValueError(f"target[{bad}] = {target[bad]} is not finite")
    return target


def draw_leaf_values(state, target, params, rng):
    """Draw a tree's leaf values from their posterior given its structure and the target.

    Parameters
    ----------
    state : bart.TreeState
        Receives the values (`state.leaf_values`, `state.fit()`).
    target : (N,) float64
        R_j.
    params : StepParams
    rng : numpy.random.Generator

    Returns
    -------
    (N,) float64
        The tree's fit at the training rows, in the units of the target.
    """
    state.draw_leaf_values(check_target(target), params, rng)
    return state.fit()
