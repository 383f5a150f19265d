"""What a node looks like along its columns: range, histogram of the target, weight of every cell of gaps."""

from libc.stdint cimport int32_t, int64_t, uint32_t
from bart.kernels.workspace cimport Look, Looks, Work

cdef void begin_looks(Work* work, const double* target) noexcept nogil
cdef int look_at(int32_t* number, Work* work, int32_t node, int32_t dim) noexcept nogil
cdef int find_ranges(Work* work, int32_t node, const int32_t* dims, int32_t n) noexcept nogil
cdef int count_columns(Work* work, int32_t node, const int32_t* dims, int32_t n, const double* target) noexcept nogil
cdef double* frame_look(double* mass, Work* work, int32_t dim, Look* look) noexcept nogil
cdef int64_t sum_of_look(const Work* work, int32_t node, int32_t number) noexcept nogil
cdef const int64_t* weights_of_look(int64_t* total, const Work* work, int32_t node, int32_t number) noexcept nogil
cdef int32_t known_look(const Work* work, int32_t node, int32_t dim) noexcept nogil
cdef int weigh_columns(Work* work, int32_t node, const int32_t* dims, int32_t n, const double* target) noexcept nogil
cdef void cell_bounds(uint32_t* low, uint32_t* high, const Work* work, int32_t dim, const Look* look,
                      int32_t cell) noexcept nogil
