"""Slow twin of transpose: a node's rule and that of both its children change places."""

from __future__ import annotations

import math

from oracle import replace_at
from twin_recut import Recut
from twins import Result, log, nodes_of, rows_of_rules

MUTANTS = ("proposals left out", "one code for all", "same child on the way back")


class Transpose(Recut):
    """At a uniform internal node: a over twice b becomes b over twice a, one code of each pair drawn as by recut.

    Parameters
    ----------
    problem : Problem
    cells : list, optional
        As of :class:`twin_proposals.OptimalProposal`.
    mutant : str, optional
    """

    def __init__(self, problem, cells=None, mutant=None):
        super().__init__(problem, cells=cells, mutant=mutant)

    def step(self, tree, random):
        """One step from a nested-tuple tree."""
        internal = [n for n in nodes_of(self.problem, tree) if n.tree is not None]
        if not internal:
            return Result(tree, "transpose", 0.0)
        node = internal[random.below(len(internal))]
        upper, lower = node.tree[:2], node.tree[2:]
        if None in lower or lower[0][0] != lower[1][0] or lower[0][0] == upper[0]:
            return Result(tree, "transpose", 0.0)
        s, u = random.below(2), random.below(2)
        back, visits = self.log_way(self.child(node, node.tree, 1 - s), lower[1 - s][:2])
        below = [(*upper, lower[0][2 + side], lower[1][2 + side]) for side in range(2)]
        subtree = (*lower[s][:2], *below)
        child = self.child(node, subtree, 1 - u)
        if upper[0] not in self.problem.valid_dims(child.rows):
            return Result(tree, "transpose", 0.0, row_visits=visits)
        claims, _ = self.claims(child)
        drawn = self.draw(child, claims, (upper[0],), random)
        if self.mutant == "one code for all":
            drawn = upper
        forth, seen = self.log_way(child, drawn)
        if self.mutant == "same child on the way back":
            back, _ = self.log_way(self.child(node, node.tree, s), lower[s][:2])
        below[1 - u] = (*drawn, *below[1 - u][2:])
        subtree = (*lower[s][:2], *below)
        visits += seen + rows_of_rules(self.problem, node.tree, node.rows)
        if self.has_empty_leaf(subtree, node.rows):
            return Result(tree, "transpose", row_visits=visits)
        ratio = (self.model.log_joint(subtree, node.rows, node.depth)
                 - self.model.log_joint(node.tree, node.rows, node.depth))
        if self.mutant != "proposals left out":
            ratio += back - forth
        return self.accept(tree, replace_at(tree, node.path, subtree), "transpose", ratio, visits, random)

    def child(self, node, subtree, side):
        """The child of a node on a side if its subtree is this one."""
        rows = self.problem.divide(node.rows, *subtree[:2])[side]
        return node._replace(path=node.path + "LR"[side], tree=subtree[2 + side], rows=rows, depth=node.depth + 1)

    def log_way(self, child, rule):
        """Log probability that recut's weights draw a rule of its dimension at a child, and the rows visited."""
        proposal, dim = self.proposal, rule[0]
        claims, visits = self.claims(child)
        logs = []
        for k, rep in enumerate(proposal.cells[dim][1]):
            cell = proposal.cell_within(child.rows, dim, k)
            if cell.low < cell.high:
                logs.append(log(proposal.mass(*cell)) + self.log_r(claims, (dim, rep)))
        top = max(logs)
        total = top + math.log(math.fsum(math.exp(w - top) for w in logs))
        own = math.log(proposal.mass(dim, rule[1], rule[1] + 1)) + self.log_r(claims, self.representative(rule))
        return own - total, visits + len(child.rows)
