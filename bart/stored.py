"""From stored forests, scaled and in the order of the sampler, to trees as a user sees them."""

from __future__ import annotations

import numpy as np

from .trees import TREE_DTYPE, Forest, Tree

__all__ = ["NODE_TABLE_DTYPE", "node_table", "parents_of", "stored_forest"]

NODE_TABLE_DTYPE = np.dtype(
    [("chain", "<i4"), ("draw", "<i4"), ("tree", "<i4"), ("node", "<i4"), *TREE_DTYPE.descr]
)


def parents_of(nodes, starts):
    """The parent of each stored node as its place among all nodes, -1 for roots.

    Parameters
    ----------
    nodes, starts : as in `bart.chain.Forests`

    Returns
    -------
    ndarray of int64, shape (n_nodes,)
    """
    first = np.repeat(starts[:-1], np.diff(starts))
    inner = np.flatnonzero(nodes["dim"] >= 0)
    left = first[inner] + nodes["left"][inner]
    parent = np.full(len(nodes), -1, dtype=np.int64)
    parent[left] = parent[left + 1] = inner
    return parent


def _user_nodes(nodes, starts, y_range):
    """Stored nodes as TREE_DTYPE with tree-wise numbers, each tree breadth first, so that parents come first."""
    parent = parents_of(nodes, starts)
    depth = np.zeros(len(nodes), dtype=np.int64)
    above = parent.copy()
    while (above >= 0).any():
        depth += above >= 0
        above = np.where(above >= 0, parent[above], -1)
    sizes = np.diff(starts)
    tree = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((np.arange(len(nodes)), depth, tree))
    place = np.empty(len(nodes), dtype=np.int64)
    place[order] = np.arange(len(nodes))
    first = np.repeat(starts[:-1], sizes)
    inner = nodes["dim"] >= 0
    left = np.where(inner, first + nodes["left"], 0)
    made = np.empty(len(nodes), dtype=TREE_DTYPE)
    made["parent"] = np.where(parent >= 0, place[parent] - first, -1)
    made["depth"] = depth
    made["dim"] = nodes["dim"]
    made["threshold"] = np.where(inner, nodes["value"], np.nan)
    made["left"] = np.where(inner, place[left] - first, -1)
    made["right"] = np.where(inner, place[np.where(inner, left + 1, 0)] - first, -1)
    made["value"] = np.where(inner, np.nan, nodes["value"] * y_range)
    return made[order]


def _trees_of_draw(forests, n_trees, draw):
    starts = forests.starts[draw * n_trees : (draw + 1) * n_trees + 1]
    return forests.nodes[starts[0] : starts[-1]], starts - starts[0]


def stored_forest(forests, header, draw):
    """One stored draw as a Forest.

    Parameters
    ----------
    forests : bart.chain.Forests
        Of one chain.
    header : dict
        `Posterior.header`.
    draw : int
        From 0.
    """
    names = header["column_names"]
    names = None if names is None else tuple(names)
    nodes, starts = _trees_of_draw(forests, header["n_trees"], draw)
    made = _user_nodes(nodes, starts, header["y_range"])
    trees = [Tree(made[a:b].copy(), names) for a, b in zip(starts[:-1], starts[1:], strict=True)]
    return Forest(trees, header["y_mid"], header["n_dims"], names)


def node_table(all_forests, header, every=1):
    """All nodes of all chains as one structured array of NODE_TABLE_DTYPE; see `Posterior.nodes`."""
    n_trees, parts = header["n_trees"], []
    for chain, forests in enumerate(all_forests):
        for draw in range(0, (len(forests.starts) - 1) // n_trees, every):
            nodes, starts = _trees_of_draw(forests, n_trees, draw)
            part = np.empty(len(nodes), dtype=NODE_TABLE_DTYPE)
            sizes = np.diff(starts)
            part["chain"], part["draw"], part["tree"] = chain, draw, np.repeat(np.arange(n_trees), sizes)
            part["node"] = np.arange(len(nodes)) - np.repeat(starts[:-1], sizes)
            made = _user_nodes(nodes, starts, header["y_range"])
            for name in TREE_DTYPE.names:
                part[name] = made[name]
            parts.append(part)
    return np.concatenate(parts) if parts else np.empty(0, dtype=NODE_TABLE_DTYPE)
