# Loops by leaf number: a part of rowops_body.pxi.


cdef inline void scatter_sum(double* acc, const code_t* labels, const double* r, int32_t n) noexcept nogil:
    cdef int32_t i, l, whole = n - n % LANES
    for i in range(0, whole, 8):
        for l in range(LANES):
            acc[<int64_t>labels[i + l] * LANES + l] += r[i + l]
    for i in range(whole, n):
        acc[<int64_t>labels[i] * LANES + (i - whole)] += r[i]


cdef void many_leaf_sums(double* s, double* acc, const void* labels, int32_t itemsize, int32_t n_leaves,
                         const double* r, int64_t start, int32_t n) noexcept nogil:
    """s += sums of a block of r by leaf, scattered to a sum for each leaf and lane."""
    cdef int32_t l
    memset(acc, 0, sizeof(double) * LANES * n_leaves)
    if itemsize == 1:
        scatter_sum[uint8_t](acc, <const uint8_t*>labels + start, r + start, n)
    elif itemsize == 2:
        scatter_sum[uint16_t](acc, <const uint16_t*>labels + start, r + start, n)
    else:
        scatter_sum[uint32_t](acc, <const uint32_t*>labels + start, r + start, n)
    for l in range(n_leaves):
        s[l] += lanes_sum(lanes_load(acc + <int64_t>l * LANES))


cdef inline void some_leaf_sums(double* s, const uint8_t* labels, int32_t first, int32_t n_leaves, const double* r,
                                int32_t n) noexcept nogil:
    """s += sums of a block of r by leaf, for n_leaves <= 4 leaves from `first` on, all in registers; n_leaves is a
    constant of the caller."""
    cdef Lanes[4] acc
    cdef double[4][LANES] rest
    cdef int32_t i, l, whole = n - n % LANES
    for l in range(n_leaves):
        acc[l] = lanes_zero()
    for i in range(0, whole, 8):
        lanes_add_leaves(acc, r + i, labels + i, first, n_leaves)
    if whole < n:
        memset(rest, 0, sizeof(rest))
        for i in range(whole, n):
            l = labels[i] - first
            if 0 <= l < n_leaves:
                rest[l][i - whole] = r[i]
        for l in range(n_leaves):
            acc[l] = lanes_add(acc[l], lanes_load(rest[l]))
    for l in range(n_leaves):
        s[first + l] += lanes_sum(acc[l])


cdef void few_leaf_sums(double* s, const uint8_t* labels, int32_t n_leaves, const double* r, int32_t n) noexcept nogil:
    """The same for all leaves, four at a time."""
    cdef int32_t first
    for first in range(0, n_leaves, 4):
        if n_leaves - first >= 4:
            some_leaf_sums(s, labels, first, 4, r, n)
        elif n_leaves - first == 3:
            some_leaf_sums(s, labels, first, 3, r, n)
        elif n_leaves - first == 2:
            some_leaf_sums(s, labels, first, 2, r, n)
        else:
            some_leaf_sums(s, labels, first, 1, r, n)


cdef void block_leaf_sums(double* s, double* acc, const void* labels, int32_t itemsize, int32_t n_leaves,
                          const double* r, int64_t start, int32_t n) noexcept nogil:
    if n_leaves <= MOST_LEAVES_AT_ONCE and itemsize == 1:
        few_leaf_sums(s, <const uint8_t*>labels + start, n_leaves, r + start, n)
    else:
        many_leaf_sums(s, acc, labels, itemsize, n_leaves, r, start, n)


cdef void leaf_sums(double* s, double* acc, const void* labels, int32_t itemsize, int32_t n_leaves,
                    const double* r, int64_t n_rows, int32_t leaf, const Predicate* rule, int64_t* n_in,
                    double* s_in) noexcept nogil:
    cdef uint8_t[BLOCK] mask
    cdef Predicate[2] where
    cdef int64_t start
    cdef int32_t size
    memset(s, 0, sizeof(double) * n_leaves)
    if rule != NULL:
        n_in[0] = 0
        s_in[0] = 0.0
        where[0] = rule[0]
        where[1].column = labels
        where[1].itemsize = itemsize
        where[1].relation = EQUAL
        where[1].cut = leaf
    for start in range(0, n_rows, 4096):
        size = block_size(start, n_rows)
        block_leaf_sums(s, acc, labels, itemsize, n_leaves, r, start, size)
        if rule != NULL and itemsize == 1 and MOST_DIRECT > 1:
            n_in[0] += block_sum_where(s_in, where, 1, True, r, start, size)
        elif rule != NULL:
            block_mask(mask, where, 2, start, size)
            n_in[0] += block_masked_sum(s_in, mask, r + start, size)


cdef void leaf_sums_and_add(double* s, double* acc, double* out, const double* value, const void* labels,
                            int32_t itemsize, int32_t n_leaves, const double* r, int64_t n_rows) noexcept nogil:
    cdef int64_t start
    cdef int32_t size
    memset(s, 0, sizeof(double) * n_leaves)
    for start in range(0, n_rows, 4096):
        size = block_size(start, n_rows)
        block_leaf_sums(s, acc, labels, itemsize, n_leaves, r, start, size)
        add_leaf_values(out + start, r + start, value, n_leaves, <const char*>labels + start * itemsize, itemsize, size)


cdef inline void gather_add(double* out, const double* r, const double* value, const code_t* labels,
                            int64_t n) noexcept nogil:
    cdef int64_t i, whole = n - n % LANES
    for i in range(0, whole, 8):
        lanes_store(out + i, lanes_add(lanes_load(r + i), lanes_gather(value, labels + i, sizeof(code_t))))
    for i in range(whole, n):
        out[i] = r[i] + value[labels[i]]


cdef inline void look_up_add(double* out, const double* r, const double* value, int32_t n_values,
                             const uint8_t* labels, int64_t n) noexcept nogil:
    """The same where all values fit in registers; n_values is a constant, 4 or 8."""
    cdef Table table = table_load(value)
    cdef int64_t i, whole = n - n % LANES
    for i in range(0, whole, 8):
        lanes_store(out + i, lanes_add_value(lanes_load(r + i), table, labels + i, n_values))
    for i in range(whole, n):
        out[i] = r[i] + value[labels[i]]


cdef void add_leaf_values(double* out, const double* r, const double* value, int32_t n_values, const void* labels,
                          int32_t itemsize, int64_t n_rows) noexcept nogil:
    cdef double[8] padded
    if itemsize == 1 and n_values <= 8:
        memset(padded, 0, sizeof(padded))
        memcpy(padded, value, n_values * sizeof(double))
        if n_values <= 4:
            look_up_add(out, r, padded, 4, <const uint8_t*>labels, n_rows)
        else:
            look_up_add(out, r, padded, 8, <const uint8_t*>labels, n_rows)
    elif itemsize == 1:
        gather_add[uint8_t](out, r, value, <const uint8_t*>labels, n_rows)
    elif itemsize == 2:
        gather_add[uint16_t](out, r, value, <const uint16_t*>labels, n_rows)
    else:
        gather_add[uint32_t](out, r, value, <const uint32_t*>labels, n_rows)
