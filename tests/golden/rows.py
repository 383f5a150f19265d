"""The runs behind the regression records: data set, sampler and sweeps of each row, and what is measured on them.

The data set of a row is fixed. Between data sets the effective size and the log-likelihood differ far more than
between chains on one of them, and the Kolmogorov-Smirnov test would see little else: two samples of 50 chains on one
data set differ by the samplers alone. The rows together still hold six data sets, seventeen samplers and four starts.

What 50 seeds against 50 see at p < 1e-4: a shift of the log of the ESS by 1.25 of its standard deviations with
probability 0.9, by 1.0 with 0.6 (lognormal ESS, simulated with the two-sample Kolmogorov-Smirnov test, 600 pairs or
more; 0.44 is the least distance that counts). So the factor by which the median ESS has to move hangs on the row. With
the spread as stored: 1.5 on hypercube-2 pg (standard deviation of the log 0.30), 2.2 on friedman-5 pg (0.61) and 2.4 on
friedman-5 cgm (0.69). On rows of wider spread: 4.2 on hypercube-3 pg (1.17), 5 on hypercube-2 cgm (1.30), 10 on
hypercube-3 cgm (1.84); with their stored values resampled (smoothed) in place of the lognormal 2.5, 5 and 4. Less than
that in the ESS is left to the other quantities, and to the bits.

Chains that start from something else than trees without splits are measured from the first sweep, over 20 sweeps:
1000 sweeps later the start no longer shows in the law (but for CGM from 32 leaves). Over 20 sweeps the law tells a
start from particles from one without splits (p from 5e-12 to 1e-5 in six trials), and 32 leaves from 16 at once. It
does not tell apart GrowPrune from the prior and from trees without splits, or `ess_threshold` of 0.5 and none: such a
change shows in the bits alone. On hypercube-2 the rows of CGM and GrowPrune under the authors' settings are blind to
`bookkeeping`, in bits too, as none of their hashed chains rejects growing the root; the rows on ties see it.
"""

import functools
import hashlib
import zlib
from dataclasses import dataclass, replace

import numpy as np

import bart
from experiments import problems
from experiments.settings import AUTHORS, PAPER, Settings

__all__ = ["N_HASHED", "N_SEEDS", "QUANTITIES", "ROWS", "Row", "measure", "ties"]

N_SEEDS = 50
N_HASHED = 3
STORED = 0
HASHED_TRACES = {"log_likelihood": "<f8", "sigma": "<f8", "n_leaves": "<i8"}
PAPERS = ("cgm", "growprune", "pg")
BEYOND = {
    "local": "local",
    "local slot": "local(subset=1, descend=0.5)",
    "pg optimal": "pg(n_particles=3, proposal=optimal, subset=2, prior_share=0.2, ess_threshold=0.5, final=forced)",
    "pg subtree": "pg(n_particles=5, region=subtree, proposal=optimal)",
    "cycle": "local + perturb + rotate + splice",
    "recut": "cgm + recut(subset=2) + recut(subset=None)",
    "between": "cgm + transpose + reroute + slide + levels",
}
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
        "cgm", "growprune" or "pg" of the settings, or a text that `bart.parse_sampler` reads.
    n_sweeps, n_burn : int
    init : str
        Kind of start of `bart.sample`.
    init_leaves : int or None
        Of the trees of an overgrown start.
    """

    name: str
    problem: object
    settings: Settings
    sampler: str
    n_sweeps: int = 2000
    n_burn: int = 1000
    init: str = "empty"
    init_leaves: int | None = None

    @functools.cached_property
    def model(self):
        """The Model of the data set under the settings."""
        return self.settings.model(self.problem())

    def run(self, draw, number):
        """One chain.

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
            self.settings.sampler(self.sampler) if self.sampler in PAPERS else bart.parse_sampler(self.sampler),
            n_burn=self.n_burn,
            n_draws=self.n_sweeps - self.n_burn,
            n_chains=1,
            seed=[zlib.crc32(self.name.encode()), draw, number],
            init=self.init,
            init_leaves=self.init_leaves,
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


def ties(seed=1, n_rows=200):
    """Few distinct values a column, one column without a second value, and a column that repeats another.

    Columns 0 to 5 have 2, 3, 1, 5, 9 and 3 levels; column 5 is column 1 with other values. y is 2 x0 + 3 [x1 = 1]
    + x0 x3 / 2 + x4 / 4 + N(0, 1), levels counted from 0. All rows of equal x make 270 cells at most.

    Parameters
    ----------
    seed : int
    n_rows : int
        Rows of each of the two sets.

    Returns
    -------
    experiments.problems.Problem
        With 20 trees.
    """
    rng = np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence([zlib.crc32(b"ties"), seed])))
    X = rng.integers(0, (2, 3, 1, 5, 9), size=(2 * n_rows, 5)).astype(float)
    f = 2.0 * X[:, 0] + 3.0 * (X[:, 1] == 1.0) + 0.5 * X[:, 0] * X[:, 3] + 0.25 * X[:, 4]
    y = f + rng.standard_normal(2 * n_rows)
    X = np.column_stack([X, 10.0 - X[:, 1]])
    X[:, 2] = -0.5
    train, test = slice(n_rows), slice(n_rows, None)
    return problems.Problem("ties", X[train], y[train], X[test], y[test], seed, f[train], f[test], n_trees=20)


def _rows():
    cubes = {n_dims: functools.partial(problems.hypercube, n_dims, 1) for n_dims in (2, 3, 4)}
    samplers = PAPERS
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
    for sampler in ("cgm", "growprune"):
        yield Row(f"hypercube-2 {sampler} authors", without_noise, AUTHORS, sampler)
    yield Row("hypercube-3 pg threshold", cubes[3], replace(PAPER, ess_threshold=0.5), "pg")
    yield Row("hypercube-3 pg smc", cubes[3], PAPER, "pg", 20, 0, "smc")
    yield Row("hypercube-3 cgm overgrown", cubes[3], PAPER, "cgm", 20, 0, "overgrown", 4 * 2**3)
    yield Row("hypercube-2 growprune prior", cubes[2], PAPER, "growprune", 20, 0, "prior")
    for sampler in ("cgm", "pg"):
        yield Row(f"ties {sampler}", ties, PAPER, sampler, 300, 150)
    for sampler in ("cgm", "growprune"):
        yield Row(f"ties {sampler} authors", ties, AUTHORS, sampler, 300, 150)
    friedman = functools.partial(problems.friedman, 200, 1, 5)
    for label, sampler in BEYOND.items():
        if label != "local slot":                       # too few changes of one tree to tell chains apart
            yield Row(f"hypercube-3 {label}", cubes[3], PAPER, sampler)
        yield Row(f"friedman-5 {label}", friedman, replace(PAPER, real_trees=50), sampler, 400, 200)


ROWS = {row.name: row for row in _rows()}
