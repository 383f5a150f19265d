"""The rows of a node, in two forms behind the same questions."""

from libc.stdint cimport int32_t, int64_t, uint32_t
from bart.kernels.columns cimport Columns, code_at, column_of, mass_between, surely_valid
from bart.kernels.rowops cimport RowOps
from bart.kernels.types cimport EQUAL, Predicate, satisfies


cdef enum:
    SHORT = 1024            # rows over which a pass costs less than a look at the extreme ones

cdef double SWITCH_BASE = 0.03, SWITCH_SLOPE = 0.04        # shares of all rows; the latter a predicate


def set_switch(double base, double slope):
    """For the benchmark that measures them: sums, and so chains, change in their last bits with the form of a node."""
    global SWITCH_BASE, SWITCH_SLOPE
    SWITCH_BASE, SWITCH_SLOPE = base, slope


cdef bint prefer_rows(int64_t n, int32_t n_where, int64_t n_rows) noexcept nogil:
    """Whether a list of a node's n rows is cheaper than passes over n_rows with n_where predicates.

    A predicate costs each pass a read of its column; a list costs a pass when it is made, then a gather from each
    column and the target. Where the two meet was measured on whole sweeps (benchmarks/switch.py).
    """
    return n_where + 1 >= MAX_PREDICATES or n < (SWITCH_BASE + SWITCH_SLOPE * n_where) * n_rows


cdef Predicate leaf_predicate(const void* labels, int32_t itemsize, uint32_t leaf) noexcept nogil:
    """`leaf number = leaf`."""
    cdef Predicate p
    p.column = labels
    p.itemsize = itemsize
    p.relation = EQUAL
    p.cut = leaf
    return p


cdef void add_rule(NodeSet* node, Predicate rule) noexcept nogil:
    """One more inequality; a leaf number stays last."""
    cdef int32_t at = node.n_where
    if at > 0 and node.where[at - 1].relation == EQUAL:
        node.where[at] = node.where[at - 1]
        at -= 1
    node.where[at] = rule
    node.n_where += 1


cdef NodeSet leaf_set(const void* labels, int32_t itemsize, uint32_t leaf, int64_t n) noexcept nogil:
    """The rows that carry one leaf number."""
    cdef NodeSet node
    node.rows = NULL
    node.n = n
    node.n_where = 1
    node.where[0] = leaf_predicate(labels, itemsize, leaf)
    return node


cdef int64_t first_held(const NodeSet* node, const uint32_t* rows, int32_t n) noexcept nogil:
    """The first of n rows that lies in the node; -1 if none does."""
    cdef int32_t k
    for k in range(n):
        if satisfies(node.where, node.n_where, rows[k]):
            return rows[k]
    return -1


cdef bint extreme_range(uint32_t* low, uint32_t* high, const NodeSet* node, const Columns* columns,
                        int32_t dim) noexcept nogil:
    """Extreme codes of a column over a node in PREDICATES form, if the first few rows in the order of the column tell
    them, as they do in a large node."""
    cdef int64_t lowest, highest
    lowest = first_held(node, columns.lowest + <int64_t>dim * columns.n_extreme, columns.n_extreme)
    if lowest < 0:
        return False
    highest = first_held(node, columns.highest + <int64_t>dim * columns.n_extreme, columns.n_extreme)
    if highest < 0:
        return False
    low[0] = code_at(columns, dim, lowest)
    high[0] = code_at(columns, dim, highest)
    return True


cdef bint node_range(uint32_t* low, uint32_t* high, const NodeSet* node, const Columns* columns, int32_t dim,
                     const RowOps* ops) noexcept nogil:
    """Extreme codes of a column over the node's rows; whether the column has a valid split there.

    A large node contains one of the first few rows in the order of the column, so its minimum is found without a pass,
    where that is worth it.
    """
    cdef const void* column = column_of(columns, dim)
    if node.rows != NULL:
        ops.list_range(low, high, column, columns.itemsize, node.rows, node.n)
    elif node.n_where == 0:
        low[0] = 0
        high[0] = columns.last_code[dim]
    elif columns.n_rows < SHORT or not extreme_range(low, high, node, columns, dim):
        ops.masked_range(low, high, column, columns.itemsize, node.where, node.n_where, columns.n_rows)
    return low[0] < high[0] and mass_between(columns, dim, low[0], high[0]) > 0


cdef bint surely_splits(int64_t n, const Columns* columns) noexcept nogil:
    """Whether every node of n rows has a valid split."""
    return columns.n_candidates > 0 and surely_valid(columns, columns.by_ties[0], n)


cdef bint node_can_split(const NodeSet* node, const Columns* columns, const RowOps* ops) noexcept nogil:
    """Whether any column of positive weight has a valid split in the node (computed from its rows, never inherited)."""
    cdef uint32_t low, high
    cdef int32_t k
    if node.n < 2 or columns.n_candidates == 0:
        return False
    if surely_splits(node.n, columns):
        return True
    # Any two rows that differ decide, where every gap can be split; else the columns are gone through one by one.
    if columns.every_gap or node.rows != NULL:
        if ops.differ(columns.codes, columns.itemsize, columns.n_rows, columns.candidates, columns.n_candidates,
                      node.where, node.n_where, node.rows, node.n):
            if columns.every_gap:
                return True
        elif node.rows != NULL:
            return False
    for k in range(columns.n_candidates):
        if node_range(&low, &high, node, columns, columns.candidates[k], ops):
            return True
    return False
