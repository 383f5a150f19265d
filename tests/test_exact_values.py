"""Long runs of the compiled samplers against exact values computed by an independent program.

|z| < 4.5 for each of some 2000 means, and again with ten times the steps before it counts as a failure: about
1e-8 for the whole file, were the errors normal and independent.
"""

import os

import numpy as np
import pytest
from chain_laws import assert_means, z_scores
from exact_runs import BETWEEN_SWEEPS, CASES, SAMPLERS, exact_means, step_traces, sweep_traces

from bart.samplers import slide

pytestmark = pytest.mark.kernel

# The build with all checks on is some ten times slower.
N_STEPS = 10_000 if os.environ.get("BART_TEST_LIB") else 100_000
N_SWEEPS = N_STEPS // 4
N_LONG = 1_000_000


def check_steps(case, sampler, seed, n_steps):
    case, sampler = CASES[case], SAMPLERS[sampler]
    assert_means(lambda n, repeat: step_traces(case, sampler, n, np.random.default_rng([seed, repeat])),
                 exact_means(case), n_steps)


def check_chains(case, sampler, seed, n_sweeps):
    case = CASES[case]
    assert_means(lambda n, repeat: sweep_traces(case, sampler, n, np.random.default_rng([seed, repeat])),
                 exact_means(case), n_sweeps)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_steps(sampler, case, seed):
    check_steps(case, sampler, seed, N_STEPS)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_long_runs(sampler, case, seed):
    check_steps(case, sampler, seed, N_LONG)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("sampler", SAMPLERS | BETWEEN_SWEEPS)
def test_whole_chains(sampler, case, seed):
    """One tree with fixed noise through Model and Ensemble, up to stored trees and what they predict."""
    check_chains(case, (SAMPLERS | BETWEEN_SWEEPS)[sampler], seed, N_SWEEPS)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("sampler", BETWEEN_SWEEPS)
def test_long_chains(sampler, case, seed):
    check_chains(case, BETWEEN_SWEEPS[sampler], seed, N_LONG // 4)


def test_a_slide_with_another_noise_shows_at_the_root(seed, monkeypatch):
    """It moves cuts and no leaves, whose number follows from them too weakly to tell."""
    plain = slide.slide_cuts
    monkeypatch.setattr(slide, "slide_cuts", lambda states, residual, sigma2, *rest: plain(states, residual,
                                                                                          9 * sigma2, *rest))
    case, sampler = CASES["four_rows_2d"], BETWEEN_SWEEPS["cycle growprune slide"]
    z = z_scores(sweep_traces(case, sampler, 100_000, np.random.default_rng(seed)), exact_means(case))
    assert max(abs(value) for name, value in z.items() if name.startswith("root")) > 4.5
