"""The training columns as codes, with the tree prior over their gaps."""

import threading

import numpy as np

from libc.math cimport INFINITY, exp, log, log1p, pow
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from bart.kernels.types cimport value_at


cdef const void* column_of(const Columns* columns, int32_t dim) noexcept nogil:
    """The N codes of one column."""
    return columns.codes + <int64_t>dim * columns.n_rows * columns.itemsize


cdef Predicate predicate_of(const Columns* columns, int32_t dim, uint32_t code, int32_t relation) noexcept nogil:
    """`codes of dim` RELATION `code`, as the row loops take it."""
    cdef Predicate p
    p.column = column_of(columns, dim)
    p.itemsize = columns.itemsize
    p.relation = relation
    p.cut = code
    return p


cdef uint32_t code_at(const Columns* columns, int32_t dim, int64_t row) noexcept nogil:
    """The code of one cell."""
    return value_at(column_of(columns, dim), columns.itemsize, row)


cdef double mass_between(const Columns* columns, int32_t dim, uint32_t low, uint32_t high) noexcept nogil:
    """Prior mass of the gaps between the codes low <= high; under the paper's prior the distance of their values."""
    return columns.mass[dim][high] - columns.mass[dim][low]


cdef double LEAST_WEIGHT = 1e-250

# Chains on threads share a Domain; what is made at first use is made by one of them.
MAKING = threading.RLock()


cdef double sum_weights(double* scale, const Columns* columns, const int32_t* dims, int32_t n) noexcept nogil:
    """Sum of the weights of some columns in units of exp(scale): 0 unless all of them (nearly) vanish as doubles."""
    cdef double total = 0.0
    cdef int32_t k
    scale[0] = 0.0
    for k in range(n):
        total += columns.weight[dims[k]]
    if total >= LEAST_WEIGHT or n == 0:
        return total
    scale[0] = -INFINITY
    for k in range(n):
        scale[0] = max(scale[0], columns.log_weight[dims[k]])
    total = 0.0
    for k in range(n):
        total += weight_in(columns, dims[k], scale[0])
    return total


cdef double weight_in(const Columns* columns, int32_t dim, double scale) noexcept nogil:
    """The weight of a column in units of exp(scale)."""
    return columns.weight[dim] if scale == 0.0 else exp(columns.log_weight[dim] - scale)


cdef bint is_candidate(const Columns* columns, int32_t dim) noexcept nogil:
    """Whether a column may be split at all."""
    cdef int32_t k
    for k in range(columns.n_candidates):
        if columns.candidates[k] == dim:
            return True
    return False


cdef bint surely_valid(const Columns* columns, int32_t dim, int64_t n) noexcept nogil:
    """Whether a candidate column has a valid split in every node of n rows, as more rows than no gap parts must."""
    return columns.most_tied[dim] < n


cdef int32_t count_surely_valid(const Columns* columns, int64_t n) noexcept nogil:
    """The number of such columns; they come first in by_ties."""
    cdef int32_t low = 0, high = columns.n_candidates, middle
    while low < high:
        middle = (low + high) // 2
        if surely_valid(columns, columns.by_ties[middle], n):
            low = middle + 1
        else:
            high = middle
    return low


cdef int32_t cell_of(const Columns* columns, int32_t dim, uint32_t code) noexcept nogil:
    """The cell that holds a gap of a column."""
    cdef const uint32_t* first = columns.cell_first + <int64_t>dim * columns.n_bins
    cdef int32_t low = 0, high = columns.n_cells[dim], middle
    while high - low > 1:
        middle = (low + high) // 2
        if first[middle] <= code:
            low = middle
        else:
            high = middle
    return low


cdef int32_t place_of_gap(const Columns* columns, int32_t dim, uint32_t code) noexcept nogil:
    """The place of a gap with mass, by bisection; the inverse of `gap_at`."""
    cdef int32_t low = 0, high = columns.n_gaps[dim], middle
    if columns.gap_code[dim] == NULL:
        return <int32_t>code
    while high - low > 1:
        middle = (low + high) // 2
        if columns.gap_code[dim][middle] <= code:
            low = middle
        else:
            high = middle
    return low


cdef double p_split_at(const Columns* columns, int32_t depth) noexcept nogil:
    """p_s = alpha (1 + d)^-beta for a node with a valid split."""
    if depth < N_DEPTHS:
        return columns.p_split[depth]
    return columns.alpha * pow(1.0 + depth, -columns.beta)


cdef double log_split_at(const Columns* columns, int32_t depth) noexcept nogil:
    """log p_s."""
    if depth < N_DEPTHS:
        return columns.log_split[depth]
    return log(p_split_at(columns, depth))


cdef double log_stop_at(const Columns* columns, int32_t depth, bint can_split) noexcept nogil:
    """log(1 - p_s); p_s = 0 where the node has no valid split."""
    if not can_split:
        return 0.0
    if depth < N_DEPTHS:
        return columns.log_stop[depth]
    return log1p(-p_split_at(columns, depth))


def _cells(mass):
    """For each column, the last code with at most k / N_CELLS of the column's mass, k = 0..N_CELLS."""
    cells = np.empty((len(mass), N_CELLS + 1), dtype=np.uint32)
    for d, m in enumerate(mass):
        cells[d] = np.searchsorted(m - m[0], np.linspace(0.0, m[len(m) - 1] - m[0], N_CELLS + 1), side="right") - 1
    return cells


def _extreme_rows(codes, int n_extreme):
    """Rows of the n_extreme smallest and largest codes of each column."""
    lowest = np.empty((codes.shape[0], n_extreme), dtype=np.uint32)
    highest = np.empty_like(lowest)
    n_rows = codes.shape[1]
    for d, column in enumerate(codes):
        low = np.argpartition(column, n_extreme - 1)[:n_extreme]
        high = np.argpartition(column, n_rows - n_extreme)[n_rows - n_extreme:]
        lowest[d] = low[np.lexsort((low, column[low]))]
        highest[d] = high[np.lexsort((high, column[high]))][::-1]
    return lowest, highest


def _cells_of(mass, counts, int n_cells):
    """Gaps of one column in at most n_cells cells: the first gap of each and their number, and the representatives.

    A cell gathers gaps that lie together by prior mass and by rows, half each, so that a wide gap stands alone and
    crowded values are told apart. Its representative is the gap at the middle of its mass.
    """
    n_gaps = len(mass) - 1
    if n_gaps <= n_cells:
        return np.arange(n_gaps + 1), np.arange(n_gaps)
    total = mass[n_gaps] - mass[0]
    place = 0.25 * (mass[:-1] + mass[1:] - 2.0 * mass[0]) / total + 0.5 * np.cumsum(counts)[:-1] / counts.sum()
    cell = np.minimum((place * n_cells).astype(np.int64), n_cells - 1)
    first = np.append(np.flatnonzero(np.diff(cell, prepend=-1)), n_gaps)
    middle = 0.5 * (mass[first[:-1]] + mass[first[1:]])
    rep = np.clip(np.searchsorted(mass, middle, side="right") - 1, first[:-1], first[1:] - 1)
    return first, rep


def _most_tied(column, mass):
    """Most rows of a column of codes that share a value, or lie between two gaps with mass."""
    part = np.concatenate([[0], np.cumsum(np.diff(mass) > 0)])
    return np.bincount(part[column]).max()


cdef class Domain:
    """The rank codes of a data set bound to a tree prior; immutable and shared by all trees and chains, but for the
    copies of `with_random_weights`, one a chain.

    Parameters
    ----------
    codes : bart.data.RankCodes
    prior : bart.priors.TreePrior
    n_bins : int
        Bins of a column in the histograms of optimal proposals, 2 to 256; with no more distinct values than bins each
        gap is weighed by itself.
    """

    def __init__(self, codes, prior, int n_bins=64):
        matrix = np.ascontiguousarray(codes.codes)
        n_dims, n_rows = matrix.shape
        if not 2 <= n_bins <= 256:
            raise ValueError(f"n_bins must be from 2 to 256, got {n_bins}")
        if n_rows > 0xFFFFFFFF:
            raise ValueError(f"X has {n_rows} rows; at most {0xFFFFFFFF} are supported")
        mass = [np.ascontiguousarray(m, dtype=np.float64) for m in prior.gap_mass(codes.values)]
        log_weight = np.array(prior.dim_log_weights(n_dims), dtype=np.float64)
        weight = np.exp(log_weight)
        has_mass = np.array([m.max() > m.min() for m in mass], dtype=bool)
        candidates = np.flatnonzero(has_mass & (weight > 0)).astype(np.int32)
        pointers = np.array([m.ctypes.data for m in mass], dtype=np.uintp)
        depth = np.arange(N_DEPTHS, dtype=np.float64)
        with np.errstate(divide="ignore"):
            p = prior.alpha * (1.0 + depth) ** -prior.beta
            tables = [p, np.log(p), np.log1p(-p)]
        n_extreme = min(N_EXTREME, n_rows)
        most_tied = np.array([_most_tied(column, m) for column, m in zip(matrix, mass)], dtype=np.int64)
        by_ties = candidates[np.argsort(most_tied[candidates], kind="stable")]
        arrays = [matrix, pointers, np.array([len(m) - 1 for m in mass], dtype=np.uint32),
                  candidates, weight, *_extreme_rows(matrix, n_extreme), *tables, _cells(mass),
                  by_ties, most_tied, log_weight]
        self.codes, self.prior, self._keep = codes, prior, arrays + mass
        self._bind(arrays, n_extreme)
        self.c.alpha, self.c.beta = prior.alpha, prior.beta
        self.c.every_gap = all((np.diff(m) > 0).all() for m in mass)
        chosen = weight[candidates]
        self.c.total_weight = chosen.sum()
        if len(chosen) == 0 or np.all(chosen == chosen[0]):
            self.c.weight = NULL
        self.c.random_weights = False
        self.c.n_bins = n_bins
        self.c.bins = NULL
        self.c.sorted_rows = NULL

    def with_random_weights(self):
        """A copy for one chain that shares all arrays, whose weights `set_log_weights` may change; equal at first."""
        cdef Domain made = Domain.__new__(Domain)
        made.c = self.c
        made.codes, made.prior, made._keep, made._shared = self.codes, self.prior, self._keep, self
        made._bins, made._order = self._bins, self._order
        made._weights = np.zeros((2, self.c.n_dims))
        made.c.weight = <const double*><size_t>made._weights[0].ctypes.data
        made.c.log_weight = <const double*><size_t>made._weights[1].ctypes.data
        made.c.random_weights = True
        made.set_log_weights(np.zeros(self.c.n_candidates))
        return made

    @property
    def candidates(self):
        """(n_candidates,) int32: the columns that can be split at all."""
        return self._keep[3].copy()

    @property
    def log_weights(self):
        """Random weights: (n_candidates,) log weights of the candidates, the largest 0."""
        return self._weights[1][self._keep[3]]

    def set_log_weights(self, const double[::1] log_weights):
        """New random weights of the candidates, (n_candidates,), finite. The cached priors of rules are the caller's,
        see `hyper.set_log_weights`."""
        cdef double* weight
        cdef double* log_weight
        cdef double top = -INFINITY
        cdef int32_t k
        if not self.c.random_weights or log_weights.shape[0] != self.c.n_candidates:
            raise ValueError(f"there are no {log_weights.shape[0]} random weights")
        weight, log_weight = <double*>self.c.weight, <double*>self.c.log_weight
        for k in range(self.c.n_candidates):
            top = max(top, log_weights[k])
        self.c.total_weight = 0.0
        for k in range(self.c.n_candidates):
            log_weight[self.c.candidates[k]] = log_weights[k] - top
            weight[self.c.candidates[k]] = exp(log_weights[k] - top)
            self.c.total_weight += weight[self.c.candidates[k]]

    def make_bins(self):
        """Bin the rows for optimal proposals, at first use: one byte a cell of X, row after row."""
        with MAKING:
            if self.c.bins != NULL:
                return
            if self._shared is not None:
                self._shared.make_bins()
                self._take_bins(self._shared._bins)
            else:
                self._take_bins(self._bin_rows())

    def _bin_rows(self):
        cdef Columns* c = &self.c
        mass, matrix = self._keep[-c.n_dims:], self._keep[0]
        n_cells = np.zeros(c.n_dims, dtype=np.int32)
        first = np.zeros((c.n_dims, c.n_bins), dtype=np.uint32)
        rep, cell_mass = np.zeros_like(first), np.zeros(first.shape)
        bins = np.zeros((c.n_rows, c.n_dims), dtype=np.uint8)
        for d in self._keep[3]:
            starts, reps = _cells_of(mass[d], np.bincount(matrix[d], minlength=len(mass[d])), c.n_bins - 1)
            n_cells[d] = len(reps)
            first[d, :len(starts)], rep[d, :len(reps)] = starts, reps
            cell_mass[d, :len(reps)] = np.diff(mass[d][starts])
            bins[:, d] = np.searchsorted(reps, np.arange(len(mass[d])), side="left")[matrix[d]]
        return n_cells, first, rep, cell_mass, bins

    def _take_bins(self, arrays):
        cdef Columns* c = &self.c
        self._bins = arrays
        address = [<size_t>a.ctypes.data for a in arrays]
        c.n_cells = <const int32_t*><size_t>address[0]
        c.cell_first = <const uint32_t*><size_t>address[1]
        c.cell_rep = <const uint32_t*><size_t>address[2]
        c.cell_mass = <const double*><size_t>address[3]
        c.bins = <const uint8_t*><size_t>address[4]

    def make_order(self):
        """The rows in the order of each column, for slides, at first use: 4 bytes a cell of X, and 8 at most for each
        distinct value that some rows share or no rule follows."""
        with MAKING:
            if self.c.sorted_rows != NULL:
                return
            if self._shared is not None:
                self._shared.make_order()
                self._take_order(self._shared._order)
            else:
                self._take_order(self._sort_rows())

    def _sort_rows(self):
        cdef Columns* c = &self.c
        mass, matrix = self._keep[-c.n_dims:], self._keep[0]
        rows = np.empty((c.n_dims, c.n_rows), dtype=np.uint32)
        n_gaps, gaps, n_upto = np.zeros(c.n_dims, dtype=np.int32), [None] * c.n_dims, [None] * c.n_dims
        for d in self._keep[3]:
            rows[d] = np.argsort(matrix[d], kind="stable")
            has_mass = np.flatnonzero(np.diff(mass[d]) > 0)
            n_gaps[d] = len(has_mass)
            if len(has_mass) < len(mass[d]) - 1:
                gaps[d] = has_mass.astype(np.uint32)
            if gaps[d] is not None or len(mass[d]) < c.n_rows:
                counts = np.cumsum(np.bincount(matrix[d], minlength=len(mass[d])))
                n_upto[d] = counts[has_mass].astype(np.uint32)
        pointers = np.array([[0 if a is None else a.ctypes.data for a in arrays] for arrays in (gaps, n_upto)],
                            dtype=np.uintp).reshape(2, c.n_dims)
        return rows, n_gaps, pointers, gaps, n_upto

    def _take_order(self, arrays):
        cdef Columns* c = &self.c
        self._order = arrays
        c.n_gaps = <const int32_t*><size_t>arrays[1].ctypes.data
        c.gap_code = <const uint32_t* const*><size_t>arrays[2][0].ctypes.data
        c.n_upto = <const uint32_t* const*><size_t>arrays[2][1].ctypes.data
        c.sorted_rows = <const uint32_t*><size_t>arrays[0].ctypes.data

    def cells(self, int dim):
        """The cells of a column: cell k holds the gaps first[k]..first[k + 1] - 1, and rep[k] stands for them.

        Returns
        -------
        first : (n_cells + 1,) uint32
        rep : (n_cells,) uint32
        """
        self.make_bins()
        n = int(self._bins[0][dim])
        return self._bins[1][dim, :n + 1].copy(), self._bins[2][dim, :n].copy()

    def _bind(self, list arrays, int32_t n_extreme):
        address = [<size_t>a.ctypes.data for a in arrays]
        self.c.n_dims, self.c.n_rows = arrays[0].shape
        self.c.itemsize = arrays[0].itemsize
        self.c.codes = <const char*><size_t>address[0]
        self.c.mass = <const double* const*><size_t>address[1]
        self.c.last_code = <const uint32_t*><size_t>address[2]
        self.c.candidates = <const int32_t*><size_t>address[3]
        self.c.n_candidates = len(arrays[3])
        self.c.weight = <const double*><size_t>address[4]
        self.c.lowest = <const uint32_t*><size_t>address[5]
        self.c.highest = <const uint32_t*><size_t>address[6]
        self.c.n_extreme = n_extreme
        self.c.p_split = <const double*><size_t>address[7]
        self.c.log_split = <const double*><size_t>address[8]
        self.c.log_stop = <const double*><size_t>address[9]
        self.c.cells = <const uint32_t*><size_t>address[10]
        self.c.by_ties = <const int32_t*><size_t>address[11]
        self.c.most_tied = <const int64_t*><size_t>address[12]
        self.c.log_weight = <const double*><size_t>address[13]
