"""The part of a tree that a step redraws: its place, and its old version in the pool."""

from libc.stdint cimport int32_t
from numpy.random cimport bitgen_t
from bart.kernels.pool cimport Pool, PoolNode, pool_pair, pool_reserve, pool_root
from bart.kernels.rng cimport below, uniform
from bart.kernels.subtrees cimport load_path
from bart.kernels.suffstat cimport log_L
from bart.kernels.tree cimport NONE, ROOT, Node, Tree, breadth_first, is_leaf
from bart.kernels.types cimport MUTANT, NO_MEMORY, OK, Stat, StepInfo
from bart.kernels.workspace cimport Work


cdef int32_t push_split(Pool* pool, int32_t previous, int32_t node, int32_t child) noexcept nogil:
    """Append to the list of splits; child = NONE records an unsplittable node that cost a stage ("authors")."""
    cdef int32_t number = pool.n_splits
    pool.splits[number].previous = previous
    pool.splits[number].node = node
    pool.splits[number].child = child
    pool.n_splits += 1
    return number


cdef int32_t draw_slot(const Tree* tree, double descend, bitgen_t* rng) noexcept nogil:
    """A place for a subtree: steps down with probability `descend` each, left or right evenly; NONE if that leaves
    the tree. The law of the place does not depend on the tree, so there is nothing to correct for."""
    cdef int32_t node = ROOT
    while uniform(rng) < descend:
        if is_leaf(tree, node):
            if not MUTANT(27):
                return NONE
            node = ROOT
            continue
        node = tree.nodes[node].left + <int32_t>below(2, rng)
    return node


cdef int load_region(int32_t* n_old, Work* work, StepInfo* info, const Tree* tree, int32_t top,
                     bint clamped) noexcept nogil:
    """Put the region's root, and with `clamped` the whole old region, into the pool with statistics over the target.

    The old splits come first in the pool's list, in breadth-first order: the clamped particle's history.
    """
    cdef Pool* pool = &work.pool
    cdef int32_t n, i, l, node, child
    cdef const Node* p
    cdef PoolNode* q
    cdef Stat whole
    whole.n, whole.w, whole.s = tree.n_rows, 0.0, 0.0
    for l in range(tree.n_leaves):
        whole.w += work.leaf_weight[l]
        whole.s += work.leaf_sum[l]
    work.region = 0
    if top == ROOT:
        if pool_root(pool, whole, &work.leaf, tree.n_nodes, tree.n_nodes) != OK:
            return NO_MEMORY
    elif (load_path(&work.region, work, tree, top) != OK
            or pool_reserve(pool, tree.n_nodes, tree.n_nodes) != OK):
        return NO_MEMORY
    if MUTANT(26):
        pool.nodes[work.region].depth = 0
    n_old[0] = 0
    if not clamped:
        return OK
    pool.labels = tree.labels
    pool.label_itemsize = tree.itemsize
    n = breadth_first(tree, top, work.order)
    work.mapped[top] = work.region
    for i in range(n):
        p = &tree.nodes[work.order[i]]
        node = work.mapped[work.order[i]]
        pool.nodes[node].can_split = p.can_split
        if p.left != NONE:
            child = pool_pair(pool, node, p.dim, p.code)
            work.mapped[p.left] = child
            work.mapped[p.left + 1] = child + 1
            push_split(pool, n_old[0] - 1, node, child)
            n_old[0] += 1
            info.row_visits += p.n
        elif p.staged:
            push_split(pool, n_old[0] - 1, node, NONE)
            n_old[0] += 1
    for i in range(n - 1, -1, -1):
        p = &tree.nodes[work.order[i]]
        q = &pool.nodes[work.mapped[work.order[i]]]
        q.stat.n = p.n
        if p.left == NONE:
            q.stat.w = work.leaf_weight[p.leaf]
            q.stat.s = work.leaf_sum[p.leaf]
            if p.parent != NONE:                        # its rows, by one look at the labels
                q.leaf = p.leaf
                q.n_where = 1
        else:
            q.stat.w = pool.nodes[work.mapped[p.left]].stat.w + pool.nodes[work.mapped[p.left + 1]].stat.w
            q.stat.s = pool.nodes[work.mapped[p.left]].stat.s + pool.nodes[work.mapped[p.left + 1]].stat.s
        q.log_L = log_L(&q.stat, &work.leaf)
    return OK
