"""Slow twin of particle Gibbs: the readable reference of what the compiled kernel does.

A stage takes immutable particles to immutable particles, so that equal states can be merged when the law
of a step is enumerated.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from oracle import bfs, replace_at
from twin_random import staged_outcomes
from twin_resampling import SCHEMES
from twins import Result, log, mutated, propose, rows_of_rules


class Particle(NamedTuple):
    """A partial tree, the paths of its nodes still to be decided, its log weight, and its staged nodes.

    ``staged`` holds nodes that cannot split and yet cost a stage; only the authors' bookkeeping reads it.
    """

    tree: object = None
    queue: tuple = ("",)
    log_weight: float = 0.0
    staged: frozenset = frozenset()


class Stage(NamedTuple):
    """The particles after a stage; particle 0 is clamped to ``reference``."""

    reference: object
    particles: tuple
    done: bool = False
    n_stages: int = 0


def normalised(log_weights):
    """Weights that sum to one."""
    top = max(log_weights)
    weights = [math.exp(x - top) for x in log_weights]
    total = sum(weights)
    return [w / total for w in weights]


class ParticleGibbs:
    """Particle Gibbs over one tree.

    Parameters
    ----------
    problem : Problem
    n_particles : int
        All particles, the clamped one included.
    resampling : {"multinomial", "systematic", "killing"}
    ess_threshold : float, optional
        Resample when 1 / sum W^2 is below this share of the particles; None: after every stage but the last.
    final : {"plain", "forced"}
    bookkeeping : {"canonical", "authors"}
        "authors": a node that cannot split costs no stage, unless it was pending in the clamped particle's
        queue when that particle was copied; every free particle ends one stage after its last decision, the
        clamped one in the stage of it. Which nodes cost a stage is remembered with the tree (``staged``).
    mutant : str, optional
    """

    def __init__(self, problem, n_particles=2, resampling="multinomial", ess_threshold=None, final="plain",
                 bookkeeping="canonical", mutant=None):
        self.problem, self.model, self.mutant = problem, mutated(problem, mutant), mutant
        self.n_particles, self.ess_threshold, self.final = n_particles, ess_threshold, final
        self.scheme = SCHEMES[resampling]
        self.skips_unsplittable = bookkeeping == "authors" or mutant == "skipped stages"
        self.finishes_late = bookkeeping == "authors" or mutant == "late finish"
        # Rows of the splits drawn so far; no part of a Stage, whose equal states an enumeration merges.
        self.rows_drawn = 0

    def step(self, tree, random, staged=frozenset()):
        """One step from a nested-tuple tree (and, for the authors' bookkeeping, its staged nodes)."""
        state, self.rows_drawn = self.start(tree, staged), 0
        of_clamped = rows_of_rules(self.problem, tree, self.problem.all_rows) if self.n_particles > 1 else 0
        while not state.done:
            state = self.advance(state, random)
        tree, staged = self.finish(state, random)
        return Result(tree, "pg", n_stages=state.n_stages, staged=staged, row_visits=of_clamped + self.rows_drawn)

    def law_with_history(self, tree, staged=frozenset()):
        """Exact law of the next tree and its staged nodes."""
        return staged_outcomes(self.start(tree, staged), self.advance, lambda s: s.done, self.finish)

    def law(self, tree):
        """Exact law of the next tree, from one without staged nodes."""
        law = {}
        for (new, _), p in self.law_with_history(tree).items():
            law[new] = law.get(new, 0.0) + p
        return law

    def start(self, tree, staged=frozenset()):
        """All particles at a lone undecided root."""
        clamped = Particle(staged=frozenset(staged))
        free = (Particle(),) * (self.n_particles - 1)
        # With one particle the kernel is the identity and draws nothing.
        return Stage(tree, (clamped, *free), done=self.n_particles == 1)

    def advance(self, state, random):
        """One stage: every unfinished particle decides one node, then resampling unless it was the last."""
        old = state.particles
        new = [self.extend(old[0], state.reference, None)]
        new += [self.extend(p, None, random) for p in old[1:]]
        if self.finishes_late:
            done = not new[0].queue and not any(self.pending(p) for p in old[1:])
        else:
            done = not any(self.pending(p) for p in new)
        if not done:
            new = self.resample(new, random)
        return Stage(state.reference, tuple(new), done, state.n_stages + 1)

    def skips(self, particle, path):
        """Whether the node is passed over without a stage and without a draw."""
        return (self.skips_unsplittable and path not in particle.staged
                and not self.problem.can_split(self.rows_at(particle.tree, path)))

    def pending(self, particle):
        """Queued nodes that will cost a stage."""
        return [path for path in particle.queue if not self.skips(particle, path)]

    def extend(self, particle, reference, random):
        """Decide the node at the front of the queue: the reference's way if clamped, else by the prior."""
        queue = list(particle.queue)
        while queue and self.skips(particle, queue[0]):
            queue.pop(0)
        if not queue:
            return particle._replace(queue=())
        path, rest = queue[0], tuple(queue[1:])
        rows = self.rows_at(particle.tree, path)
        if random is None:
            rule = dict(bfs(reference))[path]
        else:
            rule = propose(self.problem, rows, len(path), random, self.mutant)
        if rule is None:
            weight = particle.log_weight
            if self.mutant == "stop of unsplittable nodes weighted" and not self.problem.can_split(rows):
                weight += log(1.0 - self.problem.alpha * (1.0 + len(path)) ** -self.problem.beta)
            return particle._replace(queue=rest, log_weight=weight)
        if random is not None:
            self.rows_drawn += len(rows)
        dim, code = rule[:2]
        left, right = self.problem.divide(rows, dim, code)
        model = self.model
        factor = model.log_likelihood(left) + model.log_likelihood(right) - model.log_likelihood(rows)
        tree = replace_at(particle.tree, path, (dim, code, None, None))
        return particle._replace(tree=tree, queue=(*rest, path + "L", path + "R"),
                                 log_weight=particle.log_weight + factor)

    def freed(self, particle):
        """A copy of the clamped particle: every node it leaves pending costs the copy a stage."""
        if not self.skips_unsplittable:
            return particle
        created = {path for path, _ in bfs(particle.tree)}
        return particle._replace(staged=(particle.staged & created) | set(particle.queue))

    def rows_at(self, tree, path):
        """Rows of the node at a path."""
        rows = self.problem.all_rows
        for side in path:
            rows = self.problem.divide(rows, tree[0], tree[1])[side == "R"]
            tree = tree[2 + (side == "R")]
        return rows

    def resample(self, particles, random):
        """Conditional resampling, or nothing while the effective size is above the threshold."""
        weights = normalised([p.log_weight for p in particles])
        size, t = self.n_particles, self.ess_threshold
        if t is not None and not 1.0 / sum(w * w for w in weights) < t * size * (1.0 - 1e-12):
            return particles
        ancestors = self.scheme(weights, random, self.mutant)
        copied = self.freed(particles[0])
        chosen = [particles[0]] + [particles[a] if a > 0 else copied for a in ancestors[1:]]
        if self.mutant == "weights kept on copy":
            return chosen
        return [p._replace(log_weight=0.0) for p in chosen]

    def finish(self, state, random):
        """Draw the new tree by weight over all particles, or by a forced move: (tree, staged nodes)."""
        weights = normalised([p.log_weight for p in state.particles])
        chosen = state.particles[self.final_index(weights, random)]
        if self.n_particles == 1:
            return state.reference, chosen.staged
        stuck = {path for path, node in bfs(chosen.tree)
                 if node is None and not self.problem.can_split(self.rows_at(chosen.tree, path))}
        return chosen.tree, chosen.staged & stuck

    def final_index(self, weights, random):
        """Index of the particle that becomes the new tree."""
        rest = 1.0 - weights[0]
        if self.n_particles == 1:
            return 0
        if self.mutant == "final draw among the free":
            weights = [0.0] + [w / rest for w in weights[1:]]
        if self.final == "plain":
            return random.choice(weights)
        if rest <= 0.0:
            return 0
        free = sum(weights[1:])
        other = 1 + random.choice([w / free for w in weights[1:]])
        p = min(1.0, rest / (1.0 - weights[other])) if weights[other] < 1.0 else 1.0
        if self.mutant == "forced ratio inverted":
            p = min(1.0, (1.0 - weights[other]) / rest)
        return other if random.choice([p, 1.0 - p]) == 0 else 0
