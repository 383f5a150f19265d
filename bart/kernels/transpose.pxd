"""Transpose: a node's rule changes places with that of both its children."""

from numpy.random cimport bitgen_t
from bart.kernels.tree cimport Tree
from bart.kernels.types cimport StepInfo
from bart.kernels.workspace cimport Target, Work

cdef int step_transpose(Tree* tree, Work* work, StepInfo* info, const Target* target,
                        bitgen_t* rng) noexcept nogil
