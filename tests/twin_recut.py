"""Slow twin of recut: the rule of a node with an internal child, redrawn given the subtrees below it."""

from __future__ import annotations

import math
from bisect import bisect_right

from oracle import bfs, replace_at
from twin_proposals import OptimalProposal
from twins import Result, log, nodes_of, rows_of_rules
from twins_rules import RuleMove

LESS_WHERE_EMPTY = 1e-3     # in place of L(no rows) = 1
MUTANTS = ("ratio of the cells left out", "present rows for claims", "subset unconditioned", "cell share left out")


class Recut(RuleMove):
    """A uniform node with an internal child; its rule by prior times likelihood over cells, then accepted or not.

    Parameters
    ----------
    problem : Problem
    subset : int or None
    cells : list, optional
        As of :class:`twin_proposals.OptimalProposal`.
    mutant : str, optional
    """

    def __init__(self, problem, subset=1, cells=None, mutant=None):
        super().__init__(problem, mutant=mutant)
        self.proposal = OptimalProposal(problem, cells, subset, mutant=mutant)

    def step(self, tree, random):
        """One step from a nested-tuple tree."""
        parents = [n for n in nodes_of(self.problem, tree) if n.tree is not None and n.tree[2:] != (None, None)]
        if not parents:
            return Result(tree, "recut", 0.0)
        node = parents[random.below(len(parents))]
        old = node.tree[:2]
        looked = self.proposal.subset(node, random, old)
        claims, visits = self.claims(node)
        visits += len(looked) * len(node.rows)
        new = self.draw(node, claims, looked, random)
        if new == old:
            return Result(tree, "recut", 0.0, row_visits=visits)
        subtree = (*new, *node.tree[2:])
        visits += rows_of_rules(self.problem, node.tree, node.rows)
        if self.has_empty_leaf(subtree, node.rows):
            return Result(tree, "recut", row_visits=visits)
        rules = self.model.rules(node.rows)
        ratio = (self.model.log_joint(subtree, node.rows, node.depth) - math.log(rules[new])
                 - self.model.log_joint(node.tree, node.rows, node.depth) + math.log(rules[old]))
        if self.mutant != "ratio of the cells left out":
            ratio += self.log_r(claims, self.representative(old)) - self.log_r(claims, self.representative(new))
        return self.accept(tree, replace_at(tree, node.path, subtree), "recut", ratio, visits, random)

    def claims(self, node):
        """(side, rows) of each leaf below a node, and the rows that the rules below its children are asked of.

        The rows are those of the node that the rules on the leaf's path let through, that of the node left out.
        """
        rows, found, visits = {"": node.rows}, [], 0
        for path, below in bfs(node.tree):
            if below is None:
                found.append((path[0], rows[path]))
                continue
            visits += len(rows[path]) if path else 0
            sides = self.problem.divide(rows[path], *below[:2])
            if path == "" and self.mutant != "present rows for claims":
                sides = node.rows, node.rows
            rows[path + "L"], rows[path + "R"] = sides
        return found, visits

    def log_r(self, claims, rule):
        """Log of the product of L over the leaves under a rule at the node."""
        total = 0.0
        for side, rows in claims:
            kept = self.problem.divide(rows, *rule)["LR".index(side)]
            total += self.log_L(kept) if kept else math.log(LESS_WHERE_EMPTY)
        return total

    def log_L(self, rows):
        """Log likelihood of a leaf without the terms of each row alone, which all rules share."""
        p = self.problem
        total, weight = p.weighed(rows)
        v = p.sigma2 + weight * p.leaf_var
        return 0.5 * math.log(p.sigma2 / v) + p.leaf_var * total**2 / (2 * p.sigma2 * v)

    def representative(self, rule):
        """The rule by which the cell of a rule is weighed."""
        first, rep = self.proposal.cells[rule[0]]
        return rule[0], rep[bisect_right(first, rule[1]) - 1]

    def draw(self, node, claims, looked, random):
        """A cell by w, then a gap of it by mass."""
        problem, proposal = self.problem, self.proposal
        options, logs = [], []
        for dim, u in zip(looked, proposal.shares(looked), strict=True):
            for k, rep in enumerate(proposal.cells[dim][1]):
                cell = proposal.cell_within(node.rows, dim, k)
                if cell.low < cell.high:
                    share = u * proposal.mass(*cell) / problem.range_mass(node.rows, dim)
                    options.append(cell)
                    logs.append(log(share) + self.log_r(claims, (dim, rep)))
        top = max(logs)
        weights = [math.exp(w - top) for w in logs]
        total = math.fsum(weights)
        return proposal.draw_gap(options[random.choice([w / total for w in weights])], random)
