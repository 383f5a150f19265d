"""A subtree under other rules: its posterior beside the one it has, and the move from one to the other."""

from libc.stdint cimport int32_t, int64_t
from numpy.random cimport bitgen_t
from bart.kernels.tree cimport Node, Tree
from bart.kernels.types cimport Decision, StepInfo
from bart.kernels.workspace cimport Work

cdef int32_t list_internal(int32_t* listed, const Tree* tree, int32_t* order) noexcept nogil
cdef void load_children(Work* work, const Tree* tree, int32_t node) noexcept nogil
cdef int load_path(int32_t* top_in_pool, Work* work, const Tree* tree, int32_t top) noexcept nogil
cdef int fill_log_rules(Work* work, Tree* tree, int32_t top) noexcept nogil
cdef double old_log_posterior(Work* work, Tree* tree, int32_t top, bint with_top_rule) noexcept nogil
cdef int64_t rows_of_rules(const Tree* tree, int32_t top, int32_t* order) noexcept nogil
cdef void sum_region(Work* work, const Tree* tree, int32_t top, int32_t in_pool) noexcept nogil
cdef int decide_subtree(Tree* tree, Work* work, StepInfo* info, const double* target, int32_t top, int32_t in_pool,
                        double before, bint with_top_rule, bitgen_t* rng) noexcept nogil
cdef int try_rule(Tree* tree, Work* work, StepInfo* info, const double* target, int32_t top, int32_t in_pool,
                  Decision rule, bint with_top_rule, double log_proposals, bitgen_t* rng) noexcept nogil

cdef inline void set_rule(Node* node, Decision rule) noexcept nogil:
    node.dim = rule.dim
    node.code = rule.code

cdef inline Decision rule_of(const Node* node) noexcept nogil:
    cdef Decision rule
    rule.dim = node.dim
    rule.code = node.code
    return rule
