"""Tables as text, and their files: .txt to read, .csv of the table, .json of everything."""

import csv
import json
import os
import platform
import textwrap
import time
from dataclasses import dataclass, field
from importlib import metadata

import bart
from bart.storage import atomic_file

__all__ = ["DEFINITIONS", "Table", "provenance", "write_json", "write_report"]

WIDTH = 118

DEFINITIONS = {
    "ess": (
        "ESS: coda's effectiveSize of the training log-likelihood of one chain over its kept sweeps, mean"
        " of all chains and data sets (smallest-largest). Bulk and tail: rank-normalised ESS of the"
        " log-likelihood, all chains of a data set together, mean of the data sets. A stuck chain shows a"
        " high ESS: read it with R-hat and the level."
    ),
    "r_hat": (
        "R-hat: rank-normalised, split, across the chains of a data set, the worst data set shown; of the"
        " log-likelihood (lik), sigma, the number of leaves (lvs) and f at 24 test points (f, the worst"
        " point). inf: chains that stand still in different states. A row with any R-hat above 1.05 is not"
        " converged (conv.: yes, or how many data sets are)."
    ),
    "starts": (
        "Chains start from different kinds in turn: the empty tree, a draw from the prior, an over-grown"
        " tree (4 x 2^D leaves; 4 leaves a tree where there are many), an unconditional particle filter"
        " (smc); none at the truth."
    ),
    "level": (
        "level: mean log-likelihood, sum over rows of log N(y | f(x), sigma^2) in the units of y, less the"
        " reference level of the same data set, in nats; mean of all chains, and the lowest chain. The"
        " reference level is the mean over chains started at the true 2^D-leaf tree under the same prior"
        " and data."
    ),
    "changed": (
        "chg %: share of tree updates after which the structure (tree) or the root's rule (root) differs."
    ),
    "seconds": (
        "Seconds are process CPU seconds of the sweeps, without set-up, storage and prediction. Run: all"
        " sweeps of one chain, with its wall time beside it; the paper's run is its ESS / (ESS/s), on its"
        " authors' machine. ESS/s: mean over chains of ESS / CPU seconds of the kept sweeps; withheld where"
        " a row is not converged, with the number of data sets that are."
    ),
    "errors": (
        "MSE: mean squared error against noisy labels, in the units of y squared, of the current draw"
        " (draw; mean over the sweeps) and of the posterior mean of all chains together (mean). y is scaled"
        " by the training minimum and maximum inside the model only. Leaves: of all trees together, the"
        " mean a tree beside it; depth: the largest over the trees. Sigma in the units of y."
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


def provenance(settings, profile, **more):
    """Settings, machine and versions, as plain values."""
    versions = {"python": platform.python_version(), "pgbart": bart.__version__}
    for package in ("numpy", "scipy", "arviz", "matplotlib", "scikit-learn"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {
        "settings": settings.as_dict(),
        "profile": profile.as_dict(),
        "cpu": cpu_name(),
        "n_cpus": os.cpu_count(),
        "system": platform.platform(),
        "versions": versions,
        "date": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
        **more,
    }


def provenance_line(record):
    """The same in one paragraph, for the text files."""
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    return (
        f"Settings '{record['settings']['name']}', profile '{record['profile']['name']}'. "
        f"{record['cpu']}, {record['n_cpus']} CPUs; {versions}; {record['date']}."
    )


def cpu_name():
    """The processor's name as the system gives it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def write_report(folder, stem, tables, records, rows, origin):
    """Write a report to ``folder/stem.txt``, ``.csv`` and ``.json`` and return its text.

    Parameters
    ----------
    folder : str
    stem : str
    tables : list of Table
    records : list of dict
        One flat record a line of the CSV file.
    rows : list of dict
        What was measured, job by job, for the JSON file.
    origin : dict
        From `provenance`.

    Returns
    -------
    str
    """
    os.makedirs(folder, exist_ok=True)
    text = "\n\n".join([table.text() for table in tables])
    text += "\n" + "\n".join(textwrap.wrap(provenance_line(origin), WIDTH, subsequent_indent="  ")) + "\n"
    with atomic_file(os.path.join(folder, stem + ".txt"), "w") as file:
        file.write(text)
    with atomic_file(os.path.join(folder, stem + ".csv"), "w") as file:
        writer = csv.DictWriter(file, list(records[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
    write_json(os.path.join(folder, stem + ".json"), {"provenance": origin, "table": records, "jobs": rows})
    return text


def write_json(path, record):
    """Write plain values as JSON, atomically."""
    with atomic_file(path, "w") as file:
        json.dump(record, file, indent=1)
        file.write("\n")
