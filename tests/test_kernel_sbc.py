"""Simulation-based calibration: the truth, drawn from the prior with its data, ranks uniformly among posterior draws.

Every quantity of a chain is ranked, the log-likelihood above all: it sees a posterior that is too wide or too narrow
where each parameter alone does not. The calibration of the priors is frozen: it comes from data that are not used.
"""

import numpy as np
import pytest
from auto_choices import AUTO
from scipy import stats

import bart

X = np.array([[0.0, 1.0], [0.1, 0.3], [0.5, 0.3], [0.9, 0.8], [1.0, 0.0], [1.7, 1.0], [2.5, 0.4], [2.5, 1.0]])
LEVEL = 1e-5
N_SETS = 800
N_DRAWS = 9         # ranks 0 to 9
# Sweeps from one draw to the next: enough for draws that are all but independent, as uniform ranks ask for.
SAMPLERS = {
    "growprune": (bart.GrowPrune(), 120),
    "pg": (bart.ParticleGibbs(4), 20),
    "optimal": (bart.ParticleGibbs(3, ess_threshold=0.5, final="forced", proposal="optimal"), 6),
    "local": (bart.Local(), 60),
    "recut": (bart.Cycle(bart.Local(), bart.Recut()), 50),
    "cycle": (bart.Cycle(bart.Local(), bart.ParticleGibbs(3, proposal="optimal", region="subtree"), bart.Perturb(),
                         bart.Rotate(), bart.JointLeaves(every=5)), 25),
}
HEAVY = {
    "cgm": (bart.CGM(), 60),
    "local-slot": (bart.Local(descend=0.6), 120),
    "subtree": (bart.ParticleGibbs(5, region="subtree"), 60),
    "optimal-subset": (bart.ParticleGibbs(2, proposal="optimal", subset=1, prior_share=0.3), 60),
    "subtree-optimal": (bart.ParticleGibbs(2, proposal="optimal", region="subtree", ess_threshold=0.0,
                                           final="forced"), 20),
    "transpose": (bart.Cycle(bart.CGM(), bart.Splice(), bart.Transpose(), bart.Reroute()), 40),
    "levels": (bart.Cycle(bart.CGM(), bart.Levels(every=1)), 60),
    "slide": (bart.Cycle(bart.GrowPrune(), bart.Slide(every=1)), 100),
    "mixture": (bart.Mixture((0.5, bart.Local(subset=1)), (0.5, bart.ParticleGibbs(3, region="subtree"))), 60),
} | {text: (sampler, 60) for text, sampler in AUTO.items()}
CASES = [*SAMPLERS, *(pytest.param(name, marks=pytest.mark.long) for name in HEAVY)]


def quantities(ensemble):
    """log-likelihood, noise, f at two rows, leaf values squared, leaves."""
    f = sum(state.fit() for state in ensemble.trees)
    values = np.concatenate([state.leaf_values for state in ensemble.trees])
    return np.array([ensemble.log_likelihood, ensemble.sigma2, f[0], f[6], values @ values, len(values)])


def make_model():
    y = [-1.0, -0.6, 0.1, 0.3, 0.8, 1.0, -0.2, 0.5]
    return bart.Model(X, y, n_trees=2, alpha=0.7, beta=1.0, nu=8.0, q=0.7, k=1.0)


def ranks(model, sampler, thin, rng, n_sets):
    """(n_sets, 6): how many of N_DRAWS draws lie below the truth; equal ones by lot."""
    noise, n = model.noise_prior, len(X)
    out = np.empty((n_sets, 6), dtype=int)
    for row in out:
        truth = bart.Ensemble(model, sampler, rng, init="prior")
        truth._kernel.sigma2 = noise.rate / rng.gamma(noise.shape)
        truth.residual[:] = np.sqrt(truth.sigma2) * rng.standard_normal(n)
        data = truth.residual + sum(state.fit() for state in truth.trees)
        exact = quantities(truth)
        chain = bart.Ensemble(model, sampler, rng, init="prior")
        chain.residual[:] += data - model.dataset.y_scaled
        chain.run(6 * thin)
        draws = np.empty((N_DRAWS, 6))
        for k in range(N_DRAWS):
            chain.run(thin)
            draws[k] = quantities(chain)
        ties = (draws == exact).sum(axis=0)
        row[:] = (draws < exact).sum(axis=0) + rng.integers(0, ties + 1)
    return out


def p_values(found):
    """Of the uniform law of each quantity's rank."""
    return np.array([stats.chisquare(np.bincount(column, minlength=N_DRAWS + 1)).pvalue for column in found.T])


@pytest.mark.parametrize("sampler", CASES)
def test_ranks_are_uniform(sampler, rng):
    model, (sampler, thin) = make_model(), (SAMPLERS | HEAVY)[sampler]
    p = p_values(ranks(model, sampler, thin, rng, N_SETS))
    if p.min() <= LEVEL:            # a failure counts if it repeats with more data sets
        p = p_values(ranks(model, sampler, thin, rng, 4 * N_SETS))
    assert p.min() > LEVEL, p


def test_a_noise_too_small_is_seen(rng, monkeypatch):
    """The test can fail: sigma2 shrunk by a fifth after each run shows in the log-likelihood."""
    def run(ensemble, *arguments, **options):
        out = plain(ensemble, *arguments, **options)
        ensemble.sigma2 *= 0.8
        return out

    plain = bart.Ensemble.run
    monkeypatch.setattr(bart.Ensemble, "run", run)
    assert p_values(ranks(make_model(), *SAMPLERS["local"], rng, N_SETS)).min() < LEVEL
