"""Arrays that grow geometrically; on failure everything stays as it was."""

from libc.stdint cimport int64_t
from libc.stdlib cimport realloc

cdef inline int grow(void** array, int64_t n, size_t itemsize) noexcept nogil:
    """Make room for n items, contents kept; 1 (NO_MEMORY) on failure."""
    cdef void* grown = realloc(array[0], n * itemsize)
    if grown == NULL:
        return 1
    array[0] = grown
    return 0
