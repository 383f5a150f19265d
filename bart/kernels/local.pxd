"""The rejection-free local move: grow, prune and change in one."""

from libc.stdint cimport int32_t
from numpy.random cimport bitgen_t
from bart.kernels.tree cimport Tree
from bart.kernels.types cimport StepInfo
from bart.kernels.workspace cimport Target, Work

cdef struct NodeParams:
    int32_t subset          # columns weighed, 0: all
    double descend          # probability of each step down to the slot; negative: a candidate, uniformly

cdef int step_node(Tree* tree, Work* work, StepInfo* info, const Target* target, const NodeParams* params,
                   bitgen_t* rng) noexcept nogil
