"""The invariants hold on sound trees and fail on corrupted ones."""

from types import SimpleNamespace

import numpy as np
import pytest
from checks import check_no_empty_leaf, check_nodes, check_partition, check_size, check_state, check_support
from compiled import make_state
from oracle import Problem, depth_of, n_leaves

PROBLEM = Problem([[0, 0], [1, 1], [2, 0], [3, 1]], [0.0] * 4, 1.0, 1.0, dim_weights=(1, 1))


def state_of(tree):
    labels = np.zeros(4, dtype=int)
    for i, (rows, _) in enumerate(PROBLEM.leaves(tree)):
        labels[list(rows)] = i
    values = np.arange(1.0, n_leaves(tree) + 1)
    return SimpleNamespace(structure=tree, n_leaves=n_leaves(tree), depth=depth_of(tree), leaf_of_row=labels,
                           leaf_values=values, fit=lambda: values[labels])


def test_every_enumerated_tree_is_sound():
    for tree, _ in PROBLEM.enumerate():
        check_state(PROBLEM, state_of(tree))


@pytest.mark.parametrize("tree", [(0, 3, None, None), (0, -1, None, None), (0, 1, (0, 1, None, None), None),
                                  (0, 0, None, (0, 0, None, None))])
def test_a_rule_outside_the_range_is_seen(tree):
    with pytest.raises(AssertionError, match="support"):
        check_support(PROBLEM, tree)
    with pytest.raises(AssertionError, match="empty leaf"):
        check_no_empty_leaf(PROBLEM, tree)


def test_wrong_leaf_numbers_are_seen():
    tree = (0, 1, None, None)
    for labels in ([0, 1, 1, 1], [0, 0, 2, 2], [0, 0, 0, 0], [0, 0, 1]):
        with pytest.raises(AssertionError, match="partition"):
            check_partition(PROBLEM, tree, labels)


def test_wrong_sizes_and_fit_are_seen():
    for said in ((1, 1), (2, 2)):
        with pytest.raises(AssertionError, match="size"):
            check_size((0, 1, None, None), *said)
    state = state_of((0, 1, None, None))
    state.fit = lambda: np.zeros(4)
    with pytest.raises(AssertionError, match="fit"):
        check_state(PROBLEM, state)


def test_wrong_nodes_are_seen():
    """Each field, one at a time, of a tree with rules at 0 and 2 and leaves 1, 3 and 4."""
    sound = make_state(PROBLEM, (0, 1, None, (1, 0, None, None))).dump()
    sound["log_rule"][0] = np.log(PROBLEM.rules(PROBLEM.all_rows)[0, 1])
    sound["can_split"][1] = 1
    check_nodes(PROBLEM, sound)
    for node, field, value in ((0, "parent", 2), (3, "parent", 0), (2, "left", 1), (3, "depth", 1), (2, "n", 3),
                               (2, "code", -1), (4, "leaf", 0), (1, "dim", 0), (1, "can_split", 0), (2, "leaf", 1),
                               (2, "can_split", 0), (0, "log_rule", -0.1), (0, "left", -1)):
        nodes = sound.copy()
        nodes[field][node] = np.array(value).astype(nodes.dtype[field])
        with pytest.raises((AssertionError, KeyError), match="nodes|-1"):
            check_nodes(PROBLEM, nodes)
