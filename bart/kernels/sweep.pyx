"""Algorithm 1 without the interpreter: sigma2, then every tree's structure and leaf values."""

import numpy as np

from libc.math cimport M_PI, log, sqrt
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc
from numpy.random cimport bitgen_t
from bart.kernels.columns cimport Domain
from bart.kernels.forest cimport ForestStore, Thresholds, store_forest
from bart.kernels.plan cimport KernelPlan, Plan, run_kernel, update_cost
from bart.kernels.rng cimport below, bitgen_of, gamma
from bart.kernels.rowops cimport RowOps
from bart.kernels.state cimport TreeState, check_status, draw_values
from bart.kernels.team cimport TEAM_ROWS, Team, team_rowops
from bart.kernels.tree cimport Tree, tree_depth
from bart.kernels.types cimport CANCELLED, MUTANT, OK, StepInfo
from bart.kernels.workspace cimport (Target, Work, Workspace, reserve_leaves, reserve_target, set_leaf_params,
                                     settle_labels)

cdef enum:
    REFRESH = 100           # sweeps, by absolute index, between two sums of the residual from the trees

TRACES = ("log_likelihood", "sigma", "n_leaves", "depth", "tree_changed", "root_changed", "row_visits")


cdef class EnsembleKernel:
    """The state of one chain: m trees over shared codes, the residual of ALL trees, and sigma2; scaled units.

    Parameters
    ----------
    domain : Domain
    y : (N,) float64
        Scaled targets; copied.
    n_trees : int
    noise : (shape, rate) or None
        sigma2 ~ InvGamma(shape, rate) a priori; None keeps it fixed.
    leaf_mean, leaf_var : float
    random_order : bool
        Trees in a fresh random order in each sweep.
    y_range : float
        Units of y per scaled unit, for the traces.
    weights : (N,) float64, optional
        The noise variance of row n is sigma2 / weights[n]; may be set between sweeps. None: all 1.
    """

    cdef readonly Domain domain
    cdef readonly Workspace workspace
    cdef readonly list states
    cdef readonly object residual
    cdef readonly object y          # a copy: changes of the residual from outside are booked here
    cdef Tree** trees
    cdef int32_t* order             # of the trees in this sweep
    cdef double* r
    cdef const double* y_scaled
    cdef int64_t n_rows
    cdef int32_t n_trees
    cdef bint random_order
    cdef bint fixed_noise
    cdef public double shape, rate, leaf_mean, leaf_var, y_range, temperature, sigma2
    cdef public int64_t n_sweeps    # completed
    cdef public double sweep_top    # ample for targets of the sweep under way; a function of y alone
    cdef public int32_t n_threads   # that share the rows of a sweep; no result depends on it
    cdef public int32_t position    # trees updated in the sweep under way; 0 between sweeps
    cdef public int64_t n_changed, n_root_changed, row_visits       # of the sweep under way
    cdef Thresholds thresholds
    cdef double half_log_weights    # 1/2 sum of log weights
    cdef object old_fit             # of the tree whose target was given out
    cdef object _keep

    def __cinit__(self, Domain domain, y, int n_trees, noise, double sigma2, double leaf_mean, double leaf_var,
                  bint random_order=False, double y_range=1.0, weights=None):
        cdef int32_t j
        self.domain = domain
        self.workspace = Workspace(domain)
        self.n_rows = domain.c.n_rows
        self.n_trees = n_trees
        self.y = np.array(y, dtype=np.float64)
        self.residual = np.array(self.y)
        cdef double[::1] r = self.residual
        cdef double[::1] y_view = self.y
        self.r = &r[0]
        self.y_scaled = &y_view[0]
        self.states = [TreeState(domain, workspace=self.workspace) for _ in range(n_trees)]
        self.trees = <Tree**>malloc(n_trees * sizeof(Tree*))
        self.order = <int32_t*>malloc(n_trees * sizeof(int32_t))
        if self.trees == NULL or self.order == NULL:
            raise MemoryError("no memory for the trees of an ensemble")
        for j in range(n_trees):
            self.trees[j] = &(<TreeState>self.states[j]).t
            self.order[j] = j
        self.fixed_noise = noise is None
        self.shape, self.rate = (0.0, 0.0) if noise is None else noise
        self.sigma2, self.leaf_mean, self.leaf_var = sigma2, leaf_mean, leaf_var
        self.random_order, self.y_range, self.temperature, self.n_threads = random_order, y_range, 1.0, 1
        check_status(reserve_target(&self.workspace.w))
        self.weights = weights
        self._bind_thresholds()

    def __dealloc__(self):
        free(self.trees)
        free(self.order)

    def _bind_thresholds(self):
        prior = self.domain.prior
        values = [np.ascontiguousarray(v, dtype=np.float64) for v in self.domain.codes.values]
        pointers = np.array([v.ctypes.data for v in values], dtype=np.uintp)
        self._keep = [values, pointers]
        self.thresholds.values = <const double* const*><size_t>pointers.ctypes.data
        self.thresholds.midpoint = prior.threshold == "midpoint"
        self.thresholds.grid = NULL
        if prior.cuts != "width":
            grid = [np.ascontiguousarray(prior.grid(v), dtype=np.float64) for v in values]
            grid_pointers = np.array([g.ctypes.data for g in grid], dtype=np.uintp)
            sizes = np.array([len(g) for g in grid], dtype=np.int64)
            self._keep += [grid, grid_pointers, sizes]
            self.thresholds.grid = <const double* const*><size_t>grid_pointers.ctypes.data
            self.thresholds.n_grid = <const int64_t*><size_t>sizes.ctypes.data

    @property
    def weights(self):
        return self.workspace.weights

    @weights.setter
    def weights(self, weights):
        self.workspace.weights = weights
        self.half_log_weights = 0.0 if weights is None else 0.5 * np.log(self.workspace.weights).sum()

    # ------------------------------------------------------------------------------------------- one tree, one sweep

    cdef double sum_of_squares(self) noexcept nogil:
        """SSR = sum of w r^2 of the residual."""
        cdef Work* work = &self.workspace.w
        if work.weights == NULL or MUTANT(72):
            return work.ops.sum_squares(self.r, self.n_rows)
        work.ops.multiply(work.weighted, work.weights, self.r, self.n_rows)
        return work.ops.sum_products(work.weighted, self.r, self.n_rows)

    cdef int update_tree(self, int32_t j, StepInfo* info, const Plan* plan, bitgen_t* rng) noexcept nogil:
        """Structure given R_j with leaf values integrated out, then leaf values, then the residual of all trees."""
        cdef Work* work = &self.workspace.w
        cdef Tree* tree = self.trees[j]
        cdef Target target
        cdef int status
        target.base = self.r
        target.is_residual = True
        work.sweep_top = self.sweep_top
        status = run_kernel(tree, work, info, &target, plan, rng)
        if status != OK:
            return status
        draw_values(tree, work, rng)
        self.renew_residual(tree)
        return OK

    cdef void renew_residual(self, Tree* tree) noexcept nogil:
        """residual = target - new leaf values, or residual + old - new values where no target was formed."""
        cdef Work* work = &self.workspace.w
        cdef int32_t l, label
        cdef int32_t n_labels = tree.n_leaves + (1 if work.renumber_pending else 0)
        for label in range(n_labels):
            l = work.renumber[label] if work.renumber_pending else label
            work.delta[label] = -tree.nodes[tree.leaf_node[l]].value
            if not work.has_target:
                work.delta[label] += work.old_value[label]
        work.ops.add_leaf_values(self.r, work.target if work.has_target else self.r, work.delta, n_labels, tree.labels,
                                 tree.itemsize, self.n_rows)
        settle_labels(tree, work)

    cdef void begin(self, bitgen_t* rng) noexcept nogil:
        """sigma2 ~ InvGamma(shape + t N / 2, rate + t SSR / 2), and the order of the trees."""
        cdef double ssr
        cdef int32_t i, k, swapped
        if not self.fixed_noise:
            ssr = self.sum_of_squares()
            self.sigma2 = ((self.rate + 0.5 * self.temperature * ssr)
                           / gamma(self.shape + 0.5 * self.temperature * self.n_rows, rng))
        self.n_changed = 0
        self.n_root_changed = 0
        self.row_visits = 0
        # From y, not the residual: what depends on the tree to be redrawn must have no say in its proposals.
        self.sweep_top = (4.0 * self.workspace.w.ops.largest(self.r if MUTANT(28) else self.y_scaled, self.n_rows)
                          * self.workspace.w.most_weight)
        if self.random_order:
            for i in range(self.n_trees - 1, 0, -1):
                k = <int32_t>below(i + 1, rng)
                swapped = self.order[i]
                self.order[i] = self.order[k]
                self.order[k] = swapped

    cdef void end(self, double* trace) noexcept nogil:
        """Traces of a sweep, in the units of y; the log-likelihood with the sigma drawn at its start."""
        cdef double ssr
        cdef int32_t j, depth = 0
        cdef int64_t n_leaves = 0
        self.position = 0
        self.n_sweeps = self.n_sweeps + 1           # not +=: the debug build allows no such update without the lock
        if self.n_sweeps % REFRESH == 0:
            self.refresh()
        ssr = self.sum_of_squares()
        for j in range(self.n_trees):
            n_leaves += self.trees[j].n_leaves
            depth = max(depth, tree_depth(self.trees[j]))
        trace[0] = (-0.5 * self.n_rows * log(2.0 * M_PI * self.sigma2) - 0.5 * ssr / self.sigma2
                    - self.n_rows * log(self.y_range) + self.half_log_weights)
        trace[1] = sqrt(self.sigma2) * self.y_range
        trace[2] = n_leaves
        trace[3] = depth
        trace[4] = <double>self.n_changed / self.n_trees
        trace[5] = <double>self.n_root_changed / self.n_trees
        trace[6] = self.row_visits

    cdef void refresh(self) noexcept nogil:
        """residual = y - sum of all trees, so that rounding does not pile up."""
        cdef Work* work = &self.workspace.w
        cdef int32_t j, l
        cdef Tree* tree
        for j in range(self.n_trees):
            tree = self.trees[j]
            for l in range(tree.n_leaves):
                work.delta[l] = -tree.nodes[tree.leaf_node[l]].value
            work.ops.add_leaf_values(self.r, self.y_scaled if j == 0 else self.r, work.delta, tree.n_leaves,
                                     tree.labels, tree.itemsize, self.n_rows)

    def set_residual(self):
        """Recompute the residual from y and the trees, after trees or leaf values were set from outside."""
        cdef int32_t j
        for j in range(self.n_trees):
            check_status(reserve_leaves(&self.workspace.w, self.trees[j].n_leaves + 1))
        self.refresh()

    def set_leaf_values(self, const double[::1] values):
        """Leaf values of all trees, tree after tree by leaf number, and the residual that follows from them."""
        cdef int32_t j, l
        cdef int64_t k = 0
        cdef Tree* tree
        if values.shape[0] != sum([state.n_leaves for state in self.states]):
            raise ValueError(f"values must hold one for each leaf, got {values.shape[0]}")
        for j in range(self.n_trees):
            check_status(reserve_leaves(&self.workspace.w, self.trees[j].n_leaves + 1))
        for j in range(self.n_trees):
            tree = self.trees[j]
            for l in range(tree.n_leaves):
                tree.nodes[tree.leaf_node[l]].value = values[k]
                k += 1
        self.refresh()

    def shift_levels(self, const double[::1] z):
        """Add c_j to all leaf values of tree j, where the c_j sum to 0: f and the residual stay.

        The posterior of c given all else is the prior of the leaf values restricted to the shifts, whatever the data:
        c_j ~ N(sum over leaves of (leaf_mean - mu) / K_j, leaf_var / K_j) for K_j leaves, given sum c_j = 0.

        Parameters
        ----------
        z : (n_trees,) float64
            Standard normal numbers.
        """
        cdef int32_t j, l
        cdef Tree* tree
        cdef double total = 0.0, inverse_leaves = 0.0
        cdef double[::1] c = np.empty(self.n_trees)
        if z.shape[0] != self.n_trees:
            raise ValueError(f"z must have shape ({self.n_trees},), got ({z.shape[0]},)")
        for j in range(self.n_trees):
            tree = self.trees[j]
            c[j] = 0.0
            for l in range(tree.n_leaves):
                c[j] += self.leaf_mean - tree.nodes[tree.leaf_node[l]].value
            c[j] = c[j] / tree.n_leaves + sqrt(self.leaf_var / tree.n_leaves) * z[j]
            total += c[j]
            inverse_leaves += 1.0 / tree.n_leaves
        for j in range(self.n_trees):
            tree = self.trees[j]
            # What the sum is too large by, shared in proportion to the variances.
            c[j] -= total * (1.0 / self.n_trees if MUTANT(35) else 1.0 / (tree.n_leaves * inverse_leaves))
            for l in range(tree.n_leaves):
                tree.nodes[tree.leaf_node[l]].value += c[j]

    # ------------------------------------------------------------------------------------------------------ running

    def advance(self, KernelPlan plan, rng, double[:, ::1] traces, int64_t first, ForestStore store, store_rng,
                int64_t store_every, int64_t budget):
        """Sweeps into traces[first:], until they are full or about `budget` rows have been read.

        With n_threads > 1 and enough rows, a team of threads that lives for this call shares the rows.

        Returns the number of rows of `traces` that are filled. A sweep under way is taken up by the next call, after
        `interrupt` (KeyboardInterrupt) too.
        """
        if traces.shape[1] < len(TRACES):
            raise ValueError(f"traces must have {len(TRACES)} columns or more, got {traces.shape[1]}")
        if plan.needs_bins:
            self.domain.make_bins()
        if self.n_threads == 1 or self.n_rows < TEAM_ROWS:
            return self._advance(plan, rng, traces, first, store, store_rng, store_every, budget, None)
        with Team(self.n_threads, self.n_rows) as team:
            return self._advance(plan, rng, traces, first, store, store_rng, store_every, budget, team)

    cdef _advance(self, KernelPlan plan, rng, double[:, ::1] traces, int64_t first, ForestStore store, store_rng,
                  int64_t store_every, int64_t budget, Team team):
        cdef bitgen_t* bits = bitgen_of(rng)
        cdef bitgen_t* store_bits = NULL if store is None else bitgen_of(store_rng)
        cdef int64_t n = traces.shape[0], done = first
        cdef int status = OK
        cdef StepInfo info
        cdef const RowOps* alone = self.workspace.w.ops
        if team is not None:
            team.enter()
            self.workspace.w.ops = team_rowops()
        with nogil:
            while done < n and budget > 0 and status == OK:
                if self.position == 0:
                    self.begin(bits)
                set_leaf_params(&self.workspace.w, self.sigma2 / self.temperature, self.leaf_mean, self.leaf_var)
                while self.position < self.n_trees and budget > 0 and status == OK:
                    status = self.update_tree(self.order[self.position], &info, &plan.p, bits)
                    if status == OK:
                        self.n_changed = self.n_changed + info.changed
                        self.n_root_changed = self.n_root_changed + info.root_changed
                        self.row_visits = self.row_visits + info.row_visits
                        self.position = self.position + 1
                        budget -= update_cost(&plan.p, &info, self.n_rows)
                        if self.workspace.w.cancel:
                            status = CANCELLED
                if status == OK and self.position == self.n_trees:
                    self.end(&traces[done, 0])
                    done += 1
                    if store_bits != NULL and done % store_every == 0:
                        status = store_forest(&store.s, self.trees, self.n_trees, &self.thresholds, store_bits)
        if team is not None:
            self.workspace.w.ops = alone
            team.leave()
        self.take_interrupt(status == CANCELLED)
        check_status(status)
        return done

    def interrupt(self):
        """From another thread: end `advance`, now under way or the next one, with KeyboardInterrupt."""
        self.workspace.w.cancel = 1

    def take_interrupt(self, bint honoured):
        """Whether an interrupt was asked for; forget it once it is honoured."""
        asked = bool(self.workspace.w.cancel)
        if honoured:
            self.workspace.w.cancel = 0
        return asked

    def begin_sweep(self, rng):
        """For a sweep driven from Python: sigma2 and the order of the trees, returned as a list."""
        self.begin(bitgen_of(rng))
        return [self.order[j] for j in range(self.n_trees)]

    def target_of(self, int j):
        """(N,) R_j = y less the other trees, eq. (residual), a new array."""
        self.old_fit = self.states[j].fit()
        target = self.residual + self.old_fit
        self.workspace.w.sweep_top = self.sweep_top
        target.flags.writeable = False                  # `step` takes it for what it is, unread
        self.states[j].bind(target, self.residual)
        return target

    def finish_tree(self, int j, target, bint changed, bint root_changed, int64_t row_visits, rng):
        """Leaf values of tree j given its target, and the residual, after a structure step made in Python.

        After compiled steps on the array of `target_of`, the same arithmetic as in a compiled sweep.
        """
        state = self.states[j]
        formed = state.draw_kept_values(self, rng)
        if formed is None:
            state.draw_leaf_values(target, self, rng)
        if formed is False:
            np.add(self.residual, self.old_fit - state.fit(), out=self.residual)
        else:
            np.subtract(target, state.fit(), out=self.residual)
        state.bind(None, None)
        self.n_changed += changed
        self.n_root_changed += root_changed
        self.row_visits += row_visits
        self.position += 1

    def end_sweep(self, double[::1] trace, ForestStore store=None, store_rng=None):
        """Close a sweep driven from Python: traces, and the forest with a store."""
        cdef bitgen_t* bits
        if trace.shape[0] < len(TRACES):
            raise ValueError(f"trace must have {len(TRACES)} entries or more, got {trace.shape[0]}")
        self.end(&trace[0])
        if store is not None:
            bits = bitgen_of(store_rng)
            check_status(store_forest(&store.s, self.trees, self.n_trees, &self.thresholds, bits))

    # -------------------------------------------------------------------------------------------------- checkpoints

    def get_order(self):
        """The order of the trees in the sweep under way."""
        return [self.order[j] for j in range(self.n_trees)]

    def set_order(self, order):
        cdef int32_t j
        for j in range(self.n_trees):
            self.order[j] = order[j]
