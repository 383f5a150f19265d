"""The runs behind the regression records: data set, sampler and sweeps of each row, and what is measured on them.

The data set of a row is fixed. Between data sets the effective size and the log-likelihood differ far more than
between chains on one of them, and the Kolmogorov-Smirnov test would see little else: two samples of 50 chains on one
data set differ by the samplers alone. The rows together still hold five data sets and seven samplers.
"""

import functools
import hashlib
import zlib
from dataclasses import dataclass, replace

import numpy as np

import bart
from experiments import problems
from experiments.settings import AUTHORS, PAPER, Settings

__all__ = ["N_HASHED", "N_SEEDS", "QUANTITIES", "ROWS", "Row", "measure"]

N_SEEDS = 50
N_HASHED = 3
STORED = 0
HASHED_TRACES = {"log_likelihood": "<f8", "sigma": "<f8", "n_leaves": "<i8"}
QUANTITIES = ("ess", "log_likelihood", "n_leaves", "tree_changed")


@dataclass(frozen=True)
class Row:
    """One sampler on one data set.

    Attributes
    ----------
    name : str
        With the draw and the number of a chain it makes that chain's seed.
    problem : callable
        Makes the data set.
    settings : Settings
    sampler : str
        "cgm", "growprune" or "pg".
    n_sweeps, n_burn : int
    """

    name: str
    problem: object
    settings: Settings
    sampler: str
    n_sweeps: int = 2000
    n_burn: int = 1000

    @functools.cached_property
    def model(self):
        """The Model of the data set under the settings."""
        return self.settings.model(self.problem())

    def run(self, draw, number):
        """One chain from trees without splits.

        Parameters
        ----------
        draw : int
            0 for the stored seeds, another number for new ones.
        number : int
            Of the chain within the draw.

        Returns
        -------
        bart.Posterior
        """
        return bart.sample(
            self.model,
            self.settings.sampler(self.sampler),
            n_burn=self.n_burn,
            n_draws=self.n_sweeps - self.n_burn,
            n_chains=1,
            seed=[zlib.crc32(self.name.encode()), draw, number],
            init="empty",
            tree_order=self.settings.tree_order,
            keep_trees=False,
            progress=False,
        )


def measure(row, draw=STORED, numbers=range(N_SEEDS)):
    """Run chains of a row.

    Parameters
    ----------
    row : Row
    draw : int
    numbers : sequence of int

    Returns
    -------
    values : dict of ndarray, shape (n_chains,)
        For each of `QUANTITIES`, by chain: coda's effective size of the log-likelihood; means of the log-likelihood,
        of the leaves of all trees and of the share of changed trees. All over the sweeps after the burn-in.
    digest : str
        SHA-256 of the traces of the first `N_HASHED` chains, burn-in included.
    """
    digest = hashlib.sha256()
    values = np.empty((len(numbers), len(QUANTITIES)))
    for place, number in enumerate(numbers):
        post = row.run(draw, number)
        if place < N_HASHED:
            for name, kind in HASHED_TRACES.items():
                digest.update(np.ascontiguousarray(post.sweeps[name], dtype=kind).tobytes())
        means = [post[name].mean() for name in QUANTITIES[1:]]
        values[place] = [bart.effective_size(post["log_likelihood"][0]), *means]
    return dict(zip(QUANTITIES, values.T.copy(), strict=True)), digest.hexdigest()


def _rows():
    cubes = {n_dims: functools.partial(problems.hypercube, n_dims, 1) for n_dims in (2, 3, 4)}
    samplers = ("cgm", "growprune", "pg")
    for n_dims, cube in cubes.items():
        for sampler in samplers:
            yield Row(f"hypercube-{n_dims} {sampler}", cube, PAPER, sampler)
    for label, change in {
        "forced": {"final": "forced"},
        "systematic": {"resampling": "systematic"},
        "killing": {"resampling": "killing"},
    }.items():
        yield Row(f"hypercube-3 pg {label}", cubes[3], replace(PAPER, **change), "pg")
    without_noise = functools.partial(problems.hypercube, 2, 1, AUTHORS.label_noise)
    yield Row("hypercube-2 pg authors", without_noise, AUTHORS, "pg")
    for sampler in samplers:
        data = functools.partial(problems.friedman, 200, 1, 5)
        yield Row(f"friedman-5 {sampler}", data, replace(PAPER, real_trees=50), sampler, 400, 200)


ROWS = {row.name: row for row in _rows()}
