"""Slow twins of perturb, rotate and splice, as those of :mod:`twins`: the readable reference of what the kernels do.

Their ratios are differences of whole log joints, where the kernels add up the terms that change.
"""

from __future__ import annotations

import math

from oracle import bfs, replace_at
from twins import CGM, Result, draw_rule, nodes_of, rows_of_rules

MUTANTS = {
    "Perturb": ("mass of the codes left out", "interval around the old code", "old code left out"),
    "Rotate": ("parent first", "always accepted", "depths left out", "rules left out"),
    "Splice": ("pairs before the move", "side left out", "depths not shifted"),
}


class RuleMove(CGM):
    """One move alone, with what CGM's twin knows of changed subtrees.

    Parameters
    ----------
    problem : Problem
    mutant : str, optional
    """

    def __init__(self, problem, mutant=None):
        super().__init__(problem, mutant=mutant)


class Perturb(RuleMove):
    """A new code, by mass, for the rule of a uniform internal node."""

    def step(self, tree, random):
        """One step from a nested-tuple tree."""
        internal = [n for n in nodes_of(self.problem, tree) if n.tree is not None]
        if not internal:
            return Result(tree, "perturb")
        node = internal[random.below(len(internal))]
        dim, old = node.tree[:2]
        low, high = self.interval(tree, node)
        cumulative = self.problem.cumulative[dim]
        masses = [cumulative[c + 1] - cumulative[c] for c in range(low, high)]
        mass_of_old = masses[old - low]
        if self.mutant == "old code left out" and mass_of_old < sum(masses):
            masses[old - low] = 0.0
        new = low + random.choice([mass / sum(masses) for mass in masses])
        if new == old:
            return Result(tree, "perturb")
        subtree = (dim, new, *node.tree[2:])
        visits = rows_of_rules(self.problem, node.tree, node.rows)
        if self.has_empty_leaf(subtree, node.rows):
            return Result(tree, "perturb", row_visits=visits)
        ratio = (self.model.log_joint(subtree, node.rows, node.depth)
                 - self.model.log_joint(node.tree, node.rows, node.depth))
        if self.mutant != "mass of the codes left out":
            ratio += math.log(mass_of_old) - math.log(masses[new - low])
        return self.accept(tree, replace_at(tree, node.path, subtree), "perturb", ratio, visits, random)

    def interval(self, tree, node):
        """Codes low <= code < high: the column's, cut by the rules above and below that split the node's dimension."""
        dim, code = node.tree[:2]
        low, high = 0, len(self.problem.values[dim]) - 1
        for path, other in bfs(tree):
            if other is None or other[0] != dim or path == node.path:
                continue
            if node.path.startswith(path):                          # above: the node lies on one side of its code
                left_of = node.path[len(path)] == "L"
            elif path.startswith(node.path):                        # below: its code lies on one side of the node's
                left_of = path[len(node.path)] == "R"
            else:
                continue
            low, high = (low, min(high, other[1])) if left_of else (max(low, other[1] + 1), high)
        if self.mutant == "interval around the old code":
            low, high = max(low, code - 1), min(high, code + 2)
        return low, high


class Rotate(RuleMove):
    """Rotate a uniform edge whose parent and child split the same dimension."""

    def step(self, tree, random):
        """One step from a nested-tuple tree."""
        nodes = {n.path: n for n in nodes_of(self.problem, tree)}
        children = [n for n in nodes.values() if n.path and n.tree is not None
                    and n.tree[0] == nodes[n.path[:-1]].tree[0]]
        if not children:
            return Result(tree, "rotate")
        if self.mutant == "parent first":
            parents = sorted({n.path[:-1] for n in children}, key=lambda path: (len(path), path))
            drawn = parents[random.below(len(parents))]
            children = [n for n in children if n.path[:-1] == drawn]
        child = children[random.below(len(children))]
        parent = nodes[child.path[:-1]]
        subtree = rotate(parent.tree, child.path[-1])
        inner = subtree[2 if child.path[-1] == "R" else 3]
        inner_rows = self.problem.divide(parent.rows, *subtree[:2])["LR".index(child.path[-1]) ^ 1]
        ratio = (self.model.log_joint(subtree, parent.rows, parent.depth)
                 - self.model.log_joint(parent.tree, parent.rows, parent.depth))
        log_rules = (self.log_rules(parent.rows, subtree[:2]) + self.log_rules(inner_rows, inner[:2])
                     - self.log_rules(parent.rows, parent.tree[:2]) - self.log_rules(child.rows, child.tree[:2]))
        ratio = {"always accepted": math.inf, "depths left out": log_rules,
                 "rules left out": ratio - log_rules}.get(self.mutant, ratio)
        visits = len(parent.rows) + len(child.rows) + len(inner_rows)
        return self.accept(tree, replace_at(tree, parent.path, subtree), "rotate", ratio, visits, random)

    def log_rules(self, rows, rule):
        """Log prior of a rule given the rows of its node."""
        return math.log(self.model.rules(rows)[rule])


def rotate(tree, side):
    """P(L(A, B), C) becomes L(A, P(B, C)) where the child is on side "L"; the reverse where it is on "R"."""
    dim, code, left, right = tree
    if side == "L":
        _, low, a, b = left
        return dim, low, a, (dim, code, b, right)
    _, high, b, c = right
    return dim, high, (dim, code, left, b), c


class Splice(RuleMove):
    """Insert an internal node at any node, or delete one above a leaf."""

    def step(self, tree, random):
        """One step from a nested-tuple tree."""
        return self.insert(tree, random) if random.choice([0.5, 0.5]) == 0 else self.delete(tree, random)

    def insert(self, tree, random):
        """A new leaf on one side of a new node, a uniform node's subtree on the other."""
        nodes = nodes_of(self.problem, tree)
        node = nodes[random.below(len(nodes))]
        rule = draw_rule(self.problem, node.rows, random)
        if rule is None:
            return Result(tree, "insert")
        side = random.below(2)
        subtree = (*rule, None, node.tree) if side == 0 else (*rule, node.tree, None)
        visits = len(node.rows) + rows_of_rules(self.problem, node.tree, node.rows)
        if self.has_empty_leaf(subtree, node.rows):
            return Result(tree, "insert", row_visits=visits)
        new = replace_at(tree, node.path, subtree)
        return self.accept(tree, new, "insert", self.log_insert_ratio(tree, new, node, side), visits, random)

    def delete(self, tree, random):
        """A uniform leaf and its parent go, the leaf's sibling takes the parent's place."""
        nodes = {n.path: n for n in nodes_of(self.problem, tree)}
        leaves = [n for n in nodes.values() if n.path and n.tree is None]       # one per (node, side) pair
        if not leaves:
            return Result(tree, "delete")
        leaf = leaves[random.below(len(leaves))]
        node, side = nodes[leaf.path[:-1]], "LR".index(leaf.path[-1])
        new = replace_at(tree, node.path, node.tree[3 - side])
        ratio = -self.log_insert_ratio(new, tree, node._replace(tree=node.tree[3 - side]), side)
        visits = rows_of_rules(self.problem, node.tree, node.rows)
        return self.accept(tree, new, "delete", ratio, visits, random)

    def log_insert_ratio(self, small, large, node, side):
        """Log ratio of the move from ``small`` to ``large``: ``node``, as it is in ``small``, gets a new parent."""
        model, rows, depth = self.model, node.rows, node.depth
        subtree = next(n.tree for n in nodes_of(self.problem, large) if n.path == node.path)
        n_before, n_after = (sum(n.path != "" and n.tree is None for n in nodes_of(self.problem, tree))
                             for tree in (small, large))
        log_draw = math.log(model.rules(rows)[subtree[:2]]) - math.log(len(bfs(small)))
        if self.mutant != "side left out":
            log_draw -= math.log(2)
        if self.mutant == "pairs before the move":
            n_after = max(n_before, 1)
        ratio = model.log_joint(subtree, rows, depth) - model.log_joint(node.tree, rows, depth)
        if self.mutant == "depths not shifted":
            kept = model.divide(rows, *subtree[:2])[1 - side]
            ratio += model.log_joint(node.tree, kept, depth) - model.log_joint(node.tree, kept, depth + 1)
        return ratio - math.log(n_after) - log_draw
