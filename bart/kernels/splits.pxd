"""Decisions at a node: the prior as a proposal, and the prior's logarithm."""

from libc.stdint cimport int32_t, uint32_t
from numpy.random cimport bitgen_t
from bart.kernels.nodeset cimport NodeSet
from bart.kernels.types cimport Decision
from bart.kernels.workspace cimport Work

cdef bint draw_rule(Decision* rule, const NodeSet* node, Work* work, bitgen_t* rng) noexcept nogil
# A proposal: decision, and log P(decision) - log q(decision); the prior is the one there is.
cdef int propose_prior(Decision* decision, double* log_ratio, int32_t node, Work* work, bitgen_t* rng) noexcept nogil
cdef double log_rule(const NodeSet* node, int32_t dim, uint32_t code, const Work* work) noexcept nogil
