"""Chains of an experiment, and what is measured on them. Definitions are in `report.DEFINITIONS`."""

import concurrent.futures
import os
import time
from dataclasses import dataclass

import arviz  # noqa: F401  (slow to import: once here, not in every process forked later)
import numpy as np

import bart
from bart import diagnostics
from bart.chain import START_KINDS
from bart.progress import Bar

from . import problems
from .paper import SAMPLERS
from .settings import Settings

__all__ = ["Job", "R_HAT_LIMIT", "mse_traces", "r_hat", "run_job", "run_jobs"]

R_HAT_LIMIT = 1.05
N_POINTS = 24
REFERENCE = "reference"
_SAMPLER_NUMBER = {name: number for number, name in enumerate((*SAMPLERS, REFERENCE))}


@dataclass(frozen=True)
class Job:
    """All chains of one sampler on one data set.

    Attributes
    ----------
    family : str
        "hypercube" or "real".
    size : int
        Dimension of the hypercube; 0 for real data.
    seed : int
        Seed of the data set or number of the split; with `family`, `size` and the sampler it seeds the
        chains.
    sampler : str
        "cgm", "growprune", "pg", or "reference": chains started at the true tree.
    """

    family: str
    size: int
    seed: int
    sampler: str
    settings: Settings
    n_chains: int
    n_sweeps: int
    n_burn: int
    every: int = 1
    download: bool = False

    def problem(self):
        """The data set."""
        if self.family == "hypercube":
            return problems.hypercube(self.size, self.seed, self.settings.label_noise)
        return problems.real_problem(self.seed, self.download)

    @property
    def chain_seed(self):
        """Seed of the chains."""
        return [self.size, self.seed, _SAMPLER_NUMBER[self.sampler]]

    @property
    def cost(self):
        """A rough measure of the work, to start the longest jobs first."""
        rows = 10 * 2**self.size if self.family == "hypercube" else 2000 * 200
        return rows * self.n_sweeps * self.n_chains * (5 if self.sampler == "pg" else 1)


def sample(job, problem, **options):
    """The chains of a job, from starts of different kinds.

    Returns
    -------
    bart.Posterior
    """
    model = job.settings.model(problem)
    arguments = {
        "n_burn": job.n_burn,
        "n_draws": job.n_sweeps - job.n_burn,
        "n_chains": job.n_chains,
        "seed": job.chain_seed,
        "tree_order": job.settings.tree_order,
        "progress": False,
    }
    if "overgrown" in START_KINDS[: job.n_chains] and "init" not in options:
        arguments["init_leaves"] = 4 * 2**job.size if job.family == "hypercube" else 4
    return bart.sample(model, job.settings.sampler(job.sampler), **{**arguments, **options})


def run_job(job):
    """Run a job and measure it.

    Returns
    -------
    dict
        Plain values, ready for JSON.
    """
    began = time.perf_counter()
    problem = job.problem()
    row = {
        "problem": problem.name,
        "size": job.size,
        "data_seed": job.seed,
        "sampler": job.sampler,
        "chain_seed": job.chain_seed,
        "n_rows": len(problem.y_train),
        "n_dims": problem.n_dims,
        "var_y": float(np.var(problem.y_train)),
        "note": problem.note,
    }
    row.update(_reference(job, problem) if job.sampler == REFERENCE else _measure(job, problem))
    row["job_seconds"] = time.perf_counter() - began
    return row


def _reference(job, problem):
    """Mean log-likelihood of chains started at the true tree, CGM and GrowPrune in equal shares."""
    start = [[problems.true_tree(problem)]]
    model = job.settings.model(problem)
    levels = []
    for number, name in enumerate(("cgm", "growprune")):
        post = bart.sample(
            model,
            job.settings.sampler(name),
            n_burn=job.n_burn,
            n_draws=job.n_sweeps - job.n_burn,
            n_chains=max(1, job.n_chains // 2),
            seed=[*job.chain_seed, number],
            init=start,
            tree_order=job.settings.tree_order,
            keep_trees=False,
            progress=False,
        )
        levels += post["log_likelihood"].mean(axis=1).tolist()
    return {"levels": levels, "level": float(np.mean(levels))}


def _measure(job, problem):
    post = sample(job, problem)
    log_likelihood = post["log_likelihood"]
    points = problem.X_test[np.linspace(0, len(problem.X_test) - 1, N_POINTS).astype(int)]
    f = post.predict(points, draws=True).draws
    ess = [diagnostics.effective_size(chain) for chain in log_likelihood]
    seconds = post["seconds"].sum(axis=1)
    r_hats = {name: r_hat(post[name]) for name in ("log_likelihood", "sigma", "n_leaves")}
    r_hats["f"] = max(r_hat(f[:, :, point]) for point in range(N_POINTS))
    n_trees = post.header["n_trees"]
    return {
        "starts": post.starts,
        "ess": [float(value) for value in ess],
        "ess_per_second": [float(value) for value in np.divide(ess, np.maximum(seconds, 1e-9))],
        "ess_bulk": float(diagnostics.ess_bulk(log_likelihood)),
        "ess_tail": float(diagnostics.ess_tail(log_likelihood)),
        "r_hat": r_hats,
        "converged": max(r_hats.values()) <= R_HAT_LIMIT,
        "levels": log_likelihood.mean(axis=1).tolist(),
        "level": float(log_likelihood.mean()),
        "sigma": float(post["sigma"].mean()),
        "tree_changed": float(post["tree_changed"].mean()),
        "root_changed": float(post["root_changed"].mean()),
        "leaves": float(post["n_leaves"].mean()),
        "leaves_per_tree": float(post["n_leaves"].mean() / n_trees),
        "leaves_by_chain": post["n_leaves"].mean(axis=1).tolist(),
        "depth": float(post["depth"].mean()),
        "cpu_seconds": post.sweeps["seconds"].sum(axis=1).tolist(),
        "wall_seconds": post.header["wall_seconds"],
        "ms_per_sweep": float(1e3 * post.sweeps["seconds"].mean()),
        **_errors(post, problem, job.every),
    }


def r_hat(draws):
    """Rank-normalised R-hat; 1 where all draws of all chains are equal, infinite where it is undefined."""
    if np.ptp(draws) == 0.0:
        return 1.0
    value = float(diagnostics.split_rhat(draws))
    return value if np.isfinite(value) else float("inf")


def _errors(post, problem, every):
    """Mean squared errors of the current draw, averaged over draws, and of the posterior mean, units of y."""
    errors = {}
    for part, X, y in (("train", problem.X_train, problem.y_train), ("test", problem.X_test, problem.y_test)):
        total = np.zeros(len(y))
        squares, count = 0.0, 0
        for block in post.predict_blocks(X, every=every):
            total[block.rows] += block.values.sum(axis=0)
            squares += float(np.sum((block.values - y[block.rows]) ** 2))
            count += block.values.size
        n_used = count / len(y)
        errors[f"{part}_mse_draw"] = squares / count
        errors[f"{part}_mse_mean"] = float(np.mean((total / n_used - y) ** 2))
    return errors


def mse_traces(post, X, y):
    """Mean squared error of the draw of every sweep, burn-in included (both kinds of forests must be stored).

    Parameters
    ----------
    post : bart.Posterior
    X : ndarray, shape (n, n_dims)
    y : ndarray, shape (n,)

    Returns
    -------
    ndarray, shape (n_chains, n_sweeps)
        In the units of y, squared.
    """
    parts = []
    for burn, n_draws in ((True, post.n_burn), (False, post.n_draws)):
        squares = np.zeros((post.n_chains, n_draws))
        for block in post.predict_blocks(X, burn=burn):
            squares[block.chain, block.draws] += ((block.values - y[block.rows]) ** 2).sum(axis=1)
        parts.append(squares / len(y))
    return np.concatenate(parts, axis=1)


def run_jobs(jobs, n_workers=None, function=run_job, label="chains"):
    """Run jobs on several processes, the longest first.

    Parameters
    ----------
    jobs : list of Job
    n_workers : int, optional
        Default: the number of CPUs. Changes no result but the times.
    function : callable
        Applied to each job.

    Returns
    -------
    list
        Results in the order of `jobs`.
    """
    n_workers = min(n_workers or os.cpu_count() or 1, len(jobs))
    order = sorted(range(len(jobs)), key=lambda number: -jobs[number].cost)
    results = [None] * len(jobs)
    with Bar(None, len(jobs), "job", label) as bar:
        if n_workers <= 1:
            for number in order:
                results[number] = function(jobs[number])
                bar.update(1)
            return results
        with concurrent.futures.ProcessPoolExecutor(n_workers) as pool:
            futures = {pool.submit(function, jobs[number]): number for number in order}
            try:
                for future in concurrent.futures.as_completed(futures):
                    results[futures[future]] = future.result()
                    bar.update(1)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    return results
