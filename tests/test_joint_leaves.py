"""The joint redraw of all leaf values: counts by pair of leaves, the factor, exact moments, and its place in chains."""

import pickle
import time

import numpy as np
import pytest
from bart.kernels.cholesky import normal_draw
from bart.kernels.joint import leaf_statistics
from sweep_helpers import make_data, run_store
from test_compose import Hidden

import bart
from bart.kernels import rowops
from bart.samplers.joint import draw_values

pytestmark = pytest.mark.kernel

N_DRAWS = 20_000
BOUND = 5.5         # of |z|: 4e-8 for one of them, below 1e-5 for the 90 or less of a test


@pytest.fixture(params=sorted(rowops.TARGETS))
def target(request):
    """Each build of the loops in turn."""
    before = rowops.TARGET
    rowops.use(request.param)
    yield request.param
    rowops.use(before)


def indicators(states):
    """Z, dense."""
    return np.concatenate([np.eye(state.n_leaves)[state.leaf_of_row] for state in states], axis=1)


# -------------------------------------------------------------------------------------------- counts and factor


@pytest.mark.parametrize("n, leaves", [(1, (1,)), (2, (1, 2)), (63, (2, 5, 1)), (64, (3, 64)), (65, (1, 1, 4)),
                                       (700, (300, 2, 270)), (4097, (2, 3)), (16_384, (4, 3)), (40_000, (5, 1, 9))])
def test_counts_and_sums(target, n, leaves, rng):
    X, y = rng.random((n, 2)), rng.standard_normal(n)
    codes, prior = bart.RankCodes(X), bart.TreePrior()
    states = []
    for n_leaves in leaves:
        states.append(bart.TreeState(codes, prior) if not states else bart.TreeState(states[0].domain))
        states[-1].overgrow(n_leaves, rng)
    assert [state.n_leaves for state in states] == list(leaves)
    Z = indicators(states)
    counts, sums = leaf_statistics(states, y)
    np.testing.assert_array_equal(counts, np.tril(Z.T @ Z))
    np.testing.assert_allclose(sums, Z.T @ y, rtol=1e-11, atol=1e-11)
    with pytest.raises(ValueError, match=r"y must have shape"):
        leaf_statistics(states, y[1:])


@pytest.mark.parametrize("n", [*range(1, 26), 64, 203])
def test_draws_are_what_numpy_makes_of_them(n, rng):
    """From the same z; and the same bits from every build."""
    root = rng.standard_normal((n, n + 2))
    precision, b, z = root @ root.T + 0.1 * np.eye(n), rng.standard_normal(n), rng.standard_normal(n)
    lower = np.linalg.cholesky(precision)
    expected = np.linalg.solve(precision, b) + np.linalg.solve(lower.T, z)
    found, before = [], rowops.TARGET
    for name in rowops.TARGETS:
        rowops.use(name)
        found.append(normal_draw(np.tril(precision), b, z))
    rowops.use(before)
    np.testing.assert_allclose(found[0], expected, rtol=1e-8, atol=1e-8 * abs(expected).max())
    assert len({draw.tobytes() for draw in found}) == 1


def test_matrices_that_are_not_definite_are_told():
    for precision in ([[0.0]], [[-1.0]], [[1.0, 0.0], [1.0, 1.0]], [[1.0, 0.0], [1.0, 1.0 + 1e-12]], [[np.nan]]):
        n = len(precision)
        assert normal_draw(np.array(precision), np.zeros(n), np.zeros(n)) is None
    assert normal_draw(np.zeros((0, 0)), np.zeros(0), np.zeros(0)).shape == (0,)
    with pytest.raises(ValueError, match="shapes"):
        normal_draw(np.eye(2), np.zeros(3), np.zeros(3))


# ------------------------------------------------------------------------------------------------- exact moments


def dense_law(states, y, sigma2, leaf_mean, leaf_var):
    """Mean and precision of all leaf values, by the formula."""
    Z = indicators(states)
    precision = Z.T @ Z / sigma2 + np.eye(Z.shape[1]) / leaf_var
    return np.linalg.solve(precision, Z.T @ y / sigma2 + leaf_mean / leaf_var), precision


def worst_z(draws, mean, precision):
    """Largest |z| of the draws' means and second moments, made independent N(0, 1) by the exact law."""
    white = (draws - mean) @ np.linalg.cholesky(precision)
    n = len(white)
    moments = white.T @ white / n - np.eye(white.shape[1])
    scale = np.sqrt((1.0 + np.eye(white.shape[1])) / n)
    return max(abs(white.mean(axis=0) * np.sqrt(n)).max(), abs(moments / scale).max())


def small_ensemble(rng, temperature=1.0):
    """Three trees of nine leaves in all, which a chain with one particle keeps."""
    X = np.column_stack([np.arange(10.0), np.tile([0.0, 1.0], 5)])
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(10)
    model = bart.Model(X, y, n_trees=3, sigma=0.4, leaf_mean=0.2, leaf_var=0.3, scale=False)
    trees = [(0, 4, None, (1, 0, None, None)), (1, 0, (0, 2, None, None), (0, 6, None, None)), (0, 7, None, None)]
    ensemble = bart.Ensemble(model, bart.Cycle(bart.ParticleGibbs(1), bart.JointLeaves(1)), rng, init=trees)
    ensemble.temperature = temperature
    return ensemble


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_moments_are_those_of_the_joint_law(temperature, rng):
    ensemble = small_ensemble(rng, temperature)
    kernel, part = ensemble._kernel, bart.JointLeaves()
    mean, precision = dense_law(kernel.states, kernel.y, kernel.sigma2 / temperature, kernel.leaf_mean, kernel.leaf_var)
    draws = np.empty((N_DRAWS, len(mean)))
    for i in range(N_DRAWS):
        part.redraw(kernel, rng)
        draws[i] = np.concatenate([state.leaf_values for state in kernel.states])
    assert len(mean) == 9 and worst_z(draws, mean, precision) < BOUND
    # Independent draws: no correlation between neighbours.
    white = (draws - mean) @ np.linalg.cholesky(precision)
    assert abs((white[1:] * white[:-1]).mean(axis=0)).max() * np.sqrt(N_DRAWS) < BOUND


@pytest.mark.parametrize("error", ["factor not transposed", "sigma for sigma2", "no prior precision",
                                   "prior mean left out", "covariance for precision", "other trees' leaves ignored"])
def test_the_moments_see_errors(error, rng):
    ensemble = small_ensemble(rng)
    kernel = ensemble._kernel
    states, y, sigma2, leaf_var = kernel.states, kernel.y, kernel.sigma2, kernel.leaf_var
    mean, precision = dense_law(states, y, sigma2, kernel.leaf_mean, leaf_var)
    z = rng.standard_normal((len(mean), N_DRAWS))
    lower = np.linalg.cholesky(precision)
    wrong = {"sigma for sigma2": (sigma2**0.5, kernel.leaf_mean, leaf_var),
             "no prior precision": (sigma2, kernel.leaf_mean, 100 * leaf_var),
             "prior mean left out": (sigma2, 0.0, leaf_var)}
    if error in wrong:
        other, other_precision = dense_law(states, y, *wrong[error])
        draws = other[:, None] + np.linalg.solve(np.linalg.cholesky(other_precision).T, z)
    elif error == "factor not transposed":
        draws = mean[:, None] + np.linalg.solve(lower, z)
    elif error == "covariance for precision":
        draws = mean[:, None] + lower @ z
    else:
        draws = mean[:, None] + z / np.sqrt(np.diag(precision))[:, None]
    assert worst_z(draws.T, mean, precision) > 2 * BOUND
    right = mean[:, None] + np.linalg.solve(lower.T, z)
    assert worst_z(right.T, mean, precision) < BOUND


def test_values_stay_where_rounding_leaves_too_little(rng):
    ensemble = small_ensemble(rng)
    kernel = ensemble._kernel
    counts, sums = leaf_statistics(kernel.states, kernel.y)
    assert draw_values(counts, sums, 1e-14, 0.0, 1.0, rng) is None
    kernel.sigma2 = 1e-14
    before = [state.leaf_values for state in kernel.states], ensemble.residual.copy()
    bart.JointLeaves().redraw(kernel, rng)
    for state, values in zip(kernel.states, before[0], strict=True):
        np.testing.assert_array_equal(state.leaf_values, values)
    np.testing.assert_array_equal(ensemble.residual, before[1])


# ---------------------------------------------------------------------------------------------------- in a chain


def make_ensemble(sampler, seed, **options):
    X, y = make_data("ties", np.random.default_rng(seed))
    return bart.Ensemble(bart.Model(X, y, n_trees=4), sampler, np.random.default_rng(seed), **options)


def test_it_is_done_when_the_sweep_after_it_begins(seed, monkeypatch):
    """By the absolute number of sweeps, however the run is cut; traces and state of a sweep are those before it."""
    seen = []

    def note(self, kernel, rng):
        seen.append((self.every, kernel.n_sweeps))

    monkeypatch.setattr(bart.JointLeaves, "redraw", note)
    ensemble = make_ensemble(bart.Cycle(bart.CGM(), bart.JointLeaves(3), bart.JointLeaves(4)), seed)
    for n, known in ((3, []), (0, []), (1, [(3, 3)]), (8, [(4, 4), (3, 6), (4, 8), (3, 9)]),
                     (1, [(3, 12), (4, 12)]), (2, [])):
        seen.clear()
        ensemble.run(n)
        assert seen == known, n


def test_its_time_is_that_of_the_sweep_after_it(seed, monkeypatch):
    def burn(self, kernel, rng):
        began = time.thread_time()
        while time.thread_time() - began < 0.02:
            pass

    monkeypatch.setattr(bart.JointLeaves, "redraw", burn)
    seconds = make_ensemble(bart.Cycle(bart.CGM(), bart.JointLeaves(2)), seed).run(5)["seconds"]
    assert seconds[2:4].sum() >= 0.02 and seconds[4] >= 0.02


def test_the_residual_is_that_of_the_trees_bit_for_bit(seed):
    ensemble = make_ensemble(bart.Cycle(bart.GrowPrune(), bart.JointLeaves(1)), seed)
    ensemble.residual[:] += 0.25                        # stands for other y
    ensemble.run(7)
    before = [state.leaf_values for state in ensemble.trees]
    bart.JointLeaves().redraw(ensemble._kernel, ensemble.rng)
    found = ensemble.residual.copy()
    assert all((state.leaf_values != old).all() for state, old in zip(ensemble.trees, before, strict=True))
    ensemble.recompute_residual()
    np.testing.assert_array_equal(found, ensemble.residual)
    expected = ensemble.model.dataset.y_scaled + 0.25 - sum(state.fit() for state in ensemble.trees)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_state_taken_between_redraw_and_sweep_continues(seed):
    """As an interrupt may leave it: the redraw is not made twice."""
    sampler = bart.Cycle(bart.CGM(), bart.JointLeaves(3))
    whole, cut, other = (make_ensemble(sampler, seed) for _ in range(3))
    expected = run_store(whole, 7)["nodes"]
    found = run_store(cut, 3)["nodes"]
    cut._act_between_sweeps()
    cut._seen[:] = cut.residual
    state = pickle.loads(pickle.dumps((cut.get_state(), cut.rng.bit_generator.state)))
    other.set_state(state[0])
    other.rng.bit_generator.state = state[1]
    assert found + run_store(other, 4)["nodes"] == expected


def test_a_python_sampler_before_it_gives_the_same_bits(seed):
    found = [run_store(make_ensemble(bart.Cycle(*parts, bart.JointLeaves(2)), seed), 30)
             for parts in ((bart.CGM(), bart.GrowPrune()), (Hidden(bart.CGM()), bart.GrowPrune()))]
    assert found[0] == found[1]
    alone = run_store(make_ensemble(bart.Cycle(bart.CGM(), bart.GrowPrune()), seed), 30)
    assert alone != found[0]


def test_checkpoints_continue_a_chain(seed, tmp_path):
    X, y = make_data("ties", np.random.default_rng(seed))
    model, sampler = bart.Model(X, y, n_trees=3), bart.Cycle(bart.GrowPrune(), bart.JointLeaves(every=3))
    size = {"n_chains": 2, "seed": seed, "progress": False, "n_burn": 4}
    whole = bart.sample(model, sampler, n_draws=12, **size)
    bart.sample(model, sampler, n_draws=5, checkpoint=tmp_path, **size)
    post = bart.sample(model, sampler, n_draws=12, checkpoint=tmp_path, **size)
    np.testing.assert_array_equal(post.sweeps["log_likelihood"], whole.sweeps["log_likelihood"])
    with pytest.raises(ValueError, match="other sampler"):
        bart.sample(model, bart.GrowPrune(), n_draws=12, checkpoint=tmp_path, **size)
    np.testing.assert_allclose(post["log_likelihood"][:, -1], [
        -0.5 * len(y) * np.log(2 * np.pi * s**2) - 0.5 * ((y - f) ** 2).sum() / s**2
        for f, s in zip(post.predict(X, draws=True).draws[:, -1], post["sigma"][:, -1], strict=True)], rtol=1e-9)


@pytest.mark.parametrize("make, error, message", [
    (lambda: bart.JointLeaves(0), ValueError, "every"), (lambda: bart.JointLeaves(2.0), TypeError, "every"),
    (lambda: bart.Cycle(bart.JointLeaves()), ValueError, "a Cycle has a sampler of trees before it"),
    (lambda: bart.Cycle(bart.JointLeaves(), bart.CGM()), ValueError, "comes last"),
    (lambda: bart.Cycle(bart.CGM(), bart.JointLeaves(), bart.CGM()), ValueError, "comes last"),
    (lambda: bart.Mixture(bart.CGM(), bart.JointLeaves()), ValueError, r"parts\[1\]: JointLeaves acts between"),
    (lambda: bart.Mixture(bart.Cycle(bart.CGM(), bart.JointLeaves()), bart.CGM()), ValueError, r"parts\[0\]: Joint"),
])
def test_what_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_it_needs_an_ensemble(rng):
    X, y = make_data("ties", rng)
    model = bart.Model(X, y, n_trees=2)
    for run in (lambda: bart.Ensemble(model, bart.JointLeaves(), rng), lambda: bart.sample(model, bart.JointLeaves())):
        with pytest.raises(ValueError, match="JointLeaves acts between sweeps"):
            run()
    cycle = bart.Cycle(bart.CGM(), bart.JointLeaves())
    assert cycle.plan() is None
    with pytest.raises(ValueError, match="a step on one tree cannot"):
        cycle.step(bart.TreeState(model.codes, model.tree_prior), model.dataset.y_scaled, bart.StepParams(1, 1), rng)
