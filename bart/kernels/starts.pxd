"""Trees to start from: given rules, draws from the prior, over-grown ones."""

from libc.stdint cimport int32_t, uint32_t
from numpy.random cimport bitgen_t
from bart.kernels.tree cimport Tree
from bart.kernels.workspace cimport Work

cdef int grow_leaf(Tree* tree, Work* work, int32_t node, int32_t dim, uint32_t code) noexcept nogil
cdef bint has_rule(const Tree* tree, Work* work, int32_t node, int32_t dim, uint32_t code) noexcept nogil
cdef int draw_from_prior(Tree* tree, Work* work, bitgen_t* rng) noexcept nogil
cdef int overgrow(Tree* tree, Work* work, int32_t n_leaves, bitgen_t* rng) noexcept nogil
