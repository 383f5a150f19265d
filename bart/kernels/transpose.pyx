"""Transpose: a node's rule changes places with that of both its children, which split another dimension.

    a <= tau ? (b <= c_0 ? A : B) : (b <= c_1 ? C : D)   becomes   b <= c ? (a <= tau_0 ? A : C) : (a <= tau_1 ? B : D)

One of the children's codes, c_s, becomes the node's, the node's becomes that of one new child, tau_u = tau, and the
code of the other one, u' = 1 - u, is drawn as recut draws it, by prior times likelihood given the subtrees below. s and
u are even; with their places exchanged they are the labels of the way back, which draws c_s', so that each way balances
with the one back,

    log ratio = log posterior ratio of the subtree + log q(c_s' | a's side) - log q(tau_u' | b's side).

The node is uniform among the internal ones, whose number stays.
"""

from libc.math cimport log
from libc.stdint cimport int32_t
from numpy.random cimport bitgen_t
from bart.kernels.columns cimport mass_between
from bart.kernels.looks cimport begin_looks, find_ranges
from bart.kernels.moves cimport begin_info
from bart.kernels.optimal cimport Weights, draw_decision, log_cell_ratio, look_of, share_columns
from bart.kernels.pool cimport pool_reserve, pool_split
from bart.kernels.recut cimport claim, reserve_claims, weigh_column
from bart.kernels.rng cimport below
from bart.kernels.subtrees cimport (decide_subtree, fill_log_rules, list_internal, load_path, old_log_posterior,
                                    rule_of, set_rule, sum_region)
from bart.kernels.tree cimport NONE, Tree, is_leaf, swap_subtrees
from bart.kernels.types cimport MOVE_TRANSPOSE, MUTANT, NO_MEMORY, OK, Decision, StepInfo
from bart.kernels.workspace cimport Target, Work, reserve_target, sum_leaves, sum_leaves_and_target

# Dimensions and codes before the move, and the labels of the way it takes.
cdef struct Transposition:
    int32_t top
    int32_t left            # its left child, the right one is left + 1
    Decision upper          # a <= tau
    Decision[2] lower       # b <= c_0, b <= c_1
    int32_t s               # the child whose code rises
    int32_t u               # the new child whose code is the node's


cdef bint find_transposition(Transposition* found, Tree* tree, Work* work, bitgen_t* rng) noexcept nogil:
    """A uniform internal node; False where its children do not share a dimension other than its own."""
    cdef int32_t n = list_internal(work.listed, tree, work.order), side
    if n == 0:
        return False
    found.top = work.listed[below(n, rng)]
    found.left = tree.nodes[found.top].left
    found.upper = rule_of(&tree.nodes[found.top])
    for side in range(2):
        if is_leaf(tree, found.left + side):
            return False
        found.lower[side] = rule_of(&tree.nodes[found.left + side])
    if found.lower[0].dim != found.lower[1].dim or found.lower[0].dim == found.upper.dim:
        return False
    found.s = <int32_t>below(2, rng)
    found.u = <int32_t>below(2, rng)
    return True


cdef void turn(Tree* tree, const Transposition* way) noexcept nogil:
    """The new rules, that of the new child u' being the node's old one until it is drawn; B and C change places."""
    cdef int32_t side
    set_rule(&tree.nodes[way.top], way.lower[way.s])
    for side in range(2):
        set_rule(&tree.nodes[way.left + side], way.upper)
    swap_subtrees(tree, tree.nodes[way.left].left + 1, tree.nodes[way.left + 1].left)


cdef void turn_back(Tree* tree, const Transposition* way) noexcept nogil:
    cdef int32_t side
    set_rule(&tree.nodes[way.top], way.upper)
    for side in range(2):
        set_rule(&tree.nodes[way.left + side], way.lower[side])
    if not MUTANT(38):
        swap_subtrees(tree, tree.nodes[way.left].left + 1, tree.nodes[way.left + 1].left)


cdef int weigh_child(Weights* weights, bint* valid, Work* work, StepInfo* info, const Tree* tree, int32_t child,
                     int32_t in_pool, const int32_t* dim, const double* target) noexcept nogil:
    """Weights of the rules on a dimension at a child of the node, as recut has them."""
    cdef int32_t n_claims
    if find_ranges(work, in_pool, dim, 1) != OK:
        return NO_MEMORY
    valid[0] = look_of(work, in_pool, dim[0]).valid
    if not valid[0]:
        return OK
    info.row_visits += work.pool.nodes[in_pool].stat.n
    if claim(&n_claims, work, info, tree, child, in_pool, dim, 1, target) != OK:
        return NO_MEMORY
    weigh_column(work, in_pool, dim[0], n_claims)
    share_columns(weights, work, in_pool, dim, 1, 1.0, 0.0)
    return OK


cdef double log_q(const Weights* weights, const Decision* rule, const Work* work) noexcept nogil:
    """log probability that such weights draw a rule."""
    cdef double own = mass_between(work.columns, rule.dim, rule.code, rule.code + 1)
    return (log(own / look_of(work, weights.node, rule.dim).mass) + log_cell_ratio(weights, rule, work)
            - weights.log_Z)


cdef int draw_child(bint* valid, double* log_proposals, Tree* tree, Work* work, StepInfo* info,
                    const Transposition* way, int32_t in_pool, const double* target, bitgen_t* rng) noexcept nogil:
    """Turn the tree and draw the rule of the new child u'; log_proposals = log q of the way back - log q."""
    cdef int32_t pair, other = way.s if MUTANT(37) else 1 - way.s
    cdef Weights weights
    cdef Decision rule
    work.subset[0], work.subset[1] = way.lower[0].dim, way.upper.dim
    if (pool_split(&pair, &work.pool, in_pool, way.upper.dim, way.upper.code, target, work.columns, &work.leaf,
                   work.ops) != OK
            or weigh_child(&weights, valid, work, info, tree, way.left + other, pair + other, &work.subset[0],
                           target) != OK):
        return NO_MEMORY
    log_proposals[0] = log_q(&weights, &way.lower[other], work)
    turn(tree, way)
    other = 1 - way.u
    if (pool_split(&pair, &work.pool, in_pool, way.lower[way.s].dim, way.lower[way.s].code, target, work.columns,
                   &work.leaf, work.ops) != OK
            or weigh_child(&weights, valid, work, info, tree, way.left + other, pair + other, &work.subset[1],
                           target) != OK):
        return NO_MEMORY
    if valid[0]:
        draw_decision(&rule, &weights, work, rng)
        set_rule(&tree.nodes[way.left + other], rule)
        log_proposals[0] -= log_q(&weights, &rule, work)
    return OK


cdef int step_transpose(Tree* tree, Work* work, StepInfo* info, const Target* target,
                        bitgen_t* rng) noexcept nogil:
    """Transpose at a uniform internal node; nothing happens where its children do not share a dimension."""
    cdef Transposition way
    cdef int32_t in_pool
    cdef double before, log_proposals
    cdef const double* values
    cdef bint valid
    cdef int status
    begin_info(info, MOVE_TRANSPOSE)
    if reserve_target(work) != OK:
        return NO_MEMORY
    if not find_transposition(&way, tree, work, rng):
        sum_leaves(work, tree, target)
        return OK
    values = sum_leaves_and_target(work, tree, target)
    # Beside the path, the pool takes the subtree as it stands, the claims of two nodes and the new subtree.
    if (reserve_claims(work, tree.n_leaves) != OK or load_path(&in_pool, work, tree, way.top) != OK
            or pool_reserve(&work.pool, 4 * tree.n_nodes + 4, 0) != OK
            or fill_log_rules(work, tree, way.top) != OK):
        return NO_MEMORY
    before = old_log_posterior(work, tree, way.top, True)
    sum_region(work, tree, way.top, in_pool)
    begin_looks(work, values)
    status = draw_child(&valid, &log_proposals, tree, work, info, &way, in_pool, values, rng)
    if status == OK and valid:
        if MUTANT(36):
            log_proposals = 0.0
        status = decide_subtree(tree, work, info, values, way.top, in_pool, before - log_proposals, True, rng)
    if not info.changed and tree.nodes[way.top].dim != way.upper.dim:
        turn_back(tree, &way)
    return status
