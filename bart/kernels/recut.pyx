"""Recut: an internal node's rule drawn anew from its full conditional given the subtrees below it.

Perturb and change by likelihood instead of blindly. Let every leaf below the rule's left child claim ALL rows of the
node that its own path below that child lets through, likewise on the right. For a rule (kappa, tau), a leaf then has
what it claims on its side of tau, so that one histogram of each leaf's claim along kappa gives, for every cell of gaps,

    w(kappa, cell) = U(kappa) mass(cell) / mass(range) r,   r = prod over leaves of L(leaf),

L at the cell's representative gap. A cell is drawn by w, a gap in it by mass, and accepted by the exact ratio: that of
the posteriors of the subtree, whose other rules keep their form and get another prior, times r(old cell) / r(new cell).
Which nodes are internal, the node's rows, the claims and so w are the same before and after.
"""

from libc.stdint cimport int32_t, int64_t
from numpy.random cimport bitgen_t
from bart.kernels.looks cimport (begin_looks, count_columns, find_ranges, frame_look, known_look, sum_of_look,
                                 weights_of_look)
from bart.kernels.memory cimport grow
from bart.kernels.moves cimport begin_info
from bart.kernels.optimal cimport Weights, draw_decision, draw_subset, log_cell_ratio, share_columns
from bart.kernels.pool cimport pool_reserve, pool_split
from bart.kernels.rng cimport below
from bart.kernels.rowops cimport CutLeaf
from bart.kernels.subtrees cimport load_path, rule_of, sum_region, try_rule
from bart.kernels.tree cimport NONE, ROOT, Node, Tree, breadth_first, is_leaf, is_prunable
from bart.kernels.types cimport MOVE_RECUT, MUTANT, NO_MEMORY, OK, Decision, StepInfo
from bart.kernels.workspace cimport Claim, Look, Target, Work, reserve_target, sum_leaves, sum_leaves_and_target


cdef int32_t list_parents(int32_t* listed, const Tree* tree, int32_t* order) noexcept nogil:
    """Nodes with an internal child, breadth first. A node above two leaves is the local move's."""
    cdef int32_t n = breadth_first(tree, ROOT, order), i, found = 0
    for i in range(n):
        if not is_leaf(tree, order[i]) and not is_prunable(tree, order[i]):
            listed[found] = order[i]
            found += 1
    return found


cdef int reserve_claims(Work* work, int32_t n) noexcept nogil:
    if n > work.claim_capacity:
        if grow(<void**>&work.claims, 2 * n, sizeof(Claim)) or grow(<void**>&work.cut_leaves, 2 * n, sizeof(CutLeaf)):
            return NO_MEMORY
        work.claim_capacity = 2 * n
    return OK


cdef int claim(int32_t* n_claims, Work* work, StepInfo* info, const Tree* tree, int32_t top, int32_t in_pool,
               const int32_t* dims, int32_t n, const double* target) noexcept nogil:
    """What each leaf below `top` claims, in work.claims, with its histograms along the columns."""
    cdef const Node* p = &tree.nodes[top]
    cdef int32_t side, i, count, node, child, present = NONE
    n_claims[0] = 0
    if MUTANT(33) and pool_split(&present, &work.pool, in_pool, p.dim, p.code, target, work.columns, &work.leaf,
                                 work.ops) != OK:
        return NO_MEMORY
    for side in range(2):
        work.listed[tree.nodes[top].left + side] = in_pool if present == NONE else present + side
        count = breadth_first(tree, tree.nodes[top].left + side, work.order)
        for i in range(count):
            p = &tree.nodes[work.order[i]]
            node = work.listed[work.order[i]]
            if count_columns(work, node, dims, n, target) != OK:
                return NO_MEMORY
            if p.left == NONE:
                work.claims[n_claims[0]].node = node
                work.claims[n_claims[0]].above = side
                n_claims[0] += 1
                continue
            info.row_visits += work.pool.nodes[node].stat.n
            if pool_split(&child, &work.pool, node, p.dim, p.code, target, work.columns, &work.leaf, work.ops) != OK:
                return NO_MEMORY
            work.listed[p.left] = child
            work.listed[p.left + 1] = child + 1
    return OK


cdef void weigh_column(Work* work, int32_t in_pool, int32_t dim, int32_t n_claims) noexcept nogil:
    """mass(cell) r of a column's cells, from the histograms of the claims."""
    cdef Look* look = &work.looks.look[known_look(work, in_pool, dim)]
    cdef double[256] mass
    cdef double* weight = frame_look(mass, work, dim, look)
    cdef CutLeaf* leaf
    cdef int32_t i, number
    for i in range(n_claims):
        number = known_look(work, work.claims[i].node, dim)
        leaf = &work.cut_leaves[i]
        leaf.sums = work.looks.sums + <int64_t>number * work.columns.n_bins
        leaf.rows = work.pool.nodes[work.claims[i].node].stat.n
        leaf.total = sum_of_look(work, work.claims[i].node, number)
        leaf.weights = weights_of_look(&leaf.weight, work, work.claims[i].node, number)
        leaf.above = work.claims[i].above
    look.total = work.ops.leaf_cut_weights(weight, &look.top, work.cut_leaves, n_claims, look.first, look.n_cells, mass,
                                           work.looks.scale, work.looks.shift, work.leaf.sigma2, work.leaf.leaf_var,
                                           work.leaf.leaf_mean, work.looks.weight_scale)


cdef int add_column(int32_t* n, Work* work, int32_t node, int32_t dim) noexcept nogil:
    """Mutant 34: a column behind those of the subset, unless it is one of them."""
    cdef int32_t k
    for k in range(n[0]):
        if work.subset[k] == dim:
            return OK
    work.subset[n[0]] = dim
    n[0] += 1
    return find_ranges(work, node, &dim, 1)


cdef int draw_rule(Decision* rule, double* log_proposals, Work* work, StepInfo* info, const Tree* tree, int32_t top,
                   int32_t in_pool, int32_t subset, const double* target, bitgen_t* rng) noexcept nogil:
    """A rule by w; log_proposals = log r(old cell) - log r(its cell)."""
    cdef Decision old = rule_of(&tree.nodes[top])
    cdef Weights weights
    cdef int32_t n, n_weighed, n_claims, k
    if draw_subset(work.subset, &n, work, in_pool, NONE if MUTANT(34) else old.dim, subset, rng) != OK:
        return NO_MEMORY
    n_weighed = n
    if MUTANT(34) and add_column(&n_weighed, work, in_pool, old.dim) != OK:
        return NO_MEMORY
    info.row_visits = n * work.pool.nodes[in_pool].stat.n
    if claim(&n_claims, work, info, tree, top, in_pool, work.subset, n_weighed, target) != OK:
        return NO_MEMORY
    for k in range(n_weighed):
        weigh_column(work, in_pool, work.subset[k], n_claims)
    share_columns(&weights, work, in_pool, work.subset, n, 1.0, 0.0)
    draw_decision(rule, &weights, work, rng)
    log_proposals[0] = 0.0
    if not MUTANT(32):
        log_proposals[0] = log_cell_ratio(&weights, &old, work) - log_cell_ratio(&weights, rule, work)
    return OK


cdef int step_recut(Tree* tree, Work* work, StepInfo* info, const Target* target, int32_t subset,
                    bitgen_t* rng) noexcept nogil:
    """A new rule, of its own dimension or another in the subset, for a uniform node with an internal child."""
    cdef int32_t found = list_parents(work.listed, tree, work.order), top, in_pool
    cdef Decision rule
    cdef const double* values
    cdef double log_proposals
    begin_info(info, MOVE_RECUT)
    if reserve_target(work) != OK:
        return NO_MEMORY
    if found == 0:
        sum_leaves(work, tree, target)
        return OK
    top = work.listed[below(found, rng)]
    values = sum_leaves_and_target(work, tree, target)
    # Beside the path, the pool takes the claims and then the subtree as it stands.
    if (reserve_claims(work, tree.n_leaves) != OK or load_path(&in_pool, work, tree, top) != OK
            or pool_reserve(&work.pool, 2 * tree.n_nodes + 2, 0) != OK):
        return NO_MEMORY
    sum_region(work, tree, top, in_pool)
    begin_looks(work, values)
    if draw_rule(&rule, &log_proposals, work, info, tree, top, in_pool, subset, values, rng) != OK:
        return NO_MEMORY
    if rule.dim == tree.nodes[top].dim and rule.code == tree.nodes[top].code:
        return OK
    return try_rule(tree, work, info, values, top, in_pool, rule, False, log_proposals, rng)
