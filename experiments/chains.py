"""One chain of an experiment: its full description, and what is kept of it."""

import dataclasses
import functools
import hashlib
import json
import os
import platform
import shutil
import subprocess
import time
from dataclasses import dataclass
from importlib import metadata

import numpy as np

import bart
from bart.storage import write_record

from . import problems, real_data
from .settings import Settings

__all__ = ["FORMAT", "N_POINTS", "TRUTH", "ChainSpec", "kernels_hash", "run_chain"]

FORMAT = 1  # to be raised with every change of what `run_chain` keeps, or how it starts and measures
N_POINTS = 24
TRUTH = "truth"
PRIOR = "prior"

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_CHECKPOINT_SECONDS = 5.0
# Microseconds of a tree update and nanoseconds a row, roughly, of one of many trees and of a single deep one: they
# order the work and weigh the progress bar.
_PACE = {"growprune": (2.0, 1.0), "cgm": (2.5, 1.3), "pg": (12.0, 6.0)}
_DEEP_PACE = {"growprune": (1.0, 12.0), "cgm": (1.0, 12.0), "pg": (1.0, 480.0), PRIOR: (20.0, 50.0)}
_WRITE_SECONDS = 0.05


# Beside kernels and samplers: what draws, scales, seeds and predicts.
_SOURCES = [
    "backfitting.py", "between.py", "chain.py", "chain_state.py", "data.py", "hyperpriors.py", "inputs.py", "ladder.py",
    "model.py", "nodes.py", "outcomes.py", "posterior.py", "prediction.py", "predictive.py", "priors.py", "record.py",
    "sampling.py", "tempering.py", "workers.py",
]  # fmt: skip
# Settings that one sampler alone looks at.
_USED_BY = dict.fromkeys(("n_particles", "resampling", "ess_threshold", "final"), "pg") | {"move_probs": "cgm"}


@dataclass(frozen=True)
class ChainSpec:
    """Everything that a chain depends on, kernels and data apart.

    Attributes
    ----------
    problem : str
        A name of `problems.made` or of `real_data`.
    data_seed : int
        Seed of made data, number of the training set of real data.
    settings : Settings
    sampler : str
        "cgm", "growprune", "pg", or "prior": independent draws of a tree from its prior, one a sweep.
    start : str
        A kind of start of `bart.sample`, or "truth": the 2^D-leaf tree of a hypercube.
    chain : int
        Number of the replicate.
    n_sweeps, n_burn : int
        All sweeps, and those of them that are not kept.
    """

    problem: str
    data_seed: int
    settings: Settings
    sampler: str
    start: str
    chain: int
    n_sweeps: int
    n_burn: int

    def load(self):
        """The Problem."""
        return _load(self.problem, self.data_seed, self.settings.label_noise)

    def record(self):
        """Plain values, without what makes no difference: the name of the settings, and choices of other samplers."""
        values = dataclasses.asdict(self)
        for name in ("name", *(name for name, user in _USED_BY.items() if user != self.sampler)):
            del values["settings"][name]
        return values

    @property
    def seed(self):
        """Seed of the chain, four 32-bit numbers made from `record`."""
        digest = hashlib.sha256(_text(self.record())).digest()
        return [int.from_bytes(digest[place : place + 4], "little") for place in range(0, 16, 4)]

    @functools.cached_property
    def key(self):
        """Hexadecimal digest of the description, the data and the kernels: the chain's name in the store."""
        parts = {
            "format": FORMAT,
            "chain": self.record(),
            "data": data_digest(self.problem, self.data_seed, self.settings.label_noise),
            "kernels": kernels_hash(),
        }
        return hashlib.sha256(_text(parts)).hexdigest()

    @property
    def cost(self):
        """CPU seconds, within a factor of two or three."""
        problem = self.load()
        n_trees = problem.n_trees or self.settings.real_trees
        fixed, a_row = (_DEEP_PACE if n_trees == 1 else _PACE)[self.sampler]
        particles = self.settings.n_particles / 10 if self.sampler == "pg" else 1.0
        update = particles * (fixed + 1e-3 * a_row * len(problem.y_train))
        predict = 1e-3 * (len(problem.y_train) + len(problem.y_test))
        return 1e-6 * self.n_sweeps * n_trees * (update + predict) + _WRITE_SECONDS


def _text(values):
    return json.dumps(values, sort_keys=True).encode()


@functools.lru_cache(maxsize=64)
def _load(name, seed, label_noise):
    if name in real_data.SOURCES:
        return real_data.load(name, seed)
    return problems.made(name, seed, label_noise)


@functools.lru_cache(maxsize=4096)
def data_digest(name, seed, label_noise):
    """Hexadecimal digest of a problem's arrays, of the model's choices that come with it, and of its true tree."""
    problem = _load(name, seed, label_noise)
    truth = problems.true_tree(problem) if name.startswith("hypercube") else None
    digest = hashlib.sha256(f"{problem.n_trees} {problem.beta} {truth}".encode())
    for array in (problem.X_train, problem.y_train, problem.X_test, problem.y_test):
        digest.update(f"{array.shape} {array.dtype}".encode())
        digest.update(np.ascontiguousarray(array))
    return digest.hexdigest()


@functools.lru_cache(maxsize=1)
def kernels_hash():
    """Hexadecimal digest of the package's sources that a stored chain depends on.

    Raises
    ------
    RuntimeError
        A kernel was not built again after a change of its sources, which then say nothing about it.
    """
    folder = os.path.dirname(bart.__file__)
    names = [os.path.join("samplers", name) for name in os.listdir(os.path.join(folder, "samplers"))]
    names += [os.path.join("kernels", name) for name in os.listdir(os.path.join(folder, "kernels"))]
    names += _SOURCES
    _check_built(os.path.join(folder, "kernels"))
    digest = hashlib.sha256()
    for name in sorted(names):
        if name.endswith((".py", ".pyx", ".pxd", ".pxi", ".h")):
            with open(os.path.join(folder, name), "rb") as file:
                digest.update(name.encode() + b"\0" + hashlib.sha256(file.read()).digest())
    return digest.hexdigest()


def _check_built(folder):
    """In a source tree: no source is newer than the kernels built from it."""
    names = os.listdir(folder)
    built = [name for name in names if name.endswith((".so", ".pyd"))]
    sources = [name for name in names if name.endswith((".pyx", ".pxd", ".pxi", ".h"))]
    if not built or not os.path.exists(os.path.join(_ROOT, "setup.py")):
        return
    newest = max(sources, key=lambda name: os.path.getmtime(os.path.join(folder, name)))
    changed = os.path.getmtime(os.path.join(folder, newest))
    # A kernel is not built again for a change that does not concern it; the last one built tells.
    if changed > max(os.path.getmtime(os.path.join(folder, name)) for name in built):
        raise RuntimeError(f"{newest} is newer than the kernels: build them first (make build)")


def run_chain(spec, path, scratch):
    """Sample a chain, measure it and write it to a file.

    Parameters
    ----------
    spec : ChainSpec
    path : str
        File of the result; its folder must exist.
    scratch : str
        Folder of the chain's checkpoint, removed at the end. A chain that was cut goes on from there.

    Returns
    -------
    dict
        The header that was written: ``spec``, ``seed``, ``cpu_seconds`` of all sweeps, ``wall_seconds`` and
        ``provenance``.
    """
    problem = spec.load()
    measured = _draw_prior(spec, problem) if spec.sampler == PRIOR else _sample(spec, problem, scratch)
    traces, more, wall_seconds = measured
    header = {
        "format": FORMAT,
        "key": spec.key,
        "spec": dataclasses.asdict(spec),
        "seed": spec.seed,
        "cpu_seconds": float(traces["seconds"].sum()),
        "wall_seconds": float(wall_seconds),
        "provenance": {**provenance(), "date": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())},
    }
    write_record(path, {"header": header, "traces": traces, **more}, compress=True)
    shutil.rmtree(scratch, ignore_errors=True)
    return header


def _sample(spec, problem, scratch):
    """A chain by `bart.sample`."""
    is_cube = spec.problem.startswith("hypercube")
    arguments = {"init": spec.start}
    if spec.start == TRUTH:
        arguments["init"] = [[problems.true_tree(problem)]]
    elif spec.start == "overgrown":
        arguments["init_leaves"] = 4 * 2**problem.n_dims if is_cube else 4
    if spec.cost > _CHECKPOINT_SECONDS:
        arguments.update(checkpoint=scratch, checkpoint_every=_CHECKPOINT_SECONDS)
    post = bart.sample(
        spec.settings.model(problem),
        spec.settings.sampler(spec.sampler),
        n_burn=spec.n_burn,
        n_draws=spec.n_sweeps - spec.n_burn,
        n_chains=1,
        seed=spec.seed,
        tree_order=spec.settings.tree_order,
        keep_burn_trees=True,
        progress=False,
        **arguments,
    )
    traces = {name: trace[0] for name, trace in post.sweeps.items()}
    more = {}
    for part, X, y in (("train", problem.X_train, problem.y_train), ("test", problem.X_test, problem.y_test)):
        traces[f"{part}_mse"], more[f"{part}_fit"] = _errors(post, X, y)
    points = problem.X_test[test_points(problem)]
    more["f"] = post.predict(points, draws=True).draws[0].astype(np.float32)
    return traces, more, post.header["wall_seconds"][0]


def test_points(problem):
    """Rows of the test set at which f is kept, spread evenly."""
    return np.linspace(0, len(problem.X_test) - 1, N_POINTS).astype(int)


def _errors(post, X, y):
    """Mean squared error of each sweep's draw, units of y squared, and the mean of f over the kept draws."""
    squares = np.zeros(post.n_burn + post.n_draws)
    fit = np.zeros(len(y))
    for burn, first in ((True, 0), (False, post.n_burn)):
        if burn and post.n_burn == 0:
            continue
        for block in post.predict_blocks(X, burn=burn):
            draws = np.arange(len(squares))[first:][block.draws]
            squares[draws] += ((block.values - y[block.rows]) ** 2).sum(axis=1)
            if not burn:
                fit[block.rows] += block.values.sum(axis=0)
    return squares / len(y), fit / post.n_draws


def _draw_prior(spec, problem):
    """Single trees from their prior: number of leaves and depth."""
    began, cpu = time.perf_counter(), time.process_time()
    state = bart.TreeState(spec.settings.model(problem).domain)
    rng = np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(spec.seed)))
    n_leaves, depth = np.zeros(spec.n_sweeps), np.zeros(spec.n_sweeps)
    for sweep in range(spec.n_sweeps):
        state.draw_from_prior(rng)
        n_leaves[sweep], depth[sweep] = state.n_leaves, state.depth
    seconds = np.full(spec.n_sweeps, (time.process_time() - cpu) / spec.n_sweeps)
    traces = {"n_leaves": n_leaves, "depth": depth, "seconds": seconds}
    return traces, {}, time.perf_counter() - began


@functools.lru_cache(maxsize=1)
def provenance():
    """Machine, versions and commit, as plain values."""
    versions = {"python": platform.python_version(), "pgbart": bart.__version__}
    for package in ("numpy", "scipy", "arviz", "matplotlib", "scikit-learn"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {
        "cpu": cpu_name(),
        "n_cpus": os.cpu_count(),
        "system": platform.platform(),
        "versions": versions,
        "commit": _commit(),
        "kernels": kernels_hash(),
    }


def _commit():
    """The commit of the source tree, with "+" where files differ from it; "unknown" outside of a repository."""
    try:
        if os.path.realpath(_git("rev-parse", "--show-toplevel")) != os.path.realpath(_ROOT):
            return "unknown"
        return _git("rev-parse", "--short=12", "HEAD") + "+" * bool(_git("status", "--porcelain", "-uno"))
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments):
    run = subprocess.run(["git", "-C", _ROOT, *arguments], capture_output=True, text=True, check=True)
    return run.stdout.strip()


def cpu_name():
    """The processor's name as the system gives it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
