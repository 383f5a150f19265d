"""Probabilities at new rows, from all draws of a block of rows at a time."""

from __future__ import annotations

import numpy as np

from .inputs import check_count, check_flag
from .outcomes import Probit
from .prediction import block_rows, predict_blocks
from .predictive import new_offset
from .summaries import make_prediction, quantile_levels

__all__ = ["all_draws", "mean_of_draws", "predict_proba"]


def all_draws(post, X, every=1, n_threads=1, offset=None):
    """f of all draws at new rows, by blocks of rows that bound the memory.

    Parameters
    ----------
    post : bart.Posterior
    X : array_like, shape (n, n_dims)
        Checked already.
    every : int
        Use only every so many kept draws.
    n_threads : int
    offset : (n,) float64 or None
        Of the rows, as `new_offset` gives them.

    Yields
    ------
    rows : slice
    values : (n_chains, n_used_draws, n_block_rows) float64
        In the units of y, latent ones for probit; may be changed.
    """
    n_used = len(range(0, post.n_draws, every))
    step = block_rows(post, True, n_threads)
    for first in range(0, len(X), step):
        rows = slice(first, min(first + step, len(X)))
        values = np.empty((post.n_chains, n_used, rows.stop - first))
        known = None if offset is None else offset[rows]
        for block in predict_blocks(post, X[rows], every=every, n_threads=n_threads, offset=known):
            values[block.chain, block.draws, block.rows] = block.values
        yield rows, values


def predict_proba(post, X, draws=False, quantiles=None, interval=None, every=1, n_threads=1, offset=None):
    """`Posterior.predict_proba`."""
    if post.outcome != Probit.name:
        raise RuntimeError("predict_proba needs a run of a Model with outcome='probit'")
    levels, draws = quantile_levels(quantiles, interval), check_flag(draws, "draws")
    X = post._check_new(X)
    offset = new_offset(post.header, offset, len(X))
    every = check_count(every, "every")
    mean = np.empty(len(X))
    kept = np.empty((post.n_chains, len(range(0, post.n_draws, every)), len(X))) if draws else None
    found = np.empty((len(levels), len(X)))
    for rows, values in all_draws(post, X, every, check_count(n_threads, "n_threads"), offset):
        values = Probit.probability(values)
        mean[rows] = mean_of_draws(values)
        if draws:
            kept[:, :, rows] = values
        if levels:
            found[:, rows] = np.quantile(values.reshape(-1, values.shape[2]), levels, axis=0)
    return make_prediction(mean, kept, found, quantiles, interval)


def mean_of_draws(values):
    """Mean over chains and draws, (n_rows,); one draw after the other, whatever the number of rows."""
    total = np.zeros(values.shape[2])
    for chain in values:
        for row in chain:
            total += row
    return total / (values.shape[0] * values.shape[1])
