"""z-scores of chain averages against exact means; a failure counts only if it repeats with ten times the sweeps."""

import numpy as np

from bart import effective_size


def z_scores(traces, exact):
    """z of each trace's mean, with the standard error from coda's effective size (and from batch means, if larger)."""
    found = {}
    for name, values in traces.items():
        values = np.asarray(values, dtype=float)
        sd = values.std()
        if sd == 0:
            found[name] = 0.0 if np.isclose(values[0], exact[name]) else np.inf
            continue
        batches = values[: len(values) // 50 * 50].reshape(50, -1).mean(axis=1)
        error = max(sd / np.sqrt(max(effective_size(values), 1.0)), batches.std(ddof=1) / np.sqrt(50))
        found[name] = (values.mean() - exact[name]) / error
    return found


def assert_means(run, exact, n_sweeps, bound=4.5):
    """`run(n, repeat)` gives traces of n sweeps; every |z| is below the bound, or is with ten times as many."""
    worst = z_scores(run(n_sweeps, 0), exact)
    if max(abs(z) for z in worst.values()) > bound:
        worst = z_scores(run(10 * n_sweeps, 1), exact)
    assert max(abs(z) for z in worst.values()) <= bound, worst
