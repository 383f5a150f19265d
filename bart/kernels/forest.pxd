"""Stored forests: 16 bytes a node, independent of the training rows."""

from libc.stdint cimport int32_t, int64_t
from numpy.random cimport bitgen_t
from bart.kernels.columns cimport Columns
from bart.kernels.tree cimport Tree

cdef struct StoredNode:
    int32_t dim             # -1: leaf
    int32_t left            # left child relative to the tree's first node; the right one is left + 1
    double value            # leaf value (scaled), or tau in the units of x: x <= tau goes left

cdef struct Store:
    StoredNode* nodes
    int64_t n_nodes
    int64_t node_capacity
    int64_t* starts         # (n_stored_trees + 1,): first node of each tree
    int64_t n_stored
    int64_t start_capacity

cdef struct Thresholds:
    const double* values        # distinct values of all columns
    const int64_t* value_start
    bint midpoint               # tau in the middle of the gap instead of uniform in it
    const double* grid          # cut points of all columns; NULL unless the prior has a grid
    const int64_t* grid_start   # (n_dims + 1,)

cdef int store_tree(Store* store, const Tree* tree, const Thresholds* thresholds, bitgen_t* rng) noexcept nogil

cdef class ForestStore:
    cdef Store s
    cdef readonly int n_trees
