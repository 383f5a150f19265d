"""Inputs that broke other software of this field. Each probe is tested here, or where the table says.

 1, 2  here                                            15  here; test_sampling::test_small_data,
 3     test_kernel_prior (all)                             test_posterior::test_one_row_no_row_one_cell
 4     test_sampling::test_numbers_that_do_not_divide  16  here; test_model::test_awkward_y,
 5     test_sampling::test_fixed_noise_is_in_the_...       test_model::test_constant_y_needs_a_noise_level
 6     here; test_sampling::test_stored_draws_...,     17  test_data::test_the_first_value_that_is_not_finite_...,
       test_twins_compiled (every particle)                test_posterior::test_bad_rows_are_refused; here
 7     test_kernel_nodes::test_resamplers_...          18  test_data::test_forms_of_y, ::test_pandas_...; here
 8     test_kernel_prior::test_exchangeable_...,       19  test_data::test_new_rows, ::test_pandas_new_rows_...,
       ::test_columns_of_weight_zero_...                   test_posterior::test_columns_of_a_frame_are_checked
 9     here                                            21  test_samplers::test_two_ensembles_in_turn_...
11     test_posterior::test_a_new_process_...,         22  here; test_sampling::test_every_...,
       ::test_a_file_without_trees_refuses_to_predict      ::test_..._change_nothing
13     here; test_sampling::test_small_data            23  test_sampling::test_chains_are_pairwise_different_...,
14     here; test_sampling::test_small_data                ::test_threads_change_nothing
26     here; test_sampling::test_an_interrupt_...      24  here; test_sampling (the part "Size")
                                                       28  here
"""

import logging
import pickle
import signal
import threading
import time

import numpy as np
import pytest
from bart.kernels.testing import replicate
from chain_helpers import assert_same, make_model
from compiled import make_params, make_state
from laws import g_test
from oracle import Problem
from sweep_helpers import IRREDUCIBLE as SAMPLERS
from sweep_helpers import OF_TREES, STARTS

import bart
from bart.sampling import bytes_per_draw

LEVEL = 1e-5
EXACT = [name for name in SAMPLERS if name in OF_TREES and name != "pg-authors"]
SIZE = {"n_burn": 3, "n_draws": 10, "n_chains": 2, "seed": 5, "progress": False}


# ------------------------------------------------------------------------------------------- wrong results


@pytest.mark.parametrize("leaf_var, known", [(1.0, 0.8562), (0.04, 0.8995)])
@pytest.mark.parametrize("sampler", EXACT)
def test_probe_1_and_2_six_rows_in_two_groups(sampler, leaf_var, known, rng):
    """P(the tree splits), by independent short chains: v = sigma2 + n leaf_var is 4 and 7, or 1.12 and 1.24."""
    split = 0.9 * np.sqrt((1 + 6 * leaf_var) / (1 + 3 * leaf_var) ** 2)
    p = split / (0.1 + split)
    assert p == pytest.approx(known, abs=5e-5)
    problem = Problem([[0.0]] * 3 + [[1.0]] * 3, np.zeros(6), 1.0, leaf_var, alpha=0.9, beta=2.0)
    state, params = make_state(problem), make_params(problem)
    stump, tree = make_state(problem), make_state(problem, (0, 0, None, None))
    starts, counts = rng.multinomial(100_000, [1 - p, p]), np.zeros(2, dtype=int)
    for start, n in zip((None, (0, 0, None, None)), starts, strict=True):
        found = replicate(SAMPLERS[sampler], state, start, problem.target, params, rng, int(n))
        counts += [found.pop(stump.key(), 0), found.pop(tree.key(), 0)]
        assert not found, "the children cannot split"
    assert g_test(counts, [1 - p, p]) > LEVEL
    X, y = problem.X, problem.target
    model = bart.Model(X, y, n_trees=2_000, alpha=0.9, leaf_var=leaf_var, sigma=1e3, scale=False)
    ensemble = bart.Ensemble(model, SAMPLERS[sampler], rng)     # no data weight: the prior itself, .9
    traces = ensemble.run(60)
    split = traces["n_leaves"][-1] - 2_000
    assert g_test([2_000 - split, split], [0.1, 0.9]) > LEVEL


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_probe_6_stored_draws_differ_where_trees_changed(sampler):
    """Draw by draw, and each tree whose structure is kept keeps its rules."""
    post = bart.sample(make_model(n_trees=2), SAMPLERS[sampler], **SIZE | {"n_draws": 80})
    for chain, forest in enumerate(post.forests):
        bounds = forest.starts[::2]
        draws = [forest.nodes[a:b].tobytes() for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
        assert len(set(draws)) == len(draws)
        shapes = [forest.nodes[["dim", "left"]][a:b].tolist() for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
        changed = post["tree_changed"][chain] > 0
        assert changed.any()
        for i in range(1, len(shapes)):
            assert changed[i] or shapes[i] == shapes[i - 1]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_probe_9_the_callers_arrays_are_unchanged_after_a_run(sampler, rng):
    X = np.column_stack([rng.integers(0, 3, 30), rng.integers(0, 2, 30)])
    for form in (X, X.astype(float), np.asfortranarray(X, dtype=np.float32)):
        y = X[:, 0] + rng.standard_normal(30)
        before = form.tobytes(), y.tobytes()
        post = bart.sample(bart.Model(form, y, n_trees=3), SAMPLERS[sampler], **SIZE)
        post.predict(form)
        assert (form.tobytes(), y.tobytes()) == before and form.flags.writeable and y.flags.writeable


# ------------------------------------------------------------------------------- shapes and degenerate inputs


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_probe_13_constant_columns(sampler, rng):
    """Among others a constant column is never used; alone it leaves stumps, from every start."""
    X = rng.random((50, 3))
    X[:, 1] = 0.1
    for start in STARTS:
        for columns in (X, X[:, [1, 1]]):
            post = bart.sample(bart.Model(columns, X[:, 0], n_trees=3), SAMPLERS[sampler], init=start, **SIZE)
            used = np.unique([forest.nodes["dim"][forest.nodes["dim"] >= 0] for forest in post.forests[:1]])
            assert 1 not in used
            if columns.shape[1] == 2:
                assert (post.sweeps["n_leaves"] == 3).all() and (post.sweeps["depth"] == 0).all()
                assert (post.sweeps["tree_changed"] == 0).all()
                f = post.predict(columns, draws=True).draws
                assert (f == f[..., :1]).all()


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_probe_14_identical_rows_and_two_distinct_rows(sampler, rng):
    y = rng.standard_normal(1000)
    for start in STARTS:
        for X, most in ((np.full((1000, 2), 4.0), 1), (np.repeat([[0.0, 1.0], [1.0, 0.0]], 500, axis=0), 2)):
            post = bart.sample(bart.Model(X, y, n_trees=2), SAMPLERS[sampler], init=start, **SIZE)
            assert (post.sweeps["n_leaves"] <= 2 * most).all() and (post.sweeps["depth"] <= most - 1).all()


@pytest.mark.parametrize("n_rows, n_dims", [(1, 1), (2, 1), (3, 1), (1, 5), (3, 40), (2, 300)])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_probe_15_few_rows_many_columns(sampler, n_rows, n_dims, rng):
    X = rng.random((n_rows, n_dims))
    model = bart.Model(X, np.arange(n_rows), n_trees=2, sigma_hat=0.5)
    post = bart.sample(model, SAMPLERS[sampler], **SIZE)
    for n in (0, 1, 7):
        found = post.predict(rng.random((n, n_dims)), draws=True)
        assert found.draws.shape == (2, 10, n) and np.isfinite(found.draws).all()


AWKWARD = {
    "1e12 + {0, 1}": lambda y: 1e12 + (y > 0),
    "1e-12 units": lambda y: 1e-12 * y,
    "an outlier of 1e9": lambda y: np.where(np.arange(len(y)) == 3, 1e9, y),
    "two values": lambda y: (y > 0).astype(float),
    "constant, sigma given": lambda y: np.full(len(y), 3.0),
    "tiny and constant": lambda y: np.full(len(y), 1e-300),
}


@pytest.mark.parametrize("kind", AWKWARD)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_probe_16_awkward_y(sampler, kind, rng):
    """Finite traces and predictions on the scale of y, or a clear error before any work."""
    X = rng.random((40, 2))
    y = AWKWARD[kind](rng.standard_normal(40) + 3 * X[:, 0])
    if np.ptp(y) == 0:
        with pytest.raises(ValueError, match="y is constant"):
            bart.Model(X, y, n_trees=3)
    model = bart.Model(X, y, n_trees=3, **({} if np.ptp(y) > 0 else {"sigma": 1.0}))
    post = bart.sample(model, SAMPLERS[sampler], **SIZE | {"n_draws": 120, "n_chains": 4})
    for name in post:
        assert np.isfinite(post.sweeps[name]).all()
    f, width = post.predict(X, draws=True).draws, max(np.ptp(y), 1.0 if np.ptp(y) == 0 else 0.0)
    assert np.isfinite(f).all() and (np.abs(f - (y.max() + y.min()) / 2) < 10 * width).all()
    assert (post.sweeps["sigma"] > 0).all() and (post.sweeps["sigma"] < 10 * width).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_probe_17_values_that_are_not_finite_are_refused_by_place(bad, rng):
    """One cell, one row, one column, in training and in test."""
    X, y = rng.random((20, 3)), rng.random(20)
    post = bart.sample(bart.Model(X, y, n_trees=2), bart.GrowPrune(), **SIZE)
    for place, first in (((4, 1), "row 4, column 1"), (4, "row 4, column 0"), ((slice(None), 2), "row 0, column 2")):
        broken = X.copy()
        broken[place] = bad
        with pytest.raises(ValueError, match=f"X is .* at {first}"):
            bart.Model(broken, y)
        with pytest.raises(ValueError, match=f"at {first}"):
            post.predict(broken)
    y[7] = bad
    with pytest.raises(ValueError, match="y is .* at position 7"):
        bart.Model(X, y)


def test_probe_18_forms_of_the_data_give_the_same_chain(rng):
    """A list, a column, integers, objects, a frame with any index: the same draws as the plain arrays."""
    pandas = pytest.importorskip("pandas")
    X, y = rng.integers(0, 9, (25, 2)).astype(float), rng.integers(-5, 9, 25)
    index = rng.permutation(25)
    frame, series = pandas.DataFrame(X, index=index), pandas.Series(y, index=index)
    expected = bart.sample(bart.Model(X, y.astype(float), n_trees=2), bart.CGM(), **SIZE)
    forms = [(X.tolist(), y.tolist()), (X.astype(np.int8), y[:, None]), (X.astype(object), y.astype(object)),
             (X.astype(np.float32), y.astype(np.float32)), (frame, series), (frame, y), (X, series)]
    for form in forms:
        assert_same(bart.sample(bart.Model(*form, n_trees=2), bart.CGM(), **SIZE), expected)
    flags = bart.sample(bart.Model(X, y > 0, n_trees=2), bart.CGM(), **SIZE)
    assert_same(flags, bart.sample(bart.Model(X, (y > 0).astype(float), n_trees=2), bart.CGM(), **SIZE))
    with pytest.raises(ValueError, match="row labels"):
        bart.Model(frame, series.sort_index())


# --------------------------------------------------------------------------------- state, seeds, resources


@pytest.mark.parametrize("change", [
    {"n_cuts": 7, "cuts": "grid"}, {"threshold": "midpoint"}, {"sigma_hat": 0.7}, {"leaf_mean": -0.5},
    {"noise_shape": "full"}, {"scale": False},
], ids=lambda change: next(iter(change)))
def test_probe_22_model_parameters_change_the_forests(change):
    size = SIZE | {"n_draws": 60, "init": "overgrown"}
    base = {"cuts": "grid"} if "n_cuts" in change else {}
    first, other = (bart.sample(make_model(**options), bart.CGM(), **size) for options in (base, base | change))
    assert any(a.nodes.tobytes() != b.nodes.tobytes() for a, b in zip(first.forests, other.forests, strict=True))


@pytest.mark.parametrize("change", [
    {"n_burn": 4}, {"thin": 2}, {"init": "prior"}, {"init": "smc"}, {"init": "grow"}, {"init": "overgrown"},
    {"init": "overgrown", "init_leaves": 8}, {"tree_order": "random"}, {"seed": 6},
], ids=str)
def test_probe_22_sampling_parameters_change_the_draws(change):
    base = SIZE | {"init": "overgrown" if "init_leaves" in change else "empty"}
    first, other = (bart.sample(make_model(), bart.GrowPrune(), **options) for options in (base, base | change))
    assert not np.array_equal(first["sigma"], other["sigma"])


@pytest.mark.parametrize("start", ["empty", "prior", "smc", "grow"])
def test_probe_22_leaves_of_a_start_that_has_none_are_refused(start, rng):
    """`init_leaves` is the size of an overgrown start alone."""
    with pytest.raises(ValueError, match="init_leaves"):
        bart.Ensemble(make_model(), bart.CGM(), rng, init=start, init_leaves=9)
    with pytest.raises(ValueError, match="init_leaves"):
        bart.sample(make_model(), bart.CGM(), init=start, init_leaves=9, **SIZE)


@pytest.mark.parametrize("first, other", [
    (bart.GrowPrune(), bart.GrowPrune(bookkeeping="authors")), (bart.CGM(), bart.CGM(bookkeeping="authors")),
    (bart.ParticleGibbs(ess_threshold=0.0), bart.ParticleGibbs(ess_threshold=0.9)),
    (bart.ParticleGibbs(resampling="systematic"), bart.ParticleGibbs(resampling="killing")),
], ids=str)
def test_probe_22_sampler_parameters_change_the_draws(first, other):
    """Growing the root shows only where roots seldom grow."""
    model = make_model(n_trees=20, alpha=0.3)
    size = SIZE | {"n_draws": 60, "init": "empty"}
    traces = [bart.sample(model, sampler, **size)["log_likelihood"] for sampler in (first, other)]
    assert not np.array_equal(*traces)


def test_probe_22_execution_parameters_change_nothing(tmp_path):
    model = make_model()
    expected = bart.sample(model, bart.CGM(), **SIZE)
    for change in ({"executor": 2}, {"progress": True}, {"checkpoint": tmp_path / "a", "checkpoint_every": 1e-3},
                   {"checkpoint": tmp_path / "b", "checkpoint_sweeps": 2}):
        assert_same(bart.sample(model, bart.CGM(), **SIZE | change), expected)
    kept = bart.sample(model, bart.CGM(), keep_trees=False, **SIZE)
    np.testing.assert_array_equal(kept["sigma"], expected["sigma"])


def test_probe_24_bytes_of_a_large_run(rng, caplog):
    """Reported before the run, and right within a fifth; the pickle is below 1.2 times the memory."""
    X = rng.random((10_000, 3))
    model = bart.Model(X, X[:, 0] + 0.1 * rng.standard_normal(10_000), n_trees=200)
    with caplog.at_level(logging.INFO, "bart.sampling"):
        post = bart.sample(model, bart.GrowPrune(), n_burn=60, n_draws=20, n_chains=1, seed=1, init="prior")
    assert any("kB a draw" in record.message for record in caplog.records)
    stored = sum(forest.nbytes for forest in post.forests) / 20
    assert 0.7 < stored / bytes_per_draw(model) < 1.3
    assert len(pickle.dumps(post)) < 1.2 * post.nbytes


@pytest.mark.parametrize("sampler", ["growprune", "pg"])
def test_probe_26_an_interrupt_leaves_a_usable_ensemble(sampler, rng):
    """Honoured within seconds (within one, less the machine's own load); the residual is that of the trees."""
    X = rng.random((20_000, 3))
    model = bart.Model(X, X[:, 0], n_trees=200)
    ensemble = bart.Ensemble(model, SAMPLERS[sampler], rng)
    sent = []

    def interrupt():
        sent.append(time.monotonic())
        signal.raise_signal(signal.SIGINT)

    timer = threading.Timer(0.3, interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        ensemble.run(10**8 // 1000)
    assert time.monotonic() - sent[0] < 5.0
    timer.join()
    expected = model.dataset.y_scaled - sum(state.fit() for state in ensemble.trees)
    np.testing.assert_allclose(ensemble.residual, expected, rtol=0, atol=1e-9)
    done, state = ensemble.n_sweeps, ensemble.get_state()
    other = bart.Ensemble(model, SAMPLERS[sampler], np.random.default_rng())
    other.set_state(state)
    other.rng.bit_generator.state = rng.bit_generator.state
    sigma = ensemble.run(2)["sigma"]
    np.testing.assert_array_equal(other.run(2)["sigma"], sigma)
    assert ensemble.n_sweeps == done + 2


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_probe_28_trees_deeper_than_twenty_levels(sampler, rng):
    """A chain of splits one row at a time, which the data need and a prior that hardly stops allows."""
    X = 2.0 ** np.arange(60)[:, None]
    deep = None
    for code in range(59):
        deep = (0, code, deep, None)
    model = bart.Model(X, np.arange(60) % 2, n_trees=1, beta=0.25, sigma=0.05, leaf_var=1.0, alpha=0.99)
    ensemble = bart.Ensemble(model, SAMPLERS[sampler], rng, init=[deep])
    assert ensemble.trees[0].depth == 59
    traces = ensemble.run(40)
    assert traces["depth"].min() > 20 and np.isfinite(traces["log_likelihood"]).all()
    post = bart.sample(model, SAMPLERS[sampler], init=[[deep]], **SIZE)
    assert post["depth"].min() > 20 and np.isfinite(post.predict(X)).all()
    fresh = bart.Ensemble(model, SAMPLERS[sampler], rng, init="overgrown", init_leaves=60)
    assert fresh.trees[0].n_leaves == 60 and np.isfinite(fresh.run(20)["log_likelihood"]).all()


def test_probe_28_the_papers_deepest_setting(rng):
    """Hypercube of seven dimensions, beta .25: all samplers run from empty and from over-grown trees."""
    corners = np.array(np.meshgrid(*[[0.0, 1.0]] * 7)).reshape(7, -1).T
    X = np.repeat(corners, 10, axis=0) + 0.3 * rng.random((1280, 7))
    y = np.repeat(rng.standard_normal(128), 10) + 0.01 * rng.standard_normal(1280)
    model = bart.Model(X, y, n_trees=1, beta=0.25, sigma_hat="sd")
    for sampler in SAMPLERS.values():
        for options in ({"init": "empty"}, {"init": "overgrown", "init_leaves": 512}):
            traces = bart.Ensemble(model, sampler, rng, **options).run(50)
            assert np.isfinite(traces["log_likelihood"]).all()
