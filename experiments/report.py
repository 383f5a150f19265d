"""Tables as text, and their files: .txt to read, .csv of the table, .json of everything."""

import csv
import json
import math
import os
import textwrap
from dataclasses import dataclass, field

from bart.storage import atomic_file

from .chains import provenance

__all__ = ["DEFINITIONS", "Table", "origin_line", "origin_record", "rows_with_rules", "write_json", "write_report"]

WIDTH = 118

DEFINITIONS = {
    "ess": (
        "ESS: coda's effectiveSize of the training log-likelihood of one chain over its kept sweeps; mean and median of"
        " all chains and data sets (smallest-largest), and the mean of the chains from one kind of start."
    ),
    "stuck": (
        "low: chains whose mean log-likelihood is more than 3 sd (of the log-likelihood within a reference chain) below"
        " the reference level; low, ESS > 100: those of them that show an ESS above 100 all the same."
    ),
    "r_hat": (
        "R-hat: rank-normalised, split, across the chains of a data set, of the log-likelihood (lik), sigma, the number"
        " of leaves (lvs) and f at 24 test points (f, the worst point); the median of the data sets / the worst. inf:"
        " chains that stand still in different states."
    ),
    "converged": (
        "conv.: on how many data sets no R-hat (lik, sigma, lvs, f) exceeds 1.05; but for overgr.: the same without"
        " the chains that start from over-grown trees."
    ),
    "bulk": (
        "Bulk and tail ESS: rank-normalised, all chains of a data set together, the median of the data sets; of f the"
        " worst of the 24 points."
    ),
    "starts": (
        "Chains start from different kinds in turn: the empty tree, a draw from the prior, an over-grown tree (4 x 2^D"
        " leaves; 4 leaves a tree where there are many), an unconditional particle filter with 100 particles (smc);"
        " none at the truth."
    ),
    "level": (
        "Level: mean log-likelihood of the kept sweeps, sum over rows of log N(y | f(x), sigma^2) in the units of y,"
        " with the sigma drawn at the beginning of the sweep, less the reference level of the same data set, in nats;"
        " mean of all chains, and by start. The reference level is the mean of four chains started at the true"
        " 2^D-leaf tree under the same prior and data."
    ),
    "reference": (
        "A level that is reached from the truth, not the posterior's itself: where the four chains (two CGM, two"
        " GrowPrune, the lengths of the others) differ by the spread shown, gaps of that size mean nothing."
    ),
    "changed": "chg %: share of tree updates after which the structure (tree) or the root's rule (root) differs.",
    "seconds": (
        "Seconds: CPU seconds of the thread that samples, in sweeps, without set-up, files and prediction; wall"
        " seconds, set-up included, beside them. Run: all sweeps of one chain. ESS/s: mean over chains of ESS / CPU"
        " seconds of the KEPT sweeps; in brackets where a data set of the row is not converged, as the number means"
        " nothing then. The paper's run is its ESS / (ESS/s), on its authors' machine; the paper does not say whether"
        " its seconds are those of all sweeps or of the kept ones, so that paper / here, which takes them for all, is"
        " good to a factor of two."
    ),
    "visits": (
        "Row visits, a cost that no implementation changes: for every rule that is tried, the rows of its node (PG: of"
        " every particle, and of the internal nodes of the clamped tree); all trees of a sweep. Left out: the passes"
        " over all rows that every update of a tree needs whatever the sampler, for leaf values and residual."
    ),
    "errors": (
        "MSE: mean squared error against noisy labels, in the units of y squared, of the current draw (draw; mean over"
        " the kept sweeps) and of a chain's posterior mean (mean), mean of all chains. y is scaled by the training"
        " minimum and maximum inside the model only. Leaves: of all trees together; depth: the largest over the trees."
        " Sigma in the units of y."
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
        """The table; title and notes are wrapped."""
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
    """The same in one paragraph, for the text files.

    The chains are all those that the program has read by then: with `run_all`, those of earlier items too.
    """
    parts = []
    for record in origin["chains"]:
        versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
        parts.append(
            f"{record['cpu']}, {record['n_cpus']} CPUs; {versions}; commit {record['commit']}, kernels"
            f" {record['kernels'][:12]}"
        )
    head = f"Settings '{origin['settings']['name']}', profile '{origin['profile']['name']}'. Chains: "
    return head + "; and: ".join(parts) + "."


def write_report(folder, stem, tables, records, store, settings, profile, chains=None):
    """Write a report to ``folder/stem.txt``, ``.csv`` and ``.json``, and ``stem_chains.csv``, and return its text.

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
    chains : list of dict, optional
        One flat record a chain, for a file of their own.

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
    _write_csv(os.path.join(folder, stem + ".csv"), records)
    if chains:
        _write_csv(os.path.join(folder, stem + "_chains.csv"), chains)
    write_json(os.path.join(folder, stem + ".json"), {"provenance": origin, "table": records})
    return text


def _write_csv(path, records):
    """One record a line; a name that a record does not have is left empty."""
    names = list(dict.fromkeys(name for record in records for name in record))
    with atomic_file(path, "w") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)


def write_json(path, record):
    """Write plain values as JSON, atomically; numbers that JSON does not have become texts such as "inf"."""
    with atomic_file(path, "w") as file:
        json.dump(_finite(record), file, indent=1, allow_nan=False)
        file.write("\n")


def _finite(value):
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
