"""Checks of what a user hands in: numbers, choices, matrices and vectors.

Every check raises before any work is done and names the argument and, in an array, the first offending
position (rows and columns count from 0, frames are addressed by position). Nothing here changes its input.
"""

from __future__ import annotations

import math
import numbers

import numpy as np

# Every integer up to here is a float64; beyond, neighbours merge and ranks would silently change.
MAX_EXACT_INTEGER = 2**53
_ROWS_PER_BLOCK_CELLS = 1 << 20


def check_real(value, name, low=-math.inf, high=math.inf, closed=""):
    """A finite real number between two bounds, as a float.

    Parameters
    ----------
    value : object
        What the user gave. Booleans, text and arrays are refused.
    name : str
        The argument's name, for the message.
    low, high : float
        The bounds; ``closed`` says which of them is allowed itself: "", "low", "high" or "both".

    Raises
    ------
    TypeError
        If the value is not a real number.
    ValueError
        If it is not finite or out of bounds.
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a real number, got {value!r} of type {type(value).__name__}")
    number = float(value)
    above = number >= low if closed in ("low", "both") else number > low
    below = number <= high if closed in ("high", "both") else number < high
    if math.isfinite(number) and above and below:
        return number
    limits = []
    if low > -math.inf:
        limits.append(f"{'>=' if closed in ('low', 'both') else '>'} {low:g}")
    if high < math.inf:
        limits.append(f"{'<=' if closed in ('high', 'both') else '<'} {high:g}")
    raise ValueError(f"{name} must be {' and '.join(['finite', *limits])}, got {value!r}")


def check_count(value, name, low=1):
    """An integer of at least ``low``, as an int. Floats are refused, whole ones included."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an integer, got {value!r} of type {type(value).__name__}")
    if value < low:
        raise ValueError(f"{name} must be at least {low}, got {value}")
    return int(value)


def check_choice(value, name, options):
    """One of the strings in ``options``."""
    if not isinstance(value, str) or value not in options:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}, got {value!r}")
    return value


def check_flag(value, name):
    """True or False, as a bool."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def check_seed(seed, name="seed"):
    """None, an integer of at least 0, or a sequence of such as a list of int."""
    if seed is None:
        return None
    if isinstance(seed, (list, tuple)) or isinstance(seed, np.ndarray) and seed.ndim == 1:
        return [check_count(entry, f"{name}[{place}]", 0) for place, entry in enumerate(seed)]
    return check_count(seed, name, 0)


def is_frame(X):
    """Whether X looks like a data frame (named columns), whichever library made it."""
    return hasattr(X, "columns") and hasattr(X, "to_numpy") and not isinstance(X, np.ndarray)


def frame_labels(X, name):
    """The column names of a frame as a tuple of str, None for anything else; duplicates are refused."""
    if not is_frame(X):
        return None
    labels = tuple(str(label) for label in X.columns)
    for position, label in enumerate(labels):
        if label in labels[:position]:
            raise ValueError(f"{name} has two columns named {label!r}, the second at position {position}")
    return labels


def as_matrix(X, name="X", copy=False, allow_no_rows=False):
    """A two-dimensional array of finite float64.

    Parameters
    ----------
    X : array_like or frame, shape (n, D)
        Booleans, integers up to 2^53 in size, floats, or objects that are such numbers.
    name : str
        The argument's name, for messages.
    copy : bool
        Whether the result must not share memory with X.
    allow_no_rows : bool
        Whether n = 0 is accepted.

    Returns
    -------
    numpy.ndarray, shape (n, D), float64, C order
    tuple of str or None
        The column names of a frame.

    Raises
    ------
    ValueError
        Wrong shape, nothing in it, NaN, infinity, masked or missing cells, text, categories, complex numbers,
        dates, integers beyond 2^53; the message names the first such place.
    TypeError
        For a sparse matrix.
    """
    labels = frame_labels(X, name)
    if labels is not None:
        array = _frame_to_array(X, labels, name)
        copy = False
    else:
        array = _to_array(X, name)
        if array.ndim != 2:
            hint = ""
            if array.ndim == 1:
                hint = f"; {name}.reshape(-1, 1) makes it one column, {name}.reshape(1, -1) one row"
            raise ValueError(f"{name} must have shape (rows, columns), got shape {array.shape}{hint}")
        array = _to_float(array, name, _cell_place(None))
    if array.shape[1] == 0 or (array.shape[0] == 0 and not allow_no_rows):
        raise ValueError(f"{name} is empty, its shape is {array.shape}")
    array = np.array(array, dtype=np.float64, order="C", copy=True if copy else None)
    _refuse_nonfinite(array, name, _cell_place(labels))
    return array, labels


def as_vector(y, name="y", copy=False):
    """A vector of finite float64 from anything of shape (N,) or (N, 1); errors as in `as_matrix`."""
    if is_frame(y):
        y, _ = as_matrix(y, name)
    elif _is_categorical(y):
        raise ValueError(f"{name} is categorical (dtype {y.dtype}); code it as numbers first")
    array = _to_array(y, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"{name} must have shape (N,) or (N, 1), got {array.shape}")
    if array.shape[0] == 0:
        raise ValueError(f"{name} is empty")
    array = _to_float(array, name, _position_place)
    array = np.array(array, dtype=np.float64, order="C", copy=True if copy else None)
    _refuse_nonfinite(array, name, _position_place)
    return array


def check_same_index(X, y, name="y"):
    """Refuse two frames whose row labels differ: pairing them by position would pair the wrong rows."""
    first, second = getattr(X, "index", None), getattr(y, "index", None)
    if not (hasattr(first, "equals") and hasattr(second, "equals")):
        return
    if len(first) == len(second) and not first.equals(second):
        a, b = np.asarray(first, dtype=object), np.asarray(second, dtype=object)
        where = next((i for i in range(len(a)) if a[i] != b[i]), 0)
        raise ValueError(
            f"the row labels of X and {name} differ, first at position {where} ({a[where]!r} and {b[where]!r}); "
            f"align them with {name}.loc[X.index], or pass {name}.to_numpy() to pair rows by position"
        )


def _cell_place(labels):
    def place(index):
        row, column = (int(i) for i in index)
        return f"row {row}, column {column}" + (f" ({labels[column]!r})" if labels else "")

    return place


def _position_place(index):
    return f"position {int(index[0])}"


def _is_categorical(column):
    return "categ" in str(getattr(column, "dtype", "")).lower()


def _to_array(values, name):
    """An array of any dtype that holds the values, a plain view of a masked array without masked cells."""
    if hasattr(values, "tocsr"):
        raise TypeError(f"{name} is a sparse matrix; pass {name}.toarray()")
    if isinstance(values, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(values)
        if mask.any():
            index = np.argwhere(mask)[0]
            place = _cell_place(None) if mask.ndim == 2 else lambda i: f"position {tuple(map(int, i))}"
            raise ValueError(f"{name} is masked at {place(index)} ({int(mask.sum())} masked values in all)")
        return np.asarray(values.data)
    try:
        array = np.asarray(values)
        if not hasattr(values, "dtype") and _is_lossy(array):
            array = np.array(values, dtype=object)
    except ValueError as error:
        raise ValueError(f"{name} is not a rectangular array of numbers: {error}") from None
    return array


def _is_lossy(array):
    """Whether a list may have lost something on its way into this array: huge integers between floats, or the
    numbers beside a text."""
    huge = array.dtype.kind == "f" and bool(np.any(np.abs(array) >= MAX_EXACT_INTEGER))
    return huge or array.dtype.kind in "US"


def _frame_to_array(X, labels, name):
    """The columns of a frame as float64; a categorical or text column is refused by its name."""
    out = np.empty((len(X), len(labels)))
    for j, label in enumerate(labels):
        column = X[X.columns[j]]
        if _is_categorical(column):
            raise ValueError(
                f"column {label!r} of {name} is categorical (dtype {column.dtype}); code it as numbers "
                "first, for instance one 0/1 column for each level"
            )

        def place(index, j=j, label=label):
            return f"row {int(index[0])}, column {j} ({label!r})"

        out[:, j] = _to_float(_to_array(column.to_numpy(), name), name, place)
    return out


def _to_float(array, name, place):
    """Convert to float64 where that loses nothing but the last bits of a long double, else raise."""
    kind = array.dtype.kind
    if kind in "bf":
        return array.astype(np.float64, copy=False)
    if kind in "iu":
        if array.size and (array.max() > MAX_EXACT_INTEGER or array.min() < -MAX_EXACT_INTEGER):
            index = np.argwhere((array > MAX_EXACT_INTEGER) | (array < -MAX_EXACT_INTEGER))[0]
            raise ValueError(_too_large(array[tuple(index)], name, place(index)))
        return array.astype(np.float64)
    if kind in "OUS":
        return _objects_to_float(array, name, place)
    what = {"c": "complex numbers", "M": "dates", "m": "time differences"}.get(kind, "no real numbers")
    raise ValueError(f"{name} holds {what} (dtype {array.dtype}, first at {place((0,) * array.ndim)})")


def _objects_to_float(array, name, place):
    out = np.empty(array.shape)
    for index, item in np.ndenumerate(array.astype(object)):
        if isinstance(item, (bool, np.bool_)):
            out[index] = float(item)
        elif isinstance(item, numbers.Integral) and abs(int(item)) > MAX_EXACT_INTEGER:
            raise ValueError(_too_large(item, name, place(index)))
        elif isinstance(item, numbers.Real):
            try:
                out[index] = float(item)
            except OverflowError:
                raise ValueError(_too_large(item, name, place(index))) from None
        else:
            kind = "text" if isinstance(item, (str, bytes)) else type(item).__name__
            raise ValueError(f"{name} holds no real number but {item!r} ({kind}) at {place(index)}")
    return out


def _too_large(item, name, where):
    return f"{name} holds the integer {item} at {where}: beyond 2^53 float64 cannot tell neighbours apart"


def _refuse_nonfinite(array, name, place):
    width = array.shape[1] if array.ndim == 2 else 1
    rows = max(1, _ROWS_PER_BLOCK_CELLS // width)
    for start in range(0, array.shape[0], rows):
        bad = ~np.isfinite(array[start : start + rows])
        if not bad.any():
            continue
        index = np.argwhere(bad)[0]
        item = array[start : start + rows][tuple(index)]
        index[0] += start
        total = int(array.size - np.count_nonzero(np.isfinite(array)))
        more = f" ({total} values that are not finite in all)" if total > 1 else ""
        raise ValueError(f"{name} is {'NaN' if np.isnan(item) else item} at {place(index)}{more}")
