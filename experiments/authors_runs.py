"""Comparison with runs of the authors' scripts: leaves and level against our AUTHORS settings on data of their law."""

import numpy as np

from bart import diagnostics

from .authors_code import RUNS
from .chains import ChainSpec
from .command import run_script
from .report import Table, rows_with_rules, write_report
from .row_cells import head
from .settings import AUTHORS
from .summaries import number

__all__ = ["NAME", "make", "specs"]

NAME = "authors_runs"
CENTRAL = 0.98
_COLUMNS = [
    ("", "data"), ("", "sampler"), ("", "start"), ("", "runs"), ("leaves,", "scripts"), ("leaves here,", "1 %-99 %"),
    ("", "inside"), ("level,", "scripts"), ("level here,", "1 %-99 %"), ("", "inside"), ("ESS,", "scripts"),
    ("ESS here,", "median (1 %-99 %)"),
]  # fmt: skip


def _cells_of(profile):
    """(dim, sampler, start) that the scripts were run with, in order; those of the profile's dimensions."""
    return [cell for cell in dict.fromkeys(run[:3] for run in RUNS) if cell[0] in profile.dims]


def _chain_specs(profile, dim, sampler, start):
    """Chains as long as the longest run of the scripts; the first sweeps of a chain are a shorter chain."""
    n_sweeps = max(run.n_sweeps for run in _runs(dim, sampler, start))
    return [
        ChainSpec(f"hypercube-{dim}", seed, AUTHORS, sampler, start, 0, n_sweeps, 0)
        for seed in range(1, profile.authors_seeds + 1)
    ]


def _runs(*cell):
    return [run for run in RUNS if run[:3] == cell]


def specs(settings, profile):
    """All chains, under AUTHORS whatever `settings` says."""
    return [spec for cell in _cells_of(profile) for spec in _chain_specs(profile, *cell)]


def make(store, settings, profile, folder="figures"):
    """Write the table from stored chains and return its text."""
    records = [_record(store.read_all(_chain_specs(profile, *cell)), *cell) for cell in _cells_of(profile)]
    groups = [[record for record in records if record["dim"] == dim] for dim in profile.dims]
    n_runs = sum(record["n_runs"] for record in records)
    outside = {name: n_runs - sum(record[f"{name}_inside"] for record in records) for name in ("leaves", "level")}
    expected = 100.0 * (1.0 - CENTRAL * (1.0 - 2.0 / (profile.authors_seeds + 1)))
    notes = [
        f"Scripts: each run has data of its own (smallest-largest). Here: {profile.authors_seeds} data sets of the same"
        " law, one chain each, over the sweeps that a run of the scripts kept (where its runs differ, the range shown"
        " is that of the first): the central 98 % of the chains' means. Level: mean log-likelihood in the units of y,"
        " nats. ESS: coda's. Inside: runs of the scripts within our central 98 %.",
        f"Outside: leaves {outside['leaves']} and level {outside['level']} of {n_runs} runs; were the laws equal,"
        f" {expected:.1f} % of each would be expected, {expected * n_runs / 100.0:.1f} runs, with quantiles of"
        f" {profile.authors_seeds} values. Data sets differ more than chains, so this sees only large differences.",
        "Model: AUTHORS settings: gamma shape nu, thresholds at midpoints, labels without noise, the scripts'"
        " bookkeeping.",
    ]
    table = Table(
        "The authors' scripts beside our AUTHORS settings on hypercube-D.",
        _COLUMNS,
        rows_with_rules([group for group in groups if group], _cells),
        notes,
        n_left=3,
    )
    return write_report(folder, NAME, [table], records, store, AUTHORS, profile)


def _record(chains, dim, sampler, start):
    runs = _runs(dim, sampler, start)
    record = {"problem": f"D = {dim}", "sampler": sampler, "dim": dim, "start": start, "n_runs": len(runs)}
    for name, trace, statistic in (
        ("leaves", "n_leaves", np.mean),
        ("level", "log_likelihood", np.mean),
        ("ess", "log_likelihood", diagnostics.effective_size),
    ):
        theirs = [getattr(run, name) for run in runs]
        ranges = [_range_of(chains, trace, statistic, run) for run in runs]
        record[f"{name}_low"], record[f"{name}_median"], record[f"{name}_high"] = ranges[0]
        record[f"{name}_scripts_min"], record[f"{name}_scripts_max"] = min(theirs), max(theirs)
        inside = [low <= value <= high for value, (low, _, high) in zip(theirs, ranges, strict=True)]
        record[f"{name}_inside"] = sum(inside)
    return record


def _range_of(chains, trace, statistic, run):
    """Ends and median of the central part of our chains' values, over the sweeps that a run kept."""
    values = [statistic(chain.traces[trace][run.n_burn : run.n_sweeps]) for chain in chains]
    return tuple(float(value) for value in np.quantile(values, [(1 - CENTRAL) / 2, 0.5, (1 + CENTRAL) / 2]))


def _cells(record):
    cells = [*head(record), record["start"], str(record["n_runs"])]
    for name in ("leaves", "level"):
        cells.append(_range(record[f"{name}_scripts_min"], record[f"{name}_scripts_max"]))
        cells.append(_range(record[f"{name}_low"], record[f"{name}_high"]))
        cells.append(f"{record[f'{name}_inside']} of {record['n_runs']}")
    cells.append(_range(record["ess_scripts_min"], record["ess_scripts_max"]))
    return [*cells, f"{number(record['ess_median'])} ({_range(record['ess_low'], record['ess_high'])})"]


def _range(low, high):
    return f"{number(low)}..{number(high)}" if low != high else number(low)


if __name__ == "__main__":
    run_script(NAME, specs, make, __doc__)
