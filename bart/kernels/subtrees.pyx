"""A subtree under other rules: its posterior beside the one it has, and the move from one to the other.

The proposed subtree is evaluated through the pool, top down; an empty leaf is a rejection.
"""

from libc.math cimport INFINITY, isnan
from libc.stdint cimport int32_t, int64_t
from numpy.random cimport bitgen_t
from bart.kernels.columns cimport log_stop_at
from bart.kernels.moves cimport accept, leaf_can_split
from bart.kernels.nodeset cimport NodeSet
from bart.kernels.pool cimport (pool_ask, pool_can_split, pool_label, pool_pair, pool_prepare_label, pool_root,
                                pool_split)
from bart.kernels.splits cimport log_rule
from bart.kernels.suffstat cimport log_L
from bart.kernels.tree cimport NONE, ROOT, Node, Tree, breadth_first, is_leaf
from bart.kernels.types cimport MUTANT, NO_MEMORY, OK, Decision, Stat, StepInfo
from bart.kernels.workspace cimport Work


cdef int32_t list_internal(int32_t* listed, const Tree* tree, int32_t* order) noexcept nogil:
    """Internal nodes, breadth first."""
    cdef int32_t n = breadth_first(tree, ROOT, order), i, found = 0
    for i in range(n):
        if not is_leaf(tree, order[i]):
            listed[found] = order[i]
            found += 1
    return found


cdef void load_children(Work* work, const Tree* tree, int32_t node) noexcept nogil:
    """Both children of a tree node as it stands, with counts; work.listed[tree node] = pool number."""
    cdef const Node* p = &tree.nodes[node]
    cdef int32_t child = pool_pair(&work.pool, work.listed[node], p.dim, p.code), side
    for side in range(2):
        work.listed[p.left + side] = child + side
        work.pool.nodes[child + side].stat.n = tree.nodes[p.left + side].n


cdef int load_path(int32_t* top_in_pool, Work* work, const Tree* tree, int32_t top) noexcept nogil:
    """Fill the pool with the path from the root to a node, siblings included, with room for all that hangs below."""
    cdef int32_t depth = tree.nodes[top].depth, k, node = top
    cdef Stat whole
    whole.n, whole.w, whole.s = tree.n_rows, tree.n_rows, 0.0
    if pool_root(&work.pool, whole, &work.leaf, tree.n_nodes + 2 * depth, 0) != OK:
        return NO_MEMORY
    for k in range(depth - 1, -1, -1):                      # the ancestors of top, kept in `order`
        node = tree.nodes[node].parent
        work.order[k] = node
    work.listed[ROOT] = 0
    for k in range(depth):
        load_children(work, tree, work.order[k])
    top_in_pool[0] = work.listed[top]
    return OK


cdef int fill_log_rules(Work* work, Tree* tree, int32_t top) noexcept nogil:
    """log_rule of every internal node of the subtree as it stands; the path to `top` is in the pool."""
    cdef int32_t n = breadth_first(tree, top, work.order), i
    cdef NodeSet rows
    cdef Node* p
    for i in range(n):
        p = &tree.nodes[work.order[i]]
        if p.left == NONE:
            continue
        if isnan(p.log_rule):
            if pool_ask(&rows, &work.pool, work.listed[work.order[i]], work.columns, work.ops) != OK:
                return NO_MEMORY
            p.log_rule = log_rule(&rows, p.dim, p.code, work)
        load_children(work, tree, work.order[i])
    return OK


cdef double old_log_posterior(Work* work, Tree* tree, int32_t top, bint with_top_rule) noexcept nogil:
    """log prior (what the move can change of it) + log likelihood of the subtree as it stands."""
    cdef int32_t n = breadth_first(tree, top, work.order), i
    cdef Stat stat
    cdef const Node* p
    cdef double total = 0.0
    for i in range(n):
        p = &tree.nodes[work.order[i]]
        if p.left != NONE:
            if (i > 0 or with_top_rule) and not MUTANT(9):
                total += p.log_rule
        else:
            stat.n, stat.w, stat.s = p.n, work.leaf_weight[p.leaf], work.leaf_sum[p.leaf]
            total += log_L(&stat, &work.leaf)
            if not MUTANT(9):
                total += log_stop_at(work.columns, p.depth, leaf_can_split(tree, work.order[i], work))
    return total


cdef int new_log_posterior(double* total, Work* work, const Tree* tree, int32_t top, int32_t top_in_pool,
                           const double* target, bint with_top_rule) noexcept nogil:
    """The same under the rules now written in the tree; -inf where a leaf would be empty.

    work.listed[tree node] = pool number of its new version; can_split and the rule's prior are left in the pool node.
    """
    cdef int32_t n = breadth_first(tree, top, work.order), i, node, child
    cdef NodeSet rows
    cdef const Node* p
    cdef double log_prior
    total[0] = 0.0
    work.listed[top] = top_in_pool
    for i in range(n):
        p = &tree.nodes[work.order[i]]
        node = work.listed[work.order[i]]
        if p.left == NONE:
            if pool_can_split(node, &work.pool, work.columns, work.ops) != OK:
                return NO_MEMORY
            total[0] += work.pool.nodes[node].log_L
            if not MUTANT(9):
                total[0] += log_stop_at(work.columns, p.depth, work.pool.nodes[node].can_split)
            continue
        if pool_ask(&rows, &work.pool, node, work.columns, work.ops) != OK:
            return NO_MEMORY
        log_prior = log_rule(&rows, p.dim, p.code, work)
        if log_prior == -INFINITY:
            total[0] = -INFINITY
            return OK
        if (i > 0 or with_top_rule) and not MUTANT(9):
            total[0] += log_prior
        if pool_split(&child, &work.pool, node, p.dim, p.code, target, work.columns, &work.leaf, work.ops) != OK:
            return NO_MEMORY
        work.listed[p.left] = child
        work.listed[p.left + 1] = child + 1
        work.pool.nodes[node].log_rule = log_prior
    return OK


cdef int commit_subtree(Tree* tree, Work* work, int32_t top) noexcept nogil:
    """Counts, caches, leaf sums and labels of the subtree whose new version is in the pool."""
    cdef int32_t n = breadth_first(tree, top, work.order), i, node
    cdef Node* p
    for i in range(n):
        if is_leaf(tree, work.order[i]):
            if pool_prepare_label(&work.pool, work.listed[work.order[i]], work.columns, work.ops) != OK:
                return NO_MEMORY
    for i in range(n):
        p = &tree.nodes[work.order[i]]
        node = work.listed[work.order[i]]
        p.n = work.pool.nodes[node].stat.n
        if p.left != NONE:
            p.log_rule = work.pool.nodes[node].log_rule
        else:
            p.can_split = work.pool.nodes[node].can_split
            work.leaf_sum[p.leaf] = work.pool.nodes[node].stat.s
            work.leaf_weight[p.leaf] = work.pool.nodes[node].stat.w
            pool_label(tree.labels, tree.itemsize, p.leaf, &work.pool, node, work.columns, work.ops)
    return OK


cdef int64_t rows_of_rules(const Tree* tree, int32_t top, int32_t* order) noexcept nogil:
    """Row visits of other rules in a subtree: the rows that its internal nodes hold under the old rules, which are
    counted in the tree until a commit. How far a proposal with an empty leaf is evaluated is no property of the
    algorithm."""
    cdef int32_t n = breadth_first(tree, top, order), i
    cdef int64_t rows = 0
    for i in range(n):
        if not is_leaf(tree, order[i]):
            rows += tree.nodes[order[i]].n
    return rows


cdef void sum_region(Work* work, const Tree* tree, int32_t top, int32_t in_pool) noexcept nogil:
    """Statistic of a subtree's root in the pool from its leaves' sums."""
    cdef int32_t n = breadth_first(tree, top, work.order), i
    cdef Stat* stat = &work.pool.nodes[in_pool].stat
    stat.w = 0.0
    stat.s = 0.0
    for i in range(n):
        if is_leaf(tree, work.order[i]):
            stat.w += work.leaf_weight[tree.nodes[work.order[i]].leaf]
            stat.s += work.leaf_sum[tree.nodes[work.order[i]].leaf]


cdef int decide_subtree(Tree* tree, Work* work, StepInfo* info, const double* target, int32_t top, int32_t in_pool,
                        double before, bint with_top_rule, bitgen_t* rng) noexcept nogil:
    """Evaluate the rules now written in the tree against `before`, accept or not, and commit; info says which."""
    cdef double after
    cdef int status
    info.row_visits += rows_of_rules(tree, top, work.order)
    sum_region(work, tree, top, in_pool)
    status = new_log_posterior(&after, work, tree, top, in_pool, target, with_top_rule)
    info.log_ratio = after - before
    if status == OK and after > -INFINITY and accept(info.log_ratio, rng):
        status = commit_subtree(tree, work, top)
        info.changed = status == OK
        info.root_changed = info.changed and top == ROOT
    return status


cdef int try_rule(Tree* tree, Work* work, StepInfo* info, const double* target, int32_t top, int32_t in_pool,
                  Decision rule, bint with_top_rule, double log_proposals, bitgen_t* rng) noexcept nogil:
    """Another rule at `top`, accepted with the posterior ratio of its subtree; its path is in the pool.

    Without `with_top_rule` the prior of the rule itself is left out on both sides, for a proposal that cancels it;
    log_proposals is what the log ratio has beside the posteriors.
    """
    cdef Decision old = rule_of(&tree.nodes[top])
    cdef double before
    cdef int status
    if fill_log_rules(work, tree, top) != OK:
        return NO_MEMORY
    before = old_log_posterior(work, tree, top, with_top_rule) - log_proposals
    set_rule(&tree.nodes[top], rule)
    status = decide_subtree(tree, work, info, target, top, in_pool, before, with_top_rule, rng)
    if not info.changed:
        set_rule(&tree.nodes[top], old)
    return status
