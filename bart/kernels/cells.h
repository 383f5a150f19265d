/* Weights of candidate cuts, several at a time by the compiler: the same operations, so the same bits, at any width. */
#ifndef BART_CELLS_H
#define BART_CELLS_H

#include <stdint.h>
#include <string.h>

#define BART_MAGIC 6755399441055744.0   /* 1.5 * 2^52: adding it rounds a small double to an integer in its low bits */

static inline int64_t bart_bits(double x) {
    int64_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

static inline double bart_from_bits(int64_t b) {
    double x;
    memcpy(&x, &b, sizeof x);
    return x;
}

/* n bytes, 4 or 8, the first in the lowest bits */
static inline uint64_t bart_load_bytes(const uint8_t *bytes, int n) {
    uint32_t four;
    uint64_t eight;
    memcpy(&four, bytes, 4);
    if (n == 8) memcpy(&eight, bytes, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return n == 8 ? __builtin_bswap64(eight) : __builtin_bswap32(four);
#else
    return n == 8 ? eight : four;
#endif
}

/* x * scale rounded to an integer, cut off at +-most < 2^51 */
static inline int64_t bart_quantise(double x, double scale, double most) {
    x *= scale;
    x = x < most ? x : most;
    x = x > -most ? x : -most;
    return bart_bits(x + BART_MAGIC) - bart_bits(BART_MAGIC);
}

/* q[i] = one + the integer that stands for r[i] */
static void bart_quantise_rows(int64_t *restrict q, const double *restrict r, int n, double scale, double most,
                               int64_t one) {
    for (int i = 0; i < n; i++) q[i] = one + bart_quantise(r[i], scale, most);
}

/* The same for a list of rows. */
static void bart_quantise_list(int64_t *restrict q, const double *restrict r, const uint32_t *restrict rows, int n,
                               double scale, double most, int64_t one) {
    double x[512];
    for (int i = 0; i < n; i++) x[i] = r[rows[i]];
    bart_quantise_rows(q, x, n, scale, most, one);
}

static inline double bart_whole(int64_t x) { return bart_from_bits(x + bart_bits(BART_MAGIC)) - BART_MAGIC; }

/* Counts and target sums of the rows below each of n <= 256 cuts, from packed sums of the bins between them. Sums are
   below 2^51 by the choice of their unit, so bart_whole is exact; no packed sum plus half is negative. */
static void bart_unpack(double *restrict n_left, double *restrict s_left, const int64_t *restrict sums, int first,
                        int n, int shift, double unit) {
    int64_t packed = 0, half = (int64_t)1 << (shift - 1), upto[256];
    for (int k = 0; k < first; k++) packed += sums[k];
    for (int k = 0; k < n; k++) upto[k] = packed += sums[first + k];
    for (int k = 0; k < n; k++) {
        int64_t count = (int64_t)((uint64_t)(upto[k] + half) >> shift);
        n_left[k] = bart_whole(count);
        s_left[k] = bart_whole(upto[k] - (count << shift)) * unit;
    }
}

/* exp(x) for -600 <= x <= 0, to some 1e-14 relative: x = k log 2 + r, 2^k by its bits, exp(r) by its series. */
static inline double bart_exp(double x) {
    double t = x * 1.4426950408889634 + BART_MAGIC;
    double k = t - BART_MAGIC;
    double r = (x - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10;
    double p = 1.0 / 40320 + r * (1.0 / 362880 + r * (1.0 / 3628800 + r * (1.0 / 39916800)));
    p = 1.0 / 24 + r * (1.0 / 120 + r * (1.0 / 720 + r * (1.0 / 5040 + r * p)));
    p = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6 + r * p)));
    return p * bart_from_bits((bart_bits(t) - bart_bits(BART_MAGIC) + 1023) << 52);
}

/* Largest g, in a fixed order. */
static double bart_largest(const double *restrict g, int n) {
    double most[4] = {-1e300, -1e300, -1e300, -1e300}, top = -1e300;
    for (int k = 0; k + 4 <= n; k += 4)
        for (int l = 0; l < 4; l++) most[l] = g[k + l] > most[l] ? g[k + l] : most[l];
    for (int k = n & ~3; k < n; k++) most[0] = g[k] > most[0] ? g[k] : most[0];
    for (int l = 0; l < 4; l++) top = most[l] > top ? most[l] : top;
    return top;
}

/* For n cuts of a node of weight `weight` (its rows, unless they carry weights) and target sum s: g = log of the
   exponential part of L(l) L(r) / L(eta), and w = its factor sqrt(sigma2 v / (v_l v_r)); returns the largest g.
   v of weight k = sigma2 + k leaf_var. */
static double bart_cut_ratios(double *restrict w, double *restrict g, const double *restrict w_left,
                              const double *restrict s_left, int n, double weight, double s, double sigma2,
                              double leaf_var, double leaf_mean) {
    double v = sigma2 + weight * leaf_var, S = s - weight * leaf_mean, whole = S * S / v, c = 0.5 * leaf_var / sigma2;
    for (int k = 0; k < n; k++) {
        double v_left = sigma2 + w_left[k] * leaf_var, v_right = sigma2 + (weight - w_left[k]) * leaf_var;
        double S_left = s_left[k] - w_left[k] * leaf_mean, S_right = S - S_left;
        double inverse = 1.0 / (v_left * v_right);
        g[k] = c * ((S_left * S_left * v_right + S_right * S_right * v_left) * inverse - whole);
        w[k] = sigma2 * v * inverse;
    }
    return bart_largest(g, n);
}

/* w[k] = mass[k] sqrt(w[k]) exp(g[k] - top); returns their sum, in a fixed order. */
static double bart_cut_weights(double *restrict w, const double *restrict g, const double *restrict mass, int n,
                               double top) {
    double sum[4] = {0.0, 0.0, 0.0, 0.0};
    for (int k = 0; k < n; k++) {
        double x = g[k] - top;
        w[k] = mass[k] * __builtin_sqrt(w[k]) * bart_exp(x < -600.0 ? -600.0 : x);
    }
    for (int k = 0; k + 4 <= n; k += 4)
        for (int l = 0; l < 4; l++) sum[l] += w[k + l];
    for (int k = n & ~3; k < n; k++) sum[k & 3] += w[k];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* For n cuts, what one leaf below a rule adds: of its rows if the rule sent all of them to its side, of weight `weight`
   with sum s, w_in and s_in are at or below each cut. w times its factor sigma2 / v, g plus its exponent. w times
   BART_EMPTY where no row is left to it: a cell whose representative empties a leaf may hold gaps that do not. */
#define BART_EMPTY 1e-6
static void bart_leaf_factors(double *restrict w, double *restrict g, const double *restrict w_in,
                              const double *restrict s_in, int n, double weight, double s, int above, double sigma2,
                              double leaf_var, double leaf_mean) {
    double c = 0.5 * leaf_var / sigma2, sign = above ? -1.0 : 1.0;
    double w_base = above ? weight : 0.0, s_base = above ? s : 0.0;
    for (int k = 0; k < n; k++) {
        double kept = w_base + sign * w_in[k];
        double S = s_base + sign * s_in[k] - kept * leaf_mean, inverse = 1.0 / (sigma2 + kept * leaf_var);
        g[k] += c * S * S * inverse;
        w[k] *= sigma2 * inverse * (kept > 0.0 ? 1.0 : BART_EMPTY);
    }
}

/* Products of factors from below: at the least exponent as well, the weight of a cell then is no 0. */
static void bart_bound_factors(double *w, int n) {
    for (int k = 0; k < n; k++) w[k] = w[k] > 1e-60 ? w[k] : 1e-60;
}

#endif
