"""Checkpoints: parts of finished sweeps, the exact state after them, and the fingerprint of what was run.

A checkpoint is a folder. Of each chain it holds ``chain-i-part-k.npz``, the traces and forests of consecutive
sweeps, and ``chain-i-state.npz``, the state after the last of its parts. Parts are written first and the
state replaces the former one, so a cut at any moment leaves a usable folder.
"""

import dataclasses
import hashlib
import os

import numpy as np

from .chain import Forests, Segment, join_segments
from .storage import folder_lock, read_record, reading, write_record

__all__ = ["CheckpointFolder", "data_digest", "describe", "fingerprints", "plain_settings", "row_texts"]

_FORMAT = 3


def describe(value):
    """A text, equal for equal settings: of plain values, arrays, dataclasses, objects with attributes.

    Raises
    ------
    TypeError
        An object whose settings cannot be read off.
    """
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return repr(value)
    if isinstance(value, np.generic):
        return repr(value.item())
    if isinstance(value, np.ndarray):
        data = np.ascontiguousarray(value)
        return f"array({data.dtype.str}, {data.shape}, {hashlib.sha256(data.reshape(-1).view(np.uint8)).hexdigest()})"
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(describe(item) for item in value) + ")"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {describe(item)}" for key, item in value.items()) + "}"
    if dataclasses.is_dataclass(value):
        pairs = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return type(value).__qualname__ + describe(pairs)
    if type(value).__repr__ is not object.__repr__ and " at 0x" not in repr(value):
        return repr(value)
    if getattr(value, "__dict__", None):
        return type(value).__qualname__ + describe(vars(value))
    raise TypeError(f"the settings of {value!r} cannot be read off: its class needs a __repr__ with them")


def plain_settings(value):
    """Settings as None, booleans, numbers, texts, lists and dicts of them; what is none of these as `describe` says."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain_settings(item) for item in value]
    if dataclasses.is_dataclass(value):
        return {field.name: plain_settings(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return describe(value)


def row_texts(data):
    """What a run keeps of a Dataset's offsets and weights of rows: which they were; None without."""
    found = {"row_offset": data.offset, "weights": data.weights}
    return {name: describe(value) if isinstance(value, np.ndarray) else None for name, value in found.items()}


def _digest(*values):
    return hashlib.sha256("\n".join(describe(value) for value in values).encode()).hexdigest()


def data_digest(model):
    """A digest of X, y, and the offsets and weights of rows."""
    data = model.dataset
    rows = [data.X, data.y]
    # Only where there are any, as it was before there could be; a number of an outcome's own is y_mid.
    if data.offset is not None and not (model.outcome is not None and isinstance(data.offset, float)):
        rows.append(data.offset)
    if data.weights is not None:
        rows.append({"weights": data.weights})
    return _digest(*rows)


def fingerprints(model, sampler, plan, entropy, starts):
    """For each chain, digests of all that its draws depend on, the number of draws apart.

    Parameters
    ----------
    starts : list
        Start of each chain, a kind or the structures of its trees.

    Returns
    -------
    list of dict of str
        Keys "data", "model", "sampler", "run", "seed" and "start".
    """
    data = model.dataset
    priors = list(model.priors)
    if model.outcome is not None:           # else as it was before there were others, for the files of that time
        priors.append(model.outcome)
    common = {
        "data": data_digest(model),
        "model": _digest(model.n_trees, *priors, data.y_mid, data.y_range),
        "sampler": _digest(sampler),
        "run": _digest(dataclasses.replace(plan, n_draws=1, init_leaves=None)),
        "seed": _digest(entropy),
    }
    return [{**common, "start": _digest(start, plan.init_leaves)} for start in starts]


class CheckpointFolder:
    """The files of one run.

    Parameters
    ----------
    path : str or os.PathLike
        Folder; made by the first checkpoint if it does not exist.

    Raises
    ------
    ValueError
        `path` is a file.
    """

    def __init__(self, path):
        self.path = os.fspath(path)
        if os.path.exists(self.path) and not os.path.isdir(self.path):
            raise ValueError(f"checkpoint must be a folder, {self.path!r} is a file")
        self._n_parts = {}

    def lock(self):
        """Keep a second run out of the folder, see `folder_lock`."""
        return folder_lock(self.path, f"checkpoint: another run is under way in {self.path!r}")

    def _part_file(self, index, part):
        return os.path.join(self.path, f"chain-{index:03d}-part-{part:05d}.npz")

    def _state_file(self, index):
        return os.path.join(self.path, f"chain-{index:03d}-state.npz")

    def entropy(self):
        """The seed recorded by an earlier run in this folder, or None."""
        names = os.listdir(self.path) if os.path.isdir(self.path) else []
        states = sorted(name for name in names if name.endswith("-state.npz"))
        if not states:
            return None
        file = os.path.join(self.path, states[0])
        with reading(file, "is damaged"):
            return read_record(file)["entropy"]

    def write(self, index, chain, segments, prints, entropy, n_trees):
        """Add the sweeps since the last call, and replace the state.

        Parameters
        ----------
        index : int
            Number of the chain.
        chain : Chain
            The chain, right after the last of `segments`.
        segments : list of Segment
        prints : dict
            Its `fingerprints`.
        entropy : int or list of int
        n_trees : int
        """
        os.makedirs(self.path, exist_ok=True)
        part = self._n_parts.get(index, 0)
        for in_burn in (True, False):
            phase = [segment for segment in segments if segment.in_burn == in_burn]
            if phase:
                write_record(self._part_file(index, part), _segment_record(join_segments(phase, n_trees)))
                part += 1
        record = {
            "format": _FORMAT,
            "fingerprint": prints,
            "entropy": entropy,
            "n_parts": part,
            "state": chain.get_state(),
        }
        write_record(self._state_file(index), record)
        self._n_parts[index] = part

    def read(self, index, prints, n_trees, thin):
        """State and segments of a chain, or None if it has not been begun.

        Parameters
        ----------
        index : int
            Number of the chain.
        prints : dict
            Its `fingerprints`.
        n_trees, thin : int
            Of the run.

        Raises
        ------
        ValueError
            The files belong to other data or settings, which the message names, or not to one another.
        """
        if not os.path.exists(self._state_file(index)):
            return None
        record = read_record(self._state_file(index))
        with reading(self._state_file(index), "is damaged"):
            if record["format"] != _FORMAT:
                raise ValueError(f"checkpoint: {self.path!r} has format {record['format']}, not {_FORMAT}")
            named = {"run": "run settings (sweeps of the burn-in, thinning, ...)"}
            other = [named.get(name, name) for name in prints if record["fingerprint"].get(name) != prints[name]]
            if other:
                raise ValueError(
                    f"checkpoint: chain {index} in {self.path!r} was run with other {' and other '.join(other)};"
                    " resume with the same, or use another folder"
                )
            files = [self._part_file(index, part) for part in range(record["n_parts"])]
            segments = [_read_segment(file, n_trees, thin) for file in files]
            n_swept, n_done = sum(segment.n_sweeps for segment in segments), record["state"]["n_done"]
            if n_swept != n_done:
                raise ValueError(
                    f"checkpoint: the parts of chain {index} in {self.path!r} hold {n_swept} sweeps, its state comes"
                    f" after {n_done}: two runs wrote there, or a file was replaced"
                )
            self._n_parts[index] = record["n_parts"]
            return record["state"], segments


def _segment_record(segment):
    forests = segment.forests
    return {
        "traces": segment.traces,
        "nodes": None if forests is None else forests.nodes,
        "starts": None if forests is None else forests.starts,
        "in_burn": segment.in_burn,
        "wall_seconds": segment.wall_seconds,
        "temperatures": segment.temperatures,
    }


def _read_segment(path, n_trees, thin):
    record = read_record(path)
    with reading(path, "is damaged"):
        forests = None if record["nodes"] is None else Forests(record["nodes"], record["starts"])
        rest = (record[name] for name in ("in_burn", "wall_seconds", "temperatures"))
        segment = Segment(record["traces"], forests, *rest)
        n_stored = segment.n_sweeps // thin * n_trees
        if (any(len(trace) != segment.n_sweeps for trace in segment.traces.values())
                or forests is not None and not (forests.is_whole and len(forests.starts) == n_stored + 1)):
            raise ValueError(f"checkpoint: {path!r} is damaged")
        return segment
