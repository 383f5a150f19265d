"""Slow, independent model of one tree on a tiny problem, by enumeration.

Nothing here is imported from the package under test. A tree is a nested tuple: a leaf is ``None``, an
internal node ``(dim, code, left, right)``; a row goes left when its code is at most ``code``. Codes are
ranks among the distinct values of a whole column, so a code also names the gap above that value.

Two state spaces are offered. *Unlumped*: every (dim, code) is a state of its own, as in the samplers.
*Lumped*: codes that no row of the node separates are one rule, represented by the smallest of them.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np


# ---------------------------------------------------------------- nested tuples
def n_leaves(tree):
    """Number of leaves of a nested-tuple tree."""
    return 1 if tree is None else n_leaves(tree[2]) + n_leaves(tree[3])


def depth_of(tree):
    """Depth of the deepest leaf; a lone root has depth 0."""
    return 0 if tree is None else 1 + max(depth_of(tree[2]), depth_of(tree[3]))


def bfs(tree):
    """Subtrees in breadth-first order, as ``(path, subtree)``; a path is a string of ``L`` and ``R``."""
    queue, order = [("", tree)], []
    while queue:
        path, node = queue.pop(0)
        order.append((path, node))
        if node is not None:
            queue.append((path + "L", node[2]))
            queue.append((path + "R", node[3]))
    return order


def replace_at(tree, path, subtree):
    """Copy of ``tree`` with the node at ``path`` replaced by ``subtree``."""
    if path == "":
        return subtree
    dim, code, left, right = tree
    if path[0] == "L":
        return (dim, code, replace_at(left, path[1:], subtree), right)
    return (dim, code, left, replace_at(right, path[1:], subtree))


# ---------------------------------------------------------------- the model
class Problem:
    """One tree with Gaussian leaves on a handful of rows.

    Parameters
    ----------
    X : array (N, D)
        Covariates.
    target : array (N,)
        What the tree explains.
    sigma2, leaf_var, leaf_mean : float
        Noise variance, and variance and mean of a leaf value.
    alpha, beta : float
        A node at depth d splits with probability ``alpha (1 + d)^-beta`` if it can.
    cuts : {"width", "grid", "quantile"}
        Law of the location: by width of the gap, or by the number of grid points inside it.
    n_cuts : int
        Grid points per dimension: equally spaced strictly inside its range, or ("quantile") one in each of so many
        gaps, spread evenly over them.
    dim_weights : sequence (D,), optional
        Weight of each dimension in the draw of a rule; equal by default.
    weights : sequence (N,), optional
        The noise variance of row n is ``sigma2 / weights[n]``; 1 by default.
    """

    def __init__(self, X, target, sigma2, leaf_var, leaf_mean=0.0, alpha=0.95, beta=2.0, cuts="width",
                 n_cuts=100, dim_weights=None, weights=None):
        self.X = np.array(X, dtype=float)
        self.target = np.array(target, dtype=float)
        self.sigma2, self.leaf_var, self.leaf_mean = float(sigma2), float(leaf_var), float(leaf_mean)
        self.alpha, self.beta, self.cuts, self.n_cuts = float(alpha), float(beta), cuts, n_cuts
        self.n_rows, self.n_dims = self.X.shape
        self.dim_weights = [1.0] * self.n_dims if dim_weights is None else [float(w) for w in dim_weights]
        self.weights = None if weights is None else [float(w) for w in weights]
        self.values = [sorted(set(self.X[:, d].tolist())) for d in range(self.n_dims)]
        self.codes = [[self.values[d].index(x) for x in self.X[:, d].tolist()] for d in range(self.n_dims)]
        self.cumulative = [self._cumulative(v) for v in self.values]
        self.all_rows = tuple(range(self.n_rows))
        self.rules = cache(self._rules)
        self.valid_dims = cache(self._valid_dims)
        self.log_likelihood = cache(self._log_likelihood)

    def _cumulative(self, values):
        """Mass of the location's law strictly below each distinct value of a column."""
        if self.cuts == "width":
            return list(values)
        if self.cuts == "quantile":
            n_gaps = len(values) - 1
            n = min(self.n_cuts, n_gaps)
            gaps = [math.floor((i + 0.5) * n_gaps / n) for i in range(n)]
            return [float(sum(gap < c for gap in gaps)) for c in range(len(values))]
        low, high = values[0], values[-1]
        grid = [low + (high - low) * k / (self.n_cuts + 1) for k in range(1, self.n_cuts + 1)]
        return [sum(1.0 for c in grid if c < v) if high > low else 0.0 for v in values]

    # ------------------------------------------------------------ rows of a node
    def divide(self, rows, dim, code):
        """Rows that go left and rows that go right."""
        left = tuple(n for n in rows if self.codes[dim][n] <= code)
        return left, tuple(n for n in rows if self.codes[dim][n] > code)

    def code_range(self, rows, dim):
        """Smallest and largest code of the rows in a dimension."""
        codes = [self.codes[dim][n] for n in rows]
        return min(codes), max(codes)

    def range_mass(self, rows, dim):
        """Mass of the location's law inside the rows' range; 0 exactly when the dimension is invalid."""
        low, high = self.code_range(rows, dim)
        return self.cumulative[dim][high] - self.cumulative[dim][low]

    def _valid_dims(self, rows):
        """Dimensions in which the rows can be split, ascending."""
        return [d for d in range(self.n_dims) if self.dim_weights[d] > 0 and self.range_mass(rows, d) > 0]

    def can_split(self, rows):
        """Whether the rows admit any rule."""
        return len(self.valid_dims(rows)) > 0

    def _rules(self, rows):
        """Prior of the rule given a split: dict of (dim, code) -> probability, zero masses left out."""
        valid = self.valid_dims(rows)
        total = sum(self.dim_weights[d] for d in valid)
        out = {}
        for d in valid:
            low, high = self.code_range(rows, d)
            mass = self.range_mass(rows, d)
            for g in range(low, high):
                gap = self.cumulative[d][g + 1] - self.cumulative[d][g]
                if gap > 0:
                    out[d, g] = self.dim_weights[d] / total * gap / mass
        return out

    def lumped_rules(self, rows):
        """As :meth:`rules`, codes with the same partition of the rows summed on the smallest code."""
        out, representative = {}, {}
        for (d, g), p in self.rules(rows).items():
            key = representative.setdefault((d, self.divide(rows, d, g)), (d, g))
            out[key] = out.get(key, 0.0) + p
        return out

    def split_probability(self, rows, depth):
        """``alpha (1 + d)^-beta``, or 0 where no rule exists."""
        return self.alpha * (1.0 + depth) ** -self.beta if self.can_split(rows) else 0.0

    # ------------------------------------------------------------ likelihood
    def _log_likelihood(self, rows):
        """Log of the integral over a leaf value of the Gaussian likelihood of the rows' targets."""
        total, weight = self.weighed(rows)
        precision = [self.weight(n) / self.sigma2 for n in rows]
        r = [float(self.target[n]) - self.leaf_mean for n in rows]
        v = self.sigma2 + weight * self.leaf_var
        return (0.5 * sum(math.log(p / (2 * math.pi)) for p in precision) + 0.5 * math.log(self.sigma2 / v)
                - 0.5 * sum(p * x * x for p, x in zip(precision, r, strict=True))
                + self.leaf_var * total * total / (2 * self.sigma2 * v))

    def weight(self, row):
        """Weight of a row."""
        return 1.0 if self.weights is None else self.weights[row]

    def weighed(self, rows):
        """Sum over the rows of weight (target - leaf_mean), and of their weights."""
        return (sum(self.weight(n) * (float(self.target[n]) - self.leaf_mean) for n in rows),
                sum(self.weight(n) for n in rows))

    def leaf_posterior_mean(self, rows):
        """Posterior mean of the value of a leaf that holds the rows."""
        total, weight = self.weighed(rows)
        return self.leaf_mean + self.leaf_var * total / (self.sigma2 + weight * self.leaf_var)

    def leaves(self, tree, rows=None, depth=0):
        """Rows and depth of each leaf, left to right."""
        rows = self.all_rows if rows is None else rows
        if tree is None:
            return [(rows, depth)]
        left, right = self.divide(rows, tree[0], tree[1])
        return self.leaves(tree[2], left, depth + 1) + self.leaves(tree[3], right, depth + 1)

    def log_joint(self, tree, rows=None, depth=0):
        """Log prior plus log likelihood of a subtree over the rows; -inf outside the prior's support."""
        rows = self.all_rows if rows is None else rows
        p_split = self.split_probability(rows, depth)
        if tree is None:
            return math.log1p(-p_split) + self.log_likelihood(rows)
        dim, code, left, right = tree
        p_rule = self.rules(rows).get((dim, code), 0.0)
        if p_rule == 0.0:
            return -math.inf
        rows_left, rows_right = self.divide(rows, dim, code)
        return (math.log(p_split) + math.log(p_rule) + self.log_joint(left, rows_left, depth + 1)
                + self.log_joint(right, rows_right, depth + 1))

    # ------------------------------------------------------------ enumeration
    def enumerate(self, lumped=False):
        """Every tree of the state space with its log joint: list of (tree, log joint).

        The tree alone names the state; lumped, it carries representative codes and their summed mass.
        """
        rules = self.lumped_rules if lumped else self.rules

        @cache
        def subtrees(rows, depth):
            p_split = self.split_probability(rows, depth)
            out = [(None, math.log1p(-p_split) + self.log_likelihood(rows))]
            for (d, g), p in rules(rows).items():
                rows_left, rows_right = self.divide(rows, d, g)
                for left, log_left in subtrees(rows_left, depth + 1):
                    for right, log_right in subtrees(rows_right, depth + 1):
                        log_node = math.log(p_split) + math.log(p)
                        out.append(((d, g, left, right), log_node + log_left + log_right))
            return out

        return subtrees(self.all_rows, 0)

    def posterior(self, lumped=False):
        """Exact posterior over the enumerated trees."""
        return Posterior(self, self.enumerate(lumped))


class Posterior:
    """Exact law over enumerated trees.

    Attributes
    ----------
    trees : list
        The states.
    p : array (n_trees,)
        Their posterior probabilities.
    log_evidence : float
        Log of the marginal density of the target.
    """

    def __init__(self, problem, states):
        self.problem = problem
        self.trees = [tree for tree, _ in states]
        logs = np.array([value for _, value in states])
        top = logs.max()
        weights = np.exp(logs - top)
        self.log_evidence = float(top + math.log(weights.sum()))
        self.p = weights / weights.sum()
        self.index = {tree: i for i, tree in enumerate(self.trees)}

    @property
    def n_trees(self):
        """Number of states."""
        return len(self.trees)

    def p_n_leaves(self):
        """Law of the number of leaves: array (N,), entry k - 1 for k leaves."""
        out = np.zeros(self.problem.n_rows)
        for tree, p in zip(self.trees, self.p, strict=True):
            out[n_leaves(tree) - 1] += p
        return out

    def root_law(self):
        """Law of the root's decision: dict of ``"stop"`` or (dim, code) -> probability."""
        out = {}
        for tree, p in zip(self.trees, self.p, strict=True):
            key = "stop" if tree is None else tree[:2]
            out[key] = out.get(key, 0.0) + p
        return out

    def mean_f(self):
        """Posterior mean of the tree's value at each row: array (N,)."""
        out = np.zeros(self.problem.n_rows)
        for tree, p in zip(self.trees, self.p, strict=True):
            for rows, _ in self.problem.leaves(tree):
                out[list(rows)] += p * self.problem.leaf_posterior_mean(rows)
        return out
