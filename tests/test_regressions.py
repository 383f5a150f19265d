"""Errors that a review found, one test each: what went wrong, and what is right."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from bart.kernels.columns import Domain
from bart.kernels.forest import ForestStore
from bart.kernels.state import TreeState
from bart.kernels.sweep import TRACES
from bart.kernels.testing import replicate
from bart.kernels.workspace import Workspace
from chain_helpers import child_environment
from chain_laws import assert_means
from laws import g_test
from oracle import Problem
from scipy import stats

import bart

pytestmark = pytest.mark.kernel

LEVEL = 1e-5
SURE = 1.0 - 2.0**-53       # alpha of a root that always splits
PARAMS = bart.StepParams(1.0, 1.0)
SAMPLERS = {"growprune": bart.GrowPrune(), "cgm": bart.CGM(), "pg": bart.ParticleGibbs(4)}
EXTREMES = np.array([[-1.7e308], [0.0], [5e-324], [1.7e308]])


class Wrapped(bart.TreeSampler):
    """A sampler written in Python: something of its own, then a compiled step on the same target."""

    def __init__(self, inner, before=None):
        self.inner, self.before = inner, before

    def step(self, state, target, params, rng):
        if self.before is not None:
            self.before(state, target, params, rng)
        return self.inner.step(state, target, params, rng)


def wave(rng, n_rows=200, n_trees=3, **options):
    X = rng.random((n_rows, 2))
    return bart.Model(X, 5.0 * (X[:, 0] > 0.5) + 0.1 * rng.standard_normal(n_rows), n_trees=n_trees, **options)


def residual_error(ensemble):
    fits = sum(state.fit() for state in ensemble.trees)
    return abs(ensemble.residual - (ensemble.model.dataset.y_scaled - fits)).max()


def runs_through(ensemble, n_sweeps):
    """Run; an interrupt that nobody asked for would end the whole session of tests."""
    try:
        ensemble.run(n_sweeps)
    except KeyboardInterrupt:
        pytest.fail("interrupted again")


def rules_of(tree):
    if tree is not None:
        yield tree[:2]
        yield from rules_of(tree[2])
        yield from rules_of(tree[3])


# ------------------------------------------------------------------------------ rules outside the prior, stale memory


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a1_values_whose_distance_rounds_to_no_mass(sampler, rng):
    """No rule was drawn at a node called splittable, and dimension -1 went into the tree; it is no move."""
    y = np.array([-3.0, 1.0, 0.0, 5.0])
    state = TreeState(bart.RankCodes(EXTREMES), bart.TreePrior(alpha=0.95, beta=0.0))
    for _ in range(2000):
        SAMPLERS[sampler].step(state, y, bart.StepParams(1.0, 10.0), rng)
        assert all(dim == 0 and code in (0, 1, 2) for dim, code in rules_of(state.structure))
    assert (np.bincount(state.leaf_of_row, minlength=state.n_leaves) > 0).all()


def test_a2_structures_outside_the_prior_are_refused(rng):
    """Rules of prior probability 0 were accepted from outside and then fed to log(0); they are a ValueError."""
    X = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0], [3.0, 1.0], [100.0, 0.0]])
    codes, coarse = bart.RankCodes(X), {"cuts": "grid", "n_cuts": 1}
    for structure, options in (
        ((0, 0, None, None), coarse),                               # no cut between 0 and 1
        ((0, 3, (0, 0, None, None), None), coarse),
        ((1, 0, None, None), {"dim_weights": (1, 0)}),
        ((0, 2, (1, 0, None, None), None), {"dim_weights": (1, 0)}),
    ):
        with pytest.raises(ValueError, match="structure: rule .* has prior probability 0"):
            TreeState(codes, bart.TreePrior(**options), structure)
        model = bart.Model(X, np.arange(5.0), n_trees=2, sigma_hat=1.0, **options)
        with pytest.raises(ValueError, match="structure: rule .* has prior probability 0"):
            bart.Ensemble(model, bart.CGM(), rng, init=[None, structure])
    assert TreeState(codes, bart.TreePrior(**coarse), (0, 3, None, None)).n_leaves == 2


def test_a3_a_restored_large_tree_and_the_refresh(rng):
    """Restoring reserved no room for a large tree's leaves, and sweep 100 wrote past the arrays; it reserves it."""
    X = rng.random((8000, 2))
    model = bart.Model(X, rng.standard_normal(8000), n_trees=2, alpha=0.99, beta=1e-4)
    ensemble = bart.Ensemble(model, bart.GrowPrune(), rng, init="overgrown", init_leaves=3000)
    ensemble.run(99)
    traces = np.empty((1, len(TRACES)))
    ensemble._kernel.advance(ensemble._plan, rng, traces, 0, None, rng, 1, 1)       # one tree of sweep 100
    assert (ensemble.n_sweeps, ensemble._kernel.position) == (99, 1)
    ensemble.trees[1].structure = None
    ensemble.recompute_residual()
    other = bart.Ensemble(model, bart.GrowPrune(), rng)
    other.set_state(ensemble.get_state())
    assert other.trees[0].n_leaves > 2900 and other.trees[1].n_leaves == 1
    other.run(1)
    assert other.n_sweeps == 100 and residual_error(other) < 1e-10


def test_a4_a_tree_outlives_its_ensemble(rng):
    """The cancel flag lay in the ensemble and was read after it was freed; it lives as long as the tree's scratch."""
    model, sampler = wave(rng), bart.ParticleGibbs(3)
    for _ in range(30):
        ensemble = bart.Ensemble(model, sampler, rng)
        state, size = ensemble.trees[0], type(ensemble._kernel).__basicsize__
        del ensemble
        gc.collect()
        junk = [b"\xff" * (size - 17 - less) for less in (0, 8, 16) for _ in range(100)]
        assert sampler.step(state, model.dataset.y_scaled, PARAMS, rng).n_stages > 0
        del junk


def test_a4_an_interrupt_before_the_ensemble_ends_a_step_of_its_tree(rng):
    """What `interrupt` asks of a tree that is left over is honoured once, from memory that is still there."""
    model, sampler = wave(rng), bart.ParticleGibbs(3)
    ensemble = bart.Ensemble(model, sampler, rng)
    state = ensemble.trees[0]
    ensemble.interrupt()
    del ensemble
    gc.collect()
    with pytest.raises(KeyboardInterrupt):
        sampler.step(state, model.dataset.y_scaled, PARAMS, rng)
    sampler.step(state, model.dataset.y_scaled, PARAMS, rng)


def test_a5_a_workspace_of_other_data():
    """Scratch made for five rows was taken for more rows and overrun; it must be of the tree's own Domain."""
    prior = bart.TreePrior()
    large = Domain(bart.RankCodes(np.arange(200.0).reshape(100, 2)), prior)
    small = Domain(bart.RankCodes(np.arange(5.0)[:, None]), prior)
    with pytest.raises(ValueError, match="workspace"):
        TreeState(large, workspace=Workspace(small))
    assert TreeState(large, workspace=Workspace(large)).n_leaves == 1


def test_a5_too_many_particles():
    """A number of particles beyond 32 bits overflowed in the plan; it is refused by name."""
    for n in (2**31 - 1, 2**31, 2**40):
        with pytest.raises(ValueError, match="n_particles"):
            bart.ParticleGibbs(n)


# ---------------------------------------------------------------------------------------------------------- exact laws


@pytest.mark.parametrize("inner", SAMPLERS)
def test_b1_leaf_values_drawn_before_a_compiled_step(inner, seed):
    """The step then took the residual with the new leaf values for its target; it sees the target it was given."""
    X, y = np.arange(6.0)[:, None], np.array([3.0, 3.2, 2.8, 3.1, 2.9, 3.0])
    model = bart.Model(X, y, n_trees=1, alpha=0.9, beta=1.0, sigma=1.0, leaf_var=9.0, leaf_mean=0.0, scale=False)
    law = Problem(X, y, 1.0, 9.0, alpha=0.9, beta=1.0).posterior().p_n_leaves()

    def run(n, repeat):
        sampler = Wrapped(SAMPLERS[inner], bart.draw_leaf_values)
        leaves = bart.Ensemble(model, sampler, np.random.default_rng([seed, repeat])).run(n + 100)["n_leaves"][100:]
        return {k: leaves == k for k in (1, 2, 3)}

    assert_means(run, {k: law[k - 1] for k in (1, 2, 3)}, 8000)     # the error: z of -10 to -13 for a stump


def test_b2_a_target_changed_in_place(rng):
    """A Python sampler could write into its target, and the step did not see it; the array is read-only."""
    def overwrite(state, target, params, rng):
        target *= 0.0

    ensemble = bart.Ensemble(wave(rng), Wrapped(bart.GrowPrune(), overwrite), rng)
    with pytest.raises(ValueError, match="read-only"):
        ensemble.run(1)
    ensemble.sampler = Wrapped(bart.GrowPrune(), lambda state, target, params, rng: target.copy().fill(0.0))
    ensemble.run(3)
    assert ensemble.n_sweeps == 3 and residual_error(ensemble) < 1e-12


FINE = {
    "few ulps": (1.0 + np.spacing(1.0) * np.array([0.0, 1.0, 3.0]), [1 / 3, 2 / 3]),
    "long ids": (2.0**52 + np.arange(6.0), [0.2] * 5),
}


@pytest.mark.parametrize("column", FINE)
def test_b3_gaps_of_a_few_ulps(column, rng):
    """Gaps were drawn on a scale rounded to the values' own ulps; the law of first rules is that of the widths."""
    values, widths = FINE[column]
    state = TreeState(bart.RankCodes(values[:, None]), bart.TreePrior(alpha=SURE, beta=50.0))
    counts = np.zeros(len(widths))
    for _ in range(20_000):
        state.draw_from_prior(rng)
        counts[state.structure[1]] += 1
    assert g_test(counts, widths) > LEVEL
    # The other path to a first rule: without data weight a free particle that survives is a draw from the prior.
    flat, empty = bart.StepParams(1e12, 1e-12), np.zeros(len(values))
    found = replicate(bart.ParticleGibbs(2), state, None, empty, flat, rng, 40_000)
    roots = np.zeros(len(widths))
    for key, count in found.items():
        dim, code = np.frombuffer(key, dtype=np.int64)[:2]
        if dim >= 0:
            roots[code] += count
    assert roots.sum() > 4000 and g_test(roots, widths) > LEVEL


@pytest.mark.parametrize("sampler", ["growprune", "cgm", "pg"])
def test_b3_chains_over_gaps_of_a_few_ulps(sampler, seed):
    """Proposals and the prior disagreed, so chains missed their law; root rules have the exact law."""
    X, y = FINE["few ulps"][0][:, None], np.array([0.0, 0.1, 0.2])
    model = bart.Model(X, y, n_trees=1, alpha=0.7, beta=1.0, sigma=0.5, leaf_var=0.2, leaf_mean=0.0, scale=False)
    law = Problem(X, y, 0.25, 0.2, alpha=0.7, beta=1.0).posterior()
    exact = {str(cell): p for cell, p in law.root_law().items()}

    def run(n, repeat):
        ensemble = bart.Ensemble(model, SAMPLERS[sampler], np.random.default_rng([seed, repeat]))
        store = ForestStore(1)
        ensemble.run(n, store=store)
        roots = store.nodes[store.starts[:-1]]
        found = {"stop": roots["dim"] < 0}
        return found | {str((0, g)): (roots["dim"] == 0) & (roots["value"] >= X[g, 0]) & (roots["value"] < X[g + 1, 0])
                        for g in range(2)}

    assert_means(run, exact, 30_000)


def test_b4_very_unequal_weights(rng):
    """The weights left after a constant column were a difference, 0 by rounding; they are summed: 1 to 3."""
    X = np.array([[0, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 1], [1, 0, 0], [1, 1, 1]], dtype=float)
    prior = bart.TreePrior(alpha=0.99, beta=0.0, dim_weights=(1, 1e-17, 3e-17))
    state, counts = TreeState(bart.RankCodes(X), prior), np.zeros(3, dtype=int)
    for _ in range(12_000):
        state.draw_from_prior(rng)
        tree = state.structure
        if tree is not None and tree[0] == 0 and tree[2] is not None:
            counts[tree[2][0]] += 1
    assert counts.sum() > 10_000 and g_test(counts, [0.0, 0.25, 0.75]) > LEVEL


# --------------------------------------------------------------------------------------- interrupts and partial changes


@pytest.mark.parametrize("inner", SAMPLERS)
def test_c1_one_interrupt_of_a_python_sampler(inner, rng):
    """One `interrupt` was ignored by local moves and ended every later run with particles; it ends one run."""
    ensemble = bart.Ensemble(wave(rng), Wrapped(SAMPLERS[inner]), rng)
    ensemble.run(5)
    ensemble.interrupt()
    with pytest.raises(KeyboardInterrupt):
        ensemble.run(3)
    assert residual_error(ensemble) < 1e-12
    runs_through(ensemble, 5)
    assert residual_error(ensemble) < 1e-12


@pytest.mark.parametrize("inner", SAMPLERS)
def test_c1_an_interrupt_within_a_step_of_a_python_sampler(inner, rng):
    """As above, asked for while the sampler has control: the tree, the residual and later runs are sound."""
    asked = []

    def ask(state, target, params, rng):
        if not asked:
            asked.append(True)
            ensemble.interrupt()

    ensemble = bart.Ensemble(wave(rng), Wrapped(SAMPLERS[inner], ask), rng)
    with pytest.raises(KeyboardInterrupt):
        ensemble.run(5)
    assert ensemble.n_sweeps == 0 and residual_error(ensemble) < 1e-12
    runs_through(ensemble, 5)
    assert ensemble.n_sweeps == 5 and residual_error(ensemble) < 1e-12


LONG_STEP = """
import sys, time
import numpy as np
import bart
rng = np.random.default_rng(int(sys.argv[1]))
X = rng.random((400_000, 5))
y = np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(len(X))
state = bart.TreeState(bart.RankCodes(X), bart.TreePrior(alpha=0.99, beta=0.05))
sampler, params = bart.ParticleGibbs(200), bart.StepParams(0.01, 1.0)
print("ready", flush=True)
try:
    for _ in range(3):
        sampler.step(state, y, params, rng)
    print("lost", flush=True)
except KeyboardInterrupt:
    print(time.monotonic(), flush=True)
"""


def test_c2_ctrl_c_within_one_particle_step(seed):
    """Signals waited for the end of a whole particle step, seconds on large data; they are seen between stages."""
    child = subprocess.Popen([sys.executable, "-c", LONG_STEP, str(seed)], stdout=subprocess.PIPE, text=True,
                             env=child_environment())
    try:
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.3)                                     # some stages into the first step
        sent = time.monotonic()                             # one clock for all processes
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=120)
    finally:
        child.kill()
        child.wait()
    assert out != "lost\n", "the signal was swallowed"
    assert child.returncode == 0 and float(out) - sent < 1.5


def test_c3_a_refused_structure_leaves_the_tree(rng):
    """A structure refused half-way left a stump under an old residual; all of it is taken, or nothing."""
    ensemble = bart.Ensemble(wave(rng), bart.CGM(), rng, init="overgrown", init_leaves=6)
    ensemble.run(20)
    before, residual = [state.dump().tobytes() for state in ensemble.trees], ensemble.residual.copy()
    rows = ensemble.trees[0].leaf_of_row
    for structure in ((0, 10**6, None, None), (0, 50, (0, 60, None, None), None), (2, 0, None, None),
                      (0, 50, None, (0, 10**6, None, None)), (0, 50)):
        with pytest.raises(ValueError):
            ensemble.trees[0].structure = structure
        assert [state.dump().tobytes() for state in ensemble.trees] == before
    np.testing.assert_array_equal(ensemble.trees[0].leaf_of_row, rows)
    np.testing.assert_array_equal(ensemble.residual, residual)
    assert residual_error(ensemble) < 1e-12


def test_c4_changes_of_the_state_by_hand(rng):
    """Trees changed by hand left the residual wrong for good, sigma2 had no setter; both have a way in."""
    model = wave(rng, sigma=0.5)
    ensemble = bart.Ensemble(model, bart.GrowPrune(), rng)
    ensemble.run(5)
    ensemble.trees[0].structure = (0, 99, None, (1, 40, None, None))
    ensemble.trees[0].leaf_values = [0.1, -0.2, 0.3]
    assert residual_error(ensemble) > 1e-3
    ensemble.recompute_residual()
    assert residual_error(ensemble) < 1e-12
    ensemble.run(5)                                         # and the change was not taken for one of y
    assert residual_error(ensemble) < 1e-12 and ensemble.get_state()["y"] is None
    ensemble.sigma2 = 0.01
    assert ensemble.sigma == pytest.approx(0.1 * model.dataset.y_range)
    np.testing.assert_allclose(ensemble.run(2)["sigma"], 0.1 * model.dataset.y_range)
    for wrong in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="sigma2"):
            ensemble.sigma2 = wrong


# ---------------------------------------------------------------------------------------------------------- thresholds


def stored_thresholds(model, rng, n_sweeps):
    store = ForestStore(model.n_trees)
    bart.Ensemble(model, bart.ParticleGibbs(3), rng).run(n_sweeps, store=store)
    nodes = store.nodes
    return nodes["value"][nodes["dim"] >= 0]


def test_d7_thresholds_in_a_gap_whose_width_overflows(rng):
    """Beyond the largest double every threshold was the gap's low end; it is uniform in the gap, or its midpoint."""
    X, y = np.array([[-1.7e308], [1.7e308]]), np.array([0.0, 1.0])
    options = {"alpha": 0.95, "beta": 2.0, "sigma": 10.0}
    tau = stored_thresholds(bart.Model(X, y, n_trees=5, **options), rng, 600)
    assert len(tau) > 1000 and np.isfinite(tau).all()
    assert stats.kstest((tau / 1.7e308 + 1.0) / 2.0, "uniform").pvalue > LEVEL
    tau = stored_thresholds(bart.Model(X, y, n_trees=2, threshold="midpoint", **options), rng, 50)
    assert len(tau) > 20 and (tau == 0.0).all()


def test_d7_thresholds_from_a_large_grid(rng):
    """The cuts of a gap were searched one by one over the grid; by bisection they are the same, uniformly drawn."""
    X, n_cuts = np.array([[0.0], [0.5], [0.75], [1.0]]), 300_000
    model = bart.Model(X, np.arange(4.0), n_trees=20, alpha=0.95, beta=1.0, sigma=20.0, cuts="grid", n_cuts=n_cuts)
    began = time.thread_time()
    tau = stored_thresholds(model, rng, 400)
    assert time.thread_time() - began < 2.0
    cuts = model.tree_prior.grid(X[:, 0])
    assert len(cuts) == n_cuts and np.isin(tau, cuts).all()
    for low, high in ((0.0, 0.5), (0.5, 0.75), (0.75, 1.0)):
        within = tau[(tau >= low) & (tau < high)]
        assert len(within) > 500 and stats.kstest((within - low) / (high - low), "uniform").pvalue > LEVEL


def test_c4_labels_that_move_while_they_describe_nodes():
    """From 256 leaves to more, labels take two bytes and move. Rows of new leaves were still looked up in the old
    place, so that labels, rules and counts of the tree disagreed (split of a large, deep leaf of the old tree).

    In a process where the C library overwrites what is freed.
    """
    environment = child_environment() | {"MALLOC_PERTURB_": "165"}
    environment["PYTHONPATH"] += os.pathsep + os.path.dirname(__file__)
    subprocess.run([sys.executable, "-c", "import test_regressions; test_regressions.split_past_256_leaves()"],
                   env=environment, check=True)


def test_c5_an_interrupt_of_many_particles_on_few_rows(rng):
    """One call of the compiled sweep took half a minute: its work was counted by rows, and nodes cost something too."""
    X = rng.random((24, 2))
    ensemble = bart.Ensemble(bart.Model(X, X[:, 0], n_trees=1, alpha=0.99, beta=0.1), bart.ParticleGibbs(100), rng)
    timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
    began = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        ensemble.run(10**6)
    assert time.monotonic() - began < 5.0
    timer.join()


def test_c6_an_interrupt_of_moves_that_weigh_many_columns(rng):
    """One call of the compiled sweep took six seconds: the rows of histograms were not counted."""
    X = rng.random((4000, 1000))
    model = bart.Model(X, X[:, 0], n_trees=20, sigma_hat=1.0)
    ensemble = bart.Ensemble(model, bart.Cycle(bart.Local(), bart.Recut(None)), rng, init="overgrown")
    timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
    began = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        ensemble.run(10**6)
    assert time.monotonic() - began < 5.0
    timer.join()


def split_past_256_leaves():
    n = 20_000
    noise = np.random.default_rng(0).standard_normal(n)
    cut = 254 + int(0.575 * n)
    y = 0.1 * noise
    y[:254] = np.where(np.arange(254) % 2, 300.0, -300.0) + 50 * noise[:254]
    y[cut + 1:] += 20.0 + (np.arange(n - cut - 1) >= (n - cut) // 2)
    model = bart.Model(np.arange(n)[:, None], y, n_trees=1, alpha=0.5, beta=0.0, sigma=1.0, leaf_var=1e4, leaf_mean=0.0,
                       scale=False)
    tree = (0, cut, None, None)
    for code in range(253, 245, -1):
        tree = (0, code, None, tree)
    tree = (0, 245, balanced(0, 246), tree)
    ensemble = bart.Ensemble(model, bart.ParticleGibbs(20), np.random.default_rng(2), init=[tree])
    assert ensemble.trees[0].n_leaves == 256
    while (state := ensemble.trees[0]).n_leaves <= 256:
        assert ensemble.n_sweeps < 100, "the move that is tested never came"
        ensemble.run(1)
    labels, nodes = state.leaf_of_row, state.dump()
    at = np.zeros(n, dtype=int)
    while (inner := nodes["left"][at] >= 0).any():
        above = model.codes.codes[nodes["dim"][at[inner]], inner] > nodes["code"][at[inner]]
        at[inner] = nodes["left"][at[inner]] + above
    np.testing.assert_array_equal(nodes["leaf"][at], labels)
    np.testing.assert_array_equal(np.bincount(labels, minlength=state.n_leaves), state.leaf_counts())


def balanced(first, end):
    """A tree over column 0 with a leaf for each of the rows first..end-1."""
    if end - first == 1:
        return None
    middle = (first + end) // 2
    return 0, middle - 1, balanced(first, middle), balanced(middle, end)
