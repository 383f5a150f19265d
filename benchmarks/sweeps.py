"""Times of sweeps, and memory, of every sampler: one deep tree, real data, many rows, many trees, and their growth.

    python -m benchmarks.sweeps [--quick] [--only hypercube houses million friedman weights growth]
                                [--samplers ...] [--rows ...] [--out FOLDER]
    python -m benchmarks.sweeps --plot [--out FOLDER]

Prints tables for each part and writes them to FOLDER/part.json (benchmarks/results by default; with --quick, nothing
unless --out is given). `growth` also draws FOLDER/benchmark_growth.png (figures/ by default); --plot does so alone,
from stored results.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import textwrap

import numpy as np

import bart
from experiments.problems import friedman, hypercube, true_tree
from experiments.report import WIDTH, Table, write_json
from experiments.settings import PAPER

from . import growth_plot, measure
from .growth import growth_part, growth_tables
from .measure import SAMPLERS, make_sampler

N_TREES = 200
FRIEDMAN_ROWS, MANY_ROWS = (2000, 10_000, 100_000, 1_000_000), 1_000_000
HERE = os.path.dirname(os.path.abspath(__file__))


# ------------------------------------------------------------------------------------------------ one deep tree
def hypercube_part(quick, samplers):
    """One tree on hypercube-D under the paper's settings, from the empty and from the true tree."""
    n_sweeps, repeats = (200, 3) if quick else (2000, 9)
    records = []
    for n_dims in (2, 4) if quick else (2, 3, 4, 5, 7):
        problem = hypercube(n_dims, seed=1)
        model = PAPER.model(problem)
        for name in samplers:
            for start, init in (("empty", "empty"), ("true tree", [true_tree(problem)])):
                runs = [one_tree_run(model, make_sampler(name), init, n_sweeps, (n_dims, k)) for k in range(repeats)]
                records.append({
                    "n_dims": n_dims, "n_rows": len(problem.y_train), "sampler": name, "start": start,
                    "n_sweeps": n_sweeps, "ms_per_sweep": measure.middle([ms for ms, _, _ in runs]),
                    "mean_leaves": float(np.mean([leaves for _, leaves, _ in runs])),
                    "log_likelihood": float(np.mean([level for _, _, level in runs]))})
    return records


def one_tree_run(model, sampler, init, n_sweeps, seed):
    """(ms a sweep, mean number of leaves, mean log-likelihood), all of the second half of a run."""
    ensemble = bart.Ensemble(model, sampler, measure.generator(*seed), init=init)
    ensemble.run(n_sweeps // 2)
    found = {}
    n_sweeps -= n_sweeps // 2
    seconds = measure.cpu_seconds(lambda: found.update(ensemble.run(n_sweeps)))
    return 1e3 * seconds / n_sweeps, found["n_leaves"].mean(), found["log_likelihood"].mean()


def hypercube_tables(records):
    rows = [[f"hypercube-{r['n_dims']}", r["sampler"], r["start"], str(r["n_rows"]),
             f"{r['ms_per_sweep']['median']:.4f}", f"{r['ms_per_sweep']['min']:.4f}", f"{r['mean_leaves']:.1f}",
             f"{r['log_likelihood']:.0f}"] for r in records]
    first = records[0]
    return [Table(
        f"One tree: CPU time of a sweep, {first['ms_per_sweep']['repeats']} chains of {first['n_sweeps']} sweeps",
        [("problem", ""), ("sampler", ""), ("start", ""), ("rows", ""), ("ms a sweep", "median"),
         ("ms a sweep", "least"), ("leaves", "mean"), ("log-lik", "mean")],
        rows,
        ["Settings PAPER, data seed 1; time, leaves and log-likelihood are of the second half of each chain, median "
         "or mean over the chains. A sweep draws sigma, the tree and its leaf values, and records its traces."],
        n_left=3)]


# ----------------------------------------------------------------------------------------- a process for each run
def houses_part(quick, samplers):
    """All of CaliforniaHouses."""
    folder = os.environ.get("PGBART_DATA")
    if not folder:
        print("houses: left out, PGBART_DATA is not set", file=sys.stderr)
        return []
    table = np.loadtxt(os.path.join(folder, "california_housing", "cal_housing.data"), delimiter=",")
    n_burn, n_draws, repeats = (2, 3, 1) if quick else (50, 100, 3)
    return run_children(table[:, :8], table[:, 8], samplers, n_burn, n_draws, repeats)


def million_part(quick, samplers):
    """A million rows of Friedman's function."""
    problem = friedman(20_000 if quick else 1_000_000, seed=1)
    n_burn, n_draws = (2, 3) if quick else (10, 10)
    return run_children(problem.X_train, problem.y_train, samplers, n_burn, n_draws, 1)


def run_children(X, y, samplers, n_burn, n_draws, repeats):
    """Records of `bart.sample` on these data, forests stored, each run in a process of its own."""
    records = []
    with tempfile.TemporaryDirectory() as scratch:
        np.save(os.path.join(scratch, "X.npy"), np.ascontiguousarray(X))
        np.save(os.path.join(scratch, "y.npy"), np.ascontiguousarray(y))
        for name in samplers:
            task = {"sampler": name, "n_burn": n_burn, "n_draws": n_draws}
            command = [sys.executable, "-m", "benchmarks.sweeps", "--child", json.dumps({**task, "folder": scratch})]
            for _ in range(repeats):
                done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
                records.append({**task, **json.loads(done.stdout)})
    return records


def child_record(task):
    """In a process of its own: the record of one run."""
    X, y = (np.load(os.path.join(task["folder"], f"{name}.npy")) for name in "Xy")
    memory = measure.PeakMemory()
    model = bart.Model(X, y, n_trees=N_TREES)
    found = []
    seconds = measure.cpu_seconds(lambda: found.append(bart.sample(
        model, make_sampler(task["sampler"]), n_burn=task["n_burn"], n_draws=task["n_draws"], n_chains=1, seed=1,
        progress=False)))
    return {"n_rows": len(y), "n_dims": X.shape[1], "n_trees": N_TREES,
            "code_bytes": model.codes.codes.itemsize, "peak_bytes": memory.bytes(),
            "xy_bytes": X.nbytes + y.nbytes, "seconds_per_sweep": float(np.median(found[0]["seconds"])),
            "seconds_whole": seconds / (task["n_burn"] + task["n_draws"]),
            "mean_leaves": float(found[0]["n_leaves"].mean() / N_TREES)}


def children_table(records, data):
    rows = []
    for name in dict.fromkeys(r["sampler"] for r in records):
        runs = [r for r in records if r["sampler"] == name]
        peak = [r["peak_bytes"] for r in runs]
        rows.append([name, f"{np.median([r['seconds_per_sweep'] for r in runs]):.4f}",
                     f"{min(r['seconds_per_sweep'] for r in runs):.4f}",
                     f"{np.median([r['seconds_whole'] for r in runs]):.4f}",
                     "-" if None in peak else f"{max(peak) / 1e6:.1f}",
                     f"{np.mean([r['mean_leaves'] for r in runs]):.2f}"])
    r = records[0]
    return Table(
        f"{data}, {r['n_rows']} rows, {r['n_dims']} features, {r['n_trees']} trees: CPU time and memory",
        [("sampler", ""), ("s a sweep", "median"), ("s a sweep", "least"), ("s a sweep", "whole run"),
         ("peak MB", "most"), ("leaves", "a tree")],
        rows,
        [f"One chain of {r['n_burn']} sweeps from stumps and {r['n_draws']} draws with default priors, "
         f"forests stored, codes of {r['code_bytes']} bytes; {len(runs)} run(s) a sampler, each in a process of its "
         "own. Sweep times: median sweep of the draws, over the runs; whole run: all of bart.sample, set-up and "
         "storage included, by sweeps. Peak: resident memory (10^6 bytes) above what the process held, X and y "
         f"({r['xy_bytes'] / 1e6:.1f} MB) included, before the model was made. Leaves: of the draws."],
        n_left=1)


def houses_tables(records):
    return [children_table(records, "CaliforniaHouses with all its features")]


def million_tables(records):
    table = children_table(records, "Friedman")
    table.notes.append("So few sweeps from stumps leave the trees in growth: see the leaves, and part friedman.")
    return [table]


# --------------------------------------------------------------------------------------------------- many trees
def friedman_part(quick, samplers, rows=None):
    """Time of one tree's update among 200, beside that of a streaming pass over the same rows."""
    records = []
    for n_rows in rows or (FRIEDMAN_ROWS[:1] if quick else FRIEDMAN_ROWS):
        model = friedman_model(n_rows)
        if n_rows < MANY_ROWS:
            records += [update_record(model, name, 5 if quick else 50, 10 if quick else 50) for name in samplers]
            continue
        # Trees grow for some hundred sweeps here, minutes of particle Gibbs: the cheapest sampler grows them once.
        start, n_start = bart.Ensemble(model, bart.GrowPrune(), measure.generator(1)), 100
        start.run(n_start)
        state = start.get_state()
        records += [update_record(model, name, 3, 10, state, n_start) for name in samplers]
    return records


def friedman_model(n_rows, weights=None):
    problem = friedman(n_rows, seed=1)
    return bart.Model(problem.X_train, problem.y_train, n_trees=N_TREES, weights=weights)


def weights_part(quick, samplers):
    """The same with weights of rows, beside none."""
    records = []
    for n_rows in (2000,) if quick else (2000, 100_000):
        weights = measure.generator(n_rows).uniform(0.5, 2.0, n_rows)
        models = {"none": friedman_model(n_rows), "uniform": friedman_model(n_rows, weights)}
        records += [{"weights": kind, **update_record(model, name, 5 if quick else 50, 10 if quick else 50)}
                    for name in samplers for kind, model in models.items()]
    return records


def update_record(model, name, n_burn, n_pairs, state=None, n_start=0):
    """Burn in, from stumps or from the state that `n_start` sweeps of another chain led to; then measure."""
    ensemble = bart.Ensemble(model, make_sampler(name), measure.generator(1))
    if state is not None:
        ensemble.set_state(state)
    n_sweeps = max(1, int(0.05 * n_burn / measure.cpu_seconds(lambda: ensemble.run(n_burn))))
    return {"sampler": name, "n_start": n_start, "n_burn": n_burn,
            **measure.time_updates(ensemble, n_pairs, n_sweeps)}


def target_of(name, n_dims):
    """Most passes that an update should take; None for samplers without a target."""
    sampler = make_sampler(name)
    if isinstance(sampler, bart.ParticleGibbs):
        targets = {bart.ParticleGibbs(): 40, bart.ParticleGibbs(region="subtree"): 25}
        return next((target for known, target in targets.items() if known == sampler), None)
    if isinstance(sampler, bart.Local):
        return 4 * min(sampler.subset or n_dims, n_dims) / 8 + 8
    return 8 if sampler == bart.GrowPrune() else 12 if sampler == bart.CGM() else None


def friedman_tables(records):
    rows = []
    for r in records:
        if rows and rows[-1][0] != f"{r['n_rows']}":
            rows.append(None)
        update, unit, passes = r["us_per_update"], r["us_per_pass"], r["passes"]
        target = target_of(r["sampler"], r["n_dims"])
        rows.append([f"{r['n_rows']}", r["sampler"], f"{8 * r['code_bytes']}", f"{update['median']:.2f}",
                     f"{update['min']:.2f}", f"{unit['median']:.3f}", f"{passes['median']:.1f}",
                     "-" if target is None else f"{target:g}", f"{1e3 * unit['median'] / r['n_rows']:.3f}",
                     f"{r['mean_leaves']:.2f}"])
    notes = ["An update is a sweep by its trees: structure, leaf values, residual, and a share of sigma and traces. A "
             "pass is one streaming masked sum over all rows (float64 target, one column of codes <= cut, rows in "
             "random order, the row loops that the samplers use). Passes: median of the ratios of "
             f"{records[0]['passes']['repeats']} pairs measured in turn in one process and thread, after "
             f"{records[0]['n_burn']} sweeps from stumps; default priors, no forests stored. Target: the design's, in "
             "passes; the local move's is 4 D / 8 + 8, D the columns it weighs; - without one."]
    notes += [f"{r['n_rows']} rows: {r['passes']['repeats']} pairs, after {r['n_start']} sweeps of GrowPrune from "
              f"stumps, the same for all samplers, and {r['n_burn']} of its own." for r in records if r["n_start"]][:1]
    return [Table(
        f"Friedman, {records[0]['n_dims']} features, {N_TREES} trees: CPU time of one tree's update",
        [("rows", ""), ("sampler", ""), ("code", "bits"), ("us an update", "median"), ("us an update", "least"),
         ("us a pass", "median"), ("passes", "median"), ("target", "at most"), ("ns a row", "of a pass"),
         ("leaves", "a tree")],
        rows, notes)]


def weights_tables(records):
    rows = []
    for plain, weighted in zip(records[::2], records[1::2], strict=True):
        times = [r["us_per_update"]["median"] for r in (plain, weighted)]
        ratio = weighted["passes"]["median"] / plain["passes"]["median"]
        rows.append([f"{plain['n_rows']}", plain["sampler"], *(f"{time:.2f}" for time in times), f"{ratio:.2f}"])
    return [Table(
        f"Friedman, {records[0]['n_dims']} features, {N_TREES} trees: an update with weights of rows and without",
        [("rows", ""), ("sampler", ""), ("us an update", "none"), ("us an update", "weights"), ("ratio", "of passes")],
        rows,
        ["Weights uniform on [.5, 2]; updates and passes as in part friedman, a pass without weights for both."])]


PARTS = {"hypercube": (hypercube_part, hypercube_tables), "houses": (houses_part, houses_tables),
         "million": (million_part, million_tables), "friedman": (friedman_part, friedman_tables),
         "weights": (weights_part, weights_tables),
         "growth": (growth_part, growth_tables)}


def draw_growth(results, figures):
    """The figure of part growth from the files in `results`; whether it could be made."""
    try:
        print("drawn:", growth_plot.make(results, figures))
    except (ImportError, FileNotFoundError) as error:
        print(f"growth: no figure: {error}", file=sys.stderr)
        return False
    return True


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="seconds: does it run, not how fast")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts (default: all)")
    parser.add_argument("--samplers", nargs="+", default=list(SAMPLERS), help="names, or samplers as text")
    parser.add_argument("--rows", nargs="+", type=int, help="of part friedman alone (default: up to 1 000 000)")
    parser.add_argument("--out", help="folder of the JSON files, and of the figure")
    parser.add_argument("--plot", action="store_true", help="run nothing: draw the figure from stored results")
    parser.add_argument("--child", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.rows and options.only != ["friedman"]:
        parser.error("--rows is of part friedman: give --only friedman")
    if options.child:
        print(json.dumps(child_record(options.child)))
        return 0
    figures = options.out or os.path.join(os.path.dirname(HERE), "figures")
    out = options.out or os.path.join(HERE, "results")
    if options.plot:
        return 0 if draw_growth(out, figures) else 1
    keep = bool(options.out) or not options.quick
    for part in options.only:
        origin = measure.provenance()
        run, tables = PARTS[part]
        records = run(options.quick, options.samplers, **({"rows": options.rows} if part == "friedman" else {}))
        if not records:
            continue
        print("\n\n".join(table.text() for table in tables(records)))
        print(textwrap.fill(measure.provenance_line(origin), WIDTH, subsequent_indent="  "), end="\n\n", flush=True)
        if keep:
            os.makedirs(out, exist_ok=True)
            write_json(os.path.join(out, f"{part}.json"), {"provenance": origin, "records": records})
        if keep and part == "growth":
            draw_growth(out, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
