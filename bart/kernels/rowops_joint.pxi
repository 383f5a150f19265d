# Loops of the joint law of all leaf values: a part of rowops_body.pxi.


cdef void leaf_bits(uint64_t* bits, Predicate where, int64_t n_rows) noexcept nogil:
    cdef uint8_t[BLOCK] mask
    cdef uint64_t word
    cdef int64_t start
    cdef int32_t size, whole, i, k
    for start in range(0, n_rows, 4096):
        size = block_size(start, n_rows)
        whole = (size + 63) // 64 * 64
        block_mask(mask, &where, 1, start, size)
        memset(mask + size, 0, whole - size)
        for i in range(0, whole, 64):
            word = 0
            for k in range(0, 64, 8):
                word = word << 8 | bart_pack_bytes(mask + i + k)
            bits[(start + i) // 64] = word


cdef int64_t count_common(const uint64_t* a, const uint64_t* b, int64_t n_words) noexcept nogil:
    cdef int64_t i, n = 0
    for i in range(n_words):
        n += bart_count_bits(a[i] & b[i])
    return n


cdef void eliminate(double* rows, int64_t stride, int64_t n_rows, const double* panel, int64_t n) noexcept nogil:
    cdef Lanes a, b, c, d, p
    cdef int64_t i, k, whole = n_rows - n_rows % 4
    cdef double* row
    for i in range(0, whole, 4):
        row = rows + i * stride
        a, b = lanes_load(row + n), lanes_load(row + stride + n)
        c, d = lanes_load(row + 2 * stride + n), lanes_load(row + 3 * stride + n)
        for k in range(n):
            p = lanes_load(panel + 8 * k)
            a = lanes_subtract_times(a, row[k], p)
            b = lanes_subtract_times(b, row[stride + k], p)
            c = lanes_subtract_times(c, row[2 * stride + k], p)
            d = lanes_subtract_times(d, row[3 * stride + k], p)
        lanes_store(row + n, a)
        lanes_store(row + stride + n, b)
        lanes_store(row + 2 * stride + n, c)
        lanes_store(row + 3 * stride + n, d)
    for i in range(whole, n_rows):
        row = rows + i * stride
        a = lanes_load(row + n)
        for k in range(n):
            a = lanes_subtract_times(a, row[k], lanes_load(panel + 8 * k))
        lanes_store(row + n, a)
