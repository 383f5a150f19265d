"""Real data sets that are not at hand: messages, and downloads through a pooch of the tests' own."""

import pickle
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from real_data_helpers import SLICES, SOURCES, YEAR, digest, put, shrink, slices_text, year_text, zipped

from experiments import real_data


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder that PGBART_DATA names."""
    monkeypatch.setenv("PGBART_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def small(monkeypatch):
    """The two UCI sets with few rows and columns."""
    shrink(monkeypatch)


@pytest.mark.parametrize("name", [*real_data.PAPER_SETS, *real_data.STAND_INS])
def test_the_message_says_what_from_where_and_whereto(folder, monkeypatch, name):
    source = SOURCES[name]
    for value in (str(folder), str(folder / "none"), None):
        if value is None:
            monkeypatch.delenv("PGBART_DATA")
        else:
            monkeypatch.setenv("PGBART_DATA", value)
        assert real_data.available(name) == ""
        with pytest.raises(real_data.DataNotAvailable) as caught:
            real_data.load(name, 1)
        text = str(caught.value)
        assert isinstance(caught.value, FileNotFoundError) and "\n" not in text
        assert text.startswith(f"{name}: no file {source.file}") and source.url in text
        assert f"at {value or '$PGBART_DATA'}/{source.file}" in text and "PGBART_DATA" in text
        assert ("exp-data.zip" in text) == ("ask for the download" in text) == (name in real_data.PAPER_SETS)
        assert ("not set" in text) == (value is None)
        assert str(pickle.loads(pickle.dumps(caught.value))) == text
    if name == YEAR:
        assert "UCI archive number 203" in text


def test_the_embedded_data_need_no_folder(monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.delenv("PGBART_DATA", raising=False)
    assert real_data.available("diabetes") == "scikit-learn"
    assert real_data.load("diabetes", 1).name == "diabetes"


@pytest.fixture
def fake_pooch(monkeypatch, tmp_path):
    """A pooch that hands out files of this test; asked holds what it was asked for."""
    fake = SimpleNamespace(asked=[], files={}, error=None)
    fake.os_cache = lambda name: tmp_path / "cache" / name
    fake.Untar = lambda members: ("untar", members)

    def retrieve(url, known_hash, fname, path, processor=None):
        fake.asked.append((url, known_hash, fname, processor))
        if fake.error:
            raise fake.error
        return fake.files[url]

    fake.retrieve = retrieve
    monkeypatch.setitem(sys.modules, "pooch", fake)
    return fake


def test_a_download_of_houses(fake_pooch, data_dir, folder):
    source = SOURCES["CaliforniaHouses"]
    fake_pooch.files[source.url] = [str(data_dir / source.file)]
    assert digest(real_data.load("CaliforniaHouses", 1, download=True)) == "8a4446b17ae17e6d"
    (asked,) = fake_pooch.asked
    assert asked == (source.url, f"sha256:{source.sha256}", "cal_housing.tgz", ("untar", [source.member]))
    with pytest.raises(real_data.DataNotAvailable):
        real_data.load("CaliforniaHouses", 1)


def test_an_earlier_download_is_found(fake_pooch, data_dir, folder, tmp_path):
    source = SOURCES["CaliforniaHouses"]
    fake_pooch.files[source.url] = [str(data_dir / source.file)]
    assert real_data.available("CaliforniaHouses") == ""
    (tmp_path / "cache" / "pgbart").mkdir(parents=True)
    (tmp_path / "cache" / "pgbart" / "cal_housing.tgz").write_bytes(b"")
    assert real_data.available("CaliforniaHouses") == "cache"
    assert digest(real_data.load("CaliforniaHouses", 1)) == "8a4446b17ae17e6d"


@pytest.mark.parametrize("name", [YEAR, SLICES])
def test_a_download_from_uci_is_checked(fake_pooch, folder, small, name):
    source = SOURCES[name]
    text = year_text() if name == YEAR else slices_text()
    path = folder / "fetched.zip"
    path.write_bytes(zipped({Path(source.file).name: text}))
    fake_pooch.files[source.url] = str(path)
    assert real_data.load(name, 1, download=True).X_train.shape == (source.n_train, source.n_dims)
    assert fake_pooch.asked[0][:2] == (source.url, None)
    path.write_bytes(zipped({Path(source.file).name: text[: len(text) // 2]}))
    real_data._numbers.cache_clear()
    with pytest.raises(ValueError, match="fetched.zip"):
        real_data.load(name, 1, download=True)
    path.write_bytes(zipped({"index.html": "moved"}))
    with pytest.raises(ValueError, match="fetched.zip: expected one file"):
        real_data.load(name, 1, download=True)
    path.write_text("<html>")
    with pytest.raises(ValueError, match="fetched.zip: cut or damaged"):
        real_data.load(name, 1, download=True)


def test_no_download_where_the_file_is_at_hand_or_none_is_asked_for(fake_pooch, folder, small):
    put(folder, YEAR, year_text())
    real_data.load(YEAR, 1, download=True)
    with pytest.raises(real_data.DataNotAvailable):
        real_data.load(SLICES, 1)
    with pytest.raises(real_data.DataNotAvailable):
        real_data.load("gas", 1, download=True)
    assert fake_pooch.asked == []


def test_a_failed_download_says_so(fake_pooch, folder):
    fake_pooch.error = OSError("no route to host")
    with pytest.raises(real_data.DataNotAvailable, match="YearPrediction.*203.*The download failed: no route to host"):
        real_data.load(YEAR, 1, download=True)
