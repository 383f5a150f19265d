"""One-step-optimal proposals: stop or split in proportion to prior times likelihood, one step ahead.

    w(stop) = 1 - p_s,   w(kappa, cell) = p_s U(kappa) mass(cell) / mass(range) r(kappa, cell),   Z = sum of w

over the columns in hand, r = L(l) L(r) / L(eta) at the cell's representative gap. A cell is drawn by w / Z and a gap in
it by mass; with a share e of proposals from the prior, log P / q of a decision is -log((1 - e) r / Z + e), r = 1 for a
stop: exact whatever the cells, as the split taken is weighted by its own sums.
"""

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t, int64_t, uint32_t
from numpy.random cimport bitgen_t
from bart.kernels.columns cimport Columns, cell_of, mass_between, p_split_at, sum_weights, weight_in
from bart.kernels.looks cimport cell_bounds, find_ranges, look_at, weigh_columns
from bart.kernels.pool cimport pool_can_split
from bart.kernels.rng cimport below, uniform
from bart.kernels.splits cimport draw_code, draw_position
from bart.kernels.tree cimport NONE
from bart.kernels.types cimport MUTANT, NO_MEMORY, OK, Decision
from bart.kernels.workspace cimport Look, Work


cdef int draw_subset(int32_t* dims, int32_t* n, Work* work, int32_t node, int32_t own_dim, int32_t size,
                     bitgen_t* rng) noexcept nogil:
    """Valid columns to weigh at a node: `size` of them, uniformly, or by their weights (`draw_by_weight`); 0: all.

    Those of a decision that splits on `own_dim` (NONE: a stop, or a free particle) contain it, the others being
    uniform: the law of the subset given the decision, of which drawing a decision by q from a uniform subset is the
    reverse.
    """
    cdef const Columns* columns = work.columns
    cdef int32_t left = 0, k, i, dim
    n[0] = 0
    work.equal_shares = columns.weight != NULL and 0 < size < columns.n_candidates
    if work.equal_shares:
        return draw_by_weight(dims, n, work, node, own_dim, size, rng)
    if size <= 0 or columns.weight != NULL:
        if find_ranges(work, node, columns.candidates, columns.n_candidates) != OK:
            return NO_MEMORY
        for k in range(columns.n_candidates):
            if look_of(work, node, columns.candidates[k]).valid:
                dims[n[0]] = columns.candidates[k]
                n[0] += 1
        return OK
    if MUTANT(18):
        own_dim = NONE
    if own_dim != NONE:
        if find_ranges(work, node, &own_dim, 1) != OK:
            return NO_MEMORY
        dims[0] = own_dim
        n[0] = 1
    for k in range(columns.n_candidates):
        if columns.candidates[k] != own_dim:
            work.dims[left] = columns.candidates[k]
            left += 1
    while n[0] < size and left > 0:
        k = <int32_t>below(left, rng)
        dim = work.dims[k]
        left -= 1
        for i in range(k, left):
            work.dims[i] = work.dims[i + 1]
        if find_ranges(work, node, &dim, 1) != OK:
            return NO_MEMORY
        if look_of(work, node, dim).valid:
            dims[n[0]] = dim
            n[0] += 1
    return OK


cdef int draw_by_weight(int32_t* dims, int32_t* n, Work* work, int32_t node, int32_t own_dim, int32_t size,
                        bitgen_t* rng) noexcept nogil:
    """`size` valid columns, each by the prior U and independently; one that comes twice is listed twice.

    All of the list have equal shares then: with (kappa_1, ..., kappa_s) from U^s the sum over U(kappa) becomes the
    mean over the list, and U^s is a factor of the law of list and decision whatever that is. Given a split on
    `own_dim`, that is one of them and the others are drawn by U; given a stop, all are.
    """
    cdef const Columns* columns = work.columns
    cdef int32_t left = columns.n_candidates, k, i, dim
    cdef double total = columns.total_weight, scale = 0.0
    if own_dim != NONE:
        if find_ranges(work, node, &own_dim, 1) != OK:
            return NO_MEMORY
        dims[0] = own_dim
        n[0] = 1
    for k in range(left):
        work.dims[k] = columns.candidates[k]
    while n[0] < size and left > 0:
        if MUTANT(40):
            k = <int32_t>below(left, rng)
        else:
            k = draw_position(work.dims, left, total, scale, columns, rng)
        dim = work.dims[k]
        if find_ranges(work, node, &dim, 1) != OK:
            return NO_MEMORY
        if look_of(work, node, dim).valid:
            dims[n[0]] = dim
            n[0] += 1
            continue
        left -= 1
        for i in range(k, left):
            work.dims[i] = work.dims[i + 1]
        total = sum_weights(&scale, columns, work.dims, left)
    return OK


cdef inline double log_if_tiny(double prior) noexcept nogil:
    """log of a column's prior where that is (nearly) 0, as at alpha = 0: no likelihood may then set the scale of the
    weights alone, or all of them vanish beside it. Else 0."""
    return 0.0 if prior >= 1e-290 else log(prior)


cdef int weigh_node(Weights* weights, Work* work, int32_t node, const int32_t* dims, int32_t n, double child_factor,
                    const double* target) noexcept nogil:
    """w of stop, and of each column in work.share; splits times `child_factor`."""
    cdef double p_split = p_split_at(work.columns, work.pool.nodes[node].depth)
    if weigh_columns(work, node, dims, n, target) != OK:
        return NO_MEMORY
    share_columns(weights, work, node, dims, n, p_split * child_factor, 1.0 - p_split)
    return OK


cdef void share_columns(Weights* weights, Work* work, int32_t node, const int32_t* dims, int32_t n, double split,
                        double stop) noexcept nogil:
    """From the weights of their cells, w of each column, `split` that of all columns without the cells' ratios."""
    cdef const Columns* columns = work.columns
    cdef const Look* look
    cdef double total = n, scale = 0.0, log_prior
    cdef int32_t k
    cdef bint equal = columns.weight == NULL or work.equal_shares
    if not equal:
        total = sum_weights(&scale, columns, dims, n)
    weights.node, weights.dims, weights.n = node, dims, n
    weights.top = 0.0 if stop > 0 else -INFINITY
    for k in range(n):
        look = look_of(work, node, dims[k])
        work.share[k] = split * (1.0 if equal else weight_in(columns, dims[k], scale)) / total
        if look.top + log_if_tiny(work.share[k]) > weights.top:
            weights.top = look.top + log_if_tiny(work.share[k])
    weights.stop = weights.total = stop * exp(-weights.top) if stop > 0 else 0.0
    for k in range(n):
        look = look_of(work, node, dims[k])
        log_prior = log_if_tiny(work.share[k])
        work.share[k] = ((work.share[k] if log_prior == 0.0 else 1.0) * look.total / look.mass
                         * exp(look.top + log_prior - weights.top))
        weights.total += work.share[k]
    weights.log_Z = log(weights.total) + weights.top


cdef void draw_decision(Decision* decision, const Weights* weights, Work* work, bitgen_t* rng) noexcept nogil:
    """Stop or a cell by w / Z, then a gap of the cell by mass."""
    cdef double at = uniform(rng) * weights.total - weights.stop
    cdef const Look* look
    cdef const double* weight
    cdef int32_t k = 0, cell = 0
    cdef uint32_t low, high
    decision.dim = NONE
    if at < 0:
        return
    while k < weights.n - 1 and at >= work.share[k]:
        at -= work.share[k]
        k += 1
    decision.dim = weights.dims[k]
    look = look_of(work, weights.node, decision.dim)
    weight = work.looks.weight + <int64_t>(look - work.looks.look) * work.columns.n_bins
    at = at / work.share[k] * look.total
    while cell < look.n_cells - 1 and at >= weight[cell]:
        at -= weight[cell]
        cell += 1
    while weight[cell] <= 0:                                # a cell without mass, reached by rounding alone
        cell = cell - 1 if cell > 0 else look.n_cells - 1
    cell_bounds(&low, &high, work, decision.dim, look, look.first + cell)
    decision.code = draw_code(low, high, work.columns, decision.dim, rng)


cdef void draw_from_prior(Decision* decision, const Weights* weights, Work* work, bitgen_t* rng) noexcept nogil:
    """Stop or a rule from the prior restricted to the columns in hand."""
    cdef const Columns* columns = work.columns
    cdef const Look* look
    cdef double total, scale
    decision.dim = NONE
    if uniform(rng) >= p_split_at(columns, work.pool.nodes[weights.node].depth):
        return
    if columns.weight == NULL or work.equal_shares:
        decision.dim = weights.dims[below(weights.n, rng)]
    else:
        total = sum_weights(&scale, columns, weights.dims, weights.n)
        decision.dim = weights.dims[draw_position(weights.dims, weights.n, total, scale, columns, rng)]
    look = look_of(work, weights.node, decision.dim)
    decision.code = draw_code(look.low, look.high, columns, decision.dim, rng)


cdef double log_cell_ratio(const Weights* weights, const Decision* decision, const Work* work) noexcept nogil:
    """log r of the cell of a split, as the weights in use have it; 0 for a stop."""
    cdef const Look* look
    cdef int32_t cell
    cdef uint32_t low, high
    if decision.dim == NONE:
        return 0.0
    look = look_of(work, weights.node, decision.dim)
    cell = cell_of(work.columns, decision.dim, decision.code)
    cell_bounds(&low, &high, work, decision.dim, look, cell)
    if MUTANT(25):
        low, high = decision.code, decision.code + 1
    return look.top + log(work.looks.weight[<int64_t>(look - work.looks.look) * work.columns.n_bins + cell
                                            - look.first]
                          / mass_between(work.columns, decision.dim, low, high))


cdef double log_ratio_of(const Weights* weights, const Decision* decision, const Work* work,
                         double prior_share) noexcept nogil:
    """log P / q = -log((1 - e) r / Z + e)."""
    cdef double log_q = log_cell_ratio(weights, decision, work) - weights.log_Z
    if MUTANT(17) and decision.dim == NONE:
        return 0.0
    if MUTANT(24):                                          # Z / L with the ratio of the cell, see `follow`
        return weights.log_Z
    if prior_share == 0.0:
        return -log_q
    if log_q > 0:                                           # r / Z itself may overflow
        return -log_q - log(1.0 - prior_share + prior_share * exp(-log_q))
    return -log((1.0 - prior_share) * exp(log_q) + prior_share)


cdef int weigh_here(Weights* weights, int32_t node, int32_t own_dim, Work* work, const OptimalParams* params,
                    const double* target, bitgen_t* rng) noexcept nogil:
    """Columns in hand and weights at a popped node; the subset of the region's root is drawn once for all particles."""
    cdef int32_t* dims = work.subset
    cdef int32_t n = 0, k
    if node == work.region and work.n_shared > 0:
        dims = work.shared_subset
        n = work.n_shared
    else:
        if draw_subset(dims, &n, work, node, own_dim, params.subset, rng) != OK:
            return NO_MEMORY
        if node == work.region:
            for k in range(n):
                work.shared_subset[k] = dims[k]
            work.n_shared = n
    work.visits += n * work.pool.nodes[node].stat.n
    return weigh_node(weights, work, node, dims, n, 1.0, target)


cdef int propose_optimal(Decision* decision, double* log_ratio, int32_t node, Work* work, const OptimalParams* params,
                         const double* target, bitgen_t* rng) noexcept nogil:
    """Draw a decision from q = (1 - e) w / Z + e P, and log P / q of it; a node without valid split stops."""
    cdef Weights weights
    decision.dim = NONE
    log_ratio[0] = 0.0
    if pool_can_split(node, &work.pool, work.columns, work.ops) != OK:
        return NO_MEMORY
    if not work.pool.nodes[node].can_split:
        return OK
    if weigh_here(&weights, node, NONE, work, params, target, rng) != OK:
        return NO_MEMORY
    if params.prior_share > 0 and uniform(rng) < params.prior_share:
        draw_from_prior(decision, &weights, work, rng)
    else:
        draw_decision(decision, &weights, work, rng)
    log_ratio[0] = log_ratio_of(&weights, decision, work, params.prior_share)
    return OK


cdef int log_optimal_ratio(double* log_ratio, int32_t node, const Decision* decision, Work* work,
                           const OptimalParams* params, const double* target, bitgen_t* rng) noexcept nogil:
    """log P / q of the decision that the clamped particle has stored."""
    cdef Weights weights
    log_ratio[0] = 0.0
    if pool_can_split(node, &work.pool, work.columns, work.ops) != OK:
        return NO_MEMORY
    if not work.pool.nodes[node].can_split:
        return OK
    if weigh_here(&weights, node, decision.dim, work, params, target, rng) != OK:
        return NO_MEMORY
    if MUTANT(18) and decision.dim != NONE and (find_ranges(work, node, &decision.dim, 1) != OK
                                                or weigh_columns(work, node, &decision.dim, 1, target) != OK):
        return NO_MEMORY
    log_ratio[0] = log_ratio_of(&weights, decision, work, params.prior_share)
    return OK
