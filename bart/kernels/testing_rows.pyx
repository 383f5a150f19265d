"""For tests and benchmarks: the loops over rows, on numpy arrays."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from bart.kernels.rowops cimport LANES, MOST_SELECTED, TREE_ROWS, CutLeaf, RowOps
from bart.kernels.rowops import TARGETS
from bart.kernels.types cimport ABOVE, AT_MOST, EQUAL, Predicate, StoredNode

from time import process_time

import numpy as np


cdef class RowLoops:
    """The row loops of one target ("baseline", "avx2"), on numpy arrays.

    A predicate is (array of unsigned codes, relation, cut), relation one of "<=", ">", "==". Each call runs its loop
    `repeats` times (1) and leaves the CPU seconds of all the repeats, and of nothing else, in `seconds`.
    """

    cdef RowOps* ops
    cdef Predicate[12] p
    cdef int64_t[12] n
    cdef double[12] s
    cdef uint32_t low, high
    cdef void* column
    cdef int32_t itemsize
    cdef int64_t done
    cdef public int64_t repeats
    cdef readonly double seconds

    def __cinit__(self, target):
        self.ops = <RowOps*><size_t>TARGETS[target].table()
        self.repeats = 1

    cdef int _where(self, where) except -1:
        cdef int k = 0
        for column, relation, cut in where:
            self.p[k].column = <const void*><size_t>column.ctypes.data
            self.p[k].itemsize = column.itemsize
            self.p[k].relation = {"<=": AT_MOST, ">": ABOVE, "==": EQUAL}[relation]
            self.p[k].cut = cut
            k += 1
        return k

    cdef int _take(self, column) except -1:
        self.column, self.itemsize = <void*><size_t>column.ctypes.data, column.itemsize
        return 0

    cdef inline bint _again(self) except -1:
        """Whether to run the loop once more."""
        if self.done == 0:
            self.seconds = -process_time()
        elif self.done == self.repeats:
            self.seconds += process_time()
            self.done = 0
            return False
        self.done += 1
        return True

    def masked_sum(self, where, const double[::1] r):
        cdef int k = self._where(where)
        while self._again():
            self.ops.masked_sum(self.n, self.s, self.p, k, &r[0], r.shape[0])
        return self.n[0], self.s[0]

    def masked_sums(self, where, const double[::1] r):
        cdef int i, k = self._where(where)
        while self._again():
            self.ops.masked_sums(self.n, self.s, self.p, k, &r[0], r.shape[0])
        return [(self.n[i], self.s[i]) for i in range(k)]

    def leaf_sums(self, labels, int n_leaves, const double[::1] r, int leaf=0, rule=None):
        """Sums by leaf; with a rule (column, "<=", cut), count and sum of the rows of `leaf` that it sends left."""
        cdef double[::1] sums = np.empty(n_leaves), lanes = np.empty(LANES * n_leaves)
        cdef int k = self._where([] if rule is None else [rule])
        self._take(labels)
        while self._again():
            self.ops.leaf_sums(&sums[0], &lanes[0], self.column, self.itemsize, n_leaves, &r[0], r.shape[0], leaf,
                               &self.p[0] if k else NULL, self.n, self.s)
        return np.asarray(sums), self.n[0], self.s[0]

    def add_leaf_values(self, const double[::1] r, const double[::1] value, labels):
        cdef double[::1] out = np.full(r.shape[0], np.nan)      # written: the first touch of memory is slow
        self._take(labels)
        while self._again():
            self.ops.add_leaf_values(&out[0], &r[0], &value[0], value.shape[0], self.column, self.itemsize, r.shape[0])
        return np.asarray(out)

    def leaf_sums_and_add(self, const double[::1] r, const double[::1] value, labels):
        """Sums by leaf, and r + value[label]."""
        cdef double[::1] sums = np.empty(len(value)), lanes = np.empty(LANES * len(value))
        cdef double[::1] out = np.full(r.shape[0], np.nan)
        self._take(labels)
        while self._again():
            self.ops.leaf_sums_and_add(&sums[0], &lanes[0], &out[0], &value[0], self.column, self.itemsize,
                                       value.shape[0], &r[0], r.shape[0])
        return np.asarray(sums), np.asarray(out)

    def relabel(self, labels, uint32_t label, where):
        cdef int64_t k = self._where(where), n_rows = len(labels)
        self._take(labels)
        while self._again():
            self.ops.relabel(self.column, self.itemsize, label, self.p, k, n_rows)

    def select(self, where, int64_t n_rows):
        cdef uint32_t[::1] rows = np.full(n_rows + LANES, 0, np.uint32)
        cdef int k = self._where(where)
        while self._again():
            self.n[0] = self.ops.select(&rows[0], self.p, k, n_rows)
        return np.asarray(rows)[:self.n[0]]

    def masked_range(self, column, where):
        cdef int64_t k = self._where(where), n_rows = len(column)
        self._take(column)
        while self._again():
            self.ops.masked_range(&self.low, &self.high, self.column, self.itemsize, self.p, k, n_rows)
        return self.low, self.high

    def list_range(self, column, const uint32_t[::1] rows):
        self._take(column)
        while self._again():
            self.ops.list_range(&self.low, &self.high, self.column, self.itemsize, &rows[0], rows.shape[0])
        return self.low, self.high

    def partition(self, const uint32_t[::1] rows, where, const double[::1] r):
        cdef uint32_t[::1] left = np.full(len(rows), 0, np.uint32), right = np.full(len(rows), 0, np.uint32)
        self._where([where])
        while self._again():
            self.n[0] = self.ops.partition(&left[0], &right[0], self.s, &rows[0], rows.shape[0], self.p, &r[0])
        return np.asarray(left)[:self.n[0]], np.asarray(right)[:len(rows) - self.n[0]], self.s[0]

    def label_list(self, labels, uint32_t label, const uint32_t[::1] rows):
        self._take(labels)
        while self._again():
            self.ops.label_list(self.column, self.itemsize, label, &rows[0], rows.shape[0])

    def differ(self, codes, const int32_t[::1] candidates, where):
        cdef int64_t k = self._where(where), n_rows = codes.shape[1]
        cdef bint found = False
        self._take(codes)
        while self._again():
            found = self.ops.differ(<const char*>self.column, self.itemsize, n_rows, &candidates[0],
                                    candidates.shape[0], self.p, k, NULL, 0)
        return found

    def sum_squares(self, const double[::1] r):
        while self._again():
            self.s[0] = self.ops.sum_squares(&r[0], r.shape[0])
        return self.s[0]

    def sum_products(self, const double[::1] a, const double[::1] b):
        while self._again():
            self.s[0] = self.ops.sum_products(&a[0], &b[0], a.shape[0])
        return self.s[0]

    def multiply(self, const double[::1] a, const double[::1] b):
        cdef double[::1] out = np.full(a.shape[0], np.nan)
        while self._again():
            self.ops.multiply(&out[0], &a[0], &b[0], a.shape[0])
        return np.asarray(out)

    def leaf_bits(self, where, int64_t n_rows):
        """The set of the rows that satisfy a predicate, bits in an order of their own."""
        cdef uint64_t[::1] bits = np.zeros((n_rows + 63) // 64, np.uint64)
        self._where([where])
        while self._again():
            self.ops.leaf_bits(&bits[0], self.p[0], n_rows)
        return np.asarray(bits)

    def count_common(self, const uint64_t[::1] a, const uint64_t[::1] b):
        while self._again():
            self.n[0] = self.ops.count_common(&a[0], &b[0], a.shape[0])
        return self.n[0]

    def eliminate(self, double[:, ::1] rows, const double[:, ::1] panel):
        """In place: the LANES entries of each row behind as many as the panel has rows."""
        while self._again():
            self.ops.eliminate(&rows[0, 0], rows.shape[1], rows.shape[0], &panel[0, 0], panel.shape[0])

    def largest(self, const double[::1] r):
        while self._again():
            self.s[0] = self.ops.largest(&r[0], r.shape[0])
        return self.s[0]

    def histogram(self, const uint8_t[:, ::1] bins, int32_t n_bins, const int32_t[::1] dims, const double[::1] r,
                  double scale, double most, int32_t shift, const uint32_t[::1] rows=None):
        """Packed sums (columns, n_bins) of all rows or of a list."""
        cdef int64_t[:, ::1] sums = np.zeros((len(dims), n_bins), np.int64)
        cdef int64_t n = len(bins) if rows is None else len(rows)
        while self._again():
            self.ops.histogram(&sums[0, 0], n_bins, &bins[0, 0], <int32_t>bins.shape[1], &dims[0],
                               <int32_t>dims.shape[0], NULL if rows is None else &rows[0], n, &r[0], scale, most,
                               <int64_t>1 << shift)
        return np.asarray(sums)

    def cut_weights(self, const int64_t[::1] sums, int32_t first, const double[::1] mass, int64_t rows, int64_t total,
                    double scale, int32_t shift, double sigma2, double leaf_var, double leaf_mean,
                    const int64_t[::1] weights=None, int64_t total_weight=0, double weight_scale=1.0):
        """(weights, top, their sum) of the cuts above the bins from `first` on, as many as masses."""
        cdef double[::1] weight = np.empty(len(mass))
        while self._again():
            self.s[0] = self.ops.cut_weights(&weight[0], &self.s[1], &sums[0], first, <int32_t>len(mass), &mass[0],
                                             rows, total, scale, shift, sigma2, leaf_var, leaf_mean,
                                             NULL if weights is None else &weights[0], total_weight, weight_scale)
        return np.asarray(weight), self.s[1], self.s[0]

    def leaf_cut_weights(self, leaves, int32_t first, const double[::1] mass, double scale, int32_t shift,
                         double sigma2, double leaf_var, double leaf_mean):
        """The same for leaves (histogram, rows, total, above) below the cut, without weights of the rows."""
        cdef double[::1] weight = np.empty(len(mass))
        cdef int32_t i, n_leaves = <int32_t>len(leaves)
        cdef CutLeaf* kept = <CutLeaf*>malloc(n_leaves * sizeof(CutLeaf))
        cdef const int64_t[::1] sums
        if kept == NULL:
            raise MemoryError
        for i, (sums, rows, total, above) in enumerate(leaves):
            kept[i].sums, kept[i].rows, kept[i].total, kept[i].above = &sums[0], rows, total, above
            kept[i].weights, kept[i].weight = NULL, 0
        while self._again():
            self.s[0] = self.ops.leaf_cut_weights(&weight[0], &self.s[1], kept, n_leaves, first, <int32_t>len(mass),
                                                  &mass[0], scale, shift, sigma2, leaf_var, leaf_mean, 1.0)
        free(kept)
        return np.asarray(weight), self.s[1], self.s[0]

    def add_tree(self, X, tree):
        """Values of a stored tree for the rows of X, at most TREE_ROWS of them."""
        cdef double[::1] columns = np.zeros(X.shape[1] * TREE_ROWS), out = np.zeros(TREE_ROWS)
        cdef double[::1] scratch = np.empty((MOST_SELECTED // 2 + 1) * TREE_ROWS)
        cdef int64_t n_nodes = len(tree)
        np.asarray(columns).reshape(-1, TREE_ROWS)[:, :len(X)] = X.T
        self._take(tree)
        while self._again():
            self.ops.add_tree(&out[0], &columns[0], X.shape[0], <const StoredNode*>self.column, n_nodes, &scratch[0])
        return np.asarray(out)[:len(X)]
