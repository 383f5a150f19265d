"""Decisions at a node: the prior as a proposal, and the prior's logarithm."""

from libc.stdint cimport int32_t, uint32_t
from numpy.random cimport bitgen_t
from bart.kernels.nodeset cimport NodeSet
from bart.kernels.types cimport Decision
from bart.kernels.workspace cimport Work

cdef bint draw_rule(Decision* rule, const NodeSet* node, Work* work, bitgen_t* rng) noexcept nogil
# A proposal is a pair: one draws a decision at a pool node and gives log P(decision) - log q(decision), the other
# gives the same for the decision that the clamped particle has stored. The prior is the one there is.
cdef int propose_prior(Decision* decision, double* log_ratio, int32_t node, Work* work, bitgen_t* rng) noexcept nogil
cdef double log_prior_ratio(int32_t node, const Decision* decision, Work* work) noexcept nogil
cdef double log_rule(const NodeSet* node, int32_t dim, uint32_t code, const Work* work) noexcept nogil
