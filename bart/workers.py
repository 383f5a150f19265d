"""Threads that share the rows of a prediction."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from .kernels.forest import predict_draws

__all__ = ["Workers"]


class Workers:
    """Threads for predictions, each of which takes its share of the rows; a context manager.

    Parameters
    ----------
    n_threads : int
        At the most.
    n_shares : int
        Shares that are worth a thread of their own.
    """

    def __init__(self, n_threads, n_shares):
        self._n_threads = min(n_threads, n_shares or 1)
        self._pool = ThreadPoolExecutor(self._n_threads) if self._n_threads > 1 else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._pool is not None:
            self._pool.shutdown()

    def predict(self, X, nodes, starts, n_trees, n_draws, out):
        """f of the first n_draws draws at the rows of X, into out, (n_draws, len(X)); see `predict_draws`."""
        if self._pool is None:
            predict_draws(X, nodes, starts, n_trees, 0, n_draws, out)
            return
        cuts = np.linspace(0, len(X), self._n_threads + 1).astype(int)
        running = [
            self._pool.submit(predict_draws, X[a:b], nodes, starts, n_trees, 0, n_draws, out[:, a:b])
            for a, b in itertools.pairwise(cuts)
        ]
        for future in running:
            future.result()
