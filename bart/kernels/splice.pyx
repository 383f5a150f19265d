"""Insert and delete: a node comes between a subtree and its parent, or goes.

Insert at v: a new node in its place, with a rule from the prior given its rows; the child on a side is a new leaf, the
other one is what hung at v. Delete takes a leaf (of any tree but a stump) and its parent away.

An insert's draw (node, rule, side) and the leaf that undoes it determine each other: the ways from T to T' pair off
with those back. Where each pair balances so do their sums, so that the ratio is that of one pair even where several
lead to the same T', as the two sides do at a leaf.
"""

from libc.math cimport INFINITY, log
from libc.stdint cimport int32_t
from numpy.random cimport bitgen_t
from bart.kernels.adopt cimport adopt
from bart.kernels.columns cimport log_split_at, log_stop_at
from bart.kernels.moves cimport accept, begin_info
from bart.kernels.nodeset cimport NodeSet
from bart.kernels.regions cimport push_split
from bart.kernels.pool cimport PoolNode, pool_ask, pool_can_split, pool_reserve, pool_split
from bart.kernels.rng cimport below, uniform
from bart.kernels.splits cimport draw_rule, log_rule
from bart.kernels.subtrees cimport fill_log_rules, load_path, old_log_posterior, rule_of, rows_of_rules, sum_region
from bart.kernels.suffstat cimport log_L
from bart.kernels.tree cimport NONE, ROOT, Tree, breadth_first, is_leaf
from bart.kernels.types cimport MOVE_DELETE, MOVE_INSERT, MUTANT, NO_MEMORY, OK, Decision, StepInfo
from bart.kernels.workspace cimport Target, Work, reserve_target, sum_leaves, sum_leaves_and_target

cdef enum:
    NEW_LEAF = -1           # in place of a tree node: what is not in the tree yet
    NEW_NODE = -2


cdef double old_region(Work* work, Tree* tree, const Splice* splice) noexcept nogil:
    """log prior + log likelihood of the subtree as it stands, but for the priors of rules that go or change."""
    cdef bint recodes = splice.top != splice.place
    cdef double total = old_log_posterior(work, tree, splice.top, not recodes and splice.inserts)
    cdef int32_t n = breadth_first(tree, splice.top, work.order), i
    if recodes and not splice.inserts:
        total -= tree.nodes[splice.place].log_rule
    for i in range(n):
        if not is_leaf(tree, work.order[i]):
            total += log_split_at(work.columns, tree.nodes[work.order[i]].depth)
    return total


cdef int new_leaf(double* total, Work* work, int32_t node, int32_t depth) noexcept nogil:
    """What a leaf of the new region adds."""
    if pool_can_split(node, &work.pool, work.columns, work.ops) != OK:
        return NO_MEMORY
    total[0] += work.pool.nodes[node].log_L + log_stop_at(work.columns, depth, work.pool.nodes[node].can_split)
    return OK


cdef int new_node(double* total, int32_t* child, Work* work, int32_t node, int32_t depth, Decision rule,
                  bint with_rule, const double* target) noexcept nogil:
    """What an internal node of the new region adds, and its children in the pool; -inf in all where one is empty."""
    cdef NodeSet rows
    if with_rule:
        if pool_ask(&rows, &work.pool, node, work.columns, work.ops) != OK:
            return NO_MEMORY
        total[0] += log_rule(&rows, rule.dim, rule.code, work)
        if total[0] == -INFINITY:
            return OK
    total[0] += log_split_at(work.columns, depth)
    return pool_split(child, &work.pool, node, rule.dim, rule.code, target, work.columns, &work.leaf, work.ops)


cdef int32_t replaced(const Splice* splice, int32_t node) noexcept nogil:
    """What stands in the new region where a node of the tree stood."""
    if node != splice.place:
        return node
    return NEW_NODE if splice.inserts else splice.kept


cdef int new_region(double* total, int32_t* last_split, Work* work, const Tree* tree, const Splice* splice,
                    const double* target) noexcept nogil:
    """The same of what replaces it, but for the priors of rules that come or change; -inf where a leaf would be empty.

    Its rules become splits of the pool, breadth first; `last_split` is the last of them.
    """
    cdef int32_t n = 1, i = 0, k, source, node, depth, child
    cdef Decision rule
    cdef bint recodes
    total[0] = 0.0
    last_split[0] = NONE
    work.order[0] = replaced(splice, splice.top)
    work.mapped[0] = work.region
    while i < n:
        source, node = work.order[i], work.mapped[i]
        depth = tree.nodes[source].depth if MUTANT(29) and source >= 0 else work.pool.nodes[node].depth
        i += 1
        if source == NEW_LEAF or source >= 0 and is_leaf(tree, source):
            if new_leaf(total, work, node, depth) != OK:
                return NO_MEMORY
            continue
        recodes = source == splice.top and source != splice.place
        rule = splice.rule if source == NEW_NODE else rule_of(&tree.nodes[source])
        if recodes:
            rule.code = splice.code
        # A rule that was drawn: its prior is in the proposals, and both of its sides have rows.
        if new_node(total, &child, work, node, depth, rule, source != NEW_NODE and not recodes, target) != OK:
            return NO_MEMORY
        if total[0] == -INFINITY:
            return OK
        last_split[0] = push_split(&work.pool, last_split[0], node, child)
        for k in range(2):
            if source == NEW_NODE:
                work.order[n] = NEW_LEAF if k == splice.side else splice.kept
            else:
                work.order[n] = replaced(splice, tree.nodes[source].left + k)
            work.mapped[n] = child + k
            n += 1
    return OK


cdef int try_splice(Tree* tree, Work* work, StepInfo* info, const double* target, const Splice* splice,
                    double log_proposals, bitgen_t* rng) noexcept nogil:
    """Accept the new region or not, and build it; log_proposals: what the ratio has beside the posteriors."""
    cdef int32_t last_split
    cdef PoolNode* region
    cdef double before, after
    info.row_visits += rows_of_rules(tree, splice.top, work.order)
    sum_region(work, tree, splice.top, work.region)
    if fill_log_rules(work, tree, splice.top) != OK or pool_reserve(&work.pool, 0, tree.n_leaves) != OK:
        return NO_MEMORY
    before = old_region(work, tree, splice)
    region = &work.pool.nodes[work.region]
    region.log_L = log_L(&region.stat, &work.leaf)
    if new_region(&after, &last_split, work, tree, splice, target) != OK:
        return NO_MEMORY
    info.log_ratio = after - before + log_proposals
    if after > -INFINITY and accept(info.log_ratio, rng):
        return adopt(tree, work, info, splice.top, last_split, False)
    return OK


cdef double log_ways(int32_t n_leaves) noexcept nogil:
    """log of (node, side) pairs of a tree of so many leaves, over leaves of a tree with one more."""
    return log((1 if MUTANT(31) else 2) * (2.0 * n_leaves - 1.0) / (n_leaves + 1.0))


cdef int step_insert(Tree* tree, Work* work, StepInfo* info, const Target* target, bitgen_t* rng) noexcept nogil:
    """Insert a node at a uniform one, leaves included; nothing happens where its rows have no rule.

    log ratio = log posterior ratio of the subtree, without the new rule's prior, + log_ways.
    """
    cdef int32_t n = breadth_first(tree, ROOT, work.order)
    cdef NodeSet rows
    cdef Splice splice
    cdef const double* values
    begin_info(info, MOVE_INSERT)
    if reserve_target(work) != OK:
        return NO_MEMORY
    splice.inserts = True
    splice.top = splice.place = splice.kept = work.order[below(n, rng)]
    if (load_path(&work.region, work, tree, splice.top) != OK
            or pool_ask(&rows, &work.pool, work.region, work.columns, work.ops) != OK):
        return NO_MEMORY
    if not draw_rule(&splice.rule, &rows, work, rng):
        sum_leaves(work, tree, target)
        return OK
    splice.side = <int32_t>below(2, rng)
    info.row_visits = tree.nodes[splice.top].n
    values = sum_leaves_and_target(work, tree, target)
    return try_splice(tree, work, info, values, &splice, log_ways(tree.n_leaves), rng)


cdef int step_delete(Tree* tree, Work* work, StepInfo* info, const Target* target, bitgen_t* rng) noexcept nogil:
    """Delete a uniform leaf with its parent, the exact inverse of insert: its sibling's subtree moves up."""
    cdef int32_t n = breadth_first(tree, ROOT, work.order), i, found = 0, leaf
    cdef Splice splice
    cdef const double* values
    begin_info(info, MOVE_DELETE)
    if reserve_target(work) != OK:
        return NO_MEMORY
    if n == 1:
        sum_leaves(work, tree, target)
        return OK
    for i in range(n):
        if is_leaf(tree, work.order[i]):
            work.listed[found] = work.order[i]
            found += 1
    leaf = work.listed[below(found, rng)]
    splice.inserts = False
    splice.top = splice.place = tree.nodes[leaf].parent
    splice.kept = 2 * tree.nodes[splice.top].left + 1 - leaf
    values = sum_leaves_and_target(work, tree, target)
    if load_path(&work.region, work, tree, splice.top) != OK:
        return NO_MEMORY
    return try_splice(tree, work, info, values, &splice, -log_ways(tree.n_leaves - 1), rng)


cdef int step_splice(Tree* tree, Work* work, StepInfo* info, const Target* target, bitgen_t* rng) noexcept nogil:
    """Insert or delete, with probability 1/2 each."""
    if uniform(rng) < 0.5:
        return step_insert(tree, work, info, target, rng)
    return step_delete(tree, work, info, target, rng)
