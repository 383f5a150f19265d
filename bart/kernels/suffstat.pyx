"""Leaf marginal likelihood and leaf posterior, as functions of a node's statistic alone."""

from libc.math cimport log, sqrt
from libc.stdint cimport int64_t


cdef void tabulate(double* log_term, double* quad_term, double sigma2, double leaf_var, int64_t n) noexcept nogil:
    """The two factors of log L for every count 0..n, once per value of sigma2. Cost: n logarithms."""
    cdef int64_t k
    cdef double v, var = leaf_var
    if MUTANT(6):                                       # sigma_mu where sigma_mu^2 is meant
        var = sqrt(leaf_var)
    for k in range(n + 1):
        v = sigma2 + k * var
        log_term[k] = 0.5 * log(sigma2 / v)
        quad_term[k] = var / (2.0 * sigma2 * v)
