"""The part of a tree that a step redraws: its place, and its old version in the pool."""

from libc.stdint cimport int32_t
from numpy.random cimport bitgen_t
from bart.kernels.pool cimport Pool
from bart.kernels.tree cimport Tree
from bart.kernels.types cimport StepInfo
from bart.kernels.workspace cimport Work

cdef int32_t draw_slot(const Tree* tree, double descend, bitgen_t* rng) noexcept nogil
cdef int32_t push_split(Pool* pool, int32_t previous, int32_t node, int32_t child) noexcept nogil
cdef int load_region(int32_t* n_old, Work* work, StepInfo* info, const Tree* tree, int32_t top,
                     bint clamped) noexcept nogil
