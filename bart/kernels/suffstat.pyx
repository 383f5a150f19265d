"""Leaf marginal likelihood and leaf posterior, as functions of a node's statistic alone."""

from libc.math cimport NAN, log, sqrt
from libc.stdint cimport int64_t


cdef void forget_log_terms(double* log_term, int64_t n) noexcept nogil:
    """Mark the table over the counts 0..n as empty."""
    cdef int64_t k
    for k in range(n + 1):
        log_term[k] = NAN


cdef double fill_log_term(const LeafParams* leaf, const Stat* stat) noexcept nogil:
    """1/2 log(sigma2 / v), kept in the table where it can be: one logarithm a count and sweep, at most."""
    cdef double leaf_var = sqrt(leaf.leaf_var) if MUTANT(6) else leaf.leaf_var
    cdef double log_term = 0.5 * log(leaf.sigma2 / (leaf.sigma2 + (stat.n if MUTANT(71) else stat.w) * leaf_var))
    if not leaf.weighted:
        leaf.log_term[stat.n] = log_term
    return log_term
