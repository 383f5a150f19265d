"""Leaf marginal likelihood and leaf posterior, as functions of a node's statistic alone."""

from libc.math cimport sqrt
from libc.stdint cimport int64_t
from bart.kernels.types cimport MUTANT, Stat

cdef struct LeafParams:
    double sigma2           # noise variance, divided by the temperature
    double leaf_mean
    double leaf_var
    double* log_term        # (N + 1,): 1/2 log(sigma2 / v_n), v_n = sigma2 + n leaf_var; NAN until first asked for
    bint weighted           # rows carry weights: log_term stays NAN, as the logarithm is no function of n

cdef void forget_log_terms(double* log_term, int64_t n) noexcept nogil
cdef double fill_log_term(const LeafParams* leaf, const Stat* stat) noexcept nogil

cdef inline double log_L(const Stat* stat, const LeafParams* leaf) noexcept nogil:
    """Log marginal likelihood of a node, eq. (marginal:likelihood:node), without terms shared by all trees.

    log L = 1/2 log(sigma2 / v) + leaf_var S^2 / (2 sigma2 v), v = sigma2 + w leaf_var, S = s - w leaf_mean, with
    w = n and s = sum of R, or with weights of the rows (noise variance sigma2 / w_i) w = sum of w_i, s = sum of w_i R.
    Without weights the logarithm depends on n alone and is kept for a whole sweep.
    """
    cdef double S = stat.s - stat.w * leaf.leaf_mean
    cdef double leaf_var = sqrt(leaf.leaf_var) if MUTANT(6) else leaf.leaf_var     # 6: sigma_mu for sigma_mu^2
    cdef double v = leaf.sigma2 + stat.w * leaf_var
    cdef double log_term = leaf.log_term[stat.n]
    if log_term != log_term:
        log_term = fill_log_term(leaf, stat)
    return log_term + leaf_var * S * S / (2.0 * leaf.sigma2 * v)

cdef inline double leaf_posterior_mean(const Stat* stat, const LeafParams* leaf) noexcept nogil:
    """leaf_mean + leaf_var S / v."""
    cdef double w = stat.n if MUTANT(70) else stat.w
    cdef double S = stat.s - w * leaf.leaf_mean
    return leaf.leaf_mean + leaf.leaf_var * S / (leaf.sigma2 + w * leaf.leaf_var)

cdef inline double leaf_posterior_sd(const Stat* stat, const LeafParams* leaf) noexcept nogil:
    """(1 / leaf_var + w / sigma2)^(-1/2)."""
    return sqrt(leaf.leaf_var * leaf.sigma2 / (leaf.sigma2 + stat.w * leaf.leaf_var))
