"""Data sets, ranks, and every kind of input that must be taken or refused by name."""

import pickle
from fractions import Fraction

import numpy as np
import pytest

from bart.data import Dataset, RankCodes, check_rows
from bart.inputs import as_matrix, as_vector

X4 = [[0.0, 5.0], [1.0, 5.5], [2.0, 7.0], [3.0, 4.0]]
Y4 = [1.0, -1.0, 3.0, 2.0]
TINY = 5e-324


def refused(fragments, function, *args, error=ValueError, **kwargs):
    with pytest.raises(error) as caught:
        function(*args, **kwargs)
    for fragment in fragments if isinstance(fragments, tuple) else (fragments,):
        assert fragment in str(caught.value)


# Scaling


def test_scaled_by_hand():
    data = Dataset(X4, Y4)
    assert (data.y_min, data.y_max, data.y_mid, data.y_range) == (-1.0, 3.0, 1.0, 4.0)
    assert data.y_scaled.tolist() == [0.0, -0.5, 0.5, 0.25]
    assert (data.n_rows, data.n_dims, data.column_names) == (4, 2, None)
    assert data.to_y([0.0, 0.5]).tolist() == [1.0, 3.0]
    assert data.to_scaled(5.0) == 1.0


def test_without_scaling_y_is_kept():
    data = Dataset(X4, Y4, scale=False)
    assert (data.y_mid, data.y_range) == (0.0, 1.0)
    assert data.y_scaled.tolist() == Y4 and data.to_y(data.y_scaled).tolist() == Y4


def test_round_trip_and_exact_extremes(rng):
    for _ in range(200):
        size = 10.0 ** rng.integers(-200, 200)
        y = rng.normal(size=rng.integers(2, 30)) * size + rng.normal() * size * 10.0 ** rng.integers(0, 12)
        data = Dataset(np.arange(y.size)[:, None], y)
        assert data.y_scaled.min() == -0.5 and data.y_scaled.max() == 0.5
        np.testing.assert_allclose(data.to_y(data.y_scaled), y, rtol=0, atol=1e-15 * np.abs(y).max())
        np.testing.assert_allclose(data.y_scaled, (y - data.y_mid) / data.y_range, atol=1e-3)
        np.testing.assert_array_equal(data.to_scaled(y), data.y_scaled)


@pytest.mark.parametrize(
    "y",
    [
        [1e12, 1e12 + 1, 1e12],
        [0.0, 1e-12, 5e-13],
        [1.0, 2.0, 1e9],
        [1e16, 1e16 + 2, 1e16],
        [-1e300, 0.0, 1e300],
        [0, 1e-300, 0],
    ],
)
def test_awkward_units_of_y(y):
    data = Dataset([[0], [1], [2]], y)
    assert np.all(np.isfinite(data.y_scaled)) and np.ptp(data.y_scaled) == 1.0
    assert data.y_range == max(y) - min(y)


def test_constant_y():
    for y in ([7.0], [7.0, 7.0], [1e300, 1e300]):
        data = Dataset(np.zeros((len(y), 1)), y)
        assert (data.y_mid, data.y_range) == (y[0], 1.0)
        assert not data.y_scaled.any() and data.to_y(0.0) == y[0]


def test_y_that_cannot_be_scaled_is_refused():
    refused(("y cannot be scaled", "inf"), Dataset, [[0], [1]], [-1.7e308, 1.7e308])
    refused("y cannot be scaled", Dataset, [[0], [1]], [0.0, 1e-310])
    refused(("y is -1e+200 at position 1", "scale=True"), Dataset, [[0], [1]], [0.0, -1e200], scale=False)


# What is taken


def test_the_callers_arrays_stay_as_they_are_and_are_not_shared(rng):
    X, y = rng.normal(size=(6, 3)), rng.normal(size=6)
    before = X.tobytes(), y.tobytes()
    data, codes = Dataset(X, y), RankCodes(X)
    assert (X.tobytes(), y.tobytes()) == before and X.flags.writeable and y.flags.writeable
    X[:], y[:] = 9.0, 9.0
    assert data.X.tobytes() == before[0] and data.y.tobytes() == before[1]
    for array in (data.X, data.y, data.y_scaled, codes.codes, codes.values[0], codes.n_values):
        with pytest.raises(ValueError):
            array[...] = 0


def test_every_form_of_the_same_numbers_is_the_same_data():
    X = np.array(X4, dtype=np.float32)
    padded = np.zeros((8, 4))
    padded[::2, ::-2] = X
    forms = [X4, X, np.asfortranarray(X), padded[::2, ::-2], X.astype(object), X.astype(np.float16),
             X.astype(np.longdouble), tuple(map(tuple, X4)), np.ma.masked_array(X, mask=False)]  # fmt: skip
    wanted = RankCodes(X4)
    for form in forms:
        codes = RankCodes(form)
        assert codes.codes.tobytes() == wanted.codes.tobytes()
        assert [v.tolist() for v in codes.values] == [v.tolist() for v in wanted.values]
        assert Dataset(form, Y4).X.tobytes() == Dataset(X4, Y4).X.tobytes()


def test_forms_of_y():
    ints = np.array([3, 0, 1])
    forms = [ints, [3, 0, 1], ints[:, None], ints.astype(np.uint8), ints.astype(object), (3.0, False, True),
             np.array([Fraction(3), 0, True], dtype=object), np.ma.masked_array(ints)]  # fmt: skip
    for form in forms:
        assert Dataset([[1], [2], [3]], form).y.tolist() == [3.0, 0.0, 1.0]
    assert Dataset([[1], [2]], np.array([True, False])).y.tolist() == [1.0, 0.0]
    assert Dataset([[True], [False]], [1, 2]).X.tolist() == [[1.0], [0.0]]
    assert Dataset([[1.5]], 1.0 * np.ones((1, 1))).y.shape == (1,)


def test_integers_up_to_two_to_the_53():
    big = 2**53
    for form in ([[big], [-big]], np.array([[big], [-big]]), np.array([[big], [-big]], dtype=object)):
        assert Dataset(form, [0, 1]).X.tolist() == [[float(big)], [float(-big)]]
    assert as_matrix([[2.0**60]])[0][0, 0] == 2.0**60  # a float says itself that it is one
    for form in ([[0], [big + 1]], np.array([[0], [big + 1]]), np.array([[0], [big + 1]], dtype=np.uint64),
                 [[0.5], [big + 1]], [[0], [2**80]], [[0], [-(2**80)]]):  # fmt: skip
        refused(("X holds the integer", "row 1, column 0", "2^53"), Dataset, form, [0, 1])
    refused("y holds the integer -9007199254740993 at position 2", as_vector, [0, 1, -big - 1])
    refused("row 0, column 0", as_matrix, [[Fraction(10**400)]])


# What is refused


@pytest.mark.parametrize("bad, word", [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "-inf")])
def test_the_first_value_that_is_not_finite_is_named(bad, word):
    X = np.zeros((5, 3))
    X[3, 1] = bad
    refused(f"X is {word} at row 3, column 1", Dataset, X, np.arange(5))
    X[2, 2] = bad
    refused((f"X is {word} at row 2, column 2", "(2 values"), Dataset, X, np.arange(5))
    X[:, 0] = bad
    refused((f"X is {word} at row 0, column 0", "(7 values"), Dataset, X, np.arange(5))
    refused(f"y is {word} at position 1", Dataset, np.zeros((2, 1)), [0, bad])
    refused(f"X_new is {word} at row 0, column 2", Dataset(np.zeros((2, 3)), [0, 1]).check_new, [[0, 0, bad]])


def test_positions_are_right_beyond_one_block():
    X = np.zeros((1_100_000, 1), dtype=np.float32)
    X[1_080_123] = np.nan
    refused("X is NaN at row 1080123, column 0", as_matrix, X)


@pytest.mark.parametrize(
    "X, fragments",
    [
        (np.zeros((0, 2)), "X is empty, its shape is (0, 2)"),
        (np.zeros((2, 0)), "X is empty, its shape is (2, 0)"),
        ([], "got shape (0,)"),
        ([1.0, 2.0], ("got shape (2,)", "X.reshape(-1, 1)", "X.reshape(1, -1) one row")),
        (np.zeros((2, 1, 1)), "got shape (2, 1, 1)"),
        (3.0, "got shape ()"),
        (None, "got shape ()"),
        ([[1, 2], [3]], "X is not a rectangular array"),
        (np.ones((2, 1)) * 1j, ("X holds complex numbers", "row 0, column 0")),
        ([[0, 1], [2, "a"]], ("'a' (text)", "row 1, column 1")),
        (np.array([["1.5"], ["2"]]), ("'1.5' (text)", "row 0, column 0")),
        (np.array([[1], [None]], dtype=object), ("None", "row 1, column 0")),
        (np.array([[1], [1j]], dtype=object), ("complex", "row 1, column 0")),
        (np.array([["2020-01-01"]], dtype="M8[D]"), "X holds dates"),
        (np.array([[1]], dtype="m8[s]"), "X holds time differences"),
        (np.zeros((1, 1), dtype=[("a", float)]), "X holds no real numbers"),
        (np.ma.masked_array([[1, 2], [3, 4]], mask=[[0, 0], [1, 0]]), "X is masked at row 1, column 0"),
    ],
)
def test_matrices_that_are_refused(X, fragments):
    refused(fragments, Dataset, X, [0, 1])
    refused(fragments, RankCodes, X)


@pytest.mark.parametrize(
    "y, fragments",
    [
        ([], "y is empty"),
        (1.0, "y must have shape (N,) or (N, 1), got ()"),
        ([[1, 2]], "y must have shape (N,) or (N, 1), got (1, 2)"),
        ([1, 2, 3], "X has 2 rows, but y has 3 values"),
        ([1j, 2], "y holds complex"),
        (["a", "b"], "'a' (text) at position 0"),
        ([1, None], "None"),
        (np.ma.masked_array([1, 2], mask=[0, 1]), "y is masked at position (1,)"),
    ],
)
def test_responses_that_are_refused(y, fragments):
    refused(fragments, Dataset, [[0], [1]], y)


def test_sparse_matrices_are_refused():
    sparse = pytest.importorskip("scipy.sparse")
    refused("X.toarray()", Dataset, sparse.eye(2).tocsr(), [0, 1], error=TypeError)


def test_scale_must_be_a_boolean():
    refused("scale must be True or False", Dataset, X4, Y4, scale="yes", error=TypeError)


# New rows


def test_new_rows():
    data = Dataset(X4, Y4)
    for form in ([[1, 2]], np.zeros((0, 2)), np.asfortranarray(np.ones((3, 2), dtype=np.float32))):
        rows = data.check_new(form)
        assert rows.dtype == np.float64 and rows.flags.c_contiguous and rows.shape == np.shape(form)
    refused("X_new has 1 columns, but the training X had 2", data.check_new, [[1.0]])
    refused("test has 3 columns", data.check_new, np.zeros((0, 3)), name="test")
    refused("X_new.reshape(-1, 1)", data.check_new, [1.0, 2.0])
    assert Dataset([[1.0]], [2.0]).check_new([[3]]).tolist() == [[3.0]]
    assert check_rows([[1, 2]], 2, ["a", "b"]).tolist() == [[1.0, 2.0]]


# Frames


class Column:
    """The least a column of a frame can be."""

    def __init__(self, values, dtype="float64"):
        self.values, self.dtype = values, dtype

    def to_numpy(self):
        return np.asarray(self.values)


class Frame:
    """The least a frame can be; no index, as in polars."""

    def __init__(self, **columns):
        self.data = columns
        self.columns = list(columns)

    def __getitem__(self, label):
        return self.data[label]

    def __len__(self):
        return len(self.data[self.columns[0]].values)

    def to_numpy(self):
        raise AssertionError("a frame is read by columns")


def test_any_frame_will_do():
    frame = Frame(a=Column([1, 2]), b=Column([True, False]))
    data = Dataset(frame, [0, 1])
    assert data.column_names == ("a", "b") and data.X.tolist() == [[1.0, 1.0], [2.0, 0.0]]
    frame = Frame(a=Column([1, 2]), sex=Column(["m", "f"], "Categorical(ordering='physical')"))
    refused(("column 'sex' of X", "categorical"), Dataset, frame, [0, 1])


@pytest.fixture
def pd():
    return pytest.importorskip("pandas")


def test_pandas_frames_by_position(pd, rng):
    values = rng.normal(size=(5, 3))
    frame = pd.DataFrame(values.copy(), columns=["a", "b", 3], index=[4, 2, 0, 1, 3])
    data = Dataset(frame, pd.Series(np.arange(5), index=frame.index))
    assert data.X.tobytes() == values.tobytes() and data.y.tolist() == [0, 1, 2, 3, 4]
    assert data.column_names == ("a", "b", "3")
    assert Dataset(frame, list(range(5))).y.tolist() == [0, 1, 2, 3, 4]
    assert Dataset(values, pd.Series([4, 3, 2, 1, 0], index=[4, 3, 2, 1, 0])).y.tolist() == [4, 3, 2, 1, 0]
    assert Dataset(frame, pd.DataFrame({"y": [1, 2, 3, 4, 5]}, index=frame.index)).y[4] == 5.0
    frame.iloc[0, 0] = 99.0
    assert data.X.tobytes() == values.tobytes()


def test_pandas_rows_that_do_not_match_are_refused(pd):
    frame = pd.DataFrame({"a": [1, 2, 3]}, index=[0, 2, 1])
    refused(("row labels of X and y differ", "position 1", "2 and 1"), Dataset, frame, pd.Series([1, 2, 3]))


def test_pandas_columns_that_are_refused(pd):
    y = [0, 1, 2]
    for values, dtype in ((["m", "f", "m"], "category"), ([1, 2, 1], "category")):
        frame = pd.DataFrame({"a": [1, 2, 3], "sex": pd.Series(values, dtype=dtype)})
        refused(("column 'sex' of X", "categorical"), Dataset, frame, y)
    refused(("'f' (text)", "row 1, column 1 ('sex')"), Dataset, pd.DataFrame({"a": y, "sex": [1, "f", 2]}), y)
    refused("row 0, column 0 ('t')", Dataset, pd.DataFrame({"t": ["m", "f", "m"]}), y)
    refused(("dates", "column 0 ('t')"), Dataset, pd.DataFrame({"t": pd.to_datetime(["2020-01-01"] * 3)}), y)
    refused("X is NaN at row 2, column 0 ('a')", Dataset, pd.DataFrame({"a": [1, 2, np.nan]}), y)
    nullable = pd.DataFrame({"b": y, "a": pd.array([1, None, 2], dtype="Int64")})
    refused("row 1, column 1 ('a')", Dataset, nullable, y)
    refused("two columns named 'a'", Dataset, pd.DataFrame(np.zeros((3, 2)), columns=["a", "a"]), y)
    refused("y is categorical", Dataset, [[0], [1]], pd.Series([1, 2], dtype="category"))
    refused("y must have shape", Dataset, [[0], [1]], pd.DataFrame({"a": [0, 1], "b": [0, 1]}))
    complete = pd.DataFrame({"a": pd.array([1, 3, 2], dtype="Int64"), "b": [True, False, True]})
    assert Dataset(complete, y).X.tolist() == [[1, 1], [3, 0], [2, 1]]


def test_pandas_new_rows_by_name(pd):
    data = Dataset(pd.DataFrame({"a": [1, 2], "b": [3, 4]}), [0, 1])
    assert data.check_new(pd.DataFrame({"a": [5], "b": [6]}, index=[17])).tolist() == [[5.0, 6.0]]
    assert data.check_new([[5, 6]]).tolist() == [[5.0, 6.0]]
    assert data.check_new(pd.DataFrame({"a": [], "b": []})).shape == (0, 2)
    swapped = pd.DataFrame({"b": [1], "a": [2]})
    refused(("another order", "position 0", "'b' instead of 'a'"), data.check_new, swapped)
    refused("lacks 'b'", data.check_new, pd.DataFrame({"a": [1]}))
    refused("unknown 'c'", data.check_new, pd.DataFrame({"a": [1], "b": [2], "c": ["x"]}))
    plain = Dataset([[1, 3], [2, 4]], [0, 1])
    assert plain.check_new(swapped).tolist() == [[1.0, 2.0]]


# Ranks


def test_codes_by_hand():
    codes = RankCodes([[2.0, 7], [-1.0, 7], [2.0, 7], [0.5, 7]])
    assert codes.codes.tolist() == [[2, 0, 2, 1], [0, 0, 0, 0]]
    assert [v.tolist() for v in codes.values] == [[-1.0, 0.5, 2.0], [7.0]]
    assert codes.n_values.tolist() == [3, 1] and codes.n_values.dtype == np.int32
    assert codes.codes.dtype == np.uint8 and codes.codes.flags.c_contiguous
    assert (codes.n_rows, codes.n_dims) == (4, 2)


def test_codes_against_numpy_unique(rng):
    for _ in range(100):
        n, d = rng.integers(1, 60), rng.integers(1, 5)
        X = rng.choice([rng.normal(size=7), rng.normal(size=7) * 1e300, np.arange(7.0)], axis=0)
        X = rng.choice(X, size=(n, d)) if rng.random() < 0.7 else rng.normal(size=(n, d))
        codes = RankCodes(X)
        for k in range(d):
            values, inverse = np.unique(X[:, k], return_inverse=True)
            assert codes.values[k].tolist() == values.tolist()
            assert codes.codes[k].tolist() == inverse.ravel().tolist()
            np.testing.assert_array_equal(codes.values[k][codes.codes[k]], X[:, k])


@pytest.mark.parametrize(
    "n_values, dtype",
    [(1, np.uint8), (256, np.uint8), (257, np.uint16), (65536, np.uint16), (65537, np.uint32)],
)
def test_the_smallest_code_type_that_holds_every_column(rng, n_values, dtype):
    values = rng.permutation(n_values + 3) % n_values
    X = np.column_stack([np.zeros(values.size), values * 0.1])
    codes = RankCodes(X)
    assert codes.codes.dtype == dtype and codes.n_values.tolist() == [1, n_values]
    assert codes.codes[1].max() == n_values - 1
    np.testing.assert_array_equal(codes.codes[1], values)


def test_values_next_to_each_other():
    one_up = np.nextafter(1.0, 2.0)
    X = [[0.0, TINY, 1.0], [-0.0, -TINY, one_up], [TINY, 0.0, 1.0], [-TINY, 2 * TINY, one_up]]
    codes = RankCodes(X)
    assert codes.codes.tolist() == [[1, 1, 2, 0], [2, 0, 1, 3], [0, 1, 0, 1]]
    assert codes.values[0].tolist() == [-TINY, 0.0, TINY] and not np.signbit(codes.values[0][1])
    assert not np.signbit(RankCodes([[-0.0], [1.0]]).values[0][0])


def test_identical_rows_and_two_distinct_rows():
    assert RankCodes(np.full((1000, 3), 2.5)).n_values.tolist() == [1, 1, 1]
    X = np.repeat([[0.0, 1.0], [1.0, 0.0]], 500, axis=0)
    codes = RankCodes(X)
    assert codes.n_values.tolist() == [2, 2]
    np.testing.assert_array_equal(codes.codes, X.T)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_rows_many_columns(rng, n):
    X = rng.normal(size=(n, 40))
    codes = RankCodes(X)
    np.testing.assert_array_equal(codes.codes, X.T.argsort(axis=1).argsort(axis=1))


def test_data_survive_pickling():
    data, codes = Dataset(X4, Y4), RankCodes(X4)
    data2, codes2 = pickle.loads(pickle.dumps((data, codes)))
    assert data2.y_scaled.tobytes() == data.y_scaled.tobytes() and data2.X.tobytes() == data.X.tobytes()
    assert codes2.codes.tobytes() == codes.codes.tobytes()
    assert "4 rows" in repr(data) and "uint8" in repr(codes)


def test_real_data_sets(data_dir):
    X = np.loadtxt(data_dir / "pol" / "data.csv.gz", delimiter=",", max_rows=3000)
    assert X.shape == (3000, 27)
    codes = RankCodes(X)
    for d in range(X.shape[1]):
        np.testing.assert_array_equal(codes.values[d][codes.codes[d]], X[:, d])
