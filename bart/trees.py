"""Stored trees as a user sees them: thresholds in the units of x, leaf values in the units of y; text and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import numpy as np

from .data import check_rows
from .inputs import as_matrix, check_count

__all__ = ["TREE_DTYPE", "Forest", "Tree", "column_label"]

TREE_DTYPE = np.dtype(
    [("parent", "<i4"), ("depth", "<i4"), ("dim", "<i4"), ("threshold", "<f8"), ("left", "<i4"), ("right", "<i4"),
     ("value", "<f8")]
)  # fmt: skip
_FORMAT = "bart forest"
_VERSION = 1


def column_label(column_names, dim):
    """How a column is called: its name in the training frame, else "x" and its number from 0."""
    return f"x{dim}" if column_names is None else column_names[dim]


class Tree:
    """One tree of a forest.

    Parameters
    ----------
    nodes : structured array, shape (n_nodes,), dtype TREE_DTYPE
        Node 0 is the root; parents come before their children. An internal node sends ``x[dim] <= threshold`` to
        node ``left``, else to ``right``, and its value is NaN; a leaf has dim, left and right -1, and
        threshold NaN. The root's parent is -1. Thresholds are in the units of x, values in those of y.
    column_names : tuple of str or None

    Attributes
    ----------
    n_leaves, depth : int
        Number of leaves; the largest depth of one (0 for a stump).
    """

    def __init__(self, nodes, column_names=None):
        self.nodes = nodes
        self.column_names = column_names

    @property
    def n_leaves(self):
        return int(np.count_nonzero(self.nodes["dim"] < 0))

    @property
    def depth(self):
        return int(self.nodes["depth"].max())

    @property
    def structure(self):
        """The tree as nested tuples: a leaf is its value (float), an internal node (dim, threshold, left, right)."""
        made = [None] * len(self.nodes)
        for at in range(len(self.nodes) - 1, -1, -1):
            node = self.nodes[at]
            if node["dim"] < 0:
                made[at] = float(node["value"])
            else:
                left, right = made[node["left"]], made[node["right"]]
                made[at] = (int(node["dim"]), float(node["threshold"]), left, right)
        return made[0]

    def apply(self, X):
        """Number of the leaf node that each row reaches.

        Parameters
        ----------
        X : array-like, shape (n, n_dims)

        Returns
        -------
        ndarray of int32, shape (n,)

        Raises
        ------
        ValueError, TypeError
            X lacks a column that the tree splits, has other names, or values that are not finite.
        """
        if self.column_names is not None:
            X = check_rows(X, len(self.column_names), self.column_names, "X")
        else:
            X, _ = as_matrix(X, "X", allow_no_rows=True)
        largest = self.nodes["dim"].max()
        if X.shape[1] <= largest:
            raise ValueError(f"X has {X.shape[1]} columns, but the tree splits column {largest} (from 0)")
        at = np.zeros(len(X), dtype=np.int32)
        moving = np.arange(len(X))
        while moving.size:
            node = self.nodes[at[moving]]
            inner = node["dim"] >= 0
            moving, node = moving[inner], node[inner]
            goes_left = X[moving, node["dim"]] <= node["threshold"]
            at[moving] = np.where(goes_left, node["left"], node["right"])
        return at

    def predict(self, X):
        """What the tree adds to f at new rows, in the units of y.

        Parameters
        ----------
        X : array-like, shape (n, n_dims)

        Returns
        -------
        ndarray of float64, shape (n,)
        """
        return self.nodes["value"][self.apply(X)]

    def __len__(self):
        return len(self.nodes)

    def __eq__(self, other):
        if not isinstance(other, Tree):
            return NotImplemented
        return self.column_names == other.column_names and self.nodes.tobytes() == other.nodes.tobytes()

    __hash__ = None

    def __str__(self):
        """One line a node, children below their parent, the left one (<=) first."""
        lines, todo = [], [(0, "", "")]
        while todo:
            at, rule, indent = todo.pop()
            node = self.nodes[at]
            if node["dim"] < 0:
                lines.append(f"{indent}{rule}{': ' if rule else ''}{node['value']:.6g}")
                continue
            label = column_label(self.column_names, int(node["dim"]))
            threshold = f"{node['threshold']:.6g}"
            if rule:
                lines.append(f"{indent}{rule}")
                indent += "    "
            todo.append((int(node["right"]), f"{label} > {threshold}", indent))
            todo.append((int(node["left"]), f"{label} <= {threshold}", indent))
        return "\n".join(lines)

    def __repr__(self):
        return f"<Tree: {self.n_leaves} leaves, depth {self.depth}>"


class Forest(Sequence):
    """The trees of one draw; ``f(x) = offset + sum over trees of the leaf value that x reaches``.

    Parameters
    ----------
    trees : sequence of Tree
    offset : float
        Units of y: the model's offset where it is a number, plus the midrange of y less all offsets where y was scaled.
        For probit in latent units: the model's offset where it is a number, by default Phi^-1 of the share of ones.
        Offsets of rows are not in it.
    n_dims : int
        Columns of X.
    column_names : tuple of str or None
    """

    def __init__(self, trees, offset, n_dims, column_names=None):
        self.trees = tuple(trees)
        self.offset = float(offset)
        self.n_dims = int(n_dims)
        self.column_names = None if column_names is None else tuple(column_names)

    def __getitem__(self, index):
        return self.trees[index]

    def __len__(self):
        return len(self.trees)

    def __eq__(self, other):
        if not isinstance(other, Forest):
            return NotImplemented
        mine = (self.trees, self.offset, self.n_dims, self.column_names)
        return mine == (other.trees, other.offset, other.n_dims, other.column_names)

    __hash__ = None

    @property
    def nodes(self):
        """All nodes, shape (n_nodes,): "tree", "node" and the fields of `Tree.nodes`."""
        fields = [("tree", "<i4"), ("node", "<i4"), *TREE_DTYPE.descr]
        table = np.empty(sum(map(len, self.trees)), dtype=fields)
        first = 0
        for number, tree in enumerate(self.trees):
            part = table[first : first + len(tree)]
            part["tree"], part["node"] = number, np.arange(len(tree))
            for name in TREE_DTYPE.names:
                part[name] = tree.nodes[name]
            first += len(tree)
        return table

    def predict(self, X):
        """f at new rows, in the units of y (latent ones for probit): `Posterior.predict` of this draw but for rounding,
        with ``offset=0.0`` where the model had offsets of rows.

        Parameters
        ----------
        X : array-like, shape (n, n_dims)
            A frame must have the training columns in their order.

        Returns
        -------
        ndarray of float64, shape (n,)
        """
        X = check_rows(X, self.n_dims, self.column_names, "X")
        total = np.zeros(len(X))
        for tree in self.trees:
            total += tree.predict(X)
        return self.offset + total

    def __str__(self):
        parts = [f"f(x) = {self.offset:.6g} + the sum of {len(self)} trees"]
        parts += [f"tree {number}\n{tree}" for number, tree in enumerate(self.trees)]
        return "\n\n".join(parts)

    def __repr__(self):
        return f"<Forest: {len(self)} trees, {sum(tree.n_leaves for tree in self)} leaves>"

    def to_json(self, indent=None):
        """As JSON text, from which `from_json` makes an equal forest.

        Parameters
        ----------
        indent : int, optional
            As in `json.dumps`.

        Returns
        -------
        str
            An object with "format" ("bart forest"), "version" (1), "offset", "n_dims", "column_names" (or null) and
            "trees": for each a list of its nodes, the root first, {"dim", "threshold", "left", "right"} or {"value"};
            left and right are places in that list. Rows with x[dim] <= threshold go left.
        """
        record = {
            "format": _FORMAT,
            "version": _VERSION,
            "offset": self.offset,
            "n_dims": self.n_dims,
            "column_names": None if self.column_names is None else list(self.column_names),
            "trees": [[_plain_node(node) for node in tree.nodes] for tree in self.trees],
        }
        return json.dumps(record, indent=indent, allow_nan=False)

    @classmethod
    def from_json(cls, text):
        """The forest that `to_json` wrote.

        Parameters
        ----------
        text : str

        Returns
        -------
        Forest

        Raises
        ------
        ValueError
            The text is no such forest, of another version, or one of its trees is none; the message names the place.
        """
        record = json.loads(text)
        if not isinstance(record, dict) or record.get("format") != _FORMAT:
            raise ValueError(f"text is not a forest: its format is not {_FORMAT!r}")
        if record.get("version") != _VERSION:
            raise ValueError(f"text is a forest of version {record.get('version')}, this package reads {_VERSION}")
        try:
            n_dims, names = check_count(record["n_dims"], "n_dims"), record["column_names"]
            names = None if names is None else tuple(map(str, names))
            offset, lists = _number(record["offset"]), list(record["trees"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"text is not a whole forest: {error!r}") from None
        if names is not None and len(names) != n_dims:
            raise ValueError(f"text names {len(names)} columns of {n_dims}")
        trees = []
        for number, nodes in enumerate(lists):
            try:
                trees.append(Tree(_read_nodes(nodes, n_dims), names))
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise ValueError(f"tree {number} is not a whole tree: {error}") from None
        return cls(trees, offset, n_dims, names)


def _plain_node(node):
    if node["dim"] < 0:
        return {"value": float(node["value"])}
    return {
        "dim": int(node["dim"]),
        "threshold": float(node["threshold"]),
        "left": int(node["left"]),
        "right": int(node["right"]),
    }


def _number(value):
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no finite number")
    return float(value)


def _read_nodes(given, n_dims):
    if not isinstance(given, list) or not given:
        raise ValueError("it has no nodes")
    nodes = np.zeros(len(given), dtype=TREE_DTYPE)
    nodes["parent"] = -1
    for at, node in enumerate(given):
        if at and nodes["parent"][at] < 0:
            raise ValueError(f"node {at} has no parent before it")
        if "value" in node:
            nodes[at] = (nodes["parent"][at], nodes["depth"][at], -1, math.nan, -1, -1, _number(node["value"]))
            continue
        dim, left, right = (check_count(node[name], name, 0) for name in ("dim", "left", "right"))
        if dim >= n_dims:
            raise ValueError(f"node {at} splits column {dim} of {n_dims}")
        for child in (left, right):
            if not at < child < len(given) or nodes["parent"][child] >= 0 or left == right:
                raise ValueError(f"node {at} has the child {child}")
            nodes["parent"][child], nodes["depth"][child] = at, nodes["depth"][at] + 1
        nodes[at] = (
            nodes["parent"][at], nodes["depth"][at], dim, _number(node["threshold"]), left, right, math.nan
        )  # fmt: skip
    return nodes
