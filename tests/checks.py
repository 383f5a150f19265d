"""Named invariants of a tree, checked against the slow model; each raises AssertionError with its name."""

from __future__ import annotations

import numpy as np
from oracle import bfs, depth_of, n_leaves


def check_support(problem, tree):
    """Every rule has positive prior probability given the rows of its node."""
    for path, node, rows in _with_rows(problem, tree):
        if node is not None:
            assert node[:2] in problem.rules(rows), f"support: rule {node[:2]} at '{path}' is not valid there"


def check_no_empty_leaf(problem, tree):
    """Every leaf holds a row."""
    for path, node, rows in _with_rows(problem, tree):
        assert node is not None or rows, f"empty leaf: no row at '{path}'"


def check_partition(problem, tree, leaf_of_row):
    """The leaf number of each row is one to one with the leaf its codes lead to, and numbers are 0..K-1."""
    labels = np.asarray(leaf_of_row)
    assert labels.shape == (problem.n_rows,), f"partition: shape {labels.shape}"
    leaves = [rows for rows, _ in problem.leaves(tree)]
    seen = [set(labels[list(rows)].tolist()) for rows in leaves]
    assert all(len(s) == 1 for s in seen), "partition: a leaf's rows carry several numbers"
    numbers = sorted(next(iter(s)) for s in seen)
    assert numbers == list(range(len(leaves))), f"partition: leaf numbers {numbers}"


def check_size(tree, n_leaves_said, depth_said):
    """The number of leaves and the depth are those of the structure."""
    assert n_leaves(tree) == n_leaves_said, f"size: {n_leaves_said} leaves said, {n_leaves(tree)} counted"
    assert depth_of(tree) == depth_said, f"size: depth {depth_said} said, {depth_of(tree)} counted"


def check_fit(leaf_of_row, leaf_values, fit):
    """The fit is the leaf value of each row's leaf, to the bit."""
    np.testing.assert_array_equal(np.asarray(leaf_values)[np.asarray(leaf_of_row)], fit, err_msg="fit")


def check_nodes(problem, nodes):
    """The nodes as `TreeState.dump` gives them: links, depths, counts and leaf numbers are those of the tree, and what
    is kept of a node's rows is true of them."""
    rows, depth, seen, leaves = {0: problem.all_rows}, {0: 0}, [0], []
    assert nodes[0]["parent"] == -1, "nodes: the root has a parent"
    for i in seen:
        node, name = nodes[i], f"nodes: node {i}"
        assert (node["n"], node["depth"]) == (len(rows[i]), depth[i]), f"{name} has another count or depth"
        if node["left"] < 0:
            assert node["dim"] == -1, f"{name} has a rule"
            assert node["can_split"] in (-1, problem.can_split(rows[i])), f"{name} can split or not"
            leaves.append(node["leaf"])
            continue
        left, rule = int(node["left"]), (int(node["dim"]), int(node["code"]))
        assert left % 2 == 1 and node["leaf"] == -1 and node["can_split"] == 1, f"{name} is no internal node"
        assert np.isnan(node["log_rule"]) or np.isclose(node["log_rule"], np.log(problem.rules(rows[i])[rule]), 1e-9), \
            f"{name} has another log_rule"
        for child, part in zip((left, left + 1), problem.divide(rows[i], *rule), strict=True):
            assert child not in rows and nodes[child]["parent"] == i, f"{name} is not the parent of its children"
            rows[child], depth[child] = part, depth[i] + 1
            seen.append(child)
    assert len(seen) == len(nodes) and sorted(leaves) == list(range(len(leaves))), "nodes: some are not in the tree"


def check_state(problem, state):
    """All of the above on an object with the attributes of a tree state."""
    tree = state.structure
    check_support(problem, tree)
    check_no_empty_leaf(problem, tree)
    check_size(tree, state.n_leaves, state.depth)
    check_partition(problem, tree, state.leaf_of_row)
    check_fit(state.leaf_of_row, state.leaf_values, state.fit())


def _with_rows(problem, tree):
    """(path, subtree, rows) of every node, breadth first."""
    rows = {"": problem.all_rows}
    for path, node in bfs(tree):
        yield path, node, rows[path]
        if node is not None:
            rows[path + "L"], rows[path + "R"] = problem.divide(rows[path], node[0], node[1])
