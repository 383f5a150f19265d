"""A tree bound to its data, and one step of it."""

from numpy.random cimport bitgen_t
from bart.kernels.columns cimport Domain
from bart.kernels.tree cimport Tree
from bart.kernels.workspace cimport Work, Workspace

cdef void draw_values(Tree* tree, Work* work, bitgen_t* rng) noexcept nogil
cdef int check_status(int status) except -1

cdef class TreeState:
    cdef Tree t
    cdef readonly Domain domain
    cdef Workspace workspace
    cdef object bound           # target given out by an ensemble, with the residual it stands for
    cdef object bound_residual
    cdef object kept            # after steps on it: (leaf sums and weights, whether the target was formed row by row,
                                # whether the leaves' values still are those that the residual holds)
    cdef _take(self, Tree* made)
    cdef bitgen_t* _ready(self, params, rng) except NULL
    cdef bint on_residual       # the third of `kept`, as the step leaves it
    cdef void _keep_old_values(self, bint is_residual) noexcept nogil
