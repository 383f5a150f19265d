"""Trees to start from: given rules, draws from the prior, over-grown ones."""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint32_t
from numpy.random cimport bitgen_t
from bart.kernels.columns cimport p_split_at, predicate_of
from bart.kernels.moves cimport list_growable
from bart.kernels.nodeset cimport NodeSet, add_rule, leaf_set
from bart.kernels.rng cimport below, bernoulli
from bart.kernels.splits cimport draw_rule, log_rule
from bart.kernels.tree cimport Tree, add_children, labels_reserve, make_stump, tree_reserve
from bart.kernels.types cimport ABOVE, AT_MOST, NO_MEMORY, OK, Decision
from bart.kernels.workspace cimport Work, reserve_leaves


cdef int grow_leaf(Tree* tree, Work* work, int32_t node, int32_t dim, uint32_t code) noexcept nogil:
    """Split a leaf by a rule that the prior has there, labels included."""
    cdef NodeSet rows
    cdef int64_t n_left
    cdef double unused
    if (reserve_leaves(work, tree.n_leaves + 1) or tree_reserve(tree, tree.n_nodes + 2)
            or labels_reserve(tree, tree.n_leaves + 1)):
        return NO_MEMORY
    rows = leaf_set(tree.labels, tree.itemsize, tree.nodes[node].leaf, tree.nodes[node].n)
    add_rule(&rows, predicate_of(work.columns, dim, code, AT_MOST))
    work.ops.masked_sum(&n_left, &unused, rows.where, rows.n_where, NULL, tree.n_rows)
    rows.where[0].relation = ABOVE
    work.ops.relabel(tree.labels, tree.itemsize, tree.n_leaves, rows.where, rows.n_where, tree.n_rows)
    add_children(tree, node, dim, code, n_left)
    return OK


cdef bint has_rule(const Tree* tree, Work* work, int32_t node, int32_t dim, uint32_t code) noexcept nogil:
    """Whether the prior has a rule at a leaf; not one that leaves a side without rows, for one."""
    cdef NodeSet rows = leaf_set(tree.labels, tree.itemsize, tree.nodes[node].leaf, tree.nodes[node].n)
    return log_rule(&rows, dim, code, work) > -INFINITY


cdef int draw_from_prior(Tree* tree, Work* work, bitgen_t* rng) noexcept nogil:
    """A tree from its prior, eq. (treeprior), breadth first; nodes are visited in the order of their number."""
    cdef int32_t node = 0
    cdef int status
    cdef NodeSet rows
    cdef Decision rule
    make_stump(tree)
    while node < tree.n_nodes:
        if bernoulli(p_split_at(work.columns, tree.nodes[node].depth), rng):
            rows = leaf_set(tree.labels, tree.itemsize, tree.nodes[node].leaf, tree.nodes[node].n)
            if draw_rule(&rule, &rows, work, rng):
                status = grow_leaf(tree, work, node, rule.dim, rule.code)
                if status != OK:
                    return status
        node += 1
    return OK


cdef int overgrow(Tree* tree, Work* work, int32_t n_leaves, bitgen_t* rng) noexcept nogil:
    """Split uniformly drawn leaves by rules from the prior until there are n_leaves, or none can be split."""
    cdef int32_t node, found
    cdef int status
    cdef NodeSet rows
    cdef Decision rule
    make_stump(tree)
    while tree.n_leaves < n_leaves:
        if reserve_leaves(work, tree.n_leaves + 1) != OK:
            return NO_MEMORY
        found = list_growable(work.listed, tree, work)
        if found == 0:
            return OK
        node = work.listed[below(found, rng)]
        rows = leaf_set(tree.labels, tree.itemsize, tree.nodes[node].leaf, tree.nodes[node].n)
        if not draw_rule(&rule, &rows, work, rng):
            return OK
        status = grow_leaf(tree, work, node, rule.dim, rule.code)
        if status != OK:
            return status
    return OK
