"""Decisions at a node: the prior as a proposal, and the prior's logarithm."""

from libc.stdint cimport int32_t, uint32_t
from numpy.random cimport bitgen_t
from bart.kernels.columns cimport Columns
from bart.kernels.nodeset cimport NodeSet
from bart.kernels.types cimport Decision
from bart.kernels.workspace cimport Work

cdef uint32_t draw_code(uint32_t low, uint32_t high, const Columns* columns, int32_t dim,
                        bitgen_t* rng) noexcept nogil
cdef int32_t draw_position(const int32_t* dims, int32_t n, double total, double scale,
                           const Columns* columns, bitgen_t* rng) noexcept nogil
cdef bint draw_rule(Decision* rule, const NodeSet* node, Work* work, bitgen_t* rng) noexcept nogil
cdef int propose_prior(Decision* decision, int32_t node, Work* work, bitgen_t* rng) noexcept nogil
cdef double log_rule(const NodeSet* node, int32_t dim, uint32_t code, const Work* work) noexcept nogil
