"""Whether what a file holds of trees and chains is such that kernels may index with it."""

import numpy as np

from .inputs import check_count, check_real
from .kernels.state import DUMP_DTYPE

__all__ = ["are_trees", "check_state"]


def are_trees(left, inner, starts):
    """Whether the nodes of each tree are reached from its root, each by one path.

    Parameters
    ----------
    left : (n_nodes,) int array
        Left child of an internal node, counted in its tree; the right one comes after it.
    inner : (n_nodes,) bool array
        Which nodes are internal.
    starts : (n_trees + 1,) int64 array
        First node of each tree, its root, and the number of all nodes.

    Returns
    -------
    bool
    """
    sizes = np.diff(starts)
    if starts[:1].tolist() != [0] or starts[-1] != len(left) or (sizes <= 0).any():
        return False
    child, size = left[inner].astype(np.int64), np.repeat(sizes, sizes)[inner]
    if ((child < 1) | (child >= size - 1) | (child % 2 == 0)).any():
        return False
    below = np.repeat(starts[:-1], sizes)
    below[inner] += child
    if np.bincount(below[inner], minlength=1).max() > 1:
        return False
    # No node has two parents, and no root has one, so that no node is come to twice.
    n_found, front = 0, starts[:-1]
    while len(front):
        n_found += len(front)
        front = below[front[inner[front]]]
        front = np.concatenate([front, front + 1])
    return n_found == len(left)


def check_state(state, domain):
    """Refuse a state of an Ensemble, of `domain`'s data, that no chain can have come to.

    The rows in the leaves, and weights, are left to be compared with the data and checked where they are set.

    Raises
    ------
    ValueError, TypeError
        Its message begins with "state".
    """
    n_rows = domain.codes.codes.shape[1]
    trouble = _trouble(state["trees"], domain, n_rows)
    if trouble:
        raise ValueError(f"state: its trees are damaged, by their {trouble}")
    _check_vector(state["residual"], n_rows, "residual")
    if state["y"] is not None:
        _check_vector(state["y"], n_rows, "y")
    for name, values in (state.get("latent") or {}).items():
        if isinstance(values, np.ndarray):
            _check_vector(values, n_rows, name)
    for name in ("sigma2", "temperature"):
        check_real(state[name], f"state: {name}", 0)
    mean, var = state.get("leaf_prior", (0.0, 1.0))         # states from before it could be set lack it
    check_real(mean, "state: leaf_mean")
    check_real(var, "state: leaf_var", 0)
    check_real(state["sweep_top"], "state: sweep_top", 0, closed="low")
    for value in (state["n_sweeps"], state["position"], *state["changed"], state["row_visits"]):
        check_count(value, "state: a counter", 0)
    if state.get("split") is not None:
        check_real(state["split"]["theta"], "state: theta", 0)
        _check_vector(state["split"]["log_weights"], len(domain.candidates), "log_weights")


def _check_vector(values, size, name):
    if not (isinstance(values, np.ndarray) and values.shape == (size,) and np.isfinite(values).all()):
        raise ValueError(f"state: {name} is no array of {size} finite numbers")


def _trouble(trees, domain, n_rows):
    """What is wrong with trees as `TreeState.dump` gives them; None where nothing is."""
    if not all(isinstance(nodes, np.ndarray) and nodes.dtype == DUMP_DTYPE and nodes.ndim == 1 for nodes in trees):
        return "type"
    starts = np.concatenate([[0], np.cumsum([len(nodes) for nodes in trees])])
    nodes, sizes, roots = np.concatenate(trees), np.diff(starts), starts[:-1]
    inner = nodes["left"] != -1
    if not are_trees(nodes["left"], inner, starts):
        return "children"
    first = np.repeat(roots, sizes)
    above = np.flatnonzero(inner)
    left = first[above] + nodes["left"][above]
    parent, depth, n = np.full(len(nodes), -1), nodes["depth"], nodes["n"]
    parent[left] = parent[left + 1] = above - first[above]
    # By leaf number, those of each tree after those of the trees before it; 2 n - 1 nodes are n leaves.
    n_leaves = (sizes + 1) // 2
    leaf, most = nodes["leaf"][~inner].astype(np.int64), np.repeat(n_leaves, sizes)[~inner]
    place = np.repeat(np.cumsum(n_leaves) - n_leaves, sizes)[~inner] + leaf
    leaves_whole = ((0 <= leaf) & (leaf < most)).all() and (np.bincount(place) == 1).all()
    right = left + 1
    sound = {
        "parents": (nodes["parent"] == parent).all(),
        "depths": not depth[roots].any() and (depth[[left, right]] == depth[above] + 1).all(),
        "rows": (n[roots] == n_rows).all() and (n[left] + n[right] == n[above]).all() and (n > 0).all(),
        "leaf numbers": leaves_whole and (nodes["leaf"][inner] == -1).all(),
        "rules": (nodes["dim"][~inner] == -1).all() and _have_mass(nodes[inner], domain),
        "marks": np.isin(nodes["can_split"], (-1, 0, 1)).all() and np.isin(nodes["staged"], (0, 1)).all(),
        "values": np.isfinite(nodes["value"]).all() and not np.isinf(nodes["log_rule"]).any(),
    }
    return next((name for name, is_sound in sound.items() if not is_sound), None)


def _have_mass(nodes, domain):
    """Whether the prior has the rules of internal nodes, in nodes of some rows."""
    dims, codes, mass = nodes["dim"], nodes["code"].astype(np.int64), domain.prior.gap_mass(domain.codes.values)
    for dim in np.unique(dims):
        if dim not in domain.candidates:
            return False
        own, cumulated = codes[dims == dim], mass[dim]
        if own.max() >= len(cumulated) - 1 or (cumulated[own + 1] <= cumulated[own]).any():
            return False
    return True
