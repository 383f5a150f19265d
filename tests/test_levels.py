"""Levels: shifts of whole trees that sum to 0, their exact law, and that f, the residual and the rest stay."""

import numpy as np
import pytest

import bart

pytestmark = pytest.mark.kernel

LEAVES = (1, 3, 2, 7, 1, 4)


def make_ensemble(leaves, seed, **options):
    """An ensemble with trees of so many leaves and odd leaf values."""
    rng = np.random.default_rng(seed)
    X = rng.random((60, 2))
    model = bart.Model(X, X[:, 0] + rng.standard_normal(60), n_trees=len(leaves), **options)
    ensemble = bart.Ensemble(model, bart.Cycle(bart.GrowPrune(), bart.Levels(every=1)), rng)
    for state, n_leaves in zip(ensemble.trees, leaves, strict=True):
        state.overgrow(n_leaves, rng)
        state.leaf_values = 0.3 * rng.standard_normal(state.n_leaves)
    ensemble.recompute_residual()
    return ensemble


def values_of(ensemble):
    """Leaf values, tree after tree."""
    return np.concatenate([state.leaf_values for state in ensemble.trees])


def dense_law(leaves, values, mean, var):
    """Mean and covariance of the shifts c given sum c = 0: the prior of values + B c, by dense linear algebra.

    c = T u with the columns of T spanning the vectors that sum to 0; u is normal with precision T'B'B T / var.
    """
    m = len(leaves)
    B = np.repeat(np.eye(m), leaves, axis=0)
    T = np.linalg.svd(np.ones((1, m)))[2][1:].T
    covariance = var * np.linalg.inv(T.T @ B.T @ B @ T)
    return T @ covariance @ T.T @ B.T @ (mean - values) / var, T @ covariance @ T.T


def shifts(ensemble, z):
    """The shift of each tree for given normal numbers; the values are put back."""
    before = [state.leaf_values for state in ensemble.trees]
    ensemble._kernel.shift_levels(np.asarray(z, dtype=float))
    found = np.array([np.mean(state.leaf_values - old) for state, old in zip(ensemble.trees, before, strict=True)])
    for state, old in zip(ensemble.trees, before, strict=True):
        state.leaf_values = old
    return found


@pytest.mark.parametrize("options", [{}, {"leaf_mean": 0.4, "leaf_var": 2.0}])
@pytest.mark.parametrize("leaves", [LEAVES, (2, 2), (1, 5)])
def test_the_law_is_that_of_the_prior_along_the_shifts(leaves, options):
    """A draw is linear in standard normal numbers: its constant is the mean, its matrix squared the covariance."""
    ensemble = make_ensemble(leaves, 1, **options)
    prior = ensemble.model.leaf_prior
    mean, covariance = dense_law(leaves, values_of(ensemble), prior.mean, prior.var)
    constant = shifts(ensemble, np.zeros(len(leaves)))
    factor = np.array([shifts(ensemble, unit) - constant for unit in np.eye(len(leaves))]).T
    np.testing.assert_allclose(constant, mean, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(factor @ factor.T, covariance, rtol=1e-10, atol=1e-12 * prior.var)
    np.testing.assert_allclose(constant.sum(), 0.0, atol=1e-12)


def test_f_the_residual_and_the_structures_stay(rng):
    ensemble = make_ensemble(LEAVES, 2)
    fit, residual, structures = ensemble.fit(), ensemble.residual.copy(), ensemble.structures()
    before = values_of(ensemble)
    for _ in range(50):
        bart.Levels().redraw(ensemble._kernel, rng)
    assert np.abs(values_of(ensemble) - before).max() > 1e-3
    np.testing.assert_array_equal(ensemble.residual, residual)
    np.testing.assert_allclose(ensemble.fit(), fit, rtol=1e-9, atol=1e-9)
    assert ensemble.structures() == structures


def test_one_tree_has_no_level_of_its_own(rng):
    ensemble = make_ensemble((5,), 3)
    before = values_of(ensemble)
    bart.Levels().redraw(ensemble._kernel, rng)
    np.testing.assert_allclose(values_of(ensemble), before, rtol=1e-12, atol=1e-15)


def test_shapes_and_parts_are_checked():
    ensemble = make_ensemble((2, 1), 4)
    with pytest.raises(ValueError, match=r"z must have shape \(2,\), got \(3,\)"):
        ensemble._kernel.shift_levels(np.zeros(3))
    with pytest.raises(ValueError, match="every"):
        bart.Levels(every=0)
    with pytest.raises(ValueError, match="Levels acts between sweeps"):
        bart.Ensemble(ensemble.model, bart.Levels(), np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"parts\[0\]: Levels acts between sweeps"):
        bart.Mixture(bart.Cycle(bart.CGM(), bart.Levels()), bart.CGM())


def test_it_follows_the_sweeps_that_are_multiples(monkeypatch):
    done = []
    monkeypatch.setattr(bart.Levels, "redraw", lambda self, kernel, rng: done.append(kernel.n_sweeps))
    ensemble = make_ensemble((1, 1, 1), 5)
    ensemble.sampler = "growprune + levels(every=3)"
    ensemble.run(4)
    ensemble.run(7)
    assert done == [3, 6, 9]
