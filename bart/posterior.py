"""Posterior: traces, stored forests, prediction, summaries and files."""

import os

import numpy as np

from .chain import OPTIONAL_TRACES, TRACES, Forests
from .data import check_rows
from .diagnostics import summarise
from .inputs import check_count
from .ladder import Tempering
from .outcomes import GAUSSIAN
from .prediction import predict, predict_blocks
from .predictive import new_offset
from .probabilities import predict_proba
from .storage import read_record, reading, write_record
from .summaries import Summary
from .views import PosteriorViews

__all__ = ["Posterior", "load"]

_FORMAT = "bart posterior 3"
# What every header has.
_HEADER = {"n_trees", "n_dims", "column_names", "y_mid", "y_range", "n_burn", "thin", "seed", "starts", "sampler"}


class Posterior(PosteriorViews):
    """Draws of several chains, as `sample` returns them.

    ``post[name]`` is the trace of the kept draws, shape (n_chains, n_draws); ``post.burn[name]`` that of
    the burn-in, (n_chains, n_burn); ``post.sweeps[name]`` that of all sweeps, the ones that thinning left
    out included, (n_chains, n_burn + n_draws * thin).

    Traces
    ------
    log_likelihood : sum over rows of log N(y | f(x), sigma^2) at the end of the sweep, in the units of y, offsets and
        weights of the rows included; for probit of log Phi(f) where y = 1 and log Phi(-f) where y = 0.
    sigma : noise standard deviation (of a row of weight 1), units of y; for probit 1, that of the latent variables.
    n_leaves : leaves of all trees together.
    depth : largest depth of a leaf over the trees (a stump has 0).
    tree_changed, root_changed : share of trees whose structure, whose root's rule changed in the sweep, without what
        `Slide` changes between sweeps.
    row_visits : rows of the nodes at which rules were tried, over all trees (see `StepInfo`): what the sweep costs
        the algorithm, on any machine and in any implementation.
    seconds : CPU seconds of the sweep in the thread of its chain: all of them, unless n_threads > 1.
    k : with a prior of k (bart.ChiK), its draws.
    theta, split_probabilities : with a prior of the columns' probabilities (bart.Dirichlet), its draws; the latter are
        (n_chains, n_draws, n_dims), and not among the names that iteration gives.

    Parameters
    ----------
    traces : dict of ndarray, shape (n_chains, n_sweeps)
    header : dict
        Plain values: n_trees, n_dims, column_names, y_mid, y_range, n_burn, thin, seed, starts, sampler, ..., version
        (of the package that made the run).
    forests, burn_forests : list of Forests, optional
        Of each chain.
    tempering : Tempering, optional
        Swaps and temperatures of the ladders. The traces are then those of the state at t = 1 at the end of each
        sweep, before swaps; row_visits and seconds count all states.
    """

    def __init__(self, traces, header, forests=None, burn_forests=None, tempering=None):
        self.header = dict(header)
        self.tempering = tempering
        self.forests = forests
        self.burn_forests = burn_forests
        names = [*TRACES, *(name for name in traces if name not in TRACES)]
        self.sweeps = {name: np.asarray(traces[name]) for name in names}
        for trace in self.sweeps.values():
            trace.flags.writeable = False
        n_burn, thin = self.header["n_burn"], self.header["thin"]
        self.burn = {name: trace[:, :n_burn] for name, trace in self.sweeps.items()}
        self._kept = {name: trace[:, n_burn + thin - 1 :: thin] for name, trace in self.sweeps.items()}

    def __getitem__(self, name):
        try:
            return self._kept[name]
        except KeyError:
            raise KeyError(f"no trace {name!r}: there are {', '.join(self)}") from None

    def __iter__(self):
        return (name for name, trace in self._kept.items() if trace.ndim == 2)

    def __contains__(self, name):
        return name in list(self)

    def __reduce__(self):
        # The other traces are views of `sweeps`: pickled, they would double it.
        return Posterior, (self.sweeps, self.header, self.forests, self.burn_forests, self.tempering)

    def __repr__(self):
        stored = "with" if self.forests is not None else "without"
        return f"<Posterior: {self.n_chains} chains of {self.n_draws} draws by {self.sampler!r}, {stored} forests>"

    @property
    def n_chains(self):
        """Number of chains."""
        return self.sweeps["sigma"].shape[0]

    @property
    def n_draws(self):
        """Kept draws of each chain."""
        return self._kept["sigma"].shape[1]

    @property
    def n_burn(self):
        """Sweeps of the burn-in of each chain."""
        return self.header["n_burn"]

    @property
    def seed(self):
        """The seed that gives the same draws again."""
        return self.header["seed"]

    @property
    def starts(self):
        """Kind of start of each chain."""
        return list(self.header["starts"])

    @property
    def sampler(self):
        """Text of the sampler, as `parse_sampler` reads it; of a sampler of one's own what its ``repr`` says."""
        return self.header["sampler"]

    @property
    def ladder(self):
        """Text of the Ladder; None without one."""
        return self.header.get("ladder")

    @property
    def outcome(self):
        """Name of the model's outcome: "gaussian", or another's such as "probit"."""
        return self.header.get("outcome") or GAUSSIAN

    @property
    def units(self):
        """Those of f and sigma, for pictures: "units of y", or "latent units" where the outcome is another."""
        return "units of y" if self.outcome == GAUSSIAN else "latent units"

    @property
    def stopped(self):
        """What ended the run: "callback", "time_limit", "stop_when" (its targets are met); None where nothing did."""
        return self.header.get("stopped")

    @property
    def temperatures(self):
        """(n_chains, K) powers of the likelihood of the ladder's rungs in the kept draws; None without a ladder."""
        return None if self.tempering is None else self.tempering.temperatures

    @property
    def swap_rates(self):
        """(n_chains, K - 1) shares of the swaps of neighbours made in the kept draws; None without a ladder."""
        return None if self.tempering is None else self.tempering.swap_rates

    @property
    def round_trips(self):
        """(n_chains,) journeys of a state from t = 1 to the last rung and back in them; None without a ladder."""
        return None if self.tempering is None else self.tempering.round_trips

    @property
    def nbytes(self):
        """Bytes of traces and forests."""
        forests = [*(self.forests or []), *(self.burn_forests or [])]
        return sum(trace.nbytes for trace in self.sweeps.values()) + sum(part.nbytes for part in forests)

    def predict(self, X, draws=False, quantiles=None, interval=None, every=1, progress=False, n_threads=1,
                kind="mean", seed=None, offset=None, weights=None):  # fmt: skip
        """Posterior of f, or of new outcomes y = f + noise, at new rows, in the units of y (latent ones for
        probit), the offset included.

        Parameters
        ----------
        X : array-like, shape (n, n_dims)
            New rows; n may be 0. A frame must have the training columns in their order.
        draws : bool
            Return f, or a simulated outcome, of each draw too: ``n_chains * n_draws * n`` numbers.
        quantiles : sequence of float in [0, 1], optional
            Posterior quantiles of f, or of the outcome.
        interval : float in (0, 1), optional
            Probability of a central interval: a credible one for f, or a predictive one for the outcome.
        every : int
            Use only every so many kept draws.
        progress : bool
            Show a tqdm progress bar.
        n_threads : int
            Threads that share the rows. No result depends on their number.
        kind : {"mean", "outcome"}
            What is predicted: the mean f of the outcome at a row, or the outcome itself, N(f, sigma^2) in each draw.
            Quantiles and intervals of outcomes are those of the mixture over draws, found by inverting its
            distribution function, without simulation. The posterior mean is the same.
        seed : int or sequence of int, optional
            Of the simulated outcomes; only for draws of outcomes.
        offset : float or array-like, shape (n,), optional
            Of the new rows, added to f: needed where the model had one for each row (0.0 gives f alone), and refused
            elsewhere, as f contains an offset that is a number.
        weights : array-like, shape (n,), optional
            Of the rows, with kind="outcome": the noise variance of row n is sigma^2 / weights[n] in each draw. 1 by
            default, whatever those of the run were.

        Returns
        -------
        ndarray, shape (n,), or Prediction
            The posterior mean; with `draws`, `quantiles` or `interval` a Prediction.

        Raises
        ------
        RuntimeError
            The run stored no trees.
        ValueError, TypeError
            Bad rows or levels.

        Notes
        -----
        Works in blocks of rows and draws: beyond the result it holds some tens of megabytes, or, for
        quantiles and intervals, all draws of a block of rows.
        """
        return predict(self, X, draws, quantiles, interval, every, progress, n_threads, kind, seed, offset, weights)

    def predict_proba(self, X, draws=False, quantiles=None, interval=None, every=1, n_threads=1, offset=None):
        """Posterior of P(y = 1) = Phi(f) at new rows, of a run with outcome="probit".

        Parameters
        ----------
        X, draws, quantiles, interval, every, n_threads, offset
            As in `predict`, of the probability instead of f.

        Returns
        -------
        ndarray, shape (n,), or Prediction
            The posterior mean, which is the predictive probability of y = 1; with `draws`, `quantiles` or `interval` a
            Prediction.

        Raises
        ------
        RuntimeError
            The run had another outcome, or stored no trees.
        ValueError, TypeError
            Bad rows or levels.
        """
        return predict_proba(self, X, draws, quantiles, interval, every, n_threads, offset)

    def predict_blocks(self, X, every=1, burn=False, n_threads=1, offset=None):
        """Iterate over f of each draw at new rows in blocks of bounded memory.

        Parameters
        ----------
        X : array-like, shape (n, n_dims)
        every : int
            Use only every so many draws.
        burn : bool
            The stored forests of the burn-in instead of those of the kept draws.
        n_threads : int
            Threads that share the rows.
        offset
            As in `predict`.

        Yields
        ------
        Block
            ``chain``, ``draws`` and ``rows`` (slices into the used draws of that chain, and into X) and
            ``values``, (n_block_draws, n_block_rows), in the units of y. Valid until the next block.
        """
        X = self._check_new(X)
        check_count(every, "every")
        check_count(n_threads, "n_threads")
        yield from predict_blocks(self, X, every, burn, n_threads, new_offset(self.header, offset, len(X)))

    def summary(self, names=None):
        """Mean, standard deviation, Monte Carlo error, bulk and tail ESS and R-hat of traces.

        Parameters
        ----------
        names : sequence of str, optional
            Traces; sigma, log_likelihood, n_leaves and depth by default, and k and theta where there are any.

        Returns
        -------
        Summary

        Raises
        ------
        KeyError
            There is no such trace.
        ValueError
            split_probabilities, which is no single number a draw.
        """
        if names is None:
            names = ("sigma", "log_likelihood", "n_leaves", "depth", *(n for n in OPTIONAL_TRACES if n in self))
        for name in names:
            if self[name].ndim != 2:
                raise ValueError(f"names: {name} is one number a column in each draw; the traces are {', '.join(self)}")
        notes = [] if self.tempering is None else [str(self.tempering)]
        return Summary({name: summarise(self[name]) for name in names}, notes)

    def save(self, path):
        """Write everything to one ``.npz`` file, aside first and then renamed.

        Parameters
        ----------
        path : str or os.PathLike
        """
        record = {
            "format": _FORMAT,
            "header": self.header,
            "traces": self.sweeps,
            "forests": _forest_records(self.forests),
            "burn_forests": _forest_records(self.burn_forests),
            "tempering": None if self.tempering is None else vars(self.tempering),
        }
        write_record(path, record)

    def _check_new(self, X):
        return check_rows(X, self.header["n_dims"], self.header["column_names"], "X")

    def _forests(self, burn):
        forests = self.burn_forests if burn else self.forests
        if forests is None:
            option = "keep_burn_trees" if burn else "keep_trees"
            raise RuntimeError(f"this run stored no trees, so it cannot predict: sample with {option}=True")
        return forests


def load(path):
    """Read a run that `Posterior.save` wrote; it predicts the same to the last bit.

    Parameters
    ----------
    path : str or os.PathLike

    Returns
    -------
    Posterior

    Raises
    ------
    ValueError
        The file is not a saved run.
    """
    record = read_record(path)
    if not isinstance(record, dict) or record.get("format") != _FORMAT:
        raise ValueError(f"{os.fspath(path)!r} is not a saved run of this version ({_FORMAT})")
    with reading(path, "is not a saved run"):
        forests, burn_forests = (
            None if record[kind] is None else [Forests(part["nodes"], part["starts"]) for part in record[kind]]
            for kind in ("forests", "burn_forests")
        )
        tempering = None if record["tempering"] is None else Tempering(**record["tempering"])
        post = Posterior(record["traces"], record["header"], forests, burn_forests, tempering)
        if not _is_whole(post):
            raise ValueError(f"{os.fspath(path)!r} holds damaged traces, forests or settings")
    return post


def _is_whole(post):
    """Whether there is what every run has, traces and forests of the shapes that go with it."""
    n_sweeps = post.n_burn + post.n_draws * post.header["thin"]
    sizes = {trace.shape[:2] for trace in post.sweeps.values()}
    if not post.header.keys() >= _HEADER or sizes != {(post.n_chains, n_sweeps)}:
        return False
    n_trees, n_burnt = post.header["n_trees"], post.n_burn // post.header["thin"]
    for forests, n_draws in ((post.forests, post.n_draws), (post.burn_forests, n_burnt)):
        whole = [part.is_whole and len(part.starts) == n_draws * n_trees + 1 for part in forests or []]
        if forests is not None and not (all(whole) and len(whole) == post.n_chains):
            return False
    return True


def _forest_records(forests):
    return None if forests is None else [{"nodes": part.nodes, "starts": part.starts} for part in forests]
