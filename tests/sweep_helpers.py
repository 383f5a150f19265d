"""What tests of sweeps share: awkward data, all samplers, and a run as bytes."""

import numpy as np
from bart.kernels.forest import ForestStore

import bart

IRREDUCIBLE = {
    "growprune": bart.GrowPrune(),
    "cgm": bart.CGM(),
    "splice": bart.Splice(),
    "pg": bart.ParticleGibbs(4),
    "pg-systematic": bart.ParticleGibbs(3, "systematic", 0.5, "forced"),
    "pg-killing": bart.ParticleGibbs(3, "killing"),
    "pg-authors": bart.ParticleGibbs(3, bookkeeping="authors"),
    "cycle": bart.Cycle(bart.GrowPrune(), bart.Mixture((0.6, bart.CGM()), (0.4, bart.ParticleGibbs(3)))),
    "joint": bart.Cycle(bart.CGM(), bart.JointLeaves(every=3)),
    "levels": bart.Cycle(bart.Local(subset=1), bart.Recut(), bart.Levels(every=2)),
    "slide": bart.Cycle(bart.GrowPrune(), bart.Slide(every=1)),
    "optimal": bart.ParticleGibbs(3, ess_threshold=0.5, final="forced", proposal="optimal"),
    "optimal-mixed": bart.ParticleGibbs(3, "killing", proposal="optimal", subset=2, prior_share=0.2),
    "subtree": bart.ParticleGibbs(4, region="subtree"),
    "subtree-optimal": bart.ParticleGibbs(3, "systematic", 0.5, "forced", proposal="optimal", region="subtree"),
    "local": bart.Local(),
    "local-slot": bart.Local(subset=2, descend=0.7),
    "recut": bart.Cycle(bart.Local(subset=2), bart.Recut()),
    "transpose": bart.Cycle(bart.CGM(), bart.Splice(), bart.Transpose()),
    "reroute": bart.Cycle(bart.CGM(), bart.Reroute()),
    "mixture": bart.Mixture((0.7, bart.Cycle(bart.Local(), bart.Perturb(), bart.Rotate())),
                            (0.3, bart.ParticleGibbs(3, region="subtree", proposal="optimal", subset=1))),
}
SAMPLERS = IRREDUCIBLE | {"perturb": bart.Perturb(), "rotate": bart.Rotate(), "recut-alone": bart.Recut(None)}
BETWEEN_SWEEPS = ("joint", "levels", "slide")
# Those that make steps on single trees.
OF_TREES = [name for name in SAMPLERS if name not in BETWEEN_SWEEPS]
STARTS = ("empty", "prior", "overgrown", "smc", "grow")
ORDERS = ("sequential", "random")
TRACES = ("log_likelihood", "sigma", "n_leaves", "depth", "tree_changed", "root_changed", "row_visits")


def make_data(kind, rng):
    """Small data of every awkward kind."""
    n, d = {"one row": (1, 2), "two rows": (2, 1), "three rows": (3, 2), "wide": (6, 20)}.get(kind, (40, 3))
    X = rng.random((n, d))
    if kind == "ties":
        X = rng.integers(0, 4, (n, d)).astype(float)
    elif kind == "constant column":
        X[:, 1] = 7.0
    elif kind == "all constant":
        X[:] = [1.0, 2.0, 3.0]
    elif kind == "two distinct rows":
        X = np.where(rng.random((n, 1)) < 0.5, 0.0, 1.0) * np.ones((1, d))
    return X, np.round(3 * X[:, 0] + rng.standard_normal(n), 2)


def run_store(ensemble, n_sweeps):
    """Traces but the times, and the stored forests with their thresholds, as bytes."""
    store = ForestStore(ensemble.model.n_trees)
    traces = ensemble.run(n_sweeps, store=store)
    return {name: traces[name].tobytes() for name in TRACES} | {"nodes": store.nodes.tobytes()}
