"""What a step costs the algorithm: rows of the nodes at which rules are tried, by hand and summed over sweeps."""

from typing import NamedTuple

import numpy as np
import pytest
from bart.kernels.plan import KernelPlan
from bart.kernels.sweep import TRACES
from compiled import make_params, make_state
from oracle import Problem
from sweep_helpers import OF_TREES, ORDERS, SAMPLERS, make_data

import bart
from bart.storage import read_record, write_record

pytestmark = pytest.mark.kernel

SURE = 1.0 - 2.0**-53       # alpha of nodes that always split


def line(n_rows, alpha=0.95, beta=0.0):
    """Rows 0, 1, 2, ... of one column."""
    return Problem(np.arange(n_rows)[:, None], [0.3, -0.2, 0.5, 0.1][:n_rows], 1.0, 1.0, alpha=alpha, beta=beta)


def visits(problem, tree, sampler, rng, n=200):
    """(move, row visits) of so many steps, each from the same tree."""
    found = set()
    for _ in range(n):
        state = make_state(problem, tree)
        info = sampler.step(state, problem.target, make_params(problem), rng)
        found.add((info.move, info.row_visits))
    return found


def test_local_moves_by_hand(rng):
    """Rows 01 | 23, the left side split once more: nodes of 4, 2, 2, 1, 1 rows, rules at the first two."""
    tree = (0, 1, (0, 0, None, None), None)
    found = visits(line(4), tree, bart.CGM(), rng)
    # Growing splits 23, the one leaf with a rule; pruning undoes 0 | 1. Changing the root asks the root's rows, and
    # those that stood below it, though with the new rule 0 | 123 its child holds one row; or draws the rule that is
    # there, as the child of two rows always does. The one swap is rejected, as its leaf would be empty.
    assert found == {("grow", 2), ("prune", 2), ("change", 6), ("change", 0), ("swap", 6)}
    assert visits(line(4), tree, bart.GrowPrune(), rng) == {("grow", 2), ("prune", 2)}


def test_perturb_and_rotate_by_hand(rng):
    tree = (0, 1, (0, 0, None, None), None)
    # The root's code may be 1 or 2, that of its child 0 alone: to draw the one that is there costs nothing.
    assert visits(line(4), tree, bart.Perturb(), rng) == {("perturb", 6), ("perturb", 0)}
    # Of 0 | 1 and 01 | 23 made 0 | 123 and 1 | 23: four rows, two of the child before, three of the one after.
    assert visits(line(4), tree, bart.Rotate(), rng) == {("rotate", 9)}
    assert visits(line(4), (0, 0, None, (0, 1, None, None)), bart.Rotate(), rng) == {("rotate", 9)}
    assert visits(line(4), (0, 1, None, None), bart.Rotate(), rng) == {("rotate", 0)}
    assert visits(line(4), None, bart.Perturb(), rng) == {("perturb", 0)}


def test_splice_by_hand(rng):
    tree = (0, 1, (0, 0, None, None), None)
    # Deleting the lower node or the leaf 23: rules are asked of two rows, or of four and two. Inserting asks the rows
    # of any node with a rule, once for the new rule and once for each old one that moves down: 4 + 6, 2 + 2, 2.
    assert visits(line(4), tree, bart.Splice(), rng) == {("delete", 2), ("delete", 6), ("insert", 10), ("insert", 4),
                                                         ("insert", 2), ("insert", 0)}
    assert visits(line(4), None, bart.Splice(), rng) == {("delete", 0), ("insert", 4)}
    assert visits(line(1), None, bart.Splice(), rng) == {("delete", 0), ("insert", 0)}


def test_reroute_by_hand(rng):
    tree = (0, 1, (0, 0, None, None), None)
    # The root's cut may pass row 2, or row 1 and empty its leaf: rules are asked of four and two rows. A new node for
    # row 2 goes where three or two rows then are, or nowhere, by a rule that would take others with it, or for want
    # of one. The child's cut cannot move.
    found = visits(line(4), tree, bart.Reroute(), rng, 3000)
    assert found == {("shift", 6), ("shift", 0), ("absorb", 6), ("shed", 9), ("shed", 8), ("shed", 3), ("shed", 0)}
    assert visits(line(4), (0, 1, None, None), bart.Reroute(), rng) == {("shift", 4), ("shift", 0), ("shed", 7),
                                                                        ("shed", 3)}
    assert visits(line(4), None, bart.Reroute(), rng) == {("shift", 0)}


def test_transpose_by_hand(rng):
    X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    square = Problem(X, [0.3, -0.2, 0.5, 0.1], 1.0, 1.0)
    # One child as it stands and one new one are weighed by two rows each, then rules are asked of 4 + 2 + 2.
    both = (0, 0, (1, 0, None, None), (1, 0, None, None))
    assert visits(square, both, bart.Transpose(), rng) == {("transpose", 0), ("transpose", 12)}
    for still in (None, (0, 0, None, None), (0, 0, (1, 0, None, None), None)):
        assert visits(square, still, bart.Transpose(), rng) == {("transpose", 0)}


def test_recut_by_hand(rng):
    tree = (0, 1, (0, 0, None, None), None)
    # Each column weighs the root's four rows, all of which may come to the rule below it; another rule than the one
    # that is there is asked of four and, as it stood, two rows.
    assert visits(line(4), tree, bart.Recut(), rng) == {("recut", 8), ("recut", 14)}
    plane = Problem(np.repeat(np.arange(4)[:, None], 3, axis=1), [0.3, -0.2, 0.5, 0.1], 1.0, 1.0)
    for subset, n_columns in ((None, 3), (2, 2), (7, 3)):
        weighed = 4 * n_columns + 4
        assert visits(plane, tree, bart.Recut(subset), rng) == {("recut", weighed), ("recut", weighed + 6)}
    # Of 01 | 23, both sides split, rules below the root are asked of all four rows each, where they stand of two.
    both = (0, 1, (0, 0, None, None), (0, 2, None, None))
    assert visits(line(4), both, bart.Recut(), rng) == {("recut", 12), ("recut", 20)}
    for small in (None, (0, 1, None, None)):
        assert visits(line(4), small, bart.Recut(), rng) == {("recut", 0)}


def test_a_move_without_a_candidate_costs_nothing(rng):
    assert visits(line(4), None, bart.CGM(), rng) == {("grow", 4), ("prune", 0), ("change", 0), ("swap", 0)}
    whole = (0, 0, None, None)
    assert visits(line(2), whole, bart.CGM(), rng) == {("grow", 0), ("prune", 2), ("change", 0), ("swap", 0)}


@pytest.mark.parametrize("n_particles", [1, 2, 7])
def test_particles_by_hand(n_particles, rng):
    """On three rows a tree that always splits has nodes of 3 and 2 rows with a rule: 5 for each free particle."""
    problem, sampler = line(3, SURE), bart.ParticleGibbs(n_particles, ess_threshold=0.0)
    of_free = 5 * (n_particles - 1)
    for tree, of_clamped in ((None, 0), ((0, 0, None, None), 3), ((0, 0, None, (0, 1, None, None)), 5)):
        expected = of_clamped + of_free if n_particles > 1 else 0
        assert visits(problem, tree, sampler, rng, 20) == {("pg", expected)}
    seldom = line(3, 2.0**-53)
    assert visits(seldom, (0, 0, None, None), sampler, rng, 20) == {("pg", 3 if n_particles > 1 else 0)}


@pytest.mark.parametrize("n_particles", [1, 2, 7])
def test_optimal_particles_by_hand(n_particles, rng):
    """As above, and for each particle and node with a rule its rows once for every column that is weighed."""
    for copies, subset in ((1, None), (2, None), (2, 1), (2, 5)):
        problem = Problem(np.repeat(np.arange(3)[:, None], copies, axis=1), [0.3, -0.2, 0.5], 1.0, 1.0, alpha=SURE,
                          beta=0.0)
        sampler = bart.ParticleGibbs(n_particles, ess_threshold=0.0, proposal="optimal", subset=subset)
        n_columns = min(copies, subset or copies)
        of_free = 5 * (1 + n_columns) * (n_particles - 1)
        for tree, popped, inner in ((None, 3, 0), ((0, 0, None, None), 5, 3), ((0, 0, None, (0, 1, None, None)), 5, 5)):
            expected = inner + n_columns * popped + of_free if n_particles > 1 else 0
            assert visits(problem, tree, sampler, rng, 20) == {("pg", expected)}


def test_a_subtree_by_hand(rng):
    """Rows 01 | 23, the left side split: the root costs 4 + 2 and two nodes of two rows each 2, the places below them
    nothing; a subtree that always splits costs a free particle 8 at the root and 2 at its children."""
    tree = (0, 1, (0, 0, None, None), None)
    found = visits(line(4, SURE), tree, bart.ParticleGibbs(2, ess_threshold=0.0, region="subtree"), rng)
    # The root's free particle cuts off one row first (4 + 3 + 2), or halves (4 + 2 + 2).
    assert found == {("pg", 0), ("pg", 6 + 8), ("pg", 6 + 9), ("pg", 2 + 2), ("pg", 2)}


def test_local_by_hand(rng):
    tree = (0, 1, (0, 0, None, None), None)
    assert visits(line(4), tree, bart.Local(), rng) == {("local", 2), ("local", 0)}
    assert visits(line(4), None, bart.Local(), rng) == {("local", 4)}
    assert visits(line(4), tree, bart.Local(descend=0.5), rng) == {("local", 2), ("local", 0)}
    assert visits(line(4), None, bart.Local(descend=0.5), rng) == {("local", 4), ("local", 0)}
    plane = Problem(np.repeat(np.arange(4)[:, None], 3, axis=1), [0.3, -0.2, 0.5, 0.1], 1.0, 1.0)
    for subset, n_columns in ((None, 3), (2, 2), (7, 3)):
        assert visits(plane, None, bart.Local(subset), rng) == {("local", 4 * n_columns)}


@pytest.mark.parametrize("n_particles", [1, 2, 7])
def test_an_unconditional_filter_by_hand(n_particles, rng):
    """The start "smc": every particle is free, and the tree before costs nothing."""
    problem = line(3, SURE)
    plan = KernelPlan(n_particles=n_particles, ess_threshold=0.0, clamped=False)
    for tree in (None, (0, 0, None, (0, 1, None, None))):
        found = bart.StepInfo(*make_state(problem, tree).step(plan, problem.target, make_params(problem), rng))
        assert found.row_visits == 5 * n_particles


def rows_of_rules(codes, tree, rows):
    """Rows that reach the rules of a tree, all together."""
    if tree is None:
        return 0
    left = codes[tree[0], rows] <= tree[1]
    return len(rows) + rows_of_rules(codes, tree[2], rows[left]) + rows_of_rules(codes, tree[3], rows[~left])


def test_one_free_particle_costs_the_tree_it_makes(rng):
    """On many rows, where a node's rows are lists as well as predicates."""
    X, y = rng.random((3000, 3)), rng.standard_normal(3000)
    model = bart.Model(X, y, n_trees=1, alpha=0.99, beta=0.3)
    state = bart.TreeState(model.codes, model.tree_prior)
    plan, params = KernelPlan(n_particles=1, clamped=False), bart.StepParams(1.0, 1.0)
    for _ in range(20):
        found = bart.StepInfo(*state.step(plan, y, params, rng))
        assert found.row_visits == rows_of_rules(model.codes.codes, state.structure, np.arange(3000))


# ------------------------------------------------------------------------------------------------------- sweeps


class Recorded(bart.TreeSampler):
    """A sampler written in Python that keeps what its steps say."""

    def __init__(self, inner):
        self.inner, self.said = inner, []

    def step(self, state, target, params, rng):
        self.said.append(self.inner.step(state, target, params, rng))
        return self.said[-1]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("sampler", OF_TREES)
def test_a_sweep_costs_what_its_steps_cost(sampler, order, seed):
    """Driven from Python and compiled alike; the steps of the start "smc" are no part of a sweep."""
    X, y = make_data("ties", np.random.default_rng(seed))
    model, recorded = bart.Model(X, y, n_trees=5, beta=0.5), Recorded(SAMPLERS[sampler])
    traces = [bart.Ensemble(model, kind, np.random.default_rng(seed), init="smc", tree_order=order).run(30)
              for kind in (SAMPLERS[sampler], recorded)]
    sums = np.reshape([info.row_visits for info in recorded.said], (30, 5)).sum(axis=1)
    for found in traces:
        np.testing.assert_array_equal(found["row_visits"], sums)
    assert sums.min() >= 0 and sums.max() > 0


def test_a_posterior_holds_it_for_every_sweep(tmp_path):
    X, y = make_data("ties", np.random.default_rng(1))
    model, size = bart.Model(X, y, n_trees=3), {"n_burn": 5, "n_draws": 4, "thin": 2, "n_chains": 2, "seed": 1}
    post = bart.sample(model, bart.ParticleGibbs(1), progress=False, **size)
    assert not post.sweeps["row_visits"].any()
    post = bart.sample(model, bart.ParticleGibbs(4), progress=False, **size)
    assert post.sweeps["row_visits"].shape == (2, 13) and post.sweeps["row_visits"].dtype == np.int64
    np.testing.assert_array_equal(post["row_visits"], post.sweeps["row_visits"][:, 6::2])
    assert post["row_visits"].all() and "row_visits" not in post.summary()
    post.save(tmp_path / "run.npz")
    np.testing.assert_array_equal(bart.load(tmp_path / "run.npz").sweeps["row_visits"], post.sweeps["row_visits"])


class Terse(NamedTuple):
    """What a user's sampler may say and no more."""

    changed: bool
    root_changed: bool


@pytest.mark.parametrize("said", [Terse(False, False), bart.StepInfo("mine", False, False, 0.0, 1, 0)])
def test_a_sampler_that_does_not_say_costs_nothing(said, rng):
    class Idle(bart.TreeSampler):
        def step(self, state, target, params, rng):
            return said

    X, y = make_data("ties", rng)
    assert not bart.Ensemble(bart.Model(X, y, n_trees=3), Idle(), rng).run(4)["row_visits"].any()


def test_buffers_of_another_width_are_refused(rng):
    """They would be written past their end."""
    X, y = make_data("ties", rng)
    ensemble = bart.Ensemble(bart.Model(X, y, n_trees=3), bart.GrowPrune(), rng)
    with pytest.raises(ValueError, match="columns"):
        ensemble._kernel.advance(ensemble._plan, rng, np.empty((1, len(TRACES) - 1)), 0, None, rng, 1, 1)
    with pytest.raises(ValueError, match="entries"):
        ensemble._kernel.end_sweep(np.empty(len(TRACES) - 1))
    assert (ensemble.n_sweeps, ensemble._kernel.position) == (0, 0)


# ------------------------------------------------------------------------------------------- files from before it


def test_files_without_it_are_refused_by_their_format(tmp_path):
    X, y = make_data("ties", np.random.default_rng(1))
    size = {"n_burn": 2, "n_draws": 3, "n_chains": 1, "progress": False}

    def run(seed):
        return bart.sample(bart.Model(X, y, n_trees=2), bart.CGM(), checkpoint=tmp_path / "run", seed=seed, **size)

    run(1).save(tmp_path / "run.npz")
    old = read_record(tmp_path / "run.npz")
    del old["traces"]["row_visits"]
    write_record(tmp_path / "run.npz", old | {"format": "bart posterior 1"})
    with pytest.raises(ValueError, match="not a saved run of this version"):
        bart.load(tmp_path / "run.npz")
    (state,) = (tmp_path / "run").glob("*-state.npz")
    write_record(state, read_record(state) | {"format": 1})
    for seed in (1, None):
        with pytest.raises(ValueError, match="has format 1, not 3"):
            run(seed)
