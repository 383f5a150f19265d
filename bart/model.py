"""A model: the data and its calibrated priors."""

from __future__ import annotations

import math

from .data import Dataset, RankCodes
from .hyperpriors import ChiK, Dirichlet, LeafScale, SplitProbabilities
from .inputs import check_choice, check_count, check_real
from .kernels.columns import Domain
from .outcomes import LatentDataset, resolve_outcome
from .priors import DEFAULT_N_CUTS, FixedNoise, LeafPrior, NoisePrior, TreePrior, estimate_sigma

_DEFAULTS = {"k": 2.0, "nu": 3.0, "q": 0.9, "sigma_hat": "ols", "noise_shape": "half", "sigma": None, "scale": True}


class Model:
    """y = sum of ``n_trees`` trees + N(0, sigma^2) noise, with calibrated priors.

    Parameters
    ----------
    X : array_like or frame, shape (N, D)
    y : array_like, shape (N,)
    n_trees : int
        m, at least 1.
    alpha, beta : float
        A node at depth d splits with probability ``alpha (1 + d)^-beta``; 0 <= alpha < 1, beta >= 0.
    k : float, bart.ChiK or "chi"
        Leaf values have standard deviation ``0.5 / (k sqrt(n_trees))`` in scaled units; > 0. Not together
        with ``leaf_var``. A ChiK is a prior of k, which is then drawn with the trees; "chi" is ``ChiK()``.
    nu, q : float
        ``sigma^2 ~ nu lam / chi2_nu`` with lam such that ``P(sigma < sigma_hat) = q``; nu > 0, 0 < q < 1.
    sigma_hat : {"ols", "sd"} or float
        A rough estimate of the noise standard deviation: by least squares, the standard deviation of y with
        divisor N (both weighted by `weights`), or a number in the units of y. "ols" falls back on "sd" where the fit
        does not exist or is exact, see `bart.priors.estimate_sigma`.
    sigma : float or None
        Fixes the noise standard deviation, in the units of y; nu, q, sigma_hat and noise_shape then have no
        place and are refused.
    leaf_mean, leaf_var : float or None
        Mean and variance of a leaf value, in the units of y and their square, in place of 0 and the k recipe.
        The prior mean of f is then ``midrange(y) + n_trees leaf_mean`` (without scaling, an offset and the second
        term).
    scale : bool
        Whether y is mapped to [-0.5, 0.5]. Without it "scaled units" are the units of y, in the k recipe too.
    threshold, cuts, n_cuts, dim_weights
        See `bart.priors.TreePrior`.
    noise_shape : {"half", "full"}
        Shape of the Gamma law of 1 / sigma^2: nu / 2, or nu as in the scripts of the paper's authors. In both
        cases ``P(sigma < sigma_hat) = q``.
    outcome : {"gaussian", "probit"} or bart.outcomes.Outcome
        "probit": y is 0 or 1 and ``P(y = 1) = Phi(offset + f(x))``, f the sum of trees. The units of y above are then
        latent ones, in which sigma is 1 and leaf values have standard deviation ``3 / (k sqrt(n_trees))``; nu, q,
        sigma_hat, noise_shape, sigma and scale have no place and are refused. Albert & Chib (1993); Chipman, George &
        McCulloch (2010), section 4.
    offset : float, array_like of shape (N,) or None
        Known part of the mean, of each row or of all: ``y = offset + f(x) + noise``, so that trees, scaling and noise
        prior are those of ``y - offset``. With an outcome that has latent variables the same of them; None: for
        "probit", Phi^-1 of the mean of y. f of the posterior contains an offset that is a number; those of rows are
        given again where there are other rows, see `bart.Posterior.predict`.
    weights : array_like, shape (N,), optional
        Known relative precisions of the rows: the noise variance of row n is ``sigma^2 / weights[n]``, so that sigma,
        and `sigma_hat`, are of a row of weight 1. Positive; not with another outcome than "gaussian". A weight of 2 is
        not two rows: the number of rows in a node, which decides what rules there are, stays as it is.

    Attributes
    ----------
    dataset : bart.data.Dataset
    codes : bart.data.RankCodes
    n_trees : int
    tree_prior : bart.priors.TreePrior
    leaf_prior : bart.priors.LeafPrior
        In scaled units; at the start of a chain where k has a prior.
    k_prior : bart.ChiK or None
    noise_prior : bart.priors.NoisePrior or bart.priors.FixedNoise
        In scaled units.
    outcome : bart.outcomes.Outcome or None
        None for "gaussian".
    sigma_hat : float or None
        In the units of y; None if sigma is fixed.
    sigma_hat_method : {"ols", "sd", "given"} or None
        How it was obtained in the end.

    Raises
    ------
    TypeError, ValueError
        For bad data or a bad parameter, by name, before any work; for a constant y whose noise prior would
        have to be calibrated; for a parameter that another one makes meaningless.
    """

    k_prior = None          # of models made before there was one

    def __init__(self, X, y, n_trees=200, alpha=0.95, beta=2.0, k=2.0, nu=3.0, q=0.9, sigma_hat="ols",
                 sigma=None, leaf_mean=None, leaf_var=None, scale=True, threshold="uniform", cuts="width",
                 n_cuts=DEFAULT_N_CUTS, dim_weights=None, noise_shape="half", outcome="gaussian",
                 offset=None, weights=None):  # fmt: skip
        self.outcome = resolve_outcome(outcome)
        self.n_trees = check_count(n_trees, "n_trees")
        self.tree_prior = TreePrior(alpha, beta, threshold, cuts, n_cuts, dim_weights)
        if isinstance(k, str) and k == "chi":
            k = ChiK()
        self.k_prior = k if isinstance(k, ChiK) else None
        start = check_real(k, "k", 0) if self.k_prior is None else k.start
        nu, q = check_real(nu, "nu", 0), check_real(q, "q", 0, 1)
        check_choice(noise_shape, "noise_shape", ("half", "full"))
        if isinstance(sigma_hat, str):
            check_choice(sigma_hat, "sigma_hat", ("ols", "sd"))
        else:
            sigma_hat = check_real(sigma_hat, "sigma_hat", 0)
        if self.outcome is not None:
            _refuse_idle(f"outcome={self.outcome.name!r}", nu=nu, q=q, sigma_hat=sigma_hat, noise_shape=noise_shape,
                         sigma=sigma, scale=scale)
            sigma = 1.0
        elif sigma is not None:
            sigma = check_real(sigma, "sigma", 0)
            _refuse_idle("sigma", nu=nu, q=q, sigma_hat=sigma_hat, noise_shape=noise_shape)
        if leaf_mean is not None:
            leaf_mean = check_real(leaf_mean, "leaf_mean")
        if leaf_var is not None:
            leaf_var = check_real(leaf_var, "leaf_var", 0)
            _refuse_idle("leaf_var", k=k)

        if self.outcome is None:
            self.dataset = Dataset(X, y, scale, offset, weights)
        else:
            if weights is not None:
                raise ValueError(f"weights are for outcome='gaussian', the outcome is {self.outcome.name!r}")
            self.dataset = LatentDataset(X, y, self.outcome, offset)
        self.tree_prior.dim_log_weights(self.dataset.n_dims)  # refuses weights of another length
        self.leaf_prior = self._make_leaf_prior(start, leaf_mean, leaf_var)
        if sigma is None:
            shape = nu if noise_shape == "full" else None
            self.noise_prior = self._make_noise_prior(nu, q, sigma_hat, shape)
        else:
            self.sigma_hat = self.sigma_hat_method = None
            self.noise_prior = FixedNoise(self._variance(sigma, "sigma"))
        self.codes = RankCodes(self.dataset.X)
        self._domain = None

    @property
    def domain(self):
        """The codes bound to the tree prior, as kernels take them: made once, shared by all chains of a process."""
        made = self._domain
        if made is None or made.codes is not self.codes or made.prior is not self.tree_prior:
            made = self._domain = Domain(self.codes, self.tree_prior)
        return made

    def __getstate__(self):
        return {**self.__dict__, "_domain": None}

    def __repr__(self):
        parts = [*self.priors, *([] if self.outcome is None else [self.outcome])]
        return f"Model({self.dataset!r}, n_trees={self.n_trees}, {', '.join(map(repr, parts))})"

    def _variance(self, sd, name):
        """The square of a standard deviation in the units of y, in scaled units. The division comes first:
        the square of a tiny range would underflow."""
        variance = (sd / self.dataset.y_range) ** 2
        if not 0 < variance < math.inf:
            raise ValueError(f"{name} is out of proportion to the range of y, {self.dataset.y_range:g}")
        return variance

    @property
    def priors(self):
        """All priors that tell one model of the same data from another."""
        return [self.tree_prior, self.leaf_prior, self.noise_prior, *([] if self.k_prior is None else [self.k_prior])]

    @property
    def trace_names(self):
        """Traces beside those that all models have."""
        split = isinstance(self.tree_prior.dim_weights, Dirichlet)
        return (*(SplitProbabilities.names if split else ()), *(LeafScale.names if self.k_prior is not None else ()))

    def leaf_var_of_k(self, k):
        """Variance of a leaf value under the recipe, scaled units."""
        return LeafPrior.calibrate(k, self.n_trees, 0.5 if self.outcome is None else self.outcome.half_range).var

    def _make_leaf_prior(self, k, leaf_mean, leaf_var):
        prior = LeafPrior(0.0, self.leaf_var_of_k(k))
        mean = prior.mean if leaf_mean is None else leaf_mean / self.dataset.y_range
        if not math.isfinite(mean):
            raise ValueError(f"leaf_mean is out of proportion to the range of y, {self.dataset.y_range:g}")
        var = prior.var if leaf_var is None else self._variance(math.sqrt(leaf_var), "leaf_var")
        return LeafPrior(mean, var)

    def _make_noise_prior(self, nu, q, sigma_hat, shape):
        if isinstance(sigma_hat, str):
            scaled, self.sigma_hat_method = estimate_sigma(
                self.dataset.X, self.dataset.y_scaled, sigma_hat, self.dataset.weights
            )
            if scaled == 0:
                what = "y" if self.dataset.offset is None else "y less its offset"
                raise ValueError(
                    f"{what} is constant ({self.dataset.n_rows} values of {self.dataset.y_min:g}), so the noise "
                    "prior cannot be calibrated; give sigma= or a number for sigma_hat="
                )
            self.sigma_hat = scaled * self.dataset.y_range
        else:
            self._variance(sigma_hat, "sigma_hat")
            scaled, self.sigma_hat_method = sigma_hat / self.dataset.y_range, "given"
            self.sigma_hat = sigma_hat
        return NoisePrior.calibrate(nu, q, scaled, shape)


def _refuse_idle(cause, **given):
    """A parameter that has no effect is a misunderstanding: refuse it rather than ignore it."""
    for name, value in given.items():
        if value != _DEFAULTS[name]:
            raise ValueError(f"{name}={value!r} has no effect when {cause} is given")
