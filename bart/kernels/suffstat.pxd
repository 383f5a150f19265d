"""Leaf marginal likelihood and leaf posterior, as functions of a node's statistic alone."""

from libc.math cimport sqrt
from libc.stdint cimport int64_t
from bart.kernels.types cimport MUTANT, Stat

cdef struct LeafParams:
    double sigma2           # noise variance, divided by the temperature
    double leaf_mean
    double leaf_var
    double* log_term        # (N + 1,): 1/2 log(sigma2 / v_n), v_n = sigma2 + n leaf_var; NAN until first asked for

cdef void forget_log_terms(double* log_term, int64_t n) noexcept nogil
cdef double fill_log_term(const LeafParams* leaf, int64_t n) noexcept nogil

cdef inline double log_L(const Stat* stat, const LeafParams* leaf) noexcept nogil:
    """Log marginal likelihood of a node, eq. (marginal:likelihood:node), without terms shared by all trees.

    log L = 1/2 log(sigma2 / v) + leaf_var S^2 / (2 sigma2 v), v = sigma2 + n leaf_var, S = sum(R - leaf_mean).
    The logarithm depends on n alone and is kept for a whole sweep.
    """
    cdef double S = stat.s - stat.n * leaf.leaf_mean
    cdef double leaf_var = sqrt(leaf.leaf_var) if MUTANT(6) else leaf.leaf_var     # 6: sigma_mu for sigma_mu^2
    cdef double v = leaf.sigma2 + stat.n * leaf_var
    cdef double log_term = leaf.log_term[stat.n]
    if log_term != log_term:
        log_term = fill_log_term(leaf, stat.n)
    return log_term + leaf_var * S * S / (2.0 * leaf.sigma2 * v)

cdef inline double leaf_posterior_mean(const Stat* stat, const LeafParams* leaf) noexcept nogil:
    """leaf_mean + leaf_var S / v."""
    cdef double S = stat.s - stat.n * leaf.leaf_mean
    return leaf.leaf_mean + leaf.leaf_var * S / (leaf.sigma2 + stat.n * leaf.leaf_var)

cdef inline double leaf_posterior_sd(const Stat* stat, const LeafParams* leaf) noexcept nogil:
    """(1 / leaf_var + n / sigma2)^(-1/2)."""
    return sqrt(leaf.leaf_var * leaf.sigma2 / (leaf.sigma2 + stat.n * leaf.leaf_var))
