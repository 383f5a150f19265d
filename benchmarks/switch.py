"""Where row lists beat predicates, measured on whole sweeps.

    python -m benchmarks.switch [--quick] [--samplers ...] [--out FOLDER]

A node of n rows under k predicates becomes a list of rows where n is below (base + slope k) of all rows. The script
runs stationary chains with every pair (base, slope) of a grid in turn, from the same states with the same random
numbers, prints the cost of each pair relative to the best one and writes it to FOLDER/switch.json (benchmarks/results
by default; with --quick, nothing unless --out is given). The switch is process-wide; when done it is set back to
`DEFAULT`, the values of bart/kernels/nodeset.pyx.
"""

import argparse
import itertools
import os
import sys

import numpy as np
from bart.kernels.nodeset import set_switch

import bart
from experiments.problems import friedman, hypercube, true_tree
from experiments.report import Table
from experiments.settings import PAPER

from . import measure
from .growth import PRIORS, DrawnProblem

DEFAULT = (0.03, 0.04)
GRID = sorted({DEFAULT, *itertools.product((0.0, 0.03, 0.06, 0.12), (0.0, 0.01, 0.02, 0.04, 0.06))})
QUICK_GRID = [(0.0, 0.0), DEFAULT, (0.12, 0.06)]
SAMPLERS = ("PG C=10", "CGM")
N_TREES, DEEP_TREES = 200, 20


def scenarios(quick):
    """(name, function from a sampler to a chain, its sweeps before the measurement) of each scenario."""
    for n_rows, n_warm in ((2000, 10),) if quick else ((2000, 60), (10_000, 60), (100_000, 30)):
        yield f"Friedman {n_rows}", friedman_chain(n_rows), n_warm
    for n_rows in (2000,) if quick else (10_000, 100_000):
        yield f"deep prior {n_rows}", deep_chain(n_rows), 2
    for n_dims in (4,) if quick else (4, 5, 7):
        yield f"hypercube-{n_dims}", hypercube_chain(n_dims), 20


def friedman_chain(n_rows):
    problem = friedman(n_rows, seed=1)
    model = bart.Model(problem.X_train, problem.y_train, n_trees=N_TREES)
    return lambda sampler: bart.Ensemble(model, sampler, measure.generator(1))


def deep_chain(n_rows):
    alpha, beta, _ = PRIORS["deep"]
    return DrawnProblem(n_rows=n_rows, n_dims=10, n_trees=DEEP_TREES, alpha=alpha, beta=beta).ensemble


def hypercube_chain(n_dims):
    problem = hypercube(n_dims, seed=1)
    model, start = PAPER.model(problem), [true_tree(problem)]
    return lambda sampler: bart.Ensemble(model, sampler, measure.generator(1), init=start)


def time_settings(ensemble, grid, budget, least=0.04):
    """CPU seconds of a sweep with each setting of the switch.

    Parameters
    ----------
    ensemble : bart.Ensemble
        Runs on, from where one setting led.
    grid : list of (float, float)
    budget : float
        CPU seconds to spend: at least 3 rounds of all settings, at most 15.
    least : float
        CPU seconds of one measurement, at least one sweep.

    Returns
    -------
    seconds : (n_rounds, n_settings) float64
    leaves : float
        A tree, mean of the rounds.
    """
    once = measure.cpu_seconds(lambda: ensemble.run(1))
    n_sweeps = max(1, int(least / once))
    n_rounds = int(np.clip(budget / (n_sweeps * once * len(grid)), 3, 15))
    order = measure.generator(len(grid))
    seconds, leaves = np.empty((n_rounds, len(grid))), []
    for r in range(n_rounds):
        # Work differs between sweeps by more than the settings do: all settings of a round make the same sweeps.
        start, numbers = ensemble.get_state(), ensemble.rng.bit_generator.state
        for g in order.permutation(len(grid)):
            ensemble.set_state(start)
            ensemble.rng.bit_generator.state = numbers
            set_switch(*grid[g])
            found = {}
            spent = measure.cpu_seconds(lambda found=found: found.update(ensemble.run(n_sweeps)))
            seconds[r, g] = spent / n_sweeps
        leaves.append(found["n_leaves"].mean() / ensemble.model.n_trees)
    return seconds, float(np.mean(leaves))


def switch_records(quick, samplers):
    """A record for each scenario and sampler."""
    grid, budget = (QUICK_GRID, 0.3) if quick else (GRID, 12.0)
    records = []
    try:
        for scenario, chain, n_warm in scenarios(quick):
            for name in samplers:
                set_switch(*DEFAULT)
                ensemble = chain(measure.SAMPLERS[name]())
                ensemble.run(n_warm)
                seconds, leaves = time_settings(ensemble, grid, budget)
                n_rows, n_trees = ensemble.model.dataset.n_rows, ensemble.model.n_trees
                # Within a round, against the round's mean, which takes the growth of trees out.
                shares = np.median(seconds / seconds.mean(axis=1, keepdims=True), axis=0)
                records.append({"scenario": scenario, "sampler": name, "n_rows": n_rows, "n_trees": n_trees,
                                "mean_leaves": leaves, "rounds": len(seconds), "grid": grid,
                                "ns_per_row": list(1e9 * np.median(seconds, axis=0) / (n_rows * n_trees)),
                                "relative": list(shares / shares.min())})
    finally:
        set_switch(*DEFAULT)
    return records


def switch_tables(records):
    """The best setting of each scenario, and the whole grid."""
    grid = [tuple(setting) for setting in records[0]["grid"]]
    means = np.exp(np.mean([np.log(r["relative"]) for r in records], axis=0))
    worst = np.max([r["relative"] for r in records], axis=0)
    default = grid.index(DEFAULT)
    rows = []
    for r in records:
        best = int(np.argmin(r["relative"]))
        rows.append([r["scenario"], r["sampler"], f"{r['mean_leaves']:.1f}", f"{r['rounds']}",
                     f"{grid[best][0]:g}, {grid[best][1]:g}", f"{r['ns_per_row'][best]:.2f}",
                     f"{r['relative'][default]:.3f}"])
    first = Table(
        "Switch between predicates and row lists: the best setting of each scenario",
        [("scenario", ""), ("sampler", ""), ("leaves", "a tree"), ("rounds", ""), ("best", "base, slope"),
         ("ns a row", "best"), (f"{DEFAULT[0]:g}, {DEFAULT[1]:g}", "relative")],
        rows,
        ["A node of n rows under k predicates is a list of rows where n < (base + slope k) N. CPU time of a sweep, by "
         "rows and trees. Relative: time by that of the best setting. In a round every setting makes the same sweeps "
         "from the same state; medians over the rounds. Chains are stationary, or nearly so: warmed up from stumps "
         f"(Friedman, {N_TREES} trees), at the trees that made y (deep prior, {DEEP_TREES} trees), from the true tree "
         "(hypercubes)."])
    slopes = list(dict.fromkeys(slope for _, slope in grid))
    body = []
    for line, values in (("mean", means), ("worst", worst)):
        for base in dict.fromkeys(base for base, _ in grid):
            found = dict(zip(grid, values, strict=True))
            body.append([line, f"{base:g}", *(f"{found[base, slope]:.3f}" if (base, slope) in found else "-"
                                              for slope in slopes)])
        body.append(None)
    second = Table("Relative time over the scenarios: geometric mean, and worst",
                   [("", ""), ("", "base"), *(("slope", f"{slope:g}") for slope in slopes)], body[:-1], n_left=1)
    return [first, second]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="seconds: does it run, not how fast")
    parser.add_argument("--samplers", nargs="+", choices=measure.SAMPLERS, default=list(SAMPLERS))
    parser.add_argument("--out", help="folder of the JSON file")
    options = parser.parse_args(arguments)
    origin = measure.provenance()
    records = switch_records(options.quick, options.samplers)
    print("\n\n".join(table.text() for table in switch_tables(records)))
    out = options.out or (None if options.quick else os.path.join(measure.HERE, "results"))
    measure.finish("switch", origin, records, out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
