"""Reroute: a cut moves past a few rows, and the leaf that held them goes, or one comes for them."""

from numpy.random cimport bitgen_t
from bart.kernels.tree cimport Tree
from bart.kernels.types cimport StepInfo
from bart.kernels.workspace cimport Target, Work

cdef int step_reroute(Tree* tree, Work* work, StepInfo* info, const Target* target, bitgen_t* rng) noexcept nogil
