"""The enumerator against exact values computed by an independent program."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from oracle import Problem, bfs, depth_of, n_leaves, replace_at

GOLDEN = Path(__file__).parent / "golden" / "tiny_posteriors.json"
CASES = json.loads(GOLDEN.read_text())


def build(case):
    keys = ("X", "target", "sigma2", "leaf_var", "leaf_mean", "alpha", "beta")
    return Problem(**{k: case[k] for k in keys})


@pytest.mark.parametrize("case", CASES, ids=[c["name"] for c in CASES])
def test_every_reference_value(case):
    problem, exact = build(case), case["exact"]
    post = problem.posterior(lumped=True)
    assert post.n_trees == exact["n_trees"]
    assert post.log_evidence == pytest.approx(exact["log_evidence"], abs=1e-10)
    np.testing.assert_allclose(post.p_n_leaves(), exact["p_n_leaves"], atol=1e-10, rtol=0)
    np.testing.assert_allclose(post.mean_f(), exact["posterior_mean_f"], atol=1e-10, rtol=0)
    law = post.root_law()
    assert len(law) == len(exact["root"])
    for entry in exact["root"]:
        if "stop" in entry:
            assert law["stop"] == pytest.approx(entry["stop"], abs=1e-10)
        else:
            d, (low, high) = entry["dim"], entry["between"]
            code = problem.values[d].index(low)
            assert problem.values[d][code + 1] == high
            assert law[d, code] == pytest.approx(entry["p"], abs=1e-10)


@pytest.mark.parametrize("case", CASES, ids=[c["name"] for c in CASES])
def test_lumping_changes_no_law(case):
    fine, coarse = build(case).posterior(), build(case).posterior(lumped=True)
    assert fine.n_trees >= coarse.n_trees
    assert fine.log_evidence == pytest.approx(coarse.log_evidence, abs=1e-10)
    np.testing.assert_allclose(fine.p_n_leaves(), coarse.p_n_leaves(), atol=1e-12, rtol=0)
    np.testing.assert_allclose(fine.mean_f(), coarse.mean_f(), atol=1e-12, rtol=0)
    for key, p in coarse.root_law().items():
        assert fine.root_law()[key] == pytest.approx(p, abs=1e-12)


def test_prior_sums_to_one_without_data_weight():
    """With a flat likelihood the evidence is the density of noise alone: the prior adds up to 1."""
    for extra in ({}, {"cuts": "grid", "n_cuts": 5}, {"dim_weights": (1, 0, 2)}):
        X = [[0, 1, 5], [0.1, 1, 5], [0.9, 2, 7], [1, 3, 5]]
        problem = Problem(X, [1.0, -1.0, 0.5, 0.0], 2.0, 1e-300, alpha=0.8, beta=0.5, **extra)
        noise = sum(-0.5 * math.log(2 * math.pi * 2.0) - r * r / 4.0 for r in problem.target)
        assert problem.posterior().log_evidence == pytest.approx(noise, abs=1e-12)


def test_log_joint_agrees_with_the_enumeration():
    problem = build(CASES[3])
    for tree, value in problem.enumerate():
        assert problem.log_joint(tree) == pytest.approx(value, abs=1e-12)
    assert problem.log_joint((0, 0, (0, 0, None, None), None)) == -math.inf


def test_grid_makes_close_values_inseparable():
    problem = Problem([[0.0], [0.01], [0.9], [1.0]], [0.0] * 4, 1.0, 1.0, cuts="grid", n_cuts=4)
    assert problem.cumulative == [[0.0, 0.0, 4.0, 4.0]]
    assert problem.rules((0, 1, 2, 3)) == {(0, 1): 1.0}
    assert not problem.can_split((0, 1)) and not problem.can_split((2, 3))
    assert problem.posterior().n_trees == 2


def test_gap_below_a_cut_holds_it():
    """A cut equal to a value lies in the gap above that value, since x <= tau goes left."""
    problem = Problem([[0.0], [1.0], [2.0]], [0.0] * 3, 1.0, 1.0, cuts="grid", n_cuts=1)
    assert problem.rules((0, 1, 2)) == {(0, 1): 1.0}


def test_distinct_codes_with_one_partition_are_distinct_states():
    problem = Problem([[0, 0], [1, 1], [2, 0]], [0.0] * 3, 1.0, 1.0)
    assert set(problem.rules((0, 2))) == {(0, 0), (0, 1)}
    assert problem.lumped_rules((0, 2)) == {(0, 0): 1.0}


def test_weights_choose_among_the_valid_dimensions():
    problem = Problem([[0, 0, 0], [1, 1, 1]], [0.0] * 2, 1.0, 1.0, dim_weights=(1, 0, 2))
    assert problem.rules((0, 1)) == pytest.approx({(0, 0): 1 / 3, (2, 0): 2 / 3})


def test_tree_helpers():
    tree = (0, 1, (1, 0, None, None), None)
    assert n_leaves(tree) == 3 and depth_of(tree) == 2 and depth_of(None) == 0
    assert [path for path, _ in bfs(tree)] == ["", "L", "R", "LL", "LR"]
    assert replace_at(tree, "L", None) == (0, 1, None, None)
    assert replace_at(tree, "R", (2, 2, None, None)) == (0, 1, tree[2], (2, 2, None, None))
