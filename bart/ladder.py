"""The ladder of parallel tempering: its temperatures, the ratio of a swap, and what swaps did."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import PchipInterpolator

from .inputs import check_count, check_flag, check_real

__all__ = ["Ladder", "Tempering", "even_temperatures", "log_swap_ratio"]

N_RUNGS = 8
T_MIN = 0.05
# Below, sigma2 / t may overflow.
T_LEAST = 1e-100
# The least rejection rate that is believed.
_LEAST_REJECTION = 0.01


@dataclass(frozen=True)
class Ladder:
    """Parallel tempering inside each chain: one state under the posterior, others under a flattened one.

    Rung k has prior x likelihood^t_k, 1 = t_0 > t_1 > ... After every `every` sweeps of all rungs neighbours may
    swap: even pairs (0, 1), (2, 3), ... in one round, odd pairs (1, 2), (3, 4), ... in the next, each with
    probability min(1, exp((t_i - t_j)(l_j - l_i))), l the log-likelihood. Only the state at t = 1 is recorded. The
    states should not move all together: use it where there are few trees.

    Parameters
    ----------
    n_rungs : int, optional
        States of a chain, 8 by default; each costs as much as a chain without a ladder.
    t_min : float, optional
        The last temperature, in (1e-100, 1), 0.05 by default; the temperatures start as a geometric sequence from 1
        to it.
    every : int
        Sweeps between two rounds of swaps.
    tune : bool, optional
        Move the temperatures between the first and the last to where all pairs swap equally often: during the burn-in
        alone, then they stay. True by default, False for temperatures of your own. Two rungs have none between.
    temperatures : sequence of float, optional
        Instead of `n_rungs` and `t_min`: decreasing, the first one 1.

    Raises
    ------
    ValueError, TypeError
        A bad argument.
    """

    n_rungs: int | None = None
    t_min: float | None = None
    every: int = 1
    tune: bool | None = None
    temperatures: tuple | None = None

    def __post_init__(self):
        tune = self.temperatures is None if self.tune is None else check_flag(self.tune, "tune")
        given = {"every": check_count(self.every, "every"), "tune": tune}
        if self.temperatures is None:
            given["n_rungs"] = check_count(N_RUNGS if self.n_rungs is None else self.n_rungs, "n_rungs", 2)
            given["t_min"] = check_real(T_MIN if self.t_min is None else self.t_min, "t_min", T_LEAST, 1)
            given["temperatures"] = tuple(np.geomspace(1.0, given["t_min"], given["n_rungs"]).tolist())
        else:
            for name in ("n_rungs", "t_min"):
                if getattr(self, name) is not None:
                    raise ValueError(f"{name} has no effect with temperatures")
            given["temperatures"] = _check_temperatures(self.temperatures)
            given["n_rungs"], given["t_min"] = len(given["temperatures"]), given["temperatures"][-1]
        for name, value in given.items():
            object.__setattr__(self, name, value)

    def __repr__(self):
        own = np.geomspace(1.0, self.t_min, self.n_rungs).tolist() != list(self.temperatures)
        rungs = f"temperatures={self.temperatures}" if own else f"n_rungs={self.n_rungs}, t_min={self.t_min}"
        return f"Ladder({rungs}, every={self.every}, tune={self.tune})"


def _check_temperatures(values):
    if isinstance(values, (str, bytes)) or not np.iterable(values):
        raise TypeError(f"temperatures must be a sequence of numbers, got {values!r}")
    found = tuple(check_real(t, f"temperatures[{k}]", T_LEAST, 1, "high") for k, t in enumerate(values))
    if len(found) < 2 or found[0] != 1.0:
        raise ValueError(f"temperatures must be at least two, the first one 1, got {values!r}")
    for k in range(1, len(found)):
        if found[k] >= found[k - 1]:
            raise ValueError(f"temperatures must decrease, but temperatures[{k}] = {found[k]}")
    return found


def log_swap_ratio(t_i, t_j, l_i, l_j):
    """log of the ratio of the joint density after and before the states at t_i and t_j change places.

    (t_i - t_j)(l_j - l_i), l the log-likelihood of each state at t = 1: the prior's factors cancel, and so do constants
    of l, its units among them.
    """
    return (t_i - t_j) * (l_j - l_i)


def even_temperatures(temperatures, rejection):
    """Temperatures between which swaps are rejected about equally often.

    The mean rejection rates of neighbours add up to an estimate of the communication barrier from 1 to t (Syed,
    Bouchard-Cote, Deligiannidis & Doucet 2022, Non-reversible parallel tempering); the new temperatures are at equal
    steps of it, by monotone interpolation of log t.

    Parameters
    ----------
    temperatures : (K,) array, decreasing
    rejection : (K - 1,) array
        Mean of 1 - min(1, exp(log ratio)) of each pair.

    Returns
    -------
    (K,) array
        Decreasing, with the same ends.
    """
    barrier = np.concatenate([[0.0], np.cumsum(np.maximum(rejection, _LEAST_REJECTION))])
    log_t = PchipInterpolator(barrier, np.log(temperatures))(np.linspace(0.0, barrier[-1], len(temperatures)))
    return np.concatenate([temperatures[:1], np.exp(log_t[1:-1]), temperatures[-1:]])


@dataclass(frozen=True)
class Tempering:
    """What the ladders of a run did.

    Attributes
    ----------
    temperatures : (n_chains, K) array
        Of each rung in the kept draws.
    swaps : (n_chains, n_sweeps, K - 1) array of int8
        For each pair whether the states changed places after the sweep (1), did not (0), or no swap was tried (-1).
    n_burn : int
        Sweeps of the burn-in.
    """

    temperatures: np.ndarray
    swaps: np.ndarray
    n_burn: int

    @property
    def swap_rates(self):
        """(n_chains, K - 1): share of the swaps tried after the burn-in that were made; NaN without any."""
        kept = self.swaps[:, self.n_burn :]
        tried = (kept >= 0).sum(axis=1)
        return np.divide((kept == 1).sum(axis=1), tried, out=np.full(tried.shape, np.nan), where=tried > 0)

    @property
    def round_trips(self):
        """(n_chains,) int: journeys of a state from t = 1 to the last rung and back, after the burn-in."""
        return np.array([_round_trips(chain[self.n_burn :] == 1) for chain in self.swaps], dtype=np.int64)

    def __str__(self):
        rates, trips = self.swap_rates, self.round_trips
        ends = f"t from 1 to {self.temperatures.min():.3g}"
        shown = " ".join(f"{rate:.2f}" for rate in rates.mean(axis=0))
        return (
            f"tempering: {self.temperatures.shape[1]} rungs, {ends}; swap rates {shown};"
            f" round trips of each chain {' '.join(str(n) for n in trips)}"
        )


def _round_trips(swapped):
    n_pairs = swapped.shape[1]
    order, reached_end = list(range(n_pairs + 1)), [False] * (n_pairs + 1)
    from_cold = [False] * (n_pairs + 1)
    from_cold[order[0]] = True
    trips = 0
    for row in swapped[swapped.any(axis=1)]:
        # Of the pairs of one round no two share a rung, so that their order does not matter.
        for k in np.flatnonzero(row):
            order[k], order[k + 1] = order[k + 1], order[k]
        cold, hot = order[0], order[-1]
        reached_end[hot] = from_cold[hot]
        if reached_end[cold]:
            trips += 1
        from_cold[cold], reached_end[cold] = True, False
    return trips
