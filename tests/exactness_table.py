"""Table of the largest |z| of every sampler on every tiny problem whose exact laws are known.

    python tests/exactness_table.py [--steps 1e6] [--workers 2] [--samplers local "PG C=2"]

Exits with 1 if any is 4.5 or more.
"""

import argparse
import os
import sys
import textwrap
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np

# Last, so that an installed package or another build on the path comes first.
sys.path.append(str(Path(__file__).resolve().parent.parent))

from chain_laws import N_BATCHES, z_scores  # noqa: E402
from exact_runs import BURN_SHARE, CASES, SAMPLERS, exact_means, step_traces  # noqa: E402

BOUND = 4.5
SEED = 20150509

DEFINITIONS = f"""\
Each cell: the largest |z| over the probabilities of each number of leaves, the probabilities of each decision
  at the root (leaf, or dimension and gap), and the posterior mean of f at each row; z = (chain's mean - exact)
  / standard error.
Exact values: tests/golden/tiny_posteriors.json, enumerated by an independent program.
Chain: one tree, fixed noise variance; a step is one update of the structure and a draw of the leaf values, so a
  sweep at m = 1. It starts at the stump; {BURN_SHARE:.0%} more steps than are counted come first.
Standard error: the larger of sd / sqrt(ESS) with coda's ESS, and that of {N_BATCHES} batch means; sd of an event is
  at least its exact sqrt(p (1 - p)). Where few particles stay long in a rare state, the ESS alone is too large.
us/step: CPU time of a step with its leaf values, mean over the problems, on this machine.
PG: particle Gibbs with C particles; multinomial resampling after every stage unless said otherwise; "below .5":
  only when the ESS of the weights is below half of C; never: no resampling; forced: the Metropolised final
  index. CGM with numbers: its probabilities of grow, prune, change, swap. optimal: one-step-optimal proposals, over a
  subset of the columns and with a share from the prior where it says so; subtree: the subtree at a random slot;
  local: the rejection-free local move at one of its candidates; local slot: at a random slot; auto: what a choice of
  "auto" does to a tree within a sweep."""


def largest_z(job):
    """(largest |z|, its quantity, number of quantities, CPU seconds of the chain) of a sampler on a problem."""
    sampler, case, n_steps, seed = job
    began = time.process_time()
    traces = step_traces(CASES[case], SAMPLERS[sampler], n_steps, np.random.default_rng(seed))
    seconds = time.process_time() - began
    scores = z_scores(traces, exact_means(CASES[case]))
    worst = max(scores, key=lambda name: abs(scores[name]))
    return abs(scores[worst]), worst, len(scores), seconds


def format_table(found, n_steps, microseconds):
    """The table, rows by sampler and columns by problem, as text."""
    width = max(len(name) for name in microseconds)
    numbers = [f"({k})" for k in range(1, len(CASES) + 1)]
    lines = [" ".join([" " * width, *(f"{n:>5}" for n in numbers), "  worst", " us/step"])]
    for sampler in microseconds:
        row = [found[sampler, case][0] for case in CASES]
        lines.append(" ".join([sampler.ljust(width), *(f"{z:5.2f}" for z in row), f"{max(row):7.2f}",
                               f"{microseconds[sampler]:8.2f}"]))
    worst = max(found, key=lambda key: found[key][0])
    total = sum(entry[2] for entry in found.values())
    problems = ", ".join(f"{n} {name}" for n, name in zip(numbers, CASES, strict=True))
    lines += ["", textwrap.fill(f"Problems: {problems}", 110, subsequent_indent="  "),
              f"{n_steps:,} steps each; {total} values of z; largest {found[worst][0]:.2f}: "
              f"{found[worst][1]}, {worst[0]} on {worst[1]}", "", DEFINITIONS]
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=float, default=1e6, help="of each chain (default: 1e6)")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--samplers", nargs="+", choices=list(SAMPLERS), default=list(SAMPLERS), metavar="NAME",
                        help="rows of the table (default: all)")
    options = parser.parse_args(arguments)
    n_steps = int(options.steps)
    if n_steps < 1000:
        parser.error("--steps must be at least 1000")
    numbers = {key: k for k, key in enumerate(product(SAMPLERS, CASES))}
    keys = list(product(options.samplers, CASES))
    jobs = [(*key, n_steps, [options.seed, numbers[key]]) for key in keys]
    with ProcessPoolExecutor(options.workers) as executor:
        found = dict(zip(keys, executor.map(largest_z, jobs), strict=True))
    seconds = {s: sum(found[s, case][3] for case in CASES) for s in options.samplers}
    microseconds = {s: 1e6 * t / (n_steps * (1 + BURN_SHARE) * len(CASES)) for s, t in seconds.items()}
    print(format_table(found, n_steps, microseconds))
    return 1 if any(not entry[0] < BOUND for entry in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
