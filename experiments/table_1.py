"""Table 1 of the paper: effective sample size of the log-likelihood on hypercube-D, and what it hides."""

from . import hypercube
from .command import run_script
from .report import DEFINITIONS, Table, rows_with_rules, write_report
from .row_cells import HIDDEN_COLUMNS, head, hidden_cells, is_converged, level, short
from .summaries import number

__all__ = ["NAME", "make", "specs"]

NAME = "table_1"
specs = hypercube.specs

_COLUMNS = [
    ("", "data"), ("", "sampler"), ("ESS", "paper"), ("ESS", "here"), ("", "(min-max)"), ("ESS from", "empty"),
    ("ESS from", "smc"), ("level -", "reference"), ("lowest", "chain"), ("level,", "empty"), ("level,", "smc"),
    ("", "conv."),
]  # fmt: skip


def make(store, settings, profile, folder="figures"):
    """Write the table from stored chains and return its text.

    Parameters
    ----------
    store : Store
    settings : Settings
    profile : Profile
    folder : str

    Returns
    -------
    str

    Raises
    ------
    MissingChains
    """
    groups = hypercube.rows(store, settings, profile)
    texts = DEFINITIONS
    tables = [
        Table(
            "Table 1. Effective sample size of the log-likelihood on hypercube-D.",
            _COLUMNS,
            rows_with_rules(groups, _cells),
            [texts[key] for key in ("ess", "level", "starts", "converged")] + [hypercube.describe(settings, profile)],
        ),
        Table(
            "Table 1, what it hides. The same chains, all starts of a data set together.",
            HIDDEN_COLUMNS,
            rows_with_rules(groups, hidden_cells),
            [texts[key] for key in ("r_hat", "bulk", "changed")],
        ),
    ]
    records = [record for group in groups for record in group]
    return write_report(folder, NAME, tables, records, store, settings, profile)


def _cells(record):
    return [
        *head(record),
        number(record["paper_ess"]),
        number(record["ess"]),
        f"({short(record['ess_min'])}-{short(record['ess_max'])})",
        number(record["ess_empty"]),
        number(record["ess_smc"]),
        level(record["gap"]),
        level(record["gap_lowest"]),
        level(record["gap_empty"]),
        level(record["gap_smc"]),
        is_converged(record),
    ]


if __name__ == "__main__":
    run_script(NAME, specs, make, __doc__)
