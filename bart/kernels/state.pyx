"""A tree bound to its data, and one step of it."""

import numpy as np

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy
from numpy.random cimport bitgen_t
from bart.kernels.columns cimport Domain
from bart.kernels.plan cimport KernelPlan, run_kernel
from bart.kernels.rng cimport bitgen_of, normal
from bart.kernels.starts cimport draw_from_prior, grow_leaf, has_rule, overgrow
from bart.kernels.suffstat cimport leaf_posterior_mean, leaf_posterior_sd
from bart.kernels.tree cimport (NONE, ROOT, Node, Tree, breadth_first, labels_reserve, tree_copy,
                                tree_depth, tree_free, tree_init, tree_reserve)
from bart.kernels.types cimport CANCELLED, NO_MEMORY, OK, TOO_MANY_STAGES, Stat, StepInfo
from bart.kernels.workspace cimport (Target, Work, Workspace, begin_step, label_rows, reserve_leaves, reserve_target,
                                     set_leaf_params, settle_labels, sum_leaves, weigh_target)

from bart.kernels.particles import take_raised
from bart.kernels.plan import MOVES

DUMP_DTYPE = np.dtype([("parent", "i4"), ("left", "i4"), ("depth", "i4"), ("dim", "i4"), ("code", "u4"), ("leaf", "i4"),
                       ("n", "i8"), ("can_split", "i1"), ("staged", "i1"), ("log_rule", "f8"), ("value", "f8")])

cdef void draw_values(Tree* tree, Work* work, bitgen_t* rng) noexcept nogil:
    """Leaf values from their posterior, by leaf number; leaf_sum holds the target's sums."""
    cdef int32_t l
    cdef Node* p
    cdef Stat stat
    for l in range(tree.n_leaves):
        p = &tree.nodes[tree.leaf_node[l]]
        stat.n, stat.w, stat.s = p.n, work.leaf_weight[l], work.leaf_sum[l]
        p.value = leaf_posterior_mean(&stat, &work.leaf) + leaf_posterior_sd(&stat, &work.leaf) * normal(rng)


cdef int check_status(int status) except -1:
    """Raise what a kernel's status stands for; tree, residual and statistics are as before the step."""
    if status == NO_MEMORY:
        raise MemoryError("no memory to update a tree; its state is as before the step")
    if status == TOO_MANY_STAGES:
        raise RuntimeError("particle Gibbs reached max_stages before all particles were finished")
    if status == CANCELLED:
        raise take_raised()
    if status != OK:
        raise RuntimeError(f"status {status} of a kernel")
    return 0


cdef class TreeState:
    """One tree bound to the codes of a data set and a tree prior: what a sampler's `step` changes.

    Parameters
    ----------
    codes : bart.data.RankCodes, or a Domain already made from it
    prior : bart.priors.TreePrior, omitted with a Domain
    structure : nested tuples, optional
        None for a leaf, (dim, code, left, right) for an internal node; rows with codes <= code go left. Default: a
        stump.
    workspace : Workspace, optional
        Scratch shared with other trees of the same chain.
    weights : (N,) float64, optional
        The noise variance of row n is sigma2 / weights[n], for all trees of the workspace. Default: the workspace's.
    """

    def __cinit__(self, codes, prior=None, structure=None, Workspace workspace=None, weights=None):
        self.domain = codes if isinstance(codes, Domain) else Domain(codes, prior)
        self.workspace = Workspace(self.domain) if workspace is None else workspace
        if self.workspace.domain is not self.domain:
            raise ValueError("workspace belongs to another Domain")
        if weights is not None:
            self.workspace.weights = weights
        if tree_init(&self.t, self.domain.c.n_rows) != OK:
            raise MemoryError("no memory for a tree")
        if structure is not None:
            self.structure = structure

    def __dealloc__(self):
        tree_free(&self.t)

    # ------------------------------------------------------------------------------------------------ structure

    @property
    def structure(self):
        """The tree's rules as nested tuples: None at a leaf, (dim, code, left, right) elsewhere."""
        made = [None] * self.t.n_nodes
        order = self._order()
        for node in reversed(order):
            left = self.t.nodes[node].left
            if left != NONE:
                made[node] = (self.t.nodes[node].dim, self.t.nodes[node].code, made[left], made[left + 1])
        return made[0]

    @structure.setter
    def structure(self, structure):
        cdef Tree made
        cdef int32_t node, dim
        check_status(tree_init(&made, self.t.n_rows))
        try:
            waiting = [(ROOT, structure)]
            while waiting:
                node, rule = waiting.pop(0)
                if rule is None:
                    continue
                dim, code, left, right = rule
                if not 0 <= dim < self.domain.c.n_dims or not 0 <= code < self.domain.c.last_code[dim]:
                    raise ValueError(f"structure: rule ({dim}, {code}) is no gap of the training columns")
                if not has_rule(&made, &self.workspace.w, node, dim, code):
                    raise ValueError(f"structure: rule ({dim}, {code}) has prior probability 0 there, as one that "
                                     "leaves a side without rows")
                check_status(grow_leaf(&made, &self.workspace.w, node, dim, code))
                waiting.append((made.nodes[node].left, left))
                waiting.append((made.nodes[node].left + 1, right))
            self._take(&made)
        finally:
            tree_free(&made)

    cdef _take(self, Tree* made):
        """Exchange the tree for another over the same rows."""
        cdef Tree old = self.t
        self.bind(None, None)
        self.t = made[0]
        made[0] = old

    def _order(self):
        cdef int32_t n
        check_status(reserve_leaves(&self.workspace.w, self.t.n_leaves))
        n = breadth_first(&self.t, ROOT, self.workspace.w.order)
        return [self.workspace.w.order[i] for i in range(n)]

    def key(self):
        """The structure as bytes, equal for equal trees: (dim, code) of each node breadth first, -1 at leaves."""
        cdef int32_t i, n
        check_status(reserve_leaves(&self.workspace.w, self.t.n_leaves))
        n = breadth_first(&self.t, ROOT, self.workspace.w.order)
        out = np.empty((n, 2), dtype=np.int64)
        cdef int64_t[:, ::1] view = out
        for i in range(n):
            view[i, 0] = self.t.nodes[self.workspace.w.order[i]].dim
            view[i, 1] = self.t.nodes[self.workspace.w.order[i]].code
        return out.tobytes()

    @property
    def n_leaves(self):
        return self.t.n_leaves

    @property
    def depth(self):
        """Depth of the deepest leaf; 0 for a stump."""
        return tree_depth(&self.t)

    @property
    def leaf_of_row(self):
        """(N,) int64: leaf number of each training row."""
        dtype = {1: np.uint8, 2: np.uint16, 4: np.uint32}[self.t.itemsize]
        out = np.empty(self.t.n_rows, dtype=dtype)
        memcpy(<void*><size_t>out.ctypes.data, self.t.labels, self.t.n_rows * self.t.itemsize)
        return out.astype(np.int64)

    @property
    def leaf_values(self):
        """(n_leaves,) float64: leaf values by leaf number."""
        return np.array([self.t.nodes[self.t.leaf_node[l]].value for l in range(self.t.n_leaves)])

    @leaf_values.setter
    def leaf_values(self, values):
        self.bind(None, None)
        values = np.asarray(values, dtype=np.float64)
        if values.shape != (self.t.n_leaves,):
            raise ValueError(f"leaf_values must have shape ({self.t.n_leaves},), got {values.shape}")
        for l in range(self.t.n_leaves):
            self.t.nodes[self.t.leaf_node[l]].value = values[l]

    def leaf_counts(self):
        """(n_leaves,) int64: training rows by leaf number."""
        return np.array([self.t.nodes[self.t.leaf_node[l]].n for l in range(self.t.n_leaves)], dtype=np.int64)

    def fit(self):
        """(N,) float64: the tree's leaf value at each training row."""
        return self.leaf_values[self.leaf_of_row]

    # ---------------------------------------------------------------------------------------------------- updates

    @property
    def weights(self):
        """(N,) float64 or None: the noise variance of row n is sigma2 / weights[n], None: sigma2; may be set."""
        return self.workspace.weights

    @weights.setter
    def weights(self, weights):
        self.workspace.weights = weights

    cdef bitgen_t* _ready(self, params, rng) except NULL:
        set_leaf_params(&self.workspace.w, params.sigma2 / params.temperature, params.leaf_mean, params.leaf_var)
        return bitgen_of(rng)

    def bind(self, target, residual):
        """Let the next steps on this very target array work on the residual of all trees, as a compiled sweep does."""
        self.bound, self.bound_residual, self.kept = target, residual, None

    def step(self, KernelPlan plan, target, params, rng):
        """One structure update given a target; see TreeSampler.step. Returns (move, changed, root_changed, ...)."""
        cdef Target given
        cdef StepInfo info
        cdef Work* work = &self.workspace.w
        cdef int status
        cdef bitgen_t* bits = self._ready(params, rng)
        cdef const double[::1] base = target
        cdef bint bound = target is self.bound
        if plan.needs_bins:
            self.domain.make_bins()
        residual, kept = self.bound_residual, self.kept
        if base.shape[0] != self.t.n_rows:
            raise ValueError(f"target must have shape ({self.t.n_rows},), got ({base.shape[0]},)")
        given.is_residual = bound and (kept is None or kept[2])
        if given.is_residual:
            base = residual
            check_status(reserve_target(work))
        if not bound:
            work.sweep_top = 0.0
        self.bind(None, None)                           # leaf values no longer match what was subtracted
        given.base = &base[0]
        with nogil:
            status = run_kernel(&self.t, work, &info, &given, &plan.p, bits)
            if status == OK and bound:
                self._keep_old_values(given.is_residual)
            settle_labels(&self.t, work)
        if status == CANCELLED:
            work.cancel = 0
        check_status(status)
        if bound:
            self.bound, self.bound_residual = target, residual
            sums = np.array([(work.leaf_sum[l], work.leaf_weight[l]) for l in range(self.t.n_leaves)])
            self.kept = (sums, bool(work.has_target) or not given.is_residual, self.on_residual)
        return (MOVES[info.move], bool(info.changed), bool(info.root_changed), info.log_ratio, self.t.n_leaves,
                info.n_stages, info.row_visits)

    cdef void _keep_old_values(self, bint is_residual) noexcept nogil:
        """After a step on a bound target: what `pass_on` does between two kernels of one update, for a next step.

        The stale leaf values become those that the residual holds, from which that step begins.
        """
        cdef Work* work = &self.workspace.w
        cdef int32_t l
        self.on_residual = is_residual and not work.has_target and not work.renumber_pending
        if self.on_residual:
            for l in range(self.t.n_leaves):
                self.t.nodes[self.t.leaf_node[l]].value = work.old_value[l]

    def draw_kept_values(self, params, rng):
        """Leaf values from the sums of steps on a bound target. Returns whether these formed the target, or None, and
        nothing drawn, where the last step was on another target."""
        cdef bitgen_t* bits
        cdef int32_t l
        if self.kept is None:
            return None
        sums, formed, _ = self.kept
        self.kept = None
        if len(sums) != self.t.n_leaves:
            return None
        bits = self._ready(params, rng)
        for l in range(self.t.n_leaves):
            self.workspace.w.leaf_sum[l], self.workspace.w.leaf_weight[l] = sums[l]
        draw_values(&self.t, &self.workspace.w, bits)
        return formed

    def draw_leaf_values(self, const double[::1] target, params, rng):
        """Leaf values from their posterior given the structure and a target."""
        cdef Target given
        cdef bitgen_t* bits = self._ready(params, rng)
        if target.shape[0] != self.t.n_rows:
            raise ValueError(f"target must have shape ({self.t.n_rows},), got ({target.shape[0]},)")
        check_status(reserve_leaves(&self.workspace.w, self.t.n_leaves))
        self.bind(None, None)
        given.base = &target[0]
        given.is_residual = False
        with nogil:
            begin_step(&self.workspace.w, &self.t, &given)
            weigh_target(&self.workspace.w, &given)
            sum_leaves(&self.workspace.w, &self.t, &given)
            draw_values(&self.t, &self.workspace.w, bits)

    def draw_from_prior(self, rng):
        """Replace the structure by a draw from the tree prior."""
        self._draw(0, rng)

    def overgrow(self, int n_leaves, rng):
        """Replace the structure by random splits until it has n_leaves leaves, or no leaf can be split."""
        self._draw(n_leaves, rng)

    def _draw(self, int n_leaves, rng):
        cdef Tree made
        cdef bitgen_t* bits = bitgen_of(rng)
        cdef int status
        check_status(tree_init(&made, self.t.n_rows))
        with nogil:
            if n_leaves > 0:
                status = overgrow(&made, &self.workspace.w, n_leaves, bits)
            else:
                status = draw_from_prior(&made, &self.workspace.w, bits)
        if status == OK:
            self._take(&made)
        tree_free(&made)
        check_status(status)

    # ------------------------------------------------------------------------------------------------- checkpoints

    def dump(self):
        """The nodes as a structured array, from which `restore` makes the same tree, bit for bit."""
        out = np.empty(self.t.n_nodes, dtype=DUMP_DTYPE)
        for i in range(self.t.n_nodes):
            p = self.t.nodes[i]
            out[i] = (p.parent, p.left, p.depth, p.dim, p.code, p.leaf, p.n, p.can_split, p.staged, p.log_rule,
                      p.value)
        return out

    def restore(self, nodes):
        """Take back what `dump` gave; leaf numbers, node order and caches included."""
        cdef int32_t i, n = len(nodes), n_leaves = (len(nodes) + 1) // 2
        cdef Node* p
        self.bind(None, None)
        check_status(tree_reserve(&self.t, n))
        check_status(labels_reserve(&self.t, n_leaves))
        check_status(reserve_leaves(&self.workspace.w, n_leaves + 1))
        for i in range(n):
            p = &self.t.nodes[i]
            (p.parent, p.left, p.depth, p.dim, p.code, p.leaf, p.n, p.can_split, p.staged, p.log_rule,
             p.value) = nodes[i].item()
            if p.left == NONE:
                self.t.leaf_node[p.leaf] = i
        self.t.n_nodes = n
        self.t.n_leaves = n_leaves
        with nogil:
            label_rows(&self.t, &self.domain.c)

    def copy_from(self, TreeState other):
        """Take over another state's tree (same data)."""
        self.bind(None, None)
        if other.t.n_rows != self.t.n_rows:
            raise ValueError("the other state is bound to different data")
        check_status(reserve_leaves(&self.workspace.w, other.t.n_leaves + 1))
        check_status(tree_copy(&self.t, &other.t))
