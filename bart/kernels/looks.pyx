"""What a node looks like along its columns: range, histogram of the target, weight of every cell of gaps.

Looks are kept for the whole step: particles that share a node share them, and a node's histogram is its parent's less
its sibling's wherever those are known.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcpy
from bart.kernels.columns cimport Columns, cell_of, mass_between
from bart.kernels.memory cimport grow
from bart.kernels.nodeset cimport NodeSet, extreme_range, node_range
from bart.kernels.pool cimport Pool, pool_ask, pool_make_rows, pool_path
from bart.kernels.tree cimport NONE
from bart.kernels.types cimport NO_MEMORY, OK

cdef enum:
    MOST_BITS = 40          # of an integer that stands for a target
    SEARCHED = 32           # rows of a node below which its range is read from them


cdef void begin_looks(Work* work, const double* target) noexcept nogil:
    """Forget all looks; choose the integers that stand for this target, so that no sum of them can overflow.

    In a sweep their unit is chosen once, from y with room to spare; what exceeds it all the same counts as the largest.
    """
    cdef Looks* looks = &work.looks
    cdef double top = work.sweep_top if work.sweep_top > 0 else work.ops.largest(target, work.columns.n_rows)
    cdef int32_t bits = 1, most
    while <int64_t>1 << bits <= work.columns.n_rows:
        bits += 1
    looks.n = 0
    looks.n_nodes = 0
    looks.shift = 62 - bits                 # |sum| < 2^(shift - 1), and the count has `bits` above it
    most = looks.shift - 1 - bits
    if most > MOST_BITS:
        most = MOST_BITS
    looks.most = 2.0 ** most
    looks.scale = looks.most / top if top > 1e-250 else 1.0
    looks.weight_scale = looks.most / work.most_weight


cdef int reserve_looks(Work* work, int32_t n) noexcept nogil:
    """Room for n looks more, and for two rows more of the table."""
    cdef Looks* looks = &work.looks
    cdef int64_t n_bins = work.columns.n_bins, capacity
    if looks.n + n > looks.capacity:
        capacity = 2 * (looks.n + n)
        if (grow(<void**>&looks.look, capacity, sizeof(Look)) or grow(<void**>&looks.sums, capacity * n_bins, 8)
                or grow(<void**>&looks.weight, capacity * n_bins, 8)
                or work.weights != NULL and grow(<void**>&looks.weight_sums, capacity * n_bins, 8)):
            return NO_MEMORY
        looks.capacity = <int32_t>capacity
    if looks.n_nodes + 2 > looks.node_capacity:
        capacity = 2 * (looks.n_nodes + 2)
        if grow(<void**>&looks.table, capacity * work.columns.n_dims, sizeof(int32_t)) != OK:
            return NO_MEMORY
        looks.node_capacity = <int32_t>capacity
    return OK


cdef int32_t known_look(const Work* work, int32_t node, int32_t dim) noexcept nogil:
    """The look of a node along a column, or NONE."""
    cdef int32_t row = work.pool.nodes[node].looks
    return NONE if row == NONE else work.looks.table[<int64_t>row * work.columns.n_dims + dim]


cdef int look_at(int32_t* number, Work* work, int32_t node, int32_t dim) noexcept nogil:
    """The look of a node along a column, made if there is none yet."""
    cdef Looks* looks = &work.looks
    cdef int32_t n_dims = work.columns.n_dims, d
    cdef Look* look
    cdef int32_t* row
    number[0] = known_look(work, node, dim)
    if number[0] != NONE:
        return OK
    if reserve_looks(work, 1) != OK:
        return NO_MEMORY
    if work.pool.nodes[node].looks == NONE:
        work.pool.nodes[node].looks = looks.n_nodes
        row = looks.table + <int64_t>looks.n_nodes * n_dims
        for d in range(n_dims):
            row[d] = NONE
        looks.n_nodes += 1
    number[0] = looks.n
    looks.table[<int64_t>work.pool.nodes[node].looks * n_dims + dim] = looks.n
    look = &looks.look[looks.n]
    look.has_range = look.has_sums = look.has_weights = False
    looks.n += 1
    return OK


cdef int find_ranges(Work* work, int32_t node, const int32_t* dims, int32_t n) noexcept nogil:
    """The node's range in some columns, and whether each has a valid split there."""
    cdef const Columns* columns = work.columns
    cdef NodeSet path, rows
    cdef Look* look
    cdef int32_t k, number
    cdef bint by_path = pool_path(&path, &work.pool, node, columns) and path.n > SEARCHED, asked = False
    for k in range(n):
        if look_at(&number, work, node, dims[k]) != OK:
            return NO_MEMORY
        look = &work.looks.look[number]
        if look.has_range:
            continue
        look.has_range = True
        if by_path and path.n_where > 0 and extreme_range(&look.low, &look.high, &path, columns, dims[k]):
            look.valid = look.low < look.high and mass_between(columns, dims[k], look.low, look.high) > 0
            continue
        if not asked:
            if pool_ask(&rows, &work.pool, node, columns, work.ops) != OK:
                return NO_MEMORY
            asked = True
        look.valid = node_range(&look.low, &look.high, &rows, columns, dims[k], work.ops)
    return OK


cdef int count_directly(Work* work, int32_t node, const int32_t* dims, int32_t n, const double* target) noexcept nogil:
    """Histograms of a node along n columns from its rows. Consecutive new looks get them in one call."""
    cdef Pool* pool = &work.pool
    cdef Looks* looks = &work.looks
    cdef const Columns* columns = work.columns
    cdef const uint32_t* rows = NULL
    cdef int32_t k, number, first = 0, last
    if pool.nodes[node].parent != NONE:
        if pool_make_rows(pool, node, columns, work.ops) != OK:
            return NO_MEMORY
        rows = pool.rows + pool.nodes[node].rows
    for k in range(n):
        if look_at(&number, work, node, dims[k]) != OK:
            return NO_MEMORY
        looks.look[number].has_sums = True
    while first < n:
        number = known_look(work, node, dims[first])
        last = first + 1
        while last < n and known_look(work, node, dims[last]) == number + last - first:
            last += 1
        work.ops.histogram(looks.sums + <int64_t>number * columns.n_bins, columns.n_bins, columns.bins,
                           columns.n_dims, dims + first, last - first, rows, pool.nodes[node].stat.n, target,
                           looks.scale, looks.most, <int64_t>1 << looks.shift)
        if work.weights != NULL:
            work.ops.histogram(looks.weight_sums + <int64_t>number * columns.n_bins, columns.n_bins, columns.bins,
                               columns.n_dims, dims + first, last - first, rows, pool.nodes[node].stat.n, work.weights,
                               looks.weight_scale, looks.most, <int64_t>1 << looks.shift)
        first = last
    return OK


cdef bint has_sums(const Work* work, int32_t node, int32_t dim) noexcept nogil:
    cdef int32_t number = known_look(work, node, dim)
    return number != NONE and work.looks.look[number].has_sums


cdef int count_columns(Work* work, int32_t node, const int32_t* dims, int32_t n, const double* target) noexcept nogil:
    """Histograms of a node along n columns: parent less sibling where that costs no more rows, else from its rows."""
    cdef Pool* pool = &work.pool
    cdef Looks* looks = &work.looks
    cdef int64_t n_bins = work.columns.n_bins
    cdef int32_t parent = pool.nodes[node].parent, sibling = node + 1 - 2 * pool.nodes[node].side
    cdef int32_t k, found = 0, number, of_parent, of_sibling
    cdef int64_t b
    cdef bint smaller = parent != NONE and pool.nodes[sibling].stat.n < pool.nodes[node].stat.n
    for k in range(n):                          # the sibling's columns that are worth counting for this node's sake
        if (smaller and not has_sums(work, node, dims[k]) and has_sums(work, parent, dims[k])
                and not has_sums(work, sibling, dims[k])):
            work.missing[found] = dims[k]
            found += 1
    if found > 0 and count_directly(work, sibling, work.missing, found, target) != OK:
        return NO_MEMORY
    found = 0
    for k in range(n):
        if has_sums(work, node, dims[k]):
            continue
        if parent == NONE or not has_sums(work, parent, dims[k]) or not has_sums(work, sibling, dims[k]):
            work.missing[found] = dims[k]
            found += 1
            continue
        if look_at(&number, work, node, dims[k]) != OK:
            return NO_MEMORY
        of_parent, of_sibling = known_look(work, parent, dims[k]), known_look(work, sibling, dims[k])
        for b in range(n_bins):
            looks.sums[number * n_bins + b] = (looks.sums[of_parent * n_bins + b]
                                               - looks.sums[of_sibling * n_bins + b])
        if work.weights != NULL:
            for b in range(n_bins):
                looks.weight_sums[number * n_bins + b] = (looks.weight_sums[of_parent * n_bins + b]
                                                          - looks.weight_sums[of_sibling * n_bins + b])
        looks.look[number].has_sums = True
    return count_directly(work, node, work.missing, found, target) if found > 0 else OK


cdef void cell_bounds(uint32_t* low, uint32_t* high, const Work* work, int32_t dim, const Look* look,
                      int32_t cell) noexcept nogil:
    """The gaps low..high - 1 of a cell that lie within the node's range."""
    cdef const uint32_t* first = work.columns.cell_first + <int64_t>dim * work.columns.n_bins
    low[0] = first[cell] if first[cell] > look.low else look.low
    high[0] = first[cell + 1] if first[cell + 1] < look.high else look.high


cdef double* frame_look(double* mass, Work* work, int32_t dim, Look* look) noexcept nogil:
    """The cells that meet a look's range and the prior mass of each in it; returns where their weights go."""
    cdef const Columns* columns = work.columns
    cdef uint32_t low, high
    cdef int32_t k, last = cell_of(columns, dim, look.high - 1)
    look.first = cell_of(columns, dim, look.low)
    look.n_cells = last - look.first + 1
    look.mass = mass_between(columns, dim, look.low, look.high)
    memcpy(mass, columns.cell_mass + <int64_t>dim * columns.n_bins + look.first, look.n_cells * sizeof(double))
    for k in range(2):                                      # both ends may stick out of the range
        cell_bounds(&low, &high, work, dim, look, last if k else look.first)
        mass[look.n_cells - 1 if k else 0] = mass_between(columns, dim, low, high)
    return work.looks.weight + (look - work.looks.look) * columns.n_bins


cdef inline int64_t total_of(const Work* work, int32_t node, const int64_t* sums) noexcept nogil:
    """The integer sum over a node's rows, from that of its cells."""
    cdef int64_t packed = 0
    cdef int32_t k
    for k in range(work.columns.n_bins):
        packed += sums[k]
    return packed - (work.pool.nodes[node].stat.n << work.looks.shift)


cdef int64_t sum_of_look(const Work* work, int32_t node, int32_t number) noexcept nogil:
    """The integer that stands for the node's target sum."""
    return total_of(work, node, work.looks.sums + <int64_t>number * work.columns.n_bins)


cdef const int64_t* weights_of_look(int64_t* total, const Work* work, int32_t node, int32_t number) noexcept nogil:
    """The histogram of the weights and the integer that stands for their sum; NULL where rows carry none."""
    cdef const int64_t* sums
    total[0] = 0
    if work.weights == NULL:
        return NULL
    sums = work.looks.weight_sums + <int64_t>number * work.columns.n_bins
    total[0] = total_of(work, node, sums)
    return sums


cdef void weigh(Work* work, int32_t node, int32_t dim, int32_t number) noexcept nogil:
    """Weights of the cells within the node's range: mass L(l) L(r) / L(eta) at the cell's representative gap."""
    cdef Looks* looks = &work.looks
    cdef Look* look = &looks.look[number]
    cdef double[256] mass
    cdef double* weight = frame_look(mass, work, dim, look)
    cdef int64_t total_weight
    cdef const int64_t* of_weights = weights_of_look(&total_weight, work, node, number)
    look.total = work.ops.cut_weights(weight, &look.top, looks.sums + <int64_t>number * work.columns.n_bins, look.first,
                                      look.n_cells, mass, work.pool.nodes[node].stat.n,
                                      sum_of_look(work, node, number), looks.scale, looks.shift, work.leaf.sigma2,
                                      work.leaf.leaf_var, work.leaf.leaf_mean, of_weights, total_weight,
                                      looks.weight_scale)
    look.has_weights = True


cdef int weigh_columns(Work* work, int32_t node, const int32_t* dims, int32_t n, const double* target) noexcept nogil:
    """Make the weights of a node along n valid columns, whose ranges are known."""
    cdef int32_t k, number
    if count_columns(work, node, dims, n, target) != OK:
        return NO_MEMORY
    for k in range(n):
        number = known_look(work, node, dims[k])
        if not work.looks.look[number].has_weights:
            weigh(work, node, dims[k], number)
    return OK
