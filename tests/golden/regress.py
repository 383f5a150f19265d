"""Compare the samplers with the stored record of what they did, or store it anew.

    python -m tests.golden.regress                 compare: exit code 1 if a row moved
    python -m tests.golden.regress --write         after a change that is meant to move rows
    python -m tests.golden.regress --add-machine   hashes of a new kind of machine; values stay as they are

A row moves in its bits (on a kind of machine with stored hashes: the traces of its first three stored seeds are no
longer the same) or in its law: 50 new seeds against the 50 stored ones by the two-sample Kolmogorov-Smirnov test have
p < 1e-4 in a quantity, and 500 further seeds have it again in the same quantity. By simulation of continuous laws
both happen by chance with probability 7e-6 in one quantity, so in one of the four quantities of the 39 rows with
probability 1.1e-3; less where a quantity counts in few steps, as in the short rows.
"""

import argparse
import sys
import time
from dataclasses import dataclass

import numpy as np
from scipy.stats import ks_2samp

from .rows import N_HASHED, N_SEEDS, QUANTITIES, ROWS, measure
from .store import FOLDER, GoldenError, load_hashes, load_values, machine_key, save_hashes, save_values

__all__ = ["Comparison", "compare_law", "compare_row", "main", "report"]

LEVEL = 1e-4
REPLICAS = 10
SAME, DIFFERS, UNKNOWN = "same", "differ", "unknown"
HEADS = {"ess": "ESS", "log_likelihood": "log-likelihood", "n_leaves": "leaves", "tree_changed": "trees changed"}


@dataclass(frozen=True)
class Comparison:
    """One row against its record.

    Attributes
    ----------
    name : str
    bits : str
        "same", "differ", or "unknown": no hash of this row is stored for this kind of machine.
    p_values : dict of float
        By quantity, of `n_new` new seeds against the stored ones.
    medians : dict of (float, float)
        By quantity, the stored and the new median.
    n_new : int
    moved : tuple of str
        Quantities whose p-value was below 1e-4 twice, or once where no second draw was asked for.
    """

    name: str
    bits: str
    p_values: dict
    medians: dict
    n_new: int
    moved: tuple

    @property
    def is_same(self):
        """Neither bits nor law moved."""
        return self.bits != DIFFERS and not self.moved


def bits_of(name, digest, hashes):
    """Whether a digest is the stored one: "same", "differ" or "unknown"."""
    stored = hashes.get(machine_key(), {}).get(name)
    return UNKNOWN if stored is None else SAME if stored == digest else DIFFERS


def compare_law(row, stored, draw, confirm=True, bits=UNKNOWN):
    """New seeds of a row against its stored values.

    Parameters
    ----------
    row : Row
    stored : dict of ndarray
        By quantity.
    draw : int
        Number of the new draw, not 0.
    confirm : bool
        Count a p-value below 1e-4 only if 500 further seeds give one too.
    bits : str
        Passed on.

    Returns
    -------
    Comparison
    """
    if draw == 0:
        raise ValueError("draw 0 holds the stored seeds")
    new, n_new = measure(row, draw)[0], N_SEEDS
    p_values = _p_values(stored, new)
    moved = [name for name in QUANTITIES if p_values[name] < LEVEL]
    if moved and confirm:
        n_new = REPLICAS * N_SEEDS
        new = measure(row, draw, range(N_SEEDS, N_SEEDS + n_new))[0]
        p_values = _p_values(stored, new)
        moved = [name for name in moved if p_values[name] < LEVEL]
    medians = {name: (float(np.median(stored[name])), float(np.median(new[name]))) for name in QUANTITIES}
    return Comparison(row.name, bits, p_values, medians, n_new, tuple(moved))


def _p_values(stored, new):
    return {name: float(ks_2samp(stored[name], new[name]).pvalue) for name in QUANTITIES}


def compare_row(row, values, hashes, draw):
    """Bits and law of a row against the record."""
    digest = measure(row, numbers=range(N_HASHED))[1]
    return compare_law(row, values[row.name], draw, bits=bits_of(row.name, digest, hashes))


def _ratio(name, medians):
    """New median over the stored one; their difference for the log-likelihood, whose zero means nothing."""
    old, new = medians
    if name == "log_likelihood":
        return f"{new - old:+.3g}"
    return f"{new / old:.3f}" if old else "-" if new else "1.000"


def header():
    """The two lines above the table."""
    top = f"{'':31}{'':9}" + "".join(f"{HEADS[name]:>18}" for name in QUANTITIES)
    kinds = ["p  new-old" if name == "log_likelihood" else "p    ratio" for name in QUANTITIES]
    return f"{top}\n{'row':31}{'bits':9}" + "".join(f"{kind:>18}" for kind in kinds)


def line(found):
    """A row of the table: p-value, and ratio of the new median to the stored one, of each quantity."""
    cells = ""
    for name in QUANTITIES:
        cells += f"{found.p_values[name]:>9.1e}{_ratio(name, found.medians[name]):>9}"
    return f"{found.name:31}{found.bits:9}{cells}" + ("" if found.is_same else "  MOVED")


def report(found):
    """What moved, a line each.

    Parameters
    ----------
    found : list of Comparison

    Returns
    -------
    str
    """
    lines = []
    for row in found:
        if row.bits == DIFFERS:
            lines.append(f"moved: {row.name}: the traces of the stored seeds are no longer the same to the bit")
        for name in row.moved:
            old, new = row.medians[name]
            kind = "difference" if name == "log_likelihood" else "ratio"
            lines.append(
                f"moved: {row.name}: {HEADS[name]}: median {old:.5g} -> {new:.5g}, {kind} "
                f"{_ratio(name, row.medians[name])}, p = {row.p_values[name]:.1e} with {row.n_new} new seeds"
            )
    n_moved = sum(not row.is_same for row in found)
    unknown = sum(row.bits == UNKNOWN for row in found)
    if unknown:
        lines.append(f"{unknown} rows have no hash for this kind of machine: compared in law alone (--add-machine)")
    lines.append(f"{n_moved} of {len(found)} rows moved" if n_moved else f"none of {len(found)} rows moved")
    if n_moved:
        lines.append("If that was meant: make golden, and say in the commit why.")
    return "\n".join(lines)


def compare(draw, names=None, folder=FOLDER):
    """Print the table; the comparisons of the rows."""
    values, hashes = load_values(folder), load_hashes(folder)
    print(f"{machine_key()}\n\n{header()}", flush=True)
    found = []
    for name in names or ROWS:
        found.append(compare_row(ROWS[name], values, hashes, draw))
        print(line(found[-1]), flush=True)
    print("\n" + report(found))
    return found


def write(folder=FOLDER):
    """Compute and store the values and this machine's hashes, and print what changed."""
    old_values, machines = {}, {}
    try:
        machines = load_hashes(folder)
        old_values = load_values(folder, all_rows=False)
    except GoldenError as error:
        print(f"no former record to compare with: {error}")
    values, hashes = {}, {}
    for name, row in ROWS.items():
        values[name], hashes[name] = measure(row)
        print(f"{name:31}" + _change(old_values.get(name), values[name]), flush=True)
    for text in update_machines(machines, hashes):
        print(text)
    save_values(values, folder)
    save_hashes(machines, folder)
    print(f"stored in {folder}")


def _change(old, new):
    if old is None:
        return "new"
    if all(np.allclose(old[name], new[name], rtol=1e-6, atol=0) for name in QUANTITIES):
        return "as before"
    ratios = [f"{HEADS[name]} {_ratio(name, (np.median(old[name]), np.median(new[name])))}" for name in QUANTITIES]
    return "median new / old: " + ", ".join(ratios).replace("log-likelihood", "log-likelihood (difference)")


def update_machines(machines, hashes):
    """Put the hashes of this kind of machine into those of all, and drop others' that cannot hold any longer.

    Where a row's traces changed here, they changed everywhere: other machines' hashes of that row are dropped, and
    those machines compare it in law until theirs are added.

    Returns
    -------
    list of str
        What was done.
    """
    key = machine_key()
    former = machines.get(key)
    machines[key] = dict(hashes)
    if former is None:
        others = "; those of other machines stay, and no longer hold if the draws changed" if len(machines) > 1 else ""
        return [f"first hashes for: {key}{others}"]
    changed = [name for name in hashes if former.get(name, hashes[name]) != hashes[name]]
    said = [f"traces changed: {name}" for name in changed]
    for other, rows in machines.items():
        stale = [name for name in changed if other != key and rows.pop(name, None)]
        if stale:
            said.append(f"dropped {len(stale)} hashes of: {other}")
    for other in [other for other, rows in machines.items() if not rows]:
        del machines[other]
    return said


def add_machine(draw, folder=FOLDER):
    """Store the hashes of a new kind of machine, if no row moved; True if so."""
    if not all(found.is_same for found in compare(draw, folder=folder)):
        print("nothing stored")
        return False
    machines = load_hashes(folder)
    hashes = {name: measure(row, numbers=range(N_HASHED))[1] for name, row in ROWS.items()}
    print("\n".join(update_machines(machines, hashes)))
    save_hashes(machines, folder)
    return True


def main(arguments=None):
    """The command; its exit code: 0, 1 if a row moved, 2 if the record cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden.regress", description=__doc__.split("\n")[0])
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--compare", action="store_true", help="compare with the record (the default)")
    mode.add_argument("--write", action="store_true", help="store the record anew")
    mode.add_argument("--add-machine", action="store_true", help="store the hashes of this kind of machine alone")
    parser.add_argument("--draw", type=int, default=1, help="number of the draw of new seeds, from 1")
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), metavar="ROW", help="compare these rows alone")
    options = parser.parse_args(arguments)
    if options.draw < 1:
        parser.error("--draw must be 1 or more")
    if options.rows and (options.write or options.add_machine):
        parser.error("--rows is for comparing alone")
    began = time.perf_counter()
    try:
        if options.write:
            write()
            code = 0
        elif options.add_machine:
            code = 0 if add_machine(options.draw) else 1
        else:
            code = 0 if all(found.is_same for found in compare(options.draw, options.rows)) else 1
    except GoldenError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{time.perf_counter() - began:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
