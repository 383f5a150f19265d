"""What the conditional laws of hyperparameters need of the trees: columns of rules, leaf values; and their setting."""

import numpy as np

from libc.math cimport NAN
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from bart.kernels.columns cimport Columns, Domain, code_at, count_surely_valid, mass_between
from bart.kernels.state cimport TreeState
from bart.kernels.tree cimport NONE, ROOT, Tree
from bart.kernels.types cimport value_at

# What is known of a column while the rows of a node are gone through.
cdef struct Open:
    int32_t dim
    uint32_t low
    uint32_t high


cdef void mark_leaves(int8_t* inside, const Tree* tree, int32_t node) noexcept nogil:
    """inside[leaf number] = 1 for the leaves below a node, else 0."""
    cdef int32_t l, at
    for l in range(tree.n_leaves):
        at = tree.leaf_node[l]
        while at != node and at != ROOT:
            at = tree.nodes[at].parent
        inside[l] = at == node


cdef void find_valid(uint8_t* valid, Open* open_, int8_t* inside, const Tree* tree, int32_t node,
                     const Columns* columns) noexcept nogil:
    """valid[dim] = 1 for the candidates that the node can split.

    Left as soon as all are known to be: two rows that differ decide where they have mass between them. A column in
    which some node above was split is looked at like any other.
    """
    cdef int64_t n = tree.nodes[node].n, left = n, row
    cdef int32_t n_sure = count_surely_valid(columns, n), n_open = columns.n_candidates - n_sure, k
    cdef uint32_t code
    for k in range(columns.n_candidates):
        valid[columns.by_ties[k]] = k < n_sure
    if n_open == 0:
        return
    mark_leaves(inside, tree, node)
    for k in range(n_open):
        open_[k].dim = columns.by_ties[n_sure + k]
        open_[k].low = 0xFFFFFFFF
        open_[k].high = 0
    for row in range(tree.n_rows):
        if not inside[value_at(tree.labels, tree.itemsize, row)]:
            continue
        k = 0
        while k < n_open:
            code = code_at(columns, open_[k].dim, row)
            if code >= open_[k].low and code <= open_[k].high:
                k += 1
                continue
            open_[k].low = min(open_[k].low, code)
            open_[k].high = max(open_[k].high, code)
            if mass_between(columns, open_[k].dim, open_[k].low, open_[k].high) > 0:
                valid[open_[k].dim] = 1
                n_open -= 1
                open_[k] = open_[n_open]
            else:
                k += 1
        left -= 1
        if n_open == 0 or left == 0:
            return


def rule_columns(list states):
    """The columns of all rules, and those that the rules' nodes might have split instead.

    Parameters
    ----------
    states : list of TreeState
        Over one Domain.

    Returns
    -------
    counts : (n_dims,) int64
        Rules of each column.
    valid : (n, n_dims) uint8
        Columns that can be split, 0 or 1, for each internal node where those are not all candidates.
    """
    cdef Domain domain = (<TreeState>states[0]).domain
    cdef const Columns* columns = &domain.c
    cdef int64_t[::1] counts = np.zeros(columns.n_dims, dtype=np.int64)
    cdef int64_t n = 0
    cdef int32_t j, node, most_leaves = 1, k
    cdef Tree* tree
    for j in range(len(states)):
        tree = &(<TreeState>states[j]).t
        most_leaves = max(most_leaves, tree.n_leaves)
        for node in range(tree.n_nodes):
            if tree.nodes[node].left != NONE:
                counts[tree.nodes[node].dim] += 1
                n += count_surely_valid(columns, tree.nodes[node].n) < columns.n_candidates
    cdef uint8_t[:, ::1] valid = np.zeros((n + 1, columns.n_dims), dtype=np.uint8)
    cdef Open* open_ = <Open*>malloc((columns.n_candidates + 1) * sizeof(Open))
    cdef int8_t* inside = <int8_t*>malloc(most_leaves)
    if open_ == NULL or inside == NULL:
        free(open_)
        free(inside)
        raise MemoryError("no memory to look at the columns of rules")
    n = 0
    for j in range(len(states)):
        tree = &(<TreeState>states[j]).t
        for node in range(tree.n_nodes):
            if (tree.nodes[node].left != NONE
                    and count_surely_valid(columns, tree.nodes[node].n) < columns.n_candidates):
                find_valid(&valid[n, 0], open_, inside, tree, node, columns)
                for k in range(columns.n_candidates):
                    if not valid[n, columns.candidates[k]]:
                        n += 1
                        break
    free(open_)
    free(inside)
    return np.asarray(counts), np.asarray(valid)[:n]


def set_log_weights(list states, const double[::1] log_weights):
    """New random weights of the candidates (see Domain.set_log_weights) for all trees over one Domain: what the trees
    keep of the prior of their rules is forgotten with the old ones."""
    cdef int32_t j, node
    cdef Tree* tree
    (<TreeState>states[0]).domain.set_log_weights(log_weights)
    for j in range(len(states)):
        tree = &(<TreeState>states[j]).t
        for node in range(tree.n_nodes):
            tree.nodes[node].log_rule = NAN


def leaf_spread(list states, double mean):
    """The number of leaves of all trees, and the sum over them of (leaf value - mean)^2."""
    cdef int64_t n = 0
    cdef int32_t j, l
    cdef double total = 0.0, x
    cdef Tree* tree
    for j in range(len(states)):
        tree = &(<TreeState>states[j]).t
        n += tree.n_leaves
        for l in range(tree.n_leaves):
            x = tree.nodes[tree.leaf_node[l]].value - mean
            total += x * x
    return n, total
