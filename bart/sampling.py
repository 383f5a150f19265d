"""sample(): several chains, on any executor, with progress and checkpoints."""

import concurrent.futures
import logging
import time
import warnings

import numpy as np

from .backfitting import STARTS
from .chain import START_KINDS, TRACES, Chain, ChainPlan, Forests, advance, join_segments
from .checkpoints import CheckpointFolder, describe, fingerprints
from .inputs import check_choice, check_count, check_flag, check_real
from .ladder import Tempering
from .model import Model
from .posterior import Posterior
from .progress import Bar
from .samplers.auto import resolve_ladder, resolve_sampler
from .samplers.compose import split_sampler
from .samplers.text import format_sampler

__all__ = ["sample", "bytes_per_draw"]

_log = logging.getLogger(__name__)

# Wall seconds of one segment: short where a return costs nothing, longer where the state is sent back and
# forth.
_SEGMENT_SECONDS = 0.25
_REMOTE_SEGMENT_SECONDS = 2.0
_WARN_BYTES = 1e9
_NODE_BYTES = 16


def sample(
    model,
    sampler="auto",
    n_burn=1000,
    n_draws=1000,
    n_chains=4,
    seed=None,
    init="dispersed",
    init_leaves=None,
    thin=1,
    tree_order="sequential",
    ladder="auto",
    keep_trees=True,
    keep_burn_trees=False,
    executor=None,
    n_threads=1,
    progress=None,
    checkpoint=None,
    checkpoint_every=60.0,
    checkpoint_sweeps=None,
):
    """Draw from the posterior of a model with several chains (Algorithm 1 of the paper in each).

    Chain i uses the generator PCG64DXSM seeded by ``SeedSequence(seed).spawn(n_chains)[i]``, so that its
    draws are a function of (seed, i) alone. `executor`, `n_threads`, `progress` and the checkpoint
    parameters change nothing in them.

    Parameters
    ----------
    model : Model
        Data and priors.
    sampler : str, or TreeSampler such as CGM, ParticleGibbs, Cycle, or an object with their ``step``
        Kernel applied to each tree in each sweep; a Cycle may end with JointLeaves. A text is read by
        `parse_sampler`: "pg" is the paper's particle Gibbs. "auto": what `auto_sampler` chooses by the numbers of
        trees, rows and columns.
    n_burn : int
        Sweeps of each chain before its first kept draw.
    n_draws : int
        Kept draws of EACH chain; the result holds ``n_chains * n_draws``.
    n_chains : int
        Number of chains.
    seed : int or sequence of int, optional
        Without one, entropy of the system, recorded in ``Posterior.seed``.
    init : str or list
        "dispersed", the default, takes the kinds "empty", "prior", "overgrown", "smc" in turn by number of the
        chain, so that R-hat compares chains from different places (one chain alone starts empty); one kind for all
        chains, these or "grow" (see `Ensemble`); or a list taken in turn, each entry a kind or a list of the
        structures of all trees (``None`` for a leaf, else ``(dim, code, left, right)``).
    init_leaves : int, optional
        Leaves a tree of the start "overgrown"; 4 by default.
    thin : int
        Sweeps a kept draw: a chain makes ``n_burn + n_draws * thin`` sweeps, and traces keep them all.
    tree_order : str
        "sequential", or "random": a fresh permutation of the trees in each sweep.
    ladder : Ladder, "auto" or None
        Parallel tempering inside each chain, for few trees: its states count as one chain, a sweep is one of all
        of them, and traces and forests are those of the state under the posterior. Swap rates and temperatures:
        ``Posterior.swap_rates``, ``temperatures``, ``round_trips``. "auto": the one that `auto_sampler` chooses
        beside its sampler, none with a sampler that is named here. None: no tempering.
    keep_trees : bool
        Store the forests of kept draws; without them the result cannot predict.
    keep_burn_trees : bool
        Store the forests of every `thin`-th sweep of the burn-in too.
    executor : int or concurrent.futures.Executor, optional
        None: one chain after the other. A number: so many threads. An executor of processes or of a
        cluster: chains travel to it and back in segments of about two seconds.
    n_threads : int
        Threads of EACH chain, which share the rows of a sweep where there are 65 536 or more. Chains on
        threads of their own (`executor`) use the processors better, where there are several chains.
    progress : bool, optional
        True: a tqdm progress bar. None: one if tqdm is installed and stderr is a terminal.
    checkpoint : str or os.PathLike, optional
        Folder of the checkpoint. A run that finds one there continues it, bit for bit as if it had not
        been cut; a finished one may be extended by a larger `n_draws`.
    checkpoint_every : float
        Seconds between two checkpoints of a chain.
    checkpoint_sweeps : int, optional
        Also a checkpoint every so many sweeps of a chain (rounded up to a multiple of `thin`).

    Returns
    -------
    Posterior
        ``Posterior.sampler`` and ``ladder`` say what made it.

    Raises
    ------
    ValueError, TypeError
        A bad argument, or a checkpoint of other data or settings, before any sweep.
    KeyboardInterrupt
        An interrupt; the last checkpoint stays.
    """
    if not isinstance(model, Model):
        raise TypeError(f"model must be a Model, got {type(model).__name__}")
    sampler, ladder = resolve_sampler(sampler, model), resolve_ladder(ladder, sampler, model)
    plan = ChainPlan(
        n_burn=check_count(n_burn, "n_burn", 0),
        n_draws=check_count(n_draws, "n_draws", 1),
        thin=check_count(thin, "thin", 1),
        init_leaves=None if init_leaves is None else check_count(init_leaves, "init_leaves"),
        tree_order=check_choice(tree_order, "tree_order", ("sequential", "random")),
        keep_trees=check_flag(keep_trees, "keep_trees"),
        keep_burn_trees=check_flag(keep_burn_trees, "keep_burn_trees"),
        ladder=ladder,
    )
    n_chains = check_count(n_chains, "n_chains", 1)
    n_threads = check_count(n_threads, "n_threads", 1)
    split_sampler(sampler)
    if not callable(getattr(sampler, "step", None)):
        raise TypeError(f"sampler must have a step method, got {type(sampler).__name__}")
    starts = _starts(init, n_chains, model.n_trees)
    if init_leaves is not None and "overgrown" not in starts:
        raise ValueError(f"init_leaves={init_leaves} has no effect: no chain starts overgrown")
    folder = None if checkpoint is None else CheckpointFolder(checkpoint)
    entropy = _entropy(seed, folder)
    seeds = np.random.SeedSequence(entropy).spawn(n_chains)
    chains = [Chain(model, sampler, plan, *pair, n_threads) for pair in zip(seeds, starts, strict=True)]
    record = _Record(chains, folder, entropy, checkpoint_every, checkpoint_sweeps)
    _report_size(model, plan, n_chains)
    with Bar(progress, n_chains * plan.n_sweeps, "sweep", "sampling", record.n_swept) as bar:
        _run(chains, executor, record, bar)
    return _posterior(model, sampler, plan, starts, entropy, record)


def bytes_per_draw(model):
    """Bytes that one stored forest takes, as expected under the tree prior.

    Parameters
    ----------
    model : Model

    Returns
    -------
    float
        16 bytes a node and 8 a tree; a tree has at most ``2 * n_rows - 1`` nodes.
    """
    at_depth, nodes, depth = 1.0, 0.0, 0
    largest = 2.0 * model.dataset.n_rows - 1.0
    while at_depth > 1e-6 and nodes < largest:
        nodes += at_depth
        at_depth *= 2.0 * float(model.tree_prior.p_split(depth))
        depth += 1
    return model.n_trees * (_NODE_BYTES * min(nodes, largest) + 8.0)


class _Record:
    """Segments of all chains as they come in, and their checkpoints."""

    def __init__(self, chains, folder, entropy, every, every_sweeps):
        if every_sweeps is not None:
            every_sweeps = check_count(every_sweeps, "checkpoint_sweeps")
        self.every_sweeps = every_sweeps
        self.folder = folder
        self.entropy = entropy
        self.every = check_real(every, "checkpoint_every", 0)
        self.n_trees = chains[0].model.n_trees
        self.segments = [[] for _ in chains]
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
            found = self.folder.read(index, self.prints[index])
            if found is not None:
                chain.set_state(found[0])
                self.segments[index] = found[1]
                self.n_written[index] = len(found[1])
        if self.n_swept:
            _log.info("continuing after %d sweeps from checkpoint %s", self.n_swept, self.folder.path)

    @property
    def n_swept(self):
        """Sweeps of all chains so far."""
        return sum(segment.n_sweeps for segments in self.segments for segment in segments)

    def add(self, index, chain, segment):
        """Take a segment of a chain, which stands right after it; write a checkpoint if one is due."""
        self.segments[index].append(segment)
        if self.folder is None:
            return
        new = self.segments[index][self.n_written[index] :]
        waited = time.monotonic() - self.last_write[index] >= self.every
        swept = self.every_sweeps is not None and sum(part.n_sweeps for part in new) >= self.every_sweeps
        if waited or swept or chain.is_done:
            self.folder.write(index, chain, new, self.prints[index], self.entropy, self.n_trees)
            self.n_written[index] = len(self.segments[index])
            self.last_write[index] = time.monotonic()


def _run(chains, executor, record, bar):
    if executor is None or isinstance(executor, (int, np.integer)):
        n_workers = 1 if executor is None else check_count(executor, "executor", 1)
        if n_workers == 1:
            _run_serial(chains, record, bar)
            return
        pool = concurrent.futures.ThreadPoolExecutor(min(n_workers, len(chains)))
        try:
            _run_pooled(chains, pool, _SEGMENT_SECONDS, record, bar)
        except BaseException:
            # Nothing is waited for: a thread ends with the tree that it is at.
            for chain in chains:
                chain.interrupt()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    elif callable(getattr(executor, "submit", None)):
        threads = isinstance(executor, concurrent.futures.ThreadPoolExecutor)
        seconds = _SEGMENT_SECONDS if threads else _REMOTE_SEGMENT_SECONDS
        _run_pooled(chains, executor, seconds, record, bar)
    else:
        raise TypeError(f"executor must be None, a number of workers or an Executor, got {executor!r}")


def _run_serial(chains, record, bar):
    for index, chain in enumerate(chains):
        while not chain.is_done:
            segment = chain.advance(_SEGMENT_SECONDS, record.every_sweeps)
            record.add(index, chain, segment)
            bar.update(segment.n_sweeps)


def _run_pooled(chains, pool, seconds, record, bar):
    chains = list(chains)
    limit = record.every_sweeps
    running = {}
    try:
        for index, chain in enumerate(chains):
            if not chain.is_done:
                running[pool.submit(advance, chain, seconds, limit)] = index
        while running:
            ready, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in ready:
                index = running.pop(future)
                chains[index], segment = future.result()
                record.add(index, chains[index], segment)
                bar.update(segment.n_sweeps)
                if not chains[index].is_done:
                    running[pool.submit(advance, chains[index], seconds, limit)] = index
    except BaseException:
        for future in running:
            future.cancel()
        raise


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


def _posterior(model, sampler, plan, starts, entropy, record):
    wall_seconds = [float(sum(part.wall_seconds for part in chain)) for chain in record.segments]
    temperatures = [chain[-1].temperatures for chain in record.segments]
    joined = []
    for index in range(len(starts)):
        joined.append(_join(record.segments[index], plan, model.n_trees))
        record.segments[index] = []  # the joined copy replaces the parts, which may be large
    traces = {name: np.stack([chain[0][name] for chain in joined]) for name in TRACES}
    data = model.dataset
    names = data.column_names
    header = {
        "n_trees": int(model.n_trees),
        "n_dims": int(data.n_dims),
        "column_names": None if names is None else tuple(names),
        "y_mid": float(data.y_mid),
        "y_range": float(data.y_range),
        "n_burn": plan.n_burn,
        "thin": plan.thin,
        "tree_order": plan.tree_order,
        "seed": entropy,
        "starts": [start if isinstance(start, str) else "given" for start in starts],
        "sampler": _describe_sampler(sampler),
        "priors": describe([model.tree_prior, model.leaf_prior, model.noise_prior]),
        "wall_seconds": wall_seconds,
        "ladder": None if plan.ladder is None else repr(plan.ladder),
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
    for name in plan.trace_names:
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


def _report_size(model, plan, n_chains):
    if not (plan.keep_trees or plan.keep_burn_trees):
        return
    each = bytes_per_draw(model)
    n_stored = n_chains * (plan.n_draws * plan.keep_trees + plan.n_burn // plan.thin * plan.keep_burn_trees)
    total = each * n_stored
    text = f"stored forests: about {each / 1e3:.3g} kB a draw, {total / 1e6:.3g} MB for {n_stored} draws"
    _log.info(text)
    if total > _WARN_BYTES:
        warnings.warn(text + "; keep_trees=False or a larger thin saves memory", stacklevel=3)


def _starts(init, n_chains, n_trees):
    if isinstance(init, str):
        check_choice(init, "init", ("dispersed", *STARTS))
        kinds = START_KINDS if init == "dispersed" else (init,)
    elif isinstance(init, (list, tuple)) and len(init):
        kinds = [_start(f"init[{place}]", entry, n_trees) for place, entry in enumerate(init)]
    else:
        raise TypeError(f"init must be a kind of start or a list of starts, got {init!r}")
    return [kinds[index % len(kinds)] for index in range(n_chains)]


def _start(name, entry, n_trees):
    if isinstance(entry, str):
        return check_choice(entry, name, STARTS)
    if not isinstance(entry, list) or len(entry) != n_trees:
        raise ValueError(f"{name} must be a kind of start or a list of {n_trees} structures, got {entry!r}")
    return entry


def _entropy(seed, folder):
    if seed is None:
        found = None if folder is None else folder.entropy()
        return np.random.SeedSequence().entropy if found is None else found
    if isinstance(seed, (list, tuple, np.ndarray)):
        return [check_count(entry, f"seed[{place}]", 0) for place, entry in enumerate(seed)]
    return check_count(seed, "seed", 0)
