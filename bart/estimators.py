"""Estimators for scikit-learn: `BARTRegressor` and `BARTClassifier` (extra "sklearn").

Their parameters are those of `bart.Model` and `bart.sample`, by the same names; `random_state` is the seed of `sample`,
`n_jobs` its threads.
"""

from __future__ import annotations

import numpy as np

# First, as it says what to install where there is no scikit-learn.
from .estimator_base import BARTEstimator, parts, refuse_idle_state  # isort: skip
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import validate_data

from .classifier import BARTClassifier
from .data import check_offset
from .inputs import as_vector, check_choice, check_flag
from .predictive import new_offset, quantiles_of
from .priors import DEFAULT_N_CUTS
from .probabilities import all_draws, mean_of_draws
from .summaries import quantile_levels, split_levels

__all__ = ["BARTClassifier", "BARTRegressor"]


class BARTRegressor(RegressorMixin, BARTEstimator):
    """Bayesian additive regression trees: y = sum of trees + N(0, sigma^2) noise.

    Parameters
    ----------
    n_trees : int
        Trees of the sum.
    alpha, beta : float
        A node at depth d splits with probability ``alpha (1 + d)^-beta`` a priori.
    k : float, bart.ChiK or "chi"
        Shrinkage: the larger, the less a tree may say. Leaf values have the standard deviation
        ``0.5 / (k sqrt(n_trees))`` in units of the range of y. A ChiK is a prior of k.
    nu, q, sigma_hat
        Noise prior: ``sigma^2 ~ nu lam / chi2_nu`` with ``P(sigma < sigma_hat) = q``; `sigma_hat` is "ols", "sd" or a
        number in the units of y.
    sigma : float or None
        Fixes the noise standard deviation, in the units of y.
    cuts : {"width", "grid", "quantile"}
        Prior of cut points: uniform over the range of a node, or `n_cuts` equally spaced ones, or at quantiles.
    n_cuts : int
        Most cut points of a column; not with ``cuts="width"``.
    dim_weights : sequence of n_features floats, "dirichlet" or bart.Dirichlet, optional
        Relative prior probabilities of the features in a rule, or a sparse prior of them for many features of which few
        matter.
    sampler : str or bart.TreeSampler
        As in `bart.sample`: "auto", "pg", "cgm", "local + recut", ...
    init : str or list
        Starts of the chains, as in `bart.sample`; "dispersed" ones differ, so that `r_hat_` can tell whether the chains
        have forgotten them.
    n_burn, n_draws : int
        Sweeps of each chain that are dropped, and draws of EACH that are kept.
    n_chains : int
        Chains.
    thin : int
        Sweeps a kept draw.
    n_jobs : int or None
        Threads, for chains while fitting and rows while predicting; None: 1, -1: all processors. No result depends
        on it.
    random_state : int, numpy.random.RandomState, numpy.random.Generator or None
        An int is the seed of `bart.sample`: the same draws at every fit. A generator gives one of its own to each fit;
        None takes the system's entropy. ``posterior_.seed`` repeats a fit.
    max_r_hat : float or None
        A ConvergenceWarning says so where a value of `r_hat_` is above it. None: R-hat is not computed, and ArviZ not
        needed.
    model_options, sample_options : dict, optional
        Further arguments of `bart.Model` and of `bart.sample`, such as ``{"threshold": "midpoint"}`` and
        ``{"checkpoint": "folder"}``.

    Attributes
    ----------
    model_ : bart.Model
    posterior_ : bart.Posterior
        All draws, with their traces, summary, files and ArviZ.
    r_hat_ : dict of float
        Rank-normalised split R-hat over the chains: of sigma, the log-likelihood, k and theta where they have priors,
        and of f, the largest over ten training rows. NaN where nothing can be said (one chain); None with
        ``max_r_hat=None``.
    feature_importances_ : (n_features_in_,) float64
        Inclusion proportions (Chipman, George & McCulloch 2010): the share of the trees' rules that split a feature,
        its posterior mean; they sum to 1 where every draw has a rule. How often a feature is used, not how much f
        depends on it: features without any say get their share too, the more the larger `n_trees` is, and related
        features divide theirs. `bart.permutation_null` has the shares under permuted y to hold them against
        (``posterior_.inclusion(null=...)``, with their Monte Carlo errors), `Posterior.permutation_importance` what
        predictions lose.
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) array of str
        Of a frame's columns.

    See Also
    --------
    bart.sample : The same with all its arguments.

    Notes
    -----
    Chipman, George & McCulloch (2010), BART: Bayesian additive regression trees. The draws are exact draws of a Markov
    chain that leaves the posterior invariant; how far it has come is what `r_hat_` says. The `sample_weight` of `fit`
    is a known relative precision, see there; new rows are predicted with the noise of a row of weight 1.

    Examples
    --------
    >>> import numpy as np
    >>> from bart.estimators import BARTRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((100, 3))
    >>> y = 3 * X[:, 0] + rng.normal(0, 0.1, 100)
    >>> reg = BARTRegressor(n_trees=20, n_burn=100, n_draws=100, random_state=0, max_r_hat=None).fit(X, y)
    >>> mean, interval = reg.predict(X[:2], interval=0.9, kind="outcome")
    >>> interval.shape
    (2, 2)
    """

    def __init__(self, n_trees=200, alpha=0.95, beta=2.0, k=2.0, nu=3.0, q=0.9, sigma_hat="ols", sigma=None,
                 cuts="width", n_cuts=DEFAULT_N_CUTS, dim_weights=None, sampler="auto", init="dispersed", n_burn=250,
                 n_draws=250, n_chains=4, thin=1, n_jobs=None, random_state=None, max_r_hat=1.1, model_options=None,
                 sample_options=None):  # fmt: skip
        self.n_trees = n_trees
        self.alpha = alpha
        self.beta = beta
        self.k = k
        self.nu = nu
        self.q = q
        self.sigma_hat = sigma_hat
        self.sigma = sigma
        self.cuts = cuts
        self.n_cuts = n_cuts
        self.dim_weights = dim_weights
        self.sampler = sampler
        self.init = init
        self.n_burn = n_burn
        self.n_draws = n_draws
        self.n_chains = n_chains
        self.thin = thin
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.max_r_hat = max_r_hat
        self.model_options = model_options
        self.sample_options = sample_options

    _model_names = (*BARTEstimator._model_names, "nu", "q", "sigma_hat", "sigma")

    def fit(self, X, y, sample_weight=None, offset=None):
        """Sample the posterior.

        Parameters
        ----------
        X : array_like or frame, shape (n_samples, n_features)
            Finite numbers.
        y : array_like, shape (n_samples,)
            Not constant, unless `sigma` or a number for `sigma_hat` is given.
        sample_weight : array_like, shape (n_samples,), optional
            Known relative precisions: the noise variance of row n is ``sigma^2 / sample_weight[n]``. Rows of weight 0
            are left out. A weight of 2 is NOT two rows: repeat the row for that.
        offset : float or array_like, shape (n_samples,), optional
            Known part of the mean: the trees fit ``y - offset``. After offsets of rows predictions ask for those of
            their rows; one that is a number is part of f, and predictions refuse another.

        Returns
        -------
        self
        """
        X, y = validate_data(self, X, y, y_numeric=True, ensure_min_samples=2)
        kept, weights = _weighted_rows(y, sample_weight)
        if not kept.all():
            X, y, offset = X[kept], y[kept], _offset_of(offset, kept)
        return self._fit(X, y, ("sigma", "log_likelihood"), offset=offset, weights=weights)

    def predict(self, X, return_std=False, quantiles=None, interval=None, kind="mean", offset=None):
        """Posterior mean at new rows and, where asked for, how sure it is.

        Parameters
        ----------
        X : array_like or frame, shape (n, n_features)
        return_std : bool
            The standard deviation too.
        quantiles : sequence of float in [0, 1], optional
            Quantiles too.
        interval : float in (0, 1), optional
            The central interval of this probability too.
        kind : {"mean", "outcome"}
            Of what: "mean" is f(x), so that the interval is a credible one for the mean of y at x; "outcome" is a new
            y at x, noise included, so that it is a predictive one. The mean is the same.
        offset : float or array_like, shape (n,), optional
            Of the new rows: needed after a fit with offsets (0.0 leaves them out), else refused.

        Returns
        -------
        mean : (n,) float64
            Alone where nothing else is asked for; else the first of a tuple. All are in the units of y.
        std : (n,) float64
            Over the draws (divisor their number), for "outcome" of the mixture of their normal laws.
        quantiles : (n, n_quantiles) float64
            For "outcome" by inversion of the distribution function of that mixture, without simulation.
        interval : (n, 2) float64
            Lower and upper ends.
        """
        check_choice(kind, "kind", ("mean", "outcome"))
        levels, return_std = quantile_levels(quantiles, interval), check_flag(return_std, "return_std")
        X, n_threads = self._check_new(X), self._n_threads()
        if not return_std and not levels:
            return self.posterior_.predict(X, n_threads=n_threads, offset=offset)
        offset = new_offset(self.posterior_.header, offset, len(X))
        sigma = self.posterior_["sigma"].ravel() if kind == "outcome" else None
        mean, std, found = np.empty(len(X)), np.empty(len(X)), np.empty((len(levels), len(X)))
        for rows, values in all_draws(self.posterior_, X, n_threads=n_threads, offset=offset):
            mean[rows] = mean_of_draws(values)
            f = values.reshape(-1, values.shape[2])
            if return_std:
                variance = mean_of_draws((values - mean[rows]) ** 2)
                std[rows] = np.sqrt(variance + (0.0 if sigma is None else np.mean(sigma**2)))
            if levels:
                found[:, rows] = quantiles_of(f, sigma, levels)
        return parts(mean, std if return_std else None, *split_levels(found, quantiles, interval))

    def score(self, X, y, sample_weight=None, offset=None):
        """R^2 of the posterior mean.

        Parameters
        ----------
        X : array_like or frame, shape (n, n_features)
        y : array_like, shape (n,)
        sample_weight : array_like, shape (n,), optional
            Of the squared errors.
        offset
            As in `predict`.

        Returns
        -------
        float
        """
        return r2_score(y, self.predict(X, offset=offset), sample_weight=sample_weight)

    def sample_posterior(self, X, kind="mean", random_state=None, offset=None):
        """Posterior draws at new rows.

        Parameters
        ----------
        X : array_like or frame, shape (n, n_features)
        kind : {"mean", "outcome"}
            f(x), or a new y at x: f(x) + sigma eps.
        random_state : int, numpy.random.RandomState, numpy.random.Generator or None
            For eps; None takes that of the estimator. No use with "mean", and refused there.
        offset
            As in `predict`.

        Returns
        -------
        (n_chains, n_draws, n) float64
            In the units of y.
        """
        check_choice(kind, "kind", ("mean", "outcome"))
        refuse_idle_state(kind, random_state)
        f = self._draws(X, offset)
        if kind == "outcome":
            rng = self._generator(random_state)
            f += self.posterior_["sigma"][:, :, None] * rng.standard_normal(f.shape)
        return f


def _weighted_rows(y, weights):
    """Which rows have a weight above 0, and their weights; all rows and None where none are given."""
    if weights is None:
        return np.ones(len(y), dtype=bool), None
    weights = as_vector(weights, "sample_weight")
    if len(weights) != len(y):
        raise ValueError(f"sample_weight has {len(weights)} values, but X has {len(y)} rows")
    if weights.min() < 0:
        raise ValueError(f"sample_weight is negative, {weights.min():g}, at position {weights.argmin()}")
    kept = weights > 0
    if kept.sum() < 2:
        raise ValueError(f"sample_weight is zero in all rows but {kept.sum()}; two are needed")
    return kept, weights[kept]


def _offset_of(offset, kept):
    """The offset of some rows."""
    offset = check_offset(offset, len(kept))
    return offset[kept] if isinstance(offset, np.ndarray) else offset
