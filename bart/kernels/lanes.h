/* Eight rows at a time: the arithmetic of the loops over rows, as AVX2 instructions or as plain C.

   Both forms do the same additions in the same order, so their results are the same bits. A masked addition adds the
   value or +0.0, which leaves a sum that started from +0.0 as it is. */
#ifndef BART_LANES_H
#define BART_LANES_H

#include <stdint.h>
#include <string.h>

/* One code or leaf number of itemsize bytes. */
static inline uint32_t bart_code(const void *codes, int itemsize, int l) {
    return itemsize == 1 ? ((const uint8_t *)codes)[l] : itemsize == 2 ? ((const uint16_t *)codes)[l]
                                                                       : ((const uint32_t *)codes)[l];
}

/* Eight truth values of one byte each as eight bits, in some order. */
static inline uint64_t bart_pack_bytes(const uint8_t *mask) {
    uint64_t bytes;
    memcpy(&bytes, mask, 8);
    return bytes * UINT64_C(0x0102040810204080) >> 56;
}

static inline int64_t bart_count_bits(uint64_t x) {
#ifdef __POPCNT__
    return __builtin_popcountll(x);
#else
    x -= x >> 1 & UINT64_C(0x5555555555555555);
    x = (x & UINT64_C(0x3333333333333333)) + (x >> 2 & UINT64_C(0x3333333333333333));
    x = (x + (x >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (int64_t)(x * UINT64_C(0x0101010101010101) >> 56);
#endif
}

#ifdef __AVX2__
#include <immintrin.h>

#define MOST_DIRECT 4           /* inequalities tested as rows are summed; more go through a mask of the block */
#define MOST_LEAVES_AT_ONCE 8   /* leaves whose sums are kept in registers; more are scattered */

typedef struct { __m256d low, high; } Lanes;        /* eight doubles */
typedef __m128i Mask;                               /* eight truth values of 16 bits: all ones or all zeros */
typedef __m128i Tally;                              /* eight counters of 16 bits */
typedef struct { __m256 first, second; } Table;     /* eight doubles to look up */

static inline Lanes lanes_zero(void) {
    Lanes a = {_mm256_setzero_pd(), _mm256_setzero_pd()};
    return a;
}

static inline Lanes lanes_load(const double *x) {
    Lanes a = {_mm256_loadu_pd(x), _mm256_loadu_pd(x + 4)};
    return a;
}

static inline void lanes_store(double *to, Lanes a) {
    _mm256_storeu_pd(to, a.low);
    _mm256_storeu_pd(to + 4, a.high);
}

static inline Lanes lanes_add(Lanes a, Lanes x) {
    a.low = _mm256_add_pd(a.low, x.low);
    a.high = _mm256_add_pd(a.high, x.high);
    return a;
}

static inline Lanes lanes_fill(double value) {
    Lanes a = {_mm256_set1_pd(value), _mm256_set1_pd(value)};
    return a;
}

/* x > tau ? right : left; left where x is not a number */
static inline Lanes lanes_select(Lanes x, double tau, Lanes left, Lanes right) {
    __m256d t = _mm256_set1_pd(tau);
    left.low = _mm256_blendv_pd(left.low, right.low, _mm256_cmp_pd(x.low, t, _CMP_GT_OQ));
    left.high = _mm256_blendv_pd(left.high, right.high, _mm256_cmp_pd(x.high, t, _CMP_GT_OQ));
    return left;
}

/* a + x where the mask holds */
static inline Lanes lanes_add_where(Lanes a, Lanes x, Mask m) {
    __m256i low = _mm256_cvtepi16_epi64(m), high = _mm256_cvtepi16_epi64(_mm_unpackhi_epi64(m, m));
    a.low = _mm256_add_pd(a.low, _mm256_and_pd(x.low, _mm256_castsi256_pd(low)));
    a.high = _mm256_add_pd(a.high, _mm256_and_pd(x.high, _mm256_castsi256_pd(high)));
    return a;
}

static inline Lanes lanes_add_square(Lanes a, Lanes x) {
    a.low = _mm256_add_pd(a.low, _mm256_mul_pd(x.low, x.low));
    a.high = _mm256_add_pd(a.high, _mm256_mul_pd(x.high, x.high));
    return a;
}

static inline Lanes lanes_multiply(Lanes a, Lanes x) {
    a.low = _mm256_mul_pd(a.low, x.low);
    a.high = _mm256_mul_pd(a.high, x.high);
    return a;
}

/* a - w x */
static inline Lanes lanes_subtract_times(Lanes a, double w, Lanes x) {
    __m256d each = _mm256_set1_pd(w);
    a.low = _mm256_sub_pd(a.low, _mm256_mul_pd(each, x.low));
    a.high = _mm256_sub_pd(a.high, _mm256_mul_pd(each, x.high));
    return a;
}

/* Eight codes as 16 bits each; only for itemsize 1 and 2. */
static inline __m128i bart_codes_16(const void *codes, int itemsize) {
    return itemsize == 1 ? _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)codes))
                         : _mm_loadu_si128((const __m128i *)codes);
}

static inline Mask bart_pack_32(__m256i m) {
    return _mm_packs_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
}

/* codes <= cut */
static inline Mask mask_at_most(const void *codes, int itemsize, uint32_t cut) {
    if (itemsize < 4) {
        __m128i c = bart_codes_16(codes, itemsize);
        return _mm_cmpeq_epi16(_mm_min_epu16(c, _mm_set1_epi16((short)cut)), c);
    } else {
        __m256i c = _mm256_loadu_si256((const __m256i *)codes);
        return bart_pack_32(_mm256_cmpeq_epi32(_mm256_min_epu32(c, _mm256_set1_epi32((int)cut)), c));
    }
}

static inline Mask mask_equal(const void *codes, int itemsize, uint32_t code) {
    if (itemsize < 4)
        return _mm_cmpeq_epi16(bart_codes_16(codes, itemsize), _mm_set1_epi16((short)code));
    return bart_pack_32(_mm256_cmpeq_epi32(_mm256_loadu_si256((const __m256i *)codes), _mm256_set1_epi32((int)code)));
}

/* From eight bytes, 1 where true and 0 elsewhere. */
static inline Mask mask_load(const uint8_t *bytes) {
    return _mm_sub_epi16(_mm_setzero_si128(), _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)bytes)));
}

static inline Mask mask_all(int truth) { return _mm_set1_epi16(truth ? -1 : 0); }

static inline Mask mask_xor(Mask a, Mask b) { return _mm_xor_si128(a, b); }

static inline Mask mask_and(Mask a, Mask b) { return _mm_and_si128(a, b); }

/* For each set of eight rows, their numbers in order, one byte each. */
static uint64_t bart_chosen[256];

static void bart_fill_chosen(void) {
    for (int set = 0; set < 256; set++) {
        int n = 0;
        bart_chosen[set] = 0;
        for (uint64_t l = 0; l < 8; l++)
            if (set >> l & 1) bart_chosen[set] |= l << 8 * n++;
    }
}

/* Append first + i for each of eight rows whose byte is 1; returns how many. Eight places are written. */
static inline int32_t append_rows(uint32_t *rows, const uint8_t *mask, uint32_t first) {
    int set = _mm_movemask_epi8(_mm_slli_epi16(_mm_loadl_epi64((const __m128i *)mask), 7)) & 0xFF;
    __m256i chosen = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)&bart_chosen[set]));
    _mm256_storeu_si256((__m256i *)rows, _mm256_add_epi32(chosen, _mm256_set1_epi32((int)first)));
    return _mm_popcnt_u32((unsigned)set);
}

static inline Tally tally_zero(void) { return _mm_setzero_si128(); }

/* Count the true ones; at most 32 767 times. */
static inline Tally tally_add(Tally t, Mask m) { return _mm_sub_epi16(t, m); }

static inline int32_t tally_sum(Tally t) {
    int16_t n[8];
    _mm_storeu_si128((__m128i *)n, t);
    return n[0] + n[1] + n[2] + n[3] + n[4] + n[5] + n[6] + n[7];
}

static inline __m256i bart_labels_64(const uint8_t *labels) {
    int32_t four;
    memcpy(&four, labels, 4);
    return _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(four));
}

static inline __m256d bart_of_leaf(__m256d x, __m256i labels, int leaf) {
    return _mm256_and_pd(x, _mm256_castsi256_pd(_mm256_cmpeq_epi64(labels, _mm256_set1_epi64x(leaf))));
}

/* a[k] += x in the rows of leaf first + k, k < n_leaves <= 4, a constant; four rows after the other four, as all sums
   and leaf numbers just fit the registers */
static inline void lanes_add_leaves(Lanes *a, const double *x, const uint8_t *labels, int first, int n_leaves) {
    __m256i own = bart_labels_64(labels);
    __m256d v = _mm256_loadu_pd(x);
    a[0].low = _mm256_add_pd(a[0].low, bart_of_leaf(v, own, first));
    if (n_leaves > 1) a[1].low = _mm256_add_pd(a[1].low, bart_of_leaf(v, own, first + 1));
    if (n_leaves > 2) a[2].low = _mm256_add_pd(a[2].low, bart_of_leaf(v, own, first + 2));
    if (n_leaves > 3) a[3].low = _mm256_add_pd(a[3].low, bart_of_leaf(v, own, first + 3));
    own = bart_labels_64(labels + 4);
    v = _mm256_loadu_pd(x + 4);
    a[0].high = _mm256_add_pd(a[0].high, bart_of_leaf(v, own, first));
    if (n_leaves > 1) a[1].high = _mm256_add_pd(a[1].high, bart_of_leaf(v, own, first + 1));
    if (n_leaves > 2) a[2].high = _mm256_add_pd(a[2].high, bart_of_leaf(v, own, first + 2));
    if (n_leaves > 3) a[3].high = _mm256_add_pd(a[3].high, bart_of_leaf(v, own, first + 3));
}

/* value[label]; four loads put together, faster than the gather instruction */
#define BART_VALUE(k) value[bart_code(labels, itemsize, k)]
#define BART_FOUR(k) _mm256_set_pd(BART_VALUE(k + 3), BART_VALUE(k + 2), BART_VALUE(k + 1), BART_VALUE(k))
static inline Lanes lanes_gather(const double *value, const void *labels, int itemsize) {
    Lanes a = {BART_FOUR(0), BART_FOUR(4)};
    return a;
}
#undef BART_FOUR
#undef BART_VALUE

static inline Table table_load(const double *value) {
    Table t = {_mm256_castpd_ps(_mm256_loadu_pd(value)), _mm256_castpd_ps(_mm256_loadu_pd(value + 4))};
    return t;
}

/* value[label] of four rows; n_values, a constant, is 4 or 8. A double is looked up as its two halves. */
static inline __m256d bart_look_up(Table t, const uint8_t *labels, int n_values) {
    const __m256i spread = _mm256_setr_epi8(0, -1, -1, -1, 0, -1, -1, -1, 1, -1, -1, -1, 1, -1, -1, -1,
                                            2, -1, -1, -1, 2, -1, -1, -1, 3, -1, -1, -1, 3, -1, -1, -1);
    int32_t four;
    memcpy(&four, labels, 4);
    __m256i label = _mm256_shuffle_epi8(_mm256_set1_epi32(four), spread);
    __m256i half = _mm256_or_si256(_mm256_add_epi32(label, label), _mm256_set1_epi64x(0x100000000LL));
    __m256 found = _mm256_permutevar8x32_ps(t.first, half);
    if (n_values > 4)
        found = _mm256_blendv_ps(found, _mm256_permutevar8x32_ps(t.second, half),
                                 _mm256_castsi256_ps(_mm256_slli_epi32(label, 29)));
    return _mm256_castps_pd(found);
}

/* x + value[label] */
static inline Lanes lanes_add_value(Lanes x, Table t, const uint8_t *labels, int n_values) {
    x.low = _mm256_add_pd(x.low, bart_look_up(t, labels, n_values));
    x.high = _mm256_add_pd(x.high, bart_look_up(t, labels + 4, n_values));
    return x;
}

#else

#define MOST_DIRECT 1           /* as above; here masks and scattered sums are the faster form */
#define MOST_LEAVES_AT_ONCE 0

static void bart_fill_chosen(void) {}

typedef struct { double v[8]; } Lanes;              /* the same types, field by field */
typedef struct { int16_t v[8]; } Mask;
typedef struct { int16_t v[8]; } Tally;
typedef struct { double v[8]; } Table;

#define BART_EACH for (int l = 0; l < 8; l++)

static inline Lanes lanes_zero(void) {
    Lanes a;
    BART_EACH a.v[l] = 0.0;
    return a;
}

static inline Lanes lanes_load(const double *x) {
    Lanes a;
    BART_EACH a.v[l] = x[l];
    return a;
}

static inline void lanes_store(double *to, Lanes a) { BART_EACH to[l] = a.v[l]; }

static inline Lanes lanes_add(Lanes a, Lanes x) {
    BART_EACH a.v[l] += x.v[l];
    return a;
}

static inline Lanes lanes_fill(double value) {
    Lanes a;
    BART_EACH a.v[l] = value;
    return a;
}

static inline Lanes lanes_select(Lanes x, double tau, Lanes left, Lanes right) {
    BART_EACH left.v[l] = x.v[l] > tau ? right.v[l] : left.v[l];
    return left;
}

static inline Lanes lanes_add_where(Lanes a, Lanes x, Mask m) {
    int32_t g[8];
    BART_EACH g[l] = -m.v[l];
    BART_EACH a.v[l] += x.v[l] * (double)g[l];
    return a;
}

static inline Lanes lanes_add_square(Lanes a, Lanes x) {
    BART_EACH a.v[l] += x.v[l] * x.v[l];
    return a;
}

static inline Lanes lanes_multiply(Lanes a, Lanes x) {
    BART_EACH a.v[l] *= x.v[l];
    return a;
}

static inline Lanes lanes_subtract_times(Lanes a, double w, Lanes x) {
    BART_EACH a.v[l] -= w * x.v[l];
    return a;
}

static inline Mask mask_at_most(const void *codes, int itemsize, uint32_t cut) {
    Mask m;
    BART_EACH m.v[l] = -(int16_t)(bart_code(codes, itemsize, l) <= cut);
    return m;
}

static inline Mask mask_equal(const void *codes, int itemsize, uint32_t code) {
    Mask m;
    BART_EACH m.v[l] = -(int16_t)(bart_code(codes, itemsize, l) == code);
    return m;
}

static inline Mask mask_load(const uint8_t *bytes) {
    Mask m;
    BART_EACH m.v[l] = -(int16_t)bytes[l];
    return m;
}

static inline Mask mask_all(int truth) {
    Mask m;
    BART_EACH m.v[l] = truth ? -1 : 0;
    return m;
}

static inline Mask mask_xor(Mask a, Mask b) {
    BART_EACH a.v[l] ^= b.v[l];
    return a;
}

static inline Mask mask_and(Mask a, Mask b) {
    BART_EACH a.v[l] &= b.v[l];
    return a;
}

static inline Tally tally_zero(void) {
    Tally t;
    BART_EACH t.v[l] = 0;
    return t;
}

static inline Tally tally_add(Tally t, Mask m) {
    BART_EACH t.v[l] -= m.v[l];
    return t;
}

static inline int32_t tally_sum(Tally t) {
    int32_t n = 0;
    BART_EACH n += t.v[l];
    return n;
}

static inline void lanes_add_leaves(Lanes *a, const double *x, const uint8_t *labels, int first, int n_leaves) {
    for (int k = 0; k < n_leaves; k++) BART_EACH a[k].v[l] += labels[l] == first + k ? x[l] : 0.0;
}

static inline Lanes lanes_gather(const double *value, const void *labels, int itemsize) {
    Lanes a;
    BART_EACH a.v[l] = value[bart_code(labels, itemsize, l)];
    return a;
}

static inline Table table_load(const double *value) {
    Table t;
    BART_EACH t.v[l] = value[l];
    return t;
}

static inline Lanes lanes_add_value(Lanes x, Table t, const uint8_t *labels, int n_values) {
    (void)n_values;
    BART_EACH x.v[l] += t.v[labels[l]];
    return x;
}

/* Append first + i for each of eight rows whose byte is 1; returns how many. Eight places are written. */
static inline int32_t append_rows(uint32_t *rows, const uint8_t *mask, uint32_t first) {
    int32_t n = 0;
    BART_EACH {
        rows[n] = first + l;
        n += mask[l];
    }
    return n;
}

#undef BART_EACH
#endif

/* The fixed order in which the eight partial sums of a block are combined. */
static inline double lanes_sum(Lanes a) {
    double x[8];
    lanes_store(x, a);
    return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
}

/* a + x[0..n-1] in the first n lanes, for the last rows of a block (n < 8) */
static inline Lanes lanes_add_first(Lanes a, const double *x, int n) {
    double v[8] = {0.0};
    for (int l = 0; l < n; l++) v[l] = x[l];
    return lanes_add(a, lanes_load(v));
}
#endif
