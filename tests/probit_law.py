"""Exact posterior of probit on tiny problems: trees by enumeration, leaf values by quadrature."""

import itertools
import math

import numpy as np
from oracle import Problem
from scipy.special import log_ndtr, logsumexp, ndtr, roots_hermitenorm

# Events less probable than this have too few visits for a z-score.
RARE = 0.01
N_NODES = {1: 120, 2: 60, 3: 40, 4: 24}


class ProbitProblem(Problem):
    """One tree, P(y = 1) = Phi(offset + leaf value).

    Parameters
    ----------
    X, y
        y is 0 or 1.
    offset : float or (n_rows,) array_like
    leaf_var, leaf_mean, **tree
        As in Problem.
    """

    def __init__(self, X, y, offset, leaf_var, leaf_mean=0.0, **tree):
        super().__init__(X, y, 1.0, leaf_var, leaf_mean, **tree)
        self.offset, self.sign = offset, 2.0 * self.target - 1.0
        self._column = np.broadcast_to(offset, self.n_rows)[:, None]
        self._laws = {}

    def _log_likelihood(self, rows):
        """Of the rows in one leaf, integrated over its value."""
        values, log_weights = nodes(1)
        f = self._column[list(rows)] + self.leaf_mean + math.sqrt(self.leaf_var) * values[0]
        return float(logsumexp(log_weights + log_ndtr(self.sign[list(rows), None] * f).sum(axis=0)))

    def log_prior(self, tree):
        """Log prior probability of a tree."""
        return self.log_joint(tree) - sum(self.log_likelihood(rows) for rows, _ in self.leaves(tree))

    def law_of_f(self, forest):
        """Log evidence of a forest, and the posterior means given it of offset + f and of P(y = 1), by row.

        f at the rows is normal a priori, its covariance leaf_var times the numbers of trees that hold two rows in one
        leaf; quadrature in the space of its rank.
        """
        shared = sum(self._same_leaf(tree) for tree in forest)
        key = shared.tobytes()
        if key not in self._laws:
            size, axes = np.linalg.eigh(self.leaf_var * shared)
            kept = size > 1e-12 * size.max()
            values, log_weights = nodes(int(kept.sum()))
            f = self._column + len(forest) * self.leaf_mean + (axes[:, kept] * np.sqrt(size[kept])) @ values
            terms = log_weights + log_ndtr(self.sign[:, None] * f).sum(axis=0)
            total = logsumexp(terms)
            weights = np.exp(terms - total)
            self._laws[key] = float(total), f @ weights, ndtr(f) @ weights
        return self._laws[key]

    def _same_leaf(self, tree):
        same = np.zeros((self.n_rows, self.n_rows))
        for rows, _ in self.leaves(tree):
            same[np.ix_(rows, rows)] = 1.0
        return same


def nodes(dim):
    """Gauss-Hermite for dim independent standard normals: values (dim, K) and log weights (K,)."""
    values, weights = roots_hermitenorm(N_NODES[dim])
    log_weights = np.log(weights) - 0.5 * math.log(2 * math.pi)
    grid = np.array(np.meshgrid(*[values] * dim)).reshape(dim, -1)
    return grid, sum(np.meshgrid(*[log_weights] * dim)).ravel()


def exact_means(problem, n_trees):
    """Posterior means of what a run records: the first tree, rare ones pooled, and by row offset + f and P(y = 1).

    Returns
    -------
    dict of float
    """
    trees = [tree for tree, _ in problem.enumerate()]
    log_prior = {tree: problem.log_prior(tree) for tree in trees}
    forests = list(itertools.product(trees, repeat=n_trees))
    laws = [problem.law_of_f(forest) for forest in forests]
    logs = np.array([law[0] + sum(log_prior[tree] for tree in forest)
                     for law, forest in zip(laws, forests, strict=True)])
    p = np.exp(logs - logsumexp(logs))
    f, probability = (sum(w * law[k] for w, law in zip(p, laws, strict=True)) for k in (1, 2))
    exact = {f"f[{n}]": f[n] for n in range(problem.n_rows)}
    exact |= {f"p[{n}]": probability[n] for n in range(problem.n_rows)}
    for tree in trees:
        mass = float(sum(w for w, forest in zip(p, forests, strict=True) if forest[0] == tree))
        name = f"tree {tree}" if mass >= RARE else "rare trees"
        exact[name] = exact.get(name, 0.0) + mass
    return exact
