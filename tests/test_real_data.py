"""Real data sets: where they are found, how they are split, what is wrong with a file."""

import gzip
import os

import numpy as np
import pytest
from real_data_helpers import SLICES, SOURCES, YEAR, digest, put, rows, shrink, slices_text, year_text, zipped

from experiments import paper, real_data


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder that PGBART_DATA names."""
    monkeypatch.setenv("PGBART_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def small(monkeypatch):
    """The two UCI sets with few rows and columns."""
    shrink(monkeypatch)


# The original files


@pytest.mark.parametrize(
    ("split", "expected"), [(1, "8a4446b17ae17e6d"), (2, "056015cbdede6c39"), (3, "fcde9fd05d81d3c4")]
)
def test_california_houses_are_those_of_earlier_results(data_dir, split, expected):
    problem = real_data.load("CaliforniaHouses", split)
    assert digest(problem) == expected
    assert (problem.seed, problem.n_trees, problem.beta) == (split, None, None)
    assert "drawn here" in problem.note and "natural reading" in problem.note


@pytest.mark.parametrize(
    ("split", "expected"), [(1, "1614e1944b5feca1"), (2, "5c3511913f592061"), (3, "b5f508a8ac11ba39")]
)
def test_diabetes_is_that_of_earlier_results(split, expected):
    pytest.importorskip("sklearn")
    problem = real_data.load("diabetes", split)
    assert problem.X_train.shape == (342, 10) and problem.X_test.shape == (100, 10)
    assert digest(problem) == expected
    assert rows(problem.X_train).isdisjoint(rows(problem.X_test))


@pytest.mark.parametrize("name", ["CaliforniaHouses", *real_data.STAND_INS])
def test_shapes_and_columns(data_dir, name):
    source = SOURCES[name]
    path = data_dir / source.file
    with gzip.open(path, "rt") if path.suffix == ".gz" else open(path) as file:
        lines = [line.rstrip().split(",") for line in file][bool(source.header) :][: source.shape[0]]
    table = {tuple(map(float, line)) for line in lines}
    problems_ = [real_data.load(name, split) for split in (1, 2, 3)]
    columns = [tuple(row[slice(*source.x)]) + (row[source.y],) for row in table]
    for problem in problems_:
        assert problem.name == name and problem.n_dims == source.n_dims
        assert problem.X_train.shape == (source.n_train, source.n_dims)
        assert problem.X_test.shape == (source.n_test, source.n_dims)
        for part in (problem.X_train, problem.y_train, problem.X_test, problem.y_test):
            assert part.dtype == np.float64 and part.flags.c_contiguous and part.flags.writeable
        both = np.concatenate([np.column_stack([problem.X_train, problem.y_train]),
                               np.column_stack([problem.X_test, problem.y_test])])
        assert rows(both) <= set(columns)
        np.testing.assert_array_equal(problem.X_test, problems_[0].X_test)
    assert digest(problems_[0]) == digest(real_data.load(name, 1))
    assert len({digest(problem) for problem in problems_}) == 3
    assert real_data.available(name) == "PGBART_DATA"


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "diabetes"])
def test_training_and_test_rows_are_disjoint(name):
    source = SOURCES[name]
    drawn = [real_data._rows(source, split) for split in (1, 2, 3)]
    for train, test in drawn:
        assert len(set(train)) == source.n_train and len(set(test)) == source.n_test
        assert set(train).isdisjoint(test)
        assert 0 <= min(*train, *test) and max(*train, *test) < source.shape[0]
        np.testing.assert_array_equal(test, drawn[0][1])
    shared = sum(len(set(drawn[i][0]) & set(drawn[j][0])) for i, j in ((0, 1), (0, 2), (1, 2)))
    overlapping = name in ("gas", "ct_slices_head")
    assert (shared > 0) == overlapping
    assert ("overlapping" in real_data._drawn(source)) == overlapping
    if name == YEAR:
        np.testing.assert_array_equal(drawn[0][1], np.arange(463715, 515345))


def test_the_head_of_ct_slices(data_dir):
    problem = real_data.load("ct_slices_head", 1)
    source = SOURCES["ct_slices_head"]
    lines = (data_dir / source.file).read_text().split("\n")
    assert sum(line.count(",") == 385 for line in lines) == 683 and lines[-1].count(",") < 385
    X = np.concatenate([problem.X_train, problem.X_test])
    assert source.shape[0] == 682 and len(X) == 582
    assert np.sum(np.ptp(X, axis=0) == 0.0) >= 22
    assert "682 complete rows" in problem.note and "22 constant columns" in problem.note
    assert "not a benchmark of fit" in problem.note and "overlapping" in problem.note


def test_what_is_known_of_the_sources():
    assert tuple(paper.REAL_SHAPES) == real_data.PAPER_SETS
    for name, shape in paper.REAL_SHAPES.items():
        source = SOURCES[name]
        assert (source.n_train, source.n_test, source.n_dims) == shape
    assert real_data.NAMES == (*real_data.PAPER_SETS, *real_data.STAND_INS, "diabetes")
    assert tuple(source.name for source in real_data.sources()) == real_data.NAMES
    for source in real_data.sources():
        width = len(range(source.shape[1])[slice(*source.x)])
        assert width == source.n_dims
        assert source.url and source.features and source.target and source.licence


def test_year_prediction(folder, small):
    put(folder, YEAR, year_text())
    problem = real_data.load(YEAR, 2)
    np.testing.assert_array_equal(problem.y_test, 1922.0 + np.arange(30, 50))
    i = problem.y_train - 1922.0
    assert problem.X_train.shape == (8, 5) and i.max() < 30
    np.testing.assert_array_equal(problem.X_train, np.column_stack([i, i + 0.5, i * 0 - 3, i * 0 + 4, i * i]))
    others = [real_data.load(YEAR, split).y_train for split in (1, 3)]
    assert len({*problem.y_train, *others[0], *others[1]}) == 24
    assert "last 20 rows" in problem.note and "drawn here" in problem.note


@pytest.mark.parametrize("nested", [False, True])
def test_a_zip_of_the_archive_is_read_as_it_is(folder, small, nested):
    content = zipped({"some folder/slice_localization_data.csv": slices_text()})
    path = put(folder, SLICES, "").with_name("relative+location.zip")
    path.with_name("slice_localization_data.csv").unlink()
    path.write_bytes(zipped({"readme.txt": "", "slices.zip": content}) if nested else content)
    problem = real_data.load(SLICES, 1)
    i = problem.X_train[:, 0]
    np.testing.assert_array_equal(problem.y_train, 1.5 * i)
    np.testing.assert_array_equal(problem.X_train[:, 3], i / 64)
    assert problem.X_test.shape == (24, 4) and "share patients" in problem.note
    assert real_data.available(SLICES) == "PGBART_DATA"


def test_one_file_is_parsed_once_until_it_changes(folder, small, monkeypatch):
    put(folder, YEAR, year_text())
    calls, loadtxt = [], np.loadtxt
    monkeypatch.setattr(np, "loadtxt", lambda *args, **options: calls.append(1) or loadtxt(*args, **options))
    first = real_data.load(YEAR, 1)
    first.X_train[:] = 0.0  # must not reach the parsed file
    assert real_data.load(YEAR, 1).X_train[0, 1] > 0.0 and real_data.load(YEAR, 3).X_train.any()
    assert len(calls) == 1
    path = put(folder, YEAR, year_text().replace(",-3,", ",-7,"))
    os.utime(path, ns=(1, 1))
    assert real_data.load(YEAR, 1).X_train[0, 2] == -7.0 and len(calls) == 2


# The archive of the paper's splits


def archive_members(prefix="houses", n_train=2000, n_test=5000, n_dims=6, top=""):
    def table(value, n_rows, n_columns):
        return "".join(" ".join([f"{value + i}"] * n_columns) + "\n" for i in range(n_rows))

    members = {f"{top}{prefix}.test.x": table(0.5, n_test, n_dims), f"{top}{prefix}.test.y": table(7, n_test, 1)}
    for split in (1, 2, 3):
        members[f"{top}{prefix}_0{split}.train.x"] = table(1000 * split, n_train, n_dims)
        members[f"{top}{prefix}_0{split}.train.y"] = table(-1000 * split, n_train, 1)
    return members


def test_the_papers_splits_come_first(folder, data_dir):
    whole = (data_dir / SOURCES["CaliforniaHouses"].file).read_bytes()
    put(folder, "CaliforniaHouses", "").write_bytes(whole)
    assert "drawn here" in real_data.load("CaliforniaHouses", 1).note
    members = {"__MACOSX/exp-data/._houses.test.x": b"\0", **archive_members(top="exp-data/")}
    (folder / "exp-data.zip").write_bytes(zipped(members))
    for split in (1, 2, 3):
        problem = real_data.load("CaliforniaHouses", split)
        np.testing.assert_array_equal(problem.X_train[:, 5], 1000.0 * split + np.arange(2000))
        np.testing.assert_array_equal(problem.y_train, -1000.0 * split + np.arange(2000))
        np.testing.assert_array_equal(problem.X_test[:, 0], 0.5 + np.arange(5000))
        np.testing.assert_array_equal(problem.y_test, 7.0 + np.arange(5000))
        assert "paper's splits" in problem.note and "drawn here" not in problem.note
        assert "exp-data.zip" in problem.note and problem.seed == split
    assert real_data.available("CaliforniaHouses") == "exp-data.zip"


@pytest.mark.parametrize(("name", "prefix"), [(YEAR, "msd"), (YEAR, "YEAR"), (SLICES, "ctslices"), (SLICES, "slice")])
def test_prefixes_of_the_archive(folder, small, name, prefix):
    source = SOURCES[name]
    sizes = (source.n_train, source.n_test, source.n_dims)
    (folder / "exp-data.zip").write_bytes(zipped(archive_members(prefix, *sizes)))
    assert real_data.load(name, 3).X_train[0, 0] == 3000.0
    assert real_data.available("CaliforniaHouses") == ""
    with pytest.raises(real_data.DataNotAvailable):
        real_data.load("CaliforniaHouses", 1)


def test_faults_of_the_archive(folder, small):
    path, good = folder / "exp-data.zip", archive_members("msd", 8, 20, 5)
    cases = [
        ({**good, "msd_01.train.x": "1 2 3 4 5\n" * 7}, "msd_01.train.x.*8 rows of 5.*cut"),
        ({**good, "msd_01.train.x": "1 2 3 4\n" * 8}, "msd_01.train.x.*8 rows of 5"),
        ({**good, "msd.test.y": "1\n" * 19 + "x\n"}, "msd.test.y.*line 20, column 1: 'x' is not a number"),
        ({name: good[name] for name in good if name != "msd_01.train.y"}, "one member like msd_01.train.y.*found 0"),
        ({**good, "again/msd.test.x": good["msd.test.x"]}, "one member like msd.test.x.*found 2"),
    ]
    for members, message in cases:
        path.write_bytes(zipped(members))
        real_data._numbers.cache_clear()
        with pytest.raises(ValueError, match=message):
            real_data.load(YEAR, 1)
    path.write_bytes(zipped(good)[:-30])
    with pytest.raises(ValueError, match="exp-data.zip: cut or damaged"):
        real_data.load(YEAR, 1)


# Faults of the files


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (year_text(49), "YearPredictionMSD.txt: expected 50 rows of 6 numbers, got .49, 6. .is the file cut"),
        (year_text()[:-9], r"YearPredictionMSD.txt: line 50: \d values, expected 6 .is the file cut"),
        (year_text() + "1990,1,2,3,4,5\n", r"expected 50 rows of 6 numbers, got \(51, 6\)$"),
        (year_text().replace(",-3", ""), "got .50, 5"),
        (year_text().replace("1930,8,", "1930,eight,"), "line 9, column 2: 'eight' is not a number"),
        (year_text().replace("1930,8,", "1930,nan,"), "line 9: column 2 is not a finite number"),
        (year_text().replace("1930,8,", "1911,8,"), "line 9: target 1911 is outside 1922 to 2011"),
        ("", "expected 50 rows of 6 numbers"),
        (year_text().replace("1930,8,", "# 1930,8,"), "line 9, column 1: '# 1930' is not a number"),
    ],
)
@pytest.mark.filterwarnings("ignore:loadtxt")
def test_faults_of_a_file_are_named(folder, small, text, message):
    put(folder, YEAR, text)
    with pytest.raises(ValueError, match=message):
        real_data.load(YEAR, 1)


def test_faults_of_ct_slices(folder, small):
    cases = [
        (slices_text().replace("patientId", "patient"), "header: expected 6 names from patientId to reference"),
        (slices_text().replace("\n1,25,", "\n1,?,"), "line 27, column 2: '?"),
        (slices_text().replace(",88.5\n", ",181\n"), "line 61: target 181 is outside 0 to 180"),
        (slices_text().split("\n", 1)[1], "header: expected 6 names"),
    ]
    for text, message in cases:
        put(folder, SLICES, text)
        real_data._numbers.cache_clear()
        with pytest.raises(ValueError, match=message):
            real_data.load(SLICES, 1)


def test_ct_slices_must_begin_as_its_known_rows(folder, small):
    put(folder, SLICES, slices_text())
    put(folder, "ct_slices_head", slices_text(7) + "1,2")
    assert real_data.load(SLICES, 1).X_train.shape == (9, 4)
    put(folder, "ct_slices_head", slices_text(7).replace("0,3,0,-0.25", "0,3,0,0.25"))
    real_data._numbers.cache_clear()
    with pytest.raises(ValueError, match="slice_localization_data.csv: its first 7 rows are not those of .*head"):
        real_data.load(SLICES, 1)


def test_a_cut_gzip_file(folder, data_dir):
    path = put(folder, "gas", "")
    path.write_bytes((data_dir / "gas" / "data.csv.gz").read_bytes()[:5000])
    with pytest.raises(ValueError, match="gas/data.csv.gz: cut or damaged"):
        real_data.load("gas", 1)
    path.write_text("1,2\n")
    with pytest.raises(ValueError, match="gas/data.csv.gz: cut or damaged"):
        real_data.load("gas", 1)


def test_a_cut_file_of_houses(folder, data_dir):
    whole = (data_dir / SOURCES["CaliforniaHouses"].file).read_bytes()
    put(folder, "CaliforniaHouses", "").write_bytes(whole[:1_000_003])
    with pytest.raises(ValueError, match=r"cal_housing.data: (line \d+: \d values, expected 9|expected 20640 rows)"):
        real_data.load("CaliforniaHouses", 1)


def test_names_and_splits():
    for split in (0, 4, "1", None):
        with pytest.raises(ValueError, match="split: expected 1, 2 or 3"):
            real_data.load("CaliforniaHouses", split)
    for call in (real_data.available, lambda name: real_data.load(name, 1)):
        with pytest.raises(ValueError, match="no data set 'boston': expected one of CaliforniaHouses, Year"):
            call("boston")
