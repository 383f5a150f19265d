"""Perturb and rotate: moves of rules that share a dimension."""

from numpy.random cimport bitgen_t
from bart.kernels.tree cimport Tree
from bart.kernels.types cimport StepInfo
from bart.kernels.workspace cimport Target, Work

cdef int step_perturb(Tree* tree, Work* work, StepInfo* info, const Target* target, bitgen_t* rng) noexcept nogil
cdef int step_rotate(Tree* tree, Work* work, StepInfo* info, const Target* target, bitgen_t* rng) noexcept nogil
