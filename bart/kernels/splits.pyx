"""Decisions at a node: the prior as a proposal, and the prior's logarithm."""

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t, int64_t, uint32_t
from numpy.random cimport bitgen_t
from bart.kernels.columns cimport (LEAST_WEIGHT, N_CELLS, Columns, code_at, column_of, count_surely_valid, is_candidate,
                                   mass_between, p_split_at, sum_weights, surely_valid, weight_in)
from bart.kernels.nodeset cimport NodeSet, node_range
from bart.kernels.pool cimport pool_ask
from bart.kernels.rng cimport below, bernoulli, uniform
from bart.kernels.tree cimport NONE
from bart.kernels.types cimport MUTANT, NO_MEMORY, OK, Decision, satisfies, value_at


cdef enum:
    FEW = 16                # rows of a node that are looked at before all of them


cdef uint32_t draw_code(uint32_t low, uint32_t high, const Columns* columns, int32_t dim,
                        bitgen_t* rng) noexcept nogil:
    """A gap between the codes low < high with probability mass of the gap / mass of the range, by bisection.

    Masses are compared as distances from the lower end: the masses themselves may be large beside the range. The
    search starts from the cell of the column's index where the mass should be; a bound that rounding put wrong is
    given up, so that the index has no say in the result.
    """
    cdef const double* mass = columns.mass[dim]
    cdef double at = uniform(rng) * (mass[high] - mass[low])
    cdef const uint32_t* cell = columns.cells + <int64_t>dim * (N_CELLS + 1)
    cdef double position = N_CELLS * ((mass[low] - mass[0] + at) / (mass[columns.last_code[dim]] - mass[0]))
    cdef int32_t k = <int32_t>position if position < N_CELLS - 1 else N_CELLS - 1
    cdef uint32_t gap = cell[k], above = cell[k + 1] + 1, middle
    # mass[gap] - mass[low] <= at < mass[above] - mass[low], but for rounding at the upper end
    if gap < low or gap >= high or mass[gap] - mass[low] > at:
        gap = low
    if above > high or above <= gap or mass[above] - mass[low] <= at:
        above = high
    while above - gap > 1:
        middle = gap + (above - gap) // 2
        if mass[middle] - mass[low] <= at:
            gap = middle
        else:
            above = middle
    while mass[gap + 1] <= mass[gap]:                       # only where rounding put `at` on the upper end
        gap -= 1
    return gap


cdef int32_t draw_position(const int32_t* dims, int32_t n, double total, double scale,
                           const Columns* columns, bitgen_t* rng) noexcept nogil:
    """Position in a list of columns, in proportion to their weights, whose sum is `total` in units of exp(scale)."""
    cdef int32_t k
    cdef double at
    if columns.weight == NULL:
        return <int32_t>below(n, rng)
    at = uniform(rng) * total
    for k in range(n - 1):
        at -= weight_in(columns, dims[k], scale)
        if at < 0:
            return k
    return n - 1


cdef uint32_t middle_of_own_gap(const Decision* rule, const NodeSet* node, Work* work) noexcept nogil:
    """Mutant 12: the gap that holds the midpoint between the node's own neighbours of a rule."""
    cdef const Columns* columns = work.columns
    cdef const double* mass = columns.mass[rule.dim]
    cdef uint32_t below_code = 0, above_code = columns.last_code[rule.dim], c
    cdef int64_t i, row
    for i in range(node.n if node.rows != NULL else columns.n_rows):
        row = node.rows[i] if node.rows != NULL else i
        if node.rows == NULL and not satisfies(node.where, node.n_where, row):
            continue
        c = code_at(columns, rule.dim, row)
        if c <= rule.code:
            below_code = max(below_code, c)
        else:
            above_code = min(above_code, c)
    c = below_code
    while mass[c + 1] <= 0.5 * (mass[below_code] + mass[above_code]):
        c += 1
    return c


cdef bint draw_rule(Decision* rule, const NodeSet* node, Work* work, bitgen_t* rng) noexcept nogil:
    """(dim, code) from the prior given the node's rows; False where no column has a valid split.

    The column is uniform (or by weight) over the valid ones: candidates are drawn without replacement until one is
    valid, so that only the columns drawn are looked at.
    """
    cdef const Columns* columns = work.columns
    cdef int32_t n = columns.n_candidates, k, i, dim
    cdef double total = columns.total_weight, scale = 0.0
    cdef const int32_t* dims = columns.candidates
    cdef uint32_t low, high
    if node.n < 2:
        n = 0
    while n > 0:
        k = draw_position(dims, n, total, scale, columns, rng)
        dim = dims[k]
        if node_range(&low, &high, node, columns, dim, work.ops):
            rule.dim = dim
            rule.code = draw_code(low, high, columns, dim, rng)
            if MUTANT(12):
                rule.code = middle_of_own_gap(rule, node, work)
            return True
        n -= 1
        if dims != work.dims:
            for i in range(k):
                work.dims[i] = dims[i]
        for i in range(k, n):
            work.dims[i] = dims[i + 1]
        dims = work.dims
        if columns.weight != NULL:
            total = sum_weights(&scale, columns, dims, n)   # summed afresh: weights may differ by many orders
    rule.dim = NONE
    return False


cdef int propose_prior(Decision* decision, int32_t node, Work* work, bitgen_t* rng) noexcept nogil:
    """Stop or split a pool node from the prior, eq. (splitprob).

    A node without a valid split stops whatever was drawn first: p_s = 0 there, and only rules are looked up in rows.
    """
    cdef NodeSet rows
    cdef int32_t depth = work.pool.nodes[node].depth
    decision.dim = NONE
    if bernoulli(p_split_at(work.columns, depth), rng) or (MUTANT(8) and depth == 0):
        if pool_ask(&rows, &work.pool, node, work.columns, work.ops) != OK:
            return NO_MEMORY
        draw_rule(decision, &rows, work, rng)
    return OK


cdef int32_t some_rows(int64_t* few, const NodeSet* node, const Columns* columns) noexcept nogil:
    """Up to FEW rows of a node, from all over the data, as far as a short look finds them."""
    cdef int64_t n = node.n if node.rows != NULL else columns.n_rows, tries = 1 if node.rows != NULL else 16
    cdef int64_t i = 0, step = max(<int64_t>1, n // (tries * FEW))
    cdef int32_t found = 0
    while i < n and found < FEW:
        if node.rows != NULL or satisfies(node.where, node.n_where, i):
            few[found] = node.rows[i] if node.rows != NULL else i
            found += 1
        i += step
    return found


cdef bint is_valid(const int64_t* few, int32_t n_few, const NodeSet* node, int32_t dim,
                   const Work* work) noexcept nogil:
    """Whether a column has a valid split in the node; mostly a few of its rows tell, and else all of them are asked."""
    cdef const Columns* columns = work.columns
    cdef const void* column = column_of(columns, dim)
    cdef uint32_t low = 0, high = 0, c
    cdef int32_t k
    for k in range(n_few):
        c = value_at(column, columns.itemsize, few[k])
        if k == 0 or c < low:
            low = c
        if k == 0 or c > high:
            high = c
    if low < high and mass_between(columns, dim, low, high) > 0:
        return True
    return node_range(&low, &high, node, columns, dim, work.ops)


cdef double log_valid_weight(const NodeSet* node, const Work* work) noexcept nogil:
    """log of the sum of the weights of a node's valid columns, where that vanishes as a double."""
    cdef const Columns* columns = work.columns
    cdef uint32_t low, high
    cdef int32_t k, dim
    cdef double top = -INFINITY, total = 0.0, x
    for k in range(columns.n_candidates):
        dim = columns.candidates[k]
        if not surely_valid(columns, dim, node.n) and not node_range(&low, &high, node, columns, dim, work.ops):
            continue
        x = columns.log_weight[dim]
        if x > top:
            total = total * exp(top - x) + 1.0
            top = x
        else:
            total += exp(x - top)
    return top + log(total)


cdef double log_rule(const NodeSet* node, int32_t dim, uint32_t code, const Work* work) noexcept nogil:
    """log U(dim) U(code | dim) given the node's rows; -inf where the prior does not have the rule, as with a side
    that is empty."""
    cdef const Columns* columns = work.columns
    cdef uint32_t low, high
    cdef int32_t k, other, n_sure, n_few
    cdef int64_t[FEW] few
    cdef double total, own
    if (node.n < 2 or not is_candidate(columns, dim)
            or not node_range(&low, &high, node, columns, dim, work.ops) or code < low or code >= high):
        return -INFINITY
    own = mass_between(columns, dim, code, code + 1) / mass_between(columns, dim, low, high)
    n_sure = count_surely_valid(columns, node.n)
    n_few = some_rows(few, node, columns) if n_sure < columns.n_candidates else 0
    if columns.weight == NULL:
        total = n_sure
        for k in range(n_sure, columns.n_candidates):
            total += is_valid(few, n_few, node, columns.by_ties[k], work)
        return log(own / total)
    total = 0.0
    for k in range(columns.n_candidates):
        other = columns.candidates[k]
        if surely_valid(columns, other, node.n) or is_valid(few, n_few, node, other, work):
            total += columns.weight[other]
    if total >= LEAST_WEIGHT and columns.weight[dim] >= LEAST_WEIGHT:
        return log(own * columns.weight[dim] / total)
    return log(own) + columns.log_weight[dim] - (log(total) if total >= LEAST_WEIGHT else log_valid_weight(node, work))
