"""Node data shared by all particles of one step, and arenas that grow geometrically."""

from libc.stdint cimport int8_t, int32_t, int64_t, uint32_t
from libc.stdlib cimport free
from libc.string cimport memmove, memset
from bart.kernels.columns cimport Columns, predicate_of
from bart.kernels.memory cimport grow
from bart.kernels.nodeset cimport (MAX_PREDICATES, NodeSet, add_rule, leaf_predicate, node_can_split, prefer_rows,
                                   surely_splits)
from bart.kernels.rowops cimport LANES, RowOps
from bart.kernels.suffstat cimport LeafParams, log_L
from bart.kernels.tree cimport NONE, UNKNOWN
from bart.kernels.types cimport ABOVE, AT_MOST, NO_MEMORY, OK, Predicate, Stat


cdef void pool_free(Pool* pool) noexcept nogil:
    free(pool.nodes)
    free(pool.splits)
    free(pool.rows)
    memset(pool, 0, sizeof(Pool))


cdef int pool_reserve(Pool* pool, int32_t n_nodes, int32_t n_splits) noexcept nogil:
    """Room for n_nodes and n_splits more."""
    n_nodes += pool.n_nodes
    n_splits += pool.n_splits
    if n_nodes > pool.node_capacity:
        if grow(<void**>&pool.nodes, 2 * n_nodes, sizeof(PoolNode)) != OK:
            return NO_MEMORY
        pool.node_capacity = 2 * n_nodes
    if n_splits > pool.split_capacity:
        if grow(<void**>&pool.splits, 2 * n_splits, sizeof(Split)) != OK:
            return NO_MEMORY
        pool.split_capacity = 2 * n_splits
    return OK


cdef int reserve_rows(Pool* pool, int64_t n) noexcept nogil:
    n += pool.n_rows_used
    if n > pool.row_capacity:
        if grow(<void**>&pool.rows, 2 * n, sizeof(uint32_t)) != OK:
            return NO_MEMORY
        pool.row_capacity = 2 * n
    return OK


cdef int32_t path_node(Pool* pool, int32_t parent, int32_t dim, uint32_t code, int8_t side) noexcept nogil:
    """One more node below `parent`; its statistic is the caller's to fill. Room must have been reserved."""
    cdef int32_t number = pool.n_nodes
    cdef PoolNode* p = &pool.nodes[number]
    p.parent = parent
    p.depth = 0 if parent == NONE else pool.nodes[parent].depth + 1
    p.dim = dim
    p.code = code
    p.side = side
    p.can_split = UNKNOWN
    p.leaf = NONE
    p.n_where = 0 if parent == NONE else pool.nodes[parent].n_where + 1
    p.tag = NONE
    p.looks = NONE
    p.rows = NONE
    pool.n_nodes += 1
    return number


cdef int pool_root(Pool* pool, Stat stat, const LeafParams* leaf, int32_t n_nodes, int32_t n_splits) noexcept nogil:
    """Empty the pool and put the root in it, number 0, with room for n_nodes and n_splits more."""
    pool.n_nodes = 0
    pool.n_splits = 0
    pool.n_rows_used = 0
    pool.labels = NULL
    if pool_reserve(pool, n_nodes + 1, n_splits) != OK:
        return NO_MEMORY
    path_node(pool, NONE, NONE, 0, 0)
    pool.nodes[0].stat = stat
    pool.nodes[0].log_L = log_L(&stat, leaf)
    return OK


cdef int32_t pool_pair(Pool* pool, int32_t node, int32_t dim, uint32_t code) noexcept nogil:
    """Both children of a node under a rule, without statistics. Returns the left child."""
    cdef int32_t child = path_node(pool, node, dim, code, 0)
    path_node(pool, node, dim, code, 1)
    return child


cdef void pool_set_pair(Pool* pool, int32_t child, Stat left, const LeafParams* leaf) noexcept nogil:
    """Statistics of both children: the left one's, and the parent's less it."""
    cdef const Stat* parent = &pool.nodes[pool.nodes[child].parent].stat
    cdef Stat right
    right.n = parent.n - left.n
    right.w = parent.w - left.w
    right.s = parent.s - left.s
    pool.nodes[child].stat = left
    pool.nodes[child].log_L = log_L(&left, leaf)
    pool.nodes[child + 1].stat = right
    pool.nodes[child + 1].log_L = log_L(&right, leaf)


cdef void pool_set(NodeSet* rows, const Pool* pool, int32_t node, const Columns* columns) noexcept nogil:
    """The rows of a pool node, in the form it has now."""
    if pool.nodes[node].rows != NONE:
        rows.n = pool.nodes[node].stat.n
        rows.n_where = 0
        rows.rows = pool.rows + pool.nodes[node].rows
        return
    pool_path(rows, pool, node, columns)


cdef bint pool_path(NodeSet* rows, const Pool* pool, int32_t node, const Columns* columns) noexcept nogil:
    """The rows of a pool node by its path; False if that is too long to be kept."""
    cdef const PoolNode* p = &pool.nodes[node]
    rows.n = p.stat.n
    rows.n_where = 0
    rows.rows = NULL
    while p.parent != NONE:
        if rows.n_where == MAX_PREDICATES:
            return False
        if p.leaf != NONE and pool.labels != NULL:
            rows.where[rows.n_where] = leaf_predicate(pool.labels, pool.label_itemsize, p.leaf)
            rows.n_where += 1
            return True
        rows.where[rows.n_where] = predicate_of(columns, p.dim, p.code, ABOVE if p.side else AT_MOST)
        rows.n_where += 1
        p = &pool.nodes[p.parent]
    return True


cdef bint wants_rows(const Pool* pool, int32_t node, const Columns* columns) noexcept nogil:
    """Whether the node's rows should be a list before anything is asked of them."""
    cdef const PoolNode* p = &pool.nodes[node]
    return p.rows != NONE or prefer_rows(p.stat.n, p.n_where, columns.n_rows)


cdef int list_pair(Stat* left, Pool* pool, int32_t child, const double* target, const Columns* columns,
                   const RowOps* ops) noexcept nogil:
    """Lists of both children of a listed node, and the left one's statistic (its sum only with a target)."""
    cdef PoolNode* first = &pool.nodes[child]
    cdef const PoolNode* parent = &pool.nodes[first.parent]
    cdef Predicate where = predicate_of(columns, first.dim, first.code, AT_MOST)
    cdef int64_t n = parent.stat.n, n_left
    cdef uint32_t* end
    if reserve_rows(pool, 2 * n) != OK:
        return NO_MEMORY
    end = pool.rows + pool.n_rows_used
    n_left = ops.partition(end, end + n, &left.s, pool.rows + parent.rows, n, &where, target)
    left.n = n_left
    left.w = n_left
    if pool.weights != NULL and target != NULL:             # the same lists again
        ops.partition(end, end + n, &left.w, pool.rows + parent.rows, n, &where, pool.weights)
    memmove(end + n_left, end + n, (n - n_left) * sizeof(uint32_t))
    first.rows = pool.n_rows_used
    pool.nodes[child + 1].rows = pool.n_rows_used + n_left
    pool.n_rows_used += n
    return OK


cdef int pool_make_rows(Pool* pool, int32_t node, const Columns* columns, const RowOps* ops) noexcept nogil:
    """Put a node into ROWS form: from its nearest listed ancestor, siblings along the way included, or by one pass."""
    cdef int32_t top = node, parent, below
    cdef NodeSet path
    cdef Stat unused
    while pool.nodes[top].rows == NONE:
        parent = pool.nodes[top].parent
        if parent == NONE or not wants_rows(pool, parent, columns):
            pool_set(&path, pool, top, columns)
            if reserve_rows(pool, columns.n_rows + LANES) != OK:
                return NO_MEMORY
            pool.nodes[top].rows = pool.n_rows_used
            pool.n_rows_used += ops.select(pool.rows + pool.n_rows_used, path.where, path.n_where, columns.n_rows)
            break
        top = parent
    while pool.nodes[node].rows == NONE:
        below = node
        while pool.nodes[pool.nodes[below].parent].rows == NONE:
            below = pool.nodes[below].parent
        if list_pair(&unused, pool, below - pool.nodes[below].side, NULL, columns, ops) != OK:
            return NO_MEMORY
    return OK


cdef int pool_ask(NodeSet* rows, Pool* pool, int32_t node, const Columns* columns, const RowOps* ops) noexcept nogil:
    """The rows of a pool node in the cheaper form."""
    if wants_rows(pool, node, columns) and pool_make_rows(pool, node, columns, ops) != OK:
        return NO_MEMORY
    pool_set(rows, pool, node, columns)
    return OK


cdef int pool_can_split(int32_t node, Pool* pool, const Columns* columns, const RowOps* ops) noexcept nogil:
    """Fill can_split of a pool node unless it is known, by its number of rows alone where that is enough."""
    cdef NodeSet rows
    cdef PoolNode* p = &pool.nodes[node]
    if p.can_split != UNKNOWN:
        return OK
    if surely_splits(p.stat.n, columns):
        p.can_split = 1
        return OK
    if pool_ask(&rows, pool, node, columns, ops) != OK:
        return NO_MEMORY
    p.can_split = node_can_split(&rows, columns, ops)
    return OK


cdef int pool_split(int32_t* child, Pool* pool, int32_t node, int32_t dim, uint32_t code, const double* target,
                    const Columns* columns, const LeafParams* leaf, const RowOps* ops) noexcept nogil:
    """Evaluate a rule at a node: two more pool nodes with their statistics over the target, its rows weighted."""
    cdef NodeSet path
    cdef Stat left
    if pool_reserve(pool, 2, 0) != OK:
        return NO_MEMORY
    if wants_rows(pool, node, columns):
        if pool_make_rows(pool, node, columns, ops) != OK:
            return NO_MEMORY
        child[0] = pool_pair(pool, node, dim, code)
        if list_pair(&left, pool, child[0], target, columns, ops) != OK:
            return NO_MEMORY
    else:
        pool_set(&path, pool, node, columns)
        add_rule(&path, predicate_of(columns, dim, code, AT_MOST))
        ops.masked_sum(&left.n, &left.s, path.where, path.n_where, target, columns.n_rows)
        left.w = left.n
        if pool.weights != NULL:
            ops.masked_sum(&left.n, &left.w, path.where, path.n_where, pool.weights, columns.n_rows)
        child[0] = pool_pair(pool, node, dim, code)
    pool_set_pair(pool, child[0], left, leaf)
    return OK


cdef void pool_label(void* labels, int32_t itemsize, uint32_t label, Pool* pool, int32_t node,
                    const Columns* columns, const RowOps* ops) noexcept nogil:
    """Write one leaf number to the node's rows; after pool_prepare_label."""
    cdef NodeSet where
    pool_set(&where, pool, node, columns)
    if where.rows != NULL:
        ops.label_list(labels, itemsize, label, where.rows, where.n)
    else:
        ops.relabel(labels, itemsize, label, where.where, where.n_where, columns.n_rows)


cdef int pool_prepare_label(Pool* pool, int32_t node, const Columns* columns, const RowOps* ops) noexcept nogil:
    """List a node's rows where labelling by a list is cheaper than by its path. May fail, before any label is written.

    Labels cannot describe rows while they are written.
    """
    cdef int32_t parent = pool.nodes[node].parent
    if pool.nodes[node].rows == NONE and parent != NONE and (
            pool.nodes[parent].rows != NONE
            or prefer_rows(pool.nodes[parent].stat.n, pool.nodes[parent].depth, columns.n_rows)):
        return pool_make_rows(pool, node, columns, ops)
    return OK
