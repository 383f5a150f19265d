"""`BARTClassifier`, the estimator of two classes that `bart.estimators` offers (extra "sklearn")."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

# First, as it says what to install where there is no scikit-learn.
from .estimator_base import BARTEstimator, parts, refuse_idle_state  # isort: skip
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import validate_data

from .inputs import check_choice
from .outcomes import Probit
from .priors import DEFAULT_N_CUTS
from .summaries import quantile_levels

__all__ = ["BARTClassifier"]


class BARTClassifier(ClassifierMixin, BARTEstimator):
    """Bayesian additive regression trees for two classes, by probit.

    P(y = classes_[1] | x) = Phi(offset + sum of trees).

    Parameters
    ----------
    k : float, bart.ChiK or "chi"
        Shrinkage: the larger, the less a tree may say. Leaf values have the standard deviation
        ``3 / (k sqrt(n_trees))``, so that f is within 3 of the offset with probability 0.95 at k = 2.
    offset : float or None
        Probit of the probability where no tree says anything; None: of the share of ``classes_[1]``. `fit` takes one
        for each row.
    n_trees, alpha, beta, cuts, n_cuts, dim_weights, sampler, init, n_burn, n_draws, n_chains, thin
        As in `BARTRegressor`.
    n_jobs, random_state, max_r_hat, model_options, sample_options
        As in `BARTRegressor`.

    Attributes
    ----------
    classes_ : (2,) array
        Sorted.
    model_, posterior_, r_hat_, feature_importances_, n_features_in_, feature_names_in_
        As in `BARTRegressor`; R-hat is of the log-likelihood, of k and theta where they have priors, and of f.

    See Also
    --------
    bart.sample : The same with all its arguments, for ``Model(X, y, outcome="probit")``.

    Notes
    -----
    Chipman, George & McCulloch (2010), section 4; Albert & Chib (1993). Sample weights are not supported.

    Examples
    --------
    >>> import numpy as np
    >>> from bart.estimators import BARTClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((100, 3))
    >>> y = np.where(X[:, 0] > 0.5, "yes", "no")
    >>> clf = BARTClassifier(n_trees=20, n_burn=100, n_draws=100, random_state=0, max_r_hat=None).fit(X, y)
    >>> clf.predict([[0.9, 0.5, 0.5]]).tolist()
    ['yes']
    """

    def __init__(self, n_trees=200, alpha=0.95, beta=2.0, k=2.0, offset=None, cuts="width", n_cuts=DEFAULT_N_CUTS,
                 dim_weights=None, sampler="auto", init="dispersed", n_burn=250, n_draws=250, n_chains=4, thin=1,
                 n_jobs=None, random_state=None, max_r_hat=1.1, model_options=None, sample_options=None):  # fmt: skip
        self.n_trees = n_trees
        self.alpha = alpha
        self.beta = beta
        self.k = k
        self.offset = offset
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

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X, y, offset=None):
        """Sample the posterior.

        Parameters
        ----------
        X : array_like or frame, shape (n_samples, n_features)
            Finite numbers.
        y : array_like, shape (n_samples,)
            Labels of two classes: numbers, booleans or text.
        offset : float or array_like, shape (n_samples,), optional
            Known part of the probit, in place of the parameter `offset`. After offsets of rows predictions ask for
            those of their rows; one that is a number is part of f, and predictions refuse another.

        Returns
        -------
        self
        """
        X, y = validate_data(self, X, y, ensure_min_samples=2)
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        if kind != "binary":
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y must hold two classes, it holds one class only: {self.classes_.tolist()[0]!r}")
        if offset is not None and self.offset is not None:
            raise ValueError(f"the parameter offset={self.offset!r} has no effect where fit is given one for each row")
        offset = self.offset if offset is None else offset
        return self._fit(X, codes.astype(np.float64), ("log_likelihood",), outcome="probit", offset=offset)

    def predict(self, X, offset=None):
        """The more probable class.

        Parameters
        ----------
        X : array_like or frame, shape (n, n_features)
        offset : float or array_like, shape (n,), optional
            Of the new rows: needed after a fit with offsets (0.0 leaves them out), else refused.

        Returns
        -------
        (n,) array of the type of ``classes_``
        """
        positive = self.decision_function(X, offset) > 0        # first, as it sees to it that there are classes
        return self.classes_[positive.astype(int)]

    def predict_proba(self, X, quantiles=None, interval=None, offset=None):
        """Probabilities of the classes: posterior means, which are the predictive ones.

        Parameters
        ----------
        X : array_like or frame, shape (n, n_features)
        quantiles : sequence of float in [0, 1], optional
            Posterior quantiles of P(y = classes_[1]) too.
        interval : float in (0, 1), optional
            Its central credible interval of this probability too.
        offset
            As in `predict`.

        Returns
        -------
        probabilities : (n, 2) float64
            Alone where nothing else is asked for; else the first of a tuple.
        quantiles : (n, n_quantiles) float64
        interval : (n, 2) float64
        """
        quantile_levels(quantiles, interval)
        X = self._check_new(X)
        options = {"n_threads": self._n_threads(), "offset": offset}
        found = self.posterior_.predict_proba(X, quantiles=quantiles, interval=interval, **options)
        if quantiles is None and interval is None:
            return np.column_stack([1.0 - found, found])
        return parts(np.column_stack([1.0 - found.mean, found.mean]), None, found.quantiles, found.interval)

    def decision_function(self, X, offset=None):
        """Phi^-1 of the probability of classes_[1]: positive where `predict` gives it.

        Parameters
        ----------
        X : array_like or frame, shape (n, n_features)
        offset
            As in `predict`.

        Returns
        -------
        (n,) float64
        """
        X = self._check_new(X)
        mean = self.posterior_.predict_proba(X, n_threads=self._n_threads(), offset=offset)
        return ndtri(np.clip(mean, np.finfo(np.float64).tiny, np.nextafter(1.0, 0.0)))

    def score(self, X, y, sample_weight=None, offset=None):
        """Share of the rows whose class is predicted.

        Parameters
        ----------
        X : array_like or frame, shape (n, n_features)
        y : array_like, shape (n,)
        sample_weight : array_like, shape (n,), optional
            Of the rows in that share.
        offset
            As in `predict`.

        Returns
        -------
        float
        """
        return accuracy_score(y, self.predict(X, offset), sample_weight=sample_weight)

    def sample_posterior(self, X, kind="mean", random_state=None, offset=None):
        """Posterior draws at new rows.

        Parameters
        ----------
        X : array_like or frame, shape (n, n_features)
        kind : {"mean", "outcome", "latent"}
            P(y = classes_[1] | x), a class drawn with it, or its probit offset + f(x).
        random_state : int, numpy.random.RandomState, numpy.random.Generator or None
            For "outcome"; None takes that of the estimator. No use with the others, and refused there.
        offset
            As in `predict`.

        Returns
        -------
        (n_chains, n_draws, n) array
            float64, or of the type of ``classes_`` for "outcome".
        """
        check_choice(kind, "kind", ("mean", "outcome", "latent"))
        refuse_idle_state(kind, random_state)
        f = self._draws(X, offset)
        if kind == "latent":
            return f
        probability = Probit.probability(f)
        if kind == "mean":
            return probability
        rng = self._generator(random_state)
        return self.classes_[(rng.random(f.shape) < probability).astype(int)]
