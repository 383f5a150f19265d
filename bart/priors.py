"""The priors of trees, leaf values and noise, and the recipes that calibrate them to data.

All variances are in scaled units (y mapped to [-0.5, 0.5]); `bart.model.Model` converts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import gammainccinv

from .hyperpriors import Dirichlet
from .inputs import as_matrix, as_vector, check_choice, check_count, check_real

DEFAULT_N_CUTS = 100
# A residual this small beside the spread of y is rounding: the fit is exact.
_EXACT_FIT = 1e-10


@dataclass(frozen=True)
class TreePrior:
    """The prior of one tree: split at depth d with probability ``alpha (1 + d)^-beta``.

    A rule is (dimension, gap between neighbouring distinct values of the training column). The dimension is
    drawn among those with a valid gap in the node's range, the gap with probability proportional to its mass.

    Parameters
    ----------
    alpha : float
        0 <= alpha < 1; 0 means that no tree ever splits.
    beta : float
        beta >= 0.
    threshold : {"uniform", "midpoint"}
        Where in its gap the threshold tau lies, which matters for new x only. In the grid prior tau is one of
        the gap's cut points, uniformly, so "midpoint" is refused there.
    cuts : {"width", "grid", "quantile"}
        The mass of a gap: its width (a location uniform over the node's range), or the number of cut points that it
        holds: of a grid, equally spaced inside the column's range, or of quantiles, midway between neighbouring
        distinct values at equally spaced ranks (at all of them where there are no more than `n_cuts` gaps). A cut
        point c is valid at a node where it separates its rows, min <= c < max: rows at c itself go left.
    n_cuts : int
        Most cut points of a column; not with ``cuts="width"``.
    dim_weights : sequence of D floats, bart.Dirichlet, "dirichlet" or None
        Relative probabilities of the dimensions, 0 meaning never; None means equal ones. A Dirichlet is a prior of
        them, and they are drawn with the trees; "dirichlet" is that of Linero (2018).

    Raises
    ------
    TypeError, ValueError
        For a bad parameter, by name.
    """

    alpha: float = 0.95
    beta: float = 2.0
    threshold: str = "uniform"
    cuts: str = "width"
    n_cuts: int = DEFAULT_N_CUTS
    dim_weights: tuple[float, ...] | Dirichlet | None = None

    def __post_init__(self):
        _set(self, "alpha", check_real(self.alpha, "alpha", 0, 1, "low"))
        _set(self, "beta", check_real(self.beta, "beta", 0, closed="low"))
        check_choice(self.threshold, "threshold", ("uniform", "midpoint"))
        check_choice(self.cuts, "cuts", ("width", "grid", "quantile"))
        _set(self, "n_cuts", check_count(self.n_cuts, "n_cuts"))
        if self.cuts == "width" and self.n_cuts != DEFAULT_N_CUTS:
            raise ValueError(f"n_cuts={self.n_cuts} has no effect with cuts='width'")
        if self.cuts != "width" and self.threshold == "midpoint":
            raise ValueError(f"threshold='midpoint' has no effect with cuts={self.cuts!r}")
        if isinstance(self.dim_weights, str) and self.dim_weights == "dirichlet":
            _set(self, "dim_weights", Dirichlet())
        elif self.dim_weights is not None and not isinstance(self.dim_weights, Dirichlet):
            _set(self, "dim_weights", _check_dim_weights(self.dim_weights))

    def p_split(self, depth):
        """``alpha (1 + depth)^-beta``: how probably a node with a valid gap splits; the root has depth 0."""
        return self.alpha * (1.0 + depth) ** -self.beta

    def dim_log_weights(self, n_dims):
        """Log weights of the dimensions, shape (n_dims,), float64: the largest is 0, -inf means never; equal ones under
        a Dirichlet prior.

        Raises
        ------
        ValueError
            If ``dim_weights`` has another length.
        """
        if self.dim_weights is None or isinstance(self.dim_weights, Dirichlet):
            return np.zeros(n_dims)
        if len(self.dim_weights) != n_dims:
            raise ValueError(f"dim_weights has {len(self.dim_weights)} values, but X has {n_dims} columns")
        weights = np.array(self.dim_weights)
        with np.errstate(divide="ignore"):
            return np.log(weights) - math.log(weights.max())

    def grid(self, values):
        """The cut points of one column.

        Parameters
        ----------
        values : numpy.ndarray, float64
            Distinct values of the column, increasing.

        Returns
        -------
        numpy.ndarray, float64
            At most ``n_cuts`` non-decreasing points c with ``values[0] <= c < values[-1]``; where the range is so
            narrow that a point rounds to an end, it stays a valid threshold (x <= c separates). Empty for a constant
            column.
        """
        low, high = float(values[0]), float(values[-1])
        if low == high:
            return np.empty(0)
        if self.cuts == "quantile":
            n_gaps = len(values) - 1
            n = min(self.n_cuts, n_gaps)
            gap = (2 * np.arange(n) + 1) * n_gaps // (2 * n)
            middle = 0.5 * values[gap] + 0.5 * values[gap + 1]
            return np.clip(middle, values[gap], np.nextafter(values[gap + 1], -np.inf))
        fractions = np.arange(1, self.n_cuts + 1) / (self.n_cuts + 1.0)
        # Halves, because the range of a column may overflow where its ends do not.
        shrink = 1.0 if math.isfinite(high - low) else 0.5
        points = (shrink * low + fractions * (shrink * high - shrink * low)) / shrink
        return np.clip(points, low, np.nextafter(high, -np.inf))

    def gap_mass(self, values):
        """Cumulative mass of the gaps of every column.

        Parameters
        ----------
        values : list of D numpy.ndarray, float64
            Distinct values of each column, increasing (`bart.data.RankCodes.values`).

        Returns
        -------
        list of D numpy.ndarray, float64
            ``cum`` of the same lengths, non-decreasing: gap g, between values g and g + 1, has mass
            ``cum[g + 1] - cum[g]``, and a node that covers codes lo..hi can split there if and only if
            ``cum[hi] - cum[lo] > 0``. Widths are differences of the values themselves (shared, not copied),
            halved where the column's range overflows; cut points are counted below each value, so that
            gap g holds the points c with ``values[g] <= c < values[g + 1]``.
        """
        if self.cuts != "width":
            return [np.searchsorted(self.grid(v), v, side="left").astype(np.float64) for v in values]
        return [v if math.isfinite(float(v[-1]) - float(v[0])) else 0.5 * v for v in values]


@dataclass(frozen=True)
class LeafPrior:
    """Leaf values are independently N(mean, var), in scaled units.

    Parameters
    ----------
    mean : float
    var : float
        A variance, > 0.
    """

    mean: float = 0.0
    var: float | None = None

    def __post_init__(self):
        _set(self, "mean", check_real(self.mean, "mean"))
        _set(self, "var", check_real(self.var, "var", 0))

    @classmethod
    def calibrate(cls, k, n_trees, half_range=0.5):
        """Mean 0 and standard deviation ``half_range / (k sqrt(n_trees))``: the range of y is k prior standard
        deviations of f to either side of its middle (the paper, "Prior specification for BART"). For latent
        variables `half_range` is that of their mean."""
        k, n_trees = check_real(k, "k", 0), check_count(n_trees, "n_trees")
        return cls(0.0, (half_range / (k * math.sqrt(n_trees))) ** 2)


@dataclass(frozen=True)
class NoisePrior:
    """1 / sigma2 is Gamma with the given shape and rate ``nu lam / 2``, in scaled units.

    With the default shape nu / 2 this is ``sigma2 ~ nu lam / chi2_nu``.

    Parameters
    ----------
    nu : float
        Degrees of freedom, > 0.
    lam : float
        Scale of sigma2, > 0.
    shape : float or None
        None for nu / 2.
    """

    nu: float
    lam: float
    shape: float | None = None

    def __post_init__(self):
        _set(self, "nu", check_real(self.nu, "nu", 0))
        _set(self, "lam", check_real(self.lam, "lam", 0))
        _set(self, "shape", self.nu / 2 if self.shape is None else check_real(self.shape, "shape", 0))

    @property
    def rate(self):
        """Rate of the Gamma law of 1 / sigma2: ``nu lam / 2``."""
        return 0.5 * self.nu * self.lam

    @classmethod
    def calibrate(cls, nu, q, sigma_hat, shape=None):
        """The prior with ``P(sigma < sigma_hat) = q``, under the shape asked for.

        Parameters
        ----------
        nu : float
            Degrees of freedom, > 0.
        q : float
            0 < q < 1.
        sigma_hat : float
            A standard deviation in scaled units, > 0.
        shape : float or None
            None for nu / 2. (The paper's authors use nu, and calibrate under that shape too.)
        """
        nu, q = check_real(nu, "nu", 0), check_real(q, "q", 0, 1)
        sigma_hat = check_real(sigma_hat, "sigma_hat", 0)
        shape = nu / 2 if shape is None else check_real(shape, "shape", 0)
        # P(1 / sigma2 > 1 / sigma_hat^2) = q for Gamma(shape, rate); for shape nu / 2 the quantile is half
        # that of chi2_nu at 1 - q.
        return cls(nu, 2.0 * sigma_hat**2 * float(gammainccinv(shape, q)) / nu, shape)


@dataclass(frozen=True)
class FixedNoise:
    """Noise of known variance, in scaled units."""

    sigma2: float

    def __post_init__(self):
        _set(self, "sigma2", check_real(self.sigma2, "sigma2", 0))


def estimate_sigma(X, y, method="ols", weights=None):
    """Estimate the noise standard deviation, and say how.

    Parameters
    ----------
    X : array_like, shape (N, D)
    y : array_like, shape (N,)
    method : {"ols", "sd"}
        "ols": residual standard deviation, divisor N - D - 1, of the least-squares fit with intercept. Where
        that does not exist (N <= D + 1, a design without full rank such as one with a constant column) or is
        0 (an exact fit) the method falls back on "sd". "sd": standard deviation of y with divisor N.
    weights : (N,) float64, optional
        Of the squares in both; the estimate is then of a row of weight 1.

    Returns
    -------
    float
        In the units of y; 0 for a constant y.
    {"ols", "sd"}
        The method used in the end.
    """
    check_choice(method, "sigma_hat", ("ols", "sd"))
    y = as_vector(y, "y")
    center = 0.5 * y.min() + 0.5 * y.max()
    spread = max(y.max() - center, center - y.min())
    if spread == 0:
        return 0.0, "sd"
    z = (y - center) / spread
    root = None if weights is None else np.sqrt(weights)
    if weights is None:
        sd = float(np.std(z))
    else:
        sd = float(np.sqrt(np.mean(weights * (z - np.average(z, weights=weights)) ** 2)))
    if method == "ols":
        X, _ = as_matrix(X, "X")
        if X.shape[0] != y.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows, but y has {y.shape[0]} values")
        residual_sd = _residual_sd(X, z, root)
        if residual_sd is not None and residual_sd > _EXACT_FIT * sd:
            # Rounded, so that the last bits of a BLAS with another number of threads reach no chain.
            return float(f"{spread * residual_sd:.12g}"), "ols"
    return float(spread * sd), "sd"


def _residual_sd(X, y, root=None):
    """Residual standard deviation of y on [1, X], None where it does not exist; with rows times `root`, the roots of
    their weights, that of a row of weight 1. QR by blocks of rows, so that no second matrix of the size of X is made.
    """
    n_rows, n_dims = X.shape
    if n_rows <= n_dims + 1:
        return None
    low, high = X.min(axis=0), X.max(axis=0)
    center, half = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
    if not np.all(half > 0):
        return None
    width = n_dims + 2
    rows = max(8 * width, (1 << 20) // width)
    factor = np.empty((0, width))
    for start in range(0, n_rows, rows):
        block = np.empty((min(rows, n_rows - start), width))
        block[:, 0] = 1.0
        block[:, 1:-1] = (X[start : start + rows] - center) / half
        block[:, -1] = y[start : start + rows]
        if root is not None:
            block *= root[start : start + rows, None]
        factor = np.linalg.qr(np.vstack([factor, block]), mode="r")
    singular = np.linalg.svd(factor[:-1, :-1], compute_uv=False)
    if singular[-1] <= singular[0] * n_rows * np.finfo(np.float64).eps:
        return None
    return abs(float(factor[-1, -1])) / math.sqrt(n_rows - n_dims - 1)


def _set(record, name, value):
    object.__setattr__(record, name, value)


def _check_dim_weights(weights):
    if isinstance(weights, (str, bytes)) or not isinstance(weights, Iterable):
        raise TypeError(f"dim_weights must be a sequence of numbers, a Dirichlet or 'dirichlet', got {weights!r}")
    checked = tuple(check_real(w, f"dim_weights[{d}]", 0, closed="low") for d, w in enumerate(weights))
    if not any(checked):
        raise ValueError("dim_weights must have a positive entry")
    return checked
