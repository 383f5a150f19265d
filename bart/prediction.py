"""Predictions from stored forests, in blocks of draws and rows that bound the memory."""

from __future__ import annotations

import numpy as np

from .inputs import check_count, check_flag
from .predictive import new_rows, outcome_noise, quantiles_of
from .progress import Bar
from .summaries import Block, make_prediction, quantile_levels
from .workers import Workers

__all__ = ["block_rows", "predict", "predict_blocks"]

# Rows of a block; bounds on one block: numbers held, and visits of a tree by a row (a fifth of a second).
_BLOCK_ROWS = 4096
_BLOCK_NUMBERS = 4_000_000
_BLOCK_VISITS = 200_000_000


def predict(post, X, draws=False, quantiles=None, interval=None, every=1, progress=False, n_threads=1, kind="mean",
            seed=None, offset=None, weights=None):  # fmt: skip
    """`Posterior.predict`."""
    levels, draws = quantile_levels(quantiles, interval), check_flag(draws, "draws")
    sigma, noise = outcome_noise(post, kind, check_count(every, "every"), draws, seed, weights)
    forests = post._forests(burn=False)
    X = post._check_new(X)
    offset, weights = new_rows(post.header, offset, weights, len(X))
    n_kept = len(range(0, post.n_draws, every))
    check_count(n_threads, "n_threads")
    total = np.zeros(len(X))
    kept = np.empty((post.n_chains, n_kept, len(X))) if draws else None
    found = np.empty((len(levels), len(X)))
    step = block_rows(post, len(levels) > 0, n_threads)
    n_shares = -(-len(X) // _BLOCK_ROWS)
    with Bar(progress, len(X), "row", "predicting") as bar, Workers(n_threads, n_shares) as workers:
        for first in range(0, len(X), step):
            rows = slice(first, min(first + step, len(X)))
            held = np.empty((post.n_chains, n_kept, rows.stop - first)) if len(levels) else None
            known = None if offset is None else offset[rows]
            root = None if weights is None else np.sqrt(weights[rows])
            for block in _draw_blocks(post, X[rows], forests, every, workers, known):
                # One draw after the other, so that a row's sum does not depend on the rows beside it.
                for values in block.values:
                    total[rows] += values
                if held is not None:
                    held[block.chain, block.draws] = block.values
                if draws:
                    kept[block.chain, block.draws, rows] = (
                        block.values if noise is None else noise.add_to(block, root)
                    )
            if held is not None:
                spread = None if sigma is None else sigma.ravel()
                found[:, rows] = quantiles_of(held.reshape(-1, held.shape[2]), spread, levels, root)
            bar.update(rows.stop - first)
    mean = total / (post.n_chains * n_kept)
    return make_prediction(mean, kept, found, quantiles, interval)


def predict_blocks(post, X, every=1, burn=False, n_threads=1, offset=None):
    """`Posterior.predict_blocks` of what is checked; without an offset f less that of the rows."""
    forests = post._forests(check_flag(burn, "burn"))
    step = block_rows(post, False, n_threads)
    with Workers(n_threads, -(-len(X) // _BLOCK_ROWS)) as workers:
        for first in range(0, len(X), step):
            known = None if offset is None else offset[first : first + step]
            for block in _draw_blocks(post, X[first : first + step], forests, every, workers, known):
                yield block._replace(rows=slice(first, first + block.values.shape[1]))


def block_rows(post, holds_all_draws, n_threads):
    """Rows of a block; fewer where all their draws are held together."""
    if not holds_all_draws:
        return _BLOCK_ROWS * min(n_threads, 64)
    return max(1, min(_BLOCK_ROWS, _BLOCK_NUMBERS // max(1, post.n_chains * post.n_draws)))


def _draw_blocks(post, X, forests, every, workers, offset):
    """Blocks of draws at all rows of X, chain by chain; offset: (n,), added to f, or None."""
    n_trees = post.header["n_trees"]
    size = max(1, min(_BLOCK_VISITS // (n_trees * max(1, len(X))), _BLOCK_NUMBERS // max(1, len(X))))
    for chain, forest in enumerate(forests):
        n_draws = (len(forest.starts) - 1) // n_trees
        wanted = range(0, n_draws, every)
        for first in range(0, len(wanted), size):
            some = wanted[first : first + size]
            values = np.empty((len(some), len(X)))
            for row, draw in enumerate(some) if every > 1 else [(0, some[0])]:
                n = 1 if every > 1 else len(some)
                starts = forest.starts[draw * n_trees : (draw + n) * n_trees + 1]
                nodes = forest.nodes[starts[0] : starts[-1]]
                workers.predict(X, nodes, starts - starts[0], n_trees, n, values[row : row + n])
            values *= post.header["y_range"]
            values += post.header["y_mid"]
            if offset is not None:
                values += offset
            yield Block(chain, slice(first, first + len(some)), slice(0, len(X)), values)
