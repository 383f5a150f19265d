"""Samplers as objects: what they take and say, a step in a loop of one's own, and a sampler written in Python."""

import re

import numpy as np
import pytest
from bart.kernels.plan import KernelPlan
from chain_helpers import make_data, make_model
from chain_laws import z_scores
from compiled import make_params, make_state
from oracle import n_leaves as n_leaves_of
from tiny import PROBLEMS

import bart
from bart.samplers.base import check_target

SAMPLERS = {
    "growprune": bart.GrowPrune(0.4),
    "cgm": bart.CGM((0.25, 0.25, 0.40, 0.10)),
    "perturb": bart.Perturb(),
    "rotate": bart.Rotate(),
    "splice": bart.Splice(),
    "recut": bart.Recut(subset=None),
    "transpose": bart.Transpose(),
    "reroute": bart.Reroute(),
    "pg": bart.ParticleGibbs(4),
    "pg-killing": bart.ParticleGibbs(3, "killing", 0.5, "forced", max_stages=1000),
    "authors": bart.ParticleGibbs(4, bookkeeping="authors"),
    "pg-optimal": bart.ParticleGibbs(3, proposal="optimal", subset=2, prior_share=0.2),
    "pg-subtree": bart.ParticleGibbs(3, "systematic", 0.5, proposal="optimal", region="subtree", descend=0.6),
    "local": bart.Local(subset=2),
}
IDS = list(SAMPLERS)
RULES_ALONE = ("perturb", "rotate", "recut", "transpose", "reroute")

BAD = [
    (bart.GrowPrune, "p_grow", 0, ValueError), (bart.GrowPrune, "p_grow", 1.0, ValueError),
    (bart.GrowPrune, "p_grow", np.nan, ValueError), (bart.GrowPrune, "p_grow", "half", TypeError),
    (bart.GrowPrune, "bookkeeping", "exact", ValueError), (bart.GrowPrune, "bookkeeping", None, ValueError),
    (bart.CGM, "move_probs", (0.5, 0.5), ValueError), (bart.CGM, "move_probs", (0.5, 0.5, 0.5, -0.5), ValueError),
    (bart.CGM, "move_probs", (0.3, 0.3, 0.3, 0.3), ValueError), (bart.CGM, "move_probs", None, ValueError),
    (bart.CGM, "move_probs", (0.5, 0.0, 0.25, 0.25), ValueError),
    (bart.CGM, "move_probs", (0.0, 0.5, 0.25, 0.25), ValueError),
    (bart.CGM, "move_probs", (np.nan, 0.5, 0.25, 0.25), ValueError),
    (bart.CGM, "bookkeeping", "", ValueError),
    (bart.ParticleGibbs, "n_particles", 0, ValueError), (bart.ParticleGibbs, "n_particles", 2.0, TypeError),
    (bart.ParticleGibbs, "n_particles", True, TypeError),
    (bart.ParticleGibbs, "resampling", "stratified", ValueError),
    (bart.ParticleGibbs, "resampling", "residual", ValueError), (bart.ParticleGibbs, "resampling", None, ValueError),
    (bart.ParticleGibbs, "ess_threshold", 1.0, ValueError), (bart.ParticleGibbs, "ess_threshold", -0.1, ValueError),
    (bart.ParticleGibbs, "ess_threshold", np.nan, ValueError),
    (bart.ParticleGibbs, "ess_threshold", "never", TypeError),
    (bart.ParticleGibbs, "final", "best", ValueError), (bart.ParticleGibbs, "bookkeeping", "paper", ValueError),
    *((bart.ParticleGibbs, name, value, error) for name, value, error in (
        ("proposal", "best", ValueError), ("proposal", None, ValueError), ("region", "leaf", ValueError),
        ("subset", 0, ValueError), ("subset", 1.5, TypeError), ("subset", 2, ValueError),
        ("prior_share", 1.0, ValueError), ("prior_share", -0.1, ValueError), ("prior_share", 0.5, ValueError))),
    *((kind, "descend", value, ValueError) for kind in (bart.ParticleGibbs, bart.Local) for value in (0, 1, np.nan)),
    *((kind, "subset", value, error) for kind in (bart.Local, bart.Recut)
      for value, error in ((0, ValueError), (True, TypeError))),
    (bart.ParticleGibbs, "descend", 0.9, ValueError),
    (bart.ParticleGibbs, "max_stages", 0, ValueError), (bart.ParticleGibbs, "max_stages", 1.5, TypeError),
]


@pytest.mark.parametrize("kind, name, value, error", BAD)
def test_bad_options_are_refused_by_name(kind, name, value, error):
    with pytest.raises(error, match=rf"\b{name}\b"):
        kind(**{name: value})


def test_resampling_without_effect_is_refused():
    with pytest.raises(ValueError, match="resampling has no effect with ess_threshold=0"):
        bart.parse_sampler("pg(ess_threshold=0.0, resampling=systematic)")


@pytest.mark.parametrize("sampler", [*SAMPLERS.values(), bart.GrowPrune(), bart.CGM(), bart.ParticleGibbs(),
                                     bart.ParticleGibbs(ess_threshold=0)], ids=str)
def test_repr_makes_the_same_sampler(sampler):
    made = eval(repr(sampler), vars(bart).copy())
    assert type(made) is type(sampler) and vars(made) == vars(sampler) and repr(made) == repr(sampler)


def test_names_and_plans():
    kinds = (bart.GrowPrune, bart.CGM, bart.ParticleGibbs, bart.Perturb, bart.Rotate, bart.Local, bart.Splice,
             bart.Recut, bart.Transpose, bart.Reroute)
    assert [kind.name for kind in kinds] == ["growprune", "cgm", "pg", "perturb", "rotate", "local", "splice", "recut",
                                             "transpose", "reroute"]
    for sampler in SAMPLERS.values():
        assert isinstance(sampler, bart.TreeSampler) and isinstance(sampler.plan(), KernelPlan)
    assert bart.TreeSampler().plan() is None
    problem = PROBLEMS["line"]()
    with pytest.raises(NotImplementedError, match="TreeSampler defines neither"):
        bart.TreeSampler().step(make_state(problem), problem.target, make_params(problem), np.random.default_rng(0))


# ------------------------------------------------------------------------------------------------------ one step


@pytest.mark.parametrize("sampler", IDS)
def test_what_a_step_says_is_true(sampler, rng):
    problem = PROBLEMS["ties"]()
    state, params = make_state(problem), make_params(problem)
    moves = set()
    for k in range(300):
        if sampler in RULES_ALONE and k % 3 == 0:           # they grow no tree, and may end where they find nothing
            state.draw_from_prior(rng)
        before = state.structure
        info = SAMPLERS[sampler].step(state, problem.target, params, rng)
        after = state.structure
        assert isinstance(info, bart.StepInfo) and info.changed == (before != after)
        assert info.root_changed == ((before and before[:2]) != (after and after[:2]))
        assert info.n_leaves == state.n_leaves == n_leaves_of(after) and not np.isnan(info.log_ratio)
        assert (info.n_stages > 0) == (info.move == "pg") or sampler == "pg-subtree" and not info.changed   # no place
        moves.add(info.move)
    known = {"growprune": {"grow", "prune"}, "cgm": {"grow", "prune", "change", "swap"}, "perturb": {"perturb"},
             "rotate": {"rotate"}, "local": {"local"}, "splice": {"insert", "delete"}, "recut": {"recut"},
             "transpose": {"transpose"}, "reroute": {"shift", "shed", "absorb"}}
    assert moves == known.get(sampler, {"pg"})


def test_targets_and_params_that_are_refused(rng):
    problem = PROBLEMS["line"]()
    state, params = make_state(problem), make_params(problem)
    for sampler in SAMPLERS.values():
        for target, message in (([1.0, 2.0], "shape (4,), got (2,)"), (np.zeros((4, 1)), "one dimension"),
                                ([0.0, np.nan, 0.0, 0.0], "target[1] = nan"), ([0.0, 0.0, 0.0, np.inf], "target[3]")):
            with pytest.raises(ValueError, match=re.escape(message)):
                sampler.step(state, target, params, rng)
            with pytest.raises(ValueError, match=re.escape(message)):
                bart.draw_leaf_values(state, target, params, rng)
    for name in ("sigma2", "leaf_var", "temperature"):
        for value in (0.0, -1.0, np.inf, np.nan):
            with pytest.raises(ValueError, match=rf"\b{name}\b"):
                bart.StepParams(**({"sigma2": 1.0, "leaf_var": 1.0} | {name: value}))
    with pytest.raises(ValueError, match="leaf_mean"):
        bart.StepParams(1.0, 1.0, np.nan)


def test_a_target_of_another_type_or_layout_is_the_same_target():
    wide = np.zeros((4, 2))
    wide[:, 1] = [1, 2, 3, 4]
    for form in ([1, 2, 3, 4], wide[:, 1], np.float32([1, 2, 3, 4])):
        found = check_target(form)
        assert found.dtype == np.float64 and found.flags.c_contiguous and found.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("structure, message", [
    ((0, 3, None, None), "rule (0, 3) is no gap"), ((1, 0, None, None), "rule (1, 0) is no gap"),
    ((0, -1, None, None), "no gap"), ((0, 1, (0, 2, None, None), None), "leaves a side without rows"),
])
def test_structures_that_do_not_fit_are_refused(structure, message):
    state = make_state(PROBLEMS["line"]())
    with pytest.raises(ValueError, match=re.escape(message)):
        state.structure = structure
    assert state.structure is None and state.n_leaves == 1 and not state.leaf_of_row.any()


@pytest.mark.parametrize("bookkeeping", ["canonical", "authors"])
def test_max_stages_raises_and_leaves_the_tree(bookkeeping, rng):
    """At whatever stage it is reached: structure, labels, counts and values stay."""
    problem = PROBLEMS["line"]()
    tree = (0, 1, (0, 0, None, None), (0, 2, None, None))
    params = make_params(problem)
    # The clamped tree takes a stage for each of its 7 nodes, and no tree on four rows has more; the authors count the
    # 3 internal ones, or more.
    for stages in range(1, 7 if bookkeeping == "canonical" else 3):
        sampler = bart.ParticleGibbs(3, max_stages=stages, bookkeeping=bookkeeping)
        state = make_state(problem, tree)
        state.leaf_values = rng.standard_normal(4)
        before = state.dump().tobytes(), state.key(), state.leaf_of_row.tolist(), state.leaf_values.tolist()
        for _ in range(20):
            with pytest.raises(RuntimeError, match="max_stages"):
                sampler.step(state, problem.target, params, rng)
            after = state.dump().tobytes(), state.key(), state.leaf_of_row.tolist(), state.leaf_values.tolist()
            assert after == before
    sampler = bart.ParticleGibbs(3, max_stages=8, bookkeeping=bookkeeping)
    for _ in range(200):
        assert sampler.step(state, problem.target, params, rng).n_stages <= 8


def test_max_stages_leaves_an_ensemble_usable(rng):
    """The sweep breaks off; the residual still is y less all trees, and another run goes on."""
    X, y = make_data(60)
    model = bart.Model(X, y, n_trees=5)
    ensemble = bart.Ensemble(model, bart.ParticleGibbs(3, max_stages=3), rng, init="overgrown", init_leaves=3)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="max_stages"):
            ensemble.run(1000)
        expected = model.dataset.y_scaled - sum(state.fit() for state in ensemble.trees)
        np.testing.assert_allclose(ensemble.residual, expected, atol=1e-9)


# ------------------------------------------------------------------------------------------- loops of one's own


def own_sweep(states, residual, sampler, params, rng):
    """A user's block: each tree by `step` and `draw_leaf_values`."""
    for state in states:
        target = residual + state.fit()
        sampler.step(state, target, params, rng)
        residual[:] = target - bart.draw_leaf_values(state, target, params, rng)


def own_states(ensemble):
    """Trees of one's own, equal to those of an ensemble."""
    model = ensemble.model
    states = [bart.TreeState(model.codes, model.tree_prior, structure=tree, weights=model.dataset.weights)
              for tree in ensemble.structures()]
    for state, other in zip(states, ensemble.trees, strict=True):
        state.leaf_values = other.leaf_values
    return states, ensemble.residual.copy()


@pytest.mark.parametrize("sampler", IDS)
def test_an_own_loop_makes_the_same_trees(sampler, seed):
    """With fixed noise both read the same stream; leaf values agree up to rounding."""
    model, sampler = make_model(n_trees=5, sigma=0.3), SAMPLERS[sampler]
    ensemble = bart.Ensemble(model, sampler, np.random.default_rng(seed))
    states, residual = own_states(ensemble)
    rng = np.random.default_rng()
    rng.bit_generator.state = ensemble.rng.bit_generator.state
    params = bart.StepParams(model.noise_prior.sigma2, model.leaf_prior.var, model.leaf_prior.mean)
    for _ in range(60):
        ensemble.sweep()
        own_sweep(states, residual, sampler, params, rng)
        assert [state.structure for state in states] == ensemble.structures()
    np.testing.assert_allclose(residual, ensemble.residual, atol=1e-10)
    assert rng.bit_generator.state == ensemble.rng.bit_generator.state


@pytest.mark.parametrize("sampler", ["growprune", "cgm", "pg"])
def test_an_own_gibbs_sampler_has_the_law_of_an_ensemble(sampler, seed):
    """sigma2 drawn by numpy. Means differ by less than 4.5 joint errors, or again when repeated with more sweeps."""
    X, y = make_data(15)
    model, sampler = bart.Model(X, y, n_trees=2), SAMPLERS[sampler]
    noise, leaf, scale = model.noise_prior, model.leaf_prior, model.dataset.y_range

    def own(n, rng):
        states, residual = own_states(bart.Ensemble(model, sampler, rng))
        out = {"sigma": np.empty(n), "n_leaves": np.empty(n), "log_likelihood": np.empty(n)}
        for i in range(n):
            sigma2 = (noise.rate + residual @ residual / 2) / rng.gamma(noise.shape + len(y) / 2)
            own_sweep(states, residual, sampler, bart.StepParams(sigma2, leaf.var, leaf.mean), rng)
            out["sigma"][i] = scale * np.sqrt(sigma2)
            out["n_leaves"][i] = sum(state.n_leaves for state in states)
            z = residual / np.sqrt(sigma2)
            out["log_likelihood"][i] = -0.5 * z @ z - len(y) * np.log(np.sqrt(2 * np.pi) * out["sigma"][i])
        return out

    for repeat in (1, 8):
        rng = np.random.default_rng([seed, repeat])
        mine = own(4_000 * repeat, rng)
        theirs = bart.Ensemble(model, sampler, rng).run(16_000 * repeat)
        z = {}
        for name, values in mine.items():
            means = values.mean(), theirs[name].mean()
            z_mine = z_scores({name: values}, {name: means[1]})[name]
            z_theirs = z_scores({name: theirs[name]}, {name: means[0]})[name]
            z[name] = 1 / np.sqrt(1 / z_mine**2 + 1 / z_theirs**2)
        if max(z.values()) < 4.5:
            return
    raise AssertionError(z)


@pytest.mark.parametrize("sampler", IDS)
def test_two_ensembles_in_turn_share_no_state(sampler, seed):
    """Each makes the chain that it makes alone, even on the same model and sampler objects."""
    model = make_model(n_trees=3)
    seeds = (seed, seed + 1)
    alone = [bart.Ensemble(model, SAMPLERS[sampler], np.random.default_rng(s)).run(40) for s in seeds]
    pair = [bart.Ensemble(model, SAMPLERS[sampler], np.random.default_rng(s)) for s in seeds]
    found = [[], []]
    for i in range(40):
        for k in ((0, 1), (1, 0))[i % 2]:
            found[k].append(pair[k].sweep())
    for traces, parts in zip(alone, found, strict=True):
        for name in ("sigma", "log_likelihood", "n_leaves", "tree_changed"):
            np.testing.assert_array_equal(traces[name], [part[name] for part in parts])
    assert not np.array_equal(alone[0]["sigma"], alone[1]["sigma"])


def test_two_forests_coupled_by_their_residuals(seed):
    """y = two forests + noise: what one leaves over is the other's data, through `residual` alone."""
    X, y = make_data(50)
    model = bart.Model(X, y, n_trees=3, sigma=0.3)
    rng = np.random.default_rng(seed)
    first, second = (bart.Ensemble(model, sampler, rng) for sampler in (bart.CGM(), bart.ParticleGibbs(3)))
    second.residual[:] = 0.0
    f = {first: np.zeros(50), second: np.zeros(50)}
    y_scaled = model.dataset.y_scaled

    def trees(ensemble):
        return sum(state.fit() for state in ensemble.trees)

    for _ in range(130):
        for one, other in ((first, second), (second, first)):
            one.residual[:] = y_scaled - trees(other) - trees(one)
            one.sweep()
            f[one] = trees(one)
            np.testing.assert_allclose(one.residual, y_scaled - f[first] - trees(second), atol=1e-9)


# ------------------------------------------------------------------------------------------ a sampler in Python


class PriorProposals(bart.TreeSampler):
    """Metropolis-Hastings with whole trees proposed from the prior: ratio of the marginal likelihoods."""

    name = "prior-proposals"

    def __init__(self, codes, tree_prior):
        self.codes, self.tree_prior = codes, tree_prior

    def log_marginal(self, state, target, params):
        counts = np.bincount(state.leaf_of_row, minlength=state.n_leaves)
        sums = np.bincount(state.leaf_of_row, target - params.leaf_mean, minlength=state.n_leaves)
        v = params.sigma2 + counts * params.leaf_var
        return np.sum(0.5 * np.log(params.sigma2 / v) + params.leaf_var * sums**2 / (2 * params.sigma2 * v))

    def step(self, state, target, params, rng):
        proposal = bart.TreeState(self.codes, self.tree_prior)
        proposal.draw_from_prior(rng)
        ratio = self.log_marginal(proposal, target, params) - self.log_marginal(state, target, params)
        before = state.structure
        if np.log(rng.random()) < ratio:
            state.copy_from(proposal)
        after = state.structure
        root = (before and before[:2]) != (after and after[:2])
        return bart.StepInfo("prior", before != after, root, ratio, state.n_leaves, 0)


@pytest.mark.parametrize("name", ["line", "ties"])
def test_a_python_sampler_samples_the_posterior(name, seed):
    """On an enumerated problem, through Ensemble: the law of the number of leaves and the mean of f."""
    problem = PROBLEMS[name]()
    model = bart.Model(problem.X, problem.target, n_trees=1, alpha=problem.alpha, beta=problem.beta, scale=False,
                       sigma=np.sqrt(problem.sigma2), leaf_var=problem.leaf_var, leaf_mean=problem.leaf_mean)
    law = problem.posterior()
    exact = {f"{k} leaves": p for k, p in enumerate(law.p_n_leaves(), start=1) if p > 0.02}
    exact |= {f"f{i}": value for i, value in enumerate(law.mean_f())}
    sampler = PriorProposals(model.codes, model.tree_prior)
    for repeat in (0, 1):
        ensemble = bart.Ensemble(model, sampler, np.random.default_rng(seed + repeat))
        leaves, fits = [], []
        for _ in range(2_500 * (1 + 9 * repeat)):
            leaves.append(ensemble.sweep()["n_leaves"])
            fits.append(ensemble.fit())
        traces = {f"f{i}": column for i, column in enumerate(np.array(fits).T)}
        traces |= {f"{k} leaves": np.array(leaves) == k for k in range(1, problem.n_rows + 1)}
        z = z_scores({name: traces[name] for name in exact}, exact)
        if max(map(abs, z.values())) < 4.5:
            return
    raise AssertionError(z)


def test_a_python_sampler_in_sample():
    """Traces, forests and predictions are those of its own trees; the same seed gives the same bits."""
    model = make_model(n_trees=3)
    size = {"n_burn": 5, "n_draws": 12, "n_chains": 2, "seed": 3, "thin": 2, "progress": False}
    runs = [bart.sample(model, PriorProposals(model.codes, model.tree_prior), **size) for _ in range(2)]
    np.testing.assert_array_equal(runs[0].sweeps["sigma"], runs[1].sweeps["sigma"])
    post = runs[0]
    assert (post.sweeps["tree_changed"] > 0).any()
    assert (post.sweeps["root_changed"] <= post.sweeps["tree_changed"]).all()
    f = post.predict(model.dataset.X, draws=True).draws
    sigma = post["sigma"][..., None]
    terms = -0.5 * np.log(2.0 * np.pi * sigma**2) - 0.5 * ((model.dataset.y - f) / sigma) ** 2
    np.testing.assert_allclose(post["log_likelihood"], terms.sum(axis=2), rtol=1e-9)


class Opaque(bart.TreeSampler):
    """Holds an object whose settings cannot be told."""

    def __init__(self):
        self.lookup, self.n_steps = object(), 0

    def step(self, state, target, params, rng):
        self.n_steps += 1
        return bart.GrowPrune().step(state, target, params, rng)


def test_a_sampler_that_cannot_be_described_costs_no_sweeps():
    """Either it runs, or it is refused before any work; draws made are not thrown away."""
    sampler = Opaque()
    try:
        bart.sample(make_model(n_trees=2), sampler, n_burn=2, n_draws=3, n_chains=1, seed=1, progress=False)
    except TypeError:
        assert sampler.n_steps == 0


class Failing(bart.TreeSampler):
    """Fails at its n-th step."""

    def __init__(self, n):
        self.n = n

    def step(self, state, target, params, rng):
        self.n -= 1
        if self.n == 0:
            raise ZeroDivisionError("user's own")
        return bart.GrowPrune().step(state, target, params, rng)


def test_an_error_in_a_python_sampler_leaves_the_ensemble_usable(rng):
    model = make_model(n_trees=4)
    for n in (1, 2, 6, 8):
        sampler = Failing(n)
        ensemble = bart.Ensemble(model, sampler, rng)
        with pytest.raises(ZeroDivisionError, match="user's own"):
            ensemble.run(5)
        expected = model.dataset.y_scaled - sum(state.fit() for state in ensemble.trees)
        np.testing.assert_allclose(ensemble.residual, expected, atol=1e-9)
        done = ensemble.n_sweeps
        traces = ensemble.run(3)
        assert ensemble.n_sweeps == done + 3 and (traces["tree_changed"] <= 1).all()
        assert np.isfinite(traces["log_likelihood"]).all()
