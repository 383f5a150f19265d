"""Long runs of the compiled samplers against exact values computed by an independent program."""

import json
from pathlib import Path

import numpy as np
import pytest
from compiled import make_params, make_state
from oracle import Problem

from bart.samplers import CGM, GrowPrune, ParticleGibbs, draw_leaf_values

pytestmark = pytest.mark.kernel

CASES = json.loads((Path(__file__).parent / "golden" / "tiny_posteriors.json").read_text())
SAMPLERS = {"growprune": GrowPrune(), "cgm": CGM(), "pg": ParticleGibbs(10),
            "pg-systematic": ParticleGibbs(5, resampling="systematic", ess_threshold=0.5, final="forced")}
N_BATCHES = 40


def run(case, sampler, rng, n_steps):
    """Traces of a chain: leaf counts, root decisions as (dim, code), fits."""
    problem = Problem(*(case[k] for k in ("X", "target", "sigma2", "leaf_var", "leaf_mean", "alpha", "beta")))
    state, params = make_state(problem), make_params(problem)
    leaves, roots, fits = [], [], []
    for _ in range(n_steps):
        leaves.append(sampler.step(state, problem.target, params, rng).n_leaves)
        roots.append((state.structure or ("stop",))[:2])
        fits.append(draw_leaf_values(state, problem.target, params, rng))
    return problem, np.array(leaves), roots, np.array(fits)


def check_mean(trace, exact, what):
    """Batch means within 6.5 standard errors, about 1e-7 for 39 degrees of freedom."""
    batches = np.asarray(trace, float).reshape(N_BATCHES, -1).mean(axis=1)
    error = batches.std(ddof=1) / np.sqrt(N_BATCHES)
    assert abs(batches.mean() - exact) <= 6.5 * error + 2e-3, what


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("case", CASES, ids=[c["name"] for c in CASES])
def test_long_runs(case, sampler, rng):
    problem, leaves, roots, fits = run(case, SAMPLERS[sampler], rng, 8_000)
    exact = case["exact"]
    for k, p in enumerate(exact["p_n_leaves"], start=1):
        check_mean(leaves == k, p, f"P({k} leaves)")
    for n, mean in enumerate(exact["posterior_mean_f"]):
        check_mean(fits[:, n], mean, f"E f at row {n}")
    for entry in exact["root"]:
        if "stop" in entry:
            key, p = ("stop",), entry["stop"]
        else:
            key, p = (entry["dim"], problem.values[entry["dim"]].index(entry["between"][0])), entry["p"]
        check_mean([r == key for r in roots], p, f"P(root {key})")
