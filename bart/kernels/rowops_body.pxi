# Bodies of the functions of RowOps, included by one module per vector width. Contracts are in rowops.pxd; the
# arithmetic of eight rows is in lanes.h. Short conjunctions are tested as the rows are summed; others go
# through a mask of a block, one byte a row.

from libc.math cimport fabs, log
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from bart.kernels.rowops cimport BLOCK, LANES, MOST_SELECTED, TREE_ROWS, CutLeaf, RowOps
from bart.kernels.types cimport ABOVE, AT_MOST, EQUAL, Predicate, StoredNode, satisfies, value_at

cdef extern from "lanes.h" nogil:
    int32_t MOST_DIRECT
    int32_t MOST_LEAVES_AT_ONCE
    void bart_fill_chosen()
    int64_t bart_count_bits(uint64_t x)
    uint64_t bart_pack_bytes(const uint8_t* mask)
    int32_t append_rows(uint32_t* rows, const uint8_t* mask, uint32_t first)
    ctypedef struct Lanes:          # eight doubles
        pass
    ctypedef struct Mask:           # eight truth values
        pass
    ctypedef struct Tally:          # eight counters
        pass
    ctypedef struct Table:          # eight doubles to look up
        pass
    Lanes lanes_zero()
    Lanes lanes_load(const double* x)
    void lanes_store(double* to, Lanes a)
    Lanes lanes_add(Lanes a, Lanes x)
    Lanes lanes_add_where(Lanes a, Lanes x, Mask m)
    Lanes lanes_add_square(Lanes a, Lanes x)
    Lanes lanes_multiply(Lanes a, Lanes x)
    Lanes lanes_add_first(Lanes a, const double* x, int32_t n)
    void lanes_add_leaves(Lanes* a, const double* x, const uint8_t* labels, int32_t first, int32_t n_leaves)
    Lanes lanes_add_value(Lanes x, Table table, const uint8_t* labels, int32_t n_values)
    Lanes lanes_fill(double value)
    Lanes lanes_subtract_times(Lanes a, double w, Lanes x)
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


include "rowops_sums.pxi"
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
include "rowops_cells.pxi"
include "rowops_joint.pxi"


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


cdef double sum_products(const double* a, const double* b, int64_t n_rows) noexcept nogil:
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
            acc = lanes_add(acc, lanes_multiply(lanes_load(a + start + i), lanes_load(b + start + i)))
        for i in range(whole, size):
            rest[i - whole] = a[start + i] * b[start + i]
        total += lanes_sum(lanes_add_first(acc, rest, size - whole))
    return total


cdef void multiply(double* out, const double* a, const double* b, int64_t n_rows) noexcept nogil:
    cdef int64_t i, whole = n_rows - n_rows % LANES
    for i in range(0, whole, 8):
        lanes_store(out + i, lanes_multiply(lanes_load(a + i), lanes_load(b + i)))
    for i in range(whole, n_rows):
        out[i] = a[i] * b[i]


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
OPS.leaf_bits = leaf_bits
OPS.count_common = count_common
OPS.eliminate = eliminate
OPS.sum_squares = sum_squares
OPS.sum_products = sum_products
OPS.multiply = multiply
OPS.histogram = histogram
OPS.cut_weights = cut_weights
OPS.leaf_cut_weights = leaf_cut_weights
OPS.largest = largest


def table():
    """Address of this module's RowOps."""
    return <size_t>&OPS
