"""One Markov chain: its start, its segments, and its state to be continued elsewhere."""

import time
from dataclasses import dataclass

import numpy as np

from .backfitting import Ensemble
from .kernels.forest import NODE_DTYPE, ForestStore
from .ladder import Ladder
from .nodes import are_trees
from .storage import reading
from .tempering import TemperedEnsemble

__all__ = ["TRACES", "START_KINDS", "Chain", "ChainPlan", "Forests", "Segment", "join_segments"]

TRACES = ("log_likelihood", "sigma", "n_leaves", "depth", "tree_changed", "root_changed", "row_visits", "seconds")
# Numbers that a model may add, see Model.trace_names.
OPTIONAL_TRACES = ("theta", "k")
# The dispersed starts, in turn by number of the chain. Their order and number fix the start of every chain.
START_KINDS = ("empty", "prior", "overgrown", "smc")

# A chunk is one call into the compiled sweep: long enough to hide the call, short enough for an interrupt.
_CHUNK_SECONDS = 0.1
_CHUNK_GROWTH = 8


@dataclass(frozen=True)
class ChainPlan:
    """What one chain has to do.

    Attributes
    ----------
    n_burn : int
        Sweeps before the first kept draw.
    n_draws : int
        Kept draws of this chain, one every `thin` sweeps.
    thin : int
        Sweeps a kept draw.
    init_leaves : int or None
        Leaves of an over-grown tree at the start; None: the Ensemble's own number.
    tree_order : str
        "sequential" or "random".
    keep_trees, keep_burn_trees : bool
        Whether the forests of kept draws, and of every `thin`-th sweep of the burn-in, are stored.
    ladder : Ladder or None
        Parallel tempering inside the chain; a sweep is then one of all its states.
    """

    n_burn: int
    n_draws: int
    thin: int = 1
    init_leaves: int | None = None
    tree_order: str = "sequential"
    keep_trees: bool = True
    keep_burn_trees: bool = False
    ladder: Ladder | None = None

    @property
    def trace_names(self):
        """Traces of a segment beside the model's own: with a ladder, its swaps too."""
        return TRACES if self.ladder is None else (*TRACES, "swaps")

    @property
    def n_sweeps(self):
        """Sweeps of the whole chain."""
        return self.n_burn + self.n_draws * self.thin

    def phase(self, n_done):
        """The phase of sweep number `n_done` (from 0): its end, and whether forests are stored in it."""
        if n_done < self.n_burn:
            return self.n_burn, self.keep_burn_trees
        return self.n_sweeps, self.keep_trees


@dataclass(frozen=True)
class Forests:
    """Stored forests of consecutive draws.

    Attributes
    ----------
    nodes : ndarray of (dim int32, left int32, value float64), shape (n_nodes,)
        Trees one after the other, each from its root, siblings side by side. A leaf has dim -1 and its value
        in scaled units; an internal node sends x[dim] <= value to node `left` of its tree, else to the
        node after it.
    starts : ndarray of int64, shape (n_draws * n_trees + 1,)
        First node of each tree; the last entry is the number of nodes.
    """

    nodes: np.ndarray
    starts: np.ndarray

    @property
    def nbytes(self):
        """Bytes of both arrays."""
        return self.nodes.nbytes + self.starts.nbytes

    @property
    def is_whole(self):
        """Whether the nodes of each tree are those of a binary tree, its root first."""
        nodes, starts = self.nodes, self.starts
        if nodes.dtype != NODE_DTYPE or starts.dtype != np.int64 or (nodes.ndim, starts.ndim) != (1, 1):
            return False
        return bool((nodes["dim"] >= -1).all()) and are_trees(nodes["left"], nodes["dim"] >= 0, starts)

    @classmethod
    def of_store(cls, store):
        """A copy of what a ForestStore holds."""
        return cls(np.array(store.nodes), np.array(store.starts, dtype=np.int64))

    @classmethod
    def join(cls, parts, n_trees):
        """The draws of several parts, in their order."""
        parts = list(parts) or [cls.of_store(ForestStore(n_trees))]
        starts = [np.zeros(1, dtype=np.int64)]
        for part in parts:
            starts.append(part.starts[1:] + starts[-1][-1])
        return cls(np.concatenate([part.nodes for part in parts]), np.concatenate(starts))

    def first(self, n_draws, n_trees):
        """The first `n_draws` draws."""
        end = n_draws * n_trees + 1
        return Forests(self.nodes[: self.starts[end - 1]], self.starts[:end])


@dataclass(frozen=True)
class Segment:
    """Consecutive sweeps of one chain: traces of each sweep, and the forests stored in them (or None).

    A segment lies in one phase, burn-in or kept draws. With a ladder it has the temperatures at its end.
    """

    traces: dict
    forests: Forests | None
    in_burn: bool
    wall_seconds: float
    temperatures: list | None = None

    @property
    def n_sweeps(self):
        """Sweeps in the segment."""
        return len(self.traces["sigma"])


class Chain:
    """A chain that is advanced in segments.

    The draws depend on (model, sampler, plan, seed sequence, start) alone, never on where the segments
    are cut, nor on the process that runs them: pickling keeps the exact state, the generator's included.

    Parameters
    ----------
    model : Model
    sampler : object with ``step``
    plan : ChainPlan
    seed_sequence : numpy.random.SeedSequence
        This chain's own, ``SeedSequence(seed).spawn(n_chains)[i]``.
    start : str or list
        Kind of start, or the structures of all trees (nested tuples).
    n_threads : int
        Threads that share the rows of a sweep.
    """

    def __init__(self, model, sampler, plan, seed_sequence, start, n_threads=1):
        self.model = model
        self.sampler = sampler
        self.plan = plan
        self.start = start
        self.n_threads = n_threads
        self.n_done = 0
        # A copy: the Ensemble spawns from it, and how often a shared one was spawned from must not matter.
        own = np.random.SeedSequence(seed_sequence.entropy, spawn_key=seed_sequence.spawn_key)
        self._rng = np.random.Generator(np.random.PCG64DXSM(own))
        self._ensemble = None
        self._pending = None
        self._sweeps_a_second = 0.0

    @property
    def is_done(self):
        """Whether all sweeps of the plan have been run."""
        return self.n_done >= self.plan.n_sweeps

    @property
    def ensemble(self):
        """The live Ensemble, or TemperedEnsemble, made at first use in the process that runs the chain."""
        if self._ensemble is None:
            start = self.start if self._pending is None else "empty"
            options = {
                "init": start,
                "tree_order": self.plan.tree_order,
                "init_leaves": self.plan.init_leaves if start == "overgrown" else None,
                "n_threads": self.n_threads,
            }
            if self.plan.ladder is None:
                self._ensemble = Ensemble(self.model, self.sampler, self._rng, **options)
            else:
                ladder = (self.plan.ladder, self.plan.n_burn)
                self._ensemble = TemperedEnsemble(self.model, self.sampler, self._rng, *ladder, **options)
            if self._pending is not None:
                # Last, as making an Ensemble may itself draw numbers.
                self._restore(self._pending)
                self._pending = None
        return self._ensemble

    def _restore(self, state):
        with reading("checkpoint", "has a damaged state of a chain"):
            self._ensemble.set_state(state["ensemble"])
            self._rng.bit_generator.state = state["generator"]

    def get_state(self):
        """Everything that changes while the chain runs, as plain values and arrays."""
        if self._pending is not None:
            return dict(self._pending)
        return {
            "n_done": self.n_done,
            "ensemble": self.ensemble.get_state(),
            "generator": self._rng.bit_generator.state,
        }

    def set_state(self, state):
        """Continue from what `get_state` returned."""
        self.n_done = int(state["n_done"])
        self._pending = dict(state)
        self._ensemble = None

    def __getstate__(self):
        record = dict(self.__dict__)
        if self._ensemble is not None:
            record["_pending"] = self.get_state()
            record["_ensemble"] = None
        return record

    def interrupt(self):
        """From another thread: end `advance`, within a sweep, with KeyboardInterrupt."""
        if self._ensemble is not None:
            self._ensemble.interrupt()

    def advance(self, seconds, max_sweeps=None):
        """Run sweeps for about `seconds`, at least one draw, within one phase.

        Parameters
        ----------
        seconds : float
            Wall time after which no further chunk is begun.
        max_sweeps : int, optional
            Bound on the sweeps, rounded up to a multiple of `thin`.

        Returns
        -------
        Segment
        """
        began = time.perf_counter()
        in_burn = self.n_done < self.plan.n_burn
        end, keeps = self.plan.phase(self.n_done)
        if max_sweeps is not None:
            end = min(end, self.n_done + self._round_up(max_sweeps))
        ensemble = self.ensemble
        store = ForestStore(self.model.n_trees) if keeps else None
        parts = []
        while self.n_done < end and (not parts or time.perf_counter() - began < seconds):
            parts.append(self._run_chunk(ensemble, end, store))
        traces = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        forests = None if store is None else Forests.of_store(store)
        temperatures = None if self.plan.ladder is None else list(ensemble.temperatures)
        return Segment(traces, forests, in_burn, time.perf_counter() - began, temperatures)

    def _run_chunk(self, ensemble, end, store):
        wanted = max(1, int(self._sweeps_a_second * _CHUNK_SECONDS))
        n_sweeps = min(self._round_up(wanted), end - self.n_done)
        began = time.perf_counter()
        traces = ensemble.run(n_sweeps, store=store, store_every=self.plan.thin)
        pace = n_sweeps / max(time.perf_counter() - began, 1e-9)
        grown = _CHUNK_GROWTH * n_sweeps / _CHUNK_SECONDS
        self._sweeps_a_second = min(pace, grown)
        self.n_done += n_sweeps
        return {name: np.asarray(traces[name]) for name in (*self.plan.trace_names, *self.model.trace_names)}

    def _round_up(self, n_sweeps):
        # Chunks are whole draws, so that "every thin-th sweep of the call" is every thin-th of the phase.
        return -(-n_sweeps // self.plan.thin) * self.plan.thin


def advance(chain, seconds, max_sweeps=None):
    """`Chain.advance` for executors: the chain, itself or a copy from another process, and segment."""
    segment = chain.advance(seconds, max_sweeps)
    return chain, segment


def join_segments(segments, n_trees):
    """Several consecutive segments of one phase as one."""
    segments = list(segments)
    traces = {name: np.concatenate([part.traces[name] for part in segments]) for name in segments[0].traces}
    stored = [part.forests for part in segments if part.forests is not None]
    forests = Forests.join(stored, n_trees) if stored else None
    wall_seconds = sum(part.wall_seconds for part in segments)
    return Segment(traces, forests, segments[0].in_burn, wall_seconds, segments[-1].temperatures)
