"""Stored forests: 16 bytes a node, independent of the training rows; and their predictions."""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from numpy.random cimport bitgen_t
from bart.kernels.memory cimport grow
from bart.kernels.rng cimport below, uniform
from bart.kernels.rowops cimport LANES, MOST_SELECTED, TREE_ROWS, RowOps, rowops
from bart.kernels.tree cimport NONE, Node, Tree
from bart.kernels.types cimport NO_MEMORY, OK

NODE_DTYPE = np.dtype([("dim", "<i4"), ("left", "<i4"), ("value", "<f8")])


cdef int reserve_store(Store* store, int64_t n_nodes) noexcept nogil:
    cdef int64_t nodes = 3 * (store.n_nodes + n_nodes) // 2 + 1024, starts = 3 * store.n_stored // 2 + 1024
    if store.n_nodes + n_nodes > store.node_capacity:
        if grow(<void**>&store.nodes, nodes, sizeof(StoredNode)) != OK:
            return NO_MEMORY
        store.node_capacity = nodes
    if store.n_stored + 2 > store.start_capacity:
        if grow(<void**>&store.starts, starts, sizeof(int64_t)) != OK:
            return NO_MEMORY
        store.start_capacity = starts
    return OK


cdef int64_t first_at_least(const double* points, int64_t n, double value) noexcept nogil:
    """Number of points below a value, by bisection; the points ascend."""
    cdef int64_t low = 0, high = n, middle
    while low < high:
        middle = (low + high) // 2
        if points[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


cdef double draw_threshold(const Thresholds* thresholds, int32_t dim, int64_t code, bitgen_t* rng) noexcept nogil:
    """tau inside the gap above a code: uniform, its midpoint, or one of the grid's cut points in it."""
    cdef const double* values = thresholds.values[dim]
    cdef double low = values[code], high = values[code + 1], tau, u
    cdef int64_t first, last
    if thresholds.grid != NULL:
        first = first_at_least(thresholds.grid[dim], thresholds.n_grid[dim], low)
        last = first_at_least(thresholds.grid[dim], thresholds.n_grid[dim], high)
        if last > first:
            return thresholds.grid[dim][first + <int64_t>below(last - first, rng)]
    u = 0.5 if thresholds.midpoint else uniform(rng)
    # Two products where the width of the gap overflows.
    tau = low + u * (high - low) if high - low < INFINITY else (1.0 - u) * low + u * high
    return tau if low <= tau < high else low                # rounding in a gap of neighbouring doubles


cdef int store_tree(Store* store, const Tree* tree, const Thresholds* thresholds, bitgen_t* rng) noexcept nogil:
    """Append one tree; its thresholds are drawn now, given the gaps."""
    cdef int32_t i
    cdef const Node* p
    cdef StoredNode* q
    if reserve_store(store, tree.n_nodes) != OK:
        return NO_MEMORY
    if store.n_stored == 0:
        store.starts[0] = 0
    for i in range(tree.n_nodes):
        p = &tree.nodes[i]
        q = &store.nodes[store.n_nodes + i]
        q.dim = p.dim
        q.left = p.left
        q.value = p.value if p.left == NONE else draw_threshold(thresholds, p.dim, p.code, rng)
    store.n_nodes += tree.n_nodes
    store.n_stored += 1
    store.starts[store.n_stored] = store.n_nodes
    return OK


cdef int store_forest(Store* store, Tree* const* trees, int32_t n_trees, const Thresholds* thresholds,
                      bitgen_t* rng) noexcept nogil:
    """Append a forest, all of it or nothing."""
    cdef int64_t n_nodes = store.n_nodes, n_stored = store.n_stored
    cdef int32_t j
    for j in range(n_trees):
        if store_tree(store, trees[j], thresholds, rng) != OK:
            store.n_nodes, store.n_stored = n_nodes, n_stored
            return NO_MEMORY
    return OK


cdef class ForestStore:
    """Forests of consecutive draws.

    Parameters
    ----------
    n_trees : int
        Trees in a forest.
    """

    def __cinit__(self, int n_trees):
        memset(&self.s, 0, sizeof(Store))
        if n_trees < 1:
            raise ValueError(f"n_trees must be at least 1, got {n_trees}")
        self.n_trees = n_trees

    def __dealloc__(self):
        free(self.s.nodes)
        free(self.s.starts)

    @property
    def n_draws(self):
        """Complete forests stored."""
        return self.s.n_stored // self.n_trees

    @property
    def nodes(self):
        """All nodes, a copy: dtype (dim i4, left i4, value f8); dim -1 marks a leaf and value is its scaled value."""
        out = np.empty(self.s.n_nodes, dtype=NODE_DTYPE)
        if self.s.n_nodes:
            memcpy(<void*><size_t>out.ctypes.data, self.s.nodes, self.s.n_nodes * sizeof(StoredNode))
        return out

    @property
    def starts(self):
        """(n_draws * n_trees + 1,) int64: first node of each tree, draw after draw."""
        out = np.zeros(self.s.n_stored + 1, dtype=np.int64)
        if self.s.n_stored:
            memcpy(<void*><size_t>out.ctypes.data, self.s.starts, (self.s.n_stored + 1) * sizeof(int64_t))
        return out

    def clear(self):
        """Forget all forests, keep the memory."""
        self.s.n_nodes = self.s.n_stored = 0


cdef void predict_block(double* out, int64_t out_stride, const double* X, int64_t n_dims, int32_t n, double* scratch,
                        const StoredNode* nodes, const int64_t* starts, int64_t n_trees, int64_t first_draw,
                        int64_t last_draw, const RowOps* ops) noexcept nogil:
    """out[draw, row] = sum over trees of the leaf value that a row reaches, for a block of rows that stays in cache."""
    cdef int64_t draw, j, at
    cdef double[TREE_ROWS] total
    for draw in range(first_draw, last_draw):
        memset(total, 0, sizeof(total))
        for j in range(n_trees):
            at = draw * n_trees + j
            ops.add_tree(total, X, n, nodes + starts[at], starts[at + 1] - starts[at], scratch)
        memcpy(out + (draw - first_draw) * out_stride, total, n * sizeof(double))


cdef void transpose_block(double* block, const double* X, int64_t n_dims, int32_t n) noexcept nogil:
    """block[dim * TREE_ROWS + row] = X[row, dim]; the places after the last row are set, as they are read."""
    cdef int64_t d
    cdef int32_t i
    for d in range(n_dims):
        for i in range(n):
            block[d * TREE_ROWS + i] = X[i * n_dims + d]
        for i in range(n, min(n + LANES, TREE_ROWS)):
            block[d * TREE_ROWS + i] = 0.0


def predict_draws(const double[:, ::1] X, nodes, const int64_t[::1] starts, int n_trees, int first_draw, int last_draw,
                  double[:, :] out):
    """Sums of the trees' leaf values (scaled units) for draws first_draw..last_draw-1.

    Parameters
    ----------
    X : (n, D) float64, C order
    nodes, starts : as in ForestStore
    out : (last_draw - first_draw, n) float64, overwritten; its rows contiguous
    """
    cdef int64_t n = X.shape[0], n_dims = X.shape[1], start
    nodes = np.ascontiguousarray(nodes)
    if nodes.dtype != NODE_DTYPE:
        raise ValueError(f"nodes must have dtype {NODE_DTYPE}, got {nodes.dtype}")
    if not 0 <= first_draw <= last_draw <= (starts.shape[0] - 1) // n_trees:
        raise ValueError(f"draws {first_draw}..{last_draw} are not among {(starts.shape[0] - 1) // n_trees}")
    if out.shape[0] != last_draw - first_draw or out.shape[1] != n:
        raise ValueError(f"out must have shape {(last_draw - first_draw, n)}, got {(out.shape[0], out.shape[1])}")
    if n > 1 and out.strides[1] != sizeof(double):
        raise ValueError("out must have contiguous rows")
    if len(nodes) < starts[starts.shape[0] - 1]:
        raise ValueError("nodes is shorter than starts says")
    if len(nodes) and int(nodes["dim"].max()) >= n_dims:
        raise ValueError(f"the forest splits column {int(nodes['dim'].max())}, X has {n_dims} columns")
    if n == 0 or first_draw == last_draw:
        return
    cdef const StoredNode* first = <const StoredNode*><size_t>nodes.ctypes.data
    cdef const int64_t* tree_starts = &starts[0]
    cdef int64_t trees = n_trees, begin = first_draw, end = last_draw, stride = out.strides[0] // sizeof(double)
    cdef const double* rows = &X[0, 0]
    cdef double* to = &out[0, 0]
    cdef const RowOps* ops = rowops()
    # Some 256 KB of the columns: they are read again for each tree.
    cdef int32_t block = max(LANES, min(TREE_ROWS, 32768 // max(n_dims, 1) // LANES * LANES)), size
    cdef double* columns = <double*>malloc(max(n_dims, 1) * TREE_ROWS * sizeof(double))
    cdef double* scratch = <double*>malloc((MOST_SELECTED // 2 + 1) * TREE_ROWS * sizeof(double))
    try:
        if columns == NULL or scratch == NULL:
            raise MemoryError("no memory for a block of rows")
        with nogil:
            start = 0
            while start < n:
                size = block if n - start > block else <int32_t>(n - start)
                transpose_block(columns, rows + start * n_dims, n_dims, size)
                predict_block(to + start, stride, columns, n_dims, size, scratch, first, tree_starts, trees, begin, end,
                              ops)
                start += size
    finally:
        free(columns)
        free(scratch)
