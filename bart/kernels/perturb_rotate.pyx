"""Perturb and rotate: moves of rules that share a dimension.

Neither changes the number of leaves or the dimension of a rule, so neither is irreducible alone.
"""

from libc.math cimport INFINITY, isnan, log
from libc.stdint cimport int32_t, int64_t, uint32_t
from numpy.random cimport bitgen_t
from bart.kernels.columns cimport log_split_at, log_stop_at, mass_between
from bart.kernels.moves cimport accept, begin_info, leaf_can_split
from bart.kernels.nodeset cimport NodeSet
from bart.kernels.pool cimport pool_ask, pool_pair
from bart.kernels.rng cimport below
from bart.kernels.splits cimport draw_code, log_rule
from bart.kernels.subtrees cimport list_internal, load_children, load_path, rule_of, try_rule
from bart.kernels.tree cimport NONE, ROOT, Node, Tree, breadth_first, is_leaf, rotate_edge
from bart.kernels.types cimport MOVE_PERTURB, MOVE_ROTATE, MUTANT, NO_MEMORY, OK, Decision, StepInfo
from bart.kernels.workspace cimport Target, Work, reserve_target, sum_leaves, sum_leaves_and_target


cdef void find_interval(uint32_t* low, uint32_t* high, const Tree* tree, int32_t node, Work* work) noexcept nogil:
    """Codes low <= code < high that the other rules of a node's dimension leave to its own rule.

    The column's range, cut by the rules above and below the node; beyond them a leaf would be empty whatever the
    rows. Neither the node's own rule nor its rows have a say, so a move within the interval leaves it as it is.
    """
    cdef int32_t dim = tree.nodes[node].dim, at = node, parent = tree.nodes[node].parent, side, n, i
    cdef const Node* p
    low[0] = 0
    high[0] = work.columns.last_code[dim]
    while parent != NONE:
        p = &tree.nodes[parent]
        if p.dim == dim:
            if at == p.left:
                high[0] = min(high[0], p.code)
            else:
                low[0] = max(low[0], p.code + 1)
        at, parent = parent, p.parent
    for side in range(2):
        n = breadth_first(tree, tree.nodes[node].left + side, work.order)
        for i in range(n):
            p = &tree.nodes[work.order[i]]
            if p.dim == dim:
                if side == 0:
                    low[0] = max(low[0], p.code + 1)
                else:
                    high[0] = min(high[0], p.code)
    if MUTANT(22):                                  # an interval around the old code, which moves with it
        low[0] = max(low[0], max(tree.nodes[node].code, 1) - 1)
        high[0] = min(high[0], tree.nodes[node].code + 2)


cdef int step_perturb(Tree* tree, Work* work, StepInfo* info, const Target* target, bitgen_t* rng) noexcept nogil:
    """Perturb (samplers.md 4.4): a uniform internal node, a new code of its rule by width on `find_interval`.

    ratio = posterior ratio of the subtree x mass(old code) / mass(new code). The last factor is the inverse of the
    ratio of the rule's own priors, as the node keeps its rows: both are left out.
    """
    cdef int32_t found = list_internal(work.listed, tree, work.order), top, in_pool
    cdef uint32_t low, high
    cdef Decision rule
    cdef const double* values
    begin_info(info, MOVE_PERTURB)
    if reserve_target(work) != OK:
        return NO_MEMORY
    if found == 0:
        sum_leaves(work, tree, target)
        return OK
    top = work.listed[below(found, rng)]
    find_interval(&low, &high, tree, top, work)
    rule = rule_of(&tree.nodes[top])
    rule.code = draw_code(low, high, work.columns, rule.dim, rng)
    if rule.code == tree.nodes[top].code:
        sum_leaves(work, tree, target)
        return OK
    values = sum_leaves_and_target(work, tree, target)
    if load_path(&in_pool, work, tree, top) != OK:
        return NO_MEMORY
    return try_rule(tree, work, info, values, top, in_pool, rule, MUTANT(21), 0.0, rng)


cdef int32_t list_edges(int32_t* listed, const Tree* tree, int32_t* order) noexcept nogil:
    """Internal nodes that split the dimension of their parent (there is one per edge), breadth first."""
    cdef int32_t n = breadth_first(tree, ROOT, order), i, found = 0
    for i in range(1, n):
        if not is_leaf(tree, order[i]) and tree.nodes[order[i]].dim == tree.nodes[tree.nodes[order[i]].parent].dim:
            listed[found] = order[i]
            found += 1
    return found


cdef int32_t draw_by_parent(const int32_t* listed, int32_t found, const Tree* tree, bitgen_t* rng) noexcept nogil:
    """Mutant 19: a parent first, then one of its edges (an only child counts twice)."""
    cdef int32_t n_parents = 0, i = 0, k
    for i in range(found):
        n_parents += i == 0 or tree.nodes[listed[i]].parent != tree.nodes[listed[i - 1]].parent
    k = <int32_t>below(n_parents, rng)
    for i in range(found):
        k -= i == 0 or tree.nodes[listed[i]].parent != tree.nodes[listed[i - 1]].parent
        if k < 0:
            break
    if i + 1 < found and tree.nodes[listed[i]].parent == tree.nodes[listed[i + 1]].parent:
        i += <int32_t>below(2, rng)
    return listed[i]


cdef double log_shift(Tree* tree, Work* work, int32_t top, int32_t by) noexcept nogil:
    """Change of log p_s and log(1 - p_s) over all nodes of a subtree whose depth changes."""
    cdef int32_t n = breadth_first(tree, top, work.order), i
    cdef const Node* p
    cdef bint can_split
    cdef double total = 0.0
    for i in range(n):
        p = &tree.nodes[work.order[i]]
        if p.left != NONE:
            total += log_split_at(work.columns, p.depth + by) - log_split_at(work.columns, p.depth)
        else:
            can_split = leaf_can_split(tree, work.order[i], work)
            total += (log_stop_at(work.columns, p.depth + by, can_split)
                      - log_stop_at(work.columns, p.depth, can_split))
    return total


cdef int ask_inner_rules(double* before, double* after, int64_t* n_after, Work* work, Tree* tree,
                         int32_t child) noexcept nogil:
    """The inner rule's log prior before a rotation given AB (or BC), and after it given BC (or AB), with its rows."""
    cdef int32_t top = tree.nodes[child].parent, in_pool, pair
    cdef const Node* upper = &tree.nodes[top]
    cdef Node* lower = &tree.nodes[child]
    cdef bint from_left = child == upper.left
    cdef int64_t n_rises = tree.nodes[lower.left + 1 - from_left].n
    cdef NodeSet rows
    if load_path(&in_pool, work, tree, top) != OK:
        return NO_MEMORY
    if isnan(lower.log_rule):
        load_children(work, tree, top)
        if pool_ask(&rows, &work.pool, work.listed[child], work.columns, work.ops) != OK:
            return NO_MEMORY
        lower.log_rule = log_rule(&rows, lower.dim, lower.code, work)
    before[0] = lower.log_rule
    n_after[0] = upper.n - n_rises
    pair = pool_pair(&work.pool, in_pool, lower.dim, lower.code)
    work.pool.nodes[pair + 1 - from_left].stat.n = n_rises
    work.pool.nodes[pair + from_left].stat.n = n_after[0]
    if pool_ask(&rows, &work.pool, pair + from_left, work.columns, work.ops) != OK:
        return NO_MEMORY
    after[0] = log_rule(&rows, upper.dim, upper.code, work)
    return OK


cdef int step_rotate(Tree* tree, Work* work, StepInfo* info, const Target* target, bitgen_t* rng) noexcept nogil:
    """Rotate (samplers.md 4.4): a uniform (parent, child) edge within one dimension; P(L(A,B),C) <-> L(A,P(B,C)).

    Partition and likelihood stay, and so does the number of such edges. With U(rule | rows) the rule's prior,
    log ratio = log U(P | BC) - log U(L | AB) + log mass(L) - log mass(P) + log_shift(A, -1) + log_shift(C, 1)
    from left to right, where mass(L) / mass(P) is the ratio of the upper rules' priors, both given ABC.
    """
    cdef int32_t found = list_edges(work.listed, tree, work.order), child, inner, rises
    cdef const Node* lower
    cdef const Node* upper
    cdef int64_t n_after
    cdef double before, after
    begin_info(info, MOVE_ROTATE)
    sum_leaves(work, tree, target)
    if found == 0:
        return OK
    child = draw_by_parent(work.listed, found, tree, rng) if MUTANT(19) else work.listed[below(found, rng)]
    if ask_inner_rules(&before, &after, &n_after, work, tree, child) != OK:
        return NO_MEMORY
    lower = &tree.nodes[child]
    upper = &tree.nodes[lower.parent]
    rises = lower.left if child == upper.left else lower.left + 1
    info.row_visits = upper.n + lower.n + n_after
    info.log_ratio = (after - before + log(mass_between(work.columns, lower.dim, lower.code, lower.code + 1))
                      - log(mass_between(work.columns, lower.dim, upper.code, upper.code + 1))
                      + log_shift(tree, work, rises, -1)
                      + log_shift(tree, work, 2 * upper.left + 1 - child, 1))
    if accept(INFINITY if MUTANT(20) else info.log_ratio, rng):
        inner = rotate_edge(tree, child, work.order)
        tree.nodes[inner].n = n_after
        tree.nodes[inner].log_rule = after
        info.changed = 1
        info.root_changed = tree.nodes[inner].parent == ROOT
    return OK
