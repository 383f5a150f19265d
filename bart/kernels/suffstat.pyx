"""Leaf marginal likelihood and leaf posterior, as functions of a node's statistic alone."""

from libc.math cimport NAN, log, sqrt
from libc.stdint cimport int64_t


cdef void forget_log_terms(double* log_term, int64_t n) noexcept nogil:
    """Mark the table over the counts 0..n as empty."""
    cdef int64_t k
    for k in range(n + 1):
        log_term[k] = NAN


cdef double fill_log_term(const LeafParams* leaf, int64_t n) noexcept nogil:
    """1/2 log(sigma2 / v_n), kept in the table: one logarithm a count and sweep, at most."""
    cdef double leaf_var = sqrt(leaf.leaf_var) if MUTANT(6) else leaf.leaf_var
    leaf.log_term[n] = 0.5 * log(leaf.sigma2 / (leaf.sigma2 + n * leaf_var))
    return leaf.log_term[n]
