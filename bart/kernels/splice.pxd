"""Insert and delete: a node comes between a subtree and its parent, or goes."""

from libc.stdint cimport int32_t, uint32_t
from numpy.random cimport bitgen_t
from bart.kernels.tree cimport Tree
from bart.kernels.types cimport Decision, StepInfo
from bart.kernels.workspace cimport Target, Work

# What changes in a region of the tree.
cdef struct Splice:
    int32_t top             # the region's root: the place, or a node above it whose rule takes another code
    uint32_t code           # that code; it leaves rows on both sides
    int32_t place           # where a node comes or goes
    int32_t kept            # what remains of the subtree there
    bint inserts            # under a new node, or alone
    int32_t side            # of the new node, where its leaf is
    Decision rule           # of the new node

cdef int try_splice(Tree* tree, Work* work, StepInfo* info, const double* target, const Splice* splice,
                    double log_proposals, bitgen_t* rng) noexcept nogil
cdef int step_splice(Tree* tree, Work* work, StepInfo* info, const Target* target, bitgen_t* rng) noexcept nogil
