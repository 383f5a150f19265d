"""What tests of the real data share: tiny files in the formats of the originals."""

import hashlib
import io
import zipfile
from dataclasses import replace

import numpy as np

from experiments.real_sources import SOURCES

YEAR, SLICES = "YearPredictionMSD", "CTslices"


def digest(problem):
    parts = (problem.X_train, problem.y_train, problem.X_test, problem.y_test)
    return hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest()[:16]


def rows(X):
    return {tuple(row) for row in X}


def shrink(monkeypatch):
    """Give the two UCI sets fewer rows and columns: 50 x 6 and 60 x 6."""
    year = replace(SOURCES[YEAR], shape=(50, 6), n_train=8, n_test=20, n_dims=5)
    slices = replace(SOURCES[SLICES], shape=(60, 6), n_train=9, n_test=24, n_dims=4)
    head = replace(SOURCES["ct_slices_head"], shape=(7, 6))
    for source in (year, slices, head):
        monkeypatch.setitem(SOURCES, source.name, source)


def year_text(n_rows=50):
    return "".join(f"{1922 + i},{i},{i + 0.5},-3,4,{i * i}\n" for i in range(n_rows))


def slices_text(n_rows=60):
    lines = [f"{i // 20},{i},0,-0.25,{i / 64},{3 * i / 2}" for i in range(n_rows)]
    return "\n".join(["patientId,value0,value1,value2,value3,reference", *lines]) + "\n"


def put(folder, name, text):
    path = folder / SOURCES[name].file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def zipped(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()
