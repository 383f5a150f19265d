"""G-tests of simulated counts against exact laws."""

import numpy as np
from scipy import stats


def g_test(counts, probabilities, pool_below=20.0):
    """p-value of the counts under a law; cells with a small expected count are pooled.

    Parameters
    ----------
    counts : array (K,) of ints
    probabilities : array (K,)
        Cells of probability 0 must have count 0.
    pool_below : float
        Cells expected below this are pooled into one (with the smallest other cell if still below).
    """
    counts, expected = np.asarray(counts, float), np.asarray(probabilities, float) * np.sum(counts)
    if (counts[expected == 0] > 0).any():
        return 0.0
    order = np.argsort(-expected)
    counts, expected = counts[order], expected[order]
    kept = int((expected >= pool_below).sum())
    if expected[kept:].sum() < pool_below and kept > 0 and kept < len(expected):
        kept -= 1
    if kept < len(expected):
        counts = np.append(counts[:kept], counts[kept:].sum())
        expected = np.append(expected[:kept], expected[kept:].sum())
    if len(counts) < 2:
        return 1.0
    seen = counts > 0
    g = 2.0 * np.sum(counts[seen] * np.log(counts[seen] / expected[seen]))
    return float(stats.chi2.sf(max(g, 0.0), len(counts) - 1))
