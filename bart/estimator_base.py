"""What the estimators of `bart.estimators` share: fitting, the check of convergence, seeds."""

from __future__ import annotations

import warnings
from importlib.util import find_spec

import numpy as np

from .chain import OPTIONAL_TRACES
from .diagnostics import split_rhat
from .inclusion import shares_of
from .inputs import check_count, check_real
from .model import Model
from .probabilities import all_draws
from .sampling import sample

try:
    from joblib import effective_n_jobs
    from sklearn.base import BaseEstimator
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    message = "bart.estimators needs scikit-learn 1.6 or newer: pip install 'pgbart[sklearn]'"
    raise ImportError(message) from error

__all__ = ["BARTEstimator", "make_generator", "make_seed", "parts", "refuse_idle_state"]

# Training rows, evenly spaced in the order of y, at which the chains' f are compared.
_N_COMPARED = 10
_SEED_WORDS = 4


class BARTEstimator(BaseEstimator):
    """What both estimators share."""

    _model_names = ("n_trees", "alpha", "beta", "k", "cuts", "n_cuts", "dim_weights")
    _sample_names = ("sampler", "init", "n_burn", "n_draws", "n_chains", "thin")

    def _fit(self, X, y, traces, **options):
        """Sample the model of X and y, checked by scikit-learn; `traces` are those that R-hat looks at."""
        if self.max_r_hat is not None:
            check_real(self.max_r_hat, "max_r_hat", 1)
            if find_spec("arviz") is None:
                raise ImportError("R-hat needs ArviZ: pip install 'pgbart[sklearn]', or use max_r_hat=None")
        model_options = self._options("model_options", self._model_names, (*options, "outcome"))
        sample_options = self._options("sample_options", self._sample_names, ("executor", "seed", "keep_trees"))
        n_threads = self._n_threads()
        model = Model(X, y, **model_options, **options)
        names = getattr(self, "feature_names_in_", None)
        model.dataset.column_names = None if names is None else tuple(map(str, names))
        sample_options.setdefault("progress", False)
        self.posterior_ = sample(model, executor=n_threads, seed=make_seed(self.random_state), **sample_options)
        self.model_ = model
        self.r_hat_ = None if self.max_r_hat is None else self._r_hat(traces)
        return self

    def _options(self, name, own, refused):
        """Arguments of Model or sample: the parameters of their names, and the dict that is named `name`."""
        more = {} if getattr(self, name) is None else getattr(self, name)
        if not isinstance(more, dict):
            raise TypeError(f"{name} must be a dict or None, got {more!r}")
        for key in more:
            if key in own or key in self.get_params(deep=False):
                raise ValueError(f"{name}: {key!r} is a parameter of {type(self).__name__} itself")
            if key in refused:
                raise ValueError(f"{name}: {key!r} is set by {type(self).__name__}")
        return {key: getattr(self, key) for key in own} | more

    def _n_threads(self):
        return int(effective_n_jobs(self.n_jobs))

    def _r_hat(self, traces):
        post = self.posterior_
        hyper = [name for name in OPTIONAL_TRACES if name in post]
        found = {name: split_rhat(post[name]) for name in (*traces, *hyper)}
        order = np.argsort(self.model_.dataset.y, kind="stable")
        rows = np.unique(order[np.linspace(0, len(order) - 1, _N_COMPARED).astype(int)])
        f = np.concatenate([values for _, values in all_draws(post, self.model_.dataset.X[rows])], axis=2)
        by_row = np.array([split_rhat(f[:, :, n]) for n in range(len(rows))])
        # Where f is the same in all draws nothing can be said, and nothing is wrong.
        found["f"] = float(np.nanmax(by_row)) if np.isfinite(by_row).any() or np.isinf(by_row).any() else np.nan
        worst = max(found, key=lambda name: -np.inf if np.isnan(found[name]) else found[name])
        if found[worst] > self.max_r_hat:
            warnings.warn(
                f"the chains have not converged: R-hat of {worst} is {found[worst]:.3g}, above "
                f"max_r_hat={self.max_r_hat:g} (r_hat_ has all). Intervals may be too narrow; more n_burn and n_draws "
                "help",
                ConvergenceWarning,
                stacklevel=4,
            )
        return found

    @property
    def feature_importances_(self):
        """Share of each feature in the rules of the trees, its posterior mean: (n_features_in_,) float64."""
        check_is_fitted(self)
        post = self.posterior_
        return shares_of(post.split_counts(), "splits", post.header["n_trees"]).mean(axis=(0, 1))

    def _check_new(self, X):
        check_is_fitted(self)
        return np.ascontiguousarray(validate_data(self, X, reset=False), dtype=np.float64)

    def _draws(self, X, offset):
        """f of all draws at new rows, (n_chains, n_draws, n)."""
        X = self._check_new(X)          # first, as it sees to it that there is a posterior
        return self.posterior_.predict(X, draws=True, n_threads=self._n_threads(), offset=offset).draws

    def _generator(self, random_state):
        """For draws of outcomes: of `random_state`, else of the estimator's own."""
        return make_generator(self.random_state if random_state is None else random_state)


def parts(mean, std, quantiles, interval):
    """What there is of these, as a tuple; the last two with the rows of X first."""
    by_row = (None if part is None else part.T for part in (quantiles, interval))
    return tuple(part for part in (mean, std, *by_row) if part is not None)


def refuse_idle_state(kind, random_state):
    if kind != "outcome" and random_state is not None:
        raise ValueError(f"random_state={random_state!r} has no effect with kind={kind!r}")


def make_seed(random_state):
    """The seed of `sample`: an int as it is, of a generator as many words as tell all seeds apart."""
    if random_state is None:
        return None
    if isinstance(random_state, np.random.Generator):
        return random_state.integers(2**32, size=_SEED_WORDS).tolist()
    if isinstance(random_state, np.random.RandomState):
        return random_state.randint(2**32, size=_SEED_WORDS, dtype=np.uint64).tolist()
    return check_count(random_state, "random_state", 0)


def make_generator(random_state):
    """For draws of outcomes: other numbers than those of any chain of the same seed."""
    entropy = np.random.SeedSequence(make_seed(random_state))
    return np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(entropy.entropy, spawn_key=(2**32 - 1,))))
