"""Data sets of the experiments: made ones, and real ones read from their original files."""

import os
from dataclasses import dataclass

import numpy as np

from .paper import HYPERCUBE_BETA

__all__ = [
    "Problem",
    "california_houses",
    "diabetes",
    "friedman",
    "hypercube",
    "real_problem",
    "true_tree",
]

ROWS_PER_VERTEX = 10
_TAGS = {"hypercube": 1, "friedman": 2, "houses": 3, "diabetes": 4}

_HOUSES_URL = "https://ndownloader.figshare.com/files/5976036"
_HOUSES_SHA256 = "aaa5c9a6afe2225cc2aed2723682ae403280c4a3695a2ddda4ffb5d8215ea681"


@dataclass(frozen=True)
class Problem:
    """A regression problem with a training and a test set.

    Attributes
    ----------
    name : str
    X_train, X_test : ndarray of float64, shape (n, n_dims)
    y_train, y_test : ndarray of float64, shape (n,)
        Labels with their noise.
    f_train, f_test : ndarray of float64, shape (n,), or None
        The noise-free function, where it is known.
    seed : int
        Seed of made data; number of the split of real data.
    n_trees : int or None
        None: the number of the settings.
    beta : float or None
        None: that of the settings.
    note : str
        Where it comes from.
    """

    name: str
    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    seed: int
    f_train: np.ndarray | None = None
    f_test: np.ndarray | None = None
    n_trees: int | None = None
    beta: float | None = None
    note: str = ""

    @property
    def n_dims(self):
        """Number of features."""
        return self.X_train.shape[1]


def _generator(name, *numbers):
    return np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence([_TAGS[name], *numbers])))


def hypercube(n_dims, seed, noise=0.01):
    """The paper's hypercube-D: ten points near each vertex of [-1, 1]^D, a function value a vertex.

    x = v + N(0, 0.1^2 I), f(v) ~ N(0, 3^2), y = f + N(0, noise^2). The test set is ten fresh points a
    vertex with fresh noise. `noise` changes neither x nor f of a seed.

    Parameters
    ----------
    n_dims : int
    seed : int
    noise : float
        Standard deviation of the labels' noise.

    Returns
    -------
    Problem
        ``ROWS_PER_VERTEX * 2**n_dims`` rows in each set, ordered by vertex; bit d of a vertex's number is
        set where coordinate d is +1.
    """
    rng = _generator("hypercube", n_dims, seed)
    vertex = np.arange(2**n_dims)
    signs = 2.0 * (vertex[:, None] >> np.arange(n_dims) & 1) - 1.0
    centre = np.repeat(signs, ROWS_PER_VERTEX, axis=0)
    f = np.repeat(rng.normal(0.0, 3.0, size=len(vertex)), ROWS_PER_VERTEX)
    X_train, X_test = (centre + rng.normal(0.0, 0.1, size=centre.shape) for _ in range(2))
    y_train, y_test = (f + noise * rng.standard_normal(len(f)) for _ in range(2))
    return Problem(
        name=f"hypercube-{n_dims}",
        X_train=X_train,
        y_train=y_train,
        X_test=X_test,
        y_test=y_test,
        f_train=f,
        f_test=f,
        seed=seed,
        n_trees=1,
        beta=HYPERCUBE_BETA.get(n_dims, 0.25),
        note=f"10 points a vertex, offsets sd 0.1, f ~ N(0, 3^2), noise sd {noise:g}",
    )


def true_tree(problem):
    """The full tree of 2^D leaves of a hypercube: dimension d is split at the gap around 0 at depth d.

    Returns
    -------
    nested tuples (dim, code, left, right), None for a leaf
        `code` numbers the gap among the sorted distinct values of the training column.
    """
    codes = [int(np.sum(np.unique(column) < 0.0)) - 1 for column in problem.X_train.T]
    structure = None
    for dim in reversed(range(problem.n_dims)):
        structure = (dim, codes[dim], structure, structure)
    return structure


def friedman(n_rows, seed, n_dims=10, noise=1.0):
    """Friedman's function on uniform features: 10 sin(pi x0 x1) + 20 (x2 - 1/2)^2 + 10 x3 + 5 x4.

    Parameters
    ----------
    n_rows : int
        Rows of each of the two sets.
    seed : int
    n_dims : int
        At least 5; the others carry no signal.
    noise : float

    Returns
    -------
    Problem
    """
    rng = _generator("friedman", n_dims, seed)
    X = rng.random((2 * n_rows, n_dims))
    f = 10.0 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20.0 * (X[:, 2] - 0.5) ** 2
    f = f + 10.0 * X[:, 3] + 5.0 * X[:, 4]
    y = f + noise * rng.standard_normal(2 * n_rows)
    return Problem(
        name=f"friedman-{n_dims}",
        X_train=X[:n_rows],
        y_train=y[:n_rows],
        X_test=X[n_rows:],
        y_test=y[n_rows:],
        f_train=f[:n_rows],
        f_test=f[n_rows:],
        seed=seed,
        note=f"Friedman (1991), {n_dims} features, noise sd {noise:g}",
    )


def california_houses(split, download=False):
    """StatLib's California houses as in the paper: six features, y in dollars, 2000 and 5000 rows.

    The six features are columns 3 to 8 of the original file (all but longitude and latitude): the paper's
    source does not name its six, this is the natural reading. The splits of the paper are not public;
    here one fixed permutation gives 5000 test rows and then three disjoint training sets of 2000.

    Parameters
    ----------
    split : int
        1, 2 or 3.
    download : bool
        Fetch the original archive (through pooch, checked by SHA-256, cached) if ``PGBART_DATA`` is not set.

    Returns
    -------
    Problem

    Raises
    ------
    FileNotFoundError
        No ``PGBART_DATA`` and no download asked for, or the file is not in it.
    """
    if split not in (1, 2, 3):
        raise ValueError(f"split: expected 1, 2 or 3, got {split!r}")
    table = np.loadtxt(_houses_file(download), delimiter=",")
    if table.shape != (20640, 9):
        raise ValueError(f"cal_housing.data: expected 20640 rows of 9 numbers, got {table.shape}")
    order = _generator("houses").permutation(len(table))
    test, train = order[:5000], order[5000 + 2000 * (split - 1) : 5000 + 2000 * split]
    return Problem(
        name="CaliforniaHouses",
        X_train=table[train, 2:8],
        y_train=table[train, 8],
        X_test=table[test, 2:8],
        y_test=table[test, 8],
        seed=split,
        note="StatLib houses (Pace & Barry 1997), features 3 to 8, y in dollars",
    )


def _houses_file(download):
    folder = os.environ.get("PGBART_DATA")
    if folder:
        path = os.path.join(folder, "california_housing", "cal_housing.data")
        if not os.path.exists(path):
            raise FileNotFoundError(f"PGBART_DATA is set, but there is no {path}")
        return path
    if not download:
        raise FileNotFoundError(
            "set PGBART_DATA to a folder with california_housing/cal_housing.data, or ask for the download"
        )
    import pooch

    member = "CaliforniaHousing/cal_housing.data"
    files = pooch.retrieve(
        _HOUSES_URL,
        known_hash=f"sha256:{_HOUSES_SHA256}",
        fname="cal_housing.tgz",
        path=pooch.os_cache("pgbart"),
        processor=pooch.Untar(members=[member]),
    )
    return files[0]


def diabetes(split):
    """The diabetes data that scikit-learn carries: 442 rows, 10 features, 100 of the rows for testing.

    Parameters
    ----------
    split : int

    Returns
    -------
    Problem
    """
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True, scaled=False)
    order = _generator("diabetes", split).permutation(len(y))
    test, train = order[:100], order[100:]
    return Problem(
        name="diabetes",
        X_train=np.ascontiguousarray(X[train]),
        y_train=y[train],
        X_test=np.ascontiguousarray(X[test]),
        y_test=y[test],
        seed=split,
        note="diabetes data of scikit-learn (Efron et al. 2004), 342 training and 100 test rows",
    )


def real_problem(split, download=False):
    """CaliforniaHouses where it can be had, else diabetes."""
    if os.environ.get("PGBART_DATA") or download:
        return california_houses(split, download)
    return diabetes(split)
