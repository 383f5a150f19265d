"""Geweke's joint test: sweeps alternate with redrawn data, so that every parameter keeps its prior law.

The calibration is frozen: scaling and priors come from the first data and stay. The prior laws are exact: those of
the trees by the slow enumeration, the others by hand.
"""

import numpy as np
import pytest
from auto_choices import AUTO
from chain_laws import assert_means
from oracle import Problem

import bart

X = np.array([[0.0, 1.0], [0.1, 0.3], [0.9, 0.3], [1.0, 0.0], [2.5, 1.0], [2.5, 1.0]])
SAMPLERS = {
    "growprune": bart.GrowPrune(),
    "cgm": bart.CGM(),
    "pg": bart.ParticleGibbs(4),
    "pg-killing-adaptive-forced": bart.ParticleGibbs(3, "killing", 0.6, "forced"),
    "pg-systematic": bart.ParticleGibbs(10, "systematic"),
    "cycle": bart.Cycle(bart.GrowPrune(), bart.Mixture((0.5, bart.CGM()), (0.5, bart.ParticleGibbs(2)))),
    "cycle-joint": bart.Cycle(bart.CGM(), bart.JointLeaves(every=2)),
    "joint-each": bart.Cycle(bart.GrowPrune(), bart.JointLeaves(every=1)),
    "levels": bart.Cycle(bart.CGM(), bart.Levels(every=1)),
    "slide": bart.Cycle(bart.GrowPrune(), bart.Slide(every=1)),
    "local": bart.Local(),
    "optimal": bart.ParticleGibbs(2, proposal="optimal", ess_threshold=0.5),
    "subtree-optimal": bart.ParticleGibbs(3, proposal="optimal", region="subtree", subset=1, prior_share=0.2),
    "mixture": bart.Mixture((0.7, bart.Cycle(bart.Local(), bart.Perturb(), bart.Rotate())),
                            (0.3, bart.ParticleGibbs(3, region="subtree"))),
    "recut": bart.Cycle(bart.Local(subset=1), bart.Recut(), bart.Recut(None)),
    "splice": bart.Cycle(bart.CGM(), bart.Splice()),
    "transpose": bart.Cycle(bart.CGM(), bart.Transpose()),
    "reroute": bart.Cycle(bart.CGM(), bart.Reroute()),
    "all-joint": bart.Cycle(bart.Local(), bart.ParticleGibbs(2, proposal="optimal", region="subtree"),
                            bart.JointLeaves(every=2)),
} | AUTO
HEAVY = {
    "optimal-forced": bart.ParticleGibbs(3, "systematic", 0.6, "forced", proposal="optimal"),
    "optimal-subset": bart.ParticleGibbs(2, "killing", proposal="optimal", subset=1, prior_share=0.3),
    "subtree": bart.ParticleGibbs(5, region="subtree"),
    "local-subset": bart.Local(subset=1),
    "local-slot": bart.Local(subset=1, descend=0.7),
    "slide-three": bart.Cycle(bart.CGM(), bart.JointLeaves(every=2), bart.Levels(every=1),
                              bart.Slide(every=1, n_gaps=3, n_rows=1)),
}
CASES = [*SAMPLERS, *(pytest.param(name, marks=pytest.mark.long) for name in HEAVY)]


def make_model(n_trees, cuts, weights=None):
    """A model whose noise prior has enough moments for the averages below to have errors."""
    grid = {"cuts": "grid", "n_cuts": 4} if cuts == "grid" else {}
    return bart.Model(X, [-1.0, -0.6, 0.1, 0.3, 0.8, 1.0], n_trees=n_trees, alpha=0.9, beta=0.7, nu=20.0, q=0.5,
                      k=1.0, leaf_mean=0.1, weights=weights, **grid)


def exact_means(model):
    """Prior means of what `run` records."""
    noise, leaf = model.noise_prior, model.leaf_prior
    problem = Problem(X, np.zeros(len(X)), 1e12, 1e-12, alpha=0.9, beta=0.7,
                      **({"cuts": "grid", "n_cuts": 4} if model.tree_prior.cuts == "grid" else {}))
    law = problem.posterior().p_n_leaves()
    m = model.n_trees
    exact = {"precision": noise.shape / noise.rate, "sigma2": noise.rate / (noise.shape - 1),
             "f": m * leaf.mean, "f2": m * leaf.var + (m * leaf.mean) ** 2, "value2": leaf.var + leaf.mean**2}
    exact["y2"] = exact["f2"] + exact["sigma2"]
    return exact | {f"{k} leaves": p for k, p in enumerate(law, start=1)}


def run(model, sampler, tree_order, seed, n_sweeps):
    """Traces of the joint chain over parameters and data, one tree's leaves at a time."""
    rng = np.random.default_rng(seed)
    ensemble = bart.Ensemble(model, sampler, rng, init="prior", tree_order=tree_order)
    shape, rate = model.noise_prior.shape, model.noise_prior.rate
    ensemble._kernel.sigma2 = rate / rng.gamma(shape)
    leaves = np.empty(n_sweeps, dtype=int)
    names = ("precision", "sigma2", "f", "f2", "value2", "y2")
    traces = {name: np.empty(n_sweeps) for name in names}
    root = 1.0 if ensemble.weights is None else np.sqrt(ensemble.weights)
    for i in range(n_sweeps):
        ensemble.residual[:] = np.sqrt(ensemble.sigma2) * rng.standard_normal(len(X)) / root
        ensemble.sweep()
        tree = ensemble.trees[i % model.n_trees]
        f = sum(state.fit()[2] for state in ensemble.trees)
        y = f + ensemble.residual[2]
        leaves[i] = tree.n_leaves
        for name, value in zip(names, (1 / ensemble.sigma2, ensemble.sigma2, f, f * f, tree.leaf_values[0] ** 2,
                                       y * y), strict=True):
            traces[name][i] = value
    return traces | {f"{k} leaves": leaves == k for k in range(1, len(X) + 1)}


@pytest.mark.parametrize("cuts", ["width", "grid"])
@pytest.mark.parametrize("n_trees", [1, 3])
@pytest.mark.parametrize("sampler", CASES)
def test_joint_law_is_the_prior(sampler, n_trees, cuts, seed):
    model = make_model(n_trees, cuts)
    order = "random" if n_trees > 1 else "sequential"
    sampler = (SAMPLERS | HEAVY)[sampler]
    assert_means(lambda n, repeat: run(model, sampler, order, seed + repeat, n), exact_means(model), 10_000)
