"""One tree: its nodes, and the leaf number of every training row."""

from libc.math cimport NAN
from libc.stdint cimport int8_t, int32_t, int64_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from bart.kernels.memory cimport grow
from bart.kernels.types cimport NO_MEMORY, OK, put_at, value_at


cdef int tree_init(Tree* tree, int64_t n_rows) noexcept nogil:
    """A stump over n_rows rows."""
    memset(tree, 0, sizeof(Tree))
    tree.n_rows = n_rows
    tree.itemsize = 1
    tree.labels = malloc(n_rows)
    if tree.labels == NULL or tree_reserve(tree, 7) != OK:
        return NO_MEMORY
    make_stump(tree)
    return OK


cdef void tree_free(Tree* tree) noexcept nogil:
    free(tree.nodes)
    free(tree.leaf_node)
    free(tree.labels)
    memset(tree, 0, sizeof(Tree))


cdef int tree_reserve(Tree* tree, int32_t n_nodes) noexcept nogil:
    """Room for n_nodes nodes."""
    cdef int32_t capacity = max(2 * tree.capacity, n_nodes)
    if n_nodes <= tree.capacity:
        return OK
    if (grow(<void**>&tree.nodes, capacity, sizeof(Node)) != OK
            or grow(<void**>&tree.leaf_node, capacity, sizeof(int32_t)) != OK):
        return NO_MEMORY
    tree.capacity = capacity
    return OK


cdef int labels_reserve(Tree* tree, int32_t n_leaves) noexcept nogil:
    """Labels wide enough for n_leaves leaf numbers."""
    cdef int32_t itemsize = 1 if n_leaves <= 0x100 else 2 if n_leaves <= 0x10000 else 4
    cdef void* wide
    cdef int64_t i
    if itemsize <= tree.itemsize:
        return OK
    wide = malloc(tree.n_rows * itemsize)
    if wide == NULL:
        return NO_MEMORY
    for i in range(tree.n_rows):
        put_at(wide, itemsize, i, value_at(tree.labels, tree.itemsize, i))
    free(tree.labels)
    tree.labels = wide
    tree.itemsize = itemsize
    return OK


cdef inline void init_leaf(Tree* tree, int32_t node, int32_t parent, int32_t depth, int32_t leaf,
                           int64_t n) noexcept nogil:
    cdef Node* p = &tree.nodes[node]
    p.parent = parent
    p.left = NONE
    p.depth = depth
    p.dim = NONE
    p.code = 0
    p.leaf = leaf
    p.n = n
    p.can_split = UNKNOWN
    p.staged = 0
    p.log_rule = NAN
    p.value = 0.0
    tree.leaf_node[leaf] = node


cdef void make_stump(Tree* tree) noexcept nogil:
    """The root alone, every row in leaf 0."""
    init_leaf(tree, ROOT, NONE, 0, 0, tree.n_rows)
    tree.n_nodes = 1
    tree.n_leaves = 1
    memset(tree.labels, 0, tree.n_rows * tree.itemsize)


cdef int32_t add_children(Tree* tree, int32_t node, int32_t dim, uint32_t code, int64_t n_left) noexcept nogil:
    """Split a leaf; the left child keeps its number, the right one takes the next. Labels are the caller's.

    Room for two nodes must have been reserved. Returns the left child.
    """
    cdef int32_t left = tree.n_nodes
    cdef Node* p = &tree.nodes[node]
    init_leaf(tree, left, node, p.depth + 1, p.leaf, n_left)
    init_leaf(tree, left + 1, node, p.depth + 1, tree.n_leaves, p.n - n_left)
    p.left = left
    p.dim = dim
    p.code = code
    p.leaf = NONE
    p.can_split = 1
    p.log_rule = NAN
    p.value = 0.0
    tree.n_nodes += 2
    tree.n_leaves += 1
    return left


cdef void remove_children(Tree* tree, int32_t node, uint32_t* renumber) noexcept nogil:
    """Make a prunable node a leaf; renumber[old leaf number] = new one. Labels are the caller's.

    The merged leaf takes the smaller of the two numbers, the last leaf the larger one; the last pair of nodes
    moves into the freed place, so that pairs stay contiguous.
    """
    cdef Node* p = &tree.nodes[node]
    cdef int32_t left = p.left, last = tree.n_nodes - 2, k
    cdef int32_t kept = tree.nodes[left].leaf, freed = tree.nodes[left + 1].leaf
    cdef int32_t last_leaf = tree.n_leaves - 1
    if freed < kept:
        kept, freed = freed, kept
    for k in range(tree.n_leaves):
        renumber[k] = k
    renumber[last_leaf] = freed
    renumber[freed] = kept
    init_leaf(tree, node, p.parent, p.depth, kept, p.n)
    p.can_split = 1
    if freed != last_leaf:
        tree.leaf_node[freed] = tree.leaf_node[last_leaf]
        tree.nodes[tree.leaf_node[freed]].leaf = freed
    if left != last:
        move_pair(tree, last, left)
    tree.n_nodes -= 2
    tree.n_leaves -= 1


cdef int32_t free_leaf_numbers(Tree* tree, int32_t top, const int32_t* order, int32_t n, int32_t* moved,
                               int32_t* to) noexcept nogil:
    """Keep the smallest leaf number of a subtree for its top, and close the gaps that the others leave."""
    cdef int32_t i, k, kept = tree.n_leaves, n_inside = 0, n_moved = 0, source = tree.n_leaves - 1
    cdef const Node* p
    for i in range(n):
        p = &tree.nodes[order[i]]
        if p.left == NONE:
            tree.leaf_node[p.leaf] = NONE
            kept = p.leaf if p.leaf < kept else kept
            n_inside += 1
    tree.leaf_node[kept] = top
    tree.n_leaves += 1 - n_inside
    for k in range(tree.n_leaves):
        if tree.leaf_node[k] != NONE:
            continue
        while tree.leaf_node[source] == NONE:
            source -= 1
        moved[n_moved] = source
        to[n_moved] = k
        n_moved += 1
        tree.leaf_node[k] = tree.leaf_node[source]
        tree.nodes[tree.leaf_node[k]].leaf = k
        source -= 1
    moved[n_moved] = NONE
    return kept


cdef int32_t collapse(Tree* tree, int32_t top, int32_t* order, int32_t* moved, int32_t* to) noexcept nogil:
    """Make a node a leaf, whatever hangs below it; returns its place, which may have changed.

    It takes the smallest leaf number of its subtree. Leaf numbers stay contiguous: to[k] is the new number of leaf
    moved[k], NONE behind the last. Labels are the caller's. order: scratch for all nodes of the subtree.
    """
    cdef int32_t n = breadth_first(tree, top, order), k, pair, at = 0, last
    cdef int32_t kept = free_leaf_numbers(tree, top, order, n, moved, to)
    cdef int8_t can_split = tree.nodes[top].can_split
    for k in range(n):
        order[k] = tree.nodes[order[k]].left
    init_leaf(tree, top, tree.nodes[top].parent, tree.nodes[top].depth, kept, tree.nodes[top].n)
    tree.nodes[top].can_split = can_split
    while True:                                 # pairs from the last place down: what is moved is never one of them
        pair = NONE
        for k in range(n):
            if order[k] > pair:
                pair, at = order[k], k
        if pair == NONE:
            return top
        order[at] = NONE
        last = tree.n_nodes - 2
        if pair != last:
            move_pair(tree, last, pair)
            if top >= last:
                top += pair - last
        tree.n_nodes -= 2


cdef void put_node(Tree* tree, Node node, int32_t to) noexcept nogil:
    """Write a node at another place and mend its leaf number or its children; what leads to it is the caller's."""
    tree.nodes[to] = node
    if node.left == NONE:
        tree.leaf_node[node.leaf] = to
    else:
        tree.nodes[node.left].parent = to
        tree.nodes[node.left + 1].parent = to


cdef void move_pair(Tree* tree, int32_t source, int32_t to) noexcept nogil:
    """Move two sibling nodes to another place and mend every reference to them."""
    cdef int32_t k
    for k in range(2):
        put_node(tree, tree.nodes[source + k], to + k)
    tree.nodes[tree.nodes[to].parent].left = to


cdef int32_t rotate_edge(Tree* tree, int32_t child, int32_t* order) noexcept nogil:
    """P(L(A,B),C) becomes L(A,P(B,C)) where the child is a left one, else the reverse; the rules go along.

    Parent and child must split the same dimension, so that the partition stays. The two pairs of nodes keep their
    places: what moves is in them. Depths are those of the new tree; n and log_rule of the inner node are the
    caller's, log_rule of the upper one is not known. Returns the inner node.
    """
    cdef int32_t top = tree.nodes[child].parent, outer = tree.nodes[top].left, inner = tree.nodes[child].left
    cdef bint from_left = child == outer
    cdef Node middle = tree.nodes[child], left = tree.nodes[inner], right = tree.nodes[inner + 1]
    cdef Node far = tree.nodes[outer + from_left]           # A, B, C are left, right, far, or else far, left, right
    cdef int32_t to = outer + from_left
    middle.code = tree.nodes[top].code
    tree.nodes[top].code = tree.nodes[child].code
    tree.nodes[top].log_rule = NAN
    put_node(tree, middle, to)
    put_node(tree, left if from_left else right, child)
    put_node(tree, right if from_left else far, inner)
    put_node(tree, far if from_left else left, inner + 1)
    tree.nodes[child].parent = top
    tree.nodes[inner].parent = to
    tree.nodes[inner + 1].parent = to
    shift_depths(tree, child, -1, order)
    shift_depths(tree, inner + from_left, 1, order)
    return to


cdef void shift_depths(Tree* tree, int32_t node, int32_t by, int32_t* order) noexcept nogil:
    """Add to the depth of every node of a subtree."""
    cdef int32_t n = breadth_first(tree, node, order), i
    for i in range(n):
        tree.nodes[order[i]].depth += by


cdef void swap_subtrees(Tree* tree, int32_t a, int32_t b) noexcept nogil:
    """Two subtrees of one depth, neither within the other, change places."""
    cdef int32_t above_a = tree.nodes[a].parent, above_b = tree.nodes[b].parent
    cdef Node kept = tree.nodes[a]
    put_node(tree, tree.nodes[b], a)
    put_node(tree, kept, b)
    tree.nodes[a].parent = above_a
    tree.nodes[b].parent = above_b


cdef int32_t breadth_first(const Tree* tree, int32_t start, int32_t* order) noexcept nogil:
    """order = nodes of the subtree at start, breadth first (the order in which particles pop them)."""
    cdef int32_t i = 0, n = 1, left
    order[0] = start
    while i < n:
        left = tree.nodes[order[i]].left
        if left != NONE:
            order[n] = left
            order[n + 1] = left + 1
            n += 2
        i += 1
    return n


cdef int tree_copy(Tree* to, const Tree* source) noexcept nogil:
    """Nodes and labels of a tree over the same rows."""
    if tree_reserve(to, source.n_nodes) != OK or labels_reserve(to, source.n_leaves) != OK:
        return NO_MEMORY
    if to.itemsize != source.itemsize:
        to.itemsize = source.itemsize           # the buffer is wider than needed; narrow labels fit
    memcpy(to.nodes, source.nodes, source.n_nodes * sizeof(Node))
    memcpy(to.leaf_node, source.leaf_node, source.n_leaves * sizeof(int32_t))
    memcpy(to.labels, source.labels, source.n_rows * source.itemsize)
    to.n_nodes = source.n_nodes
    to.n_leaves = source.n_leaves
    return OK


cdef int32_t tree_depth(const Tree* tree) noexcept nogil:
    """Depth of the deepest leaf."""
    cdef int32_t node, depth = 0
    for node in range(tree.n_nodes):
        if tree.nodes[node].depth > depth:
            depth = tree.nodes[node].depth
    return depth
