"""Stored chains: one file each, found by the key of its description, data and kernels."""

import json
import os
import re
import shutil
import time
import zipfile
from dataclasses import dataclass

import numpy as np

from bart.storage import folder_lock, read_record

from .chains import ChainSpec

__all__ = ["MissingChains", "Store", "StoredChain"]

# A run that is being stopped may take so long to end. Without a lock two runs sample some chains twice, and lose none.
_LOCK_SECONDS = 5.0
# What `bart.storage.atomic_file` leaves where a process is killed while it writes.
_HALF_WRITTEN = re.compile(r"\..+\.npz\.\d+-[0-9a-f]{8}\.tmp")


class MissingChains(RuntimeError):
    """Chains that a table or figure needs are not in the store."""


@dataclass(frozen=True)
class StoredChain:
    """A chain read from the store.

    Attributes
    ----------
    spec : ChainSpec
    header : dict
        Seed, CPU and wall seconds, provenance.
    traces : dict of ndarray, shape (n_sweeps,)
        ``log_likelihood``, ``sigma``, ``n_leaves``, ``depth``, ``tree_changed``, ``root_changed``, ``seconds``,
        ``row_visits`` and, of the current draw in units of y squared, ``train_mse`` and ``test_mse``.
    f : ndarray of float32, shape (n_kept, N_POINTS), or None
        f at the test points, kept sweeps.
    train_fit, test_fit : ndarray, shape (n,), or None
        Mean of f over the kept sweeps.
    """

    spec: ChainSpec
    header: dict
    traces: dict
    f: np.ndarray | None = None
    train_fit: np.ndarray | None = None
    test_fit: np.ndarray | None = None

    def kept(self, name):
        """The trace after the burn-in."""
        return self.traces[name][self.spec.n_burn :]


class Store:
    """A folder of chains.

    Parameters
    ----------
    folder : str or os.PathLike
        Made when the first chain is written.

    Attributes
    ----------
    origins : dict
        Provenance of the chains read so far, each kind once, by its text.
    """

    def __init__(self, folder):
        self.folder = os.fspath(folder)
        self.origins = {}

    def path(self, spec):
        """The file of a chain."""
        name = f"{spec.sampler}-{spec.start}-{spec.data_seed}-{spec.chain}-{spec.key[:24]}.npz"
        return os.path.join(self.folder, spec.problem, name)

    def scratch(self, spec):
        """The folder of the checkpoint of a chain under way."""
        return os.path.join(self.folder, "under_way", spec.key[:24])

    def missing(self, specs):
        """The chains that have no file, or one that is cut, each once, in the order given."""
        return [spec for spec in unique(specs) if not zipfile.is_zipfile(self.path(spec))]

    def read(self, spec):
        """A stored chain.

        Returns
        -------
        StoredChain

        Raises
        ------
        MissingChains
            It is not there.
        ValueError
            The file is damaged; the message names it.
        """
        path = self.path(spec)
        try:
            record = read_record(path)
        except FileNotFoundError:
            raise MissingChains(f"no chain at {path}") from None
        except ValueError as error:
            raise ValueError(f"{error}: remove it and sample it again") from error
        if record["header"]["key"] != spec.key:
            raise ValueError(f"{path} holds another chain: remove it")
        origin = {name: value for name, value in record["header"]["provenance"].items() if name != "date"}
        self.origins.setdefault(json.dumps(origin, sort_keys=True), record["header"]["provenance"])
        fits = {name: record.get(name) for name in ("f", "train_fit", "test_fit")}
        return StoredChain(spec, record["header"], record["traces"], **fits)

    def read_all(self, specs):
        """Stored chains in the order given; raises as `read`."""
        return [self.read(spec) for spec in specs]

    def check(self, specs, command):
        """Raise MissingChains, naming the command that samples them, unless all chains are there."""
        missing = self.missing(specs)
        if missing:
            raise MissingChains(
                f"{len(missing)} of {len(unique(specs))} chains are not in {self.folder} for these kernels, data and"
                f" settings; sample them first: {command}"
            )

    def log(self, event, spec, **values):
        """Append a line to ``log.jsonl``: when a chain was begun and finished."""
        line = {
            "time": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime()),
            "event": event,
            "chain": os.path.relpath(self.path(spec), self.folder),
            **values,
        }
        with open(self._log_file, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    @property
    def _log_file(self):
        return os.path.join(self.folder, "log.jsonl")

    def finished(self):
        """Paths, relative to the folder, of the chains that the log knows as finished."""
        try:
            with open(self._log_file, encoding="utf-8") as file:
                lines = [_parsed(line) for line in file]
        except FileNotFoundError:
            return set()
        return {line["chain"] for line in lines if line.get("event") == "finished"}

    def tidy(self, specs):
        """After a run that was killed, under the lock: complete the log, remove what finished chains left behind."""
        if os.path.exists(self._log_file):
            with open(self._log_file, "rb+") as file:
                if file.read()[-1:] not in (b"", b"\n"):
                    file.write(b"\n")
        finished = self.finished()
        for spec in unique(specs):
            path = self.path(spec)
            if not zipfile.is_zipfile(path):
                continue
            if os.path.relpath(path, self.folder) not in finished:
                self.log("finished", spec)
            if os.path.exists(self.scratch(spec)):
                shutil.rmtree(self.scratch(spec), ignore_errors=True)
        under_way = os.path.join(self.folder, "under_way")
        for folder in {os.path.dirname(self.path(spec)) for spec in specs}:
            for name in os.listdir(folder) if os.path.isdir(folder) else []:
                if _HALF_WRITTEN.fullmatch(name):
                    os.unlink(os.path.join(folder, name))
        if os.path.isdir(under_way) and not os.listdir(under_way):
            os.rmdir(under_way)

    def lock(self):
        """Keep a second run out of the folder, see `folder_lock`."""
        return folder_lock(self.folder, f"another run is sampling into {self.folder}", _LOCK_SECONDS)


def _parsed(line):
    """A line of the log; an empty record for half a line, which a killed run may leave."""
    try:
        return json.loads(line)
    except ValueError:
        return {}


def unique(specs):
    """The specs of different chains, each once, in the order given: names of settings do not count."""
    return list({json.dumps(spec.record(), sort_keys=True): spec for spec in specs}.values())
