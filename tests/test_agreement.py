"""On medium data every sampler has the same posterior: R-hat across samplers of sigma, log-likelihood and f."""

import numpy as np
import pytest
from auto_choices import AUTO
from bart.kernels.forest import ForestStore, predict_draws
from scipy import stats

import bart
from bart import diagnostics
from bart.samplers.auto import CHOICES
from bart.tempering import TemperedEnsemble

BOUND = 1.02
N_KEPT = 1_000


def auto_with(n_trees, n_sweeps):
    """What "auto" may stand for with so many trees, whatever the number of rows."""
    least = max(choice.n_trees for choice in CHOICES if choice.n_trees <= n_trees)
    return {choice.sampler: (AUTO[choice.sampler], n_sweeps) for choice in CHOICES if choice.n_trees == least}


# Sweeps of a chain.
SAMPLERS = {
    "growprune": (bart.GrowPrune(), 36_000),
    "cgm": (bart.CGM((0.25, 0.25, 0.40, 0.10)), 28_000),
    "pg": (bart.ParticleGibbs(10), 8_000),
    "pg-systematic": (bart.ParticleGibbs(5, "systematic", 0.5, "forced"), 12_000),
    "pg-killing": (bart.ParticleGibbs(4, "killing"), 14_000),
    "slide": (bart.Cycle(bart.GrowPrune(), bart.Slide(every=1)), 24_000),
    "levels": (bart.Cycle(bart.CGM(), bart.Levels(every=1)), 28_000),
} | auto_with(20, 24_000)

_LOCAL = bart.Local()
_SUBTREE = bart.ParticleGibbs(3, ess_threshold=0.5, final="forced", proposal="optimal", region="subtree")
# Sweeps of a chain on few trees, and its ladder if it has one.
ON_FEW_TREES = {
    "growprune": (bart.GrowPrune(), 60_000),
    "cgm": (bart.CGM((0.25, 0.25, 0.40, 0.10)), 60_000),
    "optimal": (bart.ParticleGibbs(3, ess_threshold=0.5, final="forced", proposal="optimal"), 12_000),
    "optimal-subset": (bart.ParticleGibbs(3, "systematic", 0.5, proposal="optimal", subset=2, prior_share=0.1), 15_000),
    "subtree": (bart.ParticleGibbs(10, ess_threshold=0.5, final="forced", region="subtree"), 30_000),
    "subtree-optimal": (_SUBTREE, 20_000),
    "local": (_LOCAL, 40_000),
    "local-slot": (bart.Local(descend=0.6), 60_000),
    "cycle": (bart.Cycle(_LOCAL, bart.Perturb(), bart.Rotate(), bart.JointLeaves(every=5)), 30_000),
    "recut": (bart.Cycle(_LOCAL, bart.Recut(), bart.Recut(subset=2)), 20_000),
    "reroute": (bart.Cycle(bart.CGM(), bart.Splice(), bart.Transpose(), bart.Reroute()), 40_000),
    "mixture": (bart.Mixture((0.7, _LOCAL), (0.3, _SUBTREE)), 30_000),
    "slide": (bart.Cycle(bart.GrowPrune(), bart.Slide(every=1)), 40_000),
    "ladder": (bart.CGM(), 30_000, bart.Ladder(n_rungs=3, t_min=0.3)),
} | auto_with(10, 30_000)
ON_TWO_TREES = {
    "growprune": (bart.GrowPrune(), 100_000),
    "cgm": (bart.CGM(), 100_000),
    "optimal": (bart.ParticleGibbs(3, ess_threshold=0.5, final="forced", proposal="optimal"), 20_000),
    "local": (_LOCAL, 60_000),
    "ladder": (bart.CGM(), 50_000, bart.Ladder(n_rungs=3, t_min=0.2)),
} | auto_with(2, 60_000)


def friedman(X):
    return 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]


def smooth(rng):
    X = rng.random((300, 5))
    return X, friedman(X) + 6 * rng.standard_normal(300), {"n_trees": 20}


def levels(rng):
    """Two flags, a column of three levels, one of seven, one without ties."""
    X = np.column_stack([rng.integers(0, k, 300) for k in (2, 2, 3, 7)] + [rng.random(300)]).astype(float)
    y = X[:, 0] * X[:, 2] - X[:, 1] + np.sin(X[:, 3]) + 2 * X[:, 4] + 0.7 * rng.standard_normal(300)
    return X, y, {"n_trees": 30}


def grid(rng):
    X = rng.random((300, 5)) ** 2
    y = friedman(np.sqrt(X)) + 6 * rng.standard_normal(300)
    return X, y, {"n_trees": 20, "cuts": "grid", "n_cuts": 15}


def few_trees(rng):
    X = rng.random((200, 4))
    y = 2 * X[:, 0] + np.sin(6 * X[:, 1]) + (X[:, 2] > 0.5) + 0.8 * rng.standard_normal(200)
    return X, y, {"n_trees": 10}


def two_trees(rng):
    X = rng.random((100, 3))
    y = X[:, 0] + 0.5 * (X[:, 1] > 0.5) + 0.6 * rng.standard_normal(100)
    return X, y, {"n_trees": 2}


def run_chain(model, start, rng, rows, sampler, n_sweeps, ladder=None):
    """Kept draws of sigma, log-likelihood, leaves, and f at some rows; a fifth of the sweeps is burn-in."""
    if ladder is None:
        ensemble = bart.Ensemble(model, sampler, rng, init=start)
    else:
        ensemble = TemperedEnsemble(model, sampler, rng, ladder, n_sweeps // 5, init=start)
    thin = n_sweeps // N_KEPT
    ensemble.run(n_sweeps // 5)
    store = ForestStore(model.n_trees)
    traces = ensemble.run(N_KEPT * thin, store=store, store_every=thin)
    f = np.empty((N_KEPT, len(rows)))
    predict_draws(np.ascontiguousarray(rows), store.nodes, store.starts, model.n_trees, 0, N_KEPT, f)
    out = {name: traces[name][thin - 1::thin].astype(float) for name in ("sigma", "log_likelihood", "n_leaves")}
    return out | {f"f at row {i}": values for i, values in enumerate(f.T)}


def compare(data, samplers, rng):
    """R-hat of one sequence for each sampler, its four chains joined; and an analysis of variance of the chains'
    means: both by trace."""
    X, y, options = data(rng)
    model, rows = bart.Model(X, y, **options), X[rng.permutation(len(X))[:20]]
    chains = {name: [run_chain(model, start, rng, rows, *sampler) for start in ("empty", "prior", "overgrown", "smc")]
              for name, sampler in samplers.items()}
    across, p_values = {}, {}
    for trace in chains["cgm"][0]:
        draws = np.array([[chain[trace] for chain in chains[name]] for name in samplers])
        across[trace] = diagnostics.split_rhat(draws.reshape(len(samplers), -1))
        p_values[trace] = stats.f_oneway(*draws.mean(axis=2)).pvalue
    return across, p_values


@pytest.mark.long
@pytest.mark.parametrize("data, samplers", [(smooth, SAMPLERS), (levels, SAMPLERS), (grid, SAMPLERS),
                                            (few_trees, ON_FEW_TREES), (two_trees, ON_TWO_TREES)],
                         ids=["smooth", "levels", "grid", "few_trees", "two_trees"])
def test_samplers_agree(data, samplers, rng):
    """R-hat across samplers below the bound, and no difference of the chains' means at level 1e-5."""
    across, p_values = compare(data, samplers, rng)
    assert max(across.values()) < BOUND, across
    assert min(p_values.values()) > 1e-5, p_values
