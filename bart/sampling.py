"""sample(): its arguments, and what becomes of them: several chains, watched, recorded, as one Posterior."""

import contextlib
import logging
import time
import warnings

import numpy as np

from .backfitting import STARTS
from .chain import START_KINDS, Chain, ChainPlan
from .checkpoints import CheckpointFolder
from .executors import check_executor, run_chains
from .inputs import check_choice, check_count, check_flag, check_real, check_seed
from .ladder import Ladder
from .model import Model
from .progress import Bar
from .record import Record, make_posterior
from .runs import stored_entropy, write_run
from .samplers.auto import resolve_sampler
from .samplers.compose import split_sampler
from .stopping import Watch, resolve_targets

__all__ = ["sample", "bytes_per_draw"]

_log = logging.getLogger(__name__)

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
    ladder=None,
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
        Kernel applied to each tree in each sweep; a Cycle may end with what acts between sweeps. A text is read by
        `parse_sampler`: "pg" is the paper's particle Gibbs. "auto": what `auto_sampler` chooses by the numbers of
        trees and rows.
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
    ladder : Ladder, optional
        Parallel tempering inside each chain, for few trees: its states count as one chain, a sweep is one of all
        of them, and traces and forests are those of the state under the posterior. Swap rates and temperatures:
        ``Posterior.swap_rates``, ``temperatures``, ``round_trips``. Refused for a model with latent variables, as of
        outcome="probit": they are drawn at t = 1.
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
    sampler = resolve_sampler(sampler, model)
    _check_ladder(ladder, model)
    plan = _plan(n_burn, n_draws, thin, init_leaves, tree_order, keep_trees, keep_burn_trees, ladder)
    progress = None if progress is None else check_flag(progress, "progress")
    n_chains, n_threads = check_count(n_chains, "n_chains", 1), check_count(n_threads, "n_threads", 1)
    executor = check_executor(executor)
    _check_steps(sampler)
    starts = _starts(init, init_leaves, n_chains, model.n_trees)
    watching = _watching(model, n_chains, time_limit, stop_when, callback, callback_every)
    _refuse_idle("checkpoint", checkpoint, checkpoint_every=checkpoint_every, checkpoint_sweeps=checkpoint_sweeps)
    _refuse_idle("callback", callback, callback_every=callback_every)
    checkpoint_every = check_real(60.0 if checkpoint_every is None else checkpoint_every, "checkpoint_every", 0)
    checkpoint_sweeps = None if checkpoint_sweeps is None else check_count(checkpoint_sweeps, "checkpoint_sweeps")
    seed = check_seed(seed)
    folder = None if checkpoint is None else CheckpointFolder(checkpoint)
    with contextlib.nullcontext() if folder is None else folder.lock():
        entropy = _entropy(seed, folder)
        seeds = np.random.SeedSequence(entropy).spawn(n_chains)
        chains = [Chain(model, sampler, plan, *pair, n_threads) for pair in zip(seeds, starts, strict=True)]
        record = Record(chains, folder, entropy, checkpoint_every, checkpoint_sweeps)
        if folder is not None:
            _write_settings(model, sampler, plan, record, init, n_threads, executor, watching["targets"])
        _report_size(model, plan, n_chains, watching)
        with Bar(progress, n_chains * plan.n_sweeps, "sweep", "sampling", record.n_swept) as bar:
            watch = Watch(record, plan, bar, began, **watching)
            run_chains(chains, executor, record, watch)
            watch.finish()
    if watch.shortfall():
        warnings.warn(f"stop_when is not met after {n_draws} draws: {'; '.join(watch.shortfall())}", stacklevel=2)
    return make_posterior(model, sampler, plan, starts, entropy, record, watch)


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


def _refuse_idle(name, value, **given):
    """What is given beside an argument that is not."""
    for idle, setting in given.items():
        if value is None and setting is not None:
            raise ValueError(f"{idle}={setting!r} has no effect without {name}")


def _plan(n_burn, n_draws, thin, init_leaves, tree_order, keep_trees, keep_burn_trees, ladder):
    """What each chain has to do, from arguments of `sample`."""
    return ChainPlan(
        n_burn=check_count(n_burn, "n_burn", 0),
        n_draws=check_count(n_draws, "n_draws", 1),
        thin=check_count(thin, "thin", 1),
        init_leaves=None if init_leaves is None else check_count(init_leaves, "init_leaves"),
        tree_order=check_choice(tree_order, "tree_order", ("sequential", "random")),
        keep_trees=check_flag(keep_trees, "keep_trees"),
        keep_burn_trees=check_flag(keep_burn_trees, "keep_burn_trees"),
        ladder=ladder,
    )


def _check_ladder(ladder, model):
    if not (ladder is None or isinstance(ladder, Ladder)):
        raise TypeError(f"ladder must be a Ladder or None, got {type(ladder).__name__}")
    if ladder is not None and model.outcome is not None:
        raise ValueError(f"ladder: parallel tempering is not exact with outcome={model.outcome.name!r}, whose latent "
                         "variables are drawn at t = 1; use ladder=None")


def _check_steps(sampler):
    split_sampler(sampler)
    if not callable(getattr(sampler, "step", None)):
        raise TypeError(f"sampler must have a step method, got {type(sampler).__name__}")


def _watching(model, n_chains, time_limit, stop_when, callback, callback_every):
    """What may end a run, as `Watch` takes it, from arguments of `sample`."""
    return {
        "time_limit": None if time_limit is None else check_real(time_limit, "time_limit", 0),
        "targets": resolve_targets(stop_when, model, n_chains),
        "callback": _check_callback(callback),
        "callback_every": check_real(1.0 if callback_every is None else callback_every, "callback_every", 0),
    }


def _check_callback(callback):
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be callable or None, got {callback!r}")
    return callback


def _write_settings(model, sampler, plan, record, init, n_threads, executor, targets):
    """Into the checkpoint's folder, what `resume` needs."""
    options = {
        "n_chains": len(record.segments),
        "seed": record.entropy,
        "init": init,
        "n_threads": n_threads,
        "executor": executor if isinstance(executor, int) else None,
        "checkpoint_every": record.every,
        "checkpoint_sweeps": record.every_sweeps,
        "stop_when": targets,
    }
    write_run(record.folder, model, sampler, plan, record.prints[0], options)


def _report_size(model, plan, n_chains, watching):
    """Log the memory that the run will take, and warn where it is much and nothing may end the run before."""
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
    may_end_early = any(watching[name] is not None for name in ("time_limit", "targets", "callback"))
    if forests + split > _WARN_BYTES and not may_end_early:
        advice = ["keep_trees=False or a larger thin saves memory"] if n_stored else []
        warnings.warn("; ".join([*parts, *advice]), stacklevel=3)


def _starts(init, init_leaves, n_chains, n_trees):
    """The start of each chain: a kind, or the structures of all trees."""
    if isinstance(init, str):
        check_choice(init, "init", ("dispersed", *STARTS))
        kinds = START_KINDS if init == "dispersed" else (init,)
    elif isinstance(init, (list, tuple)) and len(init):
        kinds = [_start(f"init[{place}]", entry, n_trees) for place, entry in enumerate(init)]
    else:
        raise TypeError(f"init must be a kind of start or a list of starts, got {init!r}")
    starts = [kinds[index % len(kinds)] for index in range(n_chains)]
    if init_leaves is not None and "overgrown" not in starts:
        raise ValueError(f"init_leaves={init_leaves} has no effect: no chain starts overgrown")
    return starts


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
