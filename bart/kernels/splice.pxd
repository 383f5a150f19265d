"""Insert and delete: a node comes between a subtree and its parent, or goes."""

from libc.stdint cimport int32_t, uint32_t
from numpy.random cimport bitgen_t
from bart.kernels.tree cimport Tree
from bart.kernels.types cimport Decision, StepInfo
from bart.kernels.workspace cimport Target, Work

# What changes in the region, the subtree at `top`. In place of the subtree at `place` comes that at `kept`: alone, or
# under a new node with a rule and a leaf at a side. Where `top` is above the place, its rule takes another code.
cdef struct Splice:
    int32_t top
    uint32_t code
    int32_t place
    int32_t kept
    bint inserts
    int32_t side
    Decision rule

cdef int try_splice(Tree* tree, Work* work, StepInfo* info, const double* target, const Splice* splice,
                    double log_proposals, bitgen_t* rng) noexcept nogil
cdef int step_splice(Tree* tree, Work* work, StepInfo* info, const Target* target, bitgen_t* rng) noexcept nogil
