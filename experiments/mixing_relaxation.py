"""How fast chains forget, kernel by kernel, from one set of states: what the choice of "auto" rests on.

    python -m experiments.mixing_relaxation [--problems friedman-2000-10 ...] [--systems growprune "local + recut" ...]

An effective sample size says little of chains that have not converged, and the chains of short runs have not. So all
kernels start from the same four states, which a long run of one sampler has reached, and what is compared is the
autocorrelation of sigma, log-likelihood and f at 50 training rows after so many CPU seconds,

    rho(t) = 1 - E (x(s + t) - x(s))^2 / (2 Var x),

with Var x from the long runs of all four chains together, so that differences between chains count. Nothing is stored.
Writes figures/mixing_relaxation.txt.
"""

import argparse
import os
import sys
import time

import numpy as np

import bart
from bart.storage import atomic_file

from . import mixing_friedman, mixing_real
from .command import one_line_errors, say
from .mixing import check_systems
from .mixing_runs import CUTS, DEFAULT_PRIOR, load
from .report import Table

__all__ = ["main", "relax", "rho", "states"]

NAME = "mixing_relaxation"
DATA_SEEDS = mixing_friedman.PROBLEMS | mixing_real.PROBLEMS
PROBLEMS = [name for name in DATA_SEEDS if name != "CaliforniaHouses-all"]
SYSTEMS = ("growprune", "cgm", "pg(n_particles=10)", "local(subset=1)", "local(subset=1) + recut + levels",
           "growprune + slide + levels", "auto")
REFERENCE = "local(subset=1) + recut + levels"
LAGS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
N_CHAINS, N_POINTS, N_RECORDS = 4, 50, 8000
QUANTITIES = ("sigma", "log-likelihood", "f")


def record(ensemble, points, seconds, n_records=N_RECORDS):
    """(n, 2 + n_points) records of sigma, log-likelihood and f at training rows, evenly spaced, and the CPU seconds
    from one to the next."""
    began = time.process_time()
    ensemble.run(10)
    every = max(1, int(seconds / n_records / ((time.process_time() - began) / 10)))
    found = []
    began = time.process_time()
    while time.process_time() - began < seconds or len(found) < 2:
        traces = ensemble.run(every)
        found.append(np.r_[traces["sigma"][-1], traces["log_likelihood"][-1], -ensemble.residual[points]])
    return np.array(found), (time.process_time() - began) / len(found)


def states(model, points, seconds, system):
    """Of each long chain, from the empty trees: the records of its later two thirds, and its last state."""
    for number in range(N_CHAINS):
        ensemble = bart.Ensemble(model, system, np.random.default_rng([1, number]))
        found, _ = record(ensemble, points, seconds)
        yield found[len(found) // 3 :], ensemble.get_state()


def rho(chains, seconds_a_record, variance, lag):
    """Autocorrelation of sigma, log-likelihood and f (mean of points) after `lag` seconds; NaN beyond half a run."""
    step = max(1, round(lag / seconds_a_record))
    if 2 * step > min(map(len, chains)):
        return np.full(len(QUANTITIES), np.nan)
    moved = np.mean([np.mean((chain[step:] - chain[:-step]) ** 2, axis=0) for chain in chains], axis=0)
    kept = 1.0 - moved / (2.0 * variance)
    return np.array([kept[0], kept[1], kept[2:].mean()])


def relax(model, points, reached, system, seconds):
    """(rho, of shape (lags, quantities); milliseconds a sweep) of a sampler from the states reached."""
    variance = np.concatenate([found for found, _ in reached]).var(axis=0)
    chains, spacing, sweeps = [], [], []
    for number, (_, state) in enumerate(reached):
        ensemble = bart.Ensemble(model, system, np.random.default_rng([2, number]))
        ensemble.set_state(state)
        before = ensemble.n_sweeps
        found, seconds_a_record = record(ensemble, points, seconds)
        chains.append(found)
        spacing.append(seconds_a_record)
        sweeps.append(1e3 * seconds_a_record * len(found) / (ensemble.n_sweeps - before - 10))
    return np.array([rho(chains, np.mean(spacing), variance, lag) for lag in LAGS]), float(np.mean(sweeps))


def main(arguments=None):
    """Command line; prints and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--problems", nargs="+", choices=DATA_SEEDS, default=PROBLEMS, metavar="PROBLEM", help=", ".join(DATA_SEEDS))
    add("--systems", nargs="+", default=list(SYSTEMS), help="samplers as strings")
    add("--reference", default=REFERENCE, metavar="SAMPLER",
        help=f"whose long chains reach the states that all start from, as a string (default: {REFERENCE})")
    add("--seconds", type=float, default=12.0, help="CPU seconds of each of four chains of a sampler (default: 12)")
    add("--long", type=float, default=30.0, help="CPU seconds of each long chain (default: 30)")
    add("--out", default="figures", help="folder of the table (default: figures)")
    options = parser.parse_args(arguments)
    with one_line_errors():
        check_systems([options.reference, *options.systems], peers=False)
        rows = []
        for name in options.problems:
            problem = load(name, DATA_SEEDS[name](0))
            model = bart.Model(problem.X_train, problem.y_train, **CUTS, **DEFAULT_PRIOR)
            points = np.random.default_rng(5).choice(len(problem.y_train), N_POINTS, replace=False)
            reached = list(states(model, points, options.long, options.reference))
            for system in options.systems:
                say(f"{name}: {system}")
                kept, sweep = relax(model, points, reached, system, options.seconds)
                rows.append([name, system, f"{sweep:.2f}",
                             *(" ".join("   -" if np.isnan(x) else f"{x:4.2f}" for x in column) for column in kept.T)])
        text = _table(rows, options).text() + "\n"
        os.makedirs(options.out, exist_ok=True)
        with atomic_file(os.path.join(options.out, NAME + ".txt"), "w") as file:
            file.write(text)
        say(text)
    return 0


def _table(rows, options):
    lags = " ".join(f"{lag:4g}" for lag in LAGS)
    return Table(
        "Autocorrelation after so many CPU seconds, from the same states",
        [("", "problem"), ("", "sampler"), ("ms a", "sweep"), *((name, lags) for name in QUANTITIES)],
        rows,
        [f"Four chains of {options.seconds:g} CPU seconds of each sampler, from states that {options.reference} has "
         f"reached in {options.long:g} seconds each; f: mean of {N_POINTS} training rows. Noise: some 0.02 up to 0.3 "
         "s, more beyond."],
    )


if __name__ == "__main__":
    sys.exit(main())
