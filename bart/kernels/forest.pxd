"""Stored forests: 16 bytes a node, independent of the training rows."""

from libc.stdint cimport int32_t, int64_t
from numpy.random cimport bitgen_t
from bart.kernels.tree cimport Tree
from bart.kernels.types cimport StoredNode

cdef struct Store:
    StoredNode* nodes
    int64_t n_nodes
    int64_t node_capacity
    int64_t* starts         # (n_stored_trees + 1,): first node of each tree
    int64_t n_stored
    int64_t start_capacity

cdef struct Thresholds:
    const double* const* values # (n_dims,): distinct values of each column
    bint midpoint               # tau in the middle of the gap instead of uniform in it
    const double* const* grid   # (n_dims,): cut points of each column; NULL unless the prior has a grid
    const int64_t* n_grid       # (n_dims,)

cdef int store_forest(Store* store, Tree* const* trees, int32_t n_trees, const Thresholds* thresholds,
                      bitgen_t* rng) noexcept nogil

cdef class ForestStore:
    cdef Store s
    cdef readonly int n_trees
