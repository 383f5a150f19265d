"""Conditional resampling and the final index: every scheme keeps slot 0 on the clamped particle."""

from libc.stdint cimport int32_t
from numpy.random cimport bitgen_t

cdef enum Resampling:
    MULTINOMIAL = 0
    SYSTEMATIC = 1
    KILLING = 2

cdef void normalise(double* weight, const double* log_weight, int32_t n) noexcept nogil
cdef int32_t draw_index(const double* weight, int32_t n, double total, bitgen_t* rng) noexcept nogil
cdef bint wants_resampling(const double* weight, int32_t n, double ess_threshold) noexcept nogil
cdef void resample(int32_t* ancestor, int32_t* spare, const double* weight, int32_t n, int scheme, bint clamped,
                   bitgen_t* rng) noexcept nogil
cdef int32_t draw_final(const double* weight, int32_t n, bint forced, bitgen_t* rng) noexcept nogil
