"""The rows of a node, in two forms behind the same questions.

PREDICATES: a conjunction of comparisons on contiguous columns (codes, or a tree's leaf numbers), answered by
streaming passes over all rows; right for large, shallow nodes. ROWS: a list of row numbers; right for small or deep
ones. Both forms of the same node give the same counts and ranges, and sums that differ by rounding only.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t
from bart.kernels.columns cimport Columns
from bart.kernels.rowops cimport RowOps
from bart.kernels.types cimport Predicate

cdef enum:
    MAX_PREDICATES = 12     # longest path kept as predicates, the split under evaluation included

cdef struct NodeSet:
    const uint32_t* rows                # ROWS form: ascending list; NULL in PREDICATES form
    int64_t n                           # rows in the node
    int32_t n_where
    Predicate[MAX_PREDICATES] where     # PREDICATES form; a leaf number, if any, comes last

cdef bint prefer_rows(int64_t n, int32_t n_where, int64_t n_rows) noexcept nogil
cdef bint surely_splits(int64_t n, const Columns* columns) noexcept nogil
cdef Predicate leaf_predicate(const void* labels, int32_t itemsize, uint32_t leaf) noexcept nogil
cdef void add_rule(NodeSet* node, Predicate rule) noexcept nogil
cdef NodeSet leaf_set(const void* labels, int32_t itemsize, uint32_t leaf, int64_t n) noexcept nogil
cdef bint extreme_range(uint32_t* low, uint32_t* high, const NodeSet* node, const Columns* columns,
                        int32_t dim) noexcept nogil
cdef bint node_range(uint32_t* low, uint32_t* high, const NodeSet* node, const Columns* columns, int32_t dim,
                     const RowOps* ops) noexcept nogil
cdef bint node_can_split(const NodeSet* node, const Columns* columns, const RowOps* ops) noexcept nogil
