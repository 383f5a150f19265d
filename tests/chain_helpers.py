"""What tests of chains share: small models, comparison to the last bit, child processes."""

import contextlib
import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import bart
from bart.record import Record


def make_data(n_rows=40, n_dims=3):
    rng = np.random.default_rng(5)
    X = rng.random((n_rows, n_dims))
    return X, 3.0 * (X[:, 0] > 0.4) + rng.normal(0.0, 0.3, n_rows)


def make_model(n_trees=4, n_rows=40, **options):
    return bart.Model(*make_data(n_rows), n_trees=n_trees, **options)


def assert_same(first, second):
    """Equal to the last bit: all traces but the times, all stored forests, swaps and temperatures."""
    for name in first.sweeps:
        if name != "seconds":
            np.testing.assert_array_equal(first.sweeps[name], second.sweeps[name], err_msg=name)
    for kind in ("forests", "burn_forests"):
        mine, other = getattr(first, kind), getattr(second, kind)
        assert (mine is None) == (other is None)
        for a, b in zip(mine or [], other or [], strict=True):
            assert a.nodes.tobytes() == b.nodes.tobytes() and a.starts.tobytes() == b.starts.tobytes()
    assert (first.tempering is None) == (second.tempering is None)
    if first.tempering is not None:
        np.testing.assert_array_equal(first.temperatures, second.temperatures)
        np.testing.assert_array_equal(first.tempering.swaps, second.tempering.swaps)


@contextlib.contextmanager
def interrupted_at(monkeypatch, cut):
    """KeyboardInterrupt after the `cut`-th segment of `sample` is recorded, which must come out of the block."""
    calls = []
    add = Record.add

    def cut_short(record, *arguments):
        add(record, *arguments)
        calls.append(None)
        if len(calls) == cut:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Record, "add", cut_short)
        with pytest.raises(KeyboardInterrupt):
            yield


def child_environment():
    """This process's environment, with the package under test first on the path of a child."""
    folder = str(Path(bart.__file__).resolve().parent.parent)
    paths = [path for path in sys.path if path and os.path.isdir(os.path.join(path, "bart"))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*(paths[:1] or [folder])])}


def wait_for(found, seconds=60.0):
    end = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)
