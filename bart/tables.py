"""Text tables for the command line: numeric columns of a file with a header row, and columns written to one."""

import array
import csv
import math
import sys

import numpy as np

from .inputs import MAX_EXACT_INTEGER

__all__ = ["Table", "TableError", "read_table", "write_table"]


class TableError(ValueError):
    """A file that is not such a table; the message names the file, the row and the column."""


class Table:
    """Named numeric columns: as much of a data frame as `bart.Model` and `Posterior.predict` ask for.

    Parameters
    ----------
    columns : sequence of str
    values : (n_rows, n_columns) float64 array
    """

    def __init__(self, columns, values):
        self.columns = list(columns)
        self._values = values

    def __len__(self):
        return len(self._values)

    def __getitem__(self, column):
        return _Column(self._values[:, self.columns.index(column)])

    def pop(self, column):
        """The values of one column, and a Table of the others."""
        place = self.columns.index(column)
        rest = [*self.columns[:place], *self.columns[place + 1 :]]
        return self._values[:, place].copy(), Table(rest, np.delete(self._values, place, axis=1))

    def to_numpy(self):
        """All values, (n_rows, n_columns) float64."""
        return self._values


class _Column:
    def __init__(self, values):
        self._values = values
        self.dtype = values.dtype

    def to_numpy(self):
        return self._values


def read_table(path, wanted=None, exclude=(), delimiter=","):
    """Read numeric columns of a text file with a header row.

    Parameters
    ----------
    path : str
        File in UTF-8; "-" reads standard input.
    wanted : sequence of str, optional
        Columns to read, in this order; all of them without it. Only what is read has to be numeric.
    exclude : sequence of str
        Columns to leave out.
    delimiter : str
        One character.

    Returns
    -------
    Table
    list of str
        Columns of the file that were not read.

    Raises
    ------
    TableError
        The file cannot be read, a column is missing or named twice, a row is too long or too short, or a cell is no
        finite number.
    """
    name = "standard input" if path == "-" else path
    try:
        if path == "-":
            return _read(sys.stdin, name, wanted, exclude, delimiter)
        with open(path, encoding="utf-8-sig", newline="") as file:
            return _read(file, name, wanted, exclude, delimiter)
    except OSError as error:
        raise TableError(f"{name}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise TableError(f"{name}: not a text file in UTF-8") from None
    except csv.Error as error:
        raise TableError(f"{name}: {error}") from None


def _read(file, name, wanted, exclude, delimiter):
    rows = csv.reader(file, delimiter=delimiter, skipinitialspace=True)
    header = [cell.strip() for cell in next(rows, [])]
    _check_header(header, name)
    for column in [*(wanted or []), *exclude]:
        if column not in header:
            raise TableError(f"{name}: no column {column!r}; there are {_some(header)}")
    columns = [column for column in (header if wanted is None else wanted) if column not in exclude]
    if not columns:
        raise TableError(f"{name}: no column is left")
    places = [header.index(column) for column in columns]
    cells, n_rows = array.array("d"), 0
    for row in rows:
        if not row:                     # an empty line
            continue
        n_rows += 1
        if len(row) != len(header):
            where = f"row {n_rows} (line {rows.line_num})"
            raise TableError(f"{name}: {where} has {len(row)} cells, the header has {len(header)}")
        for place in places:
            value = _number(row[place])
            if value is None:
                where = f"row {n_rows} (line {rows.line_num}), column {header[place]!r}"
                raise TableError(f"{name}: {where}: {_trouble(row[place])}")
            cells.append(value)
    if n_rows == 0:
        raise TableError(f"{name}: no rows below the header")
    values = np.array(cells, dtype=np.float64).reshape(n_rows, len(columns))
    return Table(columns, values), [column for column in header if column not in columns]


def _check_header(header, name):
    if not header:
        raise TableError(f"{name}: the first line, the header row, is empty")
    for place, column in enumerate(header):
        if not column:
            raise TableError(f"{name}: column {place + 1} of the header has no name")
        if column in header[:place]:
            raise TableError(f"{name}: the header has two columns named {column!r}")
    if all(_number(column) is not None for column in header):
        raise TableError(f"{name}: the first line holds numbers; it must be a header row with the names of the columns")


def _number(text):
    """The finite number that a cell holds, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    if not math.isfinite(value) or "_" in text or (abs(value) >= MAX_EXACT_INTEGER and _is_inexact(text)):
        return None
    return value


def _is_inexact(text):
    digits = text.strip().lstrip("+-")
    return digits.isdigit() and int(digits) > MAX_EXACT_INTEGER


def _trouble(text):
    if not text.strip():
        return "the cell is empty; missing values are not supported"
    shown = repr(text if len(text) <= 40 else text[:40] + "...")
    if _is_inexact(text):
        return f"{shown} is beyond 2^53, where a double cannot tell integers apart"
    return f"{shown} is not a finite number"


def _some(names):
    return ", ".join(map(repr, names[:20])) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def write_table(file, columns, delimiter=","):
    """Write named columns of equal length, numbers so that they are read back to the last bit.

    Parameters
    ----------
    file : text file
    columns : dict of str to (n_rows,) array
    delimiter : str
    """
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(map(repr, np.asarray(values).tolist()) for values in columns.values()), strict=True))
