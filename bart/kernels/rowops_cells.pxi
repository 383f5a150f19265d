# Histograms of a node's target over the bins of several columns, and the weights of the cuts between them: a part of
# rowops_body.pxi. Sums are integers, so that they do not depend on the order of the rows, and a sibling is exactly
# parent minus child.

cdef extern from "cells.h" nogil:
    uint64_t bart_load_bytes(const uint8_t* bytes, int n)
    void bart_quantise_rows(int64_t* q, const double* r, int n, double scale, double most, int64_t one)
    void bart_quantise_list(int64_t* q, const double* r, const uint32_t* rows, int n, double scale, double most,
                            int64_t one)
    void bart_unpack(double* n_left, double* s_left, const int64_t* sums, int first, int n, int shift, double unit)
    double bart_cut_ratios(double* w, double* g, const double* w_left, const double* s_left, int n, double weight,
                           double s, double sigma2, double leaf_var, double leaf_mean)
    void bart_leaf_factors(double* w, double* g, const double* w_in, const double* s_in, int n, double weight, double s,
                           int above, double sigma2, double leaf_var, double leaf_mean)
    void bart_bound_factors(double* w, int n)
    double bart_largest(const double* g, int n)
    double bart_cut_weights(double* w, const double* g, const double* mass, int n, double top)

cdef enum:
    CHUNK = 512             # rows whose integers are kept while all columns read them
    FACTORS = 4             # leaves whose factors are kept as a product, before it could underflow


cdef inline const uint8_t* bins_of(const uint8_t* bins, int64_t stride, const uint32_t* rows, int32_t i) noexcept nogil:
    """Bins of the i-th row; rows is NULL for consecutive rows."""
    return bins + stride * (<int64_t>rows[i] if rows != NULL else i)


cdef inline void add_word(int64_t* h, int32_t n_bins, const uint8_t* bins, int64_t stride, int32_t n_columns,
                          const uint32_t* rows, const int64_t* q, int32_t n) noexcept nogil:
    """Add q to the bins of 4 or 8 adjacent columns, read as one word: half the time of as many reads of a byte."""
    cdef int32_t i
    cdef uint64_t b
    cdef int64_t x
    for i in range(n):
        b = bart_load_bytes(bins_of(bins, stride, rows, i), n_columns)
        x = q[i]
        h[b & 255] += x
        h[n_bins + (b >> 8 & 255)] += x
        h[2 * n_bins + (b >> 16 & 255)] += x
        h[3 * n_bins + (b >> 24 & 255)] += x
        if n_columns == 8:
            h[4 * n_bins + (b >> 32 & 255)] += x
            h[5 * n_bins + (b >> 40 & 255)] += x
            h[6 * n_bins + (b >> 48 & 255)] += x
            h[7 * n_bins + (b >> 56)] += x


cdef inline void add_bytes(int64_t* h, int32_t n_bins, const uint8_t* bins, int64_t stride, int32_t d0, int32_t d1,
                           int32_t d2, int32_t d3, int32_t n_columns, const uint32_t* rows, const int64_t* q,
                           int32_t n) noexcept nogil:
    """The same for n_columns <= 4 columns anywhere."""
    cdef int32_t i
    cdef uint32_t b0, b1, b2, b3
    cdef const uint8_t* b
    cdef int64_t x
    for i in range(n):
        b = bins_of(bins, stride, rows, i)
        b0, b1, b2, b3 = b[d0], b[d1], b[d2], b[d3]         # all before the first sum is written, which may alias b
        x = q[i]
        h[b0] += x
        if n_columns > 1:
            h[n_bins + b1] += x
        if n_columns > 2:
            h[2 * n_bins + b2] += x
        if n_columns > 3:
            h[3 * n_bins + b3] += x


cdef inline bint adjacent(const int32_t* dims, int32_t n) noexcept nogil:
    cdef int32_t k
    for k in range(1, n):
        if dims[k] != dims[0] + k:
            return False
    return True


cdef inline int32_t add_columns(int64_t* h, int32_t n_bins, const uint8_t* bins, int64_t stride, const int32_t* dims,
                                int32_t n_columns, const uint32_t* rows, const int64_t* q, int32_t n) noexcept nogil:
    """The first of n_columns columns; returns how many. Constants of the branches give loops without tests."""
    if n_columns >= 8 and adjacent(dims, 8):
        if n_bins == 64:                                    # the default: every address is then one sum
            add_word(h, 64, bins + dims[0], stride, 8, rows, q, n)
        else:
            add_word(h, n_bins, bins + dims[0], stride, 8, rows, q, n)
        return 8
    if n_columns >= 4:
        if adjacent(dims, 4):
            add_word(h, n_bins, bins + dims[0], stride, 4, rows, q, n)
        else:
            add_bytes(h, n_bins, bins, stride, dims[0], dims[1], dims[2], dims[3], 4, rows, q, n)
        return 4
    if n_columns == 3:
        add_bytes(h, n_bins, bins, stride, dims[0], dims[1], dims[2], dims[2], 3, rows, q, n)
    elif n_columns == 2:
        add_bytes(h, n_bins, bins, stride, dims[0], dims[1], dims[1], dims[1], 2, rows, q, n)
    else:
        add_bytes(h, n_bins, bins, stride, dims[0], dims[0], dims[0], dims[0], 1, rows, q, n)
    return n_columns


cdef void histogram(int64_t* sums, int32_t n_bins, const uint8_t* bins, int32_t stride, const int32_t* dims,
                    int32_t n_dims, const uint32_t* rows, int64_t n, const double* r, double scale,
                    double most, int64_t one) noexcept nogil:
    cdef int64_t[CHUNK] q
    cdef int64_t start
    cdef int32_t k, size
    memset(sums, 0, <size_t>n_dims * n_bins * sizeof(int64_t))
    for start in range(0, n, 512):
        size = CHUNK if n - start >= CHUNK else <int32_t>(n - start)
        k = 0
        if rows != NULL:
            bart_quantise_list(q, r, rows + start, size, scale, most, one)
            while k < n_dims:
                k += add_columns(sums + <int64_t>k * n_bins, n_bins, bins, stride, dims + k, n_dims - k, rows + start,
                                 q, size)
        else:
            bart_quantise_rows(q, r + start, size, scale, most, one)
            while k < n_dims:
                k += add_columns(sums + <int64_t>k * n_bins, n_bins, bins + start * stride, stride, dims + k,
                                 n_dims - k, NULL, q, size)


cdef double cut_weights(double* weight, double* top, const int64_t* sums, int32_t first, int32_t n,
                        const double* mass, int64_t rows, int64_t total, double scale, int32_t shift, double sigma2,
                        double leaf_var, double leaf_mean, const int64_t* of_weights, int64_t total_weight,
                        double weight_scale) noexcept nogil:
    cdef double[256] w_left
    cdef double[256] s_left
    cdef double[256] g
    cdef double unit = 1.0 / scale, w = <double>rows
    bart_unpack(w_left, s_left, sums, first, n, shift, unit)
    if of_weights != NULL:
        bart_unpack(g, w_left, of_weights, first, n, shift, 1.0 / weight_scale)     # g: counts again
        w = <double>total_weight * (1.0 / weight_scale)
    top[0] = bart_cut_ratios(weight, g, w_left, s_left, n, w, <double>total * unit, sigma2, leaf_var, leaf_mean)
    return bart_cut_weights(weight, g, mass, n, top[0])


cdef double leaf_cut_weights(double* weight, double* top, const CutLeaf* leaves, int32_t n_leaves, int32_t first,
                             int32_t n, const double* mass, double scale, int32_t shift, double sigma2,
                             double leaf_var, double leaf_mean, double weight_scale) noexcept nogil:
    cdef double[256] w_left
    cdef double[256] s_left
    cdef double[256] counts
    cdef double[256] g
    cdef double unit = 1.0 / scale, w
    cdef int32_t i, k
    for k in range(n):
        weight[k] = 1.0
        g[k] = 0.0
    for i in range(n_leaves):
        bart_unpack(w_left, s_left, leaves[i].sums, first, n, shift, unit)
        w = <double>leaves[i].rows
        if leaves[i].weights != NULL:
            bart_unpack(counts, w_left, leaves[i].weights, first, n, shift, 1.0 / weight_scale)
            w = <double>leaves[i].weight * (1.0 / weight_scale)
        bart_leaf_factors(weight, g, w_left, s_left, n, w, <double>leaves[i].total * unit, leaves[i].above, sigma2,
                          leaf_var, leaf_mean)
        if i % FACTORS == FACTORS - 1:
            bart_bound_factors(weight, n)
            for k in range(n):
                g[k] += 0.5 * log(weight[k])
                weight[k] = 1.0
    bart_bound_factors(weight, n)
    top[0] = bart_largest(g, n)
    return bart_cut_weights(weight, g, mass, n, top[0])


cdef double largest(const double* r, int64_t n_rows) noexcept nogil:
    cdef double[LANES] top
    cdef int64_t start
    cdef int32_t i
    cdef double x
    memset(top, 0, sizeof(top))
    for start in range(0, n_rows - n_rows % LANES, 8):
        for i in range(LANES):
            x = fabs(r[start + i])
            top[i] = x if x > top[i] else top[i]
    for start in range(n_rows - n_rows % LANES, n_rows):
        x = fabs(r[start])
        top[0] = x if x > top[0] else top[0]
    for i in range(1, LANES):
        top[0] = top[i] if top[i] > top[0] else top[0]
    return top[0]
