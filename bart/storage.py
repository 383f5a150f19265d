"""Files: nested records of arrays and plain values as ``.npz`` without pickles, and atomic writing."""

import json
import os
import secrets
import time
import zipfile
import zlib
from contextlib import contextmanager

import numpy as np

try:
    import fcntl
except ImportError:     # as on Windows: no locks
    fcntl = None

__all__ = ["atomic_file", "folder_lock", "read_record", "reading", "write_record"]

_RECORD = "record"
# Files that hold a lock. A forked worker would share it, and keep it after its parent was killed.
_locked = set()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: [file.close() for file in _locked])

# What comes of records of another form.
_FOREIGN = (KeyError, IndexError, AttributeError, TypeError, OverflowError)


@contextmanager
def atomic_file(path, mode="wb"):
    """Open a temporary file beside `path` and rename it to `path` when the block ends without an error.

    A reader therefore sees the old file or the complete new one, never a part of it.

    Parameters
    ----------
    path : str or os.PathLike
        File to write; its folder must exist.
    mode : str
        "wb" or "w" (UTF-8).
    """
    folder, name = os.path.split(os.path.abspath(os.fspath(path)))
    temporary = os.path.join(folder, f".{name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, mode.replace("w", "x"), encoding=None if "b" in mode else "utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def write_record(path, record, compress=False):
    """Write a nested record to an ``.npz`` file, atomically.

    Parameters
    ----------
    path : str or os.PathLike
        File to write, used as it is (no suffix is added).
    record : dict
        Nested dicts, lists and tuples of None, bool, int, float, str, bytes, NumPy scalars and arrays (no
        object arrays). Everything is read back with its type and its bits.
    compress : bool
        Smaller files, some ten times slower to write.

    Raises
    ------
    TypeError
        A value that has no plain form; nothing is written.
    """
    arrays = {}
    text = json.dumps(_pack(record, arrays))
    arrays[_RECORD] = np.frombuffer(text.encode(), dtype=np.uint8)
    with atomic_file(path) as file:
        (np.savez_compressed if compress else np.savez)(file, **arrays)


def read_record(path):
    """Read what `write_record` wrote.

    Raises
    ------
    ValueError
        The file is not such a record, or is damaged.
    """
    try:
        with open(path, "rb") as file:
            if not zipfile.is_zipfile(file):        # else NumPy would speak of pickles, and how to load them
                raise ValueError("it is no .npz archive, or not a whole one")
        with np.load(path, allow_pickle=False) as file:
            if _RECORD not in file.files:
                raise ValueError("no record in it")
            arrays = {name: file[name] for name in file.files}
        return _unpack(json.loads(arrays[_RECORD].tobytes().decode()), arrays)
    except (ValueError, *_FOREIGN, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{os.fspath(path)!r} is not a file written by this package: {error}") from error


@contextmanager
def reading(path, trouble):
    """What a record lacks, or holds in another form, is a ValueError that names the file.

    Parameters
    ----------
    path : str or os.PathLike
    trouble : str
        What the file then is, after its name.
    """
    try:
        yield
    except _FOREIGN as error:
        raise ValueError(f"{os.fspath(path)!r} {trouble}: {error!r}") from error


@contextmanager
def folder_lock(folder, refusal, patience=0.0):
    """Keep other processes that ask for this lock out of a folder, which is made if need be.

    The lock ends with the process, however that ends. There is none without fcntl, or where the file system has none.

    Parameters
    ----------
    folder : str
    refusal : str
        Message of the error.
    patience : float
        Seconds to wait for another to let go.

    Raises
    ------
    RuntimeError
        Another holds the lock.
    """
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w", encoding="utf-8") as file:
        until = time.monotonic() + patience
        while fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise RuntimeError(refusal) from None
                time.sleep(0.1)
            except OSError:
                break
        _locked.add(file)
        try:
            yield
        finally:
            _locked.discard(file)


def _pack(value, arrays):
    if value is None or isinstance(value, (bool, str)) or type(value) in (int, float):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        return _pack_array(value, arrays)
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [_pack(item, arrays) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[_pack(key, arrays), _pack(item, arrays)] for key, item in value.items()]}
    raise TypeError(f"cannot store a {type(value).__name__}: {value!r}")


def _pack_array(value, arrays):
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise TypeError(f"cannot store an array of Python objects: {value!r}")
    name = f"a{len(arrays)}"
    arrays[name] = array
    return {"array" if isinstance(value, np.ndarray) else "scalar": name}


def _unpack(value, arrays):
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "array":
        return arrays[content]
    if kind == "scalar":
        return arrays[content][()]
    if kind == "bytes":
        return bytes.fromhex(content)
    if kind == "list":
        return [_unpack(item, arrays) for item in content]
    if kind == "tuple":
        return tuple(_unpack(item, arrays) for item in content)
    return {_unpack(key, arrays): _unpack(item, arrays) for key, item in content}
