"""Slow twin of the local move: the decision of a leaf or of a node with two leaf children, redrawn."""

from __future__ import annotations

import math

from oracle import replace_at
from twin_proposals import OptimalProposal, log_split
from twin_random import outcomes
from twins import Result, draw_slot, log, nodes_of

SOME_RULE = (0, 0)


def candidates(problem, tree):
    """Leaves and nodes with two leaf children, breadth first."""
    return [n for n in nodes_of(problem, tree) if n.tree is None or n.tree[2:] == (None, None)]


class Local:
    """Independence step on the decision of a candidate, or of the node at a random slot.

    The proposal weighs every split as if both children could split; the ratio corrects that, and the cells.

    Parameters
    ----------
    problem : Problem
    subset : int, optional
    descend : float, optional
        None: a leaf, or a node with two leaf children, uniformly.
    cells : list, optional
        As of :class:`twin_proposals.OptimalProposal`.
    mutant : str, optional
    """

    def __init__(self, problem, subset=None, descend=None, cells=None, mutant=None):
        self.problem, self.descend, self.mutant = problem, descend, mutant
        forgets = mutant == "stops of the children left out"
        self.proposal = OptimalProposal(problem, cells, subset, mutant=mutant,
                                        log_factor=lambda depth: self.log_counts
                                        + (0.0 if forgets else self.log_stops(depth)))
        self.log_counts = 0.0

    def log_stops(self, depth):
        """Log probability that two children of a node at the depth stop, if both can split."""
        return 2.0 * log(1.0 - self.problem.alpha * (2.0 + depth) ** -self.problem.beta)

    def step(self, tree, random):
        """One step from a nested-tuple tree."""
        node = self.draw_node(tree, random)
        if node is None or not self.problem.can_split(node.rows):
            return Result(tree, "local", 0.0)
        if node.tree is not None and node.tree[2:] != (None, None):
            return Result(tree, "local", 0.0)
        old = None if node.tree is None else node.tree[:2]
        looked = self.proposal.subset(node, random, old)
        visits = len(looked) * len(node.rows)
        new = self.proposal.draw(node, looked, random)
        if new == old:
            return Result(tree, "local", 0.0, row_visits=visits)
        ratio = self.log_correction(node, new) - self.log_correction(node, old)
        p = math.exp(min(0.0, ratio))
        if random.choice([p, 1.0 - p]) == 0:
            tree = replace_at(tree, node.path, None if new is None else (*new, None, None))
        return Result(tree, "local", ratio, row_visits=visits)

    def draw_node(self, tree, random):
        """The node to be redrawn. A candidate drawn uniformly weighs each decision by 1 / their number after it."""
        if self.descend is not None:
            return draw_slot(self.problem, tree, self.descend, random, self.mutant)
        found = candidates(self.problem, tree)
        node = found[random.below(len(found))]
        stopped = len(candidates(self.problem, replace_at(tree, node.path, None)))
        split = len(candidates(self.problem, replace_at(tree, node.path, (*SOME_RULE, None, None))))
        self.log_counts = log(stopped) - log(split)
        if self.mutant == "candidates not counted":
            self.log_counts = 0.0
        self.proposal.weigh.cache_clear()
        return node

    def log_correction(self, node, rule):
        """Log of the full conditional over the proposal's weight."""
        if rule is None:
            return 0.0
        proposal, problem = self.proposal, self.problem
        exact, cell = log_split(problem, node.rows, *rule), proposal.log_cell(node.rows, rule)
        if self.mutant == "cell weight for exact ratio":
            exact = cell
        if self.mutant in ("stops of the children left out", "unsplittable child counted"):
            return exact - cell
        stops = sum(log(1.0 - problem.split_probability(rows, node.depth + 1))
                    for rows in problem.divide(node.rows, *rule))
        return exact - cell + stops - self.log_stops(node.depth)

    def law(self, tree):
        """Exact law of the next tree."""
        return outcomes(lambda random: self.step(tree, random).tree)
