"""Chains: what holds after any sweep, what a change of the residual stands for, and what traces mean."""

import hashlib
import pickle
import re
from itertools import product

import numpy as np
import pytest
from checks import check_state
from oracle import Problem
from scipy import stats
from sweep_helpers import ORDERS, SAMPLERS, STARTS, TRACES, make_data, run_store

import bart

LEVEL = 1e-5
KINDS = ("ties", "constant column", "all constant", "two distinct rows", "one row", "two rows", "three rows", "wide")


def check_residual(ensemble, y_scaled=None):
    y_scaled = ensemble.model.dataset.y_scaled if y_scaled is None else y_scaled
    expected = y_scaled - sum(state.fit() for state in ensemble.trees)
    np.testing.assert_allclose(ensemble.residual, expected, rtol=0, atol=1e-9)


def check_counts(state):
    np.testing.assert_array_equal(np.bincount(state.leaf_of_row, minlength=state.n_leaves), state.leaf_counts())


# ------------------------------------------------------------------------------------------------ invariants


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_invariants_after_sweeps(sampler, kind, rng):
    """Every start and order: partition, counts, no empty leaf, rules in the support, residual, finite traces."""
    X, y = make_data(kind, rng)
    for start, order, cuts in product(STARTS, ORDERS, ("width", "grid")):
        options = {"cuts": "grid", "n_cuts": 5} if cuts == "grid" else {}
        model = bart.Model(X, y, n_trees=3, sigma_hat=1.0, beta=0.5, **options)
        ensemble = bart.Ensemble(model, SAMPLERS[sampler], rng, init=start, tree_order=order)
        problem = Problem(X, y, 1.0, 1.0, alpha=0.95, beta=0.5, **options)
        for n in (0, 1, 12):
            traces = ensemble.run(n)
            assert all(np.isfinite(values).all() for values in traces.values())
            for state in ensemble.trees:
                check_state(problem, state)
                check_counts(state)
            check_residual(ensemble)
        assert ensemble.sigma > 0 and np.isfinite(ensemble.fit()).all()


def check_labels(state, codes):
    """The leaf number of each row by its codes, for trees too large for the slow model."""
    waiting, leaves = [(state.structure, np.arange(codes.shape[1]))], []
    while waiting:
        tree, rows = waiting.pop()
        if tree is None:
            leaves.append(rows)
            continue
        left = codes[tree[0], rows] <= tree[1]
        waiting += [(tree[2], rows[left]), (tree[3], rows[~left])]
    labels, seen = state.leaf_of_row, []
    for rows in leaves:
        assert len(rows) > 0, "empty leaf"
        assert (labels[rows] == labels[rows[0]]).all(), "partition"
        seen.append(labels[rows[0]])
    assert sorted(seen) == list(range(state.n_leaves)), "leaf numbers"


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_more_than_256_leaves(sampler, rng):
    """Leaf numbers take two bytes, in all kernels; the state moves over to another ensemble."""
    X = rng.random((2000, 3))
    model = bart.Model(X, X[:, 0] + rng.standard_normal(2000), n_trees=2, alpha=0.999, beta=0.01)
    ensemble = bart.Ensemble(model, SAMPLERS[sampler], rng, init="overgrown", init_leaves=300)
    assert [state.n_leaves for state in ensemble.trees] == [300, 300]
    for _ in range(3):
        ensemble.run(4)
        for state in ensemble.trees:
            check_labels(state, model.codes.codes)
            check_counts(state)
            np.testing.assert_array_equal(state.leaf_values[state.leaf_of_row], state.fit())
        check_residual(ensemble)
    other = bart.Ensemble(model, SAMPLERS[sampler], np.random.default_rng(), init="empty")
    other.set_state(ensemble.get_state())
    other.rng.bit_generator.state = rng.bit_generator.state
    assert run_store(other, 3) == run_store(ensemble, 3)


def test_labels_widen_and_the_tree_shrinks_again(rng):
    """From one to two bytes and back to few leaves, by grow and prune alone, against a restored copy."""
    X = rng.random((2000, 2))
    model = bart.Model(X, rng.standard_normal(2000), n_trees=1, alpha=0.3, beta=2.0)
    sampler = bart.GrowPrune(0.05)
    ensemble = bart.Ensemble(model, sampler, rng, init="overgrown", init_leaves=257)
    ensemble.run(600)
    assert ensemble.trees[0].n_leaves < 250
    check_labels(ensemble.trees[0], model.codes.codes)
    check_residual(ensemble)
    narrow = bart.Ensemble(model, sampler, np.random.default_rng())
    narrow.set_state(ensemble.get_state())
    narrow.rng.bit_generator.state = rng.bit_generator.state
    assert run_store(narrow, 50) == run_store(ensemble, 50)


def balanced(low, high):
    """A tree with one leaf for each of the codes low..high of column 0."""
    if low == high:
        return None
    cut = (low + high) // 2
    return (0, cut, balanced(low, cut), balanced(cut + 1, high))


@pytest.mark.long
def test_more_than_65536_leaves(rng):
    """Leaf numbers of four bytes."""
    n = 66_000
    model = bart.Model(np.arange(n)[:, None], rng.standard_normal(n), n_trees=1, alpha=0.999, beta=0.001)
    ensemble = bart.Ensemble(model, bart.GrowPrune(), rng, init=[balanced(0, n - 1)])
    assert ensemble.trees[0].n_leaves == n
    other = bart.Ensemble(model, bart.CGM(), rng)
    other.set_state(ensemble.get_state())
    for one in (ensemble, other):
        one.run(5)
        check_labels(one.trees[0], model.codes.codes)
        check_counts(one.trees[0])
        check_residual(one)


# ------------------------------------------------------------------------------------------------- the residual


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_rounding_does_not_pile_up(sampler, rng):
    X, y = make_data("ties", rng)
    ensemble = bart.Ensemble(bart.Model(X, y, n_trees=20), SAMPLERS[sampler], rng)
    for n in (99, 1, 1, 250):
        ensemble.run(n)
        check_residual(ensemble)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_change_of_the_residual_stands_for_a_change_of_y(sampler, seed):
    """Also across the sweeps in which the residual is summed anew, and after a move to another ensemble."""
    rng = np.random.default_rng(seed)
    X, y = make_data("ties", rng)
    delta = rng.standard_normal(len(y))
    options = {"n_trees": 3, "scale": False, "sigma": 0.8, "leaf_var": 0.5}
    model, sampler = bart.Model(X, y, **options), SAMPLERS[sampler]
    ensemble = bart.Ensemble(model, sampler, np.random.default_rng(seed))
    ensemble.residual[:] += delta
    other = bart.Ensemble(bart.Model(X, y + delta, **options), sampler, np.random.default_rng(seed))
    for n in (7, 120, 90):
        ensemble.run(n)
        other.run(n)
        assert ensemble.structures() == other.structures()
        check_residual(ensemble, y + delta)
        np.testing.assert_allclose(ensemble.residual, other.residual, rtol=0, atol=1e-9)
    moved = bart.Ensemble(model, sampler, np.random.default_rng())
    moved.set_state(pickle.loads(pickle.dumps(ensemble.get_state())))
    moved.rng.bit_generator.state = ensemble.rng.bit_generator.state
    moved.residual[:] -= delta
    moved.run(130)
    check_residual(moved)
    ensemble.residual[:] -= delta
    state = ensemble.get_state()        # taken right after a change, before any run
    late = bart.Ensemble(model, sampler, np.random.default_rng())
    late.set_state(state)
    late.run(100)
    check_residual(late)


def test_unchanged_residuals_keep_y(rng):
    X, y = make_data("ties", rng)
    ensemble = bart.Ensemble(bart.Model(X, y, n_trees=3), bart.CGM(), rng)
    for _ in range(120):
        ensemble.sweep()
    assert ensemble.get_state()["y"] is None


# ------------------------------------------------------------------------------------------- sigma2, temperature


@pytest.mark.parametrize("shape, t", [("half", 1.0), ("half", 0.3), ("full", 2.0)])
def test_sigma2_follows_its_conditional(shape, t, rng):
    """InvGamma(shape + t N / 2, rate + t SSR / 2) given the residual before the sweep: Kolmogorov-Smirnov."""
    X, y = make_data("ties", rng)
    model = bart.Model(X, y, n_trees=3, noise_shape=shape)
    ensemble, u = bart.Ensemble(model, bart.CGM(), rng), []
    ensemble.temperature, noise = t, model.noise_prior
    for _ in range(2_500):
        rate = noise.rate + t * (ensemble.residual @ ensemble.residual) / 2
        ensemble.run(1)
        u.append(stats.gamma.cdf(rate / ensemble.sigma2, noise.shape + t * len(y) / 2))
    assert stats.kstest(u, "uniform").pvalue > LEVEL


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_temperature_divides_the_variance(sampler, seed):
    """With fixed noise, temperature 1/4 is twice the standard deviation, bit for bit."""
    X, y = make_data("ties", np.random.default_rng(seed))
    made = [bart.Ensemble(bart.Model(X, y, n_trees=4, sigma=sigma), SAMPLERS[sampler], np.random.default_rng(seed))
            for sigma in (0.25, 0.5)]
    made[0].temperature = 0.25
    traces = [ensemble.run(60) for ensemble in made]
    assert made[0].structures() == made[1].structures() and made[0].residual.tobytes() == made[1].residual.tobytes()
    np.testing.assert_array_equal(traces[0]["n_leaves"], traces[1]["n_leaves"])
    assert (traces[0]["sigma"] == traces[0]["sigma"][0]).all() and traces[0]["sigma"][0] == pytest.approx(0.25)
    for value in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="temperature"):
            made[0].temperature = value


def test_fixed_noise_stays_and_draws_nothing(rng):
    """On stumps a sweep of one tree costs the draws of the step and of one leaf value alone."""
    y = np.array([0.0, 1.0, 4.0])
    model = bart.Model(np.zeros((3, 1)), y, n_trees=1, sigma=0.7)
    ensemble = bart.Ensemble(model, bart.ParticleGibbs(1), rng)
    other = np.random.default_rng()
    other.bit_generator.state = rng.bit_generator.state
    traces = ensemble.run(5)
    state = bart.TreeState(model.codes, model.tree_prior)
    params = bart.StepParams(model.noise_prior.sigma2, model.leaf_prior.var)
    for _ in range(5):
        bart.draw_leaf_values(state, model.dataset.y_scaled, params, other)
    assert other.bit_generator.state == rng.bit_generator.state
    np.testing.assert_allclose(state.fit(), ensemble.trees[0].fit(), rtol=1e-12)
    np.testing.assert_allclose(traces["sigma"], 0.7, rtol=1e-14)


# -------------------------------------------------------------------------------------------------------- traces


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_traces_are_what_they_say(sampler, order, rng):
    """In the units of y, recomputed from what the ensemble shows after each sweep."""
    X, y = make_data("ties", rng)
    y = 1000.0 * y - 50.0
    model = bart.Model(X, y, n_trees=4)
    ensemble = bart.Ensemble(model, SAMPLERS[sampler], rng, init="prior", tree_order=order)
    for _ in range(130):
        before = ensemble.structures()
        traces, after = ensemble.sweep(), ensemble.structures()
        assert traces["sigma"] == pytest.approx(ensemble.sigma, rel=1e-14)
        assert ensemble.sigma == pytest.approx(np.sqrt(ensemble.sigma2) * np.ptp(y), rel=1e-14)
        f = ensemble.fit()
        np.testing.assert_allclose(f, model.dataset.to_y(sum(t.fit() for t in ensemble.trees)), rtol=1e-12)
        level = stats.norm.logpdf(y, f, ensemble.sigma).sum()
        assert traces["log_likelihood"] == pytest.approx(level, rel=1e-9)
        assert ensemble.log_likelihood == pytest.approx(level, rel=1e-9)
        assert traces["n_leaves"] == sum(state.n_leaves for state in ensemble.trees)
        assert traces["depth"] == max(state.depth for state in ensemble.trees)
        pairs = list(zip(before, after, strict=True))
        changed = np.mean([a != b for a, b in pairs])
        root_changed = np.mean([(a and a[:2]) != (b and b[:2]) for a, b in pairs])
        if sampler in ("cycle", "mixture", "transpose"):    # counts changes that a later part undoes
            assert traces["tree_changed"] >= changed and traces["root_changed"] >= root_changed
        elif sampler == "slide":                            # what is done between sweeps does not count
            assert traces["tree_changed"] <= changed and traces["root_changed"] <= root_changed
        else:
            assert (traces["tree_changed"], traces["root_changed"]) == (changed, root_changed)
        assert traces["seconds"] >= 0.0


def test_shapes_and_types_of_traces(rng):
    X, y = make_data("ties", rng)
    ensemble = bart.Ensemble(bart.Model(X, y, n_trees=2), bart.GrowPrune(), rng)
    for n in (0, 1, 5):
        traces = ensemble.run(n)
        assert list(traces) == [*TRACES, "seconds"]
        for name, values in traces.items():
            whole = name in ("n_leaves", "depth", "row_visits")
            assert values.shape == (n,) and values.dtype == (np.int64 if whole else np.float64)
    assert ensemble.n_sweeps == 6


# ------------------------------------------------------------------------------------------- starts, bad input


def test_given_structures_are_the_start(rng):
    """Leaf values from their posterior given the trees before them."""
    X, y = np.arange(8.0)[:, None], np.repeat([0.0, 1.0], 4)
    model = bart.Model(X, y, n_trees=2, sigma=1e-4, k=1.0)
    trees = [(0, 3, None, None), (0, 1, None, (0, 5, None, None))]
    ensemble = bart.Ensemble(model, bart.CGM(), rng, init=trees)
    assert ensemble.structures() == trees
    np.testing.assert_allclose(ensemble.fit(), y, atol=1e-3)
    check_residual(ensemble)


@pytest.mark.parametrize("options, message", [
    ({"init": "full"}, "init must be one of"), ({"init": [None]}, "init must hold one structure for each of 2"),
    ({"init": [None, (0, 99, None, None)]}, "rule (0, 99) is no gap"), ({"tree_order": "reverse"}, "tree_order"),
    ({"init": "overgrown", "init_leaves": 0}, "init_leaves"),
    ({"init": "overgrown", "init_leaves": 2.0}, "init_leaves"),
])
def test_bad_arguments_are_refused_by_name(options, message, rng):
    X, y = make_data("ties", rng)
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        bart.Ensemble(bart.Model(X, y, n_trees=2), bart.CGM(), rng, **options)


def test_other_bad_input_is_refused(rng):
    X, y = make_data("ties", rng)
    model = bart.Model(X, y, n_trees=2)
    ensemble = bart.Ensemble(model, bart.CGM(), rng)
    for name, arguments in (("n_sweeps", (-1,)), ("n_sweeps", (1.0,)), ("store_every", (1, None, 0))):
        with pytest.raises((TypeError, ValueError), match=name):
            ensemble.run(*arguments)
    state = ensemble.get_state()
    for other in (bart.Model(X, y, n_trees=3), bart.Model(X[:5], y[:5], n_trees=2)):
        with pytest.raises(ValueError, match="another model"):
            bart.Ensemble(other, bart.CGM(), rng).set_state(state)


def damage(state, kind):
    """One number of a state, of a root with two leaves, is made another."""
    root, leaf, other = (state["trees"][1][place : place + 1] for place in range(3))
    fields = {"leaf": (leaf, other["leaf"]), "leaf number": (leaf, 3), "left": (leaf, 1), "no left": (root, 2**31 - 1),
              "parent": (other, 1), "depth": (leaf, -1), "dim": (root, 9), "code": (root, 2**31), "n": (leaf, 0),
              "can_split": (leaf, 5), "staged": (root, -1), "value": (leaf, np.nan)}  # fmt: skip
    if kind in fields:
        nodes, value = fields[kind]
        nodes[kind.split()[-1] if kind != "leaf number" else "leaf"] = value
    elif kind == "rows":
        leaf["n"] -= 1
        other["n"] += 1
    elif kind == "nodes":
        state["trees"][1] = state["trees"][1][:2]
    elif kind == "dtype":
        state["trees"][1] = state["trees"][1]["n"]
    elif kind == "shape":
        state["residual"] = state["residual"][:, None]
    else:
        state[kind] = {"residual": state["residual"] * np.nan, "y": np.ones(1), "sigma2": -1.0, "temperature": 0.0,
                       "leaf_prior": (0.0, np.inf), "sweep_top": np.nan, "row_visits": -1, "changed": (0, 0.5),
                       "order": [1, 1], "position": 3, "weights": np.zeros(len(state["residual"]))}[kind]  # fmt: skip


@pytest.mark.parametrize("kind", [
    "leaf", "leaf number", "left", "no left", "parent", "depth", "dim", "code", "n", "can_split", "staged", "value",
    "rows", "nodes", "dtype", "shape", "residual", "y", "sigma2", "temperature", "leaf_prior", "sweep_top",
    "row_visits", "changed", "order", "position", "weights",
])
def test_a_damaged_state_is_refused(kind, rng):
    X, y = make_data("ties", rng)
    model = bart.Model(X, y, n_trees=2)
    ensemble = bart.Ensemble(model, bart.CGM(), rng, init="overgrown", init_leaves=2)
    other = bart.Ensemble(model, bart.CGM(), rng)
    other.set_state(ensemble.get_state())
    state = ensemble.get_state()
    damage(state, kind)
    with pytest.raises((ValueError, TypeError), match="state|weights"):
        other.set_state(state)
    other.run(3)                        # no kernel is misled by what is left


@pytest.mark.parametrize("init", [3, None])
def test_a_start_of_another_type_is_refused_by_name(init, rng):
    X, y = make_data("ties", rng)
    with pytest.raises((TypeError, ValueError), match=r"\binit\b"):
        bart.Ensemble(bart.Model(X, y, n_trees=2), bart.CGM(), rng, init=init)


def test_the_model_is_left_alone(rng):
    """Chains change neither the data nor the priors of their model."""
    X, y = make_data("ties", rng)
    model = bart.Model(X, y, n_trees=3)
    before = hashlib.sha256(pickle.dumps(model)).hexdigest()
    ensemble = bart.Ensemble(model, bart.ParticleGibbs(3), rng)
    ensemble.residual[:] += 1.0
    ensemble.run(110)
    assert hashlib.sha256(pickle.dumps(model)).hexdigest() == before
