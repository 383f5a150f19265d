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
# Sweeps and burn-in of the scripts' runs from the particle filter, by dimension; all others have 2000 and 1000.
_SMC_SWEEPS = {4: (400, 200), 5: (300, 150), 7: (80, 40)}

_COLUMNS = [
    ("", "data"), ("", "sampler"), ("", "start"), ("", "runs"), ("leaves,", "scripts"), ("leaves here,", "1 %-99 %"),
    ("", "inside"), ("level,", "scripts"), ("level here,", "1 %-99 %"), ("", "inside"), ("ESS,", "scripts"),
    ("ESS here,", "median (1 %-99 %)"),
]  # fmt: skip


def _cells_of(profile):
    """(dim, sampler, start) that the scripts were run with, in order; those of the profile's dimensions."""
    return [cell for cell in dict.fromkeys(run[:3] for run in RUNS) if cell[0] in profile.dims]


def _chain_specs(profile, dim, sampler, start):
    n_sweeps, n_burn = _SMC_SWEEPS[dim] if start == "smc" else (profile.n_sweeps, profile.n_burn)
    return [
        ChainSpec(f"hypercube-{dim}", seed, AUTHORS, sampler, start, 0, n_sweeps, n_burn)
        for seed in range(1, profile.authors_seeds + 1)
    ]


def specs(settings, profile):
    """All chains, under AUTHORS whatever `settings` says."""
    return [spec for cell in _cells_of(profile) for spec in _chain_specs(profile, *cell)]


def make(store, settings, profile, folder="figures"):
    """Write the table from stored chains and return its text.

    Parameters
    ----------
    store : Store
    settings : Settings
        Unused.
    profile : Profile
    folder : str

    Returns
    -------
    str

    Raises
    ------
    MissingChains
    """
    records = [_record(store.read_all(_chain_specs(profile, *cell)), *cell) for cell in _cells_of(profile)]
    groups = [[record for record in records if record["dim"] == dim] for dim in profile.dims]
    n_runs = sum(record["n_runs"] for record in records)
    outside = 2 * n_runs - sum(record[f"{name}_inside"] for record in records for name in ("leaves", "level"))
    share = 100.0 * outside / (2 * n_runs)
    notes = [
        f"Scripts: each run has data of its own (smallest-largest). Here: {profile.authors_seeds} data sets of the same"
        " law a row, one chain each; the central 98 % of the chains' means over the kept sweeps. Level: mean"
        " log-likelihood in the units of y, nats. ESS: coda's. Inside: runs of the scripts within our central 98 %.",
        f"Outside: {outside} of {2 * n_runs} values ({share:.1f} %; 2 % are expected where the laws are equal, and"
        f" {100.0 * (0.02 + 0.98 * 2.0 / (profile.authors_seeds + 1)):.1f} % with quantiles of"
        f" {profile.authors_seeds} values).",
        "Model: AUTHORS settings: gamma shape nu, thresholds at midpoints, labels without noise, the scripts'"
        " bookkeeping. From the particle filter (smc): as many sweeps as the scripts were given there.",
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
    runs = [run for run in RUNS if run[:3] == (dim, sampler, start)]
    ours = {
        "leaves": [chain.kept("n_leaves").mean() for chain in chains],
        "level": [chain.kept("log_likelihood").mean() for chain in chains],
        "ess": [diagnostics.effective_size(chain.kept("log_likelihood")) for chain in chains],
    }
    record = {"problem": f"D = {dim}", "sampler": sampler, "dim": dim, "start": start, "n_runs": len(runs)}
    for name, values in ours.items():
        low, middle, high = np.quantile(values, [(1 - CENTRAL) / 2, 0.5, (1 + CENTRAL) / 2])
        theirs = [getattr(run, name) for run in runs]
        record[f"{name}_low"], record[f"{name}_median"], record[f"{name}_high"] = map(float, (low, middle, high))
        record[f"{name}_scripts_min"], record[f"{name}_scripts_max"] = min(theirs), max(theirs)
        record[f"{name}_inside"] = sum(bool(low <= value <= high) for value in theirs)
    return record


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
