"""Hyperpriors: of the split probabilities of the columns, and of k; and their updates between the sweeps of a chain."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import betaincinv

from .between import EachSweep
from .inputs import check_real
from .kernels.hyper import leaf_spread, rule_columns, set_log_weights

__all__ = ["ChiK", "Dirichlet", "LeafScale", "SplitProbabilities"]

# Values of theta that carry its prior.
N_THETA = 200
# Below, the logarithms of split probabilities may overflow.
THETA_LEAST = 1e-100
# Sums of gammas below are formed from their logarithms; and logarithms of rates above are kept as such.
_LEAST_SUM, _LARGEST_LOG = 1e-250, 500.0


@dataclass(frozen=True)
class Dirichlet:
    """Sparse split probabilities: s ~ Dirichlet(theta / D, ..., theta / D), after Linero (2018).

    A rule takes column d with probability s_d, renormalised over the columns that its node can split. D counts the
    columns that can be split at all; others (constant ones) have s = 0. What samplers weigh of the columns with
    ``subset=``, they draw by s.

    Parameters
    ----------
    theta : float, optional
        A number in [1e-100, 1e100]: small for few columns. None: theta / (theta + rho) ~ Beta(a, b), as the uniform law
        on its 200 quantiles at (i + 1/2) / 200.
    a, b : float
        Of theta's prior, > 0. Linero's are the default.
    rho : float, optional
        > 0; None for D.

    Raises
    ------
    ValueError, TypeError
        A bad parameter, or one of theta's prior beside a fixed theta.
    """

    theta: float | None = None
    a: float = 0.5
    b: float = 1.0
    rho: float | None = None

    def __post_init__(self):
        given = {"a": check_real(self.a, "dim_weights: a", 0), "b": check_real(self.b, "dim_weights: b", 0)}
        if self.rho is not None:
            given["rho"] = check_real(self.rho, "dim_weights: rho", 0)
        if self.theta is not None:
            given["theta"] = check_real(self.theta, "dim_weights: theta", THETA_LEAST, 1e100, closed="both")
            for name in ("a", "b", "rho"):
                if getattr(self, name) != getattr(Dirichlet, name, None):
                    raise ValueError(f"dim_weights: {name}={getattr(self, name)} has no effect with theta")
        for name, value in given.items():
            object.__setattr__(self, name, value)

    def thetas(self, n_dims):
        """The equally probable values of theta, ascending: one or `N_THETA`."""
        if self.theta is not None:
            return np.array([self.theta])
        return (n_dims if self.rho is None else self.rho) * _odds(self.a, self.b)

    def draw(self, n_dims, rng):
        """theta, and (n_dims,) log s, from the prior."""
        theta = float(rng.choice(self.thetas(n_dims)))
        log_g = log_gamma_draws(np.full(n_dims, theta / n_dims), rng)
        return theta, log_g - log_sum(log_g)


@cache
def _odds(a, b):
    """Quantiles of x / (1 - x), x ~ Beta(a, b)."""
    at = (np.arange(N_THETA) + 0.5) / N_THETA
    # 1 - x from the other tail, where it would round to 0.
    odds = np.clip(betaincinv(a, b, at) / betaincinv(b, a, at[::-1]), THETA_LEAST, 1e100)
    odds.flags.writeable = False
    return odds


@dataclass(frozen=True)
class ChiK:
    """k ~ scale chi(degrees): leaf values have variance c / k^2, c = (half_range)^2 / n_trees as for a fixed k.

    There is no improper limit scale = inf, the default of dbarts for binary outcomes (chi(1.25, Inf); for others it
    fixes k = 2): as k grows f tends to a constant and the likelihood to a positive number, so that k^(degrees - 1) has
    no finite posterior mass.

    Parameters
    ----------
    degrees : float
        > 0.
    scale : float
        > 0, finite.
    """

    degrees: float = 1.25
    scale: float = 2.0

    def __post_init__(self):
        if self.scale == math.inf:
            raise ValueError("k: scale must be finite: with scale=inf the posterior is improper, as the likelihood "
                             "tends to that of a constant f, not to 0, when k grows")
        object.__setattr__(self, "degrees", check_real(self.degrees, "k: degrees", 0))
        object.__setattr__(self, "scale", check_real(self.scale, "k: scale", 0))

    @property
    def start(self):
        """Root of the mean of k^2."""
        return self.scale * math.sqrt(self.degrees)


def log_sum(logs, axis=0):
    """log of a sum of exponentials, one of them above 0 wherever there is a sum."""
    top = logs.max(axis=axis, keepdims=True)
    return np.log(np.exp(logs - top).sum(axis=axis)) + top.squeeze(axis)


def log_gamma_draws(shape, rng):
    """Logarithms of Gamma(shape, 1) draws, (n,), finite however small the shapes: G(a) = G(a + 1) U^(1 / a)."""
    return np.log(rng.standard_gamma(shape + 1.0)) - rng.standard_exponential(len(shape)) / shape


class SplitProbabilities(EachSweep):
    """s and theta of one chain; it acts before each sweep.

    Parameters
    ----------
    prior : Dirichlet
    domain : bart.kernels.columns.Domain
        With random weights: they are s.

    Notes
    -----
    With s = g / sum g, g_d ~ Gamma(theta / D, 1) independent, the rules of column d_i at nodes with the valid columns
    V_i have probability prod_i g_{d_i} / G_i, G_i the sum of g over V_i. Because of G_i the law of s is no Dirichlet
    again. Given u_i ~ Exponential(rate G_i) it is one for g (Caron & Doucet 2012, Efficient Bayesian inference for
    generalized Bradley-Terry models):

        g_d | theta, u, trees ~ Gamma(theta / D + n_d, rate r_d),  r_d = 1 + sum of the u_i with d in V_i,
        p(theta | u, trees) = p(theta) prod_d r_d^(-theta / D) Gamma(theta / D + n_d) / Gamma(theta / D),

    n_d the number of rules of column d. Where all nodes can split all columns the rates are equal, and s is an
    independent draw from Dirichlet(theta / D + n). The sum of g is no part of the state: given s it is Gamma(theta, 1).
    Nothing is rounded to 0: g, and s in the kernels where need be, are kept as logarithms.
    """

    names = ("theta", "split_probabilities")

    def __init__(self, prior, domain):
        self._domain = domain
        self.width = 1 + domain.codes.codes.shape[0]
        self._columns = domain.candidates
        self._thetas = prior.thetas(max(len(self._columns), 1))
        self.theta = float(self._thetas[len(self._thetas) // 2])
        # log Gamma(a + n) - log Gamma(a) for n = 0, 1, ... and the thetas.
        self._rising = np.zeros((1, len(self._thetas)))

    def fill(self, row, kernel):
        row[0], row[1:] = self.theta, self.probabilities

    def name_traces(self, rows):
        return {"theta": rows[:, 0], "split_probabilities": rows[:, 1:]}

    @property
    def log_s(self):
        """(D,) log s of the columns that can be split."""
        log_weights = self._domain.log_weights
        return log_weights - log_sum(log_weights) if len(log_weights) else log_weights

    @property
    def probabilities(self):
        """(n_dims,) s; 0 for columns that cannot be split."""
        s = np.zeros(self.width - 1)
        s[self._columns] = np.exp(self.log_s)
        return s

    def redraw(self, kernel, rng):
        """Draw theta and s given the trees."""
        if not len(self._columns):
            return
        counts, valid = rule_columns(kernel.states)
        self.draw_given(kernel.states, counts[self._columns], valid[:, self._columns].astype(bool), rng)

    def draw_given(self, states, counts, valid, rng):
        """Draw theta and s given (D,) rules by column and (n, D) valid columns of nodes that cannot split all."""
        log_rates = self._draw_log_rates(int(counts.sum()), valid, rng)
        theta = self._draw_theta(counts, log_rates, rng)
        log_g = log_gamma_draws(theta / len(counts) + counts, rng) - log_rates
        before = self._domain.log_weights
        try:
            set_log_weights(states, log_g - log_sum(log_g))
            self.theta = theta
        except BaseException:               # an interrupt between the two
            set_log_weights(states, before)
            raise

    def _draw_log_rates(self, n_rules, valid, rng):
        """log r."""
        log_g = self.log_s + log_gamma_draws(np.array([self.theta]), rng)
        n_whole = n_rules - len(valid)
        log_u = np.log(rng.standard_exponential(len(valid))) - _log_sums(valid, log_g)
        if n_whole > 0:                         # all nodes that can split every column at once
            of_whole = log_gamma_draws(np.array([float(n_whole)]), rng) - log_sum(log_g)
            log_u = np.concatenate([of_whole, log_u])
            valid = np.concatenate([np.ones((1, len(log_g)), dtype=bool), valid])
        if not len(log_u) or log_u.max() < _LARGEST_LOG:
            return np.log1p((np.exp(log_u)[:, None] * valid).sum(axis=0))      # no BLAS: the same bits everywhere
        return np.logaddexp(0.0, log_sum(np.where(valid, log_u[:, None], -np.inf), axis=0))

    def _draw_theta(self, counts, log_rates, rng):
        thetas = self._thetas
        if len(thetas) == 1:
            return float(thetas[0])
        shapes, most = thetas / len(counts), int(counts.max())
        if most >= len(self._rising):
            self._rising = _log_rising(shapes, 2 * most)
        log_p = self._rising[counts[counts > 0]].sum(axis=0) - shapes * log_rates.sum()
        p = np.cumsum(np.exp(log_p - log_p.max()))
        return float(thetas[min(int(np.searchsorted(p, rng.random() * p[-1], side="right")), len(thetas) - 1)])

    def get_state(self):
        """Plain values and arrays."""
        return {"theta": self.theta, "log_weights": self._domain.log_weights}

    def set_state(self, kernel, state):
        """Take over what `get_state` gave, before the trees are restored, which keep the priors of their rules."""
        self.theta = state["theta"]
        set_log_weights(kernel.states, state["log_weights"])


def _log_rising(shapes, n):
    """(n + 1, K) log of shapes (shapes + 1) ... (shapes + k - 1), k = 0..n."""
    steps = np.log(shapes + np.arange(n)[:, None])
    return np.concatenate([np.zeros((1, len(shapes))), np.cumsum(steps, axis=0)])


def _log_sums(valid, log_g):
    """(n,) log of the sum of g over the valid columns of each node."""
    top = log_g.max()
    sums = (valid * np.exp(log_g - top)).sum(axis=1)
    tiny = sums < _LEAST_SUM
    sums = top + np.log(np.where(tiny, 1.0, sums))
    if tiny.any():
        sums[tiny] = log_sum(np.where(valid[tiny], log_g, -np.inf), axis=1)
    return sums


class LeafScale(EachSweep):
    """k of one chain, drawn before each sweep given the leaf values: ``leaf_var = c / k^2``.

    Parameters
    ----------
    prior : ChiK
    c : float
        leaf_var at k = 1, scaled units.

    Notes
    -----
    k^2 | trees, leaf values ~ Gamma((degrees + L) / 2, rate 1 / (2 scale^2) + sum of (mu - leaf_mean)^2 / (2 c)), L
    the number of leaves. The likelihood has no part in it, and so neither has a temperature.
    """

    names, width = ("k",), 1

    def __init__(self, prior, c):
        self.prior, self._c = prior, c

    def fill(self, row, kernel):
        row[0] = math.sqrt(self._c / kernel.leaf_var)

    def redraw(self, kernel, rng):
        """Draw leaf_var."""
        n_leaves, spread = leaf_spread(kernel.states, kernel.leaf_mean)
        rate = 0.5 / self.prior.scale**2 + 0.5 * spread / self._c
        kernel.leaf_var = self._c * rate / rng.standard_gamma(0.5 * (self.prior.degrees + n_leaves))
