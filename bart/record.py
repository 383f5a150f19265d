"""What the chains of a run have made: segments as they come in, checkpoints, and the Posterior in the end."""

import dataclasses
import logging
import time

import numpy as np

from . import __version__
from .chain import TRACES, Forests, join_segments
from .checkpoints import data_digest, describe, fingerprints, plain_settings, row_texts
from .ladder import Tempering
from .outcomes import name_of
from .posterior import Posterior
from .samplers.text import format_sampler

__all__ = ["Record", "make_posterior"]

_log = logging.getLogger(__name__)


class Record:
    """Segments of all chains as they come in, and their checkpoints.

    Parameters
    ----------
    chains : list of Chain
        At their starts; those with a checkpoint are set to where it was written.
    folder : CheckpointFolder or None
    entropy : int or list of int
        Seed of the run.
    every : float
        Seconds between two checkpoints of a chain.
    every_sweeps : int or None
        Also a checkpoint every so many sweeps of a chain.
    """

    def __init__(self, chains, folder, entropy, every, every_sweeps):
        self.every, self.every_sweeps = every, every_sweeps
        self.folder = folder
        self.entropy = entropy
        self.n_trees = chains[0].model.n_trees
        self.segments = [[] for _ in chains]
        self.n_swept_of = np.zeros(len(chains), dtype=np.int64)
        self.n_written = [0 for _ in chains]
        self.last_write = [time.monotonic() for _ in chains]
        self.prints = None
        if folder is not None:
            self._resume(chains)

    def _resume(self, chains):
        first = chains[0]
        starts = [chain.start for chain in chains]
        self.prints = fingerprints(first.model, first.sampler, first.plan, self.entropy, starts)
        for index, chain in enumerate(chains):
            found = self.folder.read(index, self.prints[index], self.n_trees, first.plan.thin)
            if found is not None:
                chain.set_state(found[0])
                self.segments[index] = found[1]
                self.n_written[index] = len(found[1])
                self.n_swept_of[index] = sum(segment.n_sweeps for segment in found[1])
        if self.n_swept:
            _log.info("continuing after %d sweeps from checkpoint %s", self.n_swept, self.folder.path)

    @property
    def n_swept(self):
        """Sweeps of all chains so far."""
        return int(self.n_swept_of.sum())

    def add(self, index, chain, segment):
        """Take a segment of a chain, which stands right after it; write a checkpoint if one is due."""
        self.segments[index].append(segment)
        self.n_swept_of[index] += segment.n_sweeps
        if self.folder is None:
            return
        new = self.segments[index][self.n_written[index] :]
        waited = time.monotonic() - self.last_write[index] >= self.every
        swept = self.every_sweeps is not None and sum(part.n_sweeps for part in new) >= self.every_sweeps
        if waited or swept or chain.is_done:
            self._write(index, chain, new)

    def _write(self, index, chain, new):
        self.folder.write(index, chain, new, self.prints[index], self.entropy, self.n_trees)
        self.n_written[index] = len(self.segments[index])
        self.last_write[index] = time.monotonic()

    def write_rest(self, chains):
        """Checkpoints of what has none yet, where a run ends before its last draw."""
        for index, chain in enumerate(chains):
            new = self.segments[index][self.n_written[index] :]
            if self.folder is not None and new:
                self._write(index, chain, new)


def make_posterior(model, sampler, plan, starts, entropy, record, watch):
    """The Posterior of a run that has ended; the record's segments, which may be large, are given up for it."""
    n_asked, plan = plan.n_draws, dataclasses.replace(plan, n_draws=watch.n_draws)
    wall_seconds = [float(sum(part.wall_seconds for part in chain)) for chain in record.segments]
    temperatures = [chain[-1].temperatures for chain in record.segments]
    joined = []
    for index in range(len(starts)):
        joined.append(_join(record.segments[index], plan, model.n_trees))
        record.segments[index] = []
    traces = {name: np.stack([chain[0][name] for chain in joined]) for name in (*TRACES, *model.trace_names)}
    data = model.dataset
    names = data.column_names
    header = {
        "n_trees": int(model.n_trees),
        "n_dims": int(data.n_dims),
        "column_names": None if names is None else tuple(names),
        "y_mid": float(data.y_mid),
        "y_range": float(data.y_range),
        **row_texts(data),
        "data": data_digest(model) if record.prints is None else record.prints[0]["data"],
        "outcome": name_of(model.outcome),
        "n_burn": plan.n_burn,
        "thin": plan.thin,
        "tree_order": plan.tree_order,
        "seed": entropy,
        "starts": [start if isinstance(start, str) else "given" for start in starts],
        "sampler": _describe_sampler(sampler),
        "priors": describe(model.priors),
        "prior_settings": {type(prior).__qualname__: plain_settings(prior) for prior in model.priors},
        "version": __version__,
        "wall_seconds": wall_seconds,
        "ladder": None if plan.ladder is None else repr(plan.ladder),
        "stopped": watch.reason,
        "n_draws_asked": n_asked,
        "time_limit": watch.time_limit,
        "stop_when": None if watch.targets is None else repr(watch.targets),
    }
    forests = [chain[1] for chain in joined] if plan.keep_trees else None
    burn_forests = [chain[2] for chain in joined] if plan.keep_burn_trees else None
    tempering = None
    if plan.ladder is not None:
        swaps = np.stack([chain[0]["swaps"] for chain in joined])
        tempering = Tempering(np.array(temperatures), swaps, plan.n_burn)
    return Posterior(traces, header, forests, burn_forests, tempering)


def _join(segments, plan, n_trees):
    """Traces of all sweeps of a chain, its forests of kept draws and of the burn-in (each may be None)."""
    whole = {}
    for name in segments[0].traces:
        whole[name] = np.concatenate([part.traces[name] for part in segments])[: plan.n_sweeps]
    burn = [part for part in segments if part.in_burn]
    kept = [part for part in segments if not part.in_burn]
    forests = join_segments(kept, n_trees).forests if plan.keep_trees else None
    if forests is not None:
        forests = forests.first(plan.n_draws, n_trees)
    burn_forests = None
    if plan.keep_burn_trees:
        burn_forests = join_segments(burn, n_trees).forests if burn else Forests.join([], n_trees)
    return whole, forests, burn_forests


def _describe_sampler(sampler):
    """Its text, else its settings, else its class where they cannot be read off (only a checkpoint needs them)."""
    try:
        return format_sampler(sampler)
    except ValueError:
        pass
    try:
        return describe(sampler)
    except TypeError:
        return type(sampler).__qualname__
