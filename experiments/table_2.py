"""Table 2 of the paper: effective sample size per second on hypercube-D, and the cost of a sweep."""

from . import hypercube
from .command import run_script
from .report import DEFINITIONS, Table, rows_with_rules, write_report
from .row_cells import head, level, rate
from .summaries import number

__all__ = ["NAME", "make", "specs"]

NAME = "table_2"
specs = hypercube.specs

_COLUMNS = [
    ("", "data"), ("", "sampler"), ("ESS/s", "paper"), ("ESS/s", "here"), ("", "(min-max)"), ("level -", "reference"),
    ("run, s", "paper"), ("run, s", "CPU"), ("run, s", "wall"), ("paper", "/ here"), ("us a", "sweep"),
    ("from", "empty"), ("from", "smc"), ("row visits", "a sweep"),
]  # fmt: skip


def make(store, settings, profile, folder="figures"):
    """Write the table from stored chains and return its text."""
    groups = hypercube.rows(store, settings, profile)
    table = Table(
        "Table 2. Effective sample size per second on hypercube-D, the chains of table 1.",
        _COLUMNS,
        rows_with_rules(groups, _cells),
        [DEFINITIONS["seconds"], DEFINITIONS["visits"], hypercube.describe(settings, profile)],
    )
    records = [record for group in groups for record in group]
    return write_report(folder, NAME, [table], records, store, settings, profile)


def _cells(record):
    paper, here = record["paper_run_seconds"], record["run_cpu_seconds"]
    cells = [*head(record), number(record["paper_ess_per_second"]), rate(record)]
    cells.append(f"({record['ess_per_second_min']:.0f}-{record['ess_per_second_max']:.0f})")
    cells += [level(record["gap"]), number(paper), number(here, 2), number(record["run_wall_seconds"], 2)]
    cells.append(number(paper / here if paper else None, 2))
    cells += [number(1e3 * record[name], 2) for name in ("ms_per_sweep", "ms_per_sweep_empty", "ms_per_sweep_smc")]
    return [*cells, f"{record['row_visits']:.0f}"]


if __name__ == "__main__":
    run_script(NAME, specs, make, __doc__)
