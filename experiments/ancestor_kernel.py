"""Particle Gibbs over one tree with ancestor sampling, slow and readable: what `ancestor` measures."""

import math
from collections import defaultdict
from typing import NamedTuple

import numpy as np

import bart

__all__ = ["AncestorGibbs", "AncestorSampler", "Draws", "OneTree", "Particle", "Stage", "decisions_of", "draw_slot",
           "structure_of"]


class Draws:
    """Draws from a numpy Generator; a test enumerates all of them in its place."""

    def __init__(self, rng):
        self._rng = rng

    def choice(self, probabilities):
        """An index by its probability."""
        upto = np.cumsum(probabilities)
        return min(int(np.searchsorted(upto, self._rng.random() * upto[-1], side="right")), len(upto) - 1)


class OneTree:
    """Prior and likelihood of one tree; a node is the path of rules to it, a tuple of (dim, code, side).

    Parameters
    ----------
    codes : array (D, N)
        Ranks of each column.
    values : list of D arrays
        Distinct values of each column: a rule is drawn by the width of its gap.
    target : array (N,)
    sigma2, leaf_var, leaf_mean, alpha, beta : float
    """

    def __init__(self, codes, values, target, sigma2, leaf_var, leaf_mean, alpha, beta):
        self.codes, self.values, self.target = codes, values, np.asarray(target) - leaf_mean
        self.sigma2, self.leaf_var, self.alpha, self.beta = sigma2, leaf_var, alpha, beta
        self._rows, self._ranges, self._log_l = {(): np.arange(len(target))}, {}, {}

    def rows(self, node):
        """Rows of a node."""
        if node not in self._rows:
            parent = self.rows(node[:-1])
            dim, code, side = node[-1]
            left = self.codes[dim, parent] <= code
            self._rows[node] = parent[left if side == "L" else ~left]
        return self._rows[node]

    def ranges(self, node):
        """Dimensions in which the node's rows differ, with their smallest and largest codes."""
        if node not in self._ranges:
            codes = self.codes[:, self.rows(node)]
            bounds = zip(codes.min(axis=1).tolist(), codes.max(axis=1).tolist(), strict=True)
            self._ranges[node] = {dim: pair for dim, pair in enumerate(bounds) if pair[0] < pair[1]}
        return self._ranges[node]

    def log_l(self, node):
        """log of a leaf's marginal likelihood, but for what is the same for all trees."""
        if node not in self._log_l:
            rows = self.rows(node)
            v = self.sigma2 + len(rows) * self.leaf_var
            total = float(self.target[rows].sum())
            self._log_l[node] = 0.5 * math.log(self.sigma2 / v) + self.leaf_var * total**2 / (2 * self.sigma2 * v)
        return self._log_l[node]

    def p_split(self, node):
        """Prior probability that the node is split."""
        return self.alpha * (1.0 + len(node)) ** -self.beta if self.ranges(node) else 0.0

    def log_prior(self, node, rule):
        """log of the prior of a decision, a rule (dim, code) or None; -inf of a rule that leaves a side empty."""
        p = self.p_split(node)
        if rule is None:
            return math.log1p(-p)
        dim, code = rule
        low, high = self.ranges(node).get(dim, (0, 0))
        if not low <= code < high:
            return -math.inf
        x = self.values[dim]
        return math.log(p / len(self.ranges(node)) * (x[code + 1] - x[code]) / (x[high] - x[low]))

    def propose(self, node, draws):
        """A decision from the prior."""
        p = self.p_split(node)
        if p == 0.0 or draws.choice([p, 1.0 - p]) == 1:
            return None
        valid = list(self.ranges(node))
        dim = valid[draws.choice([1.0 / len(valid)] * len(valid))]
        low, high = self.ranges(node)[dim]
        widths = np.diff(self.values[dim][low : high + 1])
        return dim, low + draws.choice(widths / widths.sum())


class Particle(NamedTuple):
    """A partial tree: its decisions in the order of the stages, its eligible nodes, its log weight."""

    decisions: tuple = ()
    queue: tuple = ((),)
    log_weight: float = 0.0


class Stage(NamedTuple):
    """The particles after a stage; particle 0 is clamped to the decisions of `reference`."""

    reference: tuple
    particles: tuple
    is_done: bool = False


class Seen(NamedTuple):
    """What ancestor sampling could do after one stage; "others" are particles with another partial tree.

    Attributes
    ----------
    is_open : bool
        Whether the reference has decisions left.
    n_others : int
        Distinct partial trees among them.
    fits, fits_places : bool
        Whether the reference's future has positive density after one of them: taken in the order of the queue, or
        each decision at its own place in the tree.
    p_other, p_other_places : float
        Probability that the step takes one of them.
    """

    is_open: bool
    n_others: int
    fits: bool
    fits_places: bool
    p_other: float
    p_other_places: float


class AncestorGibbs:
    """The paper's kernel (prior proposals, multinomial resampling after each stage), perhaps with ancestor sampling.

    Ancestor sampling (Lindsten, Jordan & Schon 2014, Particle Gibbs with ancestor sampling) redraws, before each
    resampling, the past of the clamped particle: that of particle c has probability

        W_c gamma(tree of c continued by the reference's future) / gamma(partial tree of c),

    gamma = prior of the decisions made times likelihood, eligible nodes taken for leaves. The future is a sequence of
    decisions, taken in the order of the queue.

    Parameters
    ----------
    model : OneTree
    n_particles : int
    samples_ancestors : bool
    seen : list, optional
        Receives a `Seen` for each resampling.
    """

    def __init__(self, model, n_particles, samples_ancestors, seen=None):
        self.model, self.n_particles, self.samples_ancestors = model, n_particles, samples_ancestors
        self.seen, self.row_visits = seen, 0

    def step(self, decisions, draws, root=()):
        """The next tree, as its decisions; or the next subtree at a node."""
        self.row_visits += self._cost((root,), decisions)
        stage = self.start(decisions, root)
        while not stage.is_done:
            stage = self.advance(stage, draws)
        return self.finish(stage, draws)

    def start(self, decisions, root=()):
        """All particles at an undecided root."""
        return Stage(decisions, (Particle(queue=(root,)),) * self.n_particles)

    def advance(self, stage, draws):
        """Each unfinished particle decides a node; then ancestors are drawn, unless all are finished."""
        first, *free = stage.particles
        new = [self._extend(first, stage.reference[len(first.decisions)]) if first.queue else first]
        for particle in free:
            if particle.queue:
                rule = self.model.propose(particle.queue[0], draws)
                self.row_visits += 0 if rule is None else len(self.model.rows(particle.queue[0]))
                particle = self._extend(particle, rule)
            new.append(particle)
        if not any(particle.queue for particle in new):
            return Stage(stage.reference, tuple(new), True)
        weights = normalised([particle.log_weight for particle in new])
        reference, clamped = stage.reference, new[0]
        if self.samples_ancestors or self.seen is not None:
            chances = self._ancestors(new, reference)
            if self.samples_ancestors:
                clamped = new[draws.choice(chances)]
                reference = clamped.decisions + reference[len(new[0].decisions) :]
        chosen = [clamped, *(new[draws.choice(weights)] for _ in free)]
        return Stage(reference, tuple(particle._replace(log_weight=0.0) for particle in chosen))

    def finish(self, stage, draws):
        """The new tree, by weight over all particles."""
        return stage.particles[draws.choice(normalised([p.log_weight for p in stage.particles]))].decisions

    def _extend(self, particle, rule):
        node, *queue = particle.queue
        return Particle(particle.decisions + (rule,), (*queue, *children(node, rule)),
                        particle.log_weight + self._log_ratio(node, rule))

    def _log_ratio(self, node, rule):
        log_l = self.model.log_l
        return sum(map(log_l, children(node, rule))) - log_l(node) if rule else 0.0

    def _ancestors(self, particles, reference):
        """Probability of each particle's past; those of equal partial trees share one evaluation."""
        clamped, found = particles[0], {}
        future = reference[len(clamped.decisions) :]
        for particle in particles:
            if particle.decisions not in found:
                found[particle.decisions] = self._log_future(particle.queue, future)
                if particle.decisions != clamped.decisions:
                    self.row_visits += self._cost(particle.queue, future)
        # Logarithms throughout: the clamped particle always fits, but its own weight may be below the least double.
        logs = [particle.log_weight + found[particle.decisions] for particle in particles]
        chances = normalised(logs)
        if self.seen is not None:
            self.seen.append(_summary(particles, logs, bool(future)))
        return chances

    def _log_future(self, queue, future):
        """log of prior and likelihood ratios of the decisions on eligible nodes; -inf where they do not fit."""
        queue, total = list(queue), 0.0
        for rule in future:
            if not queue:
                return -math.inf
            node = queue.pop(0)
            log_prior = self.model.log_prior(node, rule)
            if log_prior == -math.inf:
                return -math.inf
            total += log_prior + self._log_ratio(node, rule)
            queue += children(node, rule)
        return -math.inf if queue else total

    def _cost(self, queue, future):
        """Rows of the nodes at which the future's rules are tried, until one does not fit."""
        queue, cost = list(queue), 0
        if len(queue) + 2 * sum(rule is not None for rule in future) != len(future):
            return 0                                        # seen without a look at the rows
        for rule in future:
            node = queue.pop(0)
            cost += len(self.model.rows(node)) if rule else 0
            if self.model.log_prior(node, rule) == -math.inf:
                break
            queue += children(node, rule)
        return cost


class AncestorSampler(bart.TreeSampler):
    """AncestorGibbs as a sampler of bart's chains; its row visits are those of `bart.StepInfo` and, for each other past
    that the reference's future may fit, the rows of the nodes at which that tries rules. With `descend` it redraws a
    subtree, as ``bart.ParticleGibbs(region="subtree")`` does."""

    name = "ancestors"

    def __init__(self, n_particles, samples_ancestors=True, seen=None, descend=None):
        self.n_particles, self.samples_ancestors, self.seen = n_particles, samples_ancestors, seen
        self.descend = descend

    def __repr__(self):
        return (f"AncestorSampler(n_particles={self.n_particles}, samples_ancestors={self.samples_ancestors}, "
                f"descend={self.descend})")

    def step(self, state, target, params, rng):
        codes, prior = state.domain.codes, state.domain.prior
        model = OneTree(codes.codes, codes.values, target, params.sigma2 / params.temperature, params.leaf_var,
                        params.leaf_mean, prior.alpha, prior.beta)
        kernel = AncestorGibbs(model, self.n_particles, self.samples_ancestors, self.seen)
        old, draws = state.structure, Draws(rng)
        slot = draw_slot(old, self.descend, draws)
        if slot is None or (self.descend is not None and not model.ranges(slot[0])):
            return bart.StepInfo("ancestors", False, False, 0.0, state.n_leaves, 0)
        node, subtree = slot
        new = replaced(old, node, structure_of(kernel.step(decisions_of(subtree), draws, node)))
        state.structure = new
        root_changed = (new and new[:2]) != (old and old[:2])
        return bart.StepInfo("ancestors", new != old, root_changed, 0.0, state.n_leaves, 0, kernel.row_visits)


def draw_slot(tree, descend, draws):
    """A node and the subtree there, at a place whose law does not depend on the tree; None where the tree ends
    before. Without `descend` the root."""
    node = ()
    while descend is not None and draws.choice([1.0 - descend, descend]) == 1:
        if tree is None:
            return None
        side = draws.choice([0.5, 0.5])
        node, tree = (*node, (int(tree[0]), int(tree[1]), "LR"[side])), tree[2 + side]
    return node, tree


def replaced(tree, node, subtree):
    """The tree with another subtree at a node."""
    if not node:
        return subtree
    dim, code, *below = tree
    side = "LR".index(node[0][2])
    below[side] = replaced(below[side], node[1:], subtree)
    return (dim, code, *below)


def children(node, rule):
    """The nodes below a decision."""
    return [] if rule is None else [(*node, (*rule, "L")), (*node, (*rule, "R"))]


def normalised(logs):
    """Weights that sum to one."""
    weights = np.exp(np.array(logs) - max(logs))
    return weights / weights.sum()


def _places(particle):
    return ["".join(side for _, _, side in node) for node in particle.queue]


def _summary(particles, logs, is_open):
    clamped, chances = particles[0], normalised(logs)
    others = [i for i, particle in enumerate(particles) if particle.decisions != clamped.decisions]
    at_places = [i for i in others if _places(particles[i]) == _places(clamped)]
    kept = [i for i in range(len(particles)) if i not in others or i in at_places]
    of_places = float(sum(chances[i] for i in at_places) / sum(chances[i] for i in kept))
    fitting = [i for i in others if logs[i] > -math.inf]
    return Seen(is_open, len({particles[i].decisions for i in others}), bool(fitting),
                any(i in at_places for i in fitting), float(sum(chances[i] for i in others)), of_places)


def decisions_of(structure):
    """A tree of nested tuples (dim, code, left, right) as its decisions, breadth first."""
    queue, decisions = [structure], []
    for tree in queue:
        decisions.append(None if tree is None else (int(tree[0]), int(tree[1])))
        if tree is not None:
            queue += tree[2:]
    return tuple(decisions)


def structure_of(decisions):
    """The inverse of `decisions_of`."""
    below, first = defaultdict(lambda: None), 1
    for number, rule in enumerate(decisions):
        if rule is not None:
            below[number] = (first, first + 1)
            first += 2
    made = {}
    for number in reversed(range(len(decisions))):
        rule = decisions[number]
        made[number] = None if rule is None else (*rule, *(made[child] for child in below[number]))
    return made[0]
