"""What permuting does: fits to permuted responses (a null for inclusion), predictions at permuted columns."""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np

from .data import check_rows
from .inclusion import KINDS, count_splits, shares_of
from .inputs import as_vector, check_choice, check_count, check_real, check_seed
from .interop import density_blocks
from .model import Model
from .outcomes import Probit
from .predictive import check_gaussian, log_density_of, log_predictive_density, new_rows
from .priors import NoisePrior, estimate_sigma
from .progress import Bar
from .trees import column_label

__all__ = ["Importance", "PermutationNull", "measure_importance", "permutation_null", "permuted_model"]

_RULES = ("local", "max", "se")
_METRICS = ("mse", "log_score")
_BLOCK_NUMBERS = 4_000_000


class PermutationNull(NamedTuple):
    """Shares of the columns in fits to permuted responses.

    Attributes
    ----------
    kind : str
        "splits", "trees" or "any", as in `Posterior.inclusion`.
    shares : ndarray, shape (n_permutations, n_dims)
        Posterior mean share of each fit.
    """

    kind: str
    shares: np.ndarray

    @property
    def mean(self):
        """(n_dims,) mean over permutations."""
        return self.shares.mean(axis=0)

    def p_values(self, observed):
        """Share of the permutations, the data counted as one, with at least the observed share; shape (n_dims,).

        Parameters
        ----------
        observed : array-like, shape (n_dims,)
            Such as ``Inclusion.mean``.
        """
        above = (self.shares >= np.asarray(observed)).sum(axis=0)
        return (1.0 + above) / (1.0 + len(self.shares))

    def threshold(self, level=0.05, rule="local"):
        """The share above which a column is called relevant, by one of the rules of Bleich, Kapelner, George and
        Jensen, Variable selection for BART, 2014.

        Parameters
        ----------
        level : float in (0, 1)
            Of a false call, for each column alone with "local", for any of them with the others.
        rule : {"local", "max", "se"}
            "local": each column's own ``1 - level`` quantile. "max": that of the largest share of a fit. "se": each
            column's mean plus the same number of its standard deviations, the smallest that holds a share
            ``1 - level`` of the fits in all columns at once.

        Returns
        -------
        ndarray, shape (n_dims,)
        """
        level, rule = check_real(level, "level", 0, 1), check_choice(rule, "rule", _RULES)
        if rule == "local":
            return np.quantile(self.shares, 1.0 - level, axis=0, method="higher")
        if rule == "max":
            largest = np.quantile(self.shares.max(axis=1), 1.0 - level, method="higher")
            return np.full(self.shares.shape[1], largest)
        mean, sd = self.mean, self.shares.std(axis=0, ddof=1)
        scores = np.divide(self.shares - mean, sd, out=np.zeros_like(self.shares), where=sd > 0)
        return mean + sd * np.quantile(scores.max(axis=1), 1.0 - level, method="higher")


def permuted_model(model, order):
    """The model of the same rows with their responses, and offsets of rows, in another order.

    Parameters
    ----------
    model : bart.Model
    order : ndarray of int, shape (N,)
        A permutation: row n gets ``y[order[n]]``, with its weight.

    Returns
    -------
    bart.Model
        Codes and tree prior are shared. A noise prior that was calibrated by least squares is calibrated anew.
    """
    made, data = copy.copy(model), copy.copy(model.dataset)
    for name in ("y", "y_scaled", "offset", "weights"):
        value = getattr(data, name)
        if isinstance(value, np.ndarray):
            setattr(data, name, value[order])
            getattr(data, name).flags.writeable = False
    made.dataset, made._domain = data, model.domain
    if model.sigma_hat_method == "ols" and isinstance(model.noise_prior, NoisePrior):
        scaled, made.sigma_hat_method = estimate_sigma(data.X, data.y_scaled, "ols", data.weights)
        made.sigma_hat = scaled * data.y_range
        prior = model.noise_prior
        # lam is a multiple of sigma_hat^2.
        lam = prior.lam * (made.sigma_hat / model.sigma_hat) ** 2
        made.noise_prior = NoisePrior(prior.nu, lam, prior.shape)
    return made


def permutation_null(model, n_permutations=20, kind="splits", sampler="auto", n_burn=200, n_draws=200, n_chains=1,
                     seed=None, executor=None, progress=False, **options):  # fmt: skip
    """Fit the model to permuted responses, and keep how often each column is split.

    Parameters
    ----------
    model : Model
    n_permutations : int
        Fits; at least 2.
    kind : {"splits", "trees", "any"}
        As in `Posterior.inclusion`.
    sampler, n_burn, n_draws, n_chains, executor
        Of each fit, as in `sample`: the budget. The same as in the run on the data where the chains are short, or
        what is compared are chains that have come differently far.
    seed : int or sequence of int, optional
        Of permutations and fits.
    progress : bool
        A tqdm bar over the fits.
    **options
        Further ones of `sample`.

    Returns
    -------
    PermutationNull
        To be given to ``Posterior.inclusion(null=...)``.
    """
    from .sampling import sample

    if not isinstance(model, Model):
        raise TypeError(f"model must be a Model, got {type(model).__name__}")
    check_count(n_permutations, "n_permutations", 2)
    check_choice(kind, "kind", KINDS)
    for name in ("checkpoint", "checkpoint_every", "checkpoint_sweeps", "keep_trees", "keep_burn_trees"):
        if name in options:
            raise ValueError(f"{name} has no place here: fits to permuted responses are not kept")
    shares = np.empty((n_permutations, model.dataset.n_dims))
    root = np.random.SeedSequence(check_seed(seed))
    with Bar(progress, n_permutations, "fit", "permuting") as bar:
        for place, child in enumerate(root.spawn(n_permutations)):
            rng = np.random.Generator(np.random.PCG64DXSM(child))
            permuted = permuted_model(model, rng.permutation(model.dataset.n_rows))
            entropy = [int(word) for word in child.generate_state(4)]
            post = sample(
                permuted, sampler, n_burn=n_burn, n_draws=n_draws, n_chains=n_chains, seed=entropy,
                executor=executor, progress=False, **options,
            )  # fmt: skip
            counts = count_splits(post.forests, model.n_trees, model.dataset.n_dims, per_tree=kind != "splits")
            shares[place] = shares_of(counts, kind, model.n_trees).mean(axis=(0, 1))
            bar.update(1)
    return PermutationNull(kind, shares)


class Importance(NamedTuple):
    """How much worse predictions become when a column is permuted; printing it shows the table, largest first.

    Attributes
    ----------
    metric : str
        "mse": increase of the mean squared error of the posterior mean, squared units of y; for probit of P(y = 1), the
        Brier score. "log_score": decrease of the mean log posterior predictive density.
    mean, sd : ndarray, shape (n_dims,)
        Over repeats; sd with divisor n_repeats - 1, NaN for one repeat.
    repeats : ndarray, shape (n_repeats, n_dims)
    baseline : float
        Mean squared error, or mean log density, at the rows as they are.
    column_names : tuple of str or None
    """

    metric: str
    mean: np.ndarray
    sd: np.ndarray
    repeats: np.ndarray
    baseline: float
    column_names: tuple | None = None

    @property
    def labels(self):
        """A name for each column: of the frame, else "x0", "x1", ..."""
        return [column_label(self.column_names, dim) for dim in range(len(self.mean))]

    def __str__(self):
        labels = self.labels
        width = max(map(len, labels))
        lines = [" " * width + f"{self.metric:>16}{'sd of repeats':>16}"]
        for dim in np.argsort(-self.mean, kind="stable"):
            lines.append(f"{labels[dim]:<{width}}{self.mean[dim]:>16.5g}{self.sd[dim]:>16.5g}")
        return "\n".join(lines)

    __repr__ = __str__


def measure_importance(post, X, y, n_repeats=5, metric="mse", every=1, seed=None, n_threads=1, progress=False,
                       offset=None, weights=None):  # fmt: skip
    """`Posterior.permutation_importance`."""
    check_count(n_repeats, "n_repeats")
    check_choice(metric, "metric", _METRICS)
    check_count(every, "every")
    header = post.header
    X, y = check_rows(X, header["n_dims"], header["column_names"], "X"), as_vector(y, "y")
    if len(X) != len(y):
        raise ValueError(f"X has {len(X)} rows, but y has {len(y)} values")
    if len(X) < 2:
        raise ValueError("X has one row: there is nothing to permute")
    if weights is not None:
        if metric == "mse":
            raise ValueError("weights have no effect with metric='mse'")
        check_gaussian(post, "weights=")
    offset, weights = new_rows(header, offset, weights, len(X))
    n_dims = X.shape[1]
    rng = np.random.Generator(np.random.PCG64DXSM(check_seed(seed)))
    found = np.empty((n_repeats, n_dims))
    with Bar(progress, n_repeats * n_dims + 1, "fit", "permuting") as bar:
        baseline = _score(post, X, y, offset, weights, metric, every, n_threads)
        bar.update(1)
        changed = np.array(X)
        for repeat in range(n_repeats):
            for dim in range(n_dims):
                changed[:, dim] = rng.permutation(X[:, dim])
                score = _score(post, changed, y, offset, weights, metric, every, n_threads)
                found[repeat, dim] = score - baseline if metric == "mse" else baseline - score
                changed[:, dim] = X[:, dim]
                bar.update(1)
    sd = found.std(axis=0, ddof=1) if n_repeats > 1 else np.full(n_dims, np.nan)
    names = None if header["column_names"] is None else tuple(header["column_names"])
    return Importance(metric, found.mean(axis=0), sd, found, baseline, names)


def _score(post, X, y, offset, weights, metric, every, n_threads):
    if metric == "mse":
        predict = post.predict_proba if post.outcome == Probit.name else post.predict
        return float(np.mean((y - predict(X, every=every, n_threads=n_threads, offset=offset)) ** 2))
    log_density = log_density_of(post, y)
    shape = post.n_chains, len(range(0, post.n_draws, every))
    step = max(1, _BLOCK_NUMBERS // (shape[0] * shape[1]))
    total = 0.0
    for first in range(0, len(X), step):
        rows = slice(first, first + step)
        held = np.empty((*shape, len(X[rows])))
        known, precision = (None if part is None else part[rows] for part in (offset, weights))
        for block in density_blocks(post, X[rows], y[rows], known, precision, every, n_threads, log_density):
            held[block.chain, block.draws, block.rows] = block.values
        total += log_predictive_density(held.reshape(-1, held.shape[2])).sum()
    return float(total / len(X))
