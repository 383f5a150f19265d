"""Exact posterior of one tree under a Dirichlet prior of the split probabilities and a chi prior of k."""

import math

import numpy as np
from oracle import Problem
from scipy.special import betaln, logsumexp, roots_jacobi

# Events less probable than this have too few visits for a z-score.
RARE = 0.01


def rules_of(problem, tree, rows=None):
    """(dim, valid dims) of each internal node."""
    rows = problem.all_rows if rows is None else rows
    if tree is None:
        return []
    left, right = problem.divide(rows, tree[0], tree[1])
    return [(tree[0], tuple(problem.valid_dims(rows))), *rules_of(problem, tree[2], left),
            *rules_of(problem, tree[3], right)]


def beta_nodes(a, b, n):
    """Nodes in (0, 1) and weights of the mean under Beta(a, b)."""
    x, w = roots_jacobi(n, b - 1.0, a - 1.0)
    return 0.5 * (1.0 + x), w / w.sum()


def simplex_nodes(n_dims, theta, n):
    """(K, n_dims) points and (K,) weights of the mean under Dirichlet(theta / n_dims), for 2 or 3 dimensions."""
    a = theta / n_dims
    x, w = beta_nodes(a, a * (n_dims - 1), n)
    if n_dims == 2:
        return np.stack([x, 1.0 - x], axis=1), w
    y, v = beta_nodes(a, a, n)
    points = np.stack(np.broadcast_arrays(x[:, None], (1 - x)[:, None] * y, (1 - x)[:, None] * (1 - y)), axis=-1)
    return points.reshape(-1, 3), np.outer(w, v).ravel()


def split_moments(rules, n_dims, thetas, n=40):
    """For each theta: log E[p(dims of the rules | s)], and E of s_0 and s_0^2 times that, relative to it."""
    found = []
    for theta in thetas:
        if n_dims == 2:                         # a node that can split one column alone says nothing
            full = [dim for dim, valid in rules if len(valid) == 2]
            a, n0 = theta / 2, full.count(0)
            total, b = len(full), 2 * (theta / 2)
            log_p = betaln(a + n0, a + total - n0) - betaln(a, a)
            first = (a + n0) / (b + total)
            found.append((log_p, first, first * (a + n0 + 1) / (b + total + 1)))
            continue
        s, w = simplex_nodes(n_dims, theta, n)
        p = w * np.prod([s[:, dim] / s[:, list(valid)].sum(axis=1) for dim, valid in rules], axis=0)
        found.append((math.log(p.sum()), *(float((p * s[:, 0] ** k).sum() / p.sum()) for k in (1, 2))))
    return np.array(found)


def exact_means(X, y, sigma2, leaf_mean, thetas, k_prior=None, c=1.0, leaf_var=None, alpha=0.95, beta=0.3, n=40):
    """Posterior means of what a chain records: trees, s_0, s_0^2, theta / (1 + theta) and, where it has a prior, k.

    Returns
    -------
    dict of float
    """
    if k_prior is None:
        k, log_prior, leaf_vars = np.ones(1), np.zeros(1), [leaf_var]
    else:
        log_k = np.linspace(-6.0, 3.0, 301) + math.log(k_prior.scale)
        k = np.exp(log_k)
        log_prior = k_prior.degrees * log_k - 0.5 * (k / k_prior.scale) ** 2        # of log k
        leaf_vars = c / k**2
    n_dims = np.shape(X)[1]
    logs, by_rules, trees = [], {}, None
    for variance, log_p in zip(leaf_vars, log_prior, strict=True):
        problem = Problem(X, y, sigma2, variance, leaf_mean, alpha=alpha, beta=beta)
        states = problem.enumerate()
        trees = [tree for tree, _ in states]
        logs.append(log_p + np.array([value for _, value in states]))
    logs = np.array(logs)                                           # (k, tree)
    of_tree = []
    for tree in trees:
        rules = rules_of(problem, tree)
        key = tuple(sorted(rules))
        if key not in by_rules:
            moments = split_moments(rules, n_dims, thetas, n)
            # The oracle has the columns equally probable.
            by_rules[key] = moments, sum(math.log(len(valid)) for _, valid in rules)
        of_tree.append(by_rules[key])
    moments = np.array([found for found, _ in of_tree])             # (tree, theta, 3)
    log_s = np.array([more for _, more in of_tree])[:, None] + moments[:, :, 0]
    joint = logs[:, :, None] + log_s[None]                          # (k, tree, theta)
    p = np.exp(joint - logsumexp(joint))
    of_theta = p.sum(axis=0)
    exact = {"s": float((of_theta * moments[:, :, 1]).sum()), "s2": float((of_theta * moments[:, :, 2]).sum())}
    if len(thetas) > 1:
        exact["theta"] = float(of_theta.sum(axis=0) @ (thetas / (1 + thetas)))
    if k_prior is not None:
        of_k = p.sum(axis=(1, 2))
        exact |= {"k": float(of_k @ k), "k2": float(of_k @ k**2)}
    for tree, mass in zip(trees, p.sum(axis=(0, 2)), strict=True):
        name = f"tree {tree}" if mass >= RARE else "rare trees"
        exact[name] = exact.get(name, 0.0) + float(mass)
    return exact
