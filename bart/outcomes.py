"""Outcomes other than y = f(x) + noise: latent normal variables, drawn anew before each sweep, in the place of y.

    z_n = offset_n + f(x_n) + e_n,  e_n ~ N(0, 1),  and y_n depends on z_n alone.

Given z the trees are those of a regression of z - offset with sigma = 1, so that every sampler serves as it is; given
the trees the z are independent (Albert & Chib 1993, Bayesian analysis of binary and polychotomous response data).
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp

from .between import EachSweep
from .data import Dataset, check_offset
from .inputs import check_same_index

__all__ = ["Latent", "LatentDataset", "Outcome", "Probit", "draw_positive"]

# The largest exponent below 0 that ndtri_exp tells from 0, whose quantile would be infinite.
_LOG_BELOW_ONE = -np.finfo(np.float64).smallest_subnormal
_TINY = np.finfo(np.float64).tiny
# Standard deviations below 0 from which on the quantile is taken from its expansion, here right to 1e-8 as the other.
_FAR = 250.0


def draw_positive(mean, rng):
    """Draws from N(mean, 1) given that they are positive.

    Parameters
    ----------
    mean : (N,) float64
    rng : numpy.random.Generator

    Returns
    -------
    (N,) float64
        Positive and finite, however far the mean is below or above 0.

    Notes
    -----
    By the inverse of the distribution function, on the log scale: P(z > x | z > 0) = U gives
    x = mean - Phi^-1(U Phi(mean)), with U = exp(-E) and E exponential, so that neither factor underflows.
    """
    exponent = rng.standard_exponential(len(mean))
    far = np.flatnonzero(mean < -_FAR)
    log_tail = log_ndtr(np.maximum(mean, -_FAR) if len(far) else mean)
    log_tail -= exponent
    np.minimum(log_tail, _LOG_BELOW_ONE, out=log_tail)
    drawn = mean - ndtri_exp(log_tail)
    if len(far):
        # a = -mean: a x + x^2 / 2 + log(1 + x / a) = E up to terms below x / a^3, where the difference of the two large
        # numbers above has no digits left.
        a, exponent = -mean[far], exponent[far]
        x = exponent / (a + 0.5 * exponent / a)
        drawn[far] = exponent / (a + 1.0 / a + 0.5 * x)
    return np.maximum(drawn, _TINY)


class Outcome:
    """How y depends on the latent variables; the base of `Probit` and of outcomes of your own.

    An outcome of your own defines `check`, `default_offset`, `start`, `draw` and `log_likelihood`, and goes into
    ``Model(X, y, outcome=...)``. Checkpoints tell its settings from another's by its attributes, or by its ``__repr__``
    where it defines one (without attributes it must).

    Attributes
    ----------
    name : str
        How saved runs call it.
    half_range : float
        Leaf values have the prior standard deviation ``half_range / (k sqrt(n_trees))``, in latent units: f lies within
        ``half_range`` of the offset with probability P(abs(N(0, 1)) < k). 3 by default, as of Chipman, George &
        McCulloch (2010), section 4.
    """

    name = "outcome"
    half_range = 3.0

    def check(self, y):
        """Raise ValueError, by position, for a y, (N,) float64, that this outcome cannot have."""
        raise NotImplementedError

    def default_offset(self, y):
        """The offset where none is given: a float, in latent units."""
        raise NotImplementedError

    def start(self, y, offset):
        """(N,) float64: latent variables for the start of a chain, of y and the offset, a float or (N,), alone."""
        raise NotImplementedError

    def draw(self, y, mean, rng):
        """(N,) float64, finite: latent variables from their law given y and ``mean = offset + f(x)``, (N,)."""
        raise NotImplementedError

    def log_likelihood(self, y, mean):
        """sum_n log p(y_n | mean_n), latent variables integrated out: a float."""
        raise NotImplementedError


class Probit(Outcome):
    """Two classes: y is 1 where z > 0 and else 0, so that P(y = 1 | x) = Phi(offset + f(x)).

    The offset is Phi^-1 of the share of ones unless one is given.
    """

    name = "probit"

    def __repr__(self):
        return "Probit()"

    @staticmethod
    def check_values(y):
        """`check`, one class alone allowed."""
        wrong = np.flatnonzero((y != 0) & (y != 1))
        if len(wrong):
            raise ValueError(
                f"y must be 0 or 1 for outcome='probit', it is {y[wrong[0]]:g} at position {wrong[0]}; "
                "bart.estimators.BARTClassifier takes classes of any name"
            )

    def check(self, y):
        self.check_values(y)
        if y.min() == y.max():
            raise ValueError(f"y holds one class only, {y[0]:g} in all {len(y)} rows; outcome='probit' needs both")

    def default_offset(self, y):
        return float(ndtri(y.mean()))

    def start(self, y, offset):
        """The means of z given y before any tree: offset +- phi(offset) / Phi(+-offset)."""
        sign = 2.0 * y - 1.0
        return offset + sign * np.exp(-0.5 * offset**2 - 0.5 * np.log(2.0 * np.pi) - log_ndtr(sign * offset))

    def draw(self, y, mean, rng):
        sign = 2.0 * y - 1.0
        return sign * draw_positive(sign * mean, rng)

    def log_likelihood(self, y, mean):
        return float(log_ndtr((2.0 * y - 1.0) * mean).sum())

    @staticmethod
    def probability(f):
        """P(y = 1) for f in latent units, the offset included; any shape."""
        return ndtr(f)


OUTCOMES = {Probit.name: Probit}
GAUSSIAN = "gaussian"


def name_of(outcome):
    """The name of a Model's outcome, which is None for "gaussian"."""
    return GAUSSIAN if outcome is None else outcome.name


def resolve_outcome(outcome):
    """None for "gaussian", an Outcome for its name or itself."""
    if isinstance(outcome, Outcome):
        return outcome
    if isinstance(outcome, str):
        if outcome == GAUSSIAN:
            return None
        if outcome in OUTCOMES:
            return OUTCOMES[outcome]()
    names = ", ".join(repr(name) for name in (GAUSSIAN, *OUTCOMES))
    raise ValueError(f"outcome must be one of {names} or an Outcome, got {outcome!r}")


class LatentDataset(Dataset):
    """Training rows whose responses are seen through latent variables.

    Parameters
    ----------
    X, y
        As in Dataset.
    outcome : Outcome
    offset : float, (N,) array_like or None
        In latent units; None for that of the outcome.

    Attributes
    ----------
    y : (N,) float64, read-only
        As observed.
    offset : float or (N,) float64, read-only
    y_mid, y_range : float
        The offset where it is a number, else 0, and 1: the trees' f plus ``y_mid``, plus offsets of rows, is the mean
        of z.
    y_scaled : (N,) float64, read-only
        Latent variables for the start of a chain, less the offset.
    """

    def __init__(self, X, y, outcome, offset=None):
        super().__init__(X, y, scale=False)
        outcome.check(self.y)
        check_same_index(X, offset, "offset")
        offset = check_offset(offset, self.n_rows)
        self.offset = float(outcome.default_offset(self.y)) if offset is None else offset
        self.y_mid = self.offset if isinstance(self.offset, float) else 0.0
        self.y_scaled = outcome.start(self.y, self.offset) - self.offset
        self.y_scaled.flags.writeable = False

    def to_scaled(self, y):
        """Latent variables less the offset, where it is a number; any shape, float64."""
        return np.asarray(y, dtype=np.float64) - self.y_mid


class Latent(EachSweep):
    """The latent variables of one chain, as its Ensemble keeps them.

    ``kernel.y`` is z - offset, ``kernel.residual`` z - offset - f.

    Parameters
    ----------
    outcome : Outcome
    dataset : LatentDataset

    Attributes
    ----------
    y : (N,) float64
        What is observed; a block of your own may change it between runs (missing labels, a joint test).
    offset : (N,) float64
        Of each row, in latent units. A change of ``Ensemble.residual`` between runs is one of minus this: the fit of
        a second forest in it, for instance.
    """

    def __init__(self, outcome, dataset):
        self.outcome = outcome
        self.y = dataset.y.copy()
        self.offset = np.broadcast_to(dataset.offset, self.y.shape).copy()

    def mean(self, kernel):
        """(N,) float64: offset + f at the training rows."""
        return self.offset + (kernel.y - kernel.residual)

    def log_likelihood(self, kernel):
        """sum_n log p(y_n | offset_n + f(x_n)), z integrated out."""
        return self.outcome.log_likelihood(self.y, self.mean(kernel))

    def redraw(self, kernel, rng):
        """Draw z given the trees: y and residual of the kernel are replaced."""
        fit = kernel.y - kernel.residual
        drawn = self.outcome.draw(self.y, self.offset + fit, rng) - self.offset
        try:
            kernel.y[:] = drawn
            np.subtract(drawn, fit, out=kernel.residual)
        except BaseException:               # an interrupt between the two
            kernel.set_residual()
            raise

    def get_state(self):
        """Plain values and arrays; z is in the state of the Ensemble."""
        return {"y": self.y.copy(), "offset": self.offset.copy()}

    def set_state(self, state):
        """Take over what `get_state` gave."""
        self.y[:], self.offset[:] = state["y"], state["offset"]

