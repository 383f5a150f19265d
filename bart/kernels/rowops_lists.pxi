# Loops over lists of rows: a part of rowops_body.pxi.


cdef inline void list_range_of(uint32_t* low, uint32_t* high, const code_t* column, const uint32_t* rows,
                               int64_t n) noexcept nogil:
    cdef int64_t i
    cdef uint32_t lowest = 0xFFFFFFFF, highest = 0, c
    for i in range(n):
        c = column[rows[i]]
        lowest = c if c < lowest else lowest
        highest = c if c > highest else highest
    low[0] = lowest
    high[0] = highest


cdef void list_range(uint32_t* low, uint32_t* high, const void* column, int32_t itemsize, const uint32_t* rows,
                     int64_t n) noexcept nogil:
    if itemsize == 1:
        list_range_of[uint8_t](low, high, <const uint8_t*>column, rows, n)
    elif itemsize == 2:
        list_range_of[uint16_t](low, high, <const uint16_t*>column, rows, n)
    else:
        list_range_of[uint32_t](low, high, <const uint32_t*>column, rows, n)


cdef inline int64_t partition_of(uint32_t* left, uint32_t* right, double* s, const uint32_t* rows, int64_t n,
                                 const code_t* column, uint32_t cut, const double* r) noexcept nogil:
    """Branch-free: both lists are written, the one that takes the row advances."""
    cdef int64_t i, n_left = 0
    cdef uint32_t row, goes_left
    cdef double[LANES] acc
    memset(acc, 0, sizeof(acc))
    for i in range(n):
        row = rows[i]
        goes_left = column[row] <= cut
        left[n_left] = row
        right[i - n_left] = row
        n_left += goes_left
        if r != NULL:
            acc[i % LANES] += r[row] * <double><int32_t>goes_left
    s[0] = lanes_sum(lanes_load(acc))
    return n_left


cdef int64_t partition(uint32_t* left, uint32_t* right, double* s, const uint32_t* rows, int64_t n,
                       const Predicate* where, const double* r) noexcept nogil:
    if where.itemsize == 1:
        return partition_of[uint8_t](left, right, s, rows, n, <const uint8_t*>where.column, where.cut, r)
    if where.itemsize == 2:
        return partition_of[uint16_t](left, right, s, rows, n, <const uint16_t*>where.column, where.cut, r)
    return partition_of[uint32_t](left, right, s, rows, n, <const uint32_t*>where.column, where.cut, r)


cdef void label_list(void* labels, int32_t itemsize, uint32_t label, const uint32_t* rows, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        if itemsize == 1:
            (<uint8_t*>labels)[rows[i]] = <uint8_t>label
        elif itemsize == 2:
            (<uint16_t*>labels)[rows[i]] = <uint16_t>label
        else:
            (<uint32_t*>labels)[rows[i]] = label
