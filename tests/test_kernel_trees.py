"""Values of stored trees: every build of the loops against a plain walk, bit for bit."""

import numpy as np
import pytest
from bart.kernels.forest import NODE_DTYPE, predict_draws

from bart.kernels import rowops


def random_tree(n_leaves, n_dims, rng):
    """Nodes of a stored tree, split at random leaves."""
    nodes = np.zeros(2 * n_leaves - 1, dtype=NODE_DTYPE)
    nodes["dim"], nodes["left"], nodes["value"] = -1, -1, rng.normal(size=len(nodes))
    free = list(range(1, len(nodes), 2))
    rng.shuffle(free)                           # a pair may lie before its parent, as after a prune
    leaves = [0]
    for left in free:
        node = leaves.pop(rng.integers(len(leaves)))
        nodes[node] = (rng.integers(n_dims), left, rng.random())
        leaves += [left, left + 1]
    return nodes


def walk(tree, row):
    node = 0
    while tree["dim"][node] >= 0:
        node = tree["left"][node] + int(row[tree["dim"][node]] > tree["value"][node])
    return tree["value"][node]


@pytest.fixture(params=sorted(rowops.TARGETS))
def target(request):
    before = rowops.TARGET
    rowops.use(request.param)
    yield request.param
    rowops.use(before)


@pytest.mark.parametrize("n_dims", [1, 4, 700])
def test_sums_of_tree_values(target, rng, n_dims):
    n_trees = 3
    sizes = (1, 1, 2, 1, 2, 3, 4, 5, 9, 63, 64, 65, 60, 2, 200)
    trees = [random_tree(n_leaves, n_dims, rng) for n_leaves in sizes]
    nodes, starts = np.concatenate(trees), np.cumsum([0] + [len(tree) for tree in trees])
    n_draws = len(sizes) // n_trees
    for n in (1, 7, 8, 9, 511, 513, 1030):
        X = rng.random((n, n_dims))
        X[0, 0] = np.inf
        picked = rng.integers(0, len(nodes), n)
        inner = nodes["dim"][picked] >= 0       # rows that lie on a threshold go left
        X[np.flatnonzero(inner), nodes["dim"][picked][inner]] = nodes["value"][picked][inner]
        expected = np.zeros((n_draws, n))
        for k, tree in enumerate(trees):
            expected[k // n_trees] += [walk(tree, row) for row in X]
        out = np.full((n_draws, n + 2), 7.0)
        predict_draws(X, nodes, starts, n_trees, 0, n_draws, out[:, 1:-1])
        np.testing.assert_array_equal(out[:, 1:-1], expected)
        assert (out[:, [0, -1]] == 7.0).all()
        part = np.empty((1, n))
        predict_draws(X, nodes, starts, n_trees, 2, 3, part)
        np.testing.assert_array_equal(part[0], expected[2])
    with pytest.raises(ValueError, match="contiguous rows"):
        predict_draws(X, nodes, starts, n_trees, 0, n_draws, np.empty((n, n_draws)).T)
