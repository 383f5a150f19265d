# Bodies of the functions of RowOps, included by one module per vector width. Contracts are in rowops.pxd; the
# arithmetic of eight rows is in lanes.h. Short conjunctions are tested as the rows are summed; others go
# through a mask of a block, one byte a row.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from bart.kernels.rowops cimport BLOCK, LANES, MOST_SELECTED, TREE_ROWS, RowOps
from bart.kernels.types cimport ABOVE, AT_MOST, EQUAL, Predicate, StoredNode, satisfies, value_at

cdef extern from "lanes.h" nogil:
    int32_t MOST_DIRECT
    int32_t MOST_LEAVES_AT_ONCE
    void bart_fill_chosen()
    int32_t append_rows(uint32_t* rows, const uint8_t* mask, uint32_t first)
    ctypedef struct Lanes:          # eight doubles
        pass
    ctypedef struct Mask:           # eight truth values
        pass
    ctypedef struct Tally:          # eight counters
        pass
    ctypedef struct Labels:         # eight leaf numbers
        pass
    ctypedef struct Table:          # eight doubles to look up
        pass
    Lanes lanes_zero()
    Lanes lanes_load(const double* x)
    void lanes_store(double* to, Lanes a)
    Lanes lanes_add(Lanes a, Lanes x)
    Lanes lanes_add_where(Lanes a, Lanes x, Mask m)
    Lanes lanes_add_square(Lanes a, Lanes x)
    Lanes lanes_add_first(Lanes a, const double* x, int32_t n)
    Lanes lanes_add_leaf(Lanes a, Lanes x, Labels labels, int32_t leaf)
    Lanes lanes_add_value(Lanes x, Table table, const uint8_t* labels, int32_t n_values)
    Lanes lanes_fill(double value)
    Lanes lanes_select(Lanes x, double tau, Lanes left, Lanes right)
    Lanes lanes_gather(const double* value, const void* labels, int32_t itemsize)
    double lanes_sum(Lanes a)
    Mask mask_at_most(const void* codes, int32_t itemsize, uint32_t cut)
    Mask mask_equal(const void* codes, int32_t itemsize, uint32_t code)
    Mask mask_load(const uint8_t* bytes)
    Mask mask_all(bint truth)
    Mask mask_xor(Mask a, Mask b)
    Mask mask_and(Mask a, Mask b)
    Tally tally_zero()
    Tally tally_add(Tally t, Mask m)
    int32_t tally_sum(Tally t)
    Labels labels_load(const uint8_t* labels)
    Table table_load(const double* value)

# Steps of range() must be literals: 4096 is BLOCK, 8 is LANES.
ctypedef fused code_t:
    uint8_t
    uint16_t
    uint32_t


cdef inline int32_t block_size(int64_t start, int64_t n_rows) noexcept nogil:
    return BLOCK if n_rows - start >= BLOCK else <int32_t>(n_rows - start)


cdef inline void set_mask(uint8_t* mask, const code_t* column, code_t cut, int32_t relation,
                          int32_t n) noexcept nogil:
    cdef int32_t i
    if relation == AT_MOST:
        for i in range(n):
            mask[i] = column[i] <= cut
    elif relation == ABOVE:
        for i in range(n):
            mask[i] = column[i] > cut
    else:
        for i in range(n):
            mask[i] = column[i] == cut


cdef inline void and_mask(uint8_t* mask, const code_t* column, code_t cut, int32_t relation,
                          int32_t n) noexcept nogil:
    cdef int32_t i
    if relation == AT_MOST:
        for i in range(n):
            mask[i] &= column[i] <= cut
    elif relation == ABOVE:
        for i in range(n):
            mask[i] &= column[i] > cut
    else:
        for i in range(n):
            mask[i] &= column[i] == cut


cdef void block_mask(uint8_t* mask, const Predicate* where, int32_t n_where, int64_t start,
                     int32_t n) noexcept nogil:
    """mask[i] = 1 where row start + i satisfies all predicates."""
    cdef int32_t k
    cdef const Predicate* p
    if n_where == 0:
        memset(mask, 1, n)
    for k in range(n_where):
        p = &where[k]
        if p.itemsize == 1:
            if k == 0:
                set_mask[uint8_t](mask, <const uint8_t*>p.column + start, <uint8_t>p.cut, p.relation, n)
            else:
                and_mask[uint8_t](mask, <const uint8_t*>p.column + start, <uint8_t>p.cut, p.relation, n)
        elif p.itemsize == 2:
            if k == 0:
                set_mask[uint16_t](mask, <const uint16_t*>p.column + start, <uint16_t>p.cut, p.relation, n)
            else:
                and_mask[uint16_t](mask, <const uint16_t*>p.column + start, <uint16_t>p.cut, p.relation, n)
        else:
            if k == 0:
                set_mask[uint32_t](mask, <const uint32_t*>p.column + start, p.cut, p.relation, n)
            else:
                and_mask[uint32_t](mask, <const uint32_t*>p.column + start, p.cut, p.relation, n)


cdef inline int32_t block_count(const uint8_t* mask, int32_t n) noexcept nogil:
    cdef int32_t i, count = 0
    for i in range(n):
        count += mask[i]
    return count


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


cdef inline void sum_left_sets(int64_t* n, double* s, const code_t* unused, const Predicate* where, int32_t n_sets,
                               const double* r, int64_t n_rows) noexcept nogil:
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


include "rowops_leaves.pxi"


cdef inline void relabel_block(code_t* labels, code_t label, const uint8_t* mask, int32_t n) noexcept nogil:
    cdef int32_t i
    cdef code_t keep
    for i in range(n):
        keep = <code_t>(mask[i] - 1)                    # all ones where the row keeps its label
        labels[i] = (labels[i] & keep) | (label & ~keep)


cdef void relabel(void* labels, int32_t itemsize, uint32_t label, const Predicate* where, int32_t n_where,
                  int64_t n_rows) noexcept nogil:
    cdef uint8_t mask[BLOCK]
    cdef int64_t start
    cdef int32_t size
    for start in range(0, n_rows, 4096):
        size = block_size(start, n_rows)
        block_mask(mask, where, n_where, start, size)
        if itemsize == 1:
            relabel_block[uint8_t](<uint8_t*>labels + start, <uint8_t>label, mask, size)
        elif itemsize == 2:
            relabel_block[uint16_t](<uint16_t*>labels + start, <uint16_t>label, mask, size)
        else:
            relabel_block[uint32_t](<uint32_t*>labels + start, label, mask, size)


cdef int64_t select(uint32_t* rows, const Predicate* where, int32_t n_where, int64_t n_rows) noexcept nogil:
    cdef uint8_t[BLOCK] mask
    cdef int64_t start, n = 0
    cdef int32_t size, i
    for start in range(0, n_rows, 4096):
        size = block_size(start, n_rows)
        block_mask(mask, where, n_where, start, size)
        if size < BLOCK:
            memset(&mask[size], 0, LANES - size % LANES)
        for i in range(0, size, 8):
            n += append_rows(rows + n, &mask[i], <uint32_t>(start + i))
    return n


cdef inline void range_block(uint32_t* low, uint32_t* high, const code_t* column, const uint8_t* mask,
                             int32_t n) noexcept nogil:
    cdef int32_t i
    cdef code_t out, lowest = <code_t>low[0], highest = <code_t>high[0], c
    for i in range(n):
        out = <code_t>(mask[i] - 1)                     # all ones outside the mask
        c = column[i] | out
        lowest = c if c < lowest else lowest
        c = column[i] & ~out
        highest = c if c > highest else highest
    low[0] = lowest
    high[0] = highest


cdef void masked_range(uint32_t* low, uint32_t* high, const void* column, int32_t itemsize, const Predicate* where,
                       int32_t n_where, int64_t n_rows) noexcept nogil:
    cdef uint8_t mask[BLOCK]
    cdef int64_t start
    cdef int32_t size
    low[0] = 0xFF if itemsize == 1 else 0xFFFF if itemsize == 2 else 0xFFFFFFFF
    high[0] = 0
    for start in range(0, n_rows, 4096):
        size = block_size(start, n_rows)
        block_mask(mask, where, n_where, start, size)
        if itemsize == 1:
            range_block[uint8_t](low, high, <const uint8_t*>column + start, mask, size)
        elif itemsize == 2:
            range_block[uint16_t](low, high, <const uint16_t*>column + start, mask, size)
        else:
            range_block[uint32_t](low, high, <const uint32_t*>column + start, mask, size)


include "rowops_lists.pxi"
include "rowops_trees.pxi"


cdef bint differ(const char* codes, int32_t itemsize, int64_t n_rows, const int32_t* candidates,
                 int32_t n_candidates, const Predicate* where, int32_t n_where, const uint32_t* rows,
                 int64_t n) noexcept nogil:
    cdef int64_t i, row, first = -1
    cdef int32_t k
    cdef const char* column
    for i in range(n if rows != NULL else min(n_rows, <int64_t>BLOCK)):
        row = rows[i] if rows != NULL else i
        if rows == NULL and not satisfies(where, n_where, row):
            continue
        if first < 0:
            first = row
            continue
        for k in range(n_candidates):
            column = codes + <int64_t>candidates[k] * n_rows * itemsize
            if value_at(column, itemsize, row) != value_at(column, itemsize, first):
                return True
    return False


cdef double sum_squares(const double* r, int64_t n_rows) noexcept nogil:
    cdef Lanes acc
    cdef double[LANES] rest
    cdef double total = 0.0
    cdef int64_t start
    cdef int32_t size, whole, i
    for start in range(0, n_rows, 4096):
        size = block_size(start, n_rows)
        whole = size - size % LANES
        acc = lanes_zero()
        for i in range(0, whole, 8):
            acc = lanes_add_square(acc, lanes_load(r + start + i))
        for i in range(whole, size):
            rest[i - whole] = r[start + i] * r[start + i]
        total += lanes_sum(lanes_add_first(acc, rest, size - whole))
    return total


bart_fill_chosen()

cdef RowOps OPS
OPS.masked_sum = masked_sum
OPS.masked_sums = masked_sums
OPS.leaf_sums = leaf_sums
OPS.leaf_sums_and_add = leaf_sums_and_add
OPS.add_leaf_values = add_leaf_values
OPS.relabel = relabel
OPS.select = select
OPS.masked_range = masked_range
OPS.list_range = list_range
OPS.partition = partition
OPS.label_list = label_list
OPS.differ = differ
OPS.add_tree = add_tree
OPS.sum_squares = sum_squares


def table():
    """Address of this module's RowOps."""
    return <size_t>&OPS
