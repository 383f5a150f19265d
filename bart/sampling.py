"""sample(): several chains, on any executor, with progress and checkpoints."""

import collections
import concurrent.futures
import contextlib
import dataclasses
import logging
import time
import warnings

import numpy as np

from . import __version__
from .backfitting import STARTS
from .chain import START_KINDS, TRACES, Chain, ChainPlan, Forests, advance, join_segments
from .checkpoints import CheckpointFolder, data_digest, describe, fingerprints, plain_settings, row_texts
from .inputs import check_choice, check_count, check_flag, check_real, check_seed
from .ladder import Tempering
from .model import Model
from .outcomes import name_of
from .posterior import Posterior
from .progress import Bar
from .runs import stored_entropy, write_run
from .samplers.auto import resolve_ladder, resolve_sampler
from .samplers.compose import split_sampler
from .samplers.text import format_sampler
from .stopping import Watch, resolve_targets

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
    checkpoint_every=None,
    checkpoint_sweeps=None,
    callback=None,
    callback_every=None,
    time_limit=None,
    stop_when=None,
):
    """Draw from the posterior of a model with several chains (Algorithm 1 of the paper in each).

    Chain i uses the generator PCG64DXSM seeded by ``SeedSequence(seed).spawn(n_chains)[i]``, so that its
    draws are a function of (seed, i) alone. `executor`, `n_threads`, `progress` and the checkpoint
    parameters change nothing in them. `callback`, `time_limit` and `stop_when` decide how many there are: those that
    exist are the first ones of a run without them, as many in every chain.

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
        beside its sampler, none with a sampler that is named here. None: no tempering, the only choice (and what
        "auto" means) for a model with latent variables, as of outcome="probit": they are drawn at t = 1.
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
    checkpoint_every : float, optional
        Seconds between two checkpoints of a chain; 60 by default.
    checkpoint_sweeps : int, optional
        Also a checkpoint every so many sweeps of a chain (rounded up to a multiple of `thin`).
    callback : callable, optional
        Called in this thread with a `RunState`: sweeps and draws of each chain so far, traces, R-hat and ESS. It ends
        the run by returning True or raising `StopSampling`; None and False go on. Any other error ends `sample`, once
        the checkpoints are written; in the last call it is a warning.
    callback_every : float, optional
        Least number of seconds between two calls of it, > 0; 1 by default. However the run ends, unless by its own
        wish, it is called once more then.
    time_limit : float, optional
        Wall seconds of this call after which the run ends, > 0: at the next draw, within a tenth of a second or the
        time of one draw (with an executor of processes or of a cluster, of the segments under way).
    stop_when : Targets or dict of their parameters, optional
        R-hat and bulk ESS of named traces, by default sigma and log_likelihood, and k and theta where they have priors,
        at which the run ends, on all chains together, as in ``{"r_hat": 1.01, "ess_bulk": 400}``; needs ArviZ. Not
        reached within `n_draws`: a warning says by how much.

    Returns
    -------
    Posterior
        ``Posterior.sampler`` and ``ladder`` say what made it, ``stopped`` what ended it before `n_draws`.

    Raises
    ------
    ValueError, TypeError
        A bad argument, one without effect beside the others, or a checkpoint of other data or settings, before any
        sweep.
    RuntimeError
        `callback` or `time_limit` ended the run before every chain had a kept draw, and the checkpoint stays; or
        another run is under way in the folder `checkpoint`.
    ImportError
        An optional library is missing: tqdm for ``progress=True``, ArviZ for `stop_when`.
    KeyboardInterrupt
        An interrupt; the last checkpoint stays.
    """
    began = time.monotonic()
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
    if progress is not None:
        check_flag(progress, "progress")
    n_chains = check_count(n_chains, "n_chains", 1)
    n_threads = check_count(n_threads, "n_threads", 1)
    executor = _check_executor(executor)
    split_sampler(sampler)
    if not callable(getattr(sampler, "step", None)):
        raise TypeError(f"sampler must have a step method, got {type(sampler).__name__}")
    starts = _starts(init, n_chains, model.n_trees)
    if init_leaves is not None and "overgrown" not in starts:
        raise ValueError(f"init_leaves={init_leaves} has no effect: no chain starts overgrown")
    watching = {
        "time_limit": None if time_limit is None else check_real(time_limit, "time_limit", 0),
        "targets": resolve_targets(stop_when, model, n_chains),
        "callback": _check_callback(callback),
        "callback_every": check_real(1.0 if callback_every is None else callback_every, "callback_every", 0),
    }
    _refuse_idle("checkpoint", checkpoint, checkpoint_every=checkpoint_every, checkpoint_sweeps=checkpoint_sweeps)
    _refuse_idle("callback", callback, callback_every=callback_every)
    checkpoint_every = check_real(60.0 if checkpoint_every is None else checkpoint_every, "checkpoint_every", 0)
    if checkpoint_sweeps is not None:
        checkpoint_sweeps = check_count(checkpoint_sweeps, "checkpoint_sweeps")
    seed = check_seed(seed)
    folder = None if checkpoint is None else CheckpointFolder(checkpoint)
    with contextlib.nullcontext() if folder is None else folder.lock():
        entropy = _entropy(seed, folder)
        seeds = np.random.SeedSequence(entropy).spawn(n_chains)
        chains = [Chain(model, sampler, plan, *pair, n_threads) for pair in zip(seeds, starts, strict=True)]
        record = _Record(chains, folder, entropy, checkpoint_every, checkpoint_sweeps)
        if folder is not None:
            options = {"n_chains": n_chains, "seed": entropy, "init": init, "n_threads": n_threads}
            options["executor"] = executor if isinstance(executor, int) else None
            options |= {"checkpoint_every": record.every, "checkpoint_sweeps": record.every_sweeps}
            write_run(folder, model, sampler, plan, record.prints[0], {**options, "stop_when": watching["targets"]})
        may_end_early = any(part is not None for part in (time_limit, stop_when, callback))
        _report_size(model, plan, n_chains, may_end_early)
        with Bar(progress, n_chains * plan.n_sweeps, "sweep", "sampling", record.n_swept) as bar:
            watch = Watch(record, plan, bar, began, **watching)
            _run(chains, executor, record, watch)
            watch.finish()
    if watch.shortfall():
        warnings.warn(f"stop_when is not met after {n_draws} draws: {'; '.join(watch.shortfall())}", stacklevel=2)
    return _posterior(model, sampler, plan, starts, entropy, record, watch)


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


def _run(chains, executor, record, watch):
    if watch.look():
        return
    if not isinstance(executor, int):
        threads = isinstance(executor, concurrent.futures.ThreadPoolExecutor)
        seconds = _SEGMENT_SECONDS if threads else _REMOTE_SEGMENT_SECONDS
        _run_pooled(chains, executor, seconds, record, watch)
        return
    if executor == 1:
        _run_serial(chains, record, watch)
        return
    pool = concurrent.futures.ThreadPoolExecutor(min(executor, len(chains)))
    try:
        _run_pooled(chains, pool, _SEGMENT_SECONDS, record, watch)
    except BaseException:
        # Nothing is waited for: a thread ends with the tree that it is at.
        for chain in chains:
            chain.interrupt()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _run_serial(chains, record, watch):
    """Segments of the chains in turn, so that what looks at the run sees all of them."""
    waiting = collections.deque((index, chain) for index, chain in enumerate(chains) if not chain.is_done)
    while waiting:
        index, chain = waiting.popleft()
        segment = chain.advance(watch.seconds(_SEGMENT_SECONDS, len(chains)), record.every_sweeps)
        record.add(index, chain, segment)
        if watch.look(segment.n_sweeps):
            break
        if not chain.is_done:
            waiting.append((index, chain))
    if watch.reason:
        record.write_rest(chains)


def _run_pooled(chains, pool, seconds, record, watch):
    chains = list(chains)
    limit = record.every_sweeps
    running = {}

    def submit(index):
        running[pool.submit(advance, chains[index], watch.seconds(seconds, len(chains)), limit)] = index

    try:
        for index, chain in enumerate(chains):
            if not chain.is_done:
                submit(index)
        while running:
            ready, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in ready:
                index = running.pop(future)
                chains[index], segment = future.result()
                record.add(index, chains[index], segment)
                if watch.look(segment.n_sweeps):
                    _drop_waiting(running, pool)
                elif not chains[index].is_done:
                    submit(index)
        if watch.reason:
            record.write_rest(chains)
    except BaseException:
        for future in running:
            future.cancel()
        raise


def _drop_waiting(running, pool):
    """Take back segments that no worker has begun; those under way are waited for.

    Only of the standard library's pools: of another executor it is not known whether a call that was taken back runs,
    and with threads it would move the chain on.
    """
    if isinstance(pool, (concurrent.futures.ThreadPoolExecutor, concurrent.futures.ProcessPoolExecutor)):
        for future in list(running):
            if future.cancel():
                del running[future]


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


def _check_executor(executor):
    """A number of workers, 1 for None, or the Executor."""
    if executor is None:
        return 1
    if isinstance(executor, (int, np.integer)):
        return check_count(executor, "executor", 1)
    if not callable(getattr(executor, "submit", None)):
        raise TypeError(f"executor must be None, a number of workers or an Executor, got {executor!r}")
    return executor


def _refuse_idle(name, value, **given):
    """What is given beside an argument that is not."""
    for idle, setting in given.items():
        if value is None and setting is not None:
            raise ValueError(f"{idle}={setting!r} has no effect without {name}")


def _check_callback(callback):
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be callable or None, got {callback!r}")
    return callback


def _posterior(model, sampler, plan, starts, entropy, record, watch):
    n_asked, plan = plan.n_draws, dataclasses.replace(plan, n_draws=watch.n_draws)
    wall_seconds = [float(sum(part.wall_seconds for part in chain)) for chain in record.segments]
    temperatures = [chain[-1].temperatures for chain in record.segments]
    joined = []
    for index in range(len(starts)):
        joined.append(_join(record.segments[index], plan, model.n_trees))
        record.segments[index] = []  # the joined copy replaces the parts, which may be large
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
        "data": data_digest(model),
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


def _report_size(model, plan, n_chains, may_end_early):
    each = bytes_per_draw(model)
    n_stored = n_chains * (plan.n_draws * plan.keep_trees + plan.n_burn // plan.thin * plan.keep_burn_trees)
    forests, split, parts = each * n_stored, 0.0, []
    if n_stored:
        parts.append(f"stored forests: about {each / 1e3:.3g} kB a draw, {forests / 1e6:.3g} MB for {n_stored} draws")
    if "split_probabilities" in model.trace_names:
        split = 8.0 * model.dataset.n_dims * n_chains * plan.n_sweeps
        parts.append(f"traces of split probabilities: {split / 1e6:.3g} MB for {n_chains * plan.n_sweeps} sweeps")
    if parts:
        _log.info("; ".join(parts))
    if forests + split > _WARN_BYTES and not may_end_early:
        advice = ["keep_trees=False or a larger thin saves memory"] if n_stored else []
        warnings.warn("; ".join([*parts, *advice]), stacklevel=3)


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
    if seed is not None:
        return seed
    found = None if folder is None else stored_entropy(folder)
    return np.random.SeedSequence().entropy if found is None else found
