"""Types shared by all kernels, and the switch of the mutant build."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t

# What a kernel returns when it can fail. On anything but OK the tree, its labels and the residual are as before.
cdef enum Status:
    OK = 0
    NO_MEMORY = 1
    CANCELLED = 2
    TOO_MANY_STAGES = 3

# Relation of a row's code to the cut of a predicate.
cdef enum Relation:
    AT_MOST = 0
    ABOVE = 1
    EQUAL = 2

cdef struct Predicate:
    const void* column      # N codes, or the N leaf numbers of a tree
    int32_t itemsize        # bytes a code: 1, 2 or 4
    int32_t relation        # a Relation
    uint32_t cut            # a code

cdef inline uint32_t value_at(const void* column, int32_t itemsize, int64_t row) noexcept nogil:
    """One entry of a column of codes or leaf numbers."""
    if itemsize == 1:
        return (<const uint8_t*>column)[row]
    if itemsize == 2:
        return (<const uint16_t*>column)[row]
    return (<const uint32_t*>column)[row]

cdef inline void put_at(void* column, int32_t itemsize, int64_t row, uint32_t value) noexcept nogil:
    """Write one entry of a column, which must hold it."""
    if itemsize == 1:
        (<uint8_t*>column)[row] = <uint8_t>value
    elif itemsize == 2:
        (<uint16_t*>column)[row] = <uint16_t>value
    else:
        (<uint32_t*>column)[row] = value

cdef inline bint satisfies(const Predicate* where, int32_t n_where, int64_t row) noexcept nogil:
    """Whether a row satisfies all predicates."""
    cdef int32_t k
    cdef uint32_t c
    for k in range(n_where):
        c = value_at(where[k].column, where[k].itemsize, row)
        if where[k].relation == AT_MOST:
            if c > where[k].cut:
                return False
        elif where[k].relation == ABOVE:
            if c <= where[k].cut:
                return False
        elif c != where[k].cut:
            return False
    return True

# Sufficient statistic of a node for Gaussian data (design: n, w, s).
cdef struct Stat:
    int64_t n               # rows
    double w                # sum of the rows' weights; n where rows carry no weights
    double s                # sum of weight times target over the rows

# A decision at a node: stop, or split by a rule (dim, code). Rows with codes <= code go left.
cdef struct Decision:
    int32_t dim             # -1: stop
    uint32_t code

# A node of a stored tree.
cdef struct StoredNode:
    int32_t dim             # -1: leaf
    int32_t left            # left child relative to the tree's first node; the right one is left + 1
    double value            # leaf value (scaled), or tau in the units of x: x <= tau goes left

cdef struct StepInfo:
    int32_t move            # a Move
    int32_t changed         # 1 if the tree's structure differs from before
    int32_t root_changed    # 1 if the root's decision differs from before
    int32_t n_stages        # particle stages
    double log_ratio        # log of the Metropolis-Hastings ratio; 0 where none was formed
    int64_t row_visits      # the rows of the nodes at which rules were tried, see bart.StepInfo

cdef enum Move:
    MOVE_NONE = 0
    MOVE_GROW = 1
    MOVE_PRUNE = 2
    MOVE_CHANGE = 3
    MOVE_SWAP = 4
    MOVE_PG = 5
    MOVE_LOCAL = 6
    MOVE_PERTURB = 7
    MOVE_ROTATE = 8
    MOVE_INSERT = 9
    MOVE_DELETE = 10
    MOVE_RECUT = 11
    MOVE_TRANSPOSE = 12
    MOVE_SHIFT = 13
    MOVE_SHED = 14
    MOVE_ABSORB = 15

cdef extern from "mutants.h" nogil:
    # 0 in the normal build, a compile-time constant; in the mutant build, whether BART_MUTANT names this id.
    bint MUTANT(int mutant_id)
