"""GrowPrune: the two local moves that change the number of leaves."""

from libc.stdint cimport int32_t
from numpy.random cimport bitgen_t
from bart.kernels.tree cimport Tree
from bart.kernels.types cimport StepInfo
from bart.kernels.workspace cimport Target, Work

cdef struct LocalMoves:
    double[4] probability       # of grow, prune, change, swap
    double log_prune_to_grow    # log of the second over the first
    bint authors                # bookkeeping "authors": growing the root is always accepted (inexact)

cdef bint leaf_can_split(Tree* tree, int32_t node, Work* work) noexcept nogil
cdef int32_t list_growable(int32_t* listed, Tree* tree, Work* work) noexcept nogil
cdef bint accept(double log_ratio, bitgen_t* rng) noexcept nogil
cdef void begin_info(StepInfo* info, int32_t move) noexcept nogil
cdef int step_grow(Tree* tree, Work* work, StepInfo* info, const Target* target, const LocalMoves* moves,
                   bitgen_t* rng) noexcept nogil
cdef int step_prune(Tree* tree, Work* work, StepInfo* info, const Target* target, const LocalMoves* moves,
                    bitgen_t* rng) noexcept nogil
