"""Compositions of tree samplers: each in turn, or one of them at random.

Cycles and fixed-probability mixtures of kernels that leave a law invariant leave it invariant, so both are exact
wherever their parts are.
"""

from __future__ import annotations

import math
from bisect import bisect_right

from ..inputs import check_real
from ..kernels.plan import KernelPlan
from .base import BetweenSweeps, StepInfo, TreeSampler, step_plan

SUM_ERROR = 1e-9


class Composition(TreeSampler):
    """What a cycle and a mixture share: their parts, and a plan where all of these have one."""

    _upto = None

    def __init__(self, parts):
        for place, part in enumerate(parts):
            last = part if isinstance(part, BetweenSweeps) else next(iter(split_sampler(part)[1]), None)
            if last is not None:
                raise ValueError(f"parts[{place}]: {type(last).__name__} acts between sweeps, so that only a Cycle "
                                 "which is the whole sampler may end with it")
            if not isinstance(part, TreeSampler):
                raise TypeError(f"parts[{place}] must be a TreeSampler, got {part!r}")
        if not parts:
            raise ValueError(f"parts: a {type(self).__name__} has at least one")
        self._parts = tuple(parts)

    @property
    def parts(self):
        """The samplers composed, a tuple."""
        return self._parts

    def plan(self):
        plans = [part.plan() for part in self._parts]
        return None if None in plans else KernelPlan(parts=plans, upto=self._upto)

    def step(self, state, target, params, rng):
        plan = self.plan()
        if plan is not None:
            return step_plan(plan, state, target, params, rng)
        before = state.dump()
        try:
            return self._step_parts(state, target, params, rng)
        except BaseException:
            state.restore(before)
            raise


class Cycle(Composition):
    """Several samplers, each in turn on the same tree and target within one update; leaf values are drawn after it.

    Parameters
    ----------
    *parts : TreeSampler, the last ones perhaps JointLeaves, Levels or Slide
        Cycles among them are taken apart: ``Cycle(a, Cycle(b, c))`` is ``Cycle(a, b, c)``. `JointLeaves`, `Levels`
        and `Slide` act between sweeps, on all trees: a cycle that ends with one is a sampler for `Ensemble` and
        `sample`, not for single steps.

    Raises
    ------
    ValueError
        There is no sampler of trees, or one behind what acts between sweeps.

    Notes
    -----
    StepInfo of a cycle: `changed` and `root_changed` say whether any part changed the tree (or its root), so that a
    change which a later part undoes counts; `n_stages` and `row_visits` are sums; `move` and `log_ratio` are the
    last part's.
    """

    name = "cycle"

    def __init__(self, *parts):
        flat = []
        for part in parts:
            flat.extend(part.parts if isinstance(part, Cycle) else [part])
        self._of_sweeps = tuple(part for part in flat if isinstance(part, BetweenSweeps))
        of_trees = flat[:len(flat) - len(self._of_sweeps)]
        if self._of_sweeps and not of_trees:
            raise ValueError(f"parts: {type(self._of_sweeps[0]).__name__} acts between sweeps, a Cycle has a "
                             "sampler of trees before it")
        for part in of_trees:
            if isinstance(part, BetweenSweeps):
                raise ValueError(f"parts: {type(part).__name__} acts between sweeps and comes last in a Cycle")
        super().__init__(of_trees)

    @property
    def parts(self):
        return self._parts + self._of_sweeps

    def plan(self):
        return None if self._of_sweeps else super().plan()

    def step(self, state, target, params, rng):
        if self._of_sweeps:
            raise ValueError(f"{self._of_sweeps[0]!r} acts on all trees between sweeps: "
                             "Ensemble and sample run it, a step on one tree cannot")
        return super().step(state, target, params, rng)

    def __repr__(self):
        return f"Cycle({', '.join(map(repr, self.parts))})"

    def _step_parts(self, state, target, params, rng):
        infos = [part.step(state, target, params, rng) for part in self._parts]
        return StepInfo(infos[-1].move, any(info.changed for info in infos),
                        any(info.root_changed for info in infos), infos[-1].log_ratio, infos[-1].n_leaves,
                        sum(info.n_stages for info in infos), sum(getattr(info, "row_visits", 0) for info in infos))


class Mixture(Composition):
    """One of several samplers in each update, drawn with fixed probabilities.

    Parameters
    ----------
    *parts : (float, TreeSampler) pairs, or TreeSampler
        Probabilities, which sum to 1, and samplers; samplers alone are equally probable.

    Raises
    ------
    ValueError
        A probability is not in (0, 1], they do not sum to 1, or some parts have one and others none.
    """

    name = "mixture"

    def __init__(self, *parts):
        pairs = [isinstance(part, (tuple, list)) for part in parts]
        if any(pairs) and not all(pairs):
            raise ValueError(f"parts[{pairs.index(False)}] must be a (probability, sampler) pair as others are")
        for place, part in enumerate(parts):
            if pairs[place] and len(part) != 2:
                raise ValueError(f"parts[{place}] must be a (probability, sampler) pair, got {part!r}")
        super().__init__([part[1] for part in parts] if any(pairs) else parts)
        given = [part[0] for part in parts] if any(pairs) else [1.0 / len(parts)] * len(parts)
        self._probabilities = tuple(check_real(p, f"probability of parts[{place}]", 0, 1, closed="high")
                                    for place, p in enumerate(given))
        if abs(math.fsum(self._probabilities) - 1.0) > SUM_ERROR:
            raise ValueError(f"probabilities must sum to 1, got {self._probabilities}")
        self._upto = tuple(math.fsum(self._probabilities[:k + 1]) for k in range(len(parts)))

    @property
    def probabilities(self):
        """Probability of each part, a tuple."""
        return self._probabilities

    def __repr__(self):
        pairs = zip(self.probabilities, self.parts, strict=True)
        return f"Mixture({', '.join(f'({p}, {part!r})' for p, part in pairs)})"

    def _step_parts(self, state, target, params, rng):
        chosen = 0
        if len(self.parts) > 1:
            chosen = min(bisect_right(self._upto, rng.random()), len(self.parts) - 1)
        return self.parts[chosen].step(state, target, params, rng)


def split_sampler(sampler):
    """The sampler of single trees, and the kernels that act between sweeps (a tuple), of what `Ensemble` is given."""
    if isinstance(sampler, BetweenSweeps):
        kind = type(sampler).__name__
        raise ValueError(f"sampler: {kind} acts between sweeps; put it behind a sampler of trees, as in "
                         f"Cycle(GrowPrune(), {kind}())")
    of_sweeps = sampler._of_sweeps if isinstance(sampler, Cycle) else ()
    if not of_sweeps:
        return sampler, ()
    of_trees = sampler.parts[:-len(of_sweeps)]
    return of_trees[0] if len(of_trees) == 1 else Cycle(*of_trees), of_sweeps
