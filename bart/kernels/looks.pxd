"""What a node looks like along its columns: range, histogram of the target, weight of every cell of gaps."""

from libc.stdint cimport int32_t, uint32_t
from bart.kernels.workspace cimport Look, Looks, Work

cdef void begin_looks(Work* work, const double* target) noexcept nogil
cdef int look_at(int32_t* number, Work* work, int32_t node, int32_t dim) noexcept nogil
cdef int find_ranges(Work* work, int32_t node, const int32_t* dims, int32_t n) noexcept nogil
cdef int weigh_columns(Work* work, int32_t node, const int32_t* dims, int32_t n, const double* target) noexcept nogil
cdef void cell_bounds(uint32_t* low, uint32_t* high, const Work* work, int32_t dim, const Look* look,
                      int32_t cell) noexcept nogil
