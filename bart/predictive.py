"""The posterior predictive law of an outcome: a mixture of normal laws, one for each draw."""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri

from .data import check_offset
from .inputs import as_vector, check_choice, check_seed
from .outcomes import GAUSSIAN, Probit

__all__ = [
    "OutcomeNoise", "check_gaussian", "check_new_weights", "log_density_of", "log_predictive_density",
    "mixture_quantiles", "new_offset", "new_rows", "normal_log_density", "outcome_noise", "probit_log_density",
    "quantiles_of",
]  # fmt: skip

# Newton steps before every other one halves the bracket; a double has no more than 53 halvings after that.
_FREE_STEPS = 20
_MOST_STEPS = 200
# Numbers looked at together.
_BLOCK_NUMBERS = 400_000


def mixture_quantiles(f, sigma, levels):
    """Quantiles of the equal mixture of N(f[s], sigma[s]^2) over s, by inversion of its distribution function.

    Parameters
    ----------
    f : ndarray of float64, shape (n_draws, n)
        Means, one column a row of X.
    sigma : ndarray of float64, shape (n_draws,)
        Standard deviations, > 0, in the units of f.
    levels : sequence of float in [0, 1]

    Returns
    -------
    ndarray of float64, shape (n_levels, n)
        -inf and inf at the levels 0 and 1.

    Notes
    -----
    Newton steps on the logarithm of the distribution function, nearly straight in the tails, within a bracket, at first
    the smallest and largest quantile of a component; it is halved where a step leaves it, and every other time where
    steps are many. Upper levels are lower ones of the mirrored mixture, so that no tail loses digits.
    """
    found = np.empty((len(levels), f.shape[1]))
    step = max(1, _BLOCK_NUMBERS // max(1, len(f)))
    for first in range(0, f.shape[1], step):
        rows = slice(first, first + step)
        # A row of X along the fast axis, whose sums do then not depend on the rows beside it.
        means = np.ascontiguousarray(f[:, rows].T)
        for place, level in enumerate(levels):
            if level in (0.0, 1.0):
                found[place, rows] = -np.inf if level == 0.0 else np.inf
            elif level <= 0.5:
                found[place, rows] = _lower_quantile(means, sigma, level)
            else:
                found[place, rows] = -_lower_quantile(-means, sigma, 1.0 - level)
    return found


def quantiles_of(f, sigma, levels, root=None):
    """Quantiles over draws, (n_levels, n), at rows with f of shape (n_draws, n).

    Of f where `sigma` is None; else of outcomes with the standard deviations sigma / root, sigma (n_draws,) and root
    that of the rows' weights, (n,), or None.
    """
    if sigma is None:
        return np.quantile(f, levels, axis=0)
    if root is None:
        return mixture_quantiles(f, sigma, levels)
    return mixture_quantiles(f * root, sigma, levels) / root


def _lower_quantile(f, sigma, level):
    ends = f + sigma * ndtri(level)
    low, high = ends.min(axis=1), ends.max(axis=1)
    at = np.clip(f.mean(axis=1) + np.sqrt(f.var(axis=1) + np.mean(sigma**2)) * ndtri(level), low, high)
    active = np.flatnonzero(low < high)
    target, scale = np.log(level), 1.0 / sigma
    for count in range(_MOST_STEPS):
        if not active.size:
            break
        t = at[active]
        log_cdf, slope = _log_mixture((t[:, None] - f[active]) * scale, scale)
        too_high = log_cdf > target
        high[active] = np.where(too_high, t, high[active])
        low[active] = np.where(too_high, low[active], t)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            step = t - (log_cdf - target) / slope
        inside = (step >= low[active]) & (step <= high[active])
        if count > _FREE_STEPS and count % 2:
            inside[:] = False
        step = np.where(inside, step, 0.5 * low[active] + 0.5 * high[active])
        at[active] = step
        allowed = 4e-15 * np.maximum(np.abs(step), sigma.min())
        active = active[(np.abs(step - t) > allowed) & (high[active] - low[active] > allowed)]
    return at


def _log_mixture(z, scale):
    """log of the mean over draws (the last axis) of Phi(z), and its derivative, where z has derivative `scale`."""
    cdf = ndtr(z).mean(axis=1)
    density = (np.exp(-0.5 * z * z) * scale).mean(axis=1) / np.sqrt(2 * np.pi)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_cdf, slope = np.log(cdf), density / cdf
    tiny = cdf < 1e-290
    if tiny.any():
        log_cdf[tiny] = logsumexp(log_ndtr(z[tiny]), axis=1) - np.log(z.shape[1])
    return log_cdf, slope


class OutcomeNoise:
    """The noise of simulated outcomes: one generator for each draw, so that no block changes a number.

    Parameters
    ----------
    sigma : ndarray of float64, shape (n_chains, n_draws)
        Units of y.
    seed : int, sequence of int or None
    """

    def __init__(self, sigma, seed):
        entropy = np.random.SeedSequence(seed).entropy
        self._sigma = sigma
        self._generators = [
            [np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(entropy, spawn_key=(c, s))))
             for s in range(sigma.shape[1])]
            for c in range(sigma.shape[0])
        ]  # fmt: skip

    def add_to(self, block, root=None):
        """f + sigma eps / root of a Block, root that of its rows' weights; the rows of a draw must come in order."""
        out = np.empty_like(block.values)
        for place, draw in enumerate(range(block.draws.start, block.draws.stop)):
            eps = self._generators[block.chain][draw].standard_normal(block.values.shape[1])
            if root is not None:
                eps /= root
            out[place] = block.values[place] + self._sigma[block.chain, draw] * eps
        return out


def normal_log_density(y, f, sigma):
    """log N(y | f, sigma^2), arrays of shapes that broadcast."""
    z = (y - f) / sigma
    return -0.5 * z * z - np.log(sigma) - 0.5 * np.log(2 * np.pi)


def probit_log_density(y, f, sigma=None):
    """log P(y | f), the latent variable integrated out: log Phi(f) where y is 1, log Phi(-f) where it is 0."""
    return log_ndtr((2.0 * y - 1.0) * f)


def log_density_of(post, y):
    """The function of (y, f, sigma) that is the log density of an outcome given a draw; y, (n,), is checked.

    Raises
    ------
    ValueError
        The run's outcome is one of the user's own, which the run does not hold, or y is not of its outcome.
    """
    if post.outcome == Probit.name:
        Probit().check_values(y)
        return probit_log_density
    check_gaussian(post, "the pointwise log-likelihood", "or probit ")
    return normal_log_density


def log_predictive_density(log_likelihood):
    """log of the mean over draws of the likelihood of each row.

    Parameters
    ----------
    log_likelihood : ndarray, shape (n_draws, n)

    Returns
    -------
    ndarray, shape (n,)
    """
    return logsumexp(log_likelihood, axis=0) - np.log(len(log_likelihood))


def check_new_weights(weights, n_rows):
    """Weights of new rows, (n_rows,) float64, or None."""
    if weights is None:
        return None
    weights = as_vector(weights, "weights") if n_rows else np.empty(0)
    if len(weights) != n_rows:
        raise ValueError(f"X has {n_rows} rows, but weights has {len(weights)} values")
    bad = np.flatnonzero(weights <= 0)
    if len(bad):
        raise ValueError(f"weights[{bad[0]}] = {weights[bad[0]]} is not positive")
    return weights


def outcome_noise(post, kind, every, draws, seed, weights=None):
    """What `Posterior.predict` needs beside f: sigma, (n_chains, n_draws), and an OutcomeNoise; None where it is not
    asked for."""
    check_choice(kind, "kind", ("mean", "outcome"))
    if seed is not None and not (kind == "outcome" and draws):
        raise ValueError(f"seed={seed!r} has no effect but for draws of outcomes (kind='outcome', draws=True)")
    if kind == "mean":
        if weights is not None:
            raise ValueError("weights have no effect with kind='mean'")
        return None, None
    check_gaussian(post, "kind='outcome'")
    sigma = np.ascontiguousarray(post["sigma"][:, ::every])
    return sigma, OutcomeNoise(sigma, check_seed(seed)) if draws else None


def new_offset(header, offset, n_rows):
    """Offsets of new rows, (n_rows,), as they are added to f; None for a run that had none for each row.

    Parameters
    ----------
    header : dict
        `Posterior.header`.
    offset : float, array_like or None
        What the user gave.
    n_rows : int

    Raises
    ------
    ValueError, TypeError
        It is missing, has no effect, or is no such offset.
    """
    if header.get("row_offset") is None:
        if offset is not None:
            raise ValueError("offset has no effect: the model had none for each row (f contains one that is a number)")
        return None
    if offset is None:
        raise ValueError("offset is missing: the model had one for each row; give those of X, or 0.0 for f alone")
    return np.broadcast_to(check_offset(offset, n_rows), (n_rows,))


def new_rows(header, offset, weights, n_rows):
    """`new_offset` and `check_new_weights` of new rows."""
    return new_offset(header, offset, n_rows), check_new_weights(weights, n_rows)


def check_gaussian(post, what, other=""):
    """Refuse what is about Gaussian noise, and what `other` says, where the outcome is another."""
    if post.outcome != GAUSSIAN:
        raise ValueError(f"{what} is about Gaussian {other}outcomes, and those of this run are {post.outcome!r}")
