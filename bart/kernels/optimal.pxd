"""One-step-optimal proposals: stop or split in proportion to prior times likelihood, one step ahead."""

from libc.stdint cimport int32_t, int64_t
from numpy.random cimport bitgen_t
from bart.kernels.types cimport Decision
from bart.kernels.workspace cimport Look, Work

cdef struct OptimalParams:
    int32_t subset          # columns looked at, 0: all
    double prior_share      # e: of proposals from the prior

# The weights of a node's decisions over the columns in hand, all times exp(-top)
cdef struct Weights:
    int32_t node
    const int32_t* dims
    int32_t n               # columns in hand
    double stop             # 1 - p_s
    double total            # stop and all splits
    double top
    double log_Z            # log of the total, without the factor

cdef inline const Look* look_of(const Work* work, int32_t node, int32_t dim) noexcept nogil:
    """The look of a column that has been weighed."""
    cdef int64_t row = work.pool.nodes[node].looks
    return &work.looks.look[work.looks.table[row * work.columns.n_dims + dim]]

cdef int draw_subset(int32_t* dims, int32_t* n, Work* work, int32_t node, int32_t own_dim, int32_t size,
                     bitgen_t* rng) noexcept nogil
cdef int weigh_node(Weights* weights, Work* work, int32_t node, const int32_t* dims, int32_t n, double child_factor,
                    const double* target) noexcept nogil
cdef void share_columns(Weights* weights, Work* work, int32_t node, const int32_t* dims, int32_t n, double split,
                        double stop) noexcept nogil
cdef void draw_decision(Decision* decision, const Weights* weights, Work* work, bitgen_t* rng) noexcept nogil
cdef double log_cell_ratio(const Weights* weights, const Decision* decision, const Work* work) noexcept nogil
cdef int propose_optimal(Decision* decision, double* log_ratio, int32_t node, Work* work, const OptimalParams* params,
                         const double* target, bitgen_t* rng) noexcept nogil
cdef int log_optimal_ratio(double* log_ratio, int32_t node, const Decision* decision, Work* work,
                           const OptimalParams* params, const double* target, bitgen_t* rng) noexcept nogil
