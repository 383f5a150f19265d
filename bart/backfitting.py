"""Algorithm 1 of the paper: the state of one chain, and its sweep."""

from __future__ import annotations

import time

import numpy as np

from .hyperpriors import Dirichlet, LeafScale, SplitProbabilities
from .inputs import as_vector, check_choice, check_count, check_real
from .kernels.plan import KernelPlan
from .kernels.sweep import TRACES, EnsembleKernel
from .nodes import check_state
from .outcomes import Latent
from .priors import FixedNoise
from .samplers.auto import resolve_sampler
from .samplers.base import StepParams
from .samplers.compose import split_sampler

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
# More than any machine has processors.
MOST_THREADS = 4096


class Ensemble:
    """The state of one chain of Bayesian backfitting: m trees, sigma2 and the residual of all trees.

    Parameters
    ----------
    model : bart.Model
    sampler : TreeSampler or str
        Kernel of one tree given the others; a Cycle may end with JointLeaves, which acts between sweeps. A text as
        `parse_sampler` reads it, or "auto": the sampler of `auto_sampler`, without its ladder, as this is one state.
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
        self.model, self.sampler, self.rng = model, sampler, rng
        self._acted = (-1, 0)               # after which sweep what acts between sweeps was last done, and how much
        self._threshold_rng = rng.spawn(1)[0]
        noise, leaf = model.noise_prior, model.leaf_prior
        fixed = isinstance(noise, FixedNoise)
        sigma2 = noise.sigma2 if fixed else (model.sigma_hat / model.dataset.y_range) ** 2
        dims = model.tree_prior.dim_weights
        domain = model.domain.with_random_weights() if isinstance(dims, Dirichlet) else model.domain
        self._kernel = EnsembleKernel(
            domain, model.dataset.y_scaled, model.n_trees,
            None if fixed else (noise.shape, noise.rate), sigma2, leaf.mean, leaf.var,
            tree_order == "random", model.dataset.y_range, model.dataset.weights,
        )
        self.latent = None if model.outcome is None else Latent(model.outcome, model.dataset)
        self.split = SplitProbabilities(dims, domain) if isinstance(dims, Dirichlet) else None
        scale = None if model.k_prior is None else LeafScale(model.k_prior, model.leaf_var_of_k(1.0))
        self._blocks = [block for block in (self.latent, self.split, scale) if block is not None]
        self._kernel.n_threads = min(check_count(n_threads, "n_threads"), MOST_THREADS)
        self._start(init, leaves)
        self._seen = self.residual.copy()

    # ----------------------------------------------------------------------------------------------------- the state

    @property
    def sampler(self):
        """What updates the trees. May be set, to a sampler or its text, from the next tree on."""
        return self._sampler

    @sampler.setter
    def sampler(self, sampler):
        self._sampler = resolve_sampler(sampler, self.model)
        self._tree_sampler, self._of_sweeps = split_sampler(self._sampler)
        self._plan = self._tree_sampler.plan()

    @property
    def residual(self):
        return self._kernel.residual

    @residual.setter
    def residual(self, values):
        # Into the array that the kernels hold; so that ``ensemble.residual += delta`` is a change in place, too.
        values = as_vector(values, "residual")
        if len(values) != len(self.residual):
            raise ValueError(f"residual must have shape ({len(self.residual)},), got ({len(values)},)")
        self._kernel.residual[:] = values

    @property
    def sigma2(self):
        return self._kernel.sigma2

    @sigma2.setter
    def sigma2(self, value):
        value = check_real(value, "sigma2", 0)
        if self.latent is not None and value != self._kernel.sigma2:
            raise ValueError(f"sigma2 is 1 with outcome={self.model.outcome.name!r}, got {value}")
        self._kernel.sigma2 = value

    @property
    def leaf_mean(self):
        return self._kernel.leaf_mean

    @leaf_mean.setter
    def leaf_mean(self, value):
        self._kernel.leaf_mean = check_real(value, "leaf_mean")

    @property
    def leaf_var(self):
        return self._kernel.leaf_var

    @leaf_var.setter
    def leaf_var(self, value):
        self._kernel.leaf_var = check_real(value, "leaf_var", 0)

    @property
    def weights(self):
        return self._kernel.weights

    @weights.setter
    def weights(self, values):
        if values is not None:
            if self.latent is not None:
                raise ValueError(f"weights are for outcome='gaussian', the outcome is {self.model.outcome.name!r}")
            values = as_vector(values, "weights")
        self._kernel.weights = values

    @property
    def sigma(self):
        """Noise standard deviation in the units of y."""
        return float(np.sqrt(self._kernel.sigma2) * self.model.dataset.y_range)

    @property
    def trees(self):
        return self._kernel.states

    @property
    def n_sweeps(self):
        return self._kernel.n_sweeps

    @property
    def temperature(self):
        """Power t of the likelihood; 1 is the posterior. May be set between sweeps."""
        return self._kernel.temperature

    @temperature.setter
    def temperature(self, value):
        value = check_real(value, "temperature", 0)
        if self.latent is not None and value != 1.0:
            # Latent variables are drawn at t = 1: trees at another one would not be those of a power of the likelihood.
            raise ValueError(f"temperature must be 1 with outcome={self.model.outcome.name!r}, got {value}")
        self._kernel.temperature = value

    def structures(self):
        """The trees as nested tuples: None at a leaf, (dim, code, left, right) elsewhere."""
        return [state.structure for state in self.trees]

    def fit(self):
        """(N,) float64: f at the training rows, in the units of y; offsets of rows are not in it."""
        total = np.zeros(len(self.residual))
        for state in self.trees:
            total += state.fit()
        return self.model.dataset.to_y(total)

    @property
    def log_likelihood(self):
        """sum_n log p(y_n | f(x_n), sigma^2 / weights[n]) of the current state, in the units of y; with `latent` z is
        integrated out."""
        if self.latent is not None:
            return self.latent.log_likelihood(self._kernel)
        n, scale = len(self.residual), self.model.dataset.y_range
        w = self.weights
        ssr = float(self.residual @ (self.residual if w is None else w * self.residual))
        total = -0.5 * n * np.log(2 * np.pi * self.sigma2) - 0.5 * ssr / self.sigma2 - n * np.log(scale)
        return total if w is None else total + 0.5 * float(np.log(w).sum())

    def recompute_residual(self):
        """residual = y less all trees; call it after changing structures or leaf values of `trees` yourself."""
        self._kernel.set_residual()
        self.note_residual()

    def _params(self):
        kernel = self._kernel
        return StepParams(kernel.sigma2, kernel.leaf_var, kernel.leaf_mean, kernel.temperature)

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
            out), sigma (units of y), n_leaves
            (total) and depth (maximum over trees, both int64), tree_changed and root_changed (shares of the trees; of a
            Cycle, where any part changed one), row_visits (sum over the trees of what StepInfo counts, int64), seconds
            (CPU seconds of the sweep in this thread, averaged over a call of the compiled code). Where they have a
            prior also k, theta and split_probabilities, the latter (n_sweeps, n_dims), as drawn when the sweep began.

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

    @property
    def _between(self):
        """All that acts between sweeps, in its order."""
        return [*self._blocks, *self._of_sweeps]

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

    def take_up_changes(self):
        """What was added to the residual since the last run was added to y: the residual is recomputed from it."""
        if not np.array_equal(self._seen, self.residual):
            change = self.residual - self._seen
            np.add(self._kernel.y, change, out=self._kernel.y)
            if self.latent is not None:
                self.latent.offset -= change

    def note_residual(self):
        """Take the residual as it is for what the sweeps made of it: see `take_up_changes`."""
        self._seen[:] = self.residual

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

    # ---------------------------------------------------------------------------------------------------- checkpoints

    def get_state(self):
        """Everything a continuation needs but the data and `rng`, as plain numpy and Python objects."""
        kernel = self._kernel
        self.take_up_changes()
        self.note_residual()
        own_y = not np.array_equal(kernel.y, self.model.dataset.y_scaled)
        return {
            "y": kernel.y.copy() if own_y else None,
            "trees": [state.dump() for state in self.trees],
            "residual": kernel.residual.copy(),
            "sigma2": kernel.sigma2,
            "leaf_prior": (kernel.leaf_mean, kernel.leaf_var),
            "weights": kernel.weights,
            "temperature": kernel.temperature,
            "n_sweeps": kernel.n_sweeps,
            "position": kernel.position,
            "sweep_top": kernel.sweep_top,
            "changed": (kernel.n_changed, kernel.n_root_changed),
            "row_visits": kernel.row_visits,
            "acted": self._acted,
            "order": kernel.get_order(),
            "latent": None if self.latent is None else self.latent.get_state(),
            "split": None if self.split is None else self.split.get_state(),
            "threshold_rng": self._threshold_rng.bit_generator.state,
        }

    def set_state(self, state):
        """Take over what `get_state` gave; the continuation equals the uninterrupted run bit for bit.

        Raises
        ------
        ValueError, TypeError
            The state is damaged, or of another model; this Ensemble is then of no use any more.
        """
        kernel = self._kernel
        if len(state["trees"]) != self.model.n_trees or len(state["residual"]) != len(kernel.residual):
            raise ValueError("state: it belongs to another model")
        n_trees = self.model.n_trees
        if not 0 <= state["position"] <= n_trees or sorted(state["order"]) != list(range(n_trees)):
            raise ValueError(f"state: position {state['position']} is not within a sweep")
        check_state(state, kernel.domain)
        if self.split is not None:                      # before the trees, which keep priors of their rules
            self.split.set_state(kernel, state["split"])
        for j, (tree, nodes) in enumerate(zip(self.trees, state["trees"], strict=True)):
            tree.restore(nodes)
            if (np.bincount(tree.leaf_of_row, minlength=tree.n_leaves) != tree.leaf_counts()).any():
                tree.structure = None                   # numbers of rows are what kernels index with
                raise ValueError(f"state: tree {j} has other numbers of rows in its leaves than the data give")
        kernel.y[:] = self.model.dataset.y_scaled if state["y"] is None else state["y"]
        kernel.residual[:] = state["residual"]
        self._seen[:] = kernel.residual
        kernel.sigma2, kernel.temperature = state["sigma2"], state["temperature"]
        own = self.model.leaf_prior                     # states from before it could be set lack it
        kernel.leaf_mean, kernel.leaf_var = state.get("leaf_prior", (own.mean, own.var))
        # States from before there were weights lack them.
        kernel.weights = state.get("weights")
        kernel.sweep_top = state["sweep_top"]
        kernel.n_sweeps, kernel.position = state["n_sweeps"], state["position"]
        kernel.n_changed, kernel.n_root_changed = state["changed"]
        kernel.row_visits = state["row_visits"]
        self._acted = state["acted"] if "acted" in state else self._acted_before(state)
        kernel.set_order(state["order"])
        if self.latent is not None:
            self.latent.set_state(state["latent"])
        self._threshold_rng.bit_generator.state = state["threshold_rng"]

    def _acted_before(self, state):
        """`_acted` of a state from before there was one list of what acts between sweeps."""
        n, n_parts = state["n_sweeps"], len(self._between)
        if self.latent is not None and state["latent"]["n_drawn"] != n:
            return n, 0
        return n, n_parts if state.get("n_joint", 0) == n else n_parts - len(self._of_sweeps)
