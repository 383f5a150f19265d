"""A particle becomes the tree: nodes, caches, leaf sums and labels."""

from libc.stdint cimport int32_t
from bart.kernels.nodeset cimport leaf_predicate
from bart.kernels.pool cimport Pool, pool_label, pool_prepare_label
from bart.kernels.tree cimport (NONE, ROOT, Node, Tree, add_children, breadth_first, collapse, is_leaf, labels_reserve,
                                make_stump, tree_reserve)
from bart.kernels.types cimport NO_MEMORY, OK, Predicate, StepInfo
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


cdef bint differs_from_old(const Tree* tree, const Work* work, int32_t top, int32_t n_history,
                           int32_t* order) noexcept nogil:
    """Whether the new (sub)tree differs from the one at `top` in its rules; both are walked breadth first."""
    cdef int32_t n = 1, i = 0, k = 0, split, child
    cdef const Node* p
    cdef const Pool* pool = &work.pool
    order[0] = top
    work.mapped[0] = work.region
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


cdef int prepare_labels(Work* work, int32_t top, int32_t n_history) noexcept nogil:
    """Tag the new tree's leaves and list their rows where that is cheaper; nothing of the old tree is touched."""
    cdef Pool* pool = &work.pool
    cdef int32_t k, side, child
    pool.nodes[work.region].tag = NONE
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
    if top != ROOT:
        return pool_prepare_label(pool, work.region, work.columns, work.ops)
    return OK


cdef int32_t clear_region(Tree* tree, Work* work, int32_t top) noexcept nogil:
    """Make a leaf of the region's root; returns its place. Its rows, and those of leaves whose number changes, get
    their labels."""
    cdef Pool* pool = &work.pool
    cdef Predicate old
    cdef int32_t k = 0
    if top == ROOT:
        make_stump(tree)
        return ROOT
    top = collapse(tree, top, work.order, work.mapped, work.listed + work.leaf_capacity)
    pool_label(tree.labels, tree.itemsize, tree.nodes[top].leaf, pool, work.region, work.columns, work.ops)
    while work.mapped[k] != NONE:
        old = leaf_predicate(tree.labels, tree.itemsize, work.mapped[k])
        work.ops.relabel(tree.labels, tree.itemsize, work.listed[work.leaf_capacity + k], &old, 1, tree.n_rows)
        work.leaf_sum[work.listed[work.leaf_capacity + k]] = work.leaf_sum[work.mapped[k]]
        work.leaf_weight[work.listed[work.leaf_capacity + k]] = work.leaf_weight[work.mapped[k]]
        k += 1
    return top


cdef void build_tree(Tree* tree, Work* work, int32_t top, int32_t n_history) noexcept nogil:
    """Replace the region by a particle's: nodes, caches, leaf sums and labels. Room has been reserved."""
    cdef Pool* pool = &work.pool
    cdef int32_t k, node, child, left, side, leaf, n_outside
    pool.labels = NULL                                  # they are about to change
    top = clear_region(tree, work, top)
    n_outside = tree.n_leaves
    leaf = tree.nodes[top].leaf
    pool.nodes[work.region].tag = top
    work.mapped[top] = work.region
    tree.nodes[top].can_split = pool.nodes[work.region].can_split
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
    work.leaf_sum[leaf] = pool.nodes[work.mapped[tree.leaf_node[leaf]]].stat.s
    work.leaf_weight[leaf] = pool.nodes[work.mapped[tree.leaf_node[leaf]]].stat.w
    for leaf in range(n_outside, tree.n_leaves):        # the region's rows are in its first leaf
        node = work.mapped[tree.leaf_node[leaf]]
        work.leaf_sum[leaf] = pool.nodes[node].stat.s
        work.leaf_weight[leaf] = pool.nodes[node].stat.w
        pool_label(tree.labels, tree.itemsize, leaf, pool, node, work.columns, work.ops)


cdef int adopt(Tree* tree, Work* work, StepInfo* info, int32_t top, int32_t last_split, bint authors) noexcept nogil:
    """The region at `top` becomes what the splits that end with `last_split` make of it, if it differs."""
    cdef int32_t n = 0, split = last_split, n_inside = 0, n_nodes, k
    while split != NONE:
        n += 1
        split = work.pool.splits[split].previous
    if reserve_leaves(work, tree.n_leaves + n) != OK:
        return NO_MEMORY
    n = list_history(work.listed, &work.pool, last_split)
    info.changed = differs_from_old(tree, work, top, n, work.order)
    if not info.changed and not authors:
        return OK
    info.root_changed = top == ROOT and root_differs(tree, &work.pool, work.listed[0] if n > 0 else NONE)
    n_nodes = breadth_first(tree, top, work.order)
    for k in range(n_nodes):
        n_inside += is_leaf(tree, work.order[k])
    # The labels move last: until then they describe nodes of the pool.
    if (tree_reserve(tree, tree.n_nodes - n_nodes + 2 * n + 1) != OK or prepare_labels(work, top, n) != OK
            or labels_reserve(tree, tree.n_leaves - n_inside + n + 1) != OK):
        return NO_MEMORY
    build_tree(tree, work, top, n)
    return OK
