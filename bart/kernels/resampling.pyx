"""Conditional resampling and the final index: every scheme keeps slot 0 on the clamped particle.

Weights are normalised over all n particles, the clamped one (index 0) included; every slot has P(ancestor = i) = W_i.
"""

from libc.math cimport exp, floor
from libc.stdint cimport int32_t
from numpy.random cimport bitgen_t
from bart.kernels.rng cimport below, uniform
from bart.kernels.types cimport MUTANT


cdef void normalise(double* weight, const double* log_weight, int32_t n) noexcept nogil:
    """W = exp(log w) / sum exp(log w), the maximum subtracted first."""
    cdef int32_t c
    cdef double top = log_weight[0], total = 0.0
    for c in range(1, n):
        if log_weight[c] > top:
            top = log_weight[c]
    for c in range(n):
        weight[c] = exp(log_weight[c] - top)
        total += weight[c]
    for c in range(n):
        weight[c] /= total


cdef int32_t draw_index(const double* weight, int32_t n, double total, bitgen_t* rng) noexcept nogil:
    """Index i with probability weight[i] / total, the weights' sum; an index of weight 0 is never drawn."""
    cdef int32_t c, last = 0
    cdef double at = uniform(rng) * total, reached = 0.0
    for c in range(n):
        if weight[c] > 0:
            last = c
            reached += weight[c]
            if at < reached:
                return c
    return last


cdef bint wants_resampling(const double* weight, int32_t n, double ess_threshold) noexcept nogil:
    """Whether 1 / sum W^2 < t n (1 - 1e-12); a negative threshold means always."""
    cdef int32_t c
    cdef double squares = 0.0
    if ess_threshold < 0:
        return True
    for c in range(n):
        squares += weight[c] * weight[c]
    return 1.0 < ess_threshold * n * (1.0 - 1e-12) * squares


cdef void multinomial(int32_t* ancestor, const double* weight, int32_t n, int32_t first, bitgen_t* rng) noexcept nogil:
    """n - 1 independent draws over all n particles (the paper); slot 0 is the clamped one's."""
    cdef int32_t c, i
    for c in range(first, n):
        if MUTANT(1) and first == 1:
            ancestor[c] = 1 + draw_index(weight + 1, n - 1, 1.0 - weight[0], rng)
        else:
            ancestor[c] = draw_index(weight, n, 1.0, rng)
    if MUTANT(2) and first == 1:                        # n sorted draws, the first overwritten
        ancestor[0] = draw_index(weight, n, 1.0, rng)
        for c in range(1, n):
            i = c
            while i > 0 and ancestor[i - 1] > ancestor[i]:
                ancestor[i - 1], ancestor[i] = ancestor[i], ancestor[i - 1]
                i -= 1


cdef void systematic(int32_t* ancestor, int32_t* spare, const double* weight, int32_t n, bitgen_t* rng) noexcept nogil:
    """Conditional systematic (Chopin & Singh 2015): the law of the offset u given that the clamped particle survives.

    w = n W_0, f = floor(w), p = w - f: u = p U with probability p (f + 1) / w, else p + (1 - p) U. One of its
    copies, chosen uniformly, is rotated into slot 0.
    """
    cdef double w = n * weight[0], f = floor(w), p = w - f, u, total = weight[0]
    cdef int32_t j, i = 0, copies = 0, k
    if uniform(rng) < (p * (f + 1.0) / w if w > 0 else 1.0):
        u = p * uniform(rng)
    else:
        u = p + (1.0 - p) * uniform(rng)
    for j in range(n):
        while i < n - 1 and j + u >= n * total:
            i += 1
            total += weight[i]
        spare[j] = i
        copies += i == 0
    if copies == 0:                                     # only by rounding where W_0 is next to nothing
        spare[0] = 0
        copies = 1
    k = <int32_t>below(copies, rng)
    for j in range(n):
        ancestor[j] = spare[(j + k) % n]


cdef void killing(int32_t* ancestor, int32_t* spare, const double* weight, int32_t n, bitgen_t* rng) noexcept nogil:
    """Conditional killing: i survives with probability W_i / max W, else redraws from W; the clamped particle lands
    on a shifted slot S with P(S = j) = (1 - W_j / max W) / n for j != 0, the rest on 0, and is rotated back.
    """
    cdef double top = weight[0], at
    cdef int32_t i, shift = 0
    for i in range(1, n):
        top = weight[i] if weight[i] > top else top
    at = 1.0
    for i in range(1, n):
        at -= (1.0 - weight[i] / top) / n
    at = uniform(rng) - at                              # the rest, on slot 0, comes first
    while at >= 0 and shift < n - 1 and not MUTANT(11):
        shift += 1
        at -= (1.0 - weight[shift] / top) / n
    for i in range(n):
        if i == shift:
            spare[i] = 0
        elif uniform(rng) < weight[i] / top:
            spare[i] = i
        else:
            spare[i] = draw_index(weight, n, 1.0, rng)
    for i in range(n):
        ancestor[i] = spare[(i + shift) % n]


cdef void resample(int32_t* ancestor, int32_t* spare, const double* weight, int32_t n, int scheme, bint clamped,
                   bitgen_t* rng) noexcept nogil:
    """Ancestors of all slots; with a clamped particle ancestor[0] = 0. Without one, multinomial."""
    if not clamped or scheme == MULTINOMIAL:
        multinomial(ancestor, weight, n, 1 if clamped else 0, rng)
    elif scheme == SYSTEMATIC:
        systematic(ancestor, spare, weight, n, rng)
    else:
        killing(ancestor, spare, weight, n, rng)
    if clamped:
        ancestor[0] = 0


cdef int32_t draw_final(const double* weight, int32_t n, bint forced, bitgen_t* rng) noexcept nogil:
    """The particle that becomes the new tree: by weight, or by a forced move away from the clamped one.

    Forced: l != 0 with probability W_l / (1 - W_0), accepted with min(1, (1 - W_0) / (1 - W_l)).
    """
    cdef int32_t l, c
    cdef double others = 0.0, ratio
    if not forced:
        return draw_index(weight, n, 1.0, rng)
    for c in range(1, n):
        others += weight[c]
    if 1.0 - weight[0] <= 0.0 or others <= 0.0:
        return 0
    l = 1 + draw_index(weight + 1, n - 1, others, rng)
    ratio = (1.0 - weight[0]) / (1.0 - weight[l]) if weight[l] < 1.0 else 1.0
    if MUTANT(16):
        ratio = 1.0 / ratio
    return l if uniform(rng) < ratio else 0
