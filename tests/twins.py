"""Slow twins of GrowPrune and CGM: the readable reference of what the compiled kernels do.

Each twin draws from a source of :mod:`twin_random` in the order the kernels consume uniforms, so that it
can be enumerated exactly, replayed on scripted uniforms, or simulated. ``mutant`` puts a known error back;
see ``MUTANTS`` for the names ("optimal" and "subtree": of particle Gibbs with that proposal and region; "filter":
without a clamped particle).
Particle Gibbs is in :mod:`twin_particles`, its proposals in :mod:`twin_proposals`, the local move in
:mod:`twin_local`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from oracle import Problem, bfs, replace_at
from twin_random import outcomes

MUTANTS = {
    "GrowPrune": ("missing prunable count", "prunable count plus one", "sigma for variance",
                  "stop of unsplittable children counted", "growable count after the move"),
    "CGM": ("change without the subtree's prior", "change counts its own rule", "node-gap midpoints",
            "swap overwrites both children"),
    "ParticleGibbs": ("reference outside the pool", "sorted draws, one overwritten", "late finish",
                      "skipped stages", "root always split", "weights kept on copy", "sigma for variance",
                      "killing without the shift", "systematic offset unconditioned",
                      "forced ratio inverted", "final draw among the free",
                      "stop of unsplittable nodes weighted"),
    "optimal": ("stop weight one", "subset unconditioned", "cell weight for exact ratio", "cell share left out",
                "prior share left out"),
    "filter": ("first particle kept",),
    "subtree": ("depth without offset", "path that leaves the tree redrawn", "path that leaves the tree stopped"),
    "Local": ("subset unconditioned", "cell weight for exact ratio", "cell share left out",
              "stops of the children left out", "candidates not counted", "unsplittable child counted",
              "path that leaves the tree redrawn", "path that leaves the tree stopped"),
}


class Result(NamedTuple):
    """What one step did."""

    tree: object
    move: str
    log_ratio: float = math.nan     # nan: no ratio was needed
    n_stages: int = 0
    staged: frozenset = frozenset()  # see ParticleGibbs
    row_visits: int = 0             # see rows_of_rules
    changed: object = None          # of a cycle: whether some part changed the tree; None: as the trees say
    root_changed: object = None


class Node(NamedTuple):
    """A node seen with its rows."""

    path: str
    tree: object
    rows: tuple
    depth: int


def nodes_of(problem, tree):
    """Every node in breadth-first order, with rows and depth."""
    rows, out = {"": problem.all_rows}, []
    for path, node in bfs(tree):
        out.append(Node(path, node, rows[path], len(path)))
        if node is not None:
            rows[path + "L"], rows[path + "R"] = problem.divide(rows[path], node[0], node[1])
    return out


def rows_of_rules(problem, tree, rows):
    """Rows that the rules of a tree are asked of: each rule those that reach it."""
    if tree is None:
        return 0
    left, right = problem.divide(rows, *tree[:2])
    return len(rows) + rows_of_rules(problem, tree[2], left) + rows_of_rules(problem, tree[3], right)


def draw_slot(problem, tree, descend, random, mutant=None):
    """Node at a slot whose law does not depend on the tree; None where the path leaves the tree."""
    if mutant == "path that leaves the tree redrawn":
        law = outcomes(lambda random: draw_slot(problem, tree, descend, random))
        inside = sum(p for node, p in law.items() if node is not None)
        return list(law)[random.choice([0.0 if node is None else p / inside for node, p in law.items()])]
    node = Node("", tree, problem.all_rows, 0)
    while random.choice([descend, 1.0 - descend]) == 0:
        if node.tree is None:
            return node if mutant == "path that leaves the tree stopped" else None
        side = random.below(2)
        rows = problem.divide(node.rows, *node.tree[:2])[side]
        node = Node(node.path + "LR"[side], node.tree[2 + side], rows, node.depth + 1)
    return node


def log(x):
    """Logarithm with log 0 = -inf."""
    return math.log(x) if x > 0 else -math.inf


# ---------------------------------------------------------------- draws from the prior
def draw_rule(problem, rows, random, mutant=None):
    """SPLIT RULE: a dimension by rejection among the candidates, then a gap of its range by mass.

    A lone row has no rule and draws nothing; other nodes without a rule draw once for each candidate.
    """
    if len(rows) < 2:
        return None
    weights = problem.dim_weights
    remaining = [d for d in range(problem.n_dims)
                 if weights[d] > 0 and problem.range_mass(problem.all_rows, d) > 0]
    equal = len({w for w in weights if w > 0}) == 1
    while remaining:
        if equal:
            i = random.below(len(remaining))
        else:
            total = sum(weights[d] for d in remaining)
            i = random.choice([weights[d] / total for d in remaining])
        dim = remaining[i]
        mass = problem.range_mass(rows, dim)
        if mass > 0:
            low, high = problem.code_range(rows, dim)
            cumulative = problem.cumulative[dim]
            gaps = [(cumulative[g + 1] - cumulative[g]) / mass for g in range(low, high)]
            code = low + random.choice(gaps)
            if mutant == "node-gap midpoints":
                code = node_gap_midpoint(problem, rows, dim, code)
            return dim, code
        remaining.remove(dim)
    return None


def node_gap_midpoint(problem, rows, dim, code):
    """Code that holds the middle of the node's own gap: what a state-dependent threshold amounts to."""
    codes = {problem.codes[dim][n] for n in rows}
    below = problem.values[dim][max(c for c in codes if c <= code)]
    above = problem.values[dim][min(c for c in codes if c > code)]
    return sum(v <= 0.5 * (below + above) for v in problem.values[dim]) - 1


def propose(problem, rows, depth, random, mutant=None):
    """PROPOSE: stop (None) or split by the prior; the coin is tossed even where no rule exists."""
    p_split = problem.alpha * (1.0 + depth) ** -problem.beta
    if mutant == "root always split" and depth == 0:
        p_split = 1.0
    if random.choice([p_split, 1.0 - p_split]) == 1:
        return None
    return draw_rule(problem, rows, random)


def mutated(problem, mutant):
    """The problem as the ratios see it."""
    if mutant != "sigma for variance":
        return problem
    return Problem(problem.X, problem.target, problem.sigma2, math.sqrt(problem.leaf_var), problem.leaf_mean,
                   problem.alpha, problem.beta, problem.cuts, problem.n_cuts, problem.dim_weights, problem.weights)


# ---------------------------------------------------------------- local moves
class GrowPrune:
    """Grow and prune moves.

    Parameters
    ----------
    problem : Problem
    p_grow : float
    bookkeeping : {"canonical", "authors"}
        "authors": growing a lone root counts no prunable node after the move, so it is always accepted.
    mutant : str, optional
    """

    def __init__(self, problem, p_grow=0.5, bookkeeping="canonical", mutant=None):
        self.problem, self.model = problem, mutated(problem, mutant)
        self.move_probs = (p_grow, 1.0 - p_grow)
        self.bookkeeping, self.mutant = bookkeeping, mutant

    def step(self, tree, random):
        """One step from a nested-tuple tree."""
        move = ("grow", "prune", "change", "swap")[random.choice(self.move_probs)]
        return getattr(self, move)(tree, random)

    def law(self, tree):
        """Exact law of the next tree."""
        return outcomes(lambda random: self.step(tree, random).tree)

    def accept(self, old, new, move, log_ratio, visits, random):
        """Metropolis-Hastings decision; one draw whatever the ratio."""
        p = math.exp(min(0.0, log_ratio))
        accepted = random.choice([p, 1.0 - p]) == 0
        return Result(new if accepted else old, move, log_ratio, row_visits=visits)

    def growable(self, tree):
        """Leaves that can split, breadth first."""
        return [n for n in nodes_of(self.problem, tree)
                if n.tree is None and self.problem.can_split(n.rows)]

    def prunable(self, tree):
        """Internal nodes with two leaf children, breadth first."""
        return [n for n in nodes_of(self.problem, tree)
                if n.tree is not None and n.tree[2] is None and n.tree[3] is None]

    def grow(self, tree, random):
        """Split a uniform growable leaf by a rule from the prior."""
        leaves = self.growable(tree)
        if not leaves:
            return Result(tree, "grow")
        leaf = leaves[random.below(len(leaves))]
        rule = draw_rule(self.problem, leaf.rows, random, self.mutant)
        new = replace_at(tree, leaf.path, (*rule, None, None))
        ratio = self.log_grow_ratio(tree, new, leaf, rule)
        if self.bookkeeping == "authors" and tree is None:
            ratio = math.inf
        return self.accept(tree, new, "grow", ratio, len(leaf.rows), random)

    def prune(self, tree, random):
        """Make a leaf of a uniform prunable node."""
        parents = self.prunable(tree)
        if not parents:
            return Result(tree, "prune")
        node = parents[random.below(len(parents))]
        new = replace_at(tree, node.path, None)
        ratio = -self.log_grow_ratio(new, tree, node, node.tree[:2])
        return self.accept(tree, new, "prune", ratio, len(node.rows), random)

    def log_grow_ratio(self, small, large, node, rule):
        """Log ratio of the move from ``small`` to ``large`` = ``small`` with the leaf ``node`` split."""
        model, depth, mutant = self.model, node.depth, self.mutant
        left, right = model.divide(node.rows, *rule)
        p = model.split_probability(node.rows, depth)
        p_left, p_right = model.split_probability(left, depth + 1), model.split_probability(right, depth + 1)
        if mutant == "stop of unsplittable children counted":
            p_left = p_right = model.alpha * (2.0 + depth) ** -model.beta
        n_growable, n_prunable = len(self.growable(small)), len(self.prunable(large))
        if mutant == "missing prunable count":
            n_prunable = 1
        if mutant == "prunable count plus one":
            n_prunable = len(self.prunable(small)) + 1
        if mutant == "growable count after the move":
            n_growable = max(len(self.growable(large)), 1)
        likelihood = model.log_likelihood(left) + model.log_likelihood(right)
        return (likelihood - model.log_likelihood(node.rows)
                + log(p) - log(1.0 - p) + log(1.0 - p_left) + log(1.0 - p_right)
                + log(n_growable) - log(n_prunable)
                + log(self.move_probs[1]) - log(self.move_probs[0]))



class CGM(GrowPrune):
    """Grow, prune, change and swap; ``move_probs`` in that order."""

    def __init__(self, problem, move_probs=(0.25, 0.25, 0.25, 0.25), bookkeeping="canonical", mutant=None):
        super().__init__(problem, bookkeeping=bookkeeping, mutant=mutant)
        self.move_probs = tuple(move_probs)

    def has_empty_leaf(self, subtree, rows):
        """Whether some leaf of the subtree holds no row."""
        return any(not leaf for leaf, _ in self.problem.leaves(subtree, rows))

    def change(self, tree, random):
        """Redraw the rule of a uniform internal node from the prior given its rows."""
        internal = [n for n in nodes_of(self.problem, tree) if n.tree is not None]
        if not internal:
            return Result(tree, "change")
        node = internal[random.below(len(internal))]
        rule = draw_rule(self.problem, node.rows, random, self.mutant)
        if rule == node.tree[:2]:
            return Result(tree, "change")
        subtree = (*rule, *node.tree[2:])
        visits = rows_of_rules(self.problem, node.tree, node.rows)
        if self.has_empty_leaf(subtree, node.rows):
            return Result(tree, "change", row_visits=visits)
        ratio = self.log_change_ratio(node, rule, subtree)
        return self.accept(tree, replace_at(tree, node.path, subtree), "change", ratio, visits, random)

    def log_change_ratio(self, node, rule, subtree):
        """Likelihood ratio of the subtree times prior ratio of the descendants alone."""
        model, old = self.model, node.tree
        if self.mutant == "change without the subtree's prior":
            return (sum(model.log_likelihood(rows) for rows, _ in model.leaves(subtree, node.rows))
                    - sum(model.log_likelihood(rows) for rows, _ in model.leaves(old, node.rows)))
        ratio = model.log_joint(subtree, node.rows, node.depth) - model.log_joint(old, node.rows, node.depth)
        if self.mutant == "change counts its own rule":
            return ratio
        rules = model.rules(node.rows)
        return ratio - math.log(rules[rule]) + math.log(rules[old[:2]])

    def swap(self, tree, random):
        """Exchange the rules of an internal parent and an internal child; both children's if equal."""
        nodes = {n.path: n for n in nodes_of(self.problem, tree)}
        children = [n for n in nodes.values() if n.path and n.tree is not None]
        if not children:
            return Result(tree, "swap")
        child = children[random.below(len(children))]
        parent = nodes[child.path[:-1]]
        rule = child.tree[:2]
        both = all(c is not None and c[:2] == rule for c in parent.tree[2:])
        if self.mutant == "swap overwrites both children":
            both = all(c is not None for c in parent.tree[2:])
        below = list(parent.tree[2:])
        for i, side in enumerate("LR"):
            if both or child.path[-1] == side:
                below[i] = (*parent.tree[:2], *below[i][2:])
        subtree = (*rule, *below)
        visits = rows_of_rules(self.problem, parent.tree, parent.rows)
        if self.has_empty_leaf(subtree, parent.rows):
            return Result(tree, "swap", row_visits=visits)
        ratio = (self.model.log_joint(subtree, parent.rows, parent.depth)
                 - self.model.log_joint(parent.tree, parent.rows, parent.depth))
        return self.accept(tree, replace_at(tree, parent.path, subtree), "swap", ratio, visits, random)
