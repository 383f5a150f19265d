"""Exact transition matrices of the twins leave the enumerated posterior invariant."""

from itertools import product

import numpy as np
import pytest
from compiled import COMPOSED, make_pair
from oracle import bfs, n_leaves
from tiny import PROBLEMS
from twin_particles import ParticleGibbs
from twin_random import outcomes, transition_matrix
from twins import CGM, GrowPrune, nodes_of
from twins_rules import Perturb, Reroute, Rotate, Splice, rotate

LOCAL = {
    "growprune": lambda problem: GrowPrune(problem),
    "growprune-.3": lambda problem: GrowPrune(problem, 0.3),
    "cgm": lambda problem: CGM(problem),
    "cgm-unequal": lambda problem: CGM(problem, (0.25, 0.25, 0.40, 0.10)),
    "splice": lambda problem: Splice(problem),
}
# Not irreducible: the posterior is one of their invariant laws.
RULES = {"perturb": lambda problem: Perturb(problem), "rotate": lambda problem: Rotate(problem),
         "reroute": lambda problem: Reroute(problem)}
# At C = 2 an effective size is at least 1 = .5 C, so that only .9 ever mixes resampling with none.
SETTINGS = list(product(("multinomial", "systematic", "killing"), (None, 0.9, 0.5, 0.0), ("plain", "forced")))
FEW = [("multinomial", None, "plain"), ("systematic", 0.9, "forced"), ("killing", None, "forced")]
LIGHT = ("line", "square", "ties", "shallow", "triple", "triple_line", "pair", "unsplit_root", "precise_ties")
HEAVY = ("long_line", "weighted", "grid")


def particle_cases():
    """(problem, particles, setting): all settings where they are cheap, a few elsewhere, the rest long."""
    cases = [(name, 2, s) for name in LIGHT for s in SETTINGS]
    cases += [("weighted_three", 2, s) for s in FEW] + [("grid", 2, s) for s in FEW]
    cases += [("long_line", 2, FEW[1]), ("pair", 5, FEW[1]), ("pair", 5, FEW[2])]
    cases += [("triple_line", 3, s) for s in SETTINGS] + [("pair", 4, s) for s in SETTINGS]
    heavy = [(name, 2, s) for name in HEAVY for s in SETTINGS] + [("plane", 2, s) for s in FEW]
    heavy += [(name, 3, s) for name in ("square", "triple", "line", "ties") for s in FEW]
    heavy += [("triple_line", 4, s) for s in FEW]
    marked = [pytest.param(*c, marks=pytest.mark.long, id=identify(c)) for c in heavy if c not in cases]
    return [pytest.param(*c, id=identify(c)) for c in cases] + marked


def identify(case):
    name, size, (scheme, threshold, final) = case
    return f"{name}-{size}-{scheme}-{threshold}-{final}"


def check_invariant(twin, problem):
    post = problem.posterior()
    matrix = transition_matrix(twin, post.trees)
    assert abs(matrix.sum(axis=1) - 1).max() < 1e-12
    assert abs(post.p @ matrix - post.p).max() < 1e-12


@pytest.mark.parametrize("kernel", LOCAL | RULES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_local_moves(name, kernel):
    problem = PROBLEMS[name]()
    check_invariant((LOCAL | RULES)[kernel](problem), problem)


@pytest.mark.parametrize("name, size, setting", particle_cases())
def test_particle_gibbs(name, size, setting):
    problem = PROBLEMS[name]()
    check_invariant(ParticleGibbs(problem, size, *setting), problem)


@pytest.mark.parametrize("name", ["line", "triple", "ties", "grid", "precise_ties"])
@pytest.mark.parametrize("kind", [kind for kind in COMPOSED if kind != "cycle-of-mixture"])
def test_compositions(kind, name):
    problem = PROBLEMS[name]()
    check_invariant(make_pair(problem, COMPOSED[kind][0], **COMPOSED[kind][1])[1], problem)


@pytest.mark.parametrize("kind", ["cycle-grow-grow", "mixture-grow-pg", "mixture-of-cycle", "cycle-of-mixture"])
def test_steps_of_compositions_have_the_law_of_products_and_sums(kind):
    """Every outcome of the step itself, against the parts' matrices."""
    problem = PROBLEMS["pair"]()
    twin = make_pair(problem, COMPOSED[kind][0], **COMPOSED[kind][1])[1]
    for tree in problem.posterior().trees:
        stepped, composed = outcomes(lambda random, t=tree: twin.step(t, random).tree), twin.law(tree)
        assert set(stepped) == set(composed)
        np.testing.assert_allclose([stepped[t] for t in composed], list(composed.values()), rtol=1e-12)


@pytest.mark.parametrize("name", ["line", "grid", "ties"])
def test_one_particle_is_the_identity(name):
    problem = PROBLEMS[name]()
    trees = problem.posterior().trees
    np.testing.assert_array_equal(transition_matrix(ParticleGibbs(problem, 1), trees), np.eye(len(trees)))


@pytest.mark.parametrize("kernel", [*LOCAL, *("-".join(map(str, s)) for s in SETTINGS)])
def test_powers_converge_to_the_posterior(kernel):
    """Irreducible and aperiodic: every row of K^n tends to the posterior."""
    problem = PROBLEMS["line"]()
    post = problem.posterior()
    setting = {"-".join(map(str, s)): s for s in SETTINGS}.get(kernel)
    twin = LOCAL[kernel](problem) if setting is None else ParticleGibbs(problem, 2, *setting)
    matrix = transition_matrix(twin, post.trees)
    power = np.linalg.matrix_power(matrix, 2 ** 14)
    assert abs(power - post.p).max() < 1e-9


def test_swap_exchanges_both_children_that_share_a_rule():
    same = (0, 0, (1, 0, None, None), (1, 0, None, None))
    law = CGM(PROBLEMS["square"](), (0.0, 0.0, 0.0, 1.0)).law(same)
    assert law[1, 0, (0, 0, None, None), (0, 0, None, None)] > 0
    assert set(law) <= {same, (1, 0, (0, 0, None, None), (0, 0, None, None))}


@pytest.mark.parametrize("kernel, share", [("perturb", 0.05), ("rotate", 0.05), ("reroute", 0.03)])
def test_moves_of_rules_move_most_problems(kernel, share):
    """Else their invariance says nothing: the share of the posterior that a step moves."""
    moved = {}
    for name, make in PROBLEMS.items():
        problem = make()
        post = problem.posterior()
        moved[name] = 1 - post.p @ np.diag(transition_matrix(RULES[kernel](problem), post.trees))
    assert sum(one > share for one in moved.values()) >= 9, moved


def test_rotations_undo_each_other_and_keep_the_partition():
    """From left to right and back; every edge of one dimension can be rotated, and their number stays."""
    problem = PROBLEMS["terrace"]()
    seen = 0
    for tree in problem.posterior().trees:
        for side, child in zip("LR", tree[2:] if tree else (), strict=False):
            if child is None or child[0] != tree[0]:
                continue
            turned = rotate(tree, side)
            assert rotate(turned, "R" if side == "L" else "L") == tree and turned != tree
            assert {rows for rows, _ in problem.leaves(turned)} == {rows for rows, _ in problem.leaves(tree)}
            assert edges_of_one_dimension(turned) == edges_of_one_dimension(tree)
            assert Rotate(problem).law(tree).get(turned, 0.0) > 0
            seen += 1
    assert seen > 50


def steps_both_ways(twin, problem):
    """All pairs (tree, tree that a step reaches), each of which must lead back."""
    laws = {tree: twin.law(tree) for tree in problem.posterior().trees}
    pairs = [(tree, new) for tree, law in laws.items() for new in law]
    for tree, new in pairs:
        assert laws[new].get(tree, 0.0) > 0
    return pairs


def test_splices_undo_each_other():
    """Within trees too, where a subtree moves that has rules."""
    problem, inside = PROBLEMS["terrace"](), 0
    for tree, new in steps_both_ways(Splice(problem), problem):
        if tree and new and n_leaves(new) > n_leaves(tree):
            inside += (new[2] is None) != (new[3] is None) and tree in new[2:]
    assert inside > 50


def test_reroutes_undo_each_other():
    """Leaves come and go where the root's cut moves, too."""
    problem = PROBLEMS["terrace"]()
    pairs = steps_both_ways(Reroute(problem), problem)
    assert sum(new is not None and n_leaves(new) > n_leaves(tree) and new[:2] != tree[:2] for tree, new in pairs) > 50


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("name", ["line", "long_line", "ties", "terrace", "weighted"])
def test_reroutes_that_pass_so_many_values_at_most(name, most, monkeypatch):
    """The tiny problems have too few values for the bound that stands."""
    monkeypatch.setattr(Reroute, "MOST", most)
    problem = PROBLEMS[name]()
    check_invariant(Reroute(problem), problem)


def edges_of_one_dimension(tree):
    return sum(child is not None and child[0] == node[0] for _, node in bfs(tree) if node for child in node[2:])


# ---------------------------------------------------------------- the problems contain what they are for
def nodes(name):
    problem = PROBLEMS[name]()
    return problem, [(tree, nodes_of(problem, tree)) for tree in problem.posterior().trees]


def test_some_children_share_a_rule():
    shared = [tree for tree, _ in nodes("square")[1]
              if any(n and n[2] and n[3] and n[2][:2] == n[3][:2] for _, n in bfs(tree))]
    assert shared


def test_some_grid_nodes_hold_values_without_a_cut_between():
    problem, all_nodes = nodes("grid")
    stuck = [n for _, view in all_nodes for n in view if not problem.can_split(n.rows) and len(n.rows) > 1]
    assert any(len({tuple(problem.X[r]) for r in n.rows}) > 1 for n in stuck)
    one_dim = [n for _, view in all_nodes for n in view if len(problem.valid_dims(n.rows)) == 1]
    assert any(problem.code_range(n.rows, 1 - problem.valid_dims(n.rows)[0])[0]
               < problem.code_range(n.rows, 1 - problem.valid_dims(n.rows)[0])[1] for n in one_dim)


def test_some_leaves_of_several_rows_cannot_split():
    problem, all_nodes = nodes("ties")
    assert any(len(n.rows) > 1 and not problem.can_split(n.rows) for _, view in all_nodes for n in view)


@pytest.mark.parametrize("name", ["plane", "weighted", "triple"])
def test_some_codes_share_a_partition(name):
    problem, all_nodes = nodes(name)
    assert any(len(problem.rules(n.rows)) > len(problem.lumped_rules(n.rows)) for _, view in all_nodes
               for n in view)


def test_the_unused_dimension_is_never_used():
    _, all_nodes = nodes("weighted")
    used = {n.tree[0] for _, view in all_nodes for n in view if n.tree is not None}
    assert used == {0, 2}


def test_some_rotated_parts_hold_rules_of_another_dimension():
    """In all three parts, on both sides."""
    parts = set()
    for tree, _ in nodes("terrace")[1]:
        for side, child in zip("LR", tree[2:] if tree else (), strict=False):
            if child is not None and child[0] == tree[0]:
                three = (child[2], child[3], tree[3]) if side == "L" else (tree[2], child[2], child[3])
                parts |= {(side, i) for i, part in enumerate(three) if part and part[0] != tree[0]}
    assert len(parts) == 6
