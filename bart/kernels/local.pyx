"""The rejection-free local move (samplers.md 4.3): a node that is a leaf or has two leaf children is drawn anew from
its full conditional, grow, prune and change in one."""

from libc.stdint cimport int32_t
from numpy.random cimport bitgen_t
from bart.kernels.adopt cimport adopt
from bart.kernels.columns cimport log_stop_at, p_split_at
from bart.kernels.looks cimport begin_looks
from bart.kernels.moves cimport accept, begin_info, leaf_can_split
from bart.kernels.optimal cimport Weights, draw_decision, draw_subset, log_cell_ratio, weigh_node
from bart.kernels.pool cimport pool_can_split, pool_reserve, pool_split
from bart.kernels.regions cimport draw_slot, load_region, push_split
from bart.kernels.rng cimport below
from bart.kernels.tree cimport NONE, ROOT, Tree, breadth_first, is_leaf, is_prunable
from bart.kernels.types cimport MOVE_LOCAL, MUTANT, NO_MEMORY, OK, Decision, StepInfo
from bart.kernels.workspace cimport Target, Work, reserve_target, sum_leaves, sum_leaves_and_target


cdef int log_excess(double* excess, Work* work, const Weights* weights, const Decision* decision,
                    int32_t child) noexcept nogil:
    """log of full conditional / proposal, up to a constant: of a split its exact ratio and children against those of
    its cell,

        log L(l) L(r) / L(eta) + log(1 - p_s(l)) + log(1 - p_s(r)) - log r - 2 log(1 - p(d + 1));

    of a stop 0. With every gap its own cell and children that can split it is 0 as well: nothing is ever rejected.
    """
    cdef int32_t side
    cdef int32_t depth = work.pool.nodes[weights.node].depth + 1
    excess[0] = 0.0
    if decision.dim == NONE:
        return OK
    excess[0] = -work.pool.nodes[weights.node].log_L - log_cell_ratio(weights, decision, work)
    for side in range(2):
        if pool_can_split(child + side, &work.pool, work.columns, work.ops) != OK:
            return NO_MEMORY
        excess[0] += work.pool.nodes[child + side].log_L
        if not MUTANT(23):
            excess[0] += (log_stop_at(work.columns, depth, work.pool.nodes[child + side].can_split)
                          - log_stop_at(work.columns, depth, True))
    return OK


cdef int32_t draw_candidate(double* ratio, const Tree* tree, Work* work, bitgen_t* rng) noexcept nogil:
    """A leaf or a node with two leaf children, uniformly. ratio = number of candidates after a stop there / after a
    split: each decision is weighed by the probability 1 / #candidates of coming back to this node."""
    cdef int32_t n = breadth_first(tree, ROOT, work.order), i, found = 0, node, sibling
    cdef bint beside_leaf = False
    for i in range(n):
        if is_leaf(tree, work.order[i]) or is_prunable(tree, work.order[i]):
            work.listed[found] = work.order[i]
            found += 1
    node = work.listed[below(found, rng)]
    if node != ROOT:
        sibling = 2 * tree.nodes[tree.nodes[node].parent].left + 1 - node
        beside_leaf = is_leaf(tree, sibling)
    if is_leaf(tree, node):
        ratio[0] = <double>found / (found + 2 - beside_leaf)    # two leaves and their parent for a leaf; the node
    else:                                                       # above is one while both its children are leaves
        ratio[0] = <double>(found - 2 + beside_leaf) / found
    if MUTANT(30):
        ratio[0] = 1.0
    return node


cdef int decide(int32_t* last_split, bint* accepted, Work* work, StepInfo* info, int32_t n_old, double ratio,
                int32_t subset, const double* target, bitgen_t* rng) noexcept nogil:
    """Draw a decision for the region's root and accept it or not; last_split: the pool's split that makes it.

    ratio: of a split's weight to a stop's, besides their posterior.
    """
    cdef Weights weights
    cdef Decision old, new
    cdef int32_t n, child = NONE, of_old = NONE
    cdef double p_child = p_split_at(work.columns, work.pool.nodes[work.region].depth + 1), before, after
    accepted[0] = False
    old.dim = NONE
    if n_old > 0:
        of_old = work.pool.splits[0].child
        old.dim, old.code = work.pool.nodes[of_old].dim, work.pool.nodes[of_old].code
    if (draw_subset(work.subset, &n, work, work.region, old.dim, subset, rng) != OK
            or weigh_node(&weights, work, work.region, work.subset, n, ratio * (1.0 - p_child) * (1.0 - p_child),
                          target) != OK):
        return NO_MEMORY
    info.row_visits = n * work.pool.nodes[work.region].stat.n
    draw_decision(&new, &weights, work, rng)
    if new.dim == old.dim and (new.dim == NONE or new.code == old.code):
        return OK
    last_split[0] = NONE
    if new.dim != NONE:
        if (pool_reserve(&work.pool, 2, 1) != OK
                or pool_split(&child, &work.pool, work.region, new.dim, new.code, target, work.columns, &work.leaf,
                              work.ops) != OK):
            return NO_MEMORY
        last_split[0] = push_split(&work.pool, NONE, work.region, child)
    if (log_excess(&before, work, &weights, &old, of_old) != OK
            or log_excess(&after, work, &weights, &new, child) != OK):
        return NO_MEMORY
    info.log_ratio = after - before
    accepted[0] = accept(info.log_ratio, rng)
    return OK


cdef int step_node(Tree* tree, Work* work, StepInfo* info, const Target* target, const NodeParams* params,
                   bitgen_t* rng) noexcept nogil:
    """One local move at a candidate, or at a slot whose law does not depend on the tree: there, nothing happens where
    it holds no candidate."""
    cdef int32_t top, n_old, last_split = NONE
    cdef double ratio = 1.0
    cdef const double* values
    cdef bint accepted
    begin_info(info, MOVE_LOCAL)
    if params.descend < 0:
        top = draw_candidate(&ratio, tree, work, rng)
    else:
        top = draw_slot(tree, params.descend, rng)
    if reserve_target(work) != OK:
        return NO_MEMORY
    if (top == NONE or not (is_leaf(tree, top) or is_prunable(tree, top))
            or (is_leaf(tree, top) and not leaf_can_split(tree, top, work))):
        sum_leaves(work, tree, target)
        return OK
    values = sum_leaves_and_target(work, tree, target)
    if load_region(&n_old, work, info, tree, top, True) != OK:
        return NO_MEMORY
    begin_looks(work, values)
    if decide(&last_split, &accepted, work, info, n_old, ratio, params.subset, values, rng) != OK:
        return NO_MEMORY
    return adopt(tree, work, info, top, last_split, False) if accepted else OK
