"""Cycles and mixtures as values, and as one update of a tree: compiled, or part by part from Python."""

import pickle
from itertools import product

import numpy as np
import pytest
from bart.kernels.plan import KernelPlan
from chain_helpers import make_model
from compiled import make_params, make_state
from sweep_helpers import ORDERS, make_data, run_store
from test_samplers import own_states, own_sweep
from tiny import PROBLEMS

import bart

pytestmark = pytest.mark.kernel

GP, CGM, PG = bart.GrowPrune(), bart.CGM(), bart.ParticleGibbs(3)
ONE = bart.ParticleGibbs(1)
COMPOSED = {
    "twice": bart.Cycle(GP, GP),
    "local then pg": bart.Cycle(GP, CGM, PG),
    "pg then local": bart.Cycle(PG, GP, bart.ParticleGibbs(3, "killing", 0.5, "forced")),
    "mixture": bart.Mixture((0.3, GP), (0.7, PG)),
    "mixture in a cycle": bart.Cycle(GP, bart.Mixture(CGM, PG, GP), GP),
    "cycle in a mixture": bart.Mixture((0.5, bart.Cycle(PG, GP)), (0.5, GP)),
    "all moves": bart.Cycle(
        bart.Rotate(), bart.Local(descend=0.7), GP, bart.Splice(), bart.Perturb(), bart.Local(), CGM, bart.Splice(),
        bart.Perturb(), bart.Recut(),
        bart.ParticleGibbs(2, region="subtree", proposal="optimal", ess_threshold=0, final="forced"), bart.Rotate(),
        bart.Recut(None)),
    "local or subtree": bart.Cycle(bart.Mixture(bart.Local(), bart.ParticleGibbs(3, region="subtree")), GP),
    "marks": bart.Cycle(bart.ParticleGibbs(3, bookkeeping="authors"), GP),
    "one each": bart.Cycle(bart.Mixture(CGM)),
    "idle": bart.Cycle(ONE, GP, ONE),
}


class Hidden(bart.TreeSampler):
    """A sampler whose plan nobody sees, as one written in Python."""

    def __init__(self, inner):
        self.inner = inner

    def step(self, state, target, params, rng):
        return self.inner.step(state, target, params, rng)


def hide(sampler):
    """The same composition of samplers written in Python."""
    if isinstance(sampler, bart.Cycle):
        return bart.Cycle(*map(hide, sampler.parts))
    if isinstance(sampler, bart.Mixture):
        return bart.Mixture(*zip(sampler.probabilities, map(hide, sampler.parts), strict=True))
    return Hidden(sampler)


# ------------------------------------------------------------------------------------------------------ as values


@pytest.mark.parametrize("sampler", COMPOSED.values(), ids=COMPOSED)
def test_repr_makes_the_same_sampler(sampler):
    made = eval(repr(sampler), vars(bart))
    assert made == sampler and hash(made) == hash(sampler) and repr(made) == repr(sampler)
    copy = pickle.loads(pickle.dumps(sampler))
    assert copy == sampler and isinstance(copy.plan(), KernelPlan)


def test_equality():
    assert bart.GrowPrune() == bart.GrowPrune(0.5) != bart.GrowPrune(0.4) and bart.GrowPrune() != bart.CGM()
    assert bart.Cycle(GP, bart.Cycle(CGM, PG)) == bart.Cycle(GP, CGM, PG) != bart.Cycle(CGM, GP, PG)
    assert bart.Mixture(GP, CGM) == bart.Mixture((0.5, GP), (0.5, CGM)) != bart.Mixture((0.4, GP), (0.6, CGM))
    assert bart.Mixture(GP, bart.Mixture(CGM, PG)) != bart.Mixture(GP, CGM, PG)
    assert len({bart.Cycle(GP), bart.Cycle(bart.GrowPrune()), GP, bart.Mixture(GP)}) == 3
    assert Hidden(GP) != Hidden(GP) and GP != 3
    with pytest.raises(AttributeError):
        COMPOSED["twice"].parts = (GP,)


@pytest.mark.parametrize("kind, parts, error, message", [
    (bart.Cycle, (), ValueError, "parts: a Cycle"), (bart.Mixture, (), ValueError, "parts: a Mixture"),
    (bart.Cycle, (GP, "pg"), TypeError, r"parts\[1\]"), (bart.Mixture, (GP, bart.CGM), TypeError, r"parts\[1\]"),
    (bart.Mixture, ((0.5, GP), CGM), ValueError, r"parts\[1\] must be a \(probability"),
    (bart.Mixture, ((0.5, GP), (0.5,)), ValueError, r"parts\[1\] must be a \(probability"),
    (bart.Mixture, ((0.5, GP), (0.4, CGM)), ValueError, "sum to 1"),
    (bart.Mixture, ((1.5, GP), (-0.5, CGM)), ValueError, r"probability of parts\[0\]"),
    (bart.Mixture, ((1.0, GP), (0.0, CGM)), ValueError, r"probability of parts\[1\]"),
    (bart.Mixture, (("half", GP), (0.5, CGM)), TypeError, r"probability of parts\[0\]"),
    (bart.Mixture, ((GP, 0.5), (CGM, 0.5)), TypeError, r"parts\[0\]"),
])
def test_what_is_refused(kind, parts, error, message):
    with pytest.raises(error, match=message):
        kind(*parts)


# ------------------------------------------------------------------------------------------------- the same bits


@pytest.mark.parametrize("kind, order", list(product(("ties", "wide", "one row"), ORDERS)))
@pytest.mark.parametrize("name", COMPOSED)
def test_compiled_and_from_python_alike(name, kind, order, seed):
    """Also across the sweep in which the residual is summed anew."""
    X, y = make_data(kind, np.random.default_rng(seed))
    model, found = bart.Model(X, y, n_trees=5, beta=0.5, sigma_hat=1.0), []
    sampler = COMPOSED[name]
    mixed = bart.Cycle(*(hide(part) if k % 2 else part for k, part in enumerate(bart.Cycle(sampler).parts)))
    assert hide(sampler).plan() is None
    for one in (sampler, hide(sampler), mixed):
        ensemble = bart.Ensemble(model, one, np.random.default_rng(seed), init="prior", tree_order=order)
        found.append(run_store(ensemble, 110))
        found[-1] |= {"residual": ensemble.residual.tobytes(), "rng": ensemble.rng.bit_generator.state,
                      "trees": [state.dump().tobytes() for state in ensemble.trees]}
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("name", COMPOSED)
def test_a_step_on_a_target_of_ones_own(name, rng):
    """Compiled and part by part: the same tree and the same words, whatever was true before."""
    problem = PROBLEMS["ties"]()
    states, params = [make_state(problem) for _ in range(2)], make_params(problem)
    other = np.random.default_rng()
    seen = set()
    for _ in range(200):
        before = states[0].structure
        other.bit_generator.state = rng.bit_generator.state
        infos = [sampler.step(state, problem.target, params, source) for sampler, state, source
                 in zip((COMPOSED[name], hide(COMPOSED[name])), states, (rng, other), strict=True)]
        assert infos[0] == infos[1] and rng.bit_generator.state == other.bit_generator.state
        assert states[0].dump().tobytes() == states[1].dump().tobytes()
        after = states[0].structure
        assert infos[0].changed or before == after
        assert infos[0].root_changed or (before and before[:2]) == (after and after[:2])
        assert infos[0].n_leaves == states[0].n_leaves
        seen.add(infos[0].changed)
    assert seen == {True, False}


@pytest.mark.parametrize("name", COMPOSED)
def test_an_ensemble_makes_the_trees_of_an_own_loop(name, seed):
    """On the residual of all trees as on targets of one's own, which have other roundings alone."""
    model = make_model(n_trees=5, sigma=0.3, beta=0.5)
    ensemble = bart.Ensemble(model, COMPOSED[name], np.random.default_rng(seed))
    states, residual = own_states(ensemble)
    rng = np.random.default_rng()
    rng.bit_generator.state = ensemble.rng.bit_generator.state
    params = bart.StepParams(model.noise_prior.sigma2, model.leaf_prior.var, model.leaf_prior.mean)
    for _ in range(80):
        ensemble.sweep()
        own_sweep(states, residual, COMPOSED[name], params, rng)
        assert [state.structure for state in states] == ensemble.structures()
    np.testing.assert_allclose(residual, ensemble.residual, atol=1e-10)
    assert rng.bit_generator.state == ensemble.rng.bit_generator.state


# ------------------------------------------------------------------------------------------------------- failures


@pytest.mark.parametrize("hidden", [False, True])
def test_a_part_that_fails_leaves_the_tree_of_before(hidden, rng):
    """The parts before it have moved the tree by then: nodes, labels, counts and values are put back."""
    problem = PROBLEMS["line"]()
    tree, params = (0, 1, (0, 0, None, None), (0, 2, None, None)), make_params(problem)
    sampler = bart.Cycle(PG, CGM, bart.ParticleGibbs(3, max_stages=1))
    state = make_state(problem, tree)
    state.leaf_values = rng.standard_normal(4)

    def seen():
        return state.dump().tobytes(), state.key(), state.leaf_of_row.tolist(), state.leaf_values.tolist()

    before = seen()
    for _ in range(50):
        with pytest.raises(RuntimeError, match="max_stages"):
            (hide(sampler) if hidden else sampler).step(state, problem.target, params, rng)
        assert seen() == before


@pytest.mark.parametrize("hidden", [False, True])
def test_an_ensemble_is_usable_after_a_part_has_failed(hidden, rng):
    X, y = make_data("ties", rng)
    model = bart.Model(X, y, n_trees=4, beta=0.5)
    sampler = bart.Cycle(GP, bart.ParticleGibbs(3, max_stages=5))
    ensemble = bart.Ensemble(model, hide(sampler) if hidden else sampler, rng, init="overgrown")
    for _ in range(20):
        with pytest.raises(RuntimeError, match="max_stages"):
            ensemble.run(10_000)
        expected = model.dataset.y_scaled - sum(state.fit() for state in ensemble.trees)
        np.testing.assert_allclose(ensemble.residual, expected, atol=1e-12)
        for state in ensemble.trees:
            np.testing.assert_array_equal(np.bincount(state.leaf_of_row, minlength=state.n_leaves),
                                          state.leaf_counts())
