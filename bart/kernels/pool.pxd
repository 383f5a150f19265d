"""Node data shared by all particles of one step, and arenas that grow geometrically.

A pool node is immutable once it has its statistic; particles and proposed subtrees refer to it by number.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint32_t
from bart.kernels.columns cimport Columns
from bart.kernels.nodeset cimport NodeSet
from bart.kernels.rowops cimport RowOps
from bart.kernels.suffstat cimport LeafParams
from bart.kernels.types cimport Stat

cdef struct PoolNode:
    int32_t parent          # pool number, NONE at the root
    int32_t depth
    int32_t dim             # the parent's rule, and the side of it that led here
    uint32_t code
    int8_t side             # 0: codes <= code, 1: above
    int8_t can_split        # UNKNOWN until asked
    int32_t leaf            # leaf number whose rows it holds by the labels of Pool; NONE where there is none
    int32_t n_where         # predicates that describe it
    int32_t tag             # scratch of the caller
    int32_t looks           # its row in the table of Looks; NONE where no column of it was weighed
    int64_t rows            # offset of its list in the row arena; NONE in PREDICATES form
    Stat stat               # over the target
    double log_L
    double log_rule         # log prior of the rule tried at it; set where a subtree's prior is evaluated

cdef struct Split:
    int32_t previous        # the split its particle made before; NONE at the first
    int32_t node            # pool number of the node it splits
    int32_t child           # left child, the right one is child + 1

cdef struct Pool:
    PoolNode* nodes
    int32_t n_nodes
    int32_t node_capacity
    Split* splits
    int32_t n_splits
    int32_t split_capacity
    uint32_t* rows
    int64_t n_rows_used
    int64_t row_capacity
    const void* labels      # of the tree as it stands, while nodes may be described by them; else NULL
    int32_t label_itemsize
    const double* weights   # of the rows; NULL: all 1

cdef void pool_free(Pool* pool) noexcept nogil
cdef int pool_reserve(Pool* pool, int32_t n_nodes, int32_t n_splits) noexcept nogil
cdef int pool_root(Pool* pool, Stat stat, const LeafParams* leaf, int32_t n_nodes, int32_t n_splits) noexcept nogil
cdef int32_t pool_pair(Pool* pool, int32_t node, int32_t dim, uint32_t code) noexcept nogil
cdef void pool_set_pair(Pool* pool, int32_t child, Stat left, const LeafParams* leaf) noexcept nogil
cdef void pool_set(NodeSet* rows, const Pool* pool, int32_t node, const Columns* columns) noexcept nogil
cdef bint pool_path(NodeSet* rows, const Pool* pool, int32_t node, const Columns* columns) noexcept nogil
cdef int pool_make_rows(Pool* pool, int32_t node, const Columns* columns, const RowOps* ops) noexcept nogil
cdef int pool_can_split(int32_t node, Pool* pool, const Columns* columns, const RowOps* ops) noexcept nogil
cdef int pool_ask(NodeSet* rows, Pool* pool, int32_t node, const Columns* columns, const RowOps* ops) noexcept nogil
cdef int pool_split(int32_t* child, Pool* pool, int32_t node, int32_t dim, uint32_t code, const double* target,
                    const Columns* columns, const LeafParams* leaf, const RowOps* ops) noexcept nogil
cdef int pool_prepare_label(Pool* pool, int32_t node, const Columns* columns, const RowOps* ops) noexcept nogil
cdef void pool_label(void* labels, int32_t itemsize, uint32_t label, Pool* pool, int32_t node,
                    const Columns* columns, const RowOps* ops) noexcept nogil
