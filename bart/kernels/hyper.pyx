"""What the conditional laws of hyperparameters need of the trees: columns of rules, leaf values; and their setting."""

import numpy as np

from libc.math cimport NAN
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from bart.kernels.columns cimport Columns, Domain, code_at, count_surely_valid, mass_between
from bart.kernels.state cimport TreeState
from bart.kernels.tree cimport NONE, ROOT, Node, Tree
from bart.kernels.types cimport value_at

# What is known of a column while the rows of a node are gone through.
cdef struct Unsure:
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


cdef bint may_split(const Tree* tree, int32_t node, int32_t dim, const Columns* columns) noexcept nogil:
    """Whether the rules above a node leave room between the codes of a column."""
    cdef uint32_t low = 0, high = columns.last_code[dim]
    cdef int32_t above
    cdef const Node* p
    while node != ROOT:
        above = tree.nodes[node].parent
        p = &tree.nodes[above]
        if p.dim == dim:
            if node == p.left:
                high = min(high, p.code)
            else:
                low = max(low, p.code + 1)
        node = above
    return mass_between(columns, dim, low, high) > 0


cdef void find_valid(uint8_t* valid, Unsure* unsure, int8_t* inside, const Tree* tree, int32_t node,
                     const Columns* columns) noexcept nogil:
    """valid[dim] = 1 for the candidates that the node can split.

    The bounds that the rules above put on a column may tell that it cannot be. Of the others, two rows that differ
    decide, where they have mass between them: the rows are left as soon as all columns are known to be valid.
    """
    cdef int64_t n = tree.nodes[node].n, left = n, row
    cdef int32_t n_sure = count_surely_valid(columns, n), n_unsure = 0, k
    cdef uint32_t code
    for k in range(columns.n_candidates):
        valid[columns.by_ties[k]] = k < n_sure
    for k in range(n_sure, columns.n_candidates):
        if may_split(tree, node, columns.by_ties[k], columns):
            unsure[n_unsure].dim = columns.by_ties[k]
            unsure[n_unsure].low = 0xFFFFFFFF
            unsure[n_unsure].high = 0
            n_unsure += 1
    if n_unsure == 0:
        return
    mark_leaves(inside, tree, node)
    for row in range(tree.n_rows):
        if not inside[value_at(tree.labels, tree.itemsize, row)]:
            continue
        k = 0
        while k < n_unsure:
            code = code_at(columns, unsure[k].dim, row)
            if code >= unsure[k].low and code <= unsure[k].high:
                k += 1
                continue
            unsure[k].low = min(unsure[k].low, code)
            unsure[k].high = max(unsure[k].high, code)
            if mass_between(columns, unsure[k].dim, unsure[k].low, unsure[k].high) > 0:
                valid[unsure[k].dim] = 1
                n_unsure -= 1
                unsure[k] = unsure[n_unsure]
            else:
                k += 1
        left -= 1
        if n_unsure == 0 or left == 0:
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
    cdef Unsure* unsure = <Unsure*>malloc((columns.n_candidates + 1) * sizeof(Unsure))
    cdef int8_t* inside = <int8_t*>malloc(most_leaves)
    if unsure == NULL or inside == NULL:
        free(unsure)
        free(inside)
        raise MemoryError("no memory to look at the columns of rules")
    n = 0
    for j in range(len(states)):
        tree = &(<TreeState>states[j]).t
        for node in range(tree.n_nodes):
            if (tree.nodes[node].left != NONE
                    and count_surely_valid(columns, tree.nodes[node].n) < columns.n_candidates):
                find_valid(&valid[n, 0], unsure, inside, tree, node, columns)
                for k in range(columns.n_candidates):
                    if not valid[n, columns.candidates[k]]:
                        n += 1
                        break
    free(unsure)
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
