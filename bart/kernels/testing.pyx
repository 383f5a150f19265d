"""For tests: many single steps in one call, and a generator that plays back given uniforms."""

from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from numpy.random cimport bitgen_t
from bart.kernels.columns cimport Domain, predicate_of
from bart.kernels.nodeset cimport NodeSet, node_can_split, node_range
from bart.kernels.pool cimport Pool, pool_free, pool_make_rows, pool_pair, pool_root, pool_set
from bart.kernels.resampling cimport draw_final, resample
from bart.kernels.rng cimport bitgen_of
from bart.kernels.plan cimport KernelPlan, Plan, run_kernel
from bart.kernels.plan import RESAMPLING
from bart.kernels.state cimport TreeState, check_status, draw_values
from bart.kernels.rowops cimport RowOps, rowops
from bart.kernels.suffstat cimport LeafParams, forget_log_terms, log_L
from bart.kernels.tree cimport ROOT, Tree
from bart.kernels.types cimport AT_MOST, OK, Predicate, Stat, StepInfo
from bart.kernels.workspace cimport Target, Work, set_leaf_params, settle_labels

import numpy as np

cdef struct Script:
    double* uniforms
    int64_t n
    int64_t used


cdef double next_double(void* state) noexcept nogil:
    """The next uniform; .5 past the end (n_used then exceeds their number)."""
    cdef Script* script = <Script*>state
    script.used += 1
    return script.uniforms[script.used - 1] if script.used <= script.n else 0.5


cdef uint64_t next_uint64(void* state) noexcept nogil:
    return <uint64_t>(next_double(state) * 18446744073709551616.0)


cdef uint32_t next_uint32(void* state) noexcept nogil:
    return <uint32_t>(next_double(state) * 4294967296.0)


cdef class ScriptedBitGenerator:
    """A bit generator that plays back uniforms in [0, 1); pass it as rng to a step.

    Parameters
    ----------
    uniforms : sequence of float
        next_double gives u, next_uint64 floor(u 2^64).
    """

    cdef bitgen_t bitgen
    cdef Script script
    cdef readonly object capsule

    def __cinit__(self, uniforms):
        cdef int64_t i
        self.script.n = len(uniforms)
        self.script.used = 0
        self.script.uniforms = <double*>malloc(max(self.script.n, 1) * sizeof(double))
        if self.script.uniforms == NULL:
            raise MemoryError("no memory for the uniforms")
        for i in range(self.script.n):
            if not 0.0 <= uniforms[i] < 1.0:
                raise ValueError(f"uniforms[{i}] = {uniforms[i]} is not in [0, 1)")
            self.script.uniforms[i] = uniforms[i]
        self.bitgen.state = &self.script
        self.bitgen.next_double = next_double
        self.bitgen.next_uint64 = next_uint64
        self.bitgen.next_uint32 = next_uint32
        self.bitgen.next_raw = next_uint64
        self.capsule = PyCapsule_New(&self.bitgen, "BitGenerator", NULL)

    def __dealloc__(self):
        free(self.script.uniforms)

    @property
    def bit_generator(self):
        return self

    @property
    def generator(self):
        """What to pass as rng."""
        return self

    @property
    def n_used(self):
        """Uniforms consumed so far."""
        return self.script.used


def replicate(sampler, TreeState state, structure, const double[::1] target, params, rng, int64_t n):
    """n independent steps of a sampler from one structure: dict key() -> count."""
    cdef TreeState start = TreeState(state.domain, structure=structure, workspace=state.workspace)
    cdef KernelPlan plan = sampler.plan()
    cdef bitgen_t* bits = bitgen_of(rng)
    cdef Target given
    cdef StepInfo info
    cdef int64_t i
    cdef int status
    counts = {}
    if plan.needs_bins:
        state.domain.make_bins()
    given.base = &target[0]
    given.is_residual = False
    set_leaf_params(&state.workspace.w, params.sigma2 / params.temperature, params.leaf_mean, params.leaf_var)
    for i in range(n):
        state.copy_from(start)
        status = run_kernel(&state.t, &state.workspace.w, &info, &given, &plan.p, bits)
        settle_labels(&state.t, &state.workspace.w)
        check_status(status)
        key = state.key()
        counts[key] = counts.get(key, 0) + 1
    return counts


def trace_steps(sampler, TreeState state, const double[::1] target, params, rng, int64_t n):
    """n steps of a chain over one tree's structure, leaf values drawn after each.

    Parameters
    ----------
    sampler : TreeSampler
        With a compiled plan.
    state : TreeState
        Where the chain starts, and is afterwards.
    target : (N,) float64
    params : StepParams
    rng : generator
    n : int

    Returns
    -------
    n_leaves, root_dim : (n,) int32
        root_dim is -1 where the root is a leaf.
    root_code : (n,) uint32
    f : (n, N) float64
        Leaf values at the rows.
    """
    cdef KernelPlan plan = sampler.plan()
    cdef bitgen_t* bits = bitgen_of(rng)
    cdef int64_t i, n_rows = state.t.n_rows
    cdef int status = OK
    if target.shape[0] != n_rows:
        raise ValueError(f"target must have shape ({n_rows},), got ({target.shape[0]},)")
    if plan.needs_bins:
        state.domain.make_bins()
    n_leaves, root_dim = np.empty(n, np.int32), np.empty(n, np.int32)
    root_code, f = np.empty(n, np.uint32), np.empty((n, n_rows))
    cdef int32_t[::1] leaves = n_leaves, dims = root_dim
    cdef uint32_t[::1] codes = root_code
    cdef double[:, ::1] fits = f
    cdef const double[::1] zero = np.zeros(n_rows)
    set_leaf_params(&state.workspace.w, params.sigma2 / params.temperature, params.leaf_mean, params.leaf_var)
    with nogil:
        for i in range(n):
            status = chain_step(&state.t, &state.workspace.w, &plan.p, &target[0], &zero[0], &fits[i, 0], bits)
            if status != OK:
                break
            leaves[i] = state.t.n_leaves
            dims[i] = state.t.nodes[ROOT].dim
            codes[i] = state.t.nodes[ROOT].code
    check_status(status)
    return n_leaves, root_dim, root_code, f


cdef int chain_step(Tree* tree, Work* work, const Plan* plan, const double* target, const double* zero, double* f,
                    bitgen_t* rng) noexcept nogil:
    """One structure step and its leaf values; f = leaf values at the rows."""
    cdef Target given
    cdef StepInfo info
    cdef int32_t l
    cdef int status
    given.base = target
    given.is_residual = False
    status = run_kernel(tree, work, &info, &given, plan, rng)
    settle_labels(tree, work)
    if status != OK:
        return status
    draw_values(tree, work, rng)
    for l in range(tree.n_leaves):
        work.delta[l] = tree.nodes[tree.leaf_node[l]].value
    work.ops.add_leaf_values(f, zero, work.delta, tree.n_leaves, tree.labels, tree.itemsize, tree.n_rows)
    return OK


def ancestors(weights, scheme, rng, int64_t repeats=1):
    """Conditional resamplings: (repeats, C) ancestors, the clamped particle in slot 0."""
    cdef double[::1] w = np.array(weights, dtype=np.float64)
    cdef int32_t n = w.shape[0]
    cdef int scheme_id = RESAMPLING.index(scheme)
    cdef bitgen_t* bits = bitgen_of(rng)
    cdef int64_t i
    out, spare = np.empty((repeats, n), dtype=np.int32), np.empty(n, dtype=np.int32)
    cdef int32_t[:, ::1] a = out
    cdef int32_t[::1] b = spare
    for i in range(repeats):
        resample(&a[i, 0], &b[0], &w[0], n, scheme_id, True, bits)
    return out


def final_index(weights, bint forced, rng, int64_t repeats=1):
    """Draws of the final index, (repeats,)."""
    cdef double[::1] w = np.array(weights, dtype=np.float64)
    cdef bitgen_t* bits = bitgen_of(rng)
    cdef int64_t i
    out = np.empty(repeats, dtype=np.int32)
    cdef int32_t[::1] drawn = out
    for i in range(repeats):
        drawn[i] = draw_final(&w[0], w.shape[0], forced, bits)
    return out


def tabulated_log_L(double sigma2, double leaf_mean, double leaf_var, const int64_t[::1] n, const double[::1] s,
                    const double[::1] w=None):
    """log L of nodes with counts n and target sums s, through the table; with weights w, without it."""
    from_counts = np.empty(n.shape[0])
    cdef double[::1] table = np.empty(max(n) + 1), out = from_counts
    cdef LeafParams leaf
    cdef Stat stat
    cdef int64_t i
    forget_log_terms(&table[0], table.shape[0] - 1)
    leaf.sigma2, leaf.leaf_mean, leaf.leaf_var, leaf.log_term = sigma2, leaf_mean, leaf_var, &table[0]
    leaf.weighted = w is not None
    for i in range(n.shape[0]):
        stat.n, stat.w, stat.s = n[i], n[i] if w is None else w[i], s[i]
        out[i] = log_L(&stat, &leaf)
    return from_counts


def node_questions(Domain domain, path, int dim, uint32_t code, const double[::1] target, bint as_rows):
    """What a node says of itself, in the form asked for.

    Parameters
    ----------
    path : list of (dim, code, side)
    dim, code : the rule tried at the node
    as_rows : ROWS form instead of PREDICATES

    Returns
    -------
    dict with n_left and s_left of the rule, ranges ((low, high, valid) of each column) and can_split
    """
    cdef RowOps* ops = rowops()
    cdef Pool pool
    cdef NodeSet rows
    cdef LeafParams leaf
    cdef Stat stat
    cdef Predicate rule
    cdef int32_t node = 0
    cdef uint32_t low, high
    cdef int64_t n_left
    cdef double s_left
    cdef double[::1] table = np.zeros(domain.c.n_rows + 1)
    memset(&pool, 0, sizeof(Pool))
    memset(&leaf, 0, sizeof(LeafParams))
    leaf.log_term = &table[0]
    leaf.sigma2 = 1.0
    stat.n = stat.w = domain.c.n_rows
    stat.s = 0.0
    check_status(pool_root(&pool, stat, &leaf, 2 * len(path), 0))
    for at, cut, side in path:
        node = pool_pair(&pool, node, at, cut)
        pool_set(&rows, &pool, node, &domain.c)
        ops.masked_sum(&n_left, &s_left, rows.where, rows.n_where, NULL, domain.c.n_rows)
        pool.nodes[node].stat.n = n_left
        pool.nodes[node + 1].stat.n = pool.nodes[pool.nodes[node].parent].stat.n - n_left
        node += side
    if as_rows:
        check_status(pool_make_rows(&pool, node, &domain.c, ops))
    pool_set(&rows, &pool, node, &domain.c)
    rule = predicate_of(&domain.c, dim, code, AT_MOST)
    if as_rows:
        left, right = np.empty(rows.n + 1, np.uint32), np.empty(rows.n + 1, np.uint32)
        n_left = ops.partition(<uint32_t*><size_t>left.ctypes.data, <uint32_t*><size_t>right.ctypes.data, &s_left,
                               rows.rows, rows.n, &rule, &target[0])
    else:
        rows.where[rows.n_where] = rule
        ops.masked_sum(&n_left, &s_left, rows.where, rows.n_where + 1, &target[0], domain.c.n_rows)
    ranges = []
    for at in range(domain.c.n_dims):
        valid = node_range(&low, &high, &rows, &domain.c, at, ops)
        ranges.append((low, high, valid))
    found = {"n": rows.n, "n_left": n_left, "s_left": s_left, "ranges": ranges,
             "can_split": node_can_split(&rows, &domain.c, ops)}
    pool_free(&pool)
    return found
