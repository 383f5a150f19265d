"""The chains of one run of the mixing experiments: timed, and recorded. A process of its own for each run.

    PYTHON -m experiments.mixing_worker TASK.json

`mixing_runs` writes the task and starts the process, with a peer's own interpreter where the system is one of
another package: nothing but numpy and that package may be imported before the system is known. Records are written to
the file that the task names, in the units of y.
"""

import ast
import dataclasses
import json
import math
import platform
import sys
import time
from importlib import metadata

import numpy as np

from benchmarks import peer_runs

__all__ = ["PEERS", "ladder_of"]

# Records a call at most; a call into bartz costs as much as a sweep, so more of them than the benchmarks make.
CHUNK = 60
# Grow-from-root sweeps before those of a warm start: the default of stochtree's BARTModel.
N_ROOT_SWEEPS = 5
_MANY = 10**9
_SEGMENT_SECONDS = 0.25


# ------------------------------------------------------------------------------------------------- other packages
class _Fits:
    """What a peer's chain keeps beside the records of `peer_runs`: f at the test rows, once a chunk.

    A chunk is one call into the package; it lasts `call_seconds` at least, where a call itself costs something.
    """

    call_seconds = 0.0

    def start(self):
        with np.load(self.task["data"]) as data:
            self.X_rows = data["X_rows"]
        super().start()
        self._fits, self._fit_records = [], []

    def end_chunk(self):
        self._fits.append(self.fit_now())
        self._fit_records.append(len(self._sigma2) - 1)

    def fit_now(self):
        """f at the test rows, or what `fit_draws` makes it of."""
        raise NotImplementedError

    def fit_draws(self, kept):
        """f at the test rows of each chunk's last record, (n_fits, n_rows)."""
        return np.array(kept, dtype=np.float64)

    def records(self):
        """All records in the units of y."""
        task, traces = self.task, self.traces()
        traces["sigma"] *= task["y_range"]
        traces["log_likelihood"] -= len(self.y) * math.log(task["y_range"])
        traces["f"] = task["y_mid"] + task["y_range"] * traces["f"]
        traces["fits"] = task["y_mid"] + task["y_range"] * self.fit_draws(self._fits)
        traces["fit_sigma"] = traces["sigma"][self._fit_records]
        return traces


class Bartz(_Fits, peer_runs.Bartz):
    call_seconds, _evaluate = 0.1, None

    def start(self):
        import jax
        from bartz.grove import evaluate_forest

        super().start()
        self.codes_rows = self.codes_of(self.X_rows)
        if Bartz._evaluate is None:
            Bartz._evaluate = jax.jit(lambda codes, forest: evaluate_forest(codes, forest, sum_batch_axis=0))

    def fit_now(self):
        return np.asarray(Bartz._evaluate(self.codes_rows, self.mcmc.forest), dtype=np.float64)


class StochTree(_Fits, peer_runs.StochTree):
    def start(self):
        from stochtree import data

        super().start()
        self.rows = data.Dataset()
        self.rows.add_covariates(self.X_rows)

    def fit_now(self):
        return self.forest.predict(self.rows)


class WarmStochTree(StochTree):
    """Grow-from-root sweeps first, counted, for at most half of the burn-in."""

    def start(self):
        super().start()
        self.n_root, self.root_seconds = N_ROOT_SWEEPS, 0.5 * self.task["burn"]

    def sweep(self, n):
        while n and self.n_root and self.root_seconds > 0:
            began = time.process_time()
            self.from_root = True
            super().sweep(1)
            self.from_root = False
            self.n_root, n = self.n_root - 1, n - 1
            self.root_seconds -= time.process_time() - began
        if n:
            super().sweep(n)


class PyMCBart(_Fits, peer_runs.PyMCBart):
    def fit_now(self):
        return self.held_out()

    def fit_draws(self, kept):
        points, self.X_test = self.X_test, self.X_rows
        try:
            return self.f_draws(kept)
        finally:
            self.X_test = points


PEERS = {"bartz": Bartz, "stochtree": StochTree, "stochtree warm": WarmStochTree, "pymc-bart": PyMCBart}


def peer_chain(task, number):
    """Records of one chain of another package, and what is said of it."""
    run = PEERS[task["system"]]({**task, "seed": task["seeds"][number]})
    chunk_seconds = max(task["kept"] / task["n_fits"], run.call_seconds)
    about = peer_runs.chain(run, task["burn"], task["kept"], task["n_records"], chunk_seconds=chunk_seconds)
    about = {**about, "start": "stumps", "mean_leaves": run.mean_leaves()}
    return run.records(), {**about, "cpu": about["burn_cpu"] + about["cpu"], "kept_cpu": about["cpu"]}, run.packages


# ---------------------------------------------------------------------------------------------------- our samplers
def ladder_of(text):
    """The `bart.Ladder` of its options, "n_rungs=8, t_min=0.05"; None where there is no text.

    Raises
    ------
    ValueError
        The text is no list of options, or one is refused.
    """
    import bart

    if not text:
        return None
    try:
        call = ast.parse(f"ladder({text})", mode="eval").body
        if call.args or any(part.arg is None for part in call.keywords):
            raise ValueError("options are written keyword=value")
        return bart.Ladder(**{part.arg: ast.literal_eval(part.value) for part in call.keywords})
    except (SyntaxError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"ladder {text!r}: {error}") from None


class OwnChain:
    """A `bart` chain that burns in and samples by CPU time, its start counted.

    Parameters
    ----------
    task : dict
    number : int
        Of the chain.
    """

    def __init__(self, task, number):
        import bart
        from bart.chain import Chain, ChainPlan

        with np.load(task["data"]) as data:
            self.model = bart.Model(data["X"], data["y"], **task["model"])
            self.points, self.rows = np.ascontiguousarray(data["X_test"]), np.ascontiguousarray(data["X_rows"])
        self.task, self.start = task, task["starts"][number % len(task["starts"])]
        ladder = ladder_of(task["ladder"])
        leaves = task["init_leaves"] if self.start == "overgrown" else None
        plan = ChainPlan(n_burn=_MANY, n_draws=1, init_leaves=leaves, ladder=ladder)
        seeds = np.random.SeedSequence(task["seeds"][number])
        self.chain = Chain(self.model, task["system"], plan, seeds, self.start)
        self.kept = {name: [] for name in ("sigma", "log_likelihood", "n_leaves", "f", "fits", "fit_sigma")}
        self.changed, self.swaps, self.n_seen = [], [], 0

    def run(self):
        """Burn in, sample; returns what is said of the chain."""
        task, chain = self.task, self.chain
        began = time.process_time()
        getattr(chain, "ensemble")                           # noqa: B009 makes the start, at times a particle filter
        spent, n_burn = time.process_time() - began, 0
        start_cpu = spent
        while spent < task["burn"] or not n_burn:            # the start may have taken it all
            seconds, segment = self._advance(task["burn"] - spent)
            spent, n_burn, pace = spent + seconds, chain.n_done, seconds / segment.n_sweeps
        thin = max(1, math.ceil(task["kept"] / pace / task["n_records"]))
        self.fit_every = max(1, int(task["kept"] / pace / thin / task["n_fits"]))
        chain.plan = dataclasses.replace(chain.plan, n_burn=chain.n_done, n_draws=_MANY, thin=thin)
        if chain.plan.ladder is not None:
            chain.ensemble.n_tune = chain.n_done             # the burn-in of the plan above had no end
        cpu = wall = 0.0
        while cpu < task["kept"]:
            seconds, segment = self._advance(task["kept"] - cpu)
            cpu, wall = cpu + seconds, wall + segment.wall_seconds
            self._keep(segment, thin)
        return {
            "n_burn": n_burn, "n_sweeps": chain.n_done - n_burn, "sweeps_a_record": thin, "cpu": spent + cpu,
            "burn_cpu": spent, "kept_cpu": cpu, "start_cpu": start_cpu, "wall": wall, "start": self.start,
            "mean_leaves": float(np.mean(self.kept["n_leaves"][-1]) / self.model.n_trees),
            "tree_changed": float(np.mean(np.concatenate(self.changed))), **self._said_of_ladder(),
        }  # fmt: skip

    def _said_of_ladder(self):
        """Temperatures, and the share of accepted swaps of each pair of neighbours."""
        if self.chain.plan.ladder is None:
            return {}
        swaps = np.concatenate(self.swaps)
        rates = (swaps == 1).sum(axis=0) / np.maximum((swaps >= 0).sum(axis=0), 1)
        return {"temperatures": list(self.chain.ensemble.temperatures), "swap_rates": rates.tolist()}

    def _advance(self, seconds):
        began = time.process_time()
        segment = self.chain.advance(min(seconds, _SEGMENT_SECONDS))
        return max(time.process_time() - began, 1e-9), segment

    def _keep(self, segment, thin):
        """Record every `thin`-th sweep of a segment of kept ones."""
        kept = {name: trace[thin - 1 :: thin] for name, trace in segment.traces.items()}
        n = len(kept["sigma"])
        for name in ("sigma", "log_likelihood", "n_leaves"):
            self.kept[name].append(kept[name])
        self.changed.append(segment.traces["tree_changed"])
        self.swaps.append(segment.traces.get("swaps", np.empty((n, 0))))
        self.kept["f"].append(self._predict(self.points, segment.forests, 0, n))
        for draw in range(-self.n_seen % self.fit_every, n, self.fit_every):
            self.kept["fits"].append(self._predict(self.rows, segment.forests, draw, draw + 1))
            self.kept["fit_sigma"].append(kept["sigma"][draw : draw + 1])
        self.n_seen += n

    def _predict(self, X, forests, first, last):
        from bart.kernels.forest import predict_draws

        f = np.empty((last - first, len(X)))
        predict_draws(X, forests.nodes, forests.starts, self.model.n_trees, first, last, f)
        return self.model.dataset.to_y(f)

    def records(self):
        """All records in the units of y."""
        return {name: np.concatenate(parts) for name, parts in self.kept.items()}


def own_chain(task, number):
    """Records of one of our chains, and what is said of it."""
    chain = OwnChain(task, number)
    about = chain.run()
    return chain.records(), about, ("numpy", "scipy", "pgbart")


# ------------------------------------------------------------------------------------------------------ everything
def run(task):
    """All chains of the task, one after the other; writes the file ``task["out"]``."""
    peer_runs.CHUNK = CHUNK
    arrays, about = {}, []
    for number in range(task["n_chains"]):
        records, said, packages = (peer_chain if task["system"] in PEERS else own_chain)(task, number)
        about.append(said)
        for name, values in records.items():
            exact = name in ("sigma", "log_likelihood", "fit_sigma")
            arrays[f"{name}_{number}"] = np.asarray(values, dtype=np.float64 if exact else np.float32)
    versions = {"python": platform.python_version()}
    for name in packages:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:                # ours, run from its source tree
            continue
    header = json.dumps({"chains": about, "versions": versions})
    np.savez(task["out"], header=np.frombuffer(header.encode(), dtype=np.uint8), **arrays)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        run(json.load(file))
