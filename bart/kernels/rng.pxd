"""Random numbers from a numpy bit generator, without the interpreter."""

from libc.stdint cimport uint64_t
from numpy.random cimport bitgen_t

cdef extern from *:
    """
    #include <stdint.h>
    /* floor(x n / 2^64) and the low word of the product: Lemire's unbiased reduction. */
    #if defined(__SIZEOF_INT128__)
    static inline uint64_t bart_mulhi(uint64_t x, uint64_t n, uint64_t *low) {
        unsigned __int128 p = (unsigned __int128)x * n;
        *low = (uint64_t)p;
        return (uint64_t)(p >> 64);
    }
    #else
    static inline uint64_t bart_mulhi(uint64_t x, uint64_t n, uint64_t *low) {
        uint64_t xl = x & 0xffffffffULL, xh = x >> 32, nl = n & 0xffffffffULL, nh = n >> 32;
        uint64_t ll = xl * nl, lh = xl * nh, hl = xh * nl, hh = xh * nh;
        uint64_t mid = (ll >> 32) + (lh & 0xffffffffULL) + (hl & 0xffffffffULL);
        *low = (mid << 32) | (ll & 0xffffffffULL);
        return hh + (lh >> 32) + (hl >> 32) + (mid >> 32);
    }
    #endif
    """
    uint64_t mulhi "bart_mulhi"(uint64_t x, uint64_t n, uint64_t* low) noexcept nogil

cdef inline double uniform(bitgen_t* rng) noexcept nogil:
    """U(0, 1) on [0, 1)."""
    return rng.next_double(rng.state)

cdef inline uint64_t below(uint64_t n, bitgen_t* rng) noexcept nogil:
    """Uniform on 0..n-1, n >= 1, without bias (Lemire 2019): multiply, reject the short residue class."""
    cdef uint64_t low, high, threshold
    high = mulhi(rng.next_uint64(rng.state), n, &low)
    if low < n:
        threshold = (0 - n) % n
        while low < threshold:
            high = mulhi(rng.next_uint64(rng.state), n, &low)
    return high

cdef inline bint bernoulli(double p, bitgen_t* rng) noexcept nogil:
    """True with probability p; always consumes one uniform."""
    return uniform(rng) < p

cdef double normal(bitgen_t* rng) noexcept nogil
cdef double gamma(double shape, bitgen_t* rng) noexcept nogil
cdef bitgen_t* bitgen_of(object generator) except NULL
