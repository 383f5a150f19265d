"""Change and swap, the other two moves of CGM, and its step."""

from numpy.random cimport bitgen_t
from bart.kernels.moves cimport LocalMoves
from bart.kernels.tree cimport Tree
from bart.kernels.types cimport StepInfo
from bart.kernels.workspace cimport Target, Work

cdef int step_local(Tree* tree, Work* work, StepInfo* info, const Target* target, const LocalMoves* moves,
                    bitgen_t* rng) noexcept nogil
