"""The files of the regression records, and the kind of machine and build that a trace hash belongs to."""

import json
import math
import os
import platform
import re
from pathlib import Path

import numpy as np
import scipy

from bart.kernels import sweep
from bart.storage import atomic_file

from .rows import N_SEEDS, QUANTITIES, ROWS

__all__ = ["FOLDER", "GoldenError", "load_hashes", "load_values", "machine_key", "save_hashes", "save_values"]

FOLDER = Path(__file__).resolve().parent
COMMAND = "python -m tests.golden.regress --write"
NOTE = "Printed by this package itself: a record for comparison, no proof of correctness."
DIGITS = 8
# Those by which glibc chooses among its versions of exp, log and pow, which differ in last bits.
_LIBM_FLAGS = ("avx2", "fma", "fma4")


class GoldenError(ValueError):
    """A file of regression records that cannot be used, and why."""


def machine_key():
    """Everything by which two builds may differ in the last bit of a trace, in one line.

    Returns
    -------
    str
        Architecture, CPU features (as the kernel names those the C library looks at, and as numpy found them),
        C library, compiler of the build in use, versions of Python, numpy and scipy.
    """
    libc = " ".join(platform.libc_ver()).strip() or f"{platform.system()} {platform.release()}"
    tunables = os.environ.get("GLIBC_TUNABLES")
    parts = [
        platform.machine(),
        *_cpu_features(),
        libc + (f" ({tunables})" if tunables else ""),
        _compiler(Path(sweep.__file__)),
        "python " + ".".join(platform.python_version_tuple()[:2]),
        f"numpy {np.__version__}",
        f"scipy {scipy.__version__}",
    ]
    return ", ".join(parts)


def _cpu_features():
    found = np.show_config(mode="dicts").get("SIMD Extensions", {}).get("found", [])
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    flags = next((line.split(":", 1)[1].split() for line in lines if line.startswith("flags")), [])
    return ["+".join(name for name in _LIBM_FLAGS if name in flags) or "no flags", "+".join(found) or "baseline"]


def _compiler(library):
    """Name and version of the compiler as it left them in a library."""
    found = re.search(rb"GCC: \([^)]*\) ([\d.]+)|(clang) version ([\d.]+)", library.read_bytes())
    if found is None:
        return "unknown compiler"
    return "gcc " + found[1].decode() if found[1] else "clang " + found[3].decode()


def load_values(folder=FOLDER, all_rows=True):
    """The stored values of all rows.

    Parameters
    ----------
    folder : str or os.PathLike
    all_rows : bool
        Refuse a record that does not hold just the rows of rows.py.

    Returns
    -------
    dict of dict of ndarray, shape (N_SEEDS,)
        By row and quantity.

    Raises
    ------
    GoldenError
        Naming the file and what is wrong with it.
    """
    path = Path(folder) / "ess.json"
    rows = _read(path).get("rows")
    if not isinstance(rows, dict) or (all_rows and set(rows) != set(ROWS)):
        names = sorted(set(rows) ^ set(ROWS)) if isinstance(rows, dict) else "rows"
        raise _unusable(path, f"it does not hold just the rows of rows.py, see {names}")
    found = {}
    for name, row in rows.items():
        if not isinstance(row, dict) or set(row) != set(QUANTITIES):
            raise _unusable(path, f"row {name!r} does not hold just {', '.join(QUANTITIES)}")
        for quantity, values in row.items():
            if not _are_numbers(values):
                raise _unusable(path, f"row {name!r}, {quantity}: not {N_SEEDS} finite numbers")
        found[name] = {quantity: np.array(row[quantity], dtype=float) for quantity in QUANTITIES}
    return found


def _are_numbers(values):
    if not isinstance(values, list) or len(values) != N_SEEDS:
        return False
    return all(type(value) in (int, float) and math.isfinite(value) for value in values)


def load_hashes(folder=FOLDER):
    """The stored trace hashes.

    Returns
    -------
    dict of dict of str
        By kind of machine (`machine_key`) and row; a machine may lack rows.

    Raises
    ------
    GoldenError
        Naming the file and what is wrong with it.
    """
    path = Path(folder) / "hashes.json"
    machines = _read(path).get("machines")
    if not isinstance(machines, dict):
        raise _unusable(path, "it holds no machines")
    for key, hashes in machines.items():
        if not isinstance(hashes, dict):
            raise _unusable(path, f"machine {key!r} holds no rows")
        for name, digest in hashes.items():
            if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
                raise _unusable(path, f"machine {key!r}, row {name!r}: {digest!r} is no SHA-256")
    return machines


def save_values(values, folder=FOLDER):
    """Write the values of all rows, one line a quantity, with where they come from."""
    rows = []
    for name, row in values.items():
        lines = [f'   "{key}": [{", ".join(f"{value:.{DIGITS}g}" for value in row[key])}]' for key in QUANTITIES]
        rows.append(f'  "{name}": {{\n' + ",\n".join(lines) + "\n  }")
    head = {"note": NOTE, "command": COMMAND, "machine": machine_key()}
    text = json.dumps(head, indent=1)[:-2] + ',\n "rows": {\n' + ",\n".join(rows) + "\n }\n}\n"
    _write(Path(folder) / "ess.json", text)


def save_hashes(machines, folder=FOLDER):
    """Write the trace hashes of all kinds of machines."""
    content = {"note": NOTE, "command": COMMAND, "machines": machines}
    _write(Path(folder) / "hashes.json", json.dumps(content, indent=1) + "\n")


def _write(path, text):
    with atomic_file(path, "w") as file:
        file.write(text)


def _read(path):
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        raise _unusable(path, "there is no such file") from None
    except (OSError, ValueError) as error:
        raise _unusable(path, f"not JSON ({error})") from None
    if not isinstance(content, dict):
        raise _unusable(path, "not an object")
    return content


def _unusable(path, why):
    return GoldenError(f"{path}: {why}; take the file from the repository, or write it anew with `make golden`")
