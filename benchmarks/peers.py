"""Our samplers beside other BART packages: CPU time of one tree's update, and effective draws a CPU second.

    python -m benchmarks.peers --install [--peers ...] [--python312 PATH]
    python -m benchmarks.peers [--quick] [--rows 2000 10000 100000] [--peers ...] [--only updates ess] [--out FILE]

Each package runs in a virtual environment of its own under build/peers, one chain a process (`peer_runs.py`). Prints a
table for each part and writes benchmarks/results/peers.json (with --quick, nothing unless --out is given).
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import textwrap

import numpy as np

import bart
from bart.diagnostics import ess_bulk, split_rhat
from experiments.problems import friedman
from experiments.report import WIDTH, write_json

from . import measure
from .peer_tables import PEERS, STORED, STORED_PASS, ess_table, stored_table, update_table

FOLDER = os.path.join(os.path.dirname(measure.HERE), "build", "peers")
PRIOR = {"n_trees": 200, "alpha": 0.95, "beta": 2.0, "k": 2.0, "nu": 3.0, "q": 0.9}
N_PARTICLES = 10
N_HELD_OUT = 50
ESS_ROWS = 2000
N_CHAINS = 2
# Beside its updates and passes every other system is measured.
REFERENCE = "GrowPrune"

# One core, one thread, whatever pool a package brings.
ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS",
                     "RAYON_NUM_THREADS", "NPROC"), "1"),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "JAX_PLATFORMS": "cpu",
    "PYTENSOR_FLAGS": "base_compiledir=" + os.path.join(FOLDER, "pytensor"),
}


# -------------------------------------------------------------------------------------------------- environments
def peer_python(peer):
    """Path of the interpreter of a peer's environment, there or not."""
    return os.path.join(FOLDER, PEERS[peer].environment, "bin", "python")


def install(peers, python312):
    """Make the environments anew."""
    for name in dict.fromkeys(PEERS[peer].environment for peer in peers):
        peer = PEERS[name]
        python = python312 if peer.newer_python and sys.version_info < (3, 12) else sys.executable
        if not python:
            sys.exit(f"{name} needs Python 3.12 or newer: give --python312 PATH, or set PEERS_PYTHON312")
        print(f"{name}: {' '.join(peer.requirements)}", flush=True)
        subprocess.run([python, "-m", "venv", "--clear", os.path.join(FOLDER, name)], check=True)
        subprocess.run([peer_python(name), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                        *peer.requirements], check=True)


# ----------------------------------------------------------------------------------------------------- processes
class Worker:
    """A chain of one system in a process of its own, see `peer_runs.py`."""

    def __init__(self, system, data, task, seed):
        self.system = system
        environment = {**os.environ, **ONE_THREAD}
        if system in PEERS:
            environment.pop("PYTHONPATH", None)
            command = [peer_python(system), "-P", os.path.join(measure.HERE, "peer_runs.py")]
        else:
            command = [sys.executable, "-m", "benchmarks.peer_runs"]
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        task = {**task, "system": system, "data": data, "seed": seed}
        self._process = subprocess.Popen(
            [*command, json.dumps(task)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
            env=environment, cwd=os.path.dirname(measure.HERE))
        self.about = self._answer()

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._log.seek(0)
            raise RuntimeError(f"{self.system} ended with {self._process.returncode}:\n{self._log.read()[-4000:]}")
        return json.loads(line)

    def ask(self, do, **request):
        """The answer to one request of `peer_runs.REQUESTS`."""
        print(json.dumps({"do": do, **request}), file=self._process.stdin, flush=True)
        return self._answer()

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._log.close()


class Problem:
    """Friedman data in a file, and what a worker is told of it."""

    def __init__(self, folder, n_rows):
        made = friedman(n_rows, seed=1)
        model = bart.Model(made.X_train, made.y_train, **PRIOR)
        self.n_rows, self.n_dims, self.y_range = n_rows, made.n_dims, model.dataset.y_range
        self.path = os.path.join(folder, f"friedman_{n_rows}.npz")
        np.savez(self.path, X=made.X_train, y=made.y_train, y_scaled=model.dataset.y_scaled,
                 X_test=np.ascontiguousarray(made.X_test[:N_HELD_OUT]))
        self.task = {
            "model": PRIOR, "n_trees": PRIOR["n_trees"], "alpha": PRIOR["alpha"], "beta": PRIOR["beta"],
            "leaf_var": model.leaf_prior.var, "nu": model.noise_prior.nu, "lam": model.noise_prior.lam,
            "sigma2": (model.sigma_hat / self.y_range) ** 2, "n_particles": N_PARTICLES}

    def worker(self, system, seed):
        return Worker(system, self.path, self.task, seed)


# ---------------------------------------------------------------------------------------------- time of an update
def update_plan(n_rows, quick):
    """Processes a system, rounds a process, CPU seconds of a block, and those of the warm-up."""
    if quick:
        return {"n_processes": 1, "n_rounds": 3, "block": 0.2, "warm_up": 1.0}
    sizes = {2000: (3, 12), 10_000: (2, 10)}
    n_processes, n_rounds = sizes.get(n_rows, (1, 5) if n_rows > 10_000 else (3, 12))
    return {"n_processes": n_processes, "n_rounds": n_rounds, "block": 0.5, "warm_up": 30.0}


def updates_part(options, systems):
    """Records of all systems at all numbers of rows; every block of a system stands beside one of `REFERENCE`."""
    records, versions = [], {}
    for n_rows in options.rows:
        plan = update_plan(n_rows, options.quick)
        with tempfile.TemporaryDirectory() as folder:
            problem = Problem(folder, n_rows)
            found = {system: [] for system in systems}
            for seed in range(1, plan["n_processes"] + 1):
                with contextlib.ExitStack() as stack:
                    workers = start_workers(stack, problem, systems, seed, plan)
                    for name, blocks in measure_in_turn(workers, plan).items():
                        found[name] += blocks
                    versions |= {name: worker.about["versions"] for name, worker in workers.items()}
                    leaves = {name: worker.ask("leaves")["mean_leaves"] for name, worker in workers.items()}
        records += [update_record(problem, name, found[name], leaves[name], plan) for name in systems]
    return records, versions


def start_workers(stack, problem, systems, seed, plan):
    """One after the other, each to the end of its warm-up, so that none is warmed up while another is measured."""
    workers = {}
    for name in systems:
        progress(f"{problem.n_rows} rows, process {seed} of {plan['n_processes']}: {name}")
        workers[name] = problem.worker(name, seed)
        stack.callback(workers[name].close)
        workers[name].ask("warm_up", n=50, seconds=plan["warm_up"])
    return workers


def measure_in_turn(workers, plan):
    """Blocks of each system: (seconds a sweep, of a pass, of a sweep of `REFERENCE`, CPU by wall time)."""
    reference, sizes = workers[REFERENCE], {}
    for name, worker in workers.items():
        least = PEERS[name].least_sweeps if name in PEERS else 1
        sizes[name] = max(least, int(plan["block"] * least / worker.ask("sweeps", n=least)["cpu"]))
    found = {name: [] for name in workers}
    for _ in range(plan["n_rounds"]):
        for name, worker in workers.items():
            beside = reference.ask("sweeps", n=sizes[REFERENCE])["cpu"] / sizes[REFERENCE]
            times = worker.ask("sweeps", n=sizes[name])
            unit = (reference if name in PEERS else worker).ask("pass")["seconds"]
            found[name].append((times["cpu"] / sizes[name], unit, beside, times["cpu"] / times["wall"]))
    return found


def update_record(problem, system, blocks, mean_leaves, plan):
    sweep, unit, beside, busy = np.array(blocks).T
    update = sweep / PRIOR["n_trees"]
    return {"n_rows": problem.n_rows, "n_dims": problem.n_dims, "n_trees": PRIOR["n_trees"], "system": system, **plan,
            "us_per_update": measure.middle(1e6 * update), "us_per_pass": measure.middle(1e6 * unit),
            "passes": measure.middle(update / unit), "ratio": measure.middle(sweep / beside),
            "cpu_by_wall": float(np.median(busy)), "mean_leaves": mean_leaves}


# ------------------------------------------------------------------------------------------------ effective draws
def ess_part(options, systems):
    """Records of all systems that sample the posterior: chains of equal CPU time, taken in turn."""
    kept = (4.0 if options.quick else options.budget) / N_CHAINS
    plan = {"burn": 0.5 * kept, "kept": kept, "n_records": 200 if options.quick else 2000}
    systems = [name for name in systems if name not in PEERS or PEERS[name].samples]
    runs, versions = {name: [] for name in systems}, {}
    with tempfile.TemporaryDirectory() as folder:
        problem = Problem(folder, ESS_ROWS)
        for seed in range(1, N_CHAINS + 1):
            for name in systems:
                progress(f"effective draws, chain {seed} of {N_CHAINS}: {name}")
                path = os.path.join(folder, f"{name}_{seed}.npz")
                with contextlib.closing(problem.worker(name, seed)) as worker:
                    about = worker.ask("chain", out=path, **plan)
                    versions[name] = worker.about["versions"]
                with np.load(path) as traces:
                    runs[name].append((about, dict(traces)))
    return [ess_record(problem, name, runs[name], plan) for name in systems], versions


def ess_figures(traces):
    """Bulk ESS and R-hat of sigma, the log-likelihood and f: the one function for every system.

    Parameters
    ----------
    traces : list of dict
        Of each chain: sigma, log_likelihood (n_records,) and f (n_records, n_points). Chains are cut to the shortest.

    Returns
    -------
    dict
        ess and r_hat: {"sigma", "log_likelihood", "f_median", "f_low" (5 % quantile over the points)}, where R-hat
        has "f" alone, that of the worst point.
    """
    n = min(len(part["sigma"]) for part in traces)
    sigma, level, f = (np.stack([part[name][:n] for part in traces]) for name in ("sigma", "log_likelihood", "f"))
    of_points = np.array([ess_bulk(f[:, :, point]) for point in range(f.shape[2])])
    return {
        "ess": {"sigma": ess_bulk(sigma), "log_likelihood": ess_bulk(level), "f_median": float(np.median(of_points)),
                "f_low": float(np.quantile(of_points, 0.05))},
        "r_hat": {"sigma": split_rhat(sigma), "log_likelihood": split_rhat(level),
                  "f": float(np.max([split_rhat(f[:, :, point]) for point in range(f.shape[2])]))}}


def ess_record(problem, system, runs, plan):
    traces = [found for _, found in runs]
    together, seconds = ess_figures(traces), sum(about["cpu"] for about, _ in runs)
    alone = [ess_figures([found])["ess"] for found in traces]
    rates = [{name: value / about["cpu"] for name, value in ess.items()}
             for ess, (about, _) in zip(alone, runs, strict=True)]
    return {"n_rows": problem.n_rows, "n_dims": problem.n_dims, "n_trees": PRIOR["n_trees"], "system": system, **plan,
            "n_chains": len(runs), "chains": [about for about, _ in runs], **together, "cpu_seconds": seconds,
            "records_a_chain": min(len(found["sigma"]) for found in traces),
            "ess_per_second": {name: value / seconds for name, value in together["ess"].items()},
            "ess_per_second_by_chain": {name: measure.middle([rate[name] for rate in rates]) for name in rates[0]},
            "mean_sigma": float(problem.y_range * np.mean([found["sigma"].mean() for found in traces])),
            "mean_f_sd": float(problem.y_range * np.mean(np.concatenate([x["f"] for x in traces]).std(axis=0)))}


# ----------------------------------------------------------------------------------------------------- everything
PARTS = {
    "updates": (updates_part, lambda records, missing: [update_table(records, missing), stored_table(records)]),
    "ess": (ess_part, lambda records, missing: [ess_table(records, missing)]),
}


def progress(line):
    print(line, file=sys.stderr, flush=True)


def arguments_of(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--install", action="store_true", help="make the environments of the peers and stop")
    parser.add_argument("--python312", default=os.environ.get("PEERS_PYTHON312"), metavar="PATH",
                        help="Python 3.12 or newer, for pymc-bart (default: $PEERS_PYTHON312)")
    parser.add_argument("--quick", action="store_true", help="two minutes: does it run, not how fast")
    parser.add_argument("--rows", nargs="+", type=int, help="default: 2000 10000 100000; with --quick, 2000")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts (default: all)")
    parser.add_argument("--budget", type=float, default=60.0, help="CPU seconds of kept sweeps a sampler, for the ESS")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="everything runs on this core")
    parser.add_argument("--out", help="JSON file")
    options = parser.parse_args(arguments)
    options.rows = options.rows or ([2000] if options.quick else [2000, 10_000, 100_000])
    return options


def main(arguments=None):
    options = arguments_of(arguments)
    if options.install:
        install(options.peers, options.python312)
        return
    os.sched_setaffinity(0, {options.core})
    origin = {**measure.provenance(), "core": options.core, "systems": {}}
    missing = [name for name in options.peers if not os.path.exists(peer_python(name))]
    systems = [*measure.SAMPLERS, *(name for name in options.peers if name not in missing)]
    record = {"provenance": origin, "missing": missing, "stored_us": STORED, "stored_ns_a_row_of_a_pass": STORED_PASS}
    out = options.out or (None if options.quick else os.path.join(measure.HERE, "results", "peers.json"))
    for part in options.only:
        run, tables = PARTS[part]
        record[part], versions = run(options, systems)
        origin["systems"] |= versions
        for table in tables(record[part], missing):
            print(table.text(), end="\n\n", flush=True)
        if out:
            os.makedirs(os.path.dirname(os.path.abspath(out)), exist_ok=True)
            write_json(out, record)
    print(textwrap.fill(measure.provenance_line(origin), WIDTH, subsequent_indent="  "))
    for name in systems:
        about = ", ".join(f"{package} {version}" for package, version in origin["systems"][name].items())
        print(textwrap.fill(f"{name}: {about}.", WIDTH, subsequent_indent="  "))


if __name__ == "__main__":
    main()
