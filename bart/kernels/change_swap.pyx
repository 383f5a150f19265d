"""Change and swap, the other two moves of CGM, and its step.

Both keep the topology and redraw or exchange rules.
"""

from libc.stdint cimport int32_t
from numpy.random cimport bitgen_t
from bart.kernels.moves cimport LocalMoves, begin_info, step_grow, step_prune
from bart.kernels.nodeset cimport NodeSet
from bart.kernels.pool cimport pool_ask
from bart.kernels.rng cimport below, uniform
from bart.kernels.splits cimport draw_rule
from bart.kernels.subtrees cimport (decide_subtree, fill_log_rules, list_internal, load_path, old_log_posterior,
                                    rule_of, set_rule, try_rule)
from bart.kernels.tree cimport ROOT, Node, Tree, breadth_first, is_leaf
from bart.kernels.types cimport MOVE_CHANGE, MOVE_SWAP, MUTANT, NO_MEMORY, OK, Decision, StepInfo
from bart.kernels.workspace cimport Target, Work, reserve_target, sum_leaves, sum_leaves_and_target


cdef int step_change(Tree* tree, Work* work, StepInfo* info, const Target* target, bitgen_t* rng) noexcept nogil:
    """Change: a new rule for a uniform internal node from the prior given its rows.

    The rule's prior cancels against its proposal: ratio = L'/L of the subtree x prior'/prior of the descendants.
    """
    cdef int32_t found = list_internal(work.listed, tree, work.order), top, in_pool
    cdef NodeSet rows
    cdef Decision rule, old
    cdef const double* values
    begin_info(info, MOVE_CHANGE)
    if reserve_target(work) != OK:
        return NO_MEMORY
    if found == 0:
        sum_leaves(work, tree, target)
        return OK
    values = sum_leaves_and_target(work, tree, target)
    top = work.listed[below(found, rng)]
    if (load_path(&in_pool, work, tree, top)
            or pool_ask(&rows, &work.pool, in_pool, work.columns, work.ops)):
        return NO_MEMORY
    old = rule_of(&tree.nodes[top])
    if not draw_rule(&rule, &rows, work, rng) or (rule.dim == old.dim and rule.code == old.code):
        return OK
    return try_rule(tree, work, info, values, top, in_pool, rule, MUTANT(13), 0.0, rng)


cdef inline bint same_rule(const Node* a, const Node* b) noexcept nogil:
    return a.dim == b.dim and a.code == b.code


cdef int32_t list_pairs(int32_t* listed, const Tree* tree, int32_t* order) noexcept nogil:
    """Internal nodes with an internal parent (there is one per pair), breadth first."""
    cdef int32_t n = breadth_first(tree, ROOT, order), i, found = 0
    for i in range(1, n):
        if not is_leaf(tree, order[i]):
            listed[found] = order[i]
            found += 1
    return found


cdef int step_swap(Tree* tree, Work* work, StepInfo* info, const Target* target, bitgen_t* rng) noexcept nogil:
    """Swap: exchange the rules of a uniform (parent, child) pair, of both children where theirs are equal.

    ratio = posterior ratio of the parent's subtree; the number of pairs does not change.
    """
    cdef int32_t found = list_pairs(work.listed, tree, work.order), child, sibling, top, in_pool
    cdef Decision of_parent, of_child
    cdef const double* values
    cdef bint both
    cdef double before
    cdef int status
    begin_info(info, MOVE_SWAP)
    if reserve_target(work) != OK:
        return NO_MEMORY
    if found == 0:
        sum_leaves(work, tree, target)
        return OK
    values = sum_leaves_and_target(work, tree, target)
    child = work.listed[below(found, rng)]
    top = tree.nodes[child].parent
    sibling = 2 * tree.nodes[top].left + 1 - child
    both = not is_leaf(tree, sibling) and same_rule(&tree.nodes[child], &tree.nodes[sibling]) and not MUTANT(15)
    if load_path(&in_pool, work, tree, top) != OK or fill_log_rules(work, tree, top) != OK:
        return NO_MEMORY
    before = old_log_posterior(work, tree, top, True)
    of_parent, of_child = rule_of(&tree.nodes[top]), rule_of(&tree.nodes[child])
    exchange(tree, top, child, sibling, both, of_child, of_parent)
    status = decide_subtree(tree, work, info, values, top, in_pool, before, True, rng)
    if not info.changed:
        exchange(tree, top, child, sibling, both, of_parent, of_child)
    return status


cdef void exchange(Tree* tree, int32_t top, int32_t child, int32_t sibling, bint both, Decision to_parent,
                   Decision to_child) noexcept nogil:
    set_rule(&tree.nodes[top], to_parent)
    set_rule(&tree.nodes[child], to_child)
    if both:
        set_rule(&tree.nodes[sibling], to_child)


cdef int step_local(Tree* tree, Work* work, StepInfo* info, const Target* target, const LocalMoves* moves,
                    bitgen_t* rng) noexcept nogil:
    """One move of CGM (GrowPrune where change and swap have probability 0), chosen by the move probabilities."""
    cdef double u = uniform(rng)
    if u < moves.probability[0]:
        return step_grow(tree, work, info, target, moves, rng)
    u -= moves.probability[0]
    if u < moves.probability[1] or moves.probability[2] + moves.probability[3] <= 0:
        return step_prune(tree, work, info, target, moves, rng)
    u -= moves.probability[1]
    if u < moves.probability[2] or moves.probability[3] <= 0:
        return step_change(tree, work, info, target, rng)
    return step_swap(tree, work, info, target, rng)
