"""Recut: an internal node's rule drawn anew from its full conditional given the subtrees below it."""

from libc.stdint cimport int32_t
from numpy.random cimport bitgen_t
from bart.kernels.tree cimport Tree
from bart.kernels.types cimport StepInfo
from bart.kernels.workspace cimport Target, Work

cdef int reserve_claims(Work* work, int32_t n) noexcept nogil
cdef int claim(int32_t* n_claims, Work* work, StepInfo* info, const Tree* tree, int32_t top, int32_t in_pool,
               const int32_t* dims, int32_t n, const double* target) noexcept nogil
cdef void weigh_column(Work* work, int32_t in_pool, int32_t dim, int32_t n_claims) noexcept nogil
cdef int step_recut(Tree* tree, Work* work, StepInfo* info, const Target* target, int32_t subset,
                    bitgen_t* rng) noexcept nogil
