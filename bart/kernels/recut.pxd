"""Recut: an internal node's rule drawn anew from its full conditional given the subtrees below it."""

from libc.stdint cimport int32_t
from numpy.random cimport bitgen_t
from bart.kernels.tree cimport Tree
from bart.kernels.types cimport StepInfo
from bart.kernels.workspace cimport Target, Work

cdef int step_recut(Tree* tree, Work* work, StepInfo* info, const Target* target, int32_t subset,
                    bitgen_t* rng) noexcept nogil
