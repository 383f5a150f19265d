"""Slow twin of slide: the cut of a node among its neighbours, given the leaf values and all other trees.

Leaf values are a dict by path, as the shape of a tree stays; the residual is that of all trees.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from oracle import bfs, depth_of, replace_at
from twins import log

MOST_CUTS, DEEPEST = 64, 12
MUTANTS = ("window begins at the cut", "prior below left out", "gap masses left out", "row weights left out",
           "first leaf of the other side")


class At(NamedTuple):
    """A node as one slide sees it."""

    subtree: object
    depth: int
    rows: np.ndarray
    codes: np.ndarray       # of the rows, in the column of the rule
    grid: list              # codes of the cuts with mass
    k: int                  # the place of the rule's code among them
    gain: np.ndarray        # of each row: by how much its w r^2 grows where it changes sides
    shift: np.ndarray       # of each row: by how much its residual does


class Slide:
    """One slide of every cut of every tree.

    Parameters
    ----------
    problem : Problem
        Its target is not used.
    n_gaps, n_rows : int
    temperature : float
    mutant : str, optional
    """

    def __init__(self, problem, n_gaps=16, n_rows=64, temperature=1.0, mutant=None):
        self.problem, self.n_gaps, self.n_rows, self.mutant = problem, n_gaps, n_rows, mutant
        self.temperature, self.precision = temperature, temperature / problem.sigma2
        self.codes = np.array(problem.codes)
        weighted = problem.weights is not None and mutant != "row weights left out"
        self.weights = np.array(problem.weights if weighted else [1.0] * problem.n_rows)

    def sweep(self, trees, values, residual, random):
        """All trees in their order; returns them and the residual."""
        out = []
        for old, of_tree in zip(trees, values, strict=True):
            out.append(old)
            for path, node in bfs(old):
                if node is not None and len(path) + depth_of(node) <= DEEPEST:
                    out[-1], residual = self.slide(out[-1], of_tree, residual, path, random)
        return out, residual

    def slide(self, tree, values, residual, path, random):
        """One node; returns the tree and the residual."""
        at = self.look(tree, values, residual, path)
        first = at.k - random.below(self.width(len(at.grid)))
        if self.mutant == "window begins at the cut":
            first = at.k
        window, p = self.proposal(at, first)
        j = window[random.choice(p)]
        if j == at.k:
            return tree, residual
        accepted = self.ratio(at, j)
        if random.choice([accepted, 1.0 - accepted]) == 1:
            return tree, residual
        moved = at.rows[self.between(at, j)]
        residual = residual.copy()
        residual[moved] += at.shift[self.between(at, j)]
        return replace_at(tree, path, self.cut(at, j)), residual

    def row(self, tree, values, residual, path):
        """The exact law of the node's next cut: (codes of the cuts with mass, probabilities)."""
        at = self.look(tree, values, residual, path)
        w = self.width(len(at.grid))
        firsts = [at.k] * w if self.mutant == "window begins at the cut" else range(at.k - w + 1, at.k + 1)
        proposed = np.zeros(len(at.grid))
        for first in firsts:
            window, p = self.proposal(at, first)
            proposed[window] += np.array(p) / w
        law = np.array([p * self.ratio(at, j) if p > 0 else 0.0 for j, p in enumerate(proposed)])
        law[at.k] += (proposed - law).sum()
        return at.grid, law

    def width(self, n):
        """Cuts of a window among n; of the data alone."""
        n_rows = self.problem.n_rows
        wanted = min(MOST_CUTS, max(self.n_gaps, self.n_rows * n // n_rows))
        return min(wanted, max(2, 1000 * n // n_rows))

    def look(self, tree, values, residual, path):
        """What a slide of the node at a path needs to know."""
        rows, node = np.arange(self.problem.n_rows), tree
        for side in path:
            left = self.codes[node[0], rows] <= node[1]
            rows, node = (rows[left], node[2]) if side == "L" else (rows[~left], node[3])
        dim, code, *below = node
        codes, cumulative = self.codes[dim, rows], self.problem.cumulative[dim]
        grid = [c for c in range(len(cumulative) - 1) if cumulative[c + 1] > cumulative[c]]
        left = codes <= code
        sides = [self.fit(part, path + side, values, rows) for part, side in zip(below, "LR", strict=True)]
        shift = np.where(left, sides[0] - sides[1], sides[1] - sides[0])
        fall = shift
        if self.mutant == "first leaf of the other side":
            lone = [values[first_leaf(part, path + side)] for part, side in zip(below, "LR", strict=True)]
            fall = np.where(left, sides[0] - lone[1], sides[1] - lone[0])
        r = residual[rows]
        gain = self.weights[rows] * ((r + fall) ** 2 - r**2)
        return At(node, len(path), rows, codes, grid, grid.index(code), gain, shift)

    def fit(self, tree, path, values, rows):
        """The values of the leaves that a subtree sends the rows to."""
        if tree is None:
            return np.full(len(rows), values[path])
        out, left = np.empty(len(rows)), self.codes[tree[0], rows] <= tree[1]
        out[left] = self.fit(tree[2], path + "L", values, rows[left])
        out[~left] = self.fit(tree[3], path + "R", values, rows[~left])
        return out

    def between(self, at, j):
        """Which rows change sides where the cut moves to the j-th."""
        low, high = sorted((at.grid[at.k], at.grid[j]))
        return (low < at.codes) & (at.codes <= high)

    def cut(self, at, j):
        """The subtree with the j-th cut."""
        return at.subtree[0], at.grid[j], *at.subtree[2:]

    def proposal(self, at, first):
        """Places of a window's cuts, ascending, and their probabilities: mass times likelihood."""
        last = min(first + self.width(len(at.grid)), len(at.grid))
        window, logs = list(range(max(first, 0), last)), []
        mass = self.problem.cumulative[at.subtree[0]]
        for j in window:
            code = at.grid[j]
            if not (at.codes <= code).any() or not (at.codes > code).any():
                logs.append(-math.inf)
                continue
            prior = 0.0 if self.mutant == "gap masses left out" else math.log(mass[code + 1] - mass[code])
            logs.append(prior - 0.5 * self.precision * at.gain[self.between(at, j)].sum())
        top = max(logs)
        weights = [math.exp(value - top) for value in logs]
        total = math.fsum(weights)
        return window, [weight / total for weight in weights]

    def ratio(self, at, j):
        """min(1, rho): the prior of what hangs below the node, after over before."""
        after = self.log_below(self.cut(at, j), at.rows, at.depth, own=False)
        if self.mutant == "prior below left out" and after > -math.inf:
            return 1.0
        return math.exp(min(0.0, after - self.log_below(at.subtree, at.rows, at.depth, own=False)))

    def log_below(self, tree, rows, depth, own=True):
        """Log prior of a subtree's rules and leaves given its rows; that of its own rule with `own`."""
        if len(rows) == 0:
            return -math.inf
        if tree is None:
            can_split = bool(self.masses(rows))
            return math.log1p(-self.problem.alpha * (1.0 + depth) ** -self.problem.beta) if can_split else 0.0
        left = self.codes[tree[0], rows] <= tree[1]
        total = self.log_rule(tree[0], tree[1], rows) if own else 0.0
        for part, of_part in zip(tree[2:], (rows[left], rows[~left]), strict=True):
            total += self.log_below(part, of_part, depth + 1) if total > -math.inf else 0.0
        return total

    def masses(self, rows):
        """Mass of the rows' range in each column where they can be split."""
        found = {}
        for dim, cumulative in enumerate(self.problem.cumulative):
            mass = cumulative[self.codes[dim, rows].max()] - cumulative[self.codes[dim, rows].min()]
            if mass > 0 and self.problem.dim_weights[dim] > 0:
                found[dim] = mass
        return found

    def log_rule(self, dim, code, rows):
        """Log prior of a rule given its node's rows."""
        if not self.codes[dim, rows].min() <= code < self.codes[dim, rows].max():
            return -math.inf
        masses, cumulative = self.masses(rows), self.problem.cumulative[dim]
        weights = self.problem.dim_weights
        share = weights[dim] / sum(weights[d] for d in masses)
        return log(share) + log((cumulative[code + 1] - cumulative[code]) / masses[dim])


def first_leaf(tree, path):
    """Path of the leaf furthest left."""
    return path if tree is None else first_leaf(tree[2], path + "L")


def read(state):
    """(structure, leaf values by path, leaf numbers by path) of a compiled tree."""
    nodes, waiting, values, numbers = state.dump(), [(0, "")], {}, {}
    for i, path in waiting:
        left = int(nodes[i]["left"])
        if left >= 0:
            waiting += [(left, path + "L"), (left + 1, path + "R")]
        else:
            values[path], numbers[path] = float(nodes[i]["value"]), int(nodes[i]["leaf"])
    return state.structure, values, numbers
