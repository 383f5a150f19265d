"""A tree drawn: rules at inner nodes, values of the units of y at leaves."""

from __future__ import annotations

import numpy as np

from .axes import new_axes
from .trees import column_label

__all__ = ["tree"]


def _places(nodes):
    """(n_nodes,) x and depth: leaves side by side from left to right, parents above the middle of their children."""
    x, todo, n_leaves = np.full(len(nodes), np.nan), [0], 0
    while todo:
        at = todo.pop()
        if nodes["dim"][at] < 0:
            x[at] = n_leaves
            n_leaves += 1
        else:
            todo += [int(nodes["right"][at]), int(nodes["left"][at])]
    for at in range(len(nodes) - 1, -1, -1):
        if nodes["dim"][at] >= 0:
            x[at] = 0.5 * (x[nodes["left"][at]] + x[nodes["right"][at]])
    return x, nodes["depth"].astype(float)


def _rows_at(drawn, X):
    """How many rows pass each node."""
    counts = np.bincount(drawn.apply(X), minlength=len(drawn))
    for at in range(len(drawn) - 1, 0, -1):
        counts[drawn.nodes["parent"][at]] += counts[at]
    return counts


def tree(drawn, X=None, ax=None):
    """One tree: a rule at each inner node, yes to the left; at a leaf what it adds to f, in the units of y.

    Parameters
    ----------
    drawn : bart.trees.Tree
        As ``post.trees(chain, draw)[number]``.
    X : array-like, shape (n, n_dims), optional
        Rows, whose number at each node is then written there.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    Axes

    Notes
    -----
    Leaves are coloured by their values, orange above 0 and blue below.
    """
    nodes = drawn.nodes
    x, depth = _places(nodes)
    counts = None if X is None else _rows_at(drawn, X)
    if ax is None:
        size = (max(3.2, 1.25 * drawn.n_leaves + 0.6), max(1.4, 1.05 * drawn.depth + 1.2))
        ax = new_axes(size=size)[0, 0]
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("leaf", ["#0072B2", "#F7F7F7", "#E69F00"])
    largest = np.nanmax(np.abs(nodes["value"])) or 1.0
    for at, node in enumerate(nodes):
        for child, word in ((node["left"], "yes"), (node["right"], "no")) if node["dim"] >= 0 else ():
            ax.plot([x[at], x[child]], [-depth[at], -depth[child]], color="0.45", linewidth=1.1, zorder=1)
            if at == 0:
                box = {"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none"}
                middle = 0.5 * (x[at] + x[child]), -depth[at] - 0.5
                ax.text(*middle, word, fontsize=8, color="0.25", ha="center", va="center", bbox=box, zorder=2)
        if node["dim"] >= 0:
            text = f"{column_label(drawn.column_names, int(node['dim']))} ≤ {node['threshold']:.4g}"
            box = {"boxstyle": "round,pad=0.35", "fc": "white", "ec": "0.35", "lw": 0.9}
            colour = "black"
        else:
            text = f"{node['value']:+.4g}"
            share = 0.5 + 0.5 * node["value"] / largest
            box = {"boxstyle": "square,pad=0.35", "fc": colours(share), "ec": "0.35", "lw": 0.9}
            colour = "white" if share < 0.2 else "black"
        if counts is not None:
            text += f"\nn = {counts[at]}"
        ax.text(x[at], -depth[at], text, ha="center", va="center", fontsize=9, color=colour, bbox=box, zorder=3)
    ax.set_xlim(-0.6, x.max() + 0.6 if len(nodes) > 1 else 0.6)
    ax.set_ylim(-depth.max() - 0.45, 0.45)
    ax.set_axis_off()
    return ax
