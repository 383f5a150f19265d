"""Change and swap, the other two moves of CGM, and its step."""

from libc.stdint cimport int32_t
from numpy.random cimport bitgen_t
from bart.kernels.moves cimport LocalMoves
from bart.kernels.tree cimport Tree
from bart.kernels.types cimport StepInfo
from bart.kernels.workspace cimport Target, Work

cdef int load_path(int32_t* top_in_pool, Work* work, const Tree* tree, int32_t top) noexcept nogil
cdef int step_local(Tree* tree, Work* work, StepInfo* info, const Target* target, const LocalMoves* moves,
                    bitgen_t* rng) noexcept nogil
