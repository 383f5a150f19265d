"""The training data: validated and scaled (`Dataset`), and as ranks for the kernels (`RankCodes`)."""

from __future__ import annotations

import numpy as np

from .inputs import as_matrix, as_vector, check_flag, check_real, check_same_index, frame_labels
from .kernels.workspace import check_weights

_MAX_ROWS = 2**31 - 1
# Without scaling y is squared and summed as it is.
_MAX_UNSCALED = 1e150


class Dataset:
    """Training rows and responses, with the linear map that takes y to [-0.5, 0.5].

    Parameters
    ----------
    X : array_like or frame, shape (N, D)
        Real numbers: floats, booleans, integers up to 2^53 in size. Copied, never changed.
    y : array_like, shape (N,) or (N, 1)
        Responses, in the user's units. Copied, never changed.
    scale : bool
        Whether y is mapped to [-0.5, 0.5]; otherwise scaled units are the units of y.
    offset : float, array_like of shape (N,) or None
        Known part of the mean of y: what is scaled, and what trees fit, is ``y - offset``.
    weights : array_like, shape (N,), optional
        Known relative precisions: the noise variance of row n is sigma^2 / weights[n]. Positive; copied.

    Attributes
    ----------
    X : numpy.ndarray, shape (N, D), float64, C order, read-only
    y : numpy.ndarray, shape (N,), float64, read-only
        In the user's units.
    offset : float, numpy.ndarray of shape (N,), float64, read-only, or None
    y_scaled : numpy.ndarray, shape (N,), float64, read-only
        ``(y - y_mid) / y_range``, with an offset a row ``(y - offset - y_mid) / y_range``; exactly -0.5 and 0.5 at the
        extremes.
    y_min, y_max, y_mid, y_range : float
        Extremes, midrange and range of y, less the offset. ``y_range`` is 1 for a constant y; with ``scale=False``
        ``y_mid`` is 0 and ``y_range`` is 1. ``y_mid`` has an offset that is a number added to it.
    n_rows, n_dims : int
    column_names : tuple of str or None
        The names of a frame's columns.
    scale : bool
    weights : numpy.ndarray, shape (N,), float64, read-only, or None

    Raises
    ------
    ValueError
        See `bart.inputs.as_matrix`; also when X and y differ in length or, as frames, in their row labels,
        and when the range of y overflows or is below the smallest normal number. A weight is not positive or not
        finite, or so small beside the sum of all that sums over rows would lose it.
    """

    def __init__(self, X, y, scale=True, offset=None, weights=None):
        self.scale = check_flag(scale, "scale")
        check_same_index(X, y)
        check_same_index(X, offset, "offset")
        matrix, self.column_names = as_matrix(X, "X", copy=True)
        vector = as_vector(y, "y", copy=True)
        if matrix.shape[0] != vector.shape[0]:
            raise ValueError(f"X has {matrix.shape[0]} rows, but y has {vector.shape[0]} values")
        if matrix.shape[0] > _MAX_ROWS:
            raise ValueError(f"X has {matrix.shape[0]} rows, at most {_MAX_ROWS} are supported")
        self.weights = None
        if weights is not None:
            check_same_index(X, weights, "weights")
            self.weights = check_weights(as_vector(weights, "weights"), matrix.shape[0])
        self.X, self.y = _read_only(matrix), _read_only(vector)
        self.n_rows, self.n_dims = matrix.shape
        self.offset = check_offset(offset, self.n_rows)
        vector = self._less_offset(vector)
        self.y_min, self.y_max = float(vector.min()), float(vector.max())
        if self.scale:
            span = self._span()
            self.y_mid, self.y_range = self.y_min + 0.5 * span, span or 1.0
        else:
            self._check_unscaled()
            self.y_mid, self.y_range = 0.0, 1.0
        self.y_scaled = _read_only(self._scaled(vector))
        if isinstance(self.offset, float):
            self.y_mid += self.offset

    def _less_offset(self, y):
        if self.offset is None:
            return y
        with np.errstate(over="ignore"):
            less = y - self.offset
        wrong = np.flatnonzero(~np.isfinite(less))
        if len(wrong):
            raise ValueError(f"y less its offset overflows at position {wrong[0]}; change the units of y")
        return less

    def _span(self):
        with np.errstate(over="ignore"):
            span = float(np.float64(self.y_max) - np.float64(self.y_min))
        limits = np.finfo(np.float64)
        if span > limits.max / 4 or 0 < span < limits.tiny:
            raise ValueError(f"y cannot be scaled, its range is {span:g}; change the units of y")
        return span

    def _check_unscaled(self):
        if max(abs(self.y_min), abs(self.y_max)) > _MAX_UNSCALED:
            y = self._less_offset(self.y)
            position = int(np.argmax(np.abs(y)))
            raise ValueError(f"y is {y[position]:g} at position {position}: its square overflows; use scale=True")

    def __repr__(self):
        weighted = "" if self.weights is None else ", weighted"
        span = f"y from {self.y.min():g} to {self.y.max():g}"
        return f"Dataset({self.n_rows} rows, {self.n_dims} columns, {span}{weighted})"

    def to_scaled(self, y):
        """Map values from the units of y to scaled units; any shape, float64. Offsets a row are not in them."""
        y = np.asarray(y, dtype=np.float64)
        return self._scaled(y - self.offset if isinstance(self.offset, float) else y)

    def _scaled(self, y):
        if not self.scale:
            return y.copy()
        # Both ends by subtraction of near numbers: exact extremes although the midrange itself is rounded,
        # which matters where y is 1e12 + {0, 1}.
        return ((y - self.y_min) + (y - self.y_max)) / (2.0 * self.y_range)

    def to_y(self, f_scaled):
        """Map values from scaled units to the units of y; any shape, float64. Offsets a row are not in them."""
        return self.y_mid + self.y_range * np.asarray(f_scaled, dtype=np.float64)

    def check_new(self, X_new, name="X_new"):
        """Validate rows to predict at.

        Parameters
        ----------
        X_new : array_like or frame, shape (n, D)
            n may be 0. If the training X and this one are both frames, names and order must agree.
        name : str
            How messages call it.

        Returns
        -------
        numpy.ndarray, shape (n, D), float64, C order
            May share memory with X_new.

        Raises
        ------
        ValueError
            Another number of columns, other names or another order of them, or bad values.
        """
        return check_rows(X_new, self.n_dims, self.column_names, name)


def check_offset(offset, n_rows, rows_of="X"):
    """None, a finite float, or (n_rows,) float64, read-only; ValueError or TypeError by position for all else."""
    if offset is None:
        return None
    if isinstance(offset, str) or not hasattr(offset, "__len__"):
        return check_real(offset, "offset")
    offset = as_vector(offset, "offset", copy=True) if n_rows or len(offset) else np.empty(0)
    if len(offset) != n_rows:
        raise ValueError(f"offset has {len(offset)} values, but {rows_of} has {n_rows} rows")
    return _read_only(offset)


def check_rows(X_new, n_dims, column_names=None, name="X_new"):
    """`Dataset.check_new` where only the number of columns and their names are left of the data set."""
    labels = frame_labels(X_new, name)
    if labels is not None and column_names is not None and labels != tuple(column_names):
        raise ValueError(_name_trouble(labels, tuple(column_names), name))
    matrix, _ = as_matrix(X_new, name, allow_no_rows=True)
    if matrix.shape[1] != n_dims:
        raise ValueError(f"{name} has {matrix.shape[1]} columns, but the training X had {n_dims}")
    return matrix


def _name_trouble(labels, expected, name):
    missing = [c for c in expected if c not in labels]
    extra = [c for c in labels if c not in expected]
    if missing or extra:
        parts = [f"lacks {', '.join(map(repr, missing))}"] if missing else []
        parts += [f"has the unknown {', '.join(map(repr, extra))}"] if extra else []
        return f"{name} {' and '.join(parts)}; the training X had other columns"
    at = next(i for i, (a, b) in enumerate(zip(labels, expected, strict=True)) if a != b)
    return (
        f"the columns of {name} are in another order than in training, first at position {at} "
        f"({labels[at]!r} instead of {expected[at]!r})"
    )


class RankCodes:
    """Each column of X as ranks among its distinct values: all that the training likelihood sees of X.

    Parameters
    ----------
    X : array_like, shape (N, D)
        As in `Dataset`; -0.0 equals 0.0.

    Attributes
    ----------
    codes : numpy.ndarray, shape (D, N), C order, read-only
        ``values[d][codes[d, n]] == X[n, d]``; uint8, uint16 or uint32, the smallest that holds every column.
    values : list of D numpy.ndarray, float64, read-only
        Distinct values of a column, strictly increasing.
    n_values : numpy.ndarray, shape (D,), int32, read-only
    n_rows, n_dims : int

    Notes
    -----
    Time O(D N log N); beyond the codes, memory for a few columns at a time.
    """

    def __init__(self, X):
        X, _ = as_matrix(X, "X")
        self.n_rows, self.n_dims = X.shape
        if self.n_rows > _MAX_ROWS:
            raise ValueError(f"X has {self.n_rows} rows, at most {_MAX_ROWS} are supported")
        self.values, columns = [], []
        for d in range(self.n_dims):
            distinct, codes = _rank_column(X[:, d])
            self.values.append(_read_only(distinct))
            columns.append(codes)
        self.n_values = _read_only(np.array([v.size for v in self.values], dtype=np.int32))
        self.codes = np.empty((self.n_dims, self.n_rows), dtype=_code_type(int(self.n_values.max())))
        for d in range(self.n_dims):
            self.codes[d] = columns[d]
            columns[d] = None  # at no time are two full sets of codes alive
        _read_only(self.codes)

    def __repr__(self):
        return f"RankCodes({self.n_rows} rows, {self.n_dims} columns, {self.codes.dtype})"


def _code_type(n_values):
    return np.uint8 if n_values <= 2**8 else np.uint16 if n_values <= 2**16 else np.uint32


def _rank_column(column):
    """Sorted distinct values of one column and each row's rank among them, in the smallest code type."""
    column = column + 0.0  # a contiguous copy, with 0.0 for -0.0
    order = np.argsort(column)
    column = column[order]
    first = np.empty(column.size, dtype=bool)
    first[0] = True
    np.not_equal(column[1:], column[:-1], out=first[1:])
    distinct = column[first]
    dtype = _code_type(distinct.size)
    ranks = np.cumsum(first, dtype=np.uint32)
    ranks -= 1
    codes = np.empty(column.size, dtype=dtype)
    codes[order] = ranks.astype(dtype, copy=False)
    return distinct, codes


def _read_only(array):
    array.flags.writeable = False
    return array
