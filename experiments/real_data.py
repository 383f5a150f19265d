"""Real data sets: the paper's three, stand-ins for them, and scikit-learn's diabetes data.

A set is looked for in the folder that the environment variable PGBART_DATA names: first in its `exp-data.zip`
(the splits of Johnson & Zhang, 2011, which the paper used), then as the original file in a folder of its own.
Else it is taken from pooch's cache, into which it is downloaded where asked.
"""

import gzip
import os
import re
import zipfile
import zlib
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from importlib.util import find_spec
from io import TextIOWrapper

import numpy as np

from .problems import Problem, data_generator
from .real_sources import PAPER_SETS, SOURCES, STAND_INS

__all__ = ["NAMES", "PAPER_SETS", "STAND_INS", "DataNotAvailable", "available", "load", "sources"]

NAMES = tuple(SOURCES)
ARCHIVE = "exp-data.zip"
CACHE = "cache"
SPLITS = (1, 2, 3)
WHOLE = "all"


class DataNotAvailable(FileNotFoundError):
    """A data set is not at hand; the message names the file, where to get it and where to put it."""


def sources():
    """The data sets that `load` knows.

    Returns
    -------
    tuple of Source
    """
    return tuple(SOURCES.values())


def available(name):
    """Where `load` would read a data set without a download.

    Parameters
    ----------
    name : str

    Returns
    -------
    str
        ``exp-data.zip``, ``PGBART_DATA`` (the original file in it), ``cache`` (an earlier download),
        ``scikit-learn``, or empty: nowhere.

    Raises
    ------
    ValueError
        No such name, or a damaged zip file.
    """
    source = _source(name)
    if not source.file:
        return "scikit-learn" if find_spec("sklearn") else ""
    if _archive_members(source, 1):
        return ARCHIVE
    return "PGBART_DATA" if _original(source) else CACHE if _is_cached(source) else ""


def load(name, split, download=False):
    """A real data set, with one of its three training sets and its test set.

    Parameters
    ----------
    name : str
        Of `PAPER_SETS` or `STAND_INS`, or "diabetes".
    split : int or "all"
        1, 2 or 3; "all": of an original file (neither "diabetes" nor ``exp-data.zip``), every row that is not in the
        test set.
    download : bool
        Download an original of the paper (through pooch) where neither PGBART_DATA nor pooch's cache has it.

    Returns
    -------
    Problem
        Contiguous float64 arrays, shapes (n_train, n_dims), (n_train,), (n_test, n_dims), (n_test,) of its
        `Source`; `seed` is the split, 0 for "all"; `note` says whether the rows are the paper's or drawn here. The
        test rows are the same in all splits, but for "diabetes".

    Raises
    ------
    DataNotAvailable
        Neither PGBART_DATA, nor the cache, nor a download has it.
    ValueError
        No such name or split; a file that is cut, damaged, or not what it should be.
    """
    source = _source(name)
    if split not in SPLITS and (split != WHOLE or not source.file):
        raise ValueError(f"split: expected 1, 2 or 3{' or all' * bool(source.file)}, got {split!r}")
    if not source.file:
        return _diabetes(source, split)
    members = None if split == WHOLE else _archive_members(source, split)
    if members:
        return _from_archive(source, split, members)
    place = _original(source)
    if place is None and (_is_cached(source) or (download and source.download)):
        place = _downloaded(source)
    if place is None:
        raise DataNotAvailable(_missing(source))
    table = _table(source, *place)
    if name == "CTslices":
        _check_head(table, place[0])
    train, test = _rows(source, split)
    X, y = table[:, slice(*source.x)], table[:, source.y]
    drawn = "all rows but those for testing" if split == WHOLE else _drawn(source)
    return _problem(source, split, X[train], y[train], X[test], y[test], f"{source.note}; {drawn}")


def _source(name):
    if name not in SOURCES:
        raise ValueError(f"no data set {name!r}: expected one of {', '.join(SOURCES)}")
    return SOURCES[name]


def _problem(source, split, X_train, y_train, X_test, y_test, note):
    arrays = [np.array(part, dtype=np.float64, order="C") for part in (X_train, y_train, X_test, y_test)]
    return Problem(source.name, *arrays, seed=0 if split == WHOLE else split, note=note)


def _diabetes(source, split):
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True, scaled=False)
    order = data_generator(source.name, split).permutation(len(y))
    test, train = order[: source.n_test], order[source.n_test :]
    note = f"{source.note}; each split draws its {source.n_test} test rows anew and trains on the others"
    return _problem(source, split, X[train], y[train], X[test], y[test], note)


# Rows of the splits


def _pool(source):
    return source.shape[0] - source.n_test


def _rows(source, split):
    """Training and test rows of a split: disjoint training sets where the rows suffice for three; "all" of them."""
    size = source.n_train
    if source.last_rows_test:
        pool, test = data_generator(source.name).permutation(_pool(source)), np.arange(_pool(source), source.shape[0])
    else:
        order = data_generator(source.name).permutation(source.shape[0])
        pool, test = order[source.n_test :], order[: source.n_test]
    if split == WHOLE:
        return pool, test
    if len(SPLITS) * size <= len(pool):
        return pool[size * (split - 1) : size * split], test
    return data_generator(source.name, split).permutation(pool)[:size], test


def _drawn(source):
    pool, size = _pool(source), source.n_train
    sets = f"disjoint training sets of {size}" if 3 * size <= pool else f"overlapping training sets of {size} of {pool}"
    tested = f"the last {source.n_test} rows for testing" if source.last_rows_test else f"{source.n_test} test rows"
    return f"{tested} and three {sets}, drawn here from a fixed seed: not the paper's splits"


# Where a file is


def _folder():
    return os.environ.get("PGBART_DATA", "")


def _missing(source):
    where = f"PGBART_DATA ({_folder() or 'not set'})"
    text = f"{source.name}: no file {source.file} in the folder that {where} names. Get it from {source.url}"
    number = re.search(r"public/(\d+)/", source.url)
    text += f" (UCI archive number {number[1]})" if number else ""
    text += f" and put it at {os.path.join(_folder() or '$PGBART_DATA', source.file)}"
    if source.cut:
        text += f"; its first {source.shape[0]} rows are enough"
    if number and source.download:
        text += " (or the zip file, as it is, in the same folder)"
    if source.download:
        text += f"; or ask for the download; or put Johnson & Zhang's {ARCHIVE}, which has the paper's splits, there"
    return text


def _original(source):
    """Path of the original under PGBART_DATA, and members on the way to it where it is in a zip; else None."""
    if not _folder():
        return None
    path = os.path.join(_folder(), source.file)
    if os.path.isfile(path):
        return path, ()
    folder = os.path.dirname(path)
    if source.download and os.path.isdir(folder):
        for name in sorted(os.listdir(folder)):
            if name.lower().endswith(".zip"):
                return _in_zip(source, os.path.join(folder, name))
    return None


def _in_zip(source, path):
    wanted = os.path.basename(source.file)
    found = _members(path, re.compile(rf"(^|/){re.escape(wanted)}$"))
    if len(found) != 1:
        raise ValueError(f"{path}: expected one file {wanted} in it, found {len(found)}")
    return path, found[0]


def _cache_name(source):
    return "cal_housing.tgz" if source.member else source.url.rsplit("/", 1)[1]


def _is_cached(source):
    """Whether an earlier download is in pooch's cache."""
    if not source.download:
        return False
    try:
        import pooch
    except ImportError:
        return False
    return os.path.isfile(os.path.join(pooch.os_cache("pgbart"), _cache_name(source)))


def _downloaded(source):
    """Place of the original in pooch's cache, where it is fetched to if it is not there."""
    try:
        import pooch
    except ImportError:
        raise ImportError("a download needs pooch: pip install 'pgbart[data]'") from None
    hashed = f"sha256:{source.sha256}" if source.sha256 else None
    unpack = pooch.Untar(members=[source.member]) if source.member else None
    try:
        got = pooch.retrieve(
            source.url, known_hash=hashed, fname=_cache_name(source), path=pooch.os_cache("pgbart"), processor=unpack
        )
    except OSError as error:
        raise DataNotAvailable(f"{_missing(source)}. The download failed: {error}") from error
    return (got[0], ()) if source.member else _in_zip(source, got)


# The archive of the paper's splits


def _archive_members(source, split):
    """Members for training x and y, test x and y of a split, or None: no archive, or not this set in it."""
    path = os.path.join(_folder(), ARCHIVE)
    if not (_folder() and source.prefixes and os.path.isfile(path)):
        return None
    starts = "|".join(source.prefixes)
    parts = [(rf"({starts})_?0?{split}", "train.x"), (rf"({starts})_?0?{split}", "train.y")]
    parts += [(rf"({starts})", "test.x"), (rf"({starts})", "test.y")]
    found = [_members(path, re.compile(rf"(^|/){start}\.{end}$", re.IGNORECASE)) for start, end in parts]
    if not any(found):
        return None
    for members, (_, end) in zip(found, parts, strict=True):
        if len(members) != 1:
            what = f"{source.prefixes[0]}{f'_0{split}' if 'train' in end else ''}.{end}"
            raise ValueError(f"{path}: expected one member like {what} for {source.name}, found {len(members)}")
    return [members[0] for members in found]


def _from_archive(source, split, members):
    path = os.path.join(_folder(), ARCHIVE)
    shapes = [(source.n_train, source.n_dims), (source.n_train, 1), (source.n_test, source.n_dims), (source.n_test, 1)]
    parts = [_numbers(path, part, _stamp(path), shape, None, ()) for part, shape in zip(members, shapes, strict=True)]
    note = f"{source.name} with the paper's splits (Johnson & Zhang 2011), read as it is from {ARCHIVE}"
    return _problem(source, split, parts[0], parts[1][:, 0], parts[2], parts[3][:, 0], note)


# Reading and checking


def _table(source, path, members):
    table = _numbers(path, members, _stamp(path), source.shape, ",", source.header, source.cut)
    low, high = source.target_range
    wrong = np.flatnonzero((table[:, source.y] < low) | (table[:, source.y] > high))
    if len(wrong):
        value, line = table[wrong[0], source.y], wrong[0] + 1 + bool(source.header)
        raise ValueError(f"{_label(path, members)}: line {line}: target {value:g} is outside {low:g} to {high:g}")
    return table


def _check_head(table, path):
    head = SOURCES["ct_slices_head"]
    place = _original(head)
    if place:
        known = _table(head, *place)
        if not np.array_equal(table[: len(known)], known):
            raise ValueError(f"{path}: its first {len(known)} rows are not those of {place[0]}")


def _stamp(path):
    return os.stat(path).st_mtime_ns


def _label(path, members):
    return f"{path} ({'/'.join(members)})" if members else path


def _members(path, pattern):
    """Members of a zip file whose names match, as paths through the zip files inside it: UCI nests them."""

    def search(file, above):
        with zipfile.ZipFile(file) as archive:
            for name in archive.namelist():
                if pattern.search(name):
                    yield (*above, name)
                elif name.lower().endswith(".zip"):
                    with archive.open(name) as inner:
                        yield from search(inner, (*above, name))

    try:
        return list(search(path, ()))
    except (zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: cut or damaged ({error})") from error


@contextmanager
def _text(path, members):
    with ExitStack() as stack:
        file = stack.enter_context(gzip.open(path) if path.endswith(".gz") else open(path, "rb"))
        for member in members:
            file = stack.enter_context(stack.enter_context(zipfile.ZipFile(file)).open(member))
        yield stack.enter_context(TextIOWrapper(file, encoding="utf-8", errors="replace"))


@lru_cache(maxsize=6)
def _numbers(path, members, stamp, shape, delimiter, header, cut=False):
    """The numbers of a file as a read-only array of this shape; `stamp` tells versions of the file apart."""
    label = _label(path, members)
    n_read = shape[0] if cut else None
    first = ""
    try:
        with _text(path, members) as file:
            first = file.readline() if header else ""
            table = np.loadtxt(file, delimiter=delimiter, comments=None, ndmin=2, max_rows=n_read)
    except (zipfile.BadZipFile, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{label}: cut or damaged ({error})") from error
    except ValueError as error:
        found = _bad_line(path, members, delimiter, shape[1], bool(header)) or str(error)
        raise ValueError(f"{label}: {found}") from None
    names = first.strip().split(delimiter)
    if header and (names[0], names[-1], len(names)) != (*header, shape[1]):
        raise ValueError(f"{label}: header: expected {shape[1]} names from {header[0]} to {header[1]}")
    if table.shape != shape:
        few = " (is the file cut?)" if table.shape[1] == shape[1] and len(table) < shape[0] else ""
        raise ValueError(f"{label}: expected {shape[0]} rows of {shape[1]} numbers, got {table.shape}{few}")
    if not np.all(np.isfinite(table)):
        row, column = np.argwhere(~np.isfinite(table))[0]
        raise ValueError(f"{label}: line {row + 1 + bool(header)}: column {column + 1} is not a finite number")
    table.flags.writeable = False
    return table


def _bad_line(path, members, delimiter, n_columns, header):
    """What is wrong with the first line that numpy could not read, or nothing."""
    with _text(path, members) as file:
        for number, line in enumerate(file, 1):
            cells = line.strip().split(delimiter)
            if (header and number == 1) or not line.strip():
                continue
            if len(cells) != n_columns:
                return f"line {number}: {len(cells)} values, expected {n_columns} (is the file cut?)"
            for column, cell in enumerate(cells, 1):
                try:
                    float(cell)
                except ValueError:
                    return f"line {number}, column {column}: {cell!r} is not a number"
    return ""
