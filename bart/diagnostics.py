"""Convergence figures: coda's effective size, and rank-normalised ESS and R-hat through ArviZ."""

from __future__ import annotations

import math

import numpy as np

# R's all.equal calls a residual standard deviation 0 up to here, the square root of the machine epsilon.
_ZERO_RESIDUAL = math.sqrt(np.finfo(np.float64).eps)


def effective_size(x):
    """Effective sample size as R's coda computes it: `effectiveSize`, by an autoregressive spectrum at zero.

    Parameters
    ----------
    x : array_like, shape (n,) or (n, p)
        One series of successive draws, or one in each column; n >= 2.

    Returns
    -------
    float or numpy.ndarray, shape (p,)
        ``n var(x) / S`` with ``S = v n / (n - p - 1) / (1 - sum phi)^2`` of the Yule-Walker model whose
        order p (at most ``10 log10 n``) minimises ``n log v + 2 p``. More than n for negatively correlated
        draws. Exactly 0 where a straight line fits to a standard deviation of 1.5e-8, in particular for a
        constant series; that limit is absolute, so a series in tiny units counts as constant.

    Raises
    ------
    ValueError
        For a wrong shape or values that are not finite, by position.
    """
    x = _as_draws(x, "x", (1, 2))
    if x.shape[0] < 2:
        raise ValueError(f"x must hold at least two draws, got shape {x.shape}")
    if x.ndim == 1:
        return _effective_size(x)
    return np.array([_effective_size(column) for column in x.T])


def _effective_size(x):
    n = x.size
    largest = float(np.max(np.abs(x)))
    if largest == 0.0:
        return 0.0
    # Relative to the largest value, so that no square over- or underflows.
    centred = x / largest
    centred = centred - centred.mean()
    time = np.arange(n) - 0.5 * (n - 1)
    residual = centred - time * (time @ centred / (time @ time))
    if math.sqrt(residual @ residual / (n - 1)) * largest <= _ZERO_RESIDUAL:
        return 0.0
    order_max = min(n - 1, math.floor(10.0 * math.log10(n)))
    autocov = np.array([centred[: n - lag] @ centred[lag:] for lag in range(order_max + 1)]) / n
    coefficients, variance = _yule_walker(autocov, n)
    variance *= n / (n - coefficients.size - 1.0)
    spectrum = variance / (1.0 - coefficients.sum()) ** 2
    return float(n * (centred @ centred / (n - 1)) / spectrum)


def _yule_walker(autocov, n):
    """The autoregression of least ``n log v_p + 2 p`` and its innovation variance v_p, by the Levinson-Durbin
    recursion v_p = v_(p-1) (1 - kappa_p^2)."""
    phi, variance = np.empty(0), autocov[0]
    best = (n * math.log(variance), phi, variance)
    for order in range(1, autocov.size):
        kappa = (autocov[order] - phi @ autocov[order - 1 : 0 : -1]) / variance
        phi = np.append(phi - kappa * phi[::-1], kappa)
        variance *= 1.0 - kappa * kappa
        if variance <= 0.0:  # rounding: the series is determined by its past as far as doubles can tell
            break
        best = min(best, (n * math.log(variance) + 2 * order, phi, variance), key=lambda fit: fit[0])
    return best[1], best[2]


def split_rhat(draws):
    """Rank-normalised split R-hat (the larger of the bulk's and the folded draws'), by ArviZ.

    Parameters
    ----------
    draws : array_like, shape (chain, draw)

    Returns
    -------
    float
        NaN with one chain, fewer than four draws, or draws that are all equal: nothing can be said then.

    Raises
    ------
    ImportError
        Without ArviZ, naming the extra to install.
    ValueError
        For a wrong shape or values that are not finite.
    """
    return _through_arviz("rhat", draws, min_chains=2, method="rank")


def ess_bulk(draws):
    """Rank-normalised bulk effective sample size over all chains, by ArviZ; as in `split_rhat`, NaN where
    nothing can be said (one chain is enough here)."""
    return _through_arviz("ess", draws, method="bulk")


def ess_tail(draws):
    """The smaller effective sample size of the 5 % and 95 % quantiles, by ArviZ; otherwise as `ess_bulk`."""
    return _through_arviz("ess", draws, method="tail", prob=(0.05, 0.95))


def mcse(draws):
    """Monte Carlo standard error of the mean over all chains, by ArviZ, in the units of the draws; otherwise
    as `ess_bulk`."""
    return _through_arviz("mcse", draws, method="mean")


def summarise(draws):
    """Mean, spread and convergence of one scalar quantity.

    Parameters
    ----------
    draws : array_like, shape (chain, draw)

    Returns
    -------
    dict of float
        "mean", "sd" (divisor one less than the number of draws), "mcse", "ess_bulk", "ess_tail", "r_hat".
    """
    draws = _as_draws(draws, "draws", (2,))
    return {
        "mean": float(draws.mean()),
        "sd": float(draws.std(ddof=1)) if draws.size > 1 else math.nan,
        "mcse": mcse(draws),
        "ess_bulk": ess_bulk(draws),
        "ess_tail": ess_tail(draws),
        "r_hat": split_rhat(draws),
    }


def require_arviz():
    """ImportError, naming the extra to install, where ArviZ is not there."""
    _import_arviz()


def _as_draws(draws, name, dims):
    array = np.asarray(draws)
    if array.dtype.kind not in "biuf" or array.ndim not in dims or array.size == 0:
        shape = {(1, 2): "(n,) or (n, p)", (2,): "(chain, draw)"}[dims]
        raise ValueError(f"{name} must be real numbers of shape {shape}, got {array.dtype} {array.shape}")
    array = array.astype(np.float64)
    bad = np.argwhere(~np.isfinite(array))
    if bad.size:
        index = tuple(int(i) for i in bad[0])
        raise ValueError(f"{name} is {array[index]} at position {index if len(index) > 1 else index[0]}")
    return array


def _through_arviz(function, draws, min_chains=1, **options):
    draws = _as_draws(draws, "draws", (2,))
    arviz = _import_arviz()
    if draws.shape[0] < min_chains or draws.shape[1] < 4 or np.all(draws == draws.flat[0]):
        return math.nan
    # Chains that are constant one by one, but differ, divide by zero on purpose: R-hat is infinite.
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(getattr(arviz, function)(draws, **options))


def _import_arviz():
    try:
        import arviz
    except ImportError as error:
        message = "this needs ArviZ, which the extra 'diagnostics' brings: pip install 'pgbart[diagnostics]'"
        raise ImportError(message) from error
    return arviz
