"""How samplers mix on the hypercubes, one deep tree, within one CPU budget: level, leaves, R-hat, effective draws.

    python -m experiments.mixing_hypercube [--quick] [--systems growprune cgm "pg(n_particles=10)" ...]

Four chains from empty, prior, over-grown and particle-filter starts share the budget; the level and the leaves to reach
are those of chains started at the true tree. Makes the runs that are not stored and writes figures/mixing_hypercube.*,
with --ladder a file of its own for each ladder.
"""

import argparse
import os
import sys
from dataclasses import replace

import numpy as np

from bart.storage import atomic_file

from . import chains, hypercube, mixing, summaries
from .command import one_line_errors, say
from .mixing_measures import figures, together
from .mixing_runs import MissingRuns, RunSpec, RunStore, file_name, kernels_notes
from .report import Table, rows_with_rules, write_json
from .runner import run_missing
from .settings import PAPER, PROFILES
from .store import Store

__all__ = ["NAME", "main", "measure", "specs"]

NAME = "mixing_hypercube"
DIMS = (2, 3, 4, 5, 7)
DATA_SEEDS = (0, 1, 2)
BUDGETS = {"quick": (6.0, 20.0), "full": (60.0, 300.0)}
SYSTEMS = ("auto", "growprune", "cgm", "pg(n_particles=10)")
N_RECORDS = 5000
REFERENCE = replace(PROFILES["full"], name="reference", n_sweeps=20_000, n_burn=10_000)
# Kept draws are called independent where their ESS is so large a share of their number.
NEARLY_ALL = 0.7
QUANTITIES = ("log_likelihood", "n_leaves", "f")


def budget_of(dim, effort, given=None):
    """CPU seconds of all chains of a run together."""
    return given or BUDGETS[effort][dim >= 7]


def specs(dims, data_seeds, systems, effort="full", budget=None, ladder=""):
    """All runs.

    Parameters
    ----------
    dims, data_seeds : iterable of int
    systems : iterable of str
        "auto", or samplers as `bart.parse_sampler` reads them.
    effort : str
        "quick" or "full".
    budget : float, optional
        In place of those of the effort.
    ladder : str
        Of parallel tempering, for all systems.
    """
    return [
        RunSpec(f"hypercube-{dim}", seed, system, 0, budget_of(dim, effort, budget), n_records=N_RECORDS, ladder=ladder)
        for seed in data_seeds
        for dim in dims
        for system in systems
    ]


def references(folder, keys, profile=REFERENCE, sample=True):
    """`hypercube.reference` of each (dim, data seed), its chains sampled where they are not stored.

    Raises
    ------
    MissingRuns
        Chains are not stored, and none are to be sampled.
    """
    store = Store(os.path.join(folder, "reference"))
    wanted = {key: hypercube.reference_specs(PAPER, profile, *key) for key in keys}
    if sample:
        run_missing(store, [spec for part in wanted.values() for spec in part], 1)
    missing = [f"D = {dim}, data {seed}" for (dim, seed), part in wanted.items() if store.missing(part)]
    if missing:
        raise MissingRuns(
            f"no reference chains by these kernels in {store.folder} (without --tables-only they are sampled): "
            + "; ".join(missing)
        )
    return {key: hypercube.reference(store.read_all(part)) for key, part in wanted.items()}


def measure(record, reference):
    """What is measured on a run.

    Parameters
    ----------
    record : dict
        Of `RunStore.read`.
    reference : dict
        Of `hypercube.reference`, same data.

    Returns
    -------
    dict
        ``gap`` and ``gaps``, mean log-likelihood of all and of each chain less the reference level; ``leaves`` of each
        chain; ``r_hat`` and ``rate`` (bulk ESS a CPU second) of log_likelihood, n_leaves and f, where f is the worst of
        the points; with a ladder ``temperatures`` and ``swap_rates`` of each chain; what a reader needs beside.
    """
    header, parts = record["header"], record["chains"]
    about = header["chains"]
    seconds = sum(chain["cpu"] for chain in about)
    found = {name: figures(together([part[name] for part in parts])) for name in QUANTITIES[:2]}
    f = together([part["f"] for part in parts])
    points = np.array([figures(f[:, :, point]) for point in range(f.shape[2])])
    found["f"] = (points[:, 0].min(), points[:, 1].max())
    levels = np.array([part["log_likelihood"].mean() for part in parts])
    return {
        "gap": float(levels.mean() - reference["level"]),
        "gaps": (levels - reference["level"]).tolist(),
        "leaves": [float(part["n_leaves"].mean()) for part in parts],
        "reference_leaves": reference["leaves"],
        "reference_spread": float(np.ptp(reference["levels"])),
        "r_hat": {name: float(value) for name, (_, value) in found.items()},
        "rate": {name: float(value) / seconds for name, (value, _) in found.items()},
        "n_sweeps": float(np.mean([chain["n_burn"] + chain["n_sweeps"] for chain in about])),
        "n_draws": f.shape[0] * f.shape[1],
        "tree_changed": float(np.mean([chain["tree_changed"] for chain in about])),
        **{name: [chain[name] for chain in about] for name in ("temperatures", "swap_rates") if name in about[0]},
        "seconds": seconds,
        "us_per_pass": float(np.mean(header["us_per_pass"])),
        "kernels": header["kernels"],
    }


_COLUMNS = [
    ("data", ""), ("sampler", ""), ("seed", ""), ("k sweeps", "a chain"), ("level -", "reference"), ("its", "spread"),
    ("lowest", "chain"), ("highest", "chain"), ("leaves", "lowest"), ("", "mean"), ("", "highest"),
    ("leaves,", "reference"), ("R-hat", "lik"), ("R-hat", "leaves"), ("R-hat", "f"), ("ESS/s", "lik"),
    ("ESS/s", "leaves"), ("ESS/s", "f"), ("chg %", "tree"),
]  # fmt: skip


def _row(dim, system, seed, one):
    ends = [f"{end(one['gaps']):+.1f}" for end in (min, max)]
    cells = [f"{one['gap']:+.1f}", f"{one['reference_spread']:.1f}", *ends]
    leaves = [min(one["leaves"]), np.mean(one["leaves"]), max(one["leaves"]), one["reference_leaves"]]
    stuck = max(one["r_hat"].values()) > summaries.R_HAT_LIMIT
    capped = {name: one["rate"][name] * one["seconds"] > NEARLY_ALL * one["n_draws"] for name in QUANTITIES}
    rates = [">" * capped[name] + summaries.number(one["rate"][name]) for name in QUANTITIES]
    return [
        f"D = {dim}", system, f"{seed}", summaries.number(one["n_sweeps"] / 1e3), *cells,
        *(f"{value:.1f}" for value in leaves), *(f"{one['r_hat'][name]:.3f}" for name in QUANTITIES),
        *(f"({rate})" if stuck else rate for rate in rates), f"{100 * one['tree_changed']:.2f}",
    ]  # fmt: skip


def table(found, budgets):
    """The table of what is stored.

    Parameters
    ----------
    found : dict
        From (dim, `RunSpec.name`, data seed) to `measure`.
    budgets : iterable of float
        CPU seconds of the runs in it.
    """
    groups = [
        [(*key, one) for key, one in found.items() if key[0] == dim] for dim in dict.fromkeys(key[0] for key in found)
    ]
    shown = " and ".join(f"{budget:g}" for budget in sorted(set(budgets)))
    return Table(
        f"One tree on the hypercubes, {shown} CPU seconds for four chains together", _COLUMNS,
        rows_with_rules(groups, lambda entry: _row(*entry)),
        [
            "Four chains, from the empty tree, a draw of the prior, an over-grown tree (4 x 2^D leaves) and a particle "
            "filter, in turn in one process; the budget is all their CPU seconds, starts and burn-in (half) included. "
            "Level: mean log-likelihood of the kept draws less that of four chains started at the true 2^D-leaf tree "
            "(two CGM, two GrowPrune, 20 000 sweeps, the second half kept; its spread: the highest of their means less "
            "the lowest), nats; by chain. R-hat: rank-normalised, split, of log-likelihood, leaves, and f at 20 "
            "held-out points (the worst); ESS/s: pooled bulk ESS by all CPU seconds, in brackets where an R-hat "
            "exceeds 1.05. Of each chain some 5000 draws at most are kept, evenly spaced: >, where these are all but "
            "independent, so that more would have a higher ESS. Model: m = 1, the paper's beta and settings.",
            *_ladder_notes(found), *kernels_notes(one["kernels"] for one in found.values()),
        ])  # fmt: skip


def _ladder_notes(found):
    """A line a run on its temperatures and swaps; none without ladders."""
    lines = []
    for (dim, system, seed), one in found.items():
        if "swap_rates" in one:
            rungs, rates = (np.mean(one[name], axis=0) for name in ("temperatures", "swap_rates"))
            lines.append(
                f"D = {dim}, {system}, seed {seed}: temperatures {' '.join(f'{t:.2g}' for t in rungs)}; swaps "
                f"{' '.join(f'{rate:.2f}' for rate in rates)}, the lowest of a chain {np.min(one['swap_rates']):.2f}."
            )
    about = "Ladders: temperatures, and shares of accepted swaps of neighbours after the burn-in, means of the chains."
    return [about, *lines] if lines else []


def _parser():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--quick", action="store_true", help="6 CPU seconds a run, 20 at D = 7 (default: 60 and 300)")
    add("--budget", type=float, help="CPU seconds of all chains of a run together")
    add("--dims", type=int, nargs="+", default=list(DIMS))
    add("--data-seeds", type=int, nargs="+", default=list(DATA_SEEDS))
    add("--systems", nargs="+", default=list(SYSTEMS), help="samplers as strings")
    add("--ladder", default="", help='of parallel tempering, for all of them: "n_rungs=8, t_min=0.05"')
    mixing.add_folders(parser)
    return parser


def main(arguments=None):
    """Command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    effort = "quick" if options.quick else "full"
    with one_line_errors():
        mixing.check_systems(options.systems, options.ladder, peers=False)
        wanted = specs(options.dims, options.data_seeds, options.systems, effort, options.budget, options.ladder)
        store = RunStore(options.store, options.any_kernels)
        failed = [] if options.tables_only else store.run_missing(wanted, say)
        stored = [spec for spec in wanted if store.find(spec)]
        if not stored:
            raise MissingRuns(f"no run in {options.store} for these kernels, problems and budget")
        # By problem and system, as a reader compares, not in the order they were made.
        stored.sort(key=lambda spec: (_dim(spec), options.systems.index(spec.system), spec.data_seed))
        keys = dict.fromkeys((_dim(spec), spec.data_seed) for spec in stored)
        truth = references(options.store, keys, sample=not options.tables_only)
        found = {
            (_dim(spec), spec.name, spec.data_seed): measure(store.read(spec), truth[_dim(spec), spec.data_seed])
            for spec in stored
        }
        say(_write(options.out, found, [spec.budget for spec in stored], options.ladder))
    return 1 if failed else 0


def _dim(spec):
    return int(spec.problem.removeprefix("hypercube-"))


def _write(folder, found, budgets, ladder):
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{NAME}-{file_name(ladder)}" if ladder else NAME)
    text = table(found, budgets).text() + "\n"
    with atomic_file(path + ".txt", "w") as file:
        file.write(text)
    records = [{"dim": dim, "system": system, "data_seed": seed, **one} for (dim, system, seed), one in found.items()]
    write_json(path + ".json", {"provenance": chains.provenance(), "runs": records})
    return text


if __name__ == "__main__":
    sys.exit(main())
