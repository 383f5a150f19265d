"""What looks at a run as it goes and may end it: targets of convergence, a wall budget, a callback.

None of them changes a draw: they only decide how many draws there are.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import asdict, dataclass, replace

import numpy as np

from . import diagnostics
from .chain import OPTIONAL_TRACES, TRACES
from .hyperpriors import Dirichlet
from .inputs import check_count, check_real
from .priors import FixedNoise

__all__ = ["RunState", "StopSampling", "Targets", "Watch"]

# Seconds between two notes on the progress bar, and the largest share of the time that R-hat for them may take.
_NOTE_SECONDS = 2.0
_NOTE_SHARE = 0.02
_NOTE_NAMES = ("sigma", "log_likelihood", *OPTIONAL_TRACES)
_KNOWN = f"there are {', '.join(TRACES)}, and with priors of them {', '.join(OPTIONAL_TRACES)}"


class StopSampling(Exception):
    """Raised in a callback: `sample` ends and returns the draws that there are."""


@dataclass(frozen=True)
class Targets:
    """Convergence at which `sample` stops: all named traces reach both figures, on all chains together.

    The kept draws are looked at when each chain has `every`, 2 `every`, ... of them, later at steps of a tenth of their
    number (rounded to whole multiples of `every`), and at the last draw. So the number of draws is a function of model,
    settings and seed alone: no executor, checkpoint or speed of a machine changes it.

    Parameters
    ----------
    names : sequence of str, optional
        Traces, see `Posterior`; by default "log_likelihood", and those of "sigma", "theta" and "k" that the model
        draws.
    r_hat : float or None
        Largest rank-normalised split R-hat, > 1; None asks nothing of it. It needs two chains or more.
    ess_bulk : float or None
        Least bulk effective sample size, > 0; None asks nothing of it.
    every : int
        Draws of each chain between two looks, at least 4.

    Raises
    ------
    ValueError, TypeError
        A bad argument, or both figures None.
    """

    names: tuple | None = None
    r_hat: float | None = 1.01
    ess_bulk: float | None = 400.0
    every: int = 100

    def __post_init__(self):
        names = (self.names,) if isinstance(self.names, str) else self.names
        if names is not None and not (isinstance(names, (list, tuple)) and names):
            raise TypeError(f"stop_when: names must be a sequence of traces, got {self.names!r}")
        for name in names or ():
            if name not in (*TRACES, *OPTIONAL_TRACES):
                raise ValueError(f"stop_when: no trace {name!r} among names: {_KNOWN}")
        given = {"every": check_count(self.every, "stop_when: every", 4)}
        given["names"] = None if names is None else tuple(names)
        for figure, low in (("r_hat", 1), ("ess_bulk", 0)):
            value = getattr(self, figure)
            given[figure] = None if value is None else check_real(value, f"stop_when: {figure}", low)
        if given["r_hat"] is None and given["ess_bulk"] is None:
            raise ValueError("stop_when: r_hat and ess_bulk are both None, so nothing is asked for")
        for name, value in given.items():
            object.__setattr__(self, name, value)

    def next_look(self, n_draws):
        """The number of draws of each chain at the first look after the one at `n_draws` (0: the very first)."""
        return n_draws + self.every * max(1, n_draws // (10 * self.every))

    def figures(self, name, draws):
        """The figures asked for of one trace, (n_chains, n_draws) draws, as a dict."""
        found = {}
        if self.r_hat is not None:
            found["r_hat"] = diagnostics.split_rhat(draws)
        if self.ess_bulk is not None:
            found["ess_bulk"] = diagnostics.ess_bulk(draws)
        return found

    def missed(self, traces):
        """What the draws lack.

        Parameters
        ----------
        traces : mapping of str to (n_chains, n_draws) array

        Returns
        -------
        list of str
            A phrase for each figure of each trace that does not reach its target; NaN reaches none.
        """
        out = []
        for name in self.names:
            found = self.figures(name, traces[name])
            if "r_hat" in found and not found["r_hat"] <= self.r_hat:
                out.append(f"{name} has R-hat {found['r_hat']:.4g} > {self.r_hat:g}")
            if "ess_bulk" in found and not found["ess_bulk"] >= self.ess_bulk:
                out.append(f"{name} has bulk ESS {found['ess_bulk']:.0f} < {self.ess_bulk:g}")
        return out


def resolve_targets(stop_when, model, n_chains):
    """`stop_when` of `sample` as Targets or None; errors before any work.

    Raises
    ------
    TypeError, ValueError
        No Targets nor a dict of their parameters; R-hat of a single chain; a trace that cannot move.
    ImportError
        Without ArviZ, which computes both figures.
    """
    if stop_when is None:
        return None
    if isinstance(stop_when, dict):
        unknown = [key for key in stop_when if key not in Targets.__dataclass_fields__]
        if unknown:
            known = ", ".join(Targets.__dataclass_fields__)
            raise ValueError(f"stop_when: unknown key {unknown[0]!r} (known are {known})")
        stop_when = Targets(**stop_when)
    if not isinstance(stop_when, Targets):
        raise TypeError(f"stop_when must be Targets, a dict of their parameters or None, got {stop_when!r}")
    if n_chains < 2 and stop_when.r_hat is not None:
        raise ValueError("stop_when: R-hat needs two chains or more; take n_chains >= 2 or r_hat=None")
    fixed = _fixed_traces(model)
    if stop_when.names is None:
        names = ("sigma", "log_likelihood", *(name for name in OPTIONAL_TRACES if name in model.trace_names))
        stop_when = replace(stop_when, names=tuple(name for name in names if name not in fixed))
    for name in stop_when.names:
        if name in fixed:
            raise ValueError(f"stop_when: {name} is fixed in this model, so its trace reaches no target; name others")
        if name in OPTIONAL_TRACES and name not in model.trace_names:
            raise ValueError(f"stop_when: this model has no trace {name!r}: it has no prior of it")
    diagnostics.require_arviz()
    return stop_when


def _fixed_traces(model):
    """Traces that other models draw and this one does not."""
    fixed, weights = set(), model.tree_prior.dim_weights
    if isinstance(model.noise_prior, FixedNoise):
        fixed.add("sigma")
    if isinstance(weights, Dirichlet) and (weights.theta is not None or not len(model.domain.candidates)):
        fixed.add("theta")
    return fixed


class RunState:
    """A run as it stands, for a callback. A snapshot: it stays as it is when the run goes on.

    ``state[name]`` holds the kept draws that all chains have so far, (n_chains, n) with n the least of `n_draws`, 0 in
    the burn-in.

    Attributes
    ----------
    n_sweeps : (n_chains,) int64
        Sweeps done by each chain, those from a checkpoint included.
    n_draws : (n_chains,) int64
        Kept draws of each chain.
    n_sweeps_planned : int
        Sweeps that each chain makes if nothing ends the run.
    seconds : float
        Wall time since `sample` was called.
    """

    def __init__(self, segments, plan, n_sweeps, n_draws, seconds):
        self._segments, self._plan = [list(parts) for parts in segments], plan
        self.n_sweeps, self.n_draws = n_sweeps.copy(), n_draws.copy()
        self.n_sweeps_planned, self.seconds = plan.n_sweeps, seconds

    def __repr__(self):
        return f"<RunState: sweeps {self.n_sweeps.tolist()} of {self.n_sweeps_planned}, {self.seconds:.1f} s>"

    @property
    def is_done(self):
        """Whether all chains have made all sweeps."""
        return bool((self.n_sweeps >= self.n_sweeps_planned).all())

    def __contains__(self, name):
        parts = [part for chain in self._segments for part in chain]
        return name in TRACES or name in OPTIONAL_TRACES and bool(parts) and name in parts[0].traces

    def __getitem__(self, name):
        return self.kept(name, int(self.n_draws.min()))

    def kept(self, name, n_draws):
        """The first `n_draws` kept draws of each chain, (n_chains, n_draws)."""
        self._check(name)
        thin = self._plan.thin
        rows = []
        for parts in self._segments:
            found = [part.traces[name] for part in parts if not part.in_burn]
            whole = np.concatenate(found) if found else np.empty(0)
            rows.append(whole[thin - 1 :: thin][:n_draws])
        return np.stack(rows)

    def sweeps(self, name):
        """The trace of all sweeps of each chain so far, burn-in included: a list of arrays, of unlike lengths."""
        self._check(name)
        return [np.concatenate([part.traces[name] for part in parts] or [np.empty(0)]) for parts in self._segments]

    def r_hat(self, name):
        """Rank-normalised split R-hat of ``state[name]``; NaN where nothing can be said yet. Needs ArviZ."""
        return self._figure(diagnostics.split_rhat, name)

    def ess_bulk(self, name):
        """Bulk effective sample size of ``state[name]`` over all chains; NaN where nothing can be said yet."""
        return self._figure(diagnostics.ess_bulk, name)

    def _check(self, name):
        if name not in self:
            raise KeyError(f"no trace {name!r}: {_KNOWN}")

    def _figure(self, figure, name):
        draws = self[name]
        return figure(draws) if draws.size else float("nan")


class Watch:
    """Looks at a run after every segment, reports, and says when it ends.

    Parameters
    ----------
    record : object
        With `segments`, `n_swept_of` (sweeps of each chain) of the run.
    plan : ChainPlan
    bar : Bar
    began : float
        ``time.monotonic()`` when `sample` was called.
    time_limit, targets, callback, callback_every
        As in `sample`, checked.

    Attributes
    ----------
    reason : None, "time_limit", "stop_when" or "callback"
        Why the run ends before all its draws; "stop_when" also where the last draw reaches the targets.
    """

    def __init__(self, record, plan, bar, began, time_limit=None, targets=None, callback=None, callback_every=1.0):
        self.record, self.plan, self.bar, self.began = record, plan, bar, began
        self.time_limit, self.targets = time_limit, targets
        self.callback, self.callback_every = callback, callback_every
        self.reason = self._error = None
        self._n_stop = None
        self._next_look = None if targets is None else min(targets.next_look(0), plan.n_draws)
        self._missed = []
        self._last_call = self._last_note = began
        self._note_every = _NOTE_SECONDS

    @property
    def n_draws_of(self):
        """Kept draws of each chain so far."""
        kept = (self.record.n_swept_of - self.plan.n_burn) // self.plan.thin
        return np.clip(kept, 0, self.plan.n_draws)

    @property
    def n_draws(self):
        """Draws of each chain that the result has: those that all chains have, or those at which targets were met."""
        return int(self.n_draws_of.min()) if self._n_stop is None else self._n_stop

    def seconds(self, most, n_chains):
        """Wall seconds of the next segment: short enough beside the time that is left for all chains to come up."""
        if self.time_limit is None:
            return most
        left = self.began + self.time_limit - time.monotonic()
        return max(0.0, min(most, left, self.time_limit / (10.0 * n_chains)))

    def look(self, n_sweeps=0):
        """Take `n_sweeps` more into account; whether the run is to end."""
        self.bar.update(n_sweeps)
        if self.reason is None:
            self._look_at_targets()
        now = time.monotonic()
        if self.reason is None and self.time_limit is not None and now - self.began >= self.time_limit:
            self.reason = "time_limit"
        due = self.callback is not None and n_sweeps > 0 and now - self._last_call >= self.callback_every
        is_done = (self.record.n_swept_of >= self.plan.n_sweeps).all()        # the last call comes in `finish`
        if self.reason is None and due and not is_done:
            self._call()
        if self.bar.is_shown and now - self._last_note >= self._note_every:
            self._note(now)
        return self.reason is not None

    def finish(self):
        """After the last sweep: the last call of the callback, and an error where there is no draw to return.

        Raises
        ------
        RuntimeError
            The run was ended within the burn-in of a chain.
        Exception
            What the callback raised and so ended the run; in the last call it is a warning, and the draws stay.
        """
        if self._error is not None:
            raise self._error
        if self.callback is not None and self.reason != "callback":
            self._call(last=True)
        if self._error is not None:
            warnings.warn(f"the last call of callback failed, the draws are whole: {self._error!r}", stacklevel=3)
        now = time.monotonic()
        if self.bar.is_shown and now - self.began >= _NOTE_SECONDS:
            self._note(now)
        if self.n_draws == 0:
            behind = int(np.argmin(self.record.n_swept_of))
            raise RuntimeError(
                f"{self.reason} ended the run before every chain had a kept draw: chain {behind} had made"
                f" {self.record.n_swept_of[behind]} sweeps, and its first draw comes after"
                f" {self.plan.n_burn + self.plan.thin}"
                + ("" if self.record.folder is None else f"; {self.record.folder.path!r} holds it, to be resumed")
            )

    def shortfall(self):
        """What the last look at the targets missed, where they are not met at the end; else an empty list."""
        return self._missed if self.targets is not None and self.reason is None else []

    def state(self):
        """The run as it stands."""
        seconds = time.monotonic() - self.began
        return RunState(self.record.segments, self.plan, self.record.n_swept_of, self.n_draws_of, seconds)

    def _look_at_targets(self):
        while self._next_look is not None and self._next_look <= self.n_draws_of.min():
            n_draws, state = self._next_look, self.state()
            traces = {name: state.kept(name, n_draws) for name in self.targets.names}
            self._missed = self.targets.missed(traces)
            if not self._missed:
                self.reason, self._n_stop, self._next_look = "stop_when", n_draws, None
            elif n_draws >= self.plan.n_draws:
                self._next_look = None
            else:
                self._next_look = min(self.targets.next_look(n_draws), self.plan.n_draws)

    def _call(self, last=False):
        try:
            answer = self.callback(self.state())
            if not (answer is None or isinstance(answer, (bool, np.bool_))):
                raise TypeError(f"callback must return True, False or None, got {answer!r}")
        except StopSampling:
            answer = True
        except Exception as error:          # goes on in `finish`, when the checkpoints are written
            answer, self._error = True, error
        if answer and not last:
            self.reason = "callback"
        self._last_call = time.monotonic()

    def _note(self, now):
        if self.n_draws_of.min() < 4:
            self.bar.note("burn-in" if self.n_draws_of.min() == 0 else "")
            self._last_note = now
            return
        state = self.state()
        try:
            names = [name for name in _NOTE_NAMES if name in state]
            r_hats, ess = [state.r_hat(name) for name in names], [state.ess_bulk(name) for name in names]
        except ImportError:
            self._note_every = float("inf")
            return
        if np.isnan(r_hats + ess).all():
            self.bar.note("")
        else:
            self.bar.note(f"R-hat {np.nanmax([*r_hats, 1.0]):.3f}, ESS {np.nanmin([*ess, np.inf]):.0f}")
        self._last_note = time.monotonic()
        self._note_every = max(_NOTE_SECONDS, (self._last_note - now) / _NOTE_SHARE)


def targets_record(targets):
    """Plain values from which ``Targets(**record)`` makes the same again; None for None."""
    return None if targets is None else asdict(targets)
