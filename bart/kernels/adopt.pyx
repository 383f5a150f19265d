"""A particle becomes the tree: nodes, caches, leaf sums and labels."""

from libc.stdint cimport int32_t
from bart.kernels.pool cimport Pool, pool_label, pool_prepare_label
from bart.kernels.tree cimport NONE, ROOT, Node, Tree, add_children, labels_reserve, make_stump, tree_reserve
from bart.kernels.types cimport NO_MEMORY, OK, StepInfo
from bart.kernels.workspace cimport Work, reserve_leaves


cdef int32_t list_history(int32_t* listed, const Pool* pool, int32_t last) noexcept nogil:
    """Numbers of a particle's splits (and marked stops) in the order made; returns how many."""
    cdef int32_t n = 0, split = last, i
    while split != NONE:
        n += 1
        split = pool.splits[split].previous
    i = n
    split = last
    while split != NONE:
        i -= 1
        listed[i] = split
        split = pool.splits[split].previous
    return n


cdef bint differs_from_old(const Tree* tree, const Work* work, int32_t n_history, int32_t* order) noexcept nogil:
    """Whether the new tree differs from the tree in its rules; both are walked breadth first."""
    cdef int32_t n = 1, i = 0, k = 0, split, child
    cdef const Node* p
    cdef const Pool* pool = &work.pool
    order[0] = ROOT
    work.mapped[0] = 0
    while i < n:
        p = &tree.nodes[order[i]]
        while k < n_history and pool.splits[work.listed[k]].child == NONE:
            k += 1
        split = work.listed[k] if k < n_history else NONE
        if (p.left != NONE) != (split != NONE and pool.splits[split].node == work.mapped[i]):
            return True
        if p.left != NONE:
            child = pool.splits[split].child
            if pool.nodes[child].dim != p.dim or pool.nodes[child].code != p.code:
                return True
            order[n], order[n + 1] = p.left, p.left + 1
            work.mapped[n], work.mapped[n + 1] = child, child + 1
            n += 2
            k += 1
        i += 1
    return False


cdef bint root_differs(const Tree* tree, const Pool* pool, int32_t first_split) noexcept nogil:
    cdef const Node* root = &tree.nodes[ROOT]
    cdef int32_t child = NONE if first_split == NONE else pool.splits[first_split].child
    if child == NONE or root.left == NONE:
        return (child == NONE) != (root.left == NONE)
    return pool.nodes[child].dim != root.dim or pool.nodes[child].code != root.code


cdef int prepare_labels(Work* work, int32_t n_history) noexcept nogil:
    """Tag the new tree's leaves and list their rows where that is cheaper; nothing of the old tree is touched."""
    cdef Pool* pool = &work.pool
    cdef int32_t k, side, child
    pool.nodes[0].tag = NONE
    for k in range(n_history):
        child = pool.splits[work.listed[k]].child
        if child != NONE:
            pool.nodes[child].tag = pool.nodes[child + 1].tag = NONE
    for k in range(n_history):
        if pool.splits[work.listed[k]].child != NONE:
            pool.nodes[pool.splits[work.listed[k]].node].tag = 0
    for k in range(n_history):
        child = pool.splits[work.listed[k]].child
        for side in range(2):
            if child != NONE and pool.nodes[child + side].tag == NONE:
                if pool_prepare_label(pool, child + side, work.columns, work.ops) != OK:
                    return NO_MEMORY
    return OK


cdef void build_tree(Tree* tree, Work* work, int32_t n_history) noexcept nogil:
    """Replace the tree by a particle's: nodes, caches, leaf sums and labels. Room has been reserved."""
    cdef Pool* pool = &work.pool
    cdef int32_t k, node, child, left, side, leaf
    pool.labels = NULL                                  # they are about to change
    make_stump(tree)
    pool.nodes[0].tag = ROOT
    work.mapped[ROOT] = 0
    tree.nodes[ROOT].can_split = pool.nodes[0].can_split
    for k in range(n_history):
        node = pool.nodes[pool.splits[work.listed[k]].node].tag
        child = pool.splits[work.listed[k]].child
        if child == NONE:
            tree.nodes[node].staged = 1
            continue
        left = add_children(tree, node, pool.nodes[child].dim, pool.nodes[child].code, pool.nodes[child].stat.n)
        for side in range(2):
            pool.nodes[child + side].tag = left + side
            work.mapped[left + side] = child + side
            tree.nodes[left + side].can_split = pool.nodes[child + side].can_split
    for leaf in range(tree.n_leaves):
        node = work.mapped[tree.leaf_node[leaf]]
        work.leaf_sum[leaf] = pool.nodes[node].stat.s
        if leaf > 0:                                    # make_stump left every row in leaf 0
            pool_label(tree.labels, tree.itemsize, leaf, pool, node, work.columns, work.ops)


cdef int adopt(Tree* tree, Work* work, StepInfo* info, int32_t chosen, bint authors) noexcept nogil:
    """The chosen particle becomes the tree, if it differs from it."""
    cdef int32_t n = 0, split = work.particles[chosen].last_split
    while split != NONE:
        n += 1
        split = work.pool.splits[split].previous
    if reserve_leaves(work, n + 1 if n + 1 > tree.n_leaves else tree.n_leaves) != OK:
        return NO_MEMORY
    n = list_history(work.listed, &work.pool, work.particles[chosen].last_split)
    info.changed = differs_from_old(tree, work, n, work.order)
    if not info.changed and not authors:
        return OK
    info.root_changed = root_differs(tree, &work.pool, work.listed[0] if n > 0 else NONE)
    # The labels move last: until then they describe nodes of the pool.
    if (tree_reserve(tree, 2 * n + 1) != OK or prepare_labels(work, n) != OK
            or labels_reserve(tree, n + 1) != OK):
        return NO_MEMORY
    build_tree(tree, work, n)
    return OK
