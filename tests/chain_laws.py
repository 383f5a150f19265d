"""z-scores of chain averages against exact means; a failure counts only if it repeats with ten times the sweeps."""

import math

import numpy as np
from threadpoolctl import ThreadpoolController

from bart import effective_size

N_BATCHES = 50
# Threads gain nothing on the dot products of an effective size, and wait for each other when cores are few.
BLAS = ThreadpoolController()


def standard_error(values, exact):
    """Standard error of a chain's mean, the larger of two estimates.

    By coda's effective size, sd / sqrt(ESS); and from the means of 50 batches. An event that is rare, or in which a
    sampler with few particles stays for long, has few visits: the autoregression behind the ESS then sees less
    dependence than there is, and so may the batches. For an event (a boolean trace) the standard deviation is at
    least the exact sqrt(p (1 - p)): the empirical one is small just when the event was seen too seldom.
    """
    event = values.dtype == bool
    values = values.astype(float)
    n, sd = len(values), values.std()
    ess = effective_size(values) if sd > 0 else 0.0
    batches = values[: n // N_BATCHES * N_BATCHES].reshape(N_BATCHES, -1).mean(axis=1)
    if event:
        sd = max(sd, math.sqrt(exact * (1.0 - exact)))
    return max(sd / math.sqrt(ess if ess > 0 else n), batches.std(ddof=1) / math.sqrt(N_BATCHES))


def z_scores(traces, exact):
    """z of each trace's mean, by name."""
    found = {}
    for name, values in traces.items():
        values = np.asarray(values)
        difference = float(values.mean() - exact[name])
        if abs(difference) <= 1e-12:        # exact to rounding: events of probability 0 and 1
            found[name] = 0.0
            continue
        with BLAS.limit(limits=1):
            error = standard_error(values, exact[name])
        found[name] = difference / error if error > 0 else math.copysign(math.inf, difference)
    return found


def assert_means(run, exact, n_sweeps, bound=4.5):
    """`run(n, repeat)` gives traces of n sweeps; every |z| is below the bound, or is with ten times as many."""
    worst = z_scores(run(n_sweeps, 0), exact)
    if max(abs(z) for z in worst.values()) >= bound:
        worst = z_scores(run(10 * n_sweeps, 1), exact)
    assert max(abs(z) for z in worst.values()) < bound, worst
