"""Tables as text, and their files: .txt to read, .csv of the table, .json of everything."""

import csv
import json
import os
import textwrap
from dataclasses import dataclass, field

from bart.storage import atomic_file

from .chains import provenance

__all__ = ["DEFINITIONS", "Table", "origin_line", "origin_record", "rows_with_rules", "write_json", "write_report"]

WIDTH = 118

DEFINITIONS = {
    "ess": (
        "ESS: coda's effectiveSize of the training log-likelihood of one chain over its kept sweeps; mean of all"
        " chains and data sets (smallest-largest), and the means of the chains that start empty and from the particle"
        " filter (smc). A stuck chain shows a high ESS: read it with the level, and with R-hat."
    ),
    "r_hat": (
        "R-hat: rank-normalised, split, across the chains of a data set, of the log-likelihood (lik), sigma, the"
        " number of leaves (lvs) and f at 24 test points (f, the worst point); the worst data set, and the median of"
        " the data sets. inf: chains that stand still in different states."
    ),
    "converged": (
        "conv.: yes where no R-hat of any data set (lik, sigma, lvs, f) exceeds 1.05, else how many data sets are"
        " converged."
    ),
    "bulk": (
        "Bulk ESS: rank-normalised, all chains of a data set together, mean of the data sets; of f the median of the"
        " 24 points."
    ),
    "starts": (
        "Chains start from different kinds in turn: the empty tree, a draw from the prior, an over-grown tree"
        " (4 x 2^D leaves; 4 leaves a tree where there are many), an unconditional particle filter with 100 particles"
        " (smc); none at the truth."
    ),
    "level": (
        "Level: mean log-likelihood of the kept sweeps, sum over rows of log N(y | f(x), sigma^2) in the units of y,"
        " less the reference level of the same data set, in nats; mean of all chains, the lowest chain, and the means"
        " by start. The reference level is the mean of four chains started at the true 2^D-leaf tree under the same"
        " prior and data."
    ),
    "changed": (
        "chg %: share of tree updates after which the structure (tree) or the root's rule (root) differs."
    ),
    "seconds": (
        "Seconds are process CPU seconds of the sweeps, without set-up, storage and prediction. Run: all sweeps of"
        " one chain, with its wall time beside it; the paper's run is its ESS / (ESS/s), on its authors' machine."
        " ESS/s: mean over chains of ESS / CPU seconds of the kept sweeps; withheld where a row is not converged,"
        " with the number of data sets that are."
    ),
    "visits": (
        "Row visits, a cost that no implementation changes: for every rule that is tried, the rows of its node (PG:"
        " of every particle, and of the internal nodes of the clamped tree); all trees of a sweep."
    ),
    "errors": (
        "MSE: mean squared error against noisy labels, in the units of y squared, of the current draw (draw; mean"
        " over the kept sweeps) and of the posterior mean of all chains of a data set together (mean). y is scaled by"
        " the training minimum and maximum inside the model only. Leaves: of all trees together; depth: the largest"
        " over the trees. Sigma in the units of y."
    ),
}


@dataclass
class Table:
    """A table of text cells.

    Attributes
    ----------
    title : str
    columns : list of (str, str)
        Two lines of header for each column.
    rows : list of list of str
        None in place of a row draws a rule.
    notes : list of str
        Paragraphs under the table.
    n_left : int
        So many leading columns are aligned to the left, the others to the right.
    """

    title: str
    columns: list
    rows: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    n_left: int = 2

    def text(self):
        """The table with title and notes, at most 120 columns wide."""
        lines = [[first for first, _ in self.columns], [second for _, second in self.columns]]
        cells = lines + [row for row in self.rows if row is not None]
        widths = [max(len(row[place]) for row in cells) for place in range(len(self.columns))]
        rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
        out = [*textwrap.wrap(self.title, WIDTH), rule, *(self._line(line, widths) for line in lines), rule]
        out += [rule if row is None else self._line(row, widths) for row in self.rows]
        out.append(rule)
        for note in self.notes:
            out += textwrap.wrap(note, WIDTH, subsequent_indent="  ")
        return "\n".join(out)

    def _line(self, row, widths):
        cells = [
            cell.ljust(width) if place < self.n_left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()


def rows_with_rules(groups, cells):
    """Cells of all records, with a rule between groups."""
    rows = []
    for group in groups:
        if rows:
            rows.append(None)
        rows += [cells(record) for record in group]
    return rows


def origin_record(store, settings, profile):
    """Settings, profile, and where the chains come from, as plain values."""
    return {
        "settings": settings.as_dict(),
        "profile": profile.as_dict(),
        "chains": list(store.origins.values()) or [provenance()],
    }


def origin_line(origin):
    """The same in one paragraph, for the text files."""
    parts = []
    for record in origin["chains"]:
        versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
        parts.append(
            f"{record['cpu']}, {record['n_cpus']} CPUs; {versions}; commit {record['commit']}, kernels"
            f" {record['kernels'][:12]}"
        )
    head = f"Settings '{origin['settings']['name']}', profile '{origin['profile']['name']}'. Chains: "
    return head + "; and: ".join(parts) + "."


def write_report(folder, stem, tables, records, store, settings, profile):
    """Write a report to ``folder/stem.txt``, ``.csv`` and ``.json`` and return its text.

    Parameters
    ----------
    folder : str
    stem : str
    tables : list of Table
    records : list of dict
        One flat record a line of the CSV file.
    store : Store
        From which the chains were read.
    settings : Settings
    profile : Profile

    Returns
    -------
    str
    """
    os.makedirs(folder, exist_ok=True)
    origin = origin_record(store, settings, profile)
    text = "\n\n".join([table.text() for table in tables])
    text += "\n" + "\n".join(textwrap.wrap(origin_line(origin), WIDTH, subsequent_indent="  ")) + "\n"
    with atomic_file(os.path.join(folder, stem + ".txt"), "w") as file:
        file.write(text)
    names = list(dict.fromkeys(name for record in records for name in record))
    with atomic_file(os.path.join(folder, stem + ".csv"), "w") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
    write_json(os.path.join(folder, stem + ".json"), {"provenance": origin, "table": records})
    return text


def write_json(path, record):
    """Write plain values as JSON, atomically."""
    with atomic_file(path, "w") as file:
        json.dump(record, file, indent=1)
        file.write("\n")
