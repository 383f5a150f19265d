"""Table 5 of the paper: effective sample size per second on real data, and the cost of a sweep."""

from . import real
from .command import run_script
from .report import DEFINITIONS, Table, rows_with_rules, write_report
from .row_cells import head, rate
from .summaries import number
from .table_4 import NOT_AVAILABLE

__all__ = ["NAME", "make", "specs"]

NAME = "table_5"
specs = real.specs

_COLUMNS = [
    ("", "data"), ("", "sampler"), ("ESS/s", "paper"), ("ESS/s", "here"), ("run, s", "paper"), ("run, s", "CPU"),
    ("run, s", "wall"), ("ms a", "sweep"), ("paper", "/ here"), ("row visits", "a sweep"),
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
    groups = real.rows(store, settings, profile)
    table = Table(
        "Table 5. Effective sample size per second on real data, the chains of table 4.",
        _COLUMNS,
        rows_with_rules(groups, _cells),
        [DEFINITIONS["seconds"], DEFINITIONS["visits"], real.describe(settings, profile)],
    )
    records = [record for group in groups for record in group]
    return write_report(folder, NAME, [table], records, store, settings, profile)


def _cells(record):
    paper = record["paper_run_seconds"]
    cells = [*head(record), number(record["paper_ess_per_second"])]
    if not record["available"]:
        return [*cells, NOT_AVAILABLE, number(paper), *["-"] * 5]
    cells += [rate(record), number(paper), number(record["run_cpu_seconds"]), number(record["run_wall_seconds"])]
    cells += [number(record["ms_per_sweep"]), number(paper / record["run_cpu_seconds"] if paper else None)]
    return [*cells, f"{record['row_visits']:.0f}"]


if __name__ == "__main__":
    run_script(NAME, specs, make, __doc__)
