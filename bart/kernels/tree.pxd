"""One tree: its nodes, and the leaf number of every training row."""

from libc.stdint cimport int8_t, int32_t, int64_t, uint32_t

cdef enum:
    ROOT = 0
    NONE = -1
    UNKNOWN = -1

cdef struct Node:
    int32_t parent          # NONE at the root
    int32_t left            # left child, the right one is left + 1; NONE at a leaf
    int32_t depth           # 0 at the root
    int32_t dim             # column of the rule; NONE at a leaf
    uint32_t code           # rows with codes <= code go left
    int32_t leaf            # leaf number, 0..n_leaves-1; NONE at an internal node
    int64_t n               # training rows
    int8_t can_split        # whether the rows allow a valid split; UNKNOWN until asked
    int8_t staged           # bookkeeping "authors" only: this leaf costs a particle stage though it may not split
    double log_rule         # log prior of the rule given the node's rows; NAN until asked
    double value            # leaf value mu

cdef struct Tree:
    Node* nodes             # nodes[ROOT] is the root; children lie in pairs at odd indices
    int32_t n_nodes
    int32_t capacity
    int32_t n_leaves
    int32_t* leaf_node      # (capacity,): node of each leaf number
    void* labels            # (n_rows,): leaf number of each row
    int32_t itemsize        # bytes a label: 1, 2 or 4
    int64_t n_rows

cdef int tree_init(Tree* tree, int64_t n_rows) noexcept nogil
cdef void tree_free(Tree* tree) noexcept nogil
cdef int tree_reserve(Tree* tree, int32_t n_nodes) noexcept nogil
cdef int labels_reserve(Tree* tree, int32_t n_leaves) noexcept nogil
cdef void make_stump(Tree* tree) noexcept nogil
cdef int32_t add_children(Tree* tree, int32_t node, int32_t dim, uint32_t code, int64_t n_left) noexcept nogil
cdef void remove_children(Tree* tree, int32_t node, uint32_t* renumber) noexcept nogil
cdef int32_t collapse(Tree* tree, int32_t top, int32_t* order, int32_t* moved, int32_t* to) noexcept nogil
cdef int32_t rotate_edge(Tree* tree, int32_t child, int32_t* order) noexcept nogil
cdef void swap_subtrees(Tree* tree, int32_t a, int32_t b) noexcept nogil
cdef int32_t breadth_first(const Tree* tree, int32_t start, int32_t* order) noexcept nogil
cdef int tree_copy(Tree* to, const Tree* source) noexcept nogil
cdef int32_t tree_depth(const Tree* tree) noexcept nogil

cdef inline bint is_leaf(const Tree* tree, int32_t node) noexcept nogil:
    return tree.nodes[node].left == NONE

cdef inline bint is_prunable(const Tree* tree, int32_t node) noexcept nogil:
    """An internal node with two leaf children."""
    cdef int32_t left = tree.nodes[node].left
    return left != NONE and tree.nodes[left].left == NONE and tree.nodes[left + 1].left == NONE
