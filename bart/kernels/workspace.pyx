"""Scratch of one chain: allocated once, grown geometrically, reused by every step."""

import numpy as np

from libc.math cimport log
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from bart.kernels.columns cimport Columns, Domain, code_at
from bart.kernels.memory cimport grow
from bart.kernels.nodeset cimport leaf_predicate
from bart.kernels.pool cimport pool_free
from bart.kernels.rowops cimport LANES, rowops
from bart.kernels.suffstat cimport forget_log_terms
from bart.kernels.tree cimport NONE, ROOT, Node, Tree
from bart.kernels.types cimport MUTANT, NO_MEMORY, OK, Predicate, put_at

# Of the sum of all weights to the least. A node's weight and sum are often its parent's less its sibling's: beyond,
# light rows drown in rounding. What rounding does to log L is some 1e-16 of sum(weights) leaf_var / sigma2, light rows
# or not.
MOST_WEIGHT_RATIO = 1e12


def check_weights(weights, n_rows, name="weights"):
    """Weights of the rows as a read-only float64 copy; ValueError naming the first bad one."""
    weights = np.array(weights, dtype=np.float64)
    if weights.shape != (n_rows,):
        raise ValueError(f"{name} must have shape ({n_rows},), got {weights.shape}")
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights > 0)))
    if len(bad):
        raise ValueError(f"{name}[{bad[0]}] = {weights[bad[0]]} is not positive and finite")
    least, most = int(weights.argmin()), int(weights.argmax())
    if not 1e-100 < weights[most] < 1e100:
        raise ValueError(f"the largest of {name} is {weights[most]}, out of proportion: take multiples of all")
    with np.errstate(over="ignore"):
        ratio = (weights / weights[least]).sum()
    if ratio > MOST_WEIGHT_RATIO:
        raise ValueError(f"{name}[{least}] = {weights[least]} is {ratio:.3g} times smaller than the sum of all, more "
                         f"than {MOST_WEIGHT_RATIO:g} times")
    weights.flags.writeable = False
    return weights


cdef void set_leaf_params(Work* work, double sigma2, double leaf_mean, double leaf_var) noexcept nogil:
    """The parameters of log L from now on; its table is kept where they are the same."""
    cdef LeafParams* leaf = &work.leaf
    if sigma2 != leaf.sigma2 or leaf_var != leaf.leaf_var:
        forget_log_terms(work.log_term, work.columns.n_rows)
    leaf.sigma2 = sigma2
    leaf.leaf_mean = leaf_mean
    leaf.leaf_var = leaf_var
    leaf.log_term = work.log_term


cdef int reserve_leaves(Work* work, int32_t n_leaves) noexcept nogil:
    """Room in the arrays by leaf number for n_leaves leaves (2 n_leaves nodes)."""
    cdef int64_t n = 2 * <int64_t>work.leaf_capacity, k
    if n_leaves <= work.leaf_capacity:
        return OK
    n = n if n > n_leaves else n_leaves
    if (grow(<void**>&work.leaf_sum, n, sizeof(double)) or grow(<void**>&work.leaf_weight, n, sizeof(double))
            or grow(<void**>&work.old_value, n, sizeof(double))
            or grow(<void**>&work.delta, n, sizeof(double)) or grow(<void**>&work.lanes, LANES * n, sizeof(double))
            or grow(<void**>&work.log_count, n, sizeof(double))
            or grow(<void**>&work.renumber, n, sizeof(uint32_t)) or grow(<void**>&work.order, 2 * n, sizeof(int32_t))
            or grow(<void**>&work.listed, 2 * n, sizeof(int32_t))
            or grow(<void**>&work.mapped, 2 * n, sizeof(int32_t))):
        return NO_MEMORY
    for k in range(n):
        work.log_count[k] = log(k)
    work.leaf_capacity = <int32_t>n
    return OK


cdef int reserve_particles(Work* work, int32_t n_particles) noexcept nogil:
    """Slots for n_particles particles in both generations."""
    cdef int32_t k
    if n_particles <= work.n_particles:
        return OK
    if (grow(<void**>&work.particles, n_particles, sizeof(Particle))
            or grow(<void**>&work.offspring, n_particles, sizeof(Particle))
            or grow(<void**>&work.log_weight, n_particles, sizeof(double))
            or grow(<void**>&work.weight, n_particles, sizeof(double))
            or grow(<void**>&work.ancestor, n_particles, sizeof(int32_t))
            or grow(<void**>&work.spare, n_particles, sizeof(int32_t))):
        return NO_MEMORY
    for k in range(work.n_particles, n_particles):
        memset(&work.particles[k], 0, sizeof(Particle))
        memset(&work.offspring[k], 0, sizeof(Particle))
    work.n_particles = n_particles
    return OK


cdef int reserve_queue(Particle* particle, int32_t n) noexcept nogil:
    """Room for n waiting nodes after those already behind `end`."""
    cdef int32_t capacity = 2 * (particle.end + n)
    if particle.end + n <= particle.capacity:
        return OK
    if grow(<void**>&particle.queue, capacity, sizeof(int32_t)) != OK:
        return NO_MEMORY
    particle.capacity = capacity
    return OK


cdef int reserve_target(Work* work) noexcept nogil:
    """Room for the target of a step."""
    if work.target == NULL:
        work.target = <double*>malloc(work.columns.n_rows * sizeof(double))
    return OK if work.target != NULL else NO_MEMORY


cdef void weigh_target(Work* work, Target* target) noexcept nogil:
    """What the sums of a step are made of."""
    target.weighted = target.base
    if work.weights != NULL:
        work.ops.multiply(work.weighted, work.weights, target.base, work.columns.n_rows)
        target.weighted = work.weighted


cdef void begin_step(Work* work, const Tree* tree, const Target* target) noexcept nogil:
    """Note the leaf values that the residual holds. Arrays for the tree's leaves must have been reserved."""
    cdef int32_t l
    for l in range(tree.n_leaves):
        work.old_value[l] = tree.nodes[tree.leaf_node[l]].value if target.is_residual else 0.0
    work.renumber_pending = False
    work.has_target = False


cdef void sum_leaves(Work* work, const Tree* tree, const Target* target) noexcept nogil:
    """leaf_sum = sums of the target by leaf: the residual's sum plus weight times leaf value, nothing un-subtracted."""
    cdef int64_t unused_n
    cdef double unused_s
    work.ops.leaf_sums(work.leaf_sum, work.lanes, tree.labels, tree.itemsize, tree.n_leaves, target.weighted,
                       tree.n_rows, 0, NULL, &unused_n, &unused_s)
    sum_weights(work, tree)
    add_old_values(work, tree)


cdef const double* sum_leaves_and_target(Work* work, const Tree* tree, const Target* target) noexcept nogil:
    """The same sums, and R_j row by row, eq. (residual), in one pass. Room for the target must have been reserved.

    Returns R_j, times the weights where there are any.
    """
    if not target.is_residual:
        sum_leaves(work, tree, target)
        return target.weighted
    if work.weights != NULL:
        sum_leaves(work, tree, target)
        work.ops.add_leaf_values(work.target, target.base, work.old_value, tree.n_leaves, tree.labels, tree.itemsize,
                                 tree.n_rows)
        work.ops.multiply(work.weighted, work.weights, work.target, tree.n_rows)
        work.has_target = True
        return work.weighted
    work.ops.leaf_sums_and_add(work.leaf_sum, work.lanes, work.target, work.old_value, tree.labels, tree.itemsize,
                               tree.n_leaves, target.base, tree.n_rows)
    sum_weights(work, tree)
    add_old_values(work, tree)
    work.has_target = True
    return work.target


cdef void sum_weights(Work* work, const Tree* tree) noexcept nogil:
    """leaf_weight = sums of the weights by leaf. Made anew in each step, so that weights may change between steps."""
    cdef int64_t unused_n
    cdef double unused_s
    cdef int32_t l
    if work.weights == NULL:
        for l in range(tree.n_leaves):
            work.leaf_weight[l] = tree.nodes[tree.leaf_node[l]].n
    else:
        work.ops.leaf_sums(work.leaf_weight, work.lanes, tree.labels, tree.itemsize, tree.n_leaves, work.weights,
                           tree.n_rows, 0, NULL, &unused_n, &unused_s)


cdef void add_old_values(Work* work, const Tree* tree) noexcept nogil:
    """From sums of the residual to sums of the target: weight times the leaf value that it holds."""
    cdef int32_t l
    for l in range(tree.n_leaves):
        work.leaf_sum[l] += work.leaf_weight[l] * work.old_value[l]


cdef void settle_labels(Tree* tree, Work* work) noexcept nogil:
    """Give the labels the numbers of the new tree, where a prune left them with the old ones."""
    cdef uint32_t label
    cdef Predicate old
    if work.renumber_pending:
        for label in range(<uint32_t>tree.n_leaves + 1):          # numbers only fall, to ones that have been dealt with
            if work.renumber[label] != label:
                old = leaf_predicate(tree.labels, tree.itemsize, label)
                work.ops.relabel(tree.labels, tree.itemsize, work.renumber[label], &old, 1, tree.n_rows)
        work.renumber_pending = False


cdef void pass_on(Tree* tree, Work* work, Target* target) noexcept nogil:
    """Between two kernels of one update: settle the labels, and let `target` be what the next kernel works on.

    That is the residual as long as each leaf has one old value, and R_j row by row from where a kernel formed it or
    joined leaves of two values. Room for the target must have been reserved.
    """
    cdef int32_t l
    if target.is_residual and (work.has_target or work.renumber_pending and not MUTANT(61)):
        if not work.has_target:
            work.ops.add_leaf_values(work.target, target.base, work.old_value, tree.n_leaves + 1, tree.labels,
                                     tree.itemsize, tree.n_rows)
            work.has_target = True
            if work.weights != NULL:
                work.ops.multiply(work.weighted, work.weights, work.target, tree.n_rows)
        target.base = work.target
        target.weighted = work.target if work.weights == NULL else work.weighted
        target.is_residual = False
    if not target.is_residual and not MUTANT(60):
        for l in range(tree.n_leaves):                      # a kernel may have made more leaves than there were
            work.old_value[l] = 0.0
    settle_labels(tree, work)


cdef void label_rows(Tree* tree, const Columns* columns) noexcept nogil:
    """The leaf number of every row, by a walk down the tree."""
    cdef int64_t row
    cdef int32_t i
    for row in range(tree.n_rows):
        i = ROOT
        while tree.nodes[i].left != NONE:
            i = tree.nodes[i].left + (code_at(columns, tree.nodes[i].dim, row) > tree.nodes[i].code)
        put_at(tree.labels, tree.itemsize, row, tree.nodes[i].leaf)


cdef int keep_nodes(Work* work, const Tree* tree) noexcept nogil:
    """Note the nodes before an update of several kernels, in case a later one fails."""
    if tree.n_nodes > work.kept_capacity:
        if grow(<void**>&work.kept_nodes, 2 * tree.n_nodes, sizeof(Node)) != OK:
            return NO_MEMORY
        work.kept_capacity = 2 * tree.n_nodes
    memcpy(work.kept_nodes, tree.nodes, tree.n_nodes * sizeof(Node))
    work.n_kept = tree.n_nodes
    return OK


cdef void restore_nodes(Tree* tree, Work* work) noexcept nogil:
    """The tree as `keep_nodes` found it; a tree's arrays never shrink, so that there is room."""
    cdef int32_t i
    memcpy(tree.nodes, work.kept_nodes, work.n_kept * sizeof(Node))
    tree.n_nodes = work.n_kept
    tree.n_leaves = (work.n_kept + 1) // 2
    for i in range(tree.n_nodes):
        if tree.nodes[i].left == NONE:
            tree.leaf_node[tree.nodes[i].leaf] = i
    work.renumber_pending = False
    label_rows(tree, work.columns)


cdef class Workspace:
    """Scratch for steps on trees over one Domain; one per chain."""

    def __cinit__(self, Domain domain):
        memset(&self.w, 0, sizeof(Work))
        self.domain = domain
        self.w.ops = rowops()
        self.w.columns = &domain.c
        self.w.leaf.sigma2 = -1.0
        self.w.log_term = <double*>malloc((domain.c.n_rows + 1) * sizeof(double))
        self.w.dims = <int32_t*>malloc(4 * max(domain.c.n_dims, 1) * sizeof(int32_t))
        self.w.share = <double*>malloc(max(domain.c.n_dims, 1) * sizeof(double))
        if (self.w.log_term == NULL or self.w.dims == NULL or self.w.share == NULL
                or reserve_leaves(&self.w, 16) != OK):
            raise MemoryError("no memory for the workspace of a chain")
        self.w.subset = self.w.dims + domain.c.n_dims
        self.w.shared_subset = self.w.subset + domain.c.n_dims
        self.w.missing = self.w.shared_subset + domain.c.n_dims
        self.w.most_weight = 1.0

    @property
    def weights(self):
        """(n_rows,) float64: the noise variance of row i is sigma2 / weights[i]; None: all 1. Set between steps."""
        return self.kept_weights

    @weights.setter
    def weights(self, weights):
        cdef const double[::1] given
        self.w.leaf.sigma2 = -1.0                       # no logarithm is kept
        self.w.looks.capacity = 0                       # they are made anew, with or without sums of weights
        if weights is None:
            self.w.weights, self.w.leaf.weighted, self.w.most_weight = NULL, False, 1.0
            self.w.pool.weights = NULL
            self.kept_weights = None
            return
        weights = check_weights(weights, self.w.columns.n_rows)
        given = weights
        if self.w.weighted == NULL:
            self.w.weighted = <double*>malloc(self.w.columns.n_rows * sizeof(double))
            if self.w.weighted == NULL:
                raise MemoryError("no memory for weights of the rows")
        self.kept_weights = weights
        self.w.weights, self.w.leaf.weighted, self.w.most_weight = &given[0], True, weights.max()
        self.w.pool.weights = self.w.weights

    def __dealloc__(self):
        cdef int32_t k
        for k in range(self.w.n_particles):
            free(self.w.particles[k].queue)
            free(self.w.offspring[k].queue)
        for array in (<size_t>self.w.log_term, <size_t>self.w.target, <size_t>self.w.weighted,
                      <size_t>self.w.leaf_sum, <size_t>self.w.leaf_weight, <size_t>self.w.old_value,
                      <size_t>self.w.delta, <size_t>self.w.lanes,
                      <size_t>self.w.log_count, <size_t>self.w.renumber, <size_t>self.w.order, <size_t>self.w.listed,
                      <size_t>self.w.mapped, <size_t>self.w.dims, <size_t>self.w.share, <size_t>self.w.looks.table,
                      <size_t>self.w.looks.look, <size_t>self.w.looks.sums, <size_t>self.w.looks.weight,
                      <size_t>self.w.looks.weight_sums,
                      <size_t>self.w.particles, <size_t>self.w.offspring, <size_t>self.w.log_weight,
                      <size_t>self.w.weight, <size_t>self.w.ancestor, <size_t>self.w.spare,
                      <size_t>self.w.kept_nodes, <size_t>self.w.claims, <size_t>self.w.cut_leaves):
            free(<void*><size_t>array)
        pool_free(&self.w.pool)
