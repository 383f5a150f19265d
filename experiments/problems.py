"""Problems of the experiments, and the made ones; `real_data` reads the real ones."""

import re
from dataclasses import dataclass

import numpy as np

from .paper import HYPERCUBE_BETA

__all__ = ["Problem", "data_generator", "friedman", "hypercube", "made", "three_region", "true_tree"]

ROWS_PER_VERTEX = 10
MADE_FORMS = ("hypercube-<dims>", "friedman-<rows>-<dims>", "three-region")

# The first number of every data set's stream: no two may be equal, and a change makes other data.
_TAGS = {
    "hypercube": 1,
    "friedman": 2,
    "CaliforniaHouses": 3,
    "diabetes": 4,
    "YearPredictionMSD": 5,
    "CTslices": 6,
    "gas": 7,
    "pol": 8,
    "ct_slices_head": 9,
    "three-region": 10,
}


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


def data_generator(name, *numbers):
    """The stream of random numbers that a data set of this name is made or split with.

    Parameters
    ----------
    name : str
        One that has a number in `_TAGS`.
    *numbers : int
        Size, seed or split: whatever tells this data set from others of its name.

    Returns
    -------
    numpy.random.Generator
    """
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
    rng = data_generator("hypercube", n_dims, seed)
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
        Named ``friedman-{n_rows}-{n_dims}``.

    Raises
    ------
    ValueError
        No row, or fewer than 5 features.
    """
    if n_rows < 1:
        raise ValueError(f"n_rows: expected at least 1, got {n_rows}")
    if n_dims < 5:
        raise ValueError(f"n_dims: Friedman's function needs at least 5 features, got {n_dims}")
    rng = data_generator("friedman", n_dims, seed)
    X = rng.random((2 * n_rows, n_dims))
    f = 10.0 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20.0 * (X[:, 2] - 0.5) ** 2
    f = f + 10.0 * X[:, 3] + 5.0 * X[:, 4]
    y = f + noise * rng.standard_normal(2 * n_rows)
    return Problem(
        name=f"friedman-{n_rows}-{n_dims}",
        X_train=X[:n_rows],
        y_train=y[:n_rows],
        X_test=X[n_rows:],
        y_test=y[n_rows:],
        f_train=f[:n_rows],
        f_test=f[n_rows:],
        seed=seed,
        note=f"Friedman (1991), {n_dims} features, noise sd {noise:g}",
    )


def three_region(n_rows=300, seed=1, noise=0.5):
    """A step function of three values on three features that say the same twice: one tree has many forms.

    The example of Wu, Tjelmeland & West (2007), "Bayesian CART: prior specification and posterior simulation".
    In thirds of the rows: x1 ~ U(.1, .4), U(.1, .4), U(.6, .9); x2 ~ U(.1, .4), U(.6, .9), U(.1, .9);
    x3 ~ U(.6, .9), U(.6, .9), U(.1, .4). f is 5 where x1 > .5, else 3 where x2 > .5, else 1;
    y = f + N(0, noise^2). A split of x3 does what one of x1 does.

    All these numbers stand in the particle Gibbs authors' published script, which names that article as its
    source. The article's own text was not at hand, so they are not confirmed by it. That script tests on the
    training rows; here the test set is fresh rows by the same law.

    Parameters
    ----------
    n_rows : int
        Rows of each of the two sets, a multiple of 3; 300 in the source.
    seed : int
    noise : float
        Standard deviation of the labels' noise; 0.5 in the source.

    Returns
    -------
    Problem
        One tree, three features; rows in the order of their thirds.

    Raises
    ------
    ValueError
        `n_rows` is not a positive multiple of 3.
    """
    if n_rows < 3 or n_rows % 3:
        raise ValueError(f"n_rows: expected a positive multiple of 3, got {n_rows}")
    rng = data_generator("three-region", seed)
    low = np.array([[0.1, 0.1, 0.6], [0.1, 0.6, 0.6], [0.6, 0.1, 0.1]]).repeat(n_rows // 3, axis=0)
    high = np.array([[0.4, 0.4, 0.9], [0.4, 0.9, 0.9], [0.9, 0.9, 0.4]]).repeat(n_rows // 3, axis=0)
    X_train, X_test = (low + (high - low) * rng.random((n_rows, 3)) for _ in range(2))
    f = np.array([1.0, 3.0, 5.0]).repeat(n_rows // 3)
    y_train, y_test = (f + noise * rng.standard_normal(n_rows) for _ in range(2))
    return Problem(
        name="three-region",
        X_train=X_train,
        y_train=y_train,
        X_test=X_test,
        y_test=y_test,
        f_train=f,
        f_test=f,
        seed=seed,
        n_trees=1,
        note=f"three regions after Wu, Tjelmeland & West (2007), {n_rows} rows, noise sd {noise:g}",
    )


def made(name, seed, label_noise=0.01):
    """The made problem of a name.

    Parameters
    ----------
    name : str
        ``hypercube-<dims>``, ``friedman-<rows>-<dims>`` or ``three-region``.
    seed : int
    label_noise : float
        Of the hypercubes alone: the noise of the others is part of their definition.

    Returns
    -------
    Problem
        Its `name` is the one asked for.

    Raises
    ------
    ValueError
        No such name, or sizes that the problem cannot have.
    """
    if name == "three-region":
        return three_region(seed=seed)
    kind, *sizes = name.split("-")
    if all(re.fullmatch("[1-9][0-9]*", size) for size in sizes):
        if kind == "hypercube" and len(sizes) == 1:
            return hypercube(int(sizes[0]), seed, label_noise)
        if kind == "friedman" and len(sizes) == 2:
            return friedman(int(sizes[0]), seed, int(sizes[1]))
    raise ValueError(f"no made problem {name!r}: expected one of {', '.join(MADE_FORMS)}")
