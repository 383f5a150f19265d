# Bodies of the functions of RowOps, included by one module per vector width. Contracts are in rowops.pxd.
# The lane loops are written the way that gcc and clang turn into vector code for every code type: the mask of eight
# rows goes through a small integer array first (a ternary or a direct product becomes a branch in some builds).

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memset
from bart.kernels.rowops cimport BLOCK, LANES, RowOps
from bart.kernels.types cimport ABOVE, AT_MOST, Predicate, satisfies, value_at

# Steps of range() must be literals: 4096 is BLOCK, 8 is LANES.
ctypedef fused code_t:
    uint8_t
    uint16_t
    uint32_t


cdef inline double combine(const double* acc) noexcept nogil:
    return ((acc[0] + acc[1]) + (acc[2] + acc[3])) + ((acc[4] + acc[5]) + (acc[6] + acc[7]))


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


cdef int32_t block_masked_sum(double* s, const uint8_t* mask, const double* r, int32_t n) noexcept nogil:
    """s += sum of r over the mask; returns the count."""
    cdef double acc[LANES]
    cdef int32_t g[LANES]
    cdef int32_t i, l, whole = n - n % LANES
    for l in range(LANES):
        acc[l] = 0.0
    for i in range(0, whole, 8):
        for l in range(LANES):
            g[l] = mask[i + l]
        for l in range(LANES):
            acc[l] += r[i + l] * <double>g[l]
    for i in range(whole, n):
        acc[i - whole] += r[i] * <double>mask[i]
    s[0] += combine(acc)
    return block_count(mask, n)


cdef void masked_sum(int64_t* n, double* s, const Predicate* where, int32_t n_where, const double* r,
                     int64_t n_rows) noexcept nogil:
    cdef uint8_t mask[BLOCK]
    cdef int64_t start
    cdef int32_t size
    n[0] = 0
    s[0] = 0.0
    for start in range(0, n_rows, 4096):
        size = block_size(start, n_rows)
        block_mask(mask, where, n_where, start, size)
        if r == NULL:
            n[0] += block_count(mask, size)
        else:
            n[0] += block_masked_sum(s, mask, r + start, size)


cdef void masked_sums(int64_t* n, double* s, const Predicate* where, int32_t n_sets, const double* r,
                      int64_t n_rows) noexcept nogil:
    cdef uint8_t mask[BLOCK]
    cdef int64_t start
    cdef int32_t size, k
    for k in range(n_sets):
        n[k] = 0
        s[k] = 0.0
    for start in range(0, n_rows, 4096):
        size = block_size(start, n_rows)
        for k in range(n_sets):
            block_mask(mask, &where[k], 1, start, size)
            n[k] += block_masked_sum(&s[k], mask, r + start, size)


cdef inline void scatter_sum(double* acc, const code_t* labels, const double* r, int32_t n) noexcept nogil:
    cdef int32_t i, l, whole = n - n % LANES
    for i in range(0, whole, 8):
        for l in range(LANES):
            acc[<int64_t>labels[i + l] * LANES + l] += r[i + l]
    for i in range(whole, n):
        acc[<int64_t>labels[i] * LANES + (i - whole)] += r[i]


cdef void block_leaf_sums(double* s, double* acc, const void* labels, int32_t itemsize, int32_t n_leaves,
                          const double* r, int64_t start, int32_t n) noexcept nogil:
    cdef int32_t i, l, whole = n - n % LANES
    memset(acc, 0, sizeof(double) * LANES * n_leaves)
    if n_leaves == 1:
        for i in range(0, whole, 8):
            for l in range(LANES):
                acc[l] += r[start + i + l]
        for i in range(whole, n):
            acc[i - whole] += r[start + i]
    elif itemsize == 1:
        scatter_sum[uint8_t](acc, <const uint8_t*>labels + start, r + start, n)
    elif itemsize == 2:
        scatter_sum[uint16_t](acc, <const uint16_t*>labels + start, r + start, n)
    else:
        scatter_sum[uint32_t](acc, <const uint32_t*>labels + start, r + start, n)
    for l in range(n_leaves):
        s[l] += combine(acc + <int64_t>l * LANES)


cdef void leaf_sums(double* s, double* acc, const void* labels, int32_t itemsize, int32_t n_leaves,
                    const double* r, int64_t n_rows, const Predicate* where, int32_t n_where,
                    int64_t* n_in, double* s_in) noexcept nogil:
    cdef uint8_t mask[BLOCK]
    cdef int64_t start
    cdef int32_t size
    memset(s, 0, sizeof(double) * n_leaves)
    if n_where > 0:
        n_in[0] = 0
        s_in[0] = 0.0
    for start in range(0, n_rows, 4096):
        size = block_size(start, n_rows)
        block_leaf_sums(s, acc, labels, itemsize, n_leaves, r, start, size)
        if n_where > 0:
            block_mask(mask, where, n_where, start, size)
            n_in[0] += block_masked_sum(s_in, mask, r + start, size)


cdef inline void gather_add(double* out, const double* r, const double* value, double sign, const code_t* labels,
                            int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        out[i] = r[i] + sign * value[labels[i]]


cdef void add_leaf_values(double* out, const double* r, const double* value, double sign, const void* labels,
                          int32_t itemsize, int64_t n_rows) noexcept nogil:
    if itemsize == 1:
        gather_add[uint8_t](out, r, value, sign, <const uint8_t*>labels, n_rows)
    elif itemsize == 2:
        gather_add[uint16_t](out, r, value, sign, <const uint16_t*>labels, n_rows)
    else:
        gather_add[uint32_t](out, r, value, sign, <const uint32_t*>labels, n_rows)


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


cdef inline void renumber_all(code_t* labels, const uint32_t* new_number, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        labels[i] = <code_t>new_number[labels[i]]


cdef void renumber(void* labels, int32_t itemsize, const uint32_t* new_number, int64_t n_rows) noexcept nogil:
    if itemsize == 1:
        renumber_all[uint8_t](<uint8_t*>labels, new_number, n_rows)
    elif itemsize == 2:
        renumber_all[uint16_t](<uint16_t*>labels, new_number, n_rows)
    else:
        renumber_all[uint32_t](<uint32_t*>labels, new_number, n_rows)


cdef int64_t select(uint32_t* rows, const Predicate* where, int32_t n_where, int64_t n_rows) noexcept nogil:
    cdef uint8_t mask[BLOCK]
    cdef int64_t start, n = 0
    cdef int32_t size, i
    for start in range(0, n_rows, 4096):
        size = block_size(start, n_rows)
        block_mask(mask, where, n_where, start, size)
        for i in range(size):
            rows[n] = <uint32_t>(start + i)
            n += mask[i]
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


cdef bint differ(const char* codes, int32_t itemsize, int64_t n_rows, const int32_t* candidates,
                 int32_t n_candidates, const Predicate* where, int32_t n_where, const uint32_t* rows,
                 int64_t n) noexcept nogil:
    cdef int64_t i, row, first = -1
    cdef int32_t k
    cdef const char* column
    for i in range(n if rows != NULL else n_rows):
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
    cdef double acc[LANES]
    cdef double total = 0.0
    cdef int64_t start
    cdef int32_t size, whole, i, l
    for start in range(0, n_rows, 4096):
        size = block_size(start, n_rows)
        whole = size - size % LANES
        for l in range(LANES):
            acc[l] = 0.0
        for i in range(0, whole, 8):
            for l in range(LANES):
                acc[l] += r[start + i + l] * r[start + i + l]
        for i in range(whole, size):
            acc[i - whole] += r[start + i] * r[start + i]
        total += combine(acc)
    return total


cdef RowOps OPS
OPS.masked_sum = masked_sum
OPS.masked_sums = masked_sums
OPS.leaf_sums = leaf_sums
OPS.add_leaf_values = add_leaf_values
OPS.relabel = relabel
OPS.renumber = renumber
OPS.select = select
OPS.masked_range = masked_range
OPS.list_range = list_range
OPS.partition = partition
OPS.label_list = label_list
OPS.differ = differ
OPS.sum_squares = sum_squares


def table():
    """Address of this module's RowOps."""
    return <size_t>&OPS
