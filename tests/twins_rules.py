"""Slow twins of perturb, rotate, splice and reroute, as those of :mod:`twins`: readable references of the kernels.

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
    "Reroute": ("masses of the cells left out", "places counted after it", "internal nodes not counted",
                "coin left out"),
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

    def log_rule(self, rows, rule):
        """Log prior of a rule given the rows of its node."""
        return math.log(self.model.rules(rows)[rule[:2]])


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
        log_rules = (self.log_rule(parent.rows, subtree) + self.log_rule(inner_rows, inner)
                     - self.log_rule(parent.rows, parent.tree) - self.log_rule(child.rows, child.tree))
        ratio = {"always accepted": math.inf, "depths left out": log_rules,
                 "rules left out": ratio - log_rules}.get(self.mutant, ratio)
        visits = len(parent.rows) + len(child.rows) + len(inner_rows)
        return self.accept(tree, replace_at(tree, parent.path, subtree), "rotate", ratio, visits, random)


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


class Reroute(RuleMove):
    """A cut passes a few rows, and the leaf that they empty goes, or one comes for them."""

    MOST = 8

    def step(self, tree, random):
        """One step from a nested-tuple tree."""
        problem = self.problem
        internal = [n for n in nodes_of(problem, tree) if n.tree is not None]
        if not internal:
            return Result(tree, "shift")
        top = internal[random.below(len(internal))]
        rises, r = random.below(2), 1
        while r < self.MOST and random.below(2):
            r += 1
        dim, old = top.tree[:2]
        codes = {row: problem.codes[dim][row] for row in top.rows}
        ahead = sorted({c for c in codes.values() if (c > old) == bool(rises)}, reverse=not rises)
        behind = [c for c in codes.values() if (c > old) != bool(rises)]
        if len(ahead) <= r:
            return Result(tree, "shift")
        new_cell = sorted(ahead[r - 1:r + 1])
        old_cell = (max(behind), ahead[0]) if rises else (ahead[0], min(behind))
        masses = [self.mass(dim, c, c + 1) for c in range(*new_cell)]
        if sum(masses) == 0:
            return Result(tree, "shift")
        code = new_cell[0] + random.choice([mass / sum(masses) for mass in masses])
        moved = {row for row in top.rows if (codes[row] > old) != (codes[row] > code)}
        log_cells = math.log(sum(masses)) - math.log(self.mass(dim, *old_cell))
        if self.mutant == "masses of the cells left out":
            log_cells = 0.0
        recoded = (dim, code, *top.tree[2:])
        sides = ("RL", "LR")[not rises]                     # rows leave the first for the second
        emptied = [n for n in nodes_of(problem, tree) if n.tree is None and n.path.startswith(top.path + sides[0])
                   and moved.issuperset(n.rows)]
        if len(emptied) > 1:
            return Result(tree, "shift")
        visits = rows_of_rules(problem, top.tree, top.rows)
        if emptied:
            return self.absorb(tree, top, recoded, emptied[0], log_cells, visits, random)
        if random.below(2):
            return self.shed(tree, top, recoded, sides[1], moved, log_cells, visits, random)
        return self.decide("shift", tree, top, recoded, log_cells, visits, random)

    def absorb(self, tree, top, recoded, leaf, log_cells, visits, random):
        """The leaf goes with its parent."""
        place = leaf.path[len(top.path):-1]
        parent = next(n.tree for n in nodes_of(self.problem, tree) if n.path == leaf.path[:-1])
        subtree = replace_at(recoded, place, parent[2 if leaf.path[-1] == "R" else 3])
        rows = self.rows_at(top.tree, top.rows, place)
        ways = self.log_ways(subtree, tree, place[0], self.log_rule(rows, parent))
        return self.decide("absorb", tree, top, subtree, log_cells - ways, visits, random)

    def shed(self, tree, top, recoded, side, moved, log_cells, visits, random):
        """A node comes at a place where rows arrive."""
        places = [path for path, _ in bfs(recoded) if path.startswith(side)]
        place = places[random.below(len(places))]
        rows = self.rows_at(recoded, top.rows, place)
        rule = draw_rule(self.problem, rows, random)
        if rule is None:
            return Result(tree, "shed")
        parts = self.problem.divide(rows, *rule)
        free = [k for k in range(2) if moved.issuperset(parts[k])]
        if not free:
            return Result(tree, "shed", row_visits=len(rows))
        kept = dict(bfs(recoded))[place]
        subtree = replace_at(recoded, place, (*rule, None, kept) if free[0] == 0 else (*rule, kept, None))
        ways = self.log_ways(recoded, replace_at(tree, top.path, subtree), side, self.log_rule(rows, rule))
        return self.decide("shed", tree, top, subtree, log_cells + ways, len(rows) + visits, random)

    def decide(self, move, tree, top, subtree, log_draws, visits, random):
        """Accept or not; the code at the top comes by its prior within a cell, so that this cancels."""
        rows, depth = top.rows, top.depth
        ratio = self.model.log_joint(subtree, rows, depth) - self.model.log_joint(top.tree, rows, depth)
        ratio += self.log_rule(rows, top.tree) - self.log_rule(rows, subtree)
        return self.accept(tree, replace_at(tree, top.path, subtree), move, ratio + log_draws, visits, random)

    def log_ways(self, small, large, side, log_rule):
        """Log of the draws that undo a shed over those that make it: ``small`` without the new node, ``large`` with it.

        ``small`` is the subtree whose cut moves, ``large`` the whole tree.
        """
        n_internal = sum(node is not None for _, node in bfs(large))
        n_places = sum(path.startswith(side) for path, _ in bfs(small))
        if self.mutant == "places counted after it":
            n_places += 2
        ways = math.log(2 * n_places) - log_rule
        if self.mutant != "internal nodes not counted":
            ways += math.log(n_internal - 1) - math.log(n_internal)
        return ways - (math.log(2) if self.mutant == "coin left out" else 0.0)

    def mass(self, dim, low, high):
        """Prior mass of a column's codes."""
        return self.problem.cumulative[dim][high] - self.problem.cumulative[dim][low]

    def rows_at(self, subtree, rows, path):
        """The rows that arrive at a node below."""
        for turn in path:
            rows, subtree = self.problem.divide(rows, *subtree[:2])["LR".index(turn)], subtree[2 + "LR".index(turn)]
        return rows
