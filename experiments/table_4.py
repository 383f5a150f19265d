"""Table 4 of the paper: effective sample size of the log-likelihood on real data, and what it hides."""

from . import real
from .command import run_script
from .report import DEFINITIONS, Table, rows_with_rules, write_report
from .row_cells import HIDDEN_COLUMNS, head, hidden_cells, is_converged, short
from .summaries import number

__all__ = ["NAME", "make", "specs"]

NAME = "table_4"
specs = real.specs
NOT_AVAILABLE = "data not available"

_COLUMNS = [
    ("", "data"), ("", "sampler"), ("ESS", "paper"), ("ESS", "mean"), ("", "median"), ("", "(min-max)"),
    ("ESS from", "empty"), ("from", "prior"), ("from", "overgrown"), ("from", "smc"), ("", "conv."),
]  # fmt: skip


def make(store, settings, profile, folder="figures"):
    """Write the table from stored chains and return its text."""
    groups = real.rows(store, settings, profile)
    present = [group for group in groups if group[0]["available"]]
    texts = DEFINITIONS
    tables = [
        Table(
            "Table 4. Effective sample size of the log-likelihood on real data.",
            _COLUMNS,
            rows_with_rules(groups, _cells),
            [texts[key] for key in ("ess", "starts")] + [real.describe(settings, profile)],
        ),
        Table(
            "Table 4, what it hides. The same chains, all starts of a training set together.",
            HIDDEN_COLUMNS,
            rows_with_rules(present, hidden_cells),
            [texts[key] for key in ("r_hat", "bulk", "changed", "converged")],
        ),
    ]
    records = [record for group in groups for record in group]
    chains = real.chain_records(store, settings, profile)
    return write_report(folder, NAME, tables, records, store, settings, profile, chains)


def _cells(record):
    cells = [*head(record), number(record["paper_ess"])]
    if not record["available"]:
        return [*cells, "-", "-", NOT_AVAILABLE, *["-"] * 5]
    cells += [number(record["ess"]), number(record["ess_median"])]
    cells += [f"({short(record['ess_min'])}-{short(record['ess_max'])})"]
    cells += [number(record.get(f"ess_{start}")) for start in ("empty", "prior", "overgrown", "smc")]
    return [*cells, is_converged(record)]


if __name__ == "__main__":
    run_script(NAME, specs, make, __doc__)
