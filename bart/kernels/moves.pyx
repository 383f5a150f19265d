"""GrowPrune: the two local moves that change the number of leaves."""

from libc.math cimport exp
from libc.stdint cimport int32_t, uint32_t
from numpy.random cimport bitgen_t
from bart.kernels.columns cimport log_split_at, log_stop_at, predicate_of
from bart.kernels.nodeset cimport NodeSet, add_rule, leaf_set, node_can_split
from bart.kernels.rng cimport below, uniform
from bart.kernels.splits cimport draw_rule
from bart.kernels.suffstat cimport log_L
from bart.kernels.tree cimport (NONE, ROOT, UNKNOWN, Node, Tree, add_children, breadth_first, is_leaf, is_prunable,
                                labels_reserve, remove_children, tree_reserve)
from bart.kernels.types cimport (ABOVE, AT_MOST, MOVE_GROW, MOVE_PRUNE, MUTANT, NO_MEMORY, OK, Decision, Predicate,
                                 Stat, StepInfo)
from bart.kernels.workspace cimport Target, Work, add_old_values, reserve_leaves, sum_leaves, sum_weights


cdef void begin_info(StepInfo* info, int32_t move) noexcept nogil:
    info.move = move
    info.changed = 0
    info.root_changed = 0
    info.n_stages = 0
    info.log_ratio = 0.0
    info.row_visits = 0


cdef bint accept(double log_ratio, bitgen_t* rng) noexcept nogil:
    """Metropolis-Hastings: True with probability min(1, ratio); always consumes one uniform."""
    cdef double u = uniform(rng)
    return log_ratio >= 0.0 or u < exp(log_ratio)


cdef bint leaf_can_split(Tree* tree, int32_t node, Work* work) noexcept nogil:
    """Whether a leaf has a valid split; looked up in its rows once, then kept with the node."""
    cdef Node* p = &tree.nodes[node]
    cdef NodeSet rows
    if p.can_split == UNKNOWN:
        rows = leaf_set(tree.labels, tree.itemsize, p.leaf, p.n)
        if node == ROOT:
            rows.n_where = 0
        p.can_split = node_can_split(&rows, work.columns, work.ops)
    return p.can_split


cdef int32_t list_growable(int32_t* listed, Tree* tree, Work* work) noexcept nogil:
    """Leaves with a valid split, breadth first."""
    cdef int32_t n = breadth_first(tree, ROOT, work.order), i, found = 0
    for i in range(n):
        if is_leaf(tree, work.order[i]) and leaf_can_split(tree, work.order[i], work):
            listed[found] = work.order[i]
            found += 1
    return found


cdef int32_t list_prunable(int32_t* listed, const Tree* tree, Work* work) noexcept nogil:
    """Nodes with two leaf children, breadth first."""
    cdef int32_t n = breadth_first(tree, ROOT, work.order), i, found = 0
    for i in range(n):
        if is_prunable(tree, work.order[i]):
            listed[found] = work.order[i]
            found += 1
    return found


cdef double log_grow(const Work* work, int32_t depth, const Stat* whole, const Stat* left, const Stat* right,
                     bint left_can_split, bint right_can_split) noexcept nogil:
    """Log posterior ratio of splitting a leaf, the rule's prior left out (it cancels against its proposal).

    log L(l) + log L(r) - log L(eta) + log p_s(eta) - log(1 - p_s(eta)) + log(1 - p_s(l)) + log(1 - p_s(r))
    """
    if MUTANT(14):
        left_can_split = right_can_split = True
    return (log_L(left, &work.leaf) + log_L(right, &work.leaf) - log_L(whole, &work.leaf)
            + log_split_at(work.columns, depth) - log_stop_at(work.columns, depth, True)
            + log_stop_at(work.columns, depth + 1, left_can_split)
            + log_stop_at(work.columns, depth + 1, right_can_split))


cdef int32_t count_prunable_after_grow(const Tree* tree, int32_t node, int32_t n_prunable) noexcept nogil:
    """#prunable(T'): the new parent counts, its own parent no longer does."""
    cdef int32_t parent = tree.nodes[node].parent
    if MUTANT(5):
        return n_prunable if n_prunable > 0 else 1
    if MUTANT(7):
        return n_prunable + 1
    return n_prunable + 1 - (parent != NONE and is_prunable(tree, parent))


cdef void sum_left(Stat* whole, Stat* left, Work* work, const Tree* tree, const Target* target, int32_t node,
                   const Decision* rule) noexcept nogil:
    """One read of the residual: the target's sums by leaf, and over the rows that a rule sends left of a leaf.

    Of the weights another.
    """
    cdef const Node* p = &tree.nodes[node]
    cdef Predicate goes_left = predicate_of(work.columns, rule.dim, rule.code, AT_MOST)
    work.ops.leaf_sums(work.leaf_sum, work.lanes, tree.labels, tree.itemsize, tree.n_leaves, target.weighted,
                       tree.n_rows, p.leaf, &goes_left, &left.n, &left.s)
    left.w = left.n
    if work.weights == NULL:
        sum_weights(work, tree)
    else:
        work.ops.leaf_sums(work.leaf_weight, work.lanes, tree.labels, tree.itemsize, tree.n_leaves, work.weights,
                           tree.n_rows, p.leaf, &goes_left, &left.n, &left.w)
    left.s += left.w * work.old_value[p.leaf]
    add_old_values(work, tree)
    whole.n = p.n
    whole.w = work.leaf_weight[p.leaf]
    whole.s = work.leaf_sum[p.leaf]


cdef int step_grow(Tree* tree, Work* work, StepInfo* info, const Target* target, const LocalMoves* moves,
                   bitgen_t* rng) noexcept nogil:
    """Grow (samplers.md 2): a growable leaf uniformly, its rule from the prior.

    log ratio = log_grow + log #growable(T) - log #prunable(T') + log p_prune - log p_grow. On return leaf_sum holds
    the target's sums of the new tree's leaves.
    """
    cdef int32_t n_growable = list_growable(work.listed, tree, work), node, left_node, new_leaf = tree.n_leaves
    cdef int32_t n_prunable, leaf
    cdef Decision rule
    cdef Stat whole, left, right
    cdef NodeSet left_rows, right_rows
    cdef bint left_can_split, right_can_split
    begin_info(info, MOVE_GROW)
    if n_growable == 0:
        sum_leaves(work, tree, target)
        return OK
    node = work.listed[below(n_growable, rng)]
    leaf = tree.nodes[node].leaf
    if (reserve_leaves(work, tree.n_leaves + 1) or tree_reserve(tree, tree.n_nodes + 2)
            or labels_reserve(tree, tree.n_leaves + 1)):
        return NO_MEMORY
    left_rows = leaf_set(tree.labels, tree.itemsize, leaf, tree.nodes[node].n)
    if not draw_rule(&rule, &left_rows, work, rng):
        sum_leaves(work, tree, target)
        return OK
    info.row_visits = tree.nodes[node].n
    sum_left(&whole, &left, work, tree, target, node, &rule)
    right.n, right.w, right.s = whole.n - left.n, whole.w - left.w, whole.s - left.s
    right_rows = left_rows
    add_rule(&left_rows, predicate_of(work.columns, rule.dim, rule.code, AT_MOST))
    add_rule(&right_rows, predicate_of(work.columns, rule.dim, rule.code, ABOVE))
    left_rows.n, right_rows.n = left.n, right.n
    left_can_split = node_can_split(&left_rows, work.columns, work.ops)
    right_can_split = node_can_split(&right_rows, work.columns, work.ops)
    n_prunable = count_prunable_after_grow(tree, node, list_prunable(work.listed, tree, work))
    info.log_ratio = (log_grow(work, tree.nodes[node].depth, &whole, &left, &right, left_can_split, right_can_split)
                      + work.log_count[n_growable] - work.log_count[n_prunable] + moves.log_prune_to_grow)
    if accept(info.log_ratio, rng) or (moves.authors and node == ROOT):
        work.ops.relabel(tree.labels, tree.itemsize, new_leaf, right_rows.where, 2, tree.n_rows)
        left_node = add_children(tree, node, rule.dim, rule.code, left.n)
        tree.nodes[left_node].can_split = left_can_split
        tree.nodes[left_node + 1].can_split = right_can_split
        work.leaf_sum[leaf] = left.s
        work.leaf_sum[new_leaf] = right.s
        work.leaf_weight[leaf] = left.w
        work.leaf_weight[new_leaf] = right.w
        work.old_value[new_leaf] = work.old_value[leaf]
        info.changed = 1
        info.root_changed = node == ROOT
    return OK


cdef void join_leaves(double* by_leaf, double* scratch, int32_t n_leaves, const uint32_t* renumber) noexcept nogil:
    """Sums by leaf number, where numbers of a prune become one."""
    cdef int32_t l
    for l in range(n_leaves):
        scratch[l] = by_leaf[l]
        by_leaf[l] = 0.0
    for l in range(n_leaves):
        by_leaf[renumber[l]] += scratch[l]


cdef int step_prune(Tree* tree, Work* work, StepInfo* info, const Target* target, const LocalMoves* moves,
                    bitgen_t* rng) noexcept nogil:
    """Prune, the exact inverse of grow. Labels keep their old numbers until the step is finished (`renumber`)."""
    cdef int32_t n_prunable = list_prunable(work.listed, tree, work), node, left_node, n_growable, n_leaves
    cdef Stat whole, left, right
    cdef bint left_can_split, right_can_split
    begin_info(info, MOVE_PRUNE)
    sum_leaves(work, tree, target)
    if n_prunable == 0:
        return OK
    node = work.listed[below(n_prunable, rng)]
    info.row_visits = tree.nodes[node].n
    left_node = tree.nodes[node].left
    left_can_split = leaf_can_split(tree, left_node, work)
    right_can_split = leaf_can_split(tree, left_node + 1, work)
    n_growable = list_growable(work.listed, tree, work) + 1 - left_can_split - right_can_split
    left.n, right.n = tree.nodes[left_node].n, tree.nodes[left_node + 1].n
    left.w = work.leaf_weight[tree.nodes[left_node].leaf]
    right.w = work.leaf_weight[tree.nodes[left_node + 1].leaf]
    left.s, right.s = work.leaf_sum[tree.nodes[left_node].leaf], work.leaf_sum[tree.nodes[left_node + 1].leaf]
    whole.n, whole.w, whole.s = left.n + right.n, left.w + right.w, left.s + right.s
    info.log_ratio = -(log_grow(work, tree.nodes[node].depth, &whole, &left, &right, left_can_split, right_can_split)
                       + work.log_count[n_growable] - work.log_count[n_prunable] + moves.log_prune_to_grow)
    if accept(info.log_ratio, rng):
        n_leaves = tree.n_leaves
        remove_children(tree, node, work.renumber)
        join_leaves(work.leaf_sum, work.delta, n_leaves, work.renumber)
        join_leaves(work.leaf_weight, work.delta, n_leaves, work.renumber)
        work.renumber_pending = True
        info.changed = 1
        info.root_changed = node == ROOT
    return OK
