"""Insert and delete: a node comes between a subtree and its parent, or goes."""

from numpy.random cimport bitgen_t
from bart.kernels.tree cimport Tree
from bart.kernels.types cimport StepInfo
from bart.kernels.workspace cimport Target, Work

cdef int step_splice(Tree* tree, Work* work, StepInfo* info, const Target* target, bitgen_t* rng) noexcept nogil
