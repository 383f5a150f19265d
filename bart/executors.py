"""Chains in segments: one after the other, on threads, or on any executor."""

import collections
import concurrent.futures

import numpy as np

from .chain import advance
from .inputs import check_count

__all__ = ["check_executor", "run_chains"]

# Wall seconds of one segment: short where a return costs nothing, longer where the state is sent back and
# forth.
_SEGMENT_SECONDS = 0.25
_REMOTE_SEGMENT_SECONDS = 2.0


def check_executor(executor):
    """A number of workers, 1 for None, or the Executor."""
    if executor is None:
        return 1
    if isinstance(executor, (int, np.integer)):
        return check_count(executor, "executor", 1)
    if not callable(getattr(executor, "submit", None)):
        raise TypeError(f"executor must be None, a number of workers or an Executor, got {executor!r}")
    return executor


def run_chains(chains, executor, record, watch):
    """Run chains to their ends, or until the watch ends the run.

    Parameters
    ----------
    chains : list of Chain
    executor : int or concurrent.futures.Executor
        As `check_executor` gives it.
    record : Record
        Takes the segments.
    watch : Watch
        Looks at the run after each of them.
    """
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
