# Loops by leaf number: a part of rowops_body.pxi.


cdef inline void scatter_sum(double* acc, const code_t* labels, const double* r, int32_t n) noexcept nogil:
    cdef int32_t i, l, whole = n - n % LANES
    for i in range(0, whole, 8):
        for l in range(LANES):
            acc[<int64_t>labels[i + l] * LANES + l] += r[i + l]
    for i in range(whole, n):
        acc[<int64_t>labels[i] * LANES + (i - whole)] += r[i]


cdef void block_leaf_sums(double* s, double* acc, const void* labels, int32_t itemsize, int32_t n_leaves,
                          const double* r, int64_t start, int32_t n) noexcept nogil:
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


cdef inline void block_few_leaf_sums(double* s, const uint8_t* labels, int32_t first, int32_t n_leaves,
                                     const double* r, int32_t n, const code_t* column, uint32_t cut, int32_t leaf,
                                     bint with_rule, int64_t* n_in, double* s_in) noexcept nogil:
    """The same additions for n_leaves <= 4 leaves from `first` on, all sums in registers; n_leaves and with_rule are
    constants of the caller."""
    cdef Lanes a0 = lanes_zero(), a1 = lanes_zero(), a2 = lanes_zero(), a3 = lanes_zero(), inside = lanes_zero(), x
    cdef Labels own
    cdef Mask m
    cdef Tally tally = tally_zero()
    cdef double[5][LANES] rest                          # of the last rows: by leaf, and the rule's
    cdef int32_t i, l, whole = n - n % LANES
    for i in range(0, whole, 8):
        x = lanes_load(r + i)
        own = labels_load(labels + i)
        a0 = lanes_add_leaf(a0, x, own, first)
        if n_leaves > 1:
            a1 = lanes_add_leaf(a1, x, own, first + 1)
        if n_leaves > 2:
            a2 = lanes_add_leaf(a2, x, own, first + 2)
        if n_leaves > 3:
            a3 = lanes_add_leaf(a3, x, own, first + 3)
        if with_rule:
            m = mask_and(mask_equal(labels + i, 1, leaf), mask_at_most(column + i, sizeof(code_t), cut))
            inside = lanes_add_where(inside, x, m)
            tally = tally_add(tally, m)
    if whole < n:
        memset(rest, 0, sizeof(rest))
        for i in range(whole, n):
            l = labels[i] - first
            if 0 <= l < n_leaves:
                rest[l][i - whole] = r[i]
            if with_rule and labels[i] == leaf and column[i] <= cut:
                rest[4][i - whole] = r[i]
                n_in[0] += 1
        a0 = lanes_add(a0, lanes_load(rest[0]))
        a1 = lanes_add(a1, lanes_load(rest[1]))
        a2 = lanes_add(a2, lanes_load(rest[2]))
        a3 = lanes_add(a3, lanes_load(rest[3]))
        inside = lanes_add(inside, lanes_load(rest[4]))
    s[first] += lanes_sum(a0)
    if n_leaves > 1:
        s[first + 1] += lanes_sum(a1)
    if n_leaves > 2:
        s[first + 2] += lanes_sum(a2)
    if n_leaves > 3:
        s[first + 3] += lanes_sum(a3)
    if with_rule:
        n_in[0] += tally_sum(tally)
        s_in[0] += lanes_sum(inside)


cdef inline void some_leaf_sums(double* s, const uint8_t* labels, int32_t first, int32_t n_leaves, const double* r,
                                int32_t n, const code_t* column, uint32_t cut, int32_t leaf, bint with_rule,
                                int64_t* n_in, double* s_in) noexcept nogil:
    if n_leaves == 1:
        block_few_leaf_sums(s, labels, first, 1, r, n, column, cut, leaf, with_rule, n_in, s_in)
    elif n_leaves == 2:
        block_few_leaf_sums(s, labels, first, 2, r, n, column, cut, leaf, with_rule, n_in, s_in)
    elif n_leaves == 3:
        block_few_leaf_sums(s, labels, first, 3, r, n, column, cut, leaf, with_rule, n_in, s_in)
    else:
        block_few_leaf_sums(s, labels, first, 4, r, n, column, cut, leaf, with_rule, n_in, s_in)


cdef inline void few_leaf_sums_of(double* s, const uint8_t* labels, int32_t n_leaves, const double* r, int64_t n_rows,
                                  const code_t* column, uint32_t cut, int32_t leaf, bint with_rule, int64_t* n_in,
                                  double* s_in) noexcept nogil:
    cdef int64_t i
    cdef int32_t first, size
    for i in range(0, n_rows, 4096):
        size = block_size(i, n_rows)
        some_leaf_sums(s, labels + i, 0, n_leaves, r + i, size, column + i, cut, leaf, with_rule, n_in, s_in)
        for first in range(4, n_leaves, 4):
            some_leaf_sums(s, labels + i, first, n_leaves - first, r + i, size, column + i, cut, leaf, False, n_in,
                           s_in)


cdef void few_leaf_sums(double* s, const uint8_t* labels, int32_t n_leaves, const double* r, int64_t n_rows,
                        int32_t leaf, const Predicate* rule, int64_t* n_in, double* s_in) noexcept nogil:
    if rule == NULL:
        few_leaf_sums_of[uint8_t](s, labels, n_leaves, r, n_rows, labels, 0, 0, False, n_in, s_in)
    elif rule.itemsize == 1:
        few_leaf_sums_of[uint8_t](s, labels, n_leaves, r, n_rows, <const uint8_t*>rule.column, rule.cut, leaf, True,
                                  n_in, s_in)
    elif rule.itemsize == 2:
        few_leaf_sums_of[uint16_t](s, labels, n_leaves, r, n_rows, <const uint16_t*>rule.column, rule.cut, leaf, True,
                                   n_in, s_in)
    else:
        few_leaf_sums_of[uint32_t](s, labels, n_leaves, r, n_rows, <const uint32_t*>rule.column, rule.cut, leaf, True,
                                   n_in, s_in)


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
    if n_leaves <= MOST_LEAVES_AT_ONCE and itemsize == 1:
        few_leaf_sums(s, <const uint8_t*>labels, n_leaves, r, n_rows, leaf, rule, n_in, s_in)
        return
    if rule != NULL:
        where[0].column = labels
        where[0].itemsize = itemsize
        where[0].relation = EQUAL
        where[0].cut = leaf
        where[1] = rule[0]
    for start in range(0, n_rows, 4096):
        size = block_size(start, n_rows)
        block_leaf_sums(s, acc, labels, itemsize, n_leaves, r, start, size)
        if rule != NULL:
            block_mask(mask, where, 2, start, size)
            n_in[0] += block_masked_sum(s_in, mask, r + start, size)


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


cdef void leaf_sums_and_add(double* s, double* acc, double* out, const double* value, const void* labels,
                            int32_t itemsize, int32_t n_leaves, const double* r, int64_t n_rows) noexcept nogil:
    cdef double[8] of_block
    cdef const char* own
    cdef int64_t start, unused_n
    cdef int32_t size, l
    cdef double unused_s
    memset(s, 0, sizeof(double) * n_leaves)
    for start in range(0, n_rows, 4096):
        size = block_size(start, n_rows)
        own = <const char*>labels + start * itemsize
        if n_leaves <= MOST_LEAVES_AT_ONCE and itemsize == 1:
            memset(of_block, 0, sizeof(of_block))
            few_leaf_sums(of_block, <const uint8_t*>own, n_leaves, r + start, size, 0, NULL, &unused_n, &unused_s)
            for l in range(n_leaves):
                s[l] += of_block[l]
        else:
            block_leaf_sums(s, acc, labels, itemsize, n_leaves, r, start, size)
        add_leaf_values(out + start, r + start, value, n_leaves, own, itemsize, size)
