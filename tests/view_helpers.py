"""Stored forests read slowly, node by node, for the tests of what a Posterior answers."""

import numpy as np


def walk(post, chain, draw, tree, burn=False):
    """All nodes of one stored tree as dicts, by recursion from its root; values in the units of y."""
    forests = (post.burn_forests if burn else post.forests)[chain]
    first = int(forests.starts[draw * post.header["n_trees"] + tree])

    def visit(at, depth, above):
        stored = forests.nodes[first + at]
        if stored["dim"] < 0:
            return [{"dim": -1, "depth": depth, "above": above, "value": stored["value"] * post.header["y_range"]}]
        dim, left = int(stored["dim"]), int(stored["left"])
        own = [{"dim": dim, "depth": depth, "above": above, "threshold": float(stored["value"])}]
        below = [*above, dim]
        return own + visit(left, depth + 1, below) + visit(left + 1, depth + 1, below)

    return visit(0, 0, [])


def evaluate(post, chain, draw, x):
    """f at one row by following each tree."""
    forests, n_trees = post.forests[chain], post.header["n_trees"]
    total = 0.0
    for tree in range(n_trees):
        first, at = int(forests.starts[draw * n_trees + tree]), 0
        while (node := forests.nodes[first + at])["dim"] >= 0:
            at = int(node["left"]) + (0 if x[node["dim"]] <= node["value"] else 1)
        total += node["value"]
    return post.header["y_mid"] + post.header["y_range"] * total


def all_draws(post, X, every=1):
    """(n_chains, n_draws, n) of f by `evaluate`."""
    draws = range(0, post.n_draws, every)
    return np.array([[[evaluate(post, c, s, x) for x in X] for s in draws] for c in range(post.n_chains)])
