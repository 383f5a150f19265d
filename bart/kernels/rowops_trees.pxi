# The value of a stored tree for a block of rows: a part of rowops_body.pxi.

# Values of a subtree for the rows of a block: one number for all of them at a leaf.
cdef struct Values:
    const double* of_row    # NULL: the constant
    double constant


cdef inline void select_rows(double* to, const double* x, double tau, const Values* left, const Values* right,
                             bint left_varies, bint right_varies, bint adds, int32_t n) noexcept nogil:
    """to = (or +=) x <= tau ? left : right; the last three are constants of the caller."""
    cdef Lanes l = lanes_fill(left.constant), r = lanes_fill(right.constant), found
    cdef int32_t i
    for i in range(0, n, 8):
        if left_varies:
            l = lanes_load(left.of_row + i)
        if right_varies:
            r = lanes_load(right.of_row + i)
        found = lanes_select(lanes_load(x + i), tau, l, r)
        lanes_store(to + i, lanes_add(lanes_load(to + i), found) if adds else found)


cdef void select_values(double* to, const double* x, double tau, const Values* left, const Values* right, bint adds,
                        int32_t n) noexcept nogil:
    if adds:
        if left.of_row != NULL and right.of_row != NULL:
            select_rows(to, x, tau, left, right, True, True, True, n)
        elif left.of_row != NULL:
            select_rows(to, x, tau, left, right, True, False, True, n)
        elif right.of_row != NULL:
            select_rows(to, x, tau, left, right, False, True, True, n)
        else:
            select_rows(to, x, tau, left, right, False, False, True, n)
    elif left.of_row != NULL and right.of_row != NULL:
        select_rows(to, x, tau, left, right, True, True, False, n)
    elif left.of_row != NULL:
        select_rows(to, x, tau, left, right, True, False, False, n)
    elif right.of_row != NULL:
        select_rows(to, x, tau, left, right, False, True, False, n)
    else:
        select_rows(to, x, tau, left, right, False, False, False, n)


cdef Values values_of(const StoredNode* tree, int32_t node, const double* X, int32_t n,
                      double* free_rows) noexcept nogil:
    """Values of a subtree, children first; free_rows has room for a block of rows at each level from here down."""
    cdef Values found, left, right
    cdef const StoredNode* p = tree + node
    found.of_row = NULL
    found.constant = p.value
    if p.dim >= 0:
        left = values_of(tree, p.left, X, n, free_rows)
        right = values_of(tree, p.left + 1, X, n, free_rows if left.of_row == NULL else free_rows + TREE_ROWS)
        select_values(free_rows, X + <int64_t>p.dim * TREE_ROWS, p.value, &left, &right, False, n)
        found.of_row = free_rows
    return found


cdef void walk(double* out, const double* X, int32_t n, const StoredNode* tree) noexcept nogil:
    """Each row from the root to its leaf: for trees of more than MOST_SELECTED nodes."""
    cdef int32_t i, k
    for i in range(n):
        k = 0
        while tree[k].dim >= 0:
            k = tree[k].left + (X[<int64_t>tree[k].dim * TREE_ROWS + i] > tree[k].value)
        out[i] += tree[k].value


cdef void add_tree(double* out, const double* X, int32_t n, const StoredNode* tree, int64_t n_nodes,
                   double* scratch) noexcept nogil:
    cdef Values left, right
    cdef int32_t i
    if n_nodes > MOST_SELECTED:
        walk(out, X, n, tree)
    elif tree.dim < 0:
        for i in range(n):
            out[i] += tree.value
    else:
        left = values_of(tree, tree.left, X, n, scratch)
        right = values_of(tree, tree.left + 1, X, n, scratch if left.of_row == NULL else scratch + TREE_ROWS)
        select_values(out, X + <int64_t>tree.dim * TREE_ROWS, tree.value, &left, &right, True, n)
