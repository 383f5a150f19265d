"""A particle becomes the tree: nodes, caches, leaf sums and labels."""

from libc.stdint cimport int32_t
from bart.kernels.tree cimport Tree
from bart.kernels.types cimport StepInfo
from bart.kernels.workspace cimport Work

cdef int adopt(Tree* tree, Work* work, StepInfo* info, int32_t top, int32_t last_split, bint authors) noexcept nogil
