"""Algorithm 1 of the paper: the start of one chain, and its sweeps."""

from __future__ import annotations

import time

import numpy as np

from .chain_state import ChainState
from .inputs import check_choice, check_count
from .kernels.plan import KernelPlan
from .kernels.sweep import TRACES

__all__ = ["Ensemble"]

INTEGER_TRACES = ("n_leaves", "depth", "row_visits")
LOG_LIKELIHOOD = TRACES.index("log_likelihood")
STARTS = ("empty", "prior", "overgrown", "smc", "grow")
TREE_ORDERS = ("sequential", "random")
SMC_PARTICLES = 100
# Unconditional filters, by start. One particle is never weighed against another, so that it is not resampled either.
FILTERS = {
    "smc": {"n_particles": SMC_PARTICLES, "clamped": False},
    "grow": {"n_particles": 1, "clamped": False, "optimal": True, "ess_threshold": 0.0},
}
OVERGROWN_LEAVES = 4
# Rows read in one call of the compiled sweep (a node's fixed cost counts as 500): 10 to 200 ms, after which an
# interrupt is seen.
BUDGET = 50_000_000
MOST_SWEEPS = 1 << 62


class Ensemble(ChainState):
    """The state of one chain of Bayesian backfitting: m trees, sigma2 and the residual of all trees.

    Parameters
    ----------
    model : bart.Model
    sampler : TreeSampler or str
        Kernel of one tree given the others; a Cycle may end with what acts between sweeps. A text as
        `parse_sampler` reads it, or "auto": the sampler of `auto_sampler`.
    rng : numpy.random.Generator
        All randomness but the thresholds of stored trees, which take a generator spawned from it.
    init : str or sequence
        "empty" (stumps), "prior" (trees from the prior), "overgrown" (`init_leaves` leaves a tree by random splits),
        "smc" (each tree from an unconditional particle filter with 100 particles), "grow" (each tree grown from its
        root, every node stopped or split in proportion to prior times likelihood one step ahead), or one structure a
        tree as nested tuples. Leaf values come from their prior for "empty" (the paper), "prior" and "overgrown";
        otherwise they, and the trees of "smc" and "grow", are drawn given the trees before them.
    tree_order : str
        "sequential", or "random": a fresh permutation in each sweep.
    init_leaves : int, optional
        Leaves of an overgrown tree, 4 by default.
    n_threads : int
        Threads that share the rows of a sweep where there are 65 536 or more. No result depends on their number.

    Attributes
    ----------
    residual : (N,) float64, scaled units
        y minus all trees. The only coupling of length N: between runs a block of your own (an offset, a second forest,
        latent outcomes) may change it in place or set it, which stands for the same change of y (with `latent`: for a
        change of minus that in its offset).
    latent : bart.outcomes.Latent or None
        What is observed, with an outcome such as probit; y is then the latent variables, drawn before each sweep.
    split : bart.hyperpriors.SplitProbabilities or None
        With a Dirichlet prior of the split probabilities: these (`probabilities`) and `theta`, drawn before each sweep.
    sigma2 : float
        Noise variance in scaled units; it may be set between runs (with a free noise prior the next sweep redraws it;
        with `latent` it is 1 and stays).
    leaf_mean, leaf_var : float
        Prior mean and variance of a leaf value in scaled units, the model's at first; they may be set between runs
        (with a prior of k the next sweep redraws the variance).
    weights : (N,) float64, read-only, or None
        The noise variance of row n is sigma2 / weights[n], None: sigma2 for all; the model's at first. They may be set
        between runs, by a model of the noise variance of your own, say (not with `latent`). `residual` is y minus all
        trees whatever they are.
    trees : list of TreeState
    n_sweeps : int
        Sweeps completed.

    Raises
    ------
    ValueError
        An argument is unknown or a structure does not fit the data.
    """

    def __init__(self, model, sampler, rng, init="empty", tree_order="sequential", init_leaves=None, n_threads=1):
        check_choice(tree_order, "tree_order", TREE_ORDERS)
        if isinstance(init, str):
            check_choice(init, "init", STARTS)
        elif not isinstance(init, (list, tuple)):
            raise TypeError(f"init must be one of {STARTS} or a list of structures, got {init!r}")
        elif len(init) != model.n_trees:
            raise ValueError(f"init must hold one structure for each of {model.n_trees} trees, got {len(init)}")
        if init_leaves is not None and init != "overgrown":
            raise ValueError(f"init_leaves={init_leaves} has no effect with init={init!r}")
        leaves = OVERGROWN_LEAVES if init_leaves is None else check_count(init_leaves, "init_leaves")
        super().__init__(model, sampler, rng, tree_order, n_threads)
        self._start(init, leaves)
        self.note_residual()

    def _start(self, init, init_leaves):
        kernel, rng = self._kernel, self.rng
        plan = KernelPlan(**FILTERS[init]) if isinstance(init, str) and init in FILTERS else None
        for j, state in enumerate(self.trees):
            if not isinstance(init, str):
                state.structure = init[j]
            elif init == "prior":
                state.draw_from_prior(rng)
            elif init == "overgrown":
                state.overgrow(init_leaves, rng)
            if init in ("empty", "prior", "overgrown"):
                sd = np.sqrt(kernel.leaf_var)
                state.leaf_values = kernel.leaf_mean + sd * rng.standard_normal(state.n_leaves)
                continue
            target = kernel.residual.copy()
            if plan is not None:
                state.step(plan, target, self._params(), rng)
            kernel.finish_tree(j, target, False, False, 0, rng)
        kernel.position = 0
        kernel.set_residual()

    # --------------------------------------------------------------------------------------------------------- sweeps

    def sweep(self):
        """One sweep of algorithm 1; returns its traces as a dict of numbers, see `run`."""
        return {name: values[0] for name, values in self.run(1).items()}

    def run(self, n_sweeps, store=None, store_every=1):
        """Run sweeps.

        Parameters
        ----------
        n_sweeps : int
        store : bart.kernels.forest.ForestStore, optional
            Receives the forest after every `store_every`-th sweep of this call.
        store_every : int

        Returns
        -------
        dict of (n_sweeps,) arrays
            log_likelihood (units of y, with the sigma drawn at the start of the sweep; latent variables integrated
            out), sigma (units of y), n_leaves (total) and depth (maximum over trees, both int64), tree_changed and
            root_changed (shares of the trees; of a Cycle, where any part that acts on single trees changed one),
            row_visits (sum over the trees of what StepInfo counts, int64), seconds (CPU seconds of the sweep in this
            thread, averaged over a call of the compiled code). Where they have a prior also k, theta and
            split_probabilities, the latter (n_sweeps, n_dims), as drawn when the sweep began.

        Notes
        -----
        After an interrupt the state is usable, perhaps within a sweep; the next run takes that sweep up.
        """
        n_sweeps, store_every = check_count(n_sweeps, "n_sweeps", 0), check_count(store_every, "store_every")
        traces = np.empty((n_sweeps, self.trace_width))
        seconds = np.empty(n_sweeps)
        self.take_up_changes()
        done, spent = 0, 0.0
        try:
            while done < n_sweeps:
                began = time.thread_time()
                reached = self.advance(traces, done, store, store_every)
                spent += time.thread_time() - began
                if reached > done:
                    seconds[done:reached] = spent / (reached - done)
                    done, spent = reached, 0.0
        finally:
            self.note_residual()
        out = self.name_traces(traces)
        out["seconds"] = seconds
        return out

    @property
    def trace_width(self):
        """Numbers in a row of traces, as `advance` fills them."""
        return len(TRACES) + sum(block.width for block in self._blocks)

    def name_traces(self, rows):
        """Rows of traces as a dict of arrays."""
        out = {name: rows[:, k].copy() for k, name in enumerate(TRACES)}
        for name in INTEGER_TRACES:
            out[name] = out[name].astype(np.int64)
        at = len(TRACES)
        for block in self._blocks:
            out.update(block.name_traces(rows[:, at : at + block.width].copy()))
            at += block.width
        return out

    def _sweeps_at_once(self):
        """Sweeps until something acts between sweeps; that under way counts."""
        n = self._kernel.n_sweeps
        return min((part.sweeps_left(n) for part in self._between), default=MOST_SWEEPS)

    def _act_between_sweeps(self):
        """What is due after the sweeps done so far, once; known from the sweep's absolute number."""
        kernel, n = self._kernel, self._kernel.n_sweeps
        if kernel.position != 0:
            return
        done = self._acted[1] if self._acted[0] == n else 0
        for place, part in enumerate(self._between[done:], start=done + 1):
            if part.is_due(n):
                part.redraw(kernel, self.rng)
            self._acted = (n, place)

    def advance(self, traces, done, store, store_every):
        """Sweeps into the rows of traces from `done` on, as many as one call makes; the number of filled rows.

        The inner part of `run`, between `take_up_changes` and `note_residual`.
        """
        self._act_between_sweeps()
        traces = traces[:done + self._sweeps_at_once()]
        if self._plan is None:
            reached = self._advance_python(traces, done, store, store_every)
        else:
            reached = self._kernel.advance(
                self._plan, self.rng, traces, done, store, self._threshold_rng, store_every, BUDGET
            )
        if self._blocks and reached > done:         # with one of them, a single sweep
            self._fill(traces[done])
        return reached

    def _fill(self, row):
        if self.latent is not None:
            row[LOG_LIKELIHOOD] = self.log_likelihood
        at = len(TRACES)
        for block in self._blocks:
            block.fill(row[at : at + block.width], self._kernel)
            at += block.width

    def _advance_python(self, traces, done, store, store_every):
        """One sweep by a sampler written in Python, tree by tree through its `step`.

        An error in it leaves the tree as it was; the next call takes the sweep up.
        """
        kernel = self._kernel
        order = kernel.get_order() if kernel.position else kernel.begin_sweep(self.rng)
        for j in order[kernel.position:]:
            if kernel.take_interrupt(True):
                raise KeyboardInterrupt
            at, before, target = kernel.position, self.trees[j].dump(), kernel.target_of(j)
            try:
                info = self._tree_sampler.step(self.trees[j], target, self._params(), self.rng)
                visits = getattr(info, "row_visits", 0)     # what a sampler of one's own returns may lack it
                kernel.finish_tree(j, target, info.changed, info.root_changed, visits, self.rng)
            except BaseException:
                if kernel.position == at:
                    self.trees[j].restore(before)
                raise
        keep = store is not None and (done + 1) % store_every == 0
        kernel.end_sweep(traces[done], store if keep else None, self._threshold_rng)
        return done + 1

    def interrupt(self):
        """From another thread: end `run`, within a sweep, with KeyboardInterrupt."""
        self._kernel.interrupt()

    def forget_interrupt(self):
        """Take back an `interrupt` that no run has seen."""
        self._kernel.take_interrupt(True)
