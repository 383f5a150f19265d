"""Table 1 of the paper: effective sample size of the log-likelihood on hypercube-D, and what it hides."""

import numpy as np

from . import hypercube
from .command import run_script
from .report import DEFINITIONS, Table, rows_with_rules, write_report
from .row_cells import HIDDEN_COLUMNS, head, hidden_cells, level, short
from .summaries import number

__all__ = ["NAME", "make", "specs"]

NAME = "table_1"
specs = hypercube.specs

_COLUMNS = [
    ("", "data"), ("", "sampler"), ("ESS", "paper"), ("ESS", "mean"), ("", "median"), ("", "(min-max)"),
    ("ESS from", "empty"), ("ESS from", "smc"), ("level -", "reference"), ("from", "empty"), ("from", "prior"),
    ("from", "overgr."), ("from", "smc"), ("chains", "low"), ("low, ESS", "> 100"),
]  # fmt: skip
_REFERENCE_COLUMNS = [
    ("", "data"), ("reference level,", "all data sets"), ("largest spread", "of 4 chains"), ("sd of", "a chain"),
    ("largest R-hat", "lik"), ("largest R-hat", "lvs"), ("", "leaves"), ("true", "leaves"),
]  # fmt: skip


def make(store, settings, profile, folder="figures"):
    """Write the table from stored chains and return its text."""
    groups = hypercube.rows(store, settings, profile)
    texts = DEFINITIONS
    tables = [
        Table(
            "Table 1. Effective sample size of the log-likelihood on hypercube-D.",
            _COLUMNS,
            rows_with_rules(groups, _cells),
            [texts[key] for key in ("ess", "stuck", "level", "starts")] + [hypercube.describe(settings, profile)],
        ),
        Table(
            "Table 1, what it hides. The same chains, those from all starts of a data set together.",
            HIDDEN_COLUMNS,
            rows_with_rules(groups, hidden_cells),
            [texts[key] for key in ("r_hat", "bulk", "changed", "converged")],
        ),
        Table(
            "Table 1, the reference: four chains a data set, started at the true tree.",
            _REFERENCE_COLUMNS,
            [_reference_cells(store, settings, profile, dim) for dim in profile.dims],
            [texts["reference"]],
            n_left=1,
        ),
    ]
    records = [record for group in groups for record in group]
    chains = hypercube.chain_records(store, settings, profile)
    return write_report(folder, NAME, tables, records, store, settings, profile, chains)


def _cells(record):
    return [
        *head(record),
        number(record["paper_ess"]),
        number(record["ess"]),
        number(record["ess_median"]),
        f"({short(record['ess_min'])}-{short(record['ess_max'])})",
        number(record["ess_empty"]),
        number(record["ess_smc"]),
        level(record["gap"]),
        *(level(record[f"gap_{start}"]) for start in ("empty", "prior", "overgrown", "smc")),
        f"{record['n_low']} of {record['n_chains']}",
        str(record["n_high_and_low"]),
    ]


def _reference_cells(store, settings, profile, dim):
    found = [hypercube.measured(store, settings, profile, dim, seed)[1] for seed in profile.data_seeds]
    levels = [truth["level"] for truth in found]
    return [
        f"D = {dim}",
        f"{min(levels):.1f} to {max(levels):.1f}",
        f"{max(max(truth['levels']) - min(truth['levels']) for truth in found):.1f}",
        f"{np.mean([truth['sd'] for truth in found]):.1f}",
        *(f"{max(truth[f'r_hat_{name}'] for truth in found):.2f}" for name in ("log_likelihood", "n_leaves")),
        f"{np.mean([truth['leaves'] for truth in found]):.1f}",
        str(2**dim),
    ]


if __name__ == "__main__":
    run_script(NAME, specs, make, __doc__)
