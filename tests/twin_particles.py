"""Slow twin of particle Gibbs: the readable reference of what the compiled kernel does.

A stage takes immutable particles to immutable particles, so that equal states can be merged when the law
of a step is enumerated.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

from oracle import bfs, replace_at
from twin_proposals import log_split, make_proposal
from twin_random import outcomes, staged_outcomes
from twin_resampling import SCHEMES
from twins import Node, Result, draw_slot, log, mutated, rows_of_rules


class Particle(NamedTuple):
    """A partial tree, the paths of its nodes still to be decided, its log weight, and its staged nodes.

    ``staged`` holds nodes that cannot split and yet cost a stage; only the authors' bookkeeping reads it.
    """

    tree: object = None
    queue: tuple = ("",)
    log_weight: float = 0.0
    staged: frozenset = frozenset()


class Stage(NamedTuple):
    """The particles after a stage; particle 0 is clamped to the subtree at the region's root, if any is."""

    root: Node
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
    proposal : {"prior", "optimal"}
    subset, prior_share, cells
        As of :class:`twin_proposals.OptimalProposal`.
    region : {"tree", "subtree"}
        "subtree": only the subtree at a random slot is redrawn; see :func:`twins.draw_slot`.
    descend : float
    clamped : bool
        False: an unconditional particle filter, whose result has a law that the tree before has no say in. Prior
        proposals and multinomial resampling only.
    """

    def __init__(self, problem, n_particles=2, resampling="multinomial", ess_threshold=None, final="plain",
                 bookkeeping="canonical", mutant=None, proposal="prior", subset=None, prior_share=0.0,
                 region="tree", descend=0.5, cells=None, clamped=True):
        self.problem, self.model, self.mutant = problem, mutated(problem, mutant), mutant
        self.n_particles, self.ess_threshold, self.final = n_particles, ess_threshold, final
        self.scheme = SCHEMES[resampling]
        self.skips_unsplittable = bookkeeping == "authors" or mutant == "skipped stages"
        self.finishes_late = bookkeeping == "authors" or mutant == "late finish"
        self.proposal = make_proposal(self.model, proposal, cells, subset, prior_share, mutant)
        self.region, self.descend, self.clamped = region, descend, clamped
        # Rows of the draws so far; no part of a Stage, whose equal states an enumeration merges.
        self.row_visits = 0
        self.law_of_region = cache(self._law_of_region)

    def step(self, tree, random, staged=frozenset()):
        """One step from a nested-tuple tree (and, for the authors' bookkeeping, its staged nodes)."""
        slot = self.draw_root(tree, random)
        if slot is None:
            return Result(tree, "pg", staged=staged)
        root = slot._replace(path="")
        state, self.row_visits = self.start(root, staged), 0
        of_clamped = rows_of_rules(self.problem, root.tree, root.rows) if self.clamped and self.n_particles > 1 else 0
        while not state.done:
            state = self.advance(state, random)
        subtree, staged = self.finish(state, random)
        return Result(replace_at(tree, slot.path, subtree), "pg", n_stages=state.n_stages, staged=staged,
                      row_visits=of_clamped + self.row_visits)

    def draw_root(self, tree, random):
        """Root of the region to redraw, or None where nothing happens."""
        if self.region == "tree":
            return Node("", tree, self.problem.all_rows, 0)
        node = draw_slot(self.problem, tree, self.descend, random, self.mutant)
        return None if node is None or not self.problem.can_split(node.rows) else node

    def law_with_history(self, tree, staged=frozenset()):
        """Exact law of the next tree and its staged nodes."""
        law = {}
        for slot, p in outcomes(lambda random: self.draw_root(tree, random)).items():
            if slot is None:
                law[tree, staged] = law.get((tree, staged), 0.0) + p
                continue
            for (subtree, left_staged), q in self.law_of_region(slot._replace(path=""), staged).items():
                new = replace_at(tree, slot.path, subtree), left_staged
                law[new] = law.get(new, 0.0) + p * q
        return law

    def _law_of_region(self, root, staged):
        return staged_outcomes(self.start(root, staged), self.advance, lambda s: s.done, self.finish)

    def law(self, tree):
        """Exact law of the next tree, from one without staged nodes."""
        law = {}
        for (new, _), p in self.law_with_history(tree).items():
            law[new] = law.get(new, 0.0) + p
        return law

    def start(self, root, staged=frozenset()):
        """All particles at a lone undecided root."""
        clamped = Particle(staged=frozenset(staged))
        free = (Particle(),) * (self.n_particles - 1)
        # With one particle the kernel is the identity and draws nothing.
        return Stage(root, (clamped, *free), done=self.is_identity)

    @property
    def is_identity(self):
        """Whether the clamped particle is alone."""
        return self.clamped and self.n_particles == 1

    def advance(self, state, random):
        """One stage: every unfinished particle decides one node, then resampling unless it was the last."""
        root, old = state.root, state.particles
        # The dimensions looked at at the root are those of the clamped decision, for all: a Gibbs step given both.
        shared = None
        if state.n_stages == 0:
            shared = self.proposal.subset(root, random, root.tree and root.tree[:2])
        new = [self.extend(p, root, random, shared, clamped=self.clamped and i == 0)
               for i, p in enumerate(old)]
        if self.finishes_late:
            done = not new[0].queue and not any(self.pending(p, root) for p in old[1:])
        else:
            done = not any(self.pending(p, root) for p in new)
        if not done:
            new = self.resample(new, random)
        return Stage(root, tuple(new), done, state.n_stages + 1)

    def skips(self, particle, path, root):
        """Whether the node is passed over without a stage and without a draw."""
        return (self.skips_unsplittable and path not in particle.staged
                and not self.problem.can_split(self.rows_at(particle.tree, path, root)))

    def pending(self, particle, root):
        """Queued nodes that will cost a stage."""
        return [path for path in particle.queue if not self.skips(particle, path, root)]

    def extend(self, particle, root, random, looked, clamped):
        """Decide the node at the front of the queue: the reference's way if clamped, else by the proposal."""
        queue = list(particle.queue)
        while queue and self.skips(particle, queue[0], root):
            queue.pop(0)
        if not queue:
            return particle._replace(queue=())
        path, rest = queue[0], tuple(queue[1:])
        offset = 0 if self.mutant == "depth without offset" else root.depth
        node = Node(path, None, self.rows_at(particle.tree, path, root), offset + len(path))
        if clamped:
            stored = dict(bfs(root.tree))[path]
            rule = stored and stored[:2]
            log_ratio, n_looked = self.proposal.log_ratio(node, rule, random, looked)
        else:
            rule, log_ratio, n_looked = self.proposal.propose(node, random, looked)
        self.row_visits += n_looked * len(node.rows)
        weight = particle.log_weight + log_ratio
        if rule is None:
            if self.mutant == "stop of unsplittable nodes weighted" and not self.problem.can_split(node.rows):
                weight += log(1.0 - self.problem.alpha * (1.0 + node.depth) ** -self.problem.beta)
            return particle._replace(queue=rest, log_weight=weight)
        if not clamped:
            self.row_visits += len(node.rows)
        if self.mutant == "cell weight for exact ratio":
            factor = self.proposal.log_cell(node.rows, rule)
        else:
            factor = log_split(self.model, node.rows, *rule)
        tree = replace_at(particle.tree, path, (*rule, None, None))
        return particle._replace(tree=tree, queue=(*rest, path + "L", path + "R"), log_weight=weight + factor)

    def freed(self, particle):
        """A copy of the clamped particle: every node it leaves pending costs the copy a stage."""
        if not self.skips_unsplittable:
            return particle
        created = {path for path, _ in bfs(particle.tree)}
        return particle._replace(staged=(particle.staged & created) | set(particle.queue))

    def rows_at(self, tree, path, root):
        """Rows of the node at a path below the region's root."""
        rows = root.rows
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
        if self.clamped:
            ancestors = self.scheme(weights, random, self.mutant)
            copied = self.freed(particles[0])
            chosen = [particles[0]] + [particles[a] if a > 0 else copied for a in ancestors[1:]]
        else:
            chosen = [particles[random.choice(weights)] for _ in particles]
            if self.mutant == "first particle kept":
                chosen[0] = particles[0]
        if self.mutant == "weights kept on copy":
            return chosen
        return [p._replace(log_weight=0.0) for p in chosen]

    def finish(self, state, random):
        """Draw the new tree by weight over all particles, or by a forced move: (tree, staged nodes)."""
        weights = normalised([p.log_weight for p in state.particles])
        chosen = state.particles[self.final_index(weights, random)]
        if self.is_identity:
            return state.root.tree, chosen.staged
        stuck = {path for path, node in bfs(chosen.tree)
                 if node is None and not self.problem.can_split(self.rows_at(chosen.tree, path, state.root))}
        return chosen.tree, chosen.staged & stuck

    def final_index(self, weights, random):
        """Index of the particle that becomes the new tree."""
        rest = 1.0 - weights[0]
        if self.is_identity:
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
