"""Parallel tempering: the states of one chain under powers of the likelihood, and the swaps between them."""

from __future__ import annotations

import math
import time

import numpy as np

from .backfitting import Ensemble
from .inputs import check_count
from .kernels.sweep import TRACES
from .ladder import even_temperatures, log_swap_ratio

__all__ = ["TemperedEnsemble"]

LOG_LIKELIHOOD, ROW_VISITS = TRACES.index("log_likelihood"), TRACES.index("row_visits")
# Swaps tried of each pair before the temperatures are moved.
_FEWEST_TRIES = 10
# Sweeps whose traces are held for all rungs at a time.
_BLOCK = 4096


class TemperedEnsemble:
    """The states of one chain under parallel tempering; it runs as an Ensemble does.

    Each state is an Ensemble with a generator of its own; a swap exchanges their temperatures. All have made the same
    number of sweeps, and rounds of swaps come at multiples of `ladder.every` of it, so that nothing depends on how
    the sweeps are divided into calls. Each sweep of all states, and each swap, leaves the product of the tempered
    posteriors invariant, and so does their cycle, even and odd rounds in turn.

    Parameters
    ----------
    model, sampler, **options
        As in Ensemble; every state makes its own start.
    rng : numpy.random.Generator
        For the swaps; the states take generators spawned from it.
    ladder : Ladder
    n_tune : int
        Sweeps after which the temperatures stay as they are: the burn-in.

    Attributes
    ----------
    ensembles : list of Ensemble
        In an order that never changes.
    order : list of int
        The Ensemble at each rung; ``ensembles[order[0]]`` is the state at t = 1.
    temperatures : list of K floats
        Of the rungs.
    """

    def __init__(self, model, sampler, rng, ladder, n_tune=0, **options):
        self.ladder, self.rng = ladder, rng
        self.n_tune = check_count(n_tune, "n_tune", 0)
        self.ensembles = [Ensemble(model, sampler, own, **options) for own in rng.spawn(ladder.n_rungs)]
        self.order = list(range(ladder.n_rungs))
        self.temperatures = list(ladder.temperatures)
        self.n_rounds = 0
        # Of each Ensemble after its last sweep.
        self._log_likelihood = [ensemble.log_likelihood for ensemble in self.ensembles]
        self._forget_rejections()
        self._set_temperatures(range(ladder.n_rungs))

    @property
    def cold(self):
        """The Ensemble at t = 1."""
        return self.ensembles[self.order[0]]

    @property
    def n_sweeps(self):
        """Sweeps completed by each state."""
        return self.cold.n_sweeps

    # --------------------------------------------------------------------------------------------------------- sweeps

    def run(self, n_sweeps, store=None, store_every=1):
        """Run sweeps of all states.

        Parameters
        ----------
        n_sweeps : int
        store : bart.kernels.forest.ForestStore, optional
            Receives the forest at t = 1 after every `store_every`-th sweep of this call.
        store_every : int

        Returns
        -------
        dict of (n_sweeps,) arrays
            The traces of `Ensemble.run` of the state at t = 1 at the end of each sweep, before swaps: tree_changed and
            root_changed are what the sweep changed. row_visits and seconds are sums over the states. Beside them
            swaps, (n_sweeps, K - 1) int8: for each pair whether the states changed places after the sweep (1), did not
            (0), or no swap was tried (-1).
        """
        n_sweeps, store_every = check_count(n_sweeps, "n_sweeps", 0), check_count(store_every, "store_every")
        began = time.thread_time()
        most = _BLOCK * len(TRACES) // self.cold.trace_width       # rows of traces may be wide
        size = max(1, most // store_every) * store_every
        for ensemble in self.ensembles:
            ensemble.take_up_changes()
        try:
            firsts = range(0, n_sweeps, size) or [0]
            parts = [self._run_block(min(size, n_sweeps - first), store, store_every) for first in firsts]
        except KeyboardInterrupt:
            for ensemble in self.ensembles:
                ensemble.forget_interrupt()
            raise
        finally:
            for ensemble in self.ensembles:
                ensemble.note_residual()
        traces, swaps = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        out = self.cold.name_traces(traces)
        out["seconds"] = np.full(n_sweeps, (time.thread_time() - began) / max(n_sweeps, 1))
        out["swaps"] = swaps
        return out

    def _run_block(self, n_sweeps, store, store_every):
        rows = np.zeros((len(self.ensembles), n_sweeps, self.cold.trace_width))
        swaps = np.full((n_sweeps, len(self.ensembles) - 1), -1, dtype=np.int8)
        cold = np.empty(n_sweeps, dtype=np.int64)
        done, first = 0, self.n_sweeps
        while done < n_sweeps:
            due = (self.n_rounds + 1) * self.ladder.every - first
            end = min(due, n_sweeps)
            # The cold state last: an interrupt within the others loses none of its sweeps.
            for e in reversed(self.order):
                self._advance(e, rows[e, :end], first, store if e == self.order[0] else None, store_every)
            cold[done:end] = self.order[0]
            done = end
            if done == due:
                self._swap(swaps[done - 1])
        traces = rows[cold, np.arange(n_sweeps)]
        traces[:, ROW_VISITS] = rows[:, :, ROW_VISITS].sum(axis=0)
        return traces, swaps

    def _advance(self, e, rows, first, store, store_every):
        """Fill the traces of sweeps first, first + 1, ...; after an interrupt a state may have made some before."""
        ensemble, end = self.ensembles[e], len(rows)
        done = ensemble.n_sweeps - first
        if done < end:
            while done < end:
                done = ensemble.advance(rows, done, store, store_every)
            self._log_likelihood[e] = float(rows[end - 1, LOG_LIKELIHOOD])

    # ---------------------------------------------------------------------------------------------------------- swaps

    def _swap(self, swapped):
        """A round of swaps after a sweep, and the tuning that may be due; `swapped` receives what was done."""
        logs, n_pairs = self._log_likelihood, len(self.order) - 1
        # Even and odd pairs in turn; one pair alone in every round.
        pairs = range(self.n_rounds % min(2, n_pairs), n_pairs, 2)
        for k, u in zip(pairs, self.rng.random(len(pairs)).tolist(), strict=True):
            i, j = self.order[k], self.order[k + 1]
            ratio = log_swap_ratio(self.temperatures[k], self.temperatures[k + 1], logs[i], logs[j])
            chance = math.exp(min(ratio, 0.0))
            self._rejected[k] += 1.0 - chance
            self._tried[k] += 1
            swapped[k] = u < chance
            if u < chance:
                self.order[k], self.order[k + 1] = j, i
                self._set_temperatures((k, k + 1))
        self.n_rounds += 1
        if self._tunes():
            rejection = np.divide(self._rejected, self._tried)
            self.temperatures = even_temperatures(np.array(self.temperatures), rejection).tolist()
            self._forget_rejections()
            self._set_temperatures(range(n_pairs + 1))

    def _tunes(self):
        """Whether the temperatures move now: in the burn-in after a half, a quarter, ... of it, and at its end.

        So each estimate comes from at least half of the rounds so far, and the last one from the second half.
        """
        if not self.ladder.tune or self.n_rounds * self.ladder.every > self.n_tune:
            return False
        n_rounds = self.n_tune // self.ladder.every
        due = any(self.n_rounds == n_rounds >> k for k in range(n_rounds.bit_length()))
        return due and min(self._tried) >= _FEWEST_TRIES

    def _forget_rejections(self):
        self._rejected = [0.0] * (len(self.order) - 1)
        self._tried = [0] * (len(self.order) - 1)

    def _set_temperatures(self, rungs):
        for rung in rungs:
            self.ensembles[self.order[rung]].temperature = self.temperatures[rung]

    def interrupt(self):
        """From another thread: end `run`, within a sweep, with KeyboardInterrupt; this call is then lost."""
        for ensemble in self.ensembles:
            ensemble.interrupt()

    # ---------------------------------------------------------------------------------------------------- checkpoints

    def get_state(self):
        """Everything a continuation needs but the data and `rng`, as plain numpy and Python objects."""
        return {
            "ensembles": [ensemble.get_state() for ensemble in self.ensembles],
            "generators": [ensemble.rng.bit_generator.state for ensemble in self.ensembles],
            "order": list(self.order),
            "temperatures": list(self.temperatures),
            "n_rounds": self.n_rounds,
            "log_likelihood": list(self._log_likelihood),
            "rejected": list(self._rejected),
            "tried": list(self._tried),
        }

    def set_state(self, state):
        """Take over what `get_state` gave; the continuation equals the uninterrupted run bit for bit."""
        if sorted(state["order"]) != list(range(len(self.order))):
            raise ValueError(f"state: it belongs to a ladder of {len(state['order'])} rungs")
        for ensemble, own, generator in zip(self.ensembles, state["ensembles"], state["generators"], strict=True):
            ensemble.set_state(own)
            ensemble.rng.bit_generator.state = generator
        self.order = list(state["order"])
        self.temperatures = list(state["temperatures"])
        self.n_rounds = state["n_rounds"]
        self._log_likelihood = list(state["log_likelihood"])
        self._rejected, self._tried = list(state["rejected"]), list(state["tried"])
