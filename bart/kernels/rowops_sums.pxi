# Sums over conjunctions of predicates: a part of rowops_body.pxi.


cdef inline int32_t sum_where(double* s, const code_t* column, const Predicate* where, int32_t n_codes,
                              bint with_leaf, const double* r, int64_t start, int32_t n) noexcept nogil:
    """s += sum of r over the rows of a block that satisfy all predicates; returns their number.

    where: n_codes inequalities on columns of one type, the first of them `column`, then with_leaf one leaf number of
    one byte. Both are constants of the caller, so that the loop has no branch.
    """
    cdef Lanes acc = lanes_zero()
    cdef Tally tally = tally_zero()
    cdef Mask m, above0 = mask_all(where[0].relation == ABOVE)
    cdef Mask above1 = mask_all(n_codes > 1 and where[1].relation == ABOVE)
    cdef Mask above2 = mask_all(n_codes > 2 and where[2].relation == ABOVE)
    cdef Mask above3 = mask_all(n_codes > 3 and where[3].relation == ABOVE)
    cdef double[LANES] rest
    cdef const code_t* column0 = column + start
    cdef const code_t* column1 = <const code_t*>where[1 if n_codes > 1 else 0].column + start
    cdef const code_t* column2 = <const code_t*>where[2 if n_codes > 2 else 0].column + start
    cdef const code_t* column3 = <const code_t*>where[3 if n_codes > 3 else 0].column + start
    cdef const uint8_t* labels = <const uint8_t*>where[n_codes].column + start if with_leaf else NULL
    cdef int32_t i, count = 0, whole = n - n % LANES
    for i in range(0, whole, 8):
        m = mask_xor(mask_at_most(column0 + i, sizeof(code_t), where[0].cut), above0)
        if n_codes > 1:
            m = mask_and(m, mask_xor(mask_at_most(column1 + i, sizeof(code_t), where[1].cut), above1))
        if n_codes > 2:
            m = mask_and(m, mask_xor(mask_at_most(column2 + i, sizeof(code_t), where[2].cut), above2))
        if n_codes > 3:
            m = mask_and(m, mask_xor(mask_at_most(column3 + i, sizeof(code_t), where[3].cut), above3))
        if with_leaf:
            m = mask_and(m, mask_equal(labels + i, 1, where[n_codes].cut))
        acc = lanes_add_where(acc, lanes_load(r + start + i), m)
        tally = tally_add(tally, m)
    for i in range(whole, n):
        rest[i - whole] = 0.0
        if satisfies(where, n_codes + with_leaf, start + i):
            rest[i - whole] = r[start + i]
            count += 1
    s[0] += lanes_sum(lanes_add_first(acc, rest, n - whole))
    return count + tally_sum(tally)


cdef inline int32_t sum_where_of(double* s, const code_t* column, const Predicate* where, int32_t n_codes,
                                 bint with_leaf, const double* r, int64_t start, int32_t n) noexcept nogil:
    if with_leaf:
        if n_codes == 1:
            return sum_where(s, column, where, 1, True, r, start, n)
        if n_codes == 2:
            return sum_where(s, column, where, 2, True, r, start, n)
        if n_codes == 3:
            return sum_where(s, column, where, 3, True, r, start, n)
        return sum_where(s, column, where, 4, True, r, start, n)
    if n_codes == 1:
        return sum_where(s, column, where, 1, False, r, start, n)
    if n_codes == 2:
        return sum_where(s, column, where, 2, False, r, start, n)
    if n_codes == 3:
        return sum_where(s, column, where, 3, False, r, start, n)
    return sum_where(s, column, where, 4, False, r, start, n)


cdef int32_t block_sum_where(double* s, const Predicate* where, int32_t n_codes, bint with_leaf, const double* r,
                             int64_t start, int32_t n) noexcept nogil:
    if where.itemsize == 1:
        return sum_where_of[uint8_t](s, <const uint8_t*>where.column, where, n_codes, with_leaf, r, start, n)
    if where.itemsize == 2:
        return sum_where_of[uint16_t](s, <const uint16_t*>where.column, where, n_codes, with_leaf, r, start, n)
    return sum_where_of[uint32_t](s, <const uint32_t*>where.column, where, n_codes, with_leaf, r, start, n)


cdef int32_t count_direct(bint* with_leaf, const Predicate* where, int32_t n_where) noexcept nogil:
    """The number of inequalities if the predicates can be tested as the rows are summed (see sum_where), else 0."""
    cdef int32_t k, n = n_where
    with_leaf[0] = n_where > 0 and where[n_where - 1].relation == EQUAL and where[n_where - 1].itemsize == 1
    if with_leaf[0]:
        n -= 1
    if n > MOST_DIRECT:
        return 0
    for k in range(n):
        if where[k].relation == EQUAL or where[k].itemsize != where[0].itemsize:
            return 0
    return n


cdef int32_t block_masked_sum(double* s, const uint8_t* mask, const double* r, int32_t n) noexcept nogil:
    """s += sum of r over the mask of a block; returns the number of rows."""
    cdef Lanes acc = lanes_zero()
    cdef Tally tally = tally_zero()
    cdef Mask m
    cdef double[LANES] rest
    cdef int32_t i, count = 0, whole = n - n % LANES
    for i in range(0, whole, 8):
        m = mask_load(mask + i)
        acc = lanes_add_where(acc, lanes_load(r + i), m)
        tally = tally_add(tally, m)
    for i in range(whole, n):
        rest[i - whole] = r[i] if mask[i] else 0.0
        count += mask[i]
    s[0] += lanes_sum(lanes_add_first(acc, rest, n - whole))
    return count + tally_sum(tally)


cdef void masked_sum(int64_t* n, double* s, const Predicate* where, int32_t n_where, const double* r,
                     int64_t n_rows) noexcept nogil:
    cdef uint8_t[BLOCK] mask
    cdef int64_t start
    cdef int32_t size
    cdef bint with_leaf
    cdef int32_t n_codes = count_direct(&with_leaf, where, n_where)
    n[0] = 0
    s[0] = 0.0
    for start in range(0, n_rows, 4096):
        size = block_size(start, n_rows)
        if n_codes > 0 and r != NULL:
            n[0] += block_sum_where(s, where, n_codes, with_leaf, r, start, size)
        else:
            block_mask(mask, where, n_where, start, size)
            n[0] += block_count(mask, size) if r == NULL else block_masked_sum(s, mask, r + start, size)


cdef inline void sum_left_of(int64_t* n, double* s, const code_t* column, const Predicate* where, int32_t n_sets,
                             const double* r, int64_t start, int32_t size) noexcept nogil:
    """n, s += counts and sums of up to three inequalities `<=` each on its own, over one read of a block of r."""
    cdef Lanes acc0 = lanes_zero(), acc1 = lanes_zero(), acc2 = lanes_zero(), x
    cdef Tally tally0 = tally_zero(), tally1 = tally_zero(), tally2 = tally_zero()
    cdef Mask m
    cdef double[3][LANES] rest
    cdef const code_t* column0 = column + start
    cdef const code_t* column1 = <const code_t*>where[1 if n_sets > 1 else 0].column + start
    cdef const code_t* column2 = <const code_t*>where[2 if n_sets > 2 else 0].column + start
    cdef int32_t i, k, whole = size - size % LANES
    for i in range(0, whole, 8):
        x = lanes_load(r + start + i)
        m = mask_at_most(column0 + i, sizeof(code_t), where[0].cut)
        acc0 = lanes_add_where(acc0, x, m)
        tally0 = tally_add(tally0, m)
        if n_sets > 1:
            m = mask_at_most(column1 + i, sizeof(code_t), where[1].cut)
            acc1 = lanes_add_where(acc1, x, m)
            tally1 = tally_add(tally1, m)
        if n_sets > 2:
            m = mask_at_most(column2 + i, sizeof(code_t), where[2].cut)
            acc2 = lanes_add_where(acc2, x, m)
            tally2 = tally_add(tally2, m)
    for k in range(n_sets):
        for i in range(whole, size):
            rest[k][i - whole] = 0.0
            if satisfies(&where[k], 1, start + i):
                rest[k][i - whole] = r[start + i]
                n[k] += 1
    s[0] += lanes_sum(lanes_add_first(acc0, rest[0], size - whole))
    n[0] += tally_sum(tally0)
    if n_sets > 1:
        s[1] += lanes_sum(lanes_add_first(acc1, rest[1], size - whole))
        n[1] += tally_sum(tally1)
    if n_sets > 2:
        s[2] += lanes_sum(lanes_add_first(acc2, rest[2], size - whole))
        n[2] += tally_sum(tally2)


cdef inline void sum_left_sets(int64_t* n, double* s, const code_t* of_type, const Predicate* where, int32_t n_sets,
                               const double* r, int64_t n_rows) noexcept nogil:
    """masked_sums for one type of codes; of_type only picks it."""
    cdef int64_t start
    cdef int32_t size, k, left
    for start in range(0, n_rows, 4096):
        size = block_size(start, n_rows)
        for k in range(0, n_sets, 3):
            left = n_sets - k
            if left >= 3:
                sum_left_of(n + k, s + k, <const code_t*>where[k].column, &where[k], 3, r, start, size)
            elif left == 2:
                sum_left_of(n + k, s + k, <const code_t*>where[k].column, &where[k], 2, r, start, size)
            else:
                sum_left_of(n + k, s + k, <const code_t*>where[k].column, &where[k], 1, r, start, size)


cdef void masked_sums(int64_t* n, double* s, const Predicate* where, int32_t n_sets, const double* r,
                      int64_t n_rows) noexcept nogil:
    cdef int32_t k
    for k in range(n_sets):
        n[k] = 0
        s[k] = 0.0
    if where.itemsize == 1:
        sum_left_sets[uint8_t](n, s, NULL, where, n_sets, r, n_rows)
    elif where.itemsize == 2:
        sum_left_sets[uint16_t](n, s, NULL, where, n_sets, r, n_rows)
    else:
        sum_left_sets[uint32_t](n, s, NULL, where, n_sets, r, n_rows)
