"""The state of one chain: what may be read and set between sweeps, kept for a checkpoint and taken over from one."""

from __future__ import annotations

import numpy as np

from .hyperpriors import Dirichlet, LeafScale, SplitProbabilities
from .inputs import as_vector, check_count, check_real
from .kernels.sweep import EnsembleKernel
from .nodes import check_state
from .outcomes import Latent
from .priors import FixedNoise
from .samplers.auto import resolve_sampler
from .samplers.base import StepParams
from .samplers.compose import split_sampler

__all__ = ["ChainState"]

# More than any machine has processors.
MOST_THREADS = 4096


class ChainState:
    """Model, sampler and state of an Ensemble, whose docstring lists its attributes; at no start yet.

    Parameters
    ----------
    model, sampler, rng, tree_order, n_threads
        As in Ensemble.
    """

    def __init__(self, model, sampler, rng, tree_order, n_threads):
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
        self._seen = self.residual.copy()

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

    @property
    def _between(self):
        """All that acts between sweeps, in its order."""
        return [*self._blocks, *self._of_sweeps]

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
