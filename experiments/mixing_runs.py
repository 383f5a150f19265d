"""Runs of the mixing experiments: four chains of a system on a problem within one CPU budget, and where they are kept.

The chain store of the other experiments does not fit: its chains have a number of sweeps, are ours, and come one by
one; here the budget is CPU time, several chains share it, and other packages take part, each in an environment of its
own. Their runs do not depend on our kernels, so that a change of these leaves them in the store.
"""

import collections
import dataclasses
import functools
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

import bart
from bart.chain import START_KINDS
from bart.storage import read_record, write_record
from benchmarks import measure, peers

from . import chains, problems, real_data
from .settings import PAPER

__all__ = [
    "FORMAT", "PEER_SYSTEMS", "MissingRuns", "RunSpec", "RunStore", "file_name", "kernels_notes", "load",
    "peer_is_missing", "run", "test_rows",
]  # fmt: skip

FORMAT = 1  # to be raised with every change of what `run` keeps, or how it starts and measures
PEER_SYSTEMS = ("bartz", "stochtree", "stochtree warm", "pymc-bart")
N_POINTS = {"many": 50, "one": 20}
N_ROWS = 1000
N_FITS = 100
N_PARTICLES = 10
DEFAULT_PRIOR = {"n_trees": 200, "alpha": 0.95, "beta": 2.0, "k": 2.0, "nu": 3.0, "q": 0.9}
# As bartz cuts; the law by width that is our default, and stochtree's, gives skewed columns another posterior.
CUTS = {"cuts": "quantile", "n_cuts": 255}
WHOLE = "-all"

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_ENVIRONMENTS = {"stochtree warm": "stochtree"}


class MissingRuns(RuntimeError):
    """A table has nothing to show."""


@dataclass(frozen=True)
class RunSpec:
    """Everything that a run depends on, kernels and data apart.

    Attributes
    ----------
    problem : str
        Of `load`.
    data_seed : int
        Seed of made data, split of real data.
    system : str
        One of `PEER_SYSTEMS`, "auto", or a sampler as `bart.parse_sampler` reads it.
    seed : int
    budget : float
        CPU seconds of all chains together, starts and burn-in included: half of each chain's share is burn-in.
    n_chains : int
    n_records : int
        Records a chain, about, of its second half.
    ladder : str
        Of parallel tempering, where our chains have one.
    """

    problem: str
    data_seed: int
    system: str
    seed: int
    budget: float
    n_chains: int = 4
    n_records: int = 2000
    ladder: str = ""

    @property
    def is_peer(self):
        """Whether it is another package's."""
        return self.system in PEER_SYSTEMS

    @property
    def name(self):
        """The system, with its ladder where it has one."""
        return f"{self.system}, ladder({self.ladder})" if self.ladder else self.system

    @functools.cached_property
    def key(self):
        """Hexadecimal digest of the description and the data."""
        values = dataclasses.asdict(self)
        if not self.ladder:
            del values["ladder"]
        parts = {
            "format": FORMAT, "run": values, "data": _data_digest(self.problem, self.data_seed),
            "n_rows": N_ROWS, "n_fits": N_FITS, "n_points": N_POINTS, "prior": DEFAULT_PRIOR,
        }  # fmt: skip
        if not self.is_peer and load(self.problem, self.data_seed).n_trees is None:
            parts["cuts"] = CUTS
        if self.is_peer:
            parts["requirements"] = peers.PEERS[_ENVIRONMENTS.get(self.system, self.system)].requirements
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @property
    def kernels(self):
        """What else names the run: the kernels it ran on; none of ours for another package."""
        return "peer" if self.is_peer else chains.kernels_hash()[:12]

    @property
    def seeds(self):
        """A seed for each chain, from the key."""
        return [int(self.key[8 * place : 8 * place + 7], 16) for place in range(self.n_chains)]


# ------------------------------------------------------------------------------------------------------- problems
def load(name, data_seed):
    """The Problem of a name: a made one, a real one, or a real one with "-all" rows for training.

    Columns that are constant in the training rows are left out: no rule can split them, and not every package takes
    them.
    """
    return _load(name, data_seed)


@functools.lru_cache(maxsize=4)
def _load(name, data_seed):
    if name.endswith(WHOLE):
        problem = real_data.load(name.removesuffix(WHOLE), "all")
    elif name in real_data.NAMES:
        problem = real_data.load(name, data_seed)
    else:
        problem = problems.made(name, data_seed)
    varies = np.ptp(problem.X_train, axis=0) > 0
    parts = {part: np.ascontiguousarray(getattr(problem, part)[:, varies]) for part in ("X_train", "X_test")}
    return dataclasses.replace(problem, name=name, **parts)


@functools.lru_cache(maxsize=256)
def _data_digest(name, data_seed):
    problem = load(name, data_seed)
    return _digest(problem.X_train, problem.y_train, problem.X_test, problem.y_test)


def _digest(*arrays):
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.shape} {array.dtype}".encode())
        digest.update(np.ascontiguousarray(array))
    return digest.hexdigest()


def test_rows(problem):
    """y of the test rows that are predicted: the first ones."""
    return problem.y_test[:N_ROWS]


def model_arguments(problem):
    """Arguments of `bart.Model` but for the data: the default priors; of a one-tree problem, the paper's."""
    if problem.n_trees is None:
        sigma_hat = bart.Model(problem.X_train, problem.y_train, **DEFAULT_PRIOR).sigma_hat
        return {**DEFAULT_PRIOR, **CUTS, "sigma_hat": sigma_hat}
    settings = PAPER
    return {
        "n_trees": problem.n_trees, "alpha": settings.alpha, "beta": problem.beta, "k": settings.k, "nu": settings.nu,
        "q": settings.q, "sigma_hat": settings.model(problem).sigma_hat,
    }  # fmt: skip


# -------------------------------------------------------------------------------------------------------- a process
def _interpreter(system):
    return peers.peer_python(_ENVIRONMENTS.get(system, system)) if system in PEER_SYSTEMS else sys.executable


def peer_is_missing(system):
    """Whether it is a peer whose environment is not there."""
    return system in PEER_SYSTEMS and not os.path.exists(_interpreter(system))


def _task(spec, problem, folder):
    """What `mixing_worker` is told; writes the data."""
    arguments = model_arguments(problem)
    model = bart.Model(problem.X_train, problem.y_train, **arguments)
    share = 0.5 * spec.budget / spec.n_chains
    kind = "one" if problem.n_trees == 1 else "many"
    data = os.path.join(folder, "data.npz")
    rows = np.ascontiguousarray(problem.X_test[:N_ROWS])
    places = np.linspace(0, len(rows) - 1, N_POINTS[kind]).astype(int)
    np.savez(data, X=problem.X_train, y=problem.y_train, y_scaled=model.dataset.y_scaled, X_test=rows[places],
             X_rows=rows)  # fmt: skip
    y_range = model.dataset.y_range
    task = {
        "system": spec.system, "ladder": spec.ladder, "data": data, "out": os.path.join(folder, "out.npz"),
        "seeds": spec.seeds,
        "n_chains": spec.n_chains, "burn": share, "kept": share, "n_records": spec.n_records, "n_fits": N_FITS,
        "starts": START_KINDS, "init_leaves": 4 * 2**problem.n_dims if kind == "one" else None, "model": arguments,
        "y_mid": model.dataset.y_mid, "y_range": y_range, "n_trees": model.n_trees, "alpha": arguments["alpha"],
        "beta": arguments["beta"], "leaf_var": model.leaf_prior.var, "nu": model.noise_prior.nu,
        "lam": model.noise_prior.lam, "sigma2": (model.sigma_hat / y_range) ** 2, "n_particles": N_PARTICLES,
    }  # fmt: skip
    return task, measure.Pass(model.codes, model.dataset.y_scaled)


def _environment():
    return {
        **os.environ, **peers.ONE_THREAD, "PYTHONPATH": os.pathsep.join([_ROOT, os.environ.get("PYTHONPATH", "")]),
        "JAX_COMPILATION_CACHE_DIR": os.path.join(peers.FOLDER, "jax"),
    }  # fmt: skip


def run(spec, path):
    """Make a run and write it to a file.

    Parameters
    ----------
    spec : RunSpec
    path : str

    Returns
    -------
    dict
        The header that was written.

    Raises
    ------
    RuntimeError
        The process failed; the message ends with what it printed.
    """
    problem = load(spec.problem, spec.data_seed)
    with tempfile.TemporaryDirectory() as folder:
        task, unit = _task(spec, problem, folder)
        with open(os.path.join(folder, "task.json"), "w", encoding="utf-8") as file:
            json.dump(task, file)
        passes = [unit.seconds()]
        command = [_interpreter(spec.system), "-P", "-m", "experiments.mixing_worker", file.name]
        done = subprocess.run(
            command, env=_environment(), capture_output=True, text=True, errors="replace", cwd=folder
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{spec.system} on {spec.problem} ended with {done.returncode}:\n{done.stderr[-4000:]}")
        passes.append(unit.seconds())
        with np.load(task["out"]) as file:
            arrays = dict(file)
    said = json.loads(arrays.pop("header").tobytes().decode())
    header = {
        "format": FORMAT, "key": spec.key, "kernels": spec.kernels, "spec": dataclasses.asdict(spec), **said,
        "us_per_pass": [1e6 * seconds for seconds in passes], "sigma_hat": task["model"]["sigma_hat"],
        "n_train": len(problem.y_train), "n_dims": problem.n_dims, "test": _digest(problem.y_test),
        "provenance": chains.provenance(), "date": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
    }  # fmt: skip
    write_record(path, {"header": header, **_kept(arrays, spec.n_chains, test_rows(problem))}, compress=True)
    return header


def _kept(arrays, n_chains, y):
    """Records of each chain, and the predictive law at each test row over the draws of all chains."""
    names = ("sigma", "log_likelihood", "f", "n_leaves")
    parts = [{name: arrays[f"{name}_{i}"] for name in names if f"{name}_{i}" in arrays} for i in range(n_chains)]
    fits = np.concatenate([arrays[f"fits_{number}"] for number in range(n_chains)]).astype(np.float64)
    sigma = np.concatenate([arrays[f"fit_sigma_{number}"] for number in range(n_chains)])[:, None]
    z = (y - fits) / sigma
    log_density = -0.5 * z**2 - np.log(sigma * np.sqrt(2 * np.pi))
    top = log_density.max(axis=0)
    test = {
        "log_score": top + np.log(np.mean(np.exp(log_density - top), axis=0)),
        "pit": ndtr(z).mean(axis=0),
        "mean": fits.mean(axis=0),
        "n_draws": len(fits),
    }
    return {"chains": parts, "test": test}


# --------------------------------------------------------------------------------------------------------- the store
def file_name(text):
    """A text as part of a file's name."""
    return "".join(letter if letter.isalnum() else "_" for letter in text)[:60].strip("_")


def kernels_notes(names):
    """A line on the runs of other kernels than the present ones; none where there are none.

    Parameters
    ----------
    names : iterable of str
        `RunSpec.kernels` of each run.
    """
    present = chains.kernels_hash()[:12]
    counts = collections.Counter(name for name in names if name not in ("peer", present))
    shown = ", ".join(f"{count} by {name}" for name, count in sorted(counts.items()))
    return [f"Runs by other kernels than the present ones, the newest in the store: {shown}."] if counts else []


class RunStore:
    """A folder of runs, a file each.

    Parameters
    ----------
    folder : str or os.PathLike
    any_kernels : bool
        Where a run by the present kernels is not there, take the newest by others: to look at what is there while
        kernels change.
    """

    def __init__(self, folder, any_kernels=False):
        self.folder, self.any_kernels = os.fspath(folder), any_kernels

    def path(self, spec):
        """The file of a run by the present kernels."""
        name = file_name(spec.system + (f" {spec.ladder}" if spec.ladder else ""))
        name = f"{name}-{spec.budget:g}s-{spec.data_seed}-{spec.seed}-{spec.key[:20]}-{spec.kernels}.npz"
        return os.path.join(self.folder, spec.problem, name)

    def find(self, spec):
        """The file of a run that is stored, or None."""
        path = self.path(spec)
        if zipfile.is_zipfile(path):
            return path
        folder, name = os.path.split(path)
        if not self.any_kernels or not os.path.isdir(folder):
            return None
        start = name[: name.rindex("-") + 1]
        found = [os.path.join(folder, other) for other in os.listdir(folder) if other.startswith(start)]
        return max((other for other in found if zipfile.is_zipfile(other)), key=os.path.getmtime, default=None)

    def read(self, spec):
        """The record of a run, or None: ``header``, ``chains`` (a dict of arrays each), ``test``."""
        path = self.find(spec)
        if path is None:
            return None
        record = read_record(path)
        if record["header"]["key"] != spec.key:
            raise ValueError(f"{path} holds another run: remove it")
        return record

    def run_missing(self, specs, say=print):
        """Make the runs that are not there, in the order given; one that fails is named, the others are made."""
        failed = []
        missing = [spec for spec in specs if self.find(spec) is None]
        left = sum(spec.budget for spec in missing)
        for number, spec in enumerate(missing, 1):
            minutes, left = left / 60, left - spec.budget
            if self.find(spec) is not None:
                continue
            name = f"{spec.problem}, data {spec.data_seed}, {spec.name}, seed {spec.seed}"
            say(f"{number} of {len(missing)}, {minutes:.0f} CPU min left: {name}")
            path = self.path(spec)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            try:
                run(spec, path)
            except RuntimeError as error:
                failed.append(spec)
                say(f"failed: {error}")
        return failed
