"""What the joint law of all leaf values needs of the rows: counts (or weights) by pair of leaves, sums of y by leaf."""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free, malloc
from bart.kernels.nodeset cimport leaf_predicate
from bart.kernels.rowops cimport LANES, RowOps, rowops
from bart.kernels.state cimport TreeState
from bart.kernels.tree cimport Tree
from bart.kernels.types cimport MUTANT, NO_MEMORY, OK, value_at

cdef enum:
    CHUNK = 16_384          # rows whose sets, 2 KB each, are compared while they are in cache
    WORDS = 256             # of 64 rows in a chunk


cdef void fill_sets(uint64_t* sets, const Tree* tree, int64_t start, int64_t n, const RowOps* ops) noexcept nogil:
    """One set of rows for each leaf but the last, over the rows start..start+n-1."""
    cdef int32_t l
    for l in range(tree.n_leaves - 1):
        ops.leaf_bits(sets + <int64_t>l * WORDS, leaf_predicate(<char*>tree.labels + start * tree.itemsize,
                                                                tree.itemsize, l), n)


cdef void count_pair(double* counts, int64_t width, const uint64_t* of_rows, int32_t n_down, const uint64_t* of_columns,
                     int32_t n_across, int64_t n_words, const RowOps* ops) noexcept nogil:
    """counts[k, l] += rows in the k-th set of one tree and the l-th of another."""
    cdef int32_t k, l
    for k in range(n_down):
        for l in range(n_across):
            counts[k * width + l] += ops.count_common(of_rows + <int64_t>k * WORDS, of_columns + <int64_t>l * WORDS,
                                                      n_words)


cdef void fill_last(double* counts, int64_t width, const Tree* down, const Tree* across) noexcept nogil:
    """The counts of both trees' last leaves, from those of single leaves: every row is in one leaf of each."""
    cdef int32_t last_down = down.n_leaves - 1, last_across = across.n_leaves - 1, k, l
    for l in range(across.n_leaves):
        counts[last_down * width + l] = across.nodes[across.leaf_node[l]].n
    for k in range(last_down):
        counts[k * width + last_across] = down.nodes[down.leaf_node[k]].n
        for l in range(last_across):
            counts[k * width + last_across] -= counts[k * width + l]
        for l in range(across.n_leaves):
            counts[last_down * width + l] -= counts[k * width + l]


cdef int count_all(double* counts, int64_t width, Tree** trees, const int64_t* first, int32_t n_trees,
                   const RowOps* ops) noexcept nogil:
    """Lower triangle of Z'Z, from zeros."""
    cdef int64_t n_rows = trees[0].n_rows, start, n
    cdef int32_t i, j, l
    cdef uint64_t* sets = <uint64_t*>malloc(max(width, 1) * WORDS * sizeof(uint64_t))
    if sets == NULL:
        return NO_MEMORY
    for start in range(0, n_rows, 16384):               # CHUNK
        n = min(n_rows - start, <int64_t>CHUNK)
        for i in range(n_trees):
            fill_sets(sets + first[i] * WORDS, trees[i], start, n, ops)
            for j in range(i):
                count_pair(counts + first[i] * width + first[j], width, sets + first[i] * WORDS, trees[i].n_leaves - 1,
                           sets + first[j] * WORDS, trees[j].n_leaves - 1, (n + 63) // 64, ops)
    for i in range(n_trees):
        for j in range(i):
            fill_last(counts + first[i] * width + first[j], width, trees[i], trees[j])
        for l in range(trees[i].n_leaves):
            counts[(first[i] + l) * (width + 1)] = trees[i].nodes[trees[i].leaf_node[l]].n
    free(sets)
    return OK


cdef void weigh_pair(double* sums, int64_t width, const Tree* down, const Tree* across,
                     const double* weights) noexcept nogil:
    """sums[k, l] += weights of the rows in leaf k of one tree and leaf l of another."""
    cdef int64_t row
    for row in range(down.n_rows):
        sums[value_at(down.labels, down.itemsize, row) * width
             + value_at(across.labels, across.itemsize, row)] += weights[row]


cdef void weigh_all(double* sums, int64_t width, Tree** trees, const int64_t* first, int32_t n_trees,
                    const double* weights) noexcept nogil:
    """Lower triangle of Z'WZ, from zeros; of a tree with itself, the diagonal."""
    cdef int32_t i, j
    for i in range(n_trees):
        for j in range(i + 1):
            weigh_pair(sums + first[i] * width + first[j], width, trees[i], trees[j], weights)


def leaf_statistics(states, const double[::1] y, weights=None):
    """Counts by pair of leaves, Z'Z, and sums by leaf, Z'y, of the trees over the same rows.

    With weights Z'WZ and Z'Wy, W = diag(weights).

    Parameters
    ----------
    states : list of TreeState
        Leaves are numbered tree after tree, by leaf number within a tree.
    y : (N,) float64
    weights : (N,) float64, optional

    Returns
    -------
    counts : (K, K) float64
        Rows that are in leaf k and in leaf l, exact (the sums of their weights); the lower triangle alone, zeros above
        it.
    sums : (K,) float64
    """
    cdef int32_t n_trees = len(states), j, most = 0
    cdef int64_t total = 0
    cdef TreeState state
    cdef Tree** trees = <Tree**>malloc(n_trees * sizeof(Tree*))
    first_leaf = np.zeros(n_trees, dtype=np.int64)
    cdef int64_t[::1] first = first_leaf
    if trees == NULL:
        raise MemoryError("no memory for the trees of an ensemble")
    try:
        for j in range(n_trees):
            state = states[j]
            if state.t.n_rows != y.shape[0]:
                raise ValueError(f"y must have shape ({state.t.n_rows},), got ({y.shape[0]},)")
            trees[j] = &state.t
            first[j] = total
            total += state.t.n_leaves
            most = max(most, state.t.n_leaves)
        found, sums = np.zeros((total, total)), np.empty(total)
        if weights is not None and weights.shape != (y.shape[0],):
            raise ValueError(f"weights must have shape ({y.shape[0]},), got {weights.shape}")
        if fill(found, sums, np.empty(LANES * most), trees, first, n_trees, y, weights) != OK:
            raise MemoryError("no memory for the sets of rows by leaf")
    finally:
        free(trees)
    return found, sums


cdef int fill(double[:, ::1] counts, double[::1] sums, double[::1] scratch, Tree** trees, int64_t[::1] first,
              int32_t n_trees, const double[::1] y, const double[::1] weights) noexcept:
    """Both results of leaf_statistics."""
    cdef const double[::1] summed = y if weights is None else np.multiply(y, weights)
    cdef const double* w = NULL if weights is None or MUTANT(73) else &weights[0]
    cdef const RowOps* ops = rowops()
    cdef int32_t j
    cdef int64_t unused_n
    cdef double unused_s
    cdef int status = OK
    with nogil:
        if w != NULL:
            weigh_all(&counts[0, 0], counts.shape[0], trees, &first[0], n_trees, w)
        else:
            status = count_all(&counts[0, 0], counts.shape[0], trees, &first[0], n_trees, ops)
        for j in range(n_trees):
            ops.leaf_sums(&sums[first[j]], &scratch[0], trees[j].labels, trees[j].itemsize, trees[j].n_leaves,
                          &summed[0], trees[j].n_rows, 0, NULL, &unused_n, &unused_s)
    return status
