"""Times of every loop over rows, for each code type and each build the processor runs, beside a streaming pass.

    python -m benchmarks.kernels [--quick] [--rows 2000 100000 1000000] [--out FOLDER]

Prints a table for each number of rows and writes them to FOLDER/kernels.json (benchmarks/results by default; with
--quick, nothing unless --out is given).
"""

import argparse
import os
import sys
from dataclasses import dataclass

import numpy as np
from bart.kernels.rowops import TARGET, TARGETS
from bart.kernels.testing_rows import RowLoops

import bart
from experiments.report import Table

from . import measure

ROWS = (2000, 100_000, 1_000_000)
QUICK_ROWS = (2000,)
TYPES = (np.uint8, np.uint16, np.uint32)
FEW_LEAVES, MANY_LEAVES = (1, 2, 3, 4, 8), 64
N_SETS = 9          # proposals of ten particles, one of them clamped
N_DIMS, N_BINS = 10, 64     # of the histograms; that many bins is the default
N_PIVOTS, LANES = 64, 8     # entries of a row that `eliminate` multiplies, and those that it changes


@dataclass
class Case:
    """One loop on given arrays.

    Attributes
    ----------
    loop, what : str
        A method of RowLoops, and what it is called on.
    bits : int
        Of the codes, or of the leaf numbers where no codes are read; 0 where neither is.
    visited : int
        Rows that the loop reads; of a histogram rows times columns, of weights of cuts cells, of `eliminate` terms.
    args : tuple
    """

    loop: str
    what: str
    bits: int
    visited: int
    args: tuple

    def run(self, loops):
        getattr(loops, self.loop)(*self.args)


class Rows:
    """Random rows in random order: a target, leaf numbers, codes uniform over the whole of a type.

    Attributes
    ----------
    n : int
    r : (n,) float64
    columns : (4, n) codes
    bits : int
    """

    def __init__(self, n, code_type):
        self._rng = measure.generator(n, np.dtype(code_type).itemsize)
        self._top = np.iinfo(code_type).max
        self.n, self.bits = n, 8 * np.dtype(code_type).itemsize
        self.r = self._rng.standard_normal(n)
        self.columns = self._rng.integers(0, self._top, size=(4, n), dtype=code_type, endpoint=True)

    def cut(self, share):
        """The cut that has this share of a column's codes at or below it."""
        return int(share * (self._top + 1)) - 1

    def where(self, n_where):
        """Predicates that a row satisfies with probability 1/2 each, on a column each."""
        return [(column, ("<=", ">")[k % 2], self.cut(0.5)) for k, column in enumerate(self.columns[:n_where])]

    def labels(self, n_leaves, label_type=np.uint8):
        return self._rng.integers(0, n_leaves, size=self.n).astype(label_type)

    def values(self, n_leaves):
        return self._rng.standard_normal(n_leaves)

    def rows(self, share):
        """An ascending list of a random share of the rows, at least one."""
        chosen = np.flatnonzero(self._rng.random(self.n) < share)
        return (chosen if len(chosen) else np.zeros(1)).astype(np.uint32)

    def bins(self, n_bins):
        return self._rng.integers(0, n_bins, size=(self.n, N_DIMS), dtype=np.uint8)


def all_cases(n_rows):
    """Every case, each loop's together: a loop once for each type it is compiled for, where that matters."""
    found = []
    for code_type in TYPES:
        rows = Rows(n_rows, code_type)
        for make in (mask_cases, code_cases, few_leaf_cases, leaf_cases, list_cases):
            found += [Case(loop, what, rows.bits, visited, args) for loop, what, visited, args in make(rows, code_type)]
    for make in (plain_cases, histogram_cases, cell_cases):
        found += [Case(*case) for case in make(rows)]
    loops = list(dict.fromkeys(case.loop for case in found))
    kinds = list(dict.fromkeys((case.loop, case.what) for case in found))
    return sorted(found, key=lambda case: (loops.index(case.loop), kinds.index((case.loop, case.what))))


def counted(n, noun, plural):
    return f"{n} {noun if n == 1 else plural}"


def mask_cases(rows, label_type):
    """Sums over the rows that satisfy predicates."""
    for n_where in (1, 2, 3, 4):
        yield "masked_sum", counted(n_where, "predicate", "predicates"), rows.n, (rows.where(n_where), rows.r)
    for n_where in (1, 2):
        where = [*rows.where(n_where), (rows.labels(4), "==", 1)]
        yield "masked_sum", f"{counted(n_where, 'predicate', 'predicates')}, leaf number", rows.n, (where, rows.r)
    yield "masked_sum", "leaf number", rows.n, ([(rows.labels(4, label_type), "==", 1)], rows.r)
    sets = [(rows.columns[k % 4], "<=", rows.cut((k + 1) / (N_SETS + 1))) for k in range(N_SETS)]
    yield "masked_sums", f"{N_SETS} sets", rows.n, (sets, rows.r)


def code_cases(rows, _):
    """The other loops that read codes of all rows. In-place ones leave the labels as they are, to be run again."""
    labels = rows.labels(4)
    leaf = (labels, "==", 1)
    yield "relabel", "1 predicate, leaf number", rows.n, (labels, 1, [*rows.where(1), leaf])
    for share in (2, 16, 256):
        where = [(rows.columns[0], "<=", rows.cut(1 / share))]
        yield "select", f"1/{share} of the rows", rows.n, (where, rows.n)
    yield "masked_range", "1 predicate", rows.n, (rows.columns[1], rows.where(1))
    yield "masked_range", "1 predicate, leaf number", rows.n, (rows.columns[1], [*rows.where(1), leaf])
    constant = np.zeros((1, rows.n), rows.columns.dtype)
    yield "differ", "no difference", rows.n, (constant, np.zeros(1, np.int32), rows.where(1))


def few_leaf_cases(rows, label_type):
    """Loops by leaf number with few leaves, whose numbers are a byte in every tree."""
    if label_type == np.uint8:
        for n_leaves in FEW_LEAVES:
            for loop, args in by_leaf(rows, n_leaves, label_type):
                yield loop, counted(n_leaves, "leaf", "leaves"), rows.n, args


def leaf_cases(rows, label_type):
    """Loops by leaf number: rules on codes of the type, with leaf numbers of a byte; or leaf numbers of the type."""
    for loop, args in by_leaf(rows, MANY_LEAVES, label_type):
        yield loop, f"{MANY_LEAVES} leaves", rows.n, args
    for n_leaves in (*FEW_LEAVES, MANY_LEAVES):
        rule = (rows.columns[0], "<=", rows.cut(0.5))
        yield ("leaf_sums", f"{counted(n_leaves, 'leaf', 'leaves')}, rule", rows.n,
               (rows.labels(n_leaves), n_leaves, rows.r, n_leaves - 1, rule))


def by_leaf(rows, n_leaves, label_type):
    labels, values = rows.labels(n_leaves, label_type), rows.values(n_leaves)
    return [("leaf_sums", (labels, n_leaves, rows.r)), ("leaf_sums_and_add", (rows.r, values, labels)),
            ("add_leaf_values", (rows.r, values, labels))]


def list_cases(rows, label_type):
    """Loops over a list of rows."""
    for share in (4, 64):
        chosen, what = rows.rows(1 / share), f"list of 1/{share}"
        yield "list_range", what, len(chosen), (rows.columns[0], chosen)
        yield "partition", what, len(chosen), (chosen, rows.where(1)[0], rows.r)
        yield "label_list", what, len(chosen), (rows.labels(8, label_type), 1, chosen)


def plain_cases(rows):
    """Loops over doubles, and over sets of rows as bits."""
    other = rows.values(rows.n)
    for loop in ("sum_squares", "largest"):
        yield loop, "", 0, rows.n, (rows.r,)
    for loop in ("sum_products", "multiply"):
        yield loop, "", 0, rows.n, (rows.r, other)
    yield "leaf_bits", "leaf number", 8, rows.n, ((rows.labels(4), "==", 1), rows.n)
    bits = rows.values((rows.n + 63) // 64).view(np.uint64)
    yield "count_common", "64 rows a word", 0, 64 * len(bits), (bits, bits[::-1].copy())
    n = max(rows.n // 64, 1)
    yield ("eliminate", f"{N_PIVOTS} by {LANES}", 0, n * N_PIVOTS * LANES,
           (rows.values(n * (N_PIVOTS + LANES)).reshape(n, -1), rows.values(N_PIVOTS * LANES).reshape(-1, LANES)))


def packing(rows):
    """(scale, most, shift) of the integers that stand for the target, as `begin_looks` chooses them."""
    bits = rows.n.bit_length()
    most = 2.0 ** min(61 - 2 * bits, 40)
    return most / np.abs(rows.r).max(), most, 62 - bits


def histogram_cases(rows):
    """Histograms of the target over bins that rows fill evenly."""
    dims = np.arange(N_DIMS, dtype=np.int32)
    for n_dims, n_bins, share in ((10, N_BINS, 1), (10, N_BINS, 2), (10, N_BINS, 16), (10, 256, 1), (3, N_BINS, 1),
                                  (1, N_BINS, 1), (1, N_BINS, 2)):
        chosen = None if share == 1 else rows.rows(1 / share)
        what = counted(n_dims, "column", "columns") + (f", {n_bins} bins" if n_bins != N_BINS else "")
        yield ("histogram", what + ("" if share == 1 else f", list of 1/{share}"), 8,
               n_dims * (rows.n if chosen is None else len(chosen)),
               (rows.bins(n_bins), n_bins, dims[-n_dims:].copy(), rows.r, *packing(rows), chosen))


def cell_cases(rows):
    """Weights of all cuts of a column, from its histogram."""
    scale, most, shift = packing(rows)
    n_cells = N_BINS - 1
    mass = np.full(n_cells, 1 / n_cells)
    sums, of_weights = (RowLoops(TARGET).histogram(rows.bins(N_BINS), N_BINS, np.arange(8, dtype=np.int32), r,
                                                   scale, most, shift) for r in (rows.r, np.ones(rows.n)))
    total, total_weight = (int(packed[0].sum()) - (rows.n << shift) for packed in (sums, of_weights))
    leaf = (1.0, 0.005, 0.0)                                # sigma2, leaf_var, leaf_mean
    for what, weights in ("", ()), (", rows with weights", (of_weights[0], total_weight, scale)):
        yield ("cut_weights", f"{n_cells} cells{what}", 0, n_cells,
               (sums[0], 0, mass, rows.n, total, scale, shift, *leaf, *weights))
    for n_leaves in (2, 8):
        leaves = [(sums[k], rows.n, int(sums[k].sum()) - (rows.n << shift), bool(k % 2)) for k in range(n_leaves)]
        yield ("leaf_cut_weights", f"{n_cells} cells, {n_leaves} leaves", 0, n_cells,
               (leaves, 0, mass, scale, shift, *leaf))


def time_case(case, builds, unit, n_rows, repeats, seconds):
    """A record for each build: all builds and the pass are measured in turn, `repeats` times, `seconds` each."""
    for loops in builds.values():
        measure.repeat_for(loops, lambda loops=loops: case.run(loops), seconds)
    taken = {name: [] for name in builds}
    passes = []
    for _ in range(repeats):
        passes.append(unit.seconds() / n_rows)
        for name, loops in builds.items():
            case.run(loops)
            taken[name].append(loops.seconds / (loops.repeats * case.visited))
    return [{"loop": case.loop, "what": case.what, "bits": case.bits, "build": name, "n_rows": n_rows,
             "visited": case.visited, "ns_per_row": measure.middle(1e9 * np.array(taken[name])),
             "pass_ns_per_row": measure.middle(1e9 * np.array(passes)),
             "passes": measure.middle(np.divide(taken[name], passes))} for name in builds]


def kernel_records(n_rows, quick):
    builds = {name: RowLoops(name) for name in TARGETS}
    repeats, seconds = (3, 0.0003) if quick else (15, 0.003)
    rng = measure.generator(n_rows)
    unit = measure.Pass(bart.RankCodes(rng.random((n_rows, 1))), rng.standard_normal(n_rows), seconds)
    return [record for case in all_cases(n_rows)
            for record in time_case(case, builds, unit, n_rows, repeats, seconds)]


def kernel_table(records):
    """The table of one number of rows."""
    builds = list(dict.fromkeys(r["build"] for r in records))
    cells = {}
    for r in records:
        key = (r["loop"], r["what"].replace("1 predicate", "1 predicate").replace("1 leaves", "1 leaf"), r["bits"])
        cells.setdefault(key, []).extend([f"{r['ns_per_row']['median']:.2f}", f"{r['ns_per_row']['min']:.2f}",
                                          f"{r['passes']['median']:.1f}"])
    rows = []
    for (loop, what, bits), line in cells.items():
        if rows and rows[-1][0] != loop:
            rows.append(None)
        rows.append([loop, what, str(bits or "-"), *line])
    first, unit = records[0], np.median([r["pass_ns_per_row"]["median"] for r in records])
    columns = [column for name in builds for column in ((name, "ns a row"), ("", "least"), ("", "passes"))]
    return Table(
        f"Loops over {first['n_rows']} rows: CPU time a row visited",
        [("loop", ""), ("on", ""), ("bits", ""), *columns], rows,
        [f"Median and least of {first['passes']['repeats']} repetitions, all builds and a pass in turn in one process. "
         f"A row visited is one of the list for loops over lists, else one of all rows, once for all sets or leaves; "
         "of histogram one of each column, of cut_weights and leaf_cut_weights a cell, of eliminate a term. "
         f"Passes: ns a row by that of a streaming masked sum in the build chosen at import ({unit:.3f} ns), median of "
         "the ratios. Bits: of the codes, or of the leaf numbers where no codes are read. Rows in random order, each "
         "predicate true for half of them, leaves of equal size. Few rows read again and again are in cache, and "
         "their branches known: see the larger tables for the cost of branches."])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="seconds: does it run, not how fast")
    parser.add_argument("--rows", nargs="+", type=int, help=f"numbers of rows (default: {ROWS})")
    parser.add_argument("--out", help="folder of the JSON file")
    options = parser.parse_args(arguments)
    origin = measure.provenance()
    records = []
    for n_rows in options.rows or (QUICK_ROWS if options.quick else ROWS):
        found = kernel_records(n_rows, options.quick)
        print(kernel_table(found).text(), end="\n\n", flush=True)
        records += found
    out = options.out or (None if options.quick else os.path.join(measure.HERE, "results"))
    measure.finish("kernels", origin, records, out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
