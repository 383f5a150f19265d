"""Threads that share the rows of one sweep; the results are the same bits for any number of them.

A team lives for one call of the compiled sweep and no longer, so that a fork between calls loses none. While it
does, the sweep's thread goes through the table of `team_rowops()`, which cuts the rows into pieces of whole blocks;
sums are kept by block and added in block order, as one thread adds them.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from bart.kernels.rowops cimport RowOps
from bart.kernels.types cimport Predicate

cdef enum:
    TEAM_ROWS = 65_536      # fewer rows are not worth waking anyone
    PIECE = 8               # blocks of rows in a piece of work
    MOST_SUMS = 64          # sums by block and job that a team has room for

# One loop over rows, cut into pieces. The fields are the arguments of the loop in RowOps.
cdef struct Job:
    void (*run)(const Job* job, int64_t first, int64_t last) noexcept nogil     # the rows first..last-1
    const RowOps* ops       # the loops of one thread
    const Predicate* where
    int32_t n_where         # predicates; sets of masked_sums
    int32_t n_sums          # sums by block
    const double* r
    double* out
    const double* value
    void* labels
    int32_t itemsize
    int32_t n_leaves
    int32_t leaf
    uint32_t label
    const void* column
    int64_t* counts         # by block (masked_sums: n_sums of them)
    double* sums            # (n_blocks, n_sums)
    uint32_t* low           # by piece
    uint32_t* high

cdef struct TeamState:
    uint64_t ticket         # round << 40 | number of pieces << 20 | next piece
    uint64_t n_done         # pieces finished in this round
    uint64_t closing        # 1: workers go home
    Job job
    int64_t n_rows
    int64_t* counts
    double* sums
    uint32_t* low
    uint32_t* high

cdef const RowOps* team_rowops() noexcept nogil

cdef class Team:
    cdef TeamState t
    cdef list threads
    cdef void* outer        # the team that the thread had: a signal's handler may run another sweep within a sweep
    cdef void enter(self) noexcept nogil
    cdef void leave(self) noexcept nogil
