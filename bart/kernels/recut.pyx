"""Recut: an internal node's rule drawn anew from its full conditional given the subtrees below it.

Perturb and change by likelihood instead of blindly. Let every leaf below the rule's left child claim ALL rows of the node
that its own path below that child lets through, likewise on the right. For a rule (kappa, tau), a leaf then has what it
claims on its side of tau, so that one histogram of each leaf's claim along kappa gives, for every cell of gaps,

    w(kappa, cell) = U(kappa) mass(cell) / mass(range) prod over leaves of L(leaf),

L at the cell's representative gap. A cell is drawn by w, a gap in it by mass, and accepted by the exact ratio: that of
the posteriors of the subtree, whose other rules keep their form and get another prior, times r(old cell) / r(new cell).
Which nodes are internal, the node's rows, the claims and so w are the same before and after.
"""

from libc.math cimport exp
from libc.stdint cimport int32_t, int64_t
from numpy.random cimport bitgen_t
from bart.kernels.looks cimport begin_looks, count_columns, frame_look, known_look, sum_of_look
from bart.kernels.memory cimport grow
from bart.kernels.moves cimport begin_info
from bart.kernels.optimal cimport Weights, draw_decision, draw_subset, log_cell_ratio
from bart.kernels.pool cimport pool_reserve, pool_split
from bart.kernels.rng cimport below
from bart.kernels.rowops cimport CutLeaf
from bart.kernels.subtrees cimport list_internal, load_path, rule_of, sum_region, try_rule
from bart.kernels.tree cimport Tree, breadth_first, is_leaf, is_prunable
from bart.kernels.types cimport MOVE_RECUT, NO_MEMORY, OK, Decision, StepInfo
from bart.kernels.workspace cimport Claim, Look, Target, Work, reserve_target, sum_leaves, sum_leaves_and_target


cdef int claim(int32_t* n_claims, Work* work, StepInfo* info, const Tree* tree, int32_t top, int32_t in_pool,
               const int32_t* dims, int32_t n, const double* target) noexcept nogil:
    """What each leaf below `top` claims, with its histograms along the columns; in work.claims, by pool number."""
    cdef int32_t side, i, count, node, child
    n_claims[0] = 0
    if count_columns(work, in_pool, dims, n, target) != OK:
        return NO_MEMORY
    for side in range(2):
        work.listed[tree.nodes[top].left + side] = in_pool
        count = breadth_first(tree, tree.nodes[top].left + side, work.order)
        for i in range(count):
            node = work.listed[work.order[i]]
            if i > 0 and count_columns(work, node, dims, n, target) != OK:
                return NO_MEMORY
            if is_leaf(tree, work.order[i]):
                work.claims[n_claims[0]].node = node
                work.claims[n_claims[0]].above = side
                n_claims[0] += 1
                continue
            info.row_visits += work.pool.nodes[node].stat.n
            if pool_split(&child, &work.pool, node, tree.nodes[work.order[i]].dim, tree.nodes[work.order[i]].code,
                          target, work.columns, &work.leaf, work.ops) != OK:
                return NO_MEMORY
            work.listed[tree.nodes[work.order[i]].left] = child
            work.listed[tree.nodes[work.order[i]].left + 1] = child + 1
    return OK


cdef void weigh_rules(Weights* weights, Work* work, int32_t n_claims, int32_t in_pool, const int32_t* dims,
                      int32_t n) noexcept nogil:
    """w of every column in hand, in work.share; there is no stop."""
    cdef double[256] mass
    cdef double* weight
    cdef Look* look
    cdef CutLeaf* leaf
    cdef int32_t k, i, number
    weights.node, weights.dims, weights.n, weights.stop, weights.total = in_pool, dims, n, 0.0, 0.0
    for k in range(n):
        look = &work.looks.look[known_look(work, in_pool, dims[k])]
        weight = frame_look(mass, work, dims[k], look)
        for i in range(n_claims):
            number = known_look(work, work.claims[i].node, dims[k])
            leaf = &work.cut_leaves[i]
            leaf.sums = work.looks.sums + <int64_t>number * work.columns.n_bins
            leaf.rows = work.pool.nodes[work.claims[i].node].stat.n
            leaf.total = sum_of_look(work, work.claims[i].node, number)
            leaf.above = work.claims[i].above
        look.total = work.ops.leaf_cut_weights(weight, &look.top, work.cut_leaves, n_claims, look.first, look.n_cells,
                                               mass, work.looks.scale, work.looks.shift, work.leaf.sigma2,
                                               work.leaf.leaf_var, work.leaf.leaf_mean)
        if k == 0 or look.top > weights.top:
            weights.top = look.top
    for k in range(n):
        look = &work.looks.look[known_look(work, in_pool, dims[k])]
        work.share[k] = ((1.0 if work.columns.weight == NULL else work.columns.weight[dims[k]])
                         * look.total / look.mass * exp(look.top - weights.top))
        weights.total += work.share[k]


cdef int reserve_claims(Work* work, int32_t n) noexcept nogil:
    if n > work.claim_capacity:
        if (grow(<void**>&work.claims, 2 * n, sizeof(Claim)) or grow(<void**>&work.cut_leaves, 2 * n, sizeof(CutLeaf))):
            return NO_MEMORY
        work.claim_capacity = 2 * n
    return OK


cdef int step_recut(Tree* tree, Work* work, StepInfo* info, const Target* target, int32_t subset,
                    bitgen_t* rng) noexcept nogil:
    """A uniform internal node and a new rule of it, of its own dimension or another in the subset."""
    cdef int32_t found = list_internal(work.listed, tree, work.order), top, in_pool, n, n_claims, i, m = 0
    cdef Weights weights
    cdef Decision old, new
    cdef const double* values
    begin_info(info, MOVE_RECUT)
    if reserve_target(work) != OK:
        return NO_MEMORY
    for i in range(found):
        if not is_prunable(tree, work.listed[i]):
            work.listed[m] = work.listed[i]
            m += 1
    found = m
    if found == 0:
        sum_leaves(work, tree, target)
        return OK
    top = work.listed[below(found, rng)]
    old = rule_of(&tree.nodes[top])
    values = sum_leaves_and_target(work, tree, target)
    if (reserve_claims(work, tree.n_leaves) != OK or load_path(&in_pool, work, tree, top) != OK
            or pool_reserve(&work.pool, 2 * tree.n_nodes + 2 * tree.nodes[top].depth, 0) != OK):
        return NO_MEMORY
    sum_region(work, info, tree, top, in_pool)
    begin_looks(work, values)
    if (draw_subset(work.subset, &n, work, in_pool, old.dim, subset, rng) != OK
            or claim(&n_claims, work, info, tree, top, in_pool, work.subset, n, values) != OK):
        return NO_MEMORY
    weigh_rules(&weights, work, n_claims, in_pool, work.subset, n)
    draw_decision(&new, &weights, work, rng)
    if new.dim == old.dim and new.code == old.code:
        return OK
    work.listed[top] = in_pool
    return try_rule(tree, work, info, values, top, in_pool, new, False,
                    log_cell_ratio(&weights, &old, work) - log_cell_ratio(&weights, &new, work), rng)
