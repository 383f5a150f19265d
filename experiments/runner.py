"""Sampling of the chains that are not in the store yet, on several processes."""

import concurrent.futures
import concurrent.futures.process
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
import time

from bart.progress import Bar

from .chains import run_chain
from .store import unique

__all__ = ["run_missing"]

_LINE_SECONDS = 30.0


def run_missing(store, specs, n_jobs=None, progress=None):
    """Sample the chains that the store does not have, the longest first.

    Parameters
    ----------
    store : Store
    specs : list of ChainSpec
    n_jobs : int, optional
        Processes; default: the number of CPUs. Changes no result but the times.
    progress : bool, optional
        None: a bar with an estimate of the time left where stderr is a terminal, else a line now and then.
        False: nothing.

    Returns
    -------
    dict
        ``n_sampled`` and ``n_stored`` chains, ``cpu_seconds`` of the sampled chains' sweeps, ``wall_seconds``.

    Raises
    ------
    RuntimeError
        A chain failed (the message names it), or another run is at work in this store.
    """
    began = time.perf_counter()
    with store.lock():
        store.tidy(specs)
        missing = sorted(store.missing(specs), key=lambda spec: -spec.cost)
        for folder in {os.path.dirname(store.path(spec)) for spec in missing}:
            os.makedirs(folder, exist_ok=True)
        with _Progress(missing, progress) as bar:
            cpu_seconds = _run(store, missing, n_jobs or os.cpu_count() or 1, bar)
        store.tidy(missing)
    return {
        "n_sampled": len(missing),
        "n_stored": len(unique(specs)) - len(missing),
        "cpu_seconds": cpu_seconds,
        "wall_seconds": time.perf_counter() - began,
    }


def _run(store, missing, n_jobs, bar):
    cpu_seconds = 0.0
    queue = iter(missing)
    running = {}
    pool = concurrent.futures.ProcessPoolExecutor(max(1, min(n_jobs, len(missing))), initializer=_begin_worker)
    try:
        while True:
            # A few in advance, so that the log says what was really under way when a run is killed.
            while len(running) < n_jobs + 1 and (spec := next(queue, None)) is not None:
                store.log("begun", spec)
                running[pool.submit(run_chain, spec, store.path(spec), store.scratch(spec))] = spec
            if not running:
                break
            done, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                spec = running.pop(future)
                try:
                    header = future.result()
                except concurrent.futures.process.BrokenProcessPool:
                    raise
                except Exception as error:
                    raise RuntimeError(f"{store.path(spec)} failed: {error!r}") from error
                store.log("finished", spec, cpu_seconds=round(header["cpu_seconds"], 3))
                cpu_seconds += header["cpu_seconds"]
                bar.finish(spec)
    except BaseException as error:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()
        if isinstance(error, concurrent.futures.process.BrokenProcessPool):
            text = "a worker process was killed (out of memory?); the same command goes on from here"
            raise RuntimeError(text) from error
        raise
    pool.shutdown()
    return cpu_seconds


def _begin_worker():
    """Leave Ctrl-C to the parent, and end with it, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()

    def watch():
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class _Progress:
    """A bar over the estimated work, or a line every half minute, with the time left."""

    def __init__(self, missing, progress):
        self.costs = {spec: spec.cost for spec in missing}
        self.total = sum(self.costs.values())
        self.done, self.shown, self.n_done = 0.0, 0, 0
        self.began = self.last = time.monotonic()
        is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self.prints = progress is None and not is_terminal and bool(missing)
        self.bar = Bar(False if self.prints or not missing else progress, round(self.total), "CPU-s", "chains")

    def finish(self, spec):
        """Count a chain."""
        self.done += self.costs[spec]
        self.n_done += 1
        self.bar.update(round(self.done) - self.shown)
        self.shown = round(self.done)
        now = time.monotonic()
        if self.prints and (now - self.last > _LINE_SECONDS or self.n_done == len(self.costs)):
            self.last = now
            left = (now - self.began) * (self.total - self.done) / self.done
            text = f"{self.n_done} of {len(self.costs)} chains, {(now - self.began) / 60:.1f} min"
            print(f"{text}, about {left / 60:.1f} min left", file=sys.stderr, flush=True)

    def __enter__(self):
        self.bar.__enter__()
        return self

    def __exit__(self, *error):
        self.bar.__exit__(*error)
