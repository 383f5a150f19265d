"""What threads give: chains on threads beside processes, the rows of one sweep shared, and predictions.

    python -m benchmarks.threads [--quick] [--only chains sweep predict] [--out FOLDER]

Prints a table for each part and, after a run of all parts without --quick, writes benchmarks/results/threads.json;
with --out, FOLDER/threads.json of whatever ran. Wall times: on an idle machine, and on two CPUs, to which the process
is bound where the system allows it.
"""

import argparse
import multiprocessing
import os
import sys
import time

import numpy as np

import bart
from bart.chain import Chain, ChainPlan
from experiments.problems import friedman
from experiments.report import Table

from . import measure
from .sweeps import N_TREES, friedman_model

N_WORKERS = 2
WAYS = (1, N_WORKERS)           # of n_threads


def spread(values):
    """`measure.middle` with the largest too."""
    return {**measure.middle(values), "max": float(np.max(values))}


def timed(function):
    """(wall seconds, CPU seconds of the process, result) of one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = function()
    return time.perf_counter() - wall, time.process_time() - cpu, result


# -------------------------------------------------------------------------------- chains: threads beside processes
def on_threads(model, sampler, start, seed, n_sweeps, n_chains):
    """(wall seconds, last log-likelihood of each chain) of `bart.sample`, each chain on a thread."""
    wall, _, post = timed(lambda: bart.sample(
        model, sampler, n_burn=0, n_draws=n_sweeps, n_chains=n_chains, seed=seed, init=[start], keep_trees=False,
        executor=n_chains, progress=False))
    return wall, post["log_likelihood"][:, -1].tolist()


def serve(index, pipe, barrier, n_rows):
    """In a process of its own: chain number `index` of each run asked for, begun when all processes stand ready."""
    model = friedman_model(n_rows)
    pipe.send("ready")
    for name, start, seed, n_sweeps in iter(pipe.recv, None):
        own, sampler = np.random.SeedSequence(seed).spawn(N_WORKERS)[index], measure.SAMPLERS[name]()
        barrier.wait()
        began = time.perf_counter()
        chain = Chain(model, sampler, ChainPlan(n_burn=0, n_draws=n_sweeps, keep_trees=False), own, start)
        while not chain.is_done:
            segment = chain.advance(np.inf)
        ended = time.perf_counter()
        pipe.send((began, ended, float(segment.traces["log_likelihood"][-1])))


class Processes:
    """Two processes with a model each; the clock of `time.perf_counter` is the same in all."""

    def __init__(self, n_rows):
        context = multiprocessing.get_context("spawn")
        barrier = context.Barrier(N_WORKERS)
        self._pipes, self._processes = [], []
        for index in range(N_WORKERS):
            pipe, other = context.Pipe()
            self._pipes.append(pipe)
            self._processes.append(context.Process(target=serve, args=(index, other, barrier, n_rows), daemon=True))
            self._processes[-1].start()
            other.close()               # so that recv raises, and does not wait, where the process has died
        for pipe in self._pipes:
            pipe.recv()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            pipe.send(None)
            process.join()

    def run(self, *task):
        """Wall seconds from the first beginning to the last end, and the last log-likelihood of each chain."""
        for pipe in self._pipes:
            pipe.send(task)
        began, ended, levels = zip(*[pipe.recv() for pipe in self._pipes], strict=True)
        return max(ended) - min(began), list(levels)


def chains_part(quick):
    """Two chains on threads, in two processes, and one alone, in turn."""
    # Some seconds each: setting up 200 trees in two threads takes turns at the interpreter, a hundredth of a second.
    n_rounds, seconds, n_warm = (3, 0.15, 50) if quick else (5, 3.0, 200)
    records = []
    for n_rows in (2000,) if quick else (2000, 20_000):
        model = friedman_model(n_rows)
        warm = bart.Ensemble(model, bart.GrowPrune(), measure.generator(1))
        warm.run(n_warm)
        with Processes(n_rows) as processes:
            records += [chains_record(model, name, warm.structures(), processes, n_rounds, seconds, n_warm)
                        for name in measure.SAMPLERS]
    return records


def chains_record(model, name, start, processes, n_rounds, seconds, n_warm):
    """Measure one sampler; every round has a seed of its own, the same for all three ways."""
    sampler, n_sweeps = measure.SAMPLERS[name](), 5
    for _ in range(3):                  # each is a longer run, of which the set-up is less
        n_sweeps = max(5, int(seconds * n_sweeps / on_threads(model, sampler, start, 0, n_sweeps, 1)[0]))
    ways = {
        "threads": lambda seed, n: on_threads(model, sampler, start, seed, n, N_WORKERS),
        "processes": lambda seed, n: processes.run(name, start, seed, n),
        "alone": lambda seed, n: on_threads(model, sampler, start, seed, n, 1),
    }
    for run in ways.values():
        run(0, 1 + n_sweeps // 10)
    rates, same = {way: [] for way in ways}, True
    for k in range(n_rounds):
        levels = {}
        # In either order, so that a drift of the machine's speed takes no side.
        for way in list(ways)[::1 if k % 2 else -1]:
            wall, levels[way] = ways[way](k + 1, n_sweeps)
            rates[way].append(n_sweeps * len(levels[way]) / wall)
        same = same and levels["threads"] == levels["processes"] and levels["threads"][0] == levels["alone"][0]
    return {"n_rows": model.dataset.n_rows, "sampler": name, "n_start": n_warm, "n_sweeps": n_sweeps,
            "same_work": same, "sweeps_per_second": {way: spread(rates[way]) for way in ways},
            "ratio": spread(np.divide(rates["threads"], rates["processes"])),
            "speed_up": spread(np.divide(rates["threads"], rates["alone"]))}


def chains_table(records):
    rows = [[f"{r['n_rows']}", r["sampler"], f"{r['n_sweeps']}",
             *(f"{r['sweeps_per_second'][way]['median']:.1f}" for way in ("threads", "processes", "alone")),
             *(f"{r['ratio'][key]:.3f}" for key in ("median", "min", "max")),
             *(f"{r['speed_up'][key]:.2f}" for key in ("median", "min", "max")),
             "yes" if r["same_work"] else "NO"] for r in records]
    return Table(
        f"Two chains on two threads beside two processes, {N_TREES} trees: sweeps a wall second, all chains together",
        [("rows", ""), ("sampler", ""), ("sweeps", "a chain"), ("2 threads", ""), ("2 proc.", ""), ("1 chain", "alone"),
         ("threads /", "processes"), ("", "least"), ("", "most"), ("threads /", "alone"), ("", "least"), ("", "most"),
         ("same", "work")],
        rows,
        [f"Friedman, default priors, no forests stored. {records[0]['ratio']['repeats']} rounds; in each the three "
         f"ways run in turn, with the same seed, from the trees that {records[0]['n_start']} sweeps of GrowPrune from "
         "stumps led to. Medians; the ratios are taken round by round. Threads and alone: all of bart.sample. "
         "Processes: each has made its model and run before, and waits for the other; from the first beginning to the "
         "last end. Same work: the last log-likelihoods are the same bits."])


# ------------------------------------------------------------------------------------------- the rows of one sweep
def sweep_part(quick):
    """One chain whose sweeps share their rows between two threads."""
    records = []
    # At a million rows trees take a hundred sweeps to reach their size.
    for n_rows, n_grow in ((70_000, 5),) if quick else ((100_000, 200), (1_000_000, 100)):
        model = friedman_model(n_rows)
        start = bart.Ensemble(model, bart.GrowPrune(), measure.generator(1), n_threads=N_WORKERS)
        start.run(n_grow)
        state = start.get_state()
        records += [{**sweep_record(model, name, state, *((3, 0.2) if quick else (9, 4.0))), "n_start": n_grow}
                    for name in measure.SAMPLERS]
    return records


def sweep_record(model, name, state, n_most, seconds):
    """The same chain twice, in turn: 3 to `n_most` pairs, in some `seconds` of the chain on one thread."""
    ensembles = {n: bart.Ensemble(model, measure.SAMPLERS[name](), measure.generator(2), n_threads=n) for n in WAYS}
    for n in WAYS[::-1]:
        ensembles[n].set_state(state)
        once = timed(lambda n=n: ensembles[n].run(1))[0]        # in the end, that of one thread
    n_pairs = int(np.clip(seconds / once, 3, n_most))
    n_sweeps = max(1, int(seconds / (n_pairs * once)))
    walls, cpus, leaves, same = {n: [] for n in WAYS}, {n: [] for n in WAYS}, [], True
    for k in range(n_pairs):
        found = {}
        for n in WAYS[::1 if k % 2 else -1]:
            wall, cpu, found[n] = timed(lambda n=n: ensembles[n].run(n_sweeps))
            walls[n].append(wall / n_sweeps)
            cpus[n].append(cpu / n_sweeps)
        one, two = (found[n]["log_likelihood"] for n in WAYS)
        same = same and one.tobytes() == two.tobytes()
        leaves.append(found[1]["n_leaves"].mean() / model.n_trees)
    return {"n_rows": model.dataset.n_rows, "sampler": name, "n_sweeps": n_sweeps, "same_bits": same,
            "mean_leaves": float(np.mean(leaves)), "speed_up": spread(np.divide(walls[1], walls[N_WORKERS])),
            "wall_seconds": {f"{n}": spread(walls[n]) for n in WAYS},
            "cpu_seconds": {f"{n}": spread(cpus[n]) for n in WAYS}}


def sweep_table(records):
    rows = [[f"{r['n_rows']}", r["sampler"], f"{r['mean_leaves']:.2f}", f"{r['speed_up']['repeats']}",
             f"{r['n_sweeps']}", *(f"{1e3 * wall['median']:.2f}" for wall in r["wall_seconds"].values()),
             *(f"{r['speed_up'][key]:.2f}" for key in ("median", "min", "max")),
             f"{r['cpu_seconds'][f'{N_WORKERS}']['median'] / r['cpu_seconds']['1']['median']:.2f}",
             "yes" if r["same_bits"] else "NO"] for r in records]
    grown = ", ".join(f"{n} at {rows} rows" for rows, n in {r["n_rows"]: r["n_start"] for r in records}.items())
    return Table(
        f"One chain, {N_TREES} trees, the rows of a sweep shared by n_threads: wall time of a sweep",
        [("rows", ""), ("sampler", ""), ("leaves", "a tree"), ("pairs", ""), ("sweeps", "of each"), ("ms", "1 thread"),
         ("ms", f"{N_WORKERS} threads"), ("speed-up", "median"), ("", "least"), ("", "most"), ("CPU time", "ratio"),
         ("same", "bits")],
        rows,
        [f"Friedman, default priors, no forests stored, after sweeps of GrowPrune from stumps ({grown}) and one of the "
         "sampler's own. Both ways run the same chain, in turn; the speed-up is taken pair by pair. CPU time: of all "
         "threads, their waiting included. Same bits: the log-likelihood of every sweep."])


# ----------------------------------------------------------------------------------------------------- predictions
def predict_part(quick):
    """Time and memory of `Posterior.predict` at new rows, mean only."""
    n_rows, shallow, deep = (4000, (20, 10), (2, 5)) if quick else (100_000, (500, 250), (20, 10))
    X = friedman(max(n_rows, 10_000), seed=1).X_test[:n_rows]
    cases = [("default", 2000, {}, "dispersed", 4, *shallow), ("deep", 10_000, {"beta": 0.3}, "prior", 2, *deep)]
    return [predict_record(X, *case, 1 if quick else 2) for case in cases]


def predict_record(X, prior, n_train, options, init, n_chains, n_burn, n_draws, n_rounds):
    """Sample a forest by GrowPrune, and predict with 1 and 2 threads, in turn."""
    problem = friedman(n_train, seed=1)
    model = bart.Model(problem.X_train, problem.y_train, n_trees=N_TREES, **options)
    post = bart.sample(model, bart.GrowPrune(), n_burn=n_burn, n_draws=n_draws, n_chains=n_chains, seed=1, init=init,
                       executor=N_WORKERS, progress=False)
    post.predict(X[:100], n_threads=N_WORKERS)
    walls, cpus, peaks, means = *({n: [] for n in WAYS} for _ in range(3)), set()
    for k in range(n_rounds):
        for n in WAYS[::-1 if k % 2 else 1]:
            memory = measure.PeakMemory()
            wall, cpu, mean = timed(lambda n=n: post.predict(X, n_threads=n))
            peaks[n].append(memory.bytes())
            walls[n].append(wall)
            cpus[n].append(cpu)
            means.add(mean.tobytes())
    return {"prior": prior, "n_train": n_train, "n_rows": len(X), "n_draws": n_chains * n_draws, "n_trees": N_TREES,
            "n_burn": n_burn, "mean_leaves": float(post["n_leaves"].mean() / N_TREES), "same_bits": len(means) == 1,
            "forest_bytes": sum(part.nbytes for part in post.forests),
            "wall_seconds": {f"{n}": spread(walls[n]) for n in WAYS},
            "cpu_seconds": {f"{n}": spread(cpus[n]) for n in WAYS},
            "peak_bytes": {f"{n}": None if None in peaks[n] else max(peaks[n]) for n in WAYS},
            "speed_up": spread(np.divide(walls[1], walls[N_WORKERS]))}


def predict_table(records):
    rows = []
    for r in records:
        visits = r["n_rows"] * r["n_draws"] * r["n_trees"]
        for n in r["wall_seconds"]:
            wall, cpu, peak = r["wall_seconds"][n]["median"], r["cpu_seconds"][n]["median"], r["peak_bytes"][n]
            rows.append([r["prior"], f"{r['n_draws']}", f"{r['mean_leaves']:.2f}", n, f"{wall:.2f}", f"{cpu:.2f}",
                         f"{1e9 * wall / visits:.3f}", f"{1e9 * cpu / visits:.3f}",
                         "-" if n == "1" else f"{r['speed_up']['median']:.2f}",
                         "-" if peak is None else f"{peak / 1e6:.1f}", f"{r['forest_bytes'] / 1e6:.1f}",
                         "yes" if r["same_bits"] else "NO"])
    about = "; ".join(f"{r['prior']}: {r['n_train']} training rows, {r['n_burn']} sweeps before the draws of each chain"
                      for r in records)
    return Table(
        f"Posterior.predict, mean only, {records[0]['n_rows']} rows, {N_TREES} trees",
        [("prior", ""), ("draws", ""), ("leaves", "a tree"), ("threads", ""), ("s", "wall"), ("s", "CPU"),
         ("ns/row/tree", "wall"), ("ns/row/tree", "CPU"), ("speed-up", ""), ("peak MB", "most"), ("forest", "MB"),
         ("same", "bits")],
        rows,
        [f"Forests of GrowPrune on Friedman ({about}; deep: beta 0.3, from trees drawn from the prior). Medians of "
         f"{records[0]['speed_up']['repeats']} call(s) each, in turn. ns a row, a tree and a draw. Peak: resident "
         "memory (10^6 bytes) above what was resident before the call, which holds X and the forests."],
        n_left=1)


PARTS = {"chains": (chains_part, chains_table), "sweep": (sweep_part, sweep_table),
         "predict": (predict_part, predict_table)}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="seconds: does it run, not how fast")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts (default: all)")
    parser.add_argument("--out", help="folder of the JSON file")
    options = parser.parse_args(arguments)
    origin, records = measure.provenance(), {}
    if hasattr(os, "sched_setaffinity"):
        origin["cpus"] = sorted(os.sched_getaffinity(0))[:N_WORKERS]
        os.sched_setaffinity(0, origin["cpus"])
    for part in options.only:
        run, table = PARTS[part]
        records[part] = run(options.quick)
        print(table(records[part]).text(), end="\n\n", flush=True)
    whole = not options.quick and set(options.only) == set(PARTS)
    out = options.out or (os.path.join(measure.HERE, "results") if whole else None)
    measure.finish("threads", origin, records, out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
