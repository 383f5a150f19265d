"""What is measured on a run of `mixing_runs`, and how one system compares with others."""

import math

import numpy as np

from bart import diagnostics

from . import summaries
from .mixing_runs import PEER_SYSTEMS

__all__ = ["NOMINAL", "RATES", "compare", "figures", "held_out", "held_out_differences", "measure", "together"]

NOMINAL = (0.5, 0.9, 0.95)
RATES = ("sigma", "log_likelihood", "f_median", "f_low")
N_BOOTSTRAP = 2000
# Fewer draws of a chain have no ESS: autocorrelations longer than the chain are not seen, so that three sweeps would
# count as independent. In a ratio they count as this many effective draws, what four chains apart have at least.
LEAST_DRAWS = 50
LEAST_ESS = 4.0


def together(traces):
    """Traces of several chains as one array, (n_chains, n, ...): each thinned evenly to the shortest."""
    n = min(len(trace) for trace in traces)
    return np.stack([trace[(np.arange(n) * len(trace)) // n] for trace in traces]).astype(np.float64)


def figures(draws):
    """(bulk ESS, R-hat) of draws (n_chains, n), rank-normalised.

    The ESS is 0 where it is undefined or n is below `LEAST_DRAWS`, R-hat infinite where it is undefined.
    """
    n_draws = draws.shape[1]
    ess = diagnostics.ess_bulk(draws) if n_draws >= LEAST_DRAWS and np.ptp(draws) > 0 else 0.0
    return (ess if np.isfinite(ess) else 0.0), (summaries.r_hat(draws) if n_draws >= 4 else math.inf)


def measure(record, y):
    """What is measured on a run.

    Parameters
    ----------
    record : dict
        Of `RunStore.read`.
    y : ndarray
        Of the test rows.

    Returns
    -------
    dict
        ``rate``, bulk ESS of all chains together by ALL CPU seconds of all chains, of sigma, log_likelihood,
        f_median and f_low (5 % quantile over the points); ``r_hat`` of sigma, log_likelihood, f_median and f_worst;
        ``coverage``, of each nominal level; ``log_score`` (mean of the rows); ``rmse``; ``rows``, of each test row:
        its log score and its place in the predictive law; and means of what tells where the chains are.
    """
    header, parts, test = record["header"], record["chains"], record["test"]
    about = header["chains"]
    seconds = sum(chain["cpu"] for chain in about)
    scalars = {name: figures(together([part[name] for part in parts])) for name in ("sigma", "log_likelihood")}
    f = together([part["f"] for part in parts])
    of_points = np.array([figures(f[:, :, point]) for point in range(f.shape[2])])
    ess = {name: value for name, (value, _) in scalars.items()}
    ess |= {"f_median": float(np.median(of_points[:, 0])), "f_low": float(np.quantile(of_points[:, 0], 0.05))}
    r_hat = {name: value for name, (_, value) in scalars.items()}
    r_hat |= {"f_median": float(np.median(of_points[:, 1])), "f_worst": float(of_points[:, 1].max())}
    inside = np.abs(test["pit"] - 0.5)
    return {
        "rate": {name: value / seconds for name, value in ess.items()},
        "ess": ess,
        "r_hat": r_hat,
        "coverage": [float(np.mean(inside <= 0.5 * level)) for level in NOMINAL],
        "log_score": float(np.mean(test["log_score"])),
        "rmse": float(np.sqrt(np.mean((test["mean"] - y) ** 2))),
        "rows": {"log_score": test["log_score"], "inside": inside},
        "test": header["test"],
        "n_sweeps": float(np.mean([chain["n_burn"] + chain["n_sweeps"] for chain in about])),
        "n_records": f.shape[1],
        "seconds": seconds,
        "level": float(np.mean([part["log_likelihood"].mean() for part in parts])),
        "mean_sigma": float(np.mean([part["sigma"].mean() for part in parts])),
        "mean_leaves": float(np.mean([chain["mean_leaves"] for chain in about])),
        "busy": sum(chain["kept_cpu"] for chain in about) / sum(chain["wall"] for chain in about),
        "us_per_pass": float(np.mean(header["us_per_pass"])),
        "kernels": header["kernels"],
    }


def _centre(measured, name):
    """Geometric mean over the seeds of the rate of a quantity."""
    rates = [max(one["rate"][name], LEAST_ESS / one["seconds"]) for one in measured]
    return float(np.exp(np.mean(np.log(rates))))


def compare(found, target, seed=1):
    """A system's rates by those of the best peer, with 90 % bootstrap intervals over the seeds.

    Parameters
    ----------
    found : dict
        From (problem, system) to the measures of its seeds, a dict by seed.
    target : str
        The system.

    Returns
    -------
    dict or None
        By quantity: ``ratios``, of each problem (ratio, low, high, best peer); ``seeds``, of each problem those that
        all its systems have; ``median`` (ratio, low, high) over the problems, of the seeds that all of them have, and
        ``n_seeds``, how many; None where there are none. None altogether where the target or all peers are missing.

    Notes
    -----
    A resample draws seeds with replacement, the same ones for all systems, and for all problems of a median; rates are
    geometric means over its seeds, and the best peer is found anew.
    """
    peers = {problem: [s for p, s in found if p == problem and s in PEER_SYSTEMS] for problem, _ in found}
    seeds = {
        problem: sorted(set.intersection(*(set(found[problem, system]) for system in (target, *peers[problem]))))
        for problem in peers if (problem, target) in found and peers[problem]
    }  # fmt: skip
    seeds = {problem: shared for problem, shared in seeds.items() if shared}
    if not seeds:
        return None
    common = sorted(set.intersection(*map(set, seeds.values())))
    result = {}
    for name in RATES:
        ratios, medians = {}, []
        for problem, shared in seeds.items():
            values, best = _ratios(found, problem, target, peers[problem], name, _resamples(shared, seed))
            ratios[problem] = (*_interval(values), best)
            if common and shared != common:
                values, _ = _ratios(found, problem, target, peers[problem], name, _resamples(common, seed))
            medians.append(values)
        median = _interval(np.median(medians, axis=0)) if common else None
        result[name] = {"ratios": ratios, "seeds": seeds, "median": median, "n_seeds": len(common)}
    return result


def _resamples(seeds, seed):
    """The seeds, then resamples of them; none of a single one."""
    rng = np.random.Generator(np.random.PCG64DXSM(seed))
    return [seeds, *(list(rng.choice(seeds, len(seeds))) for _ in range(N_BOOTSTRAP if len(seeds) > 1 else 0))]


def _ratios(found, problem, target, peers, name, draws):
    """The rate of a system by that of the best peer for each draw of seeds, and the best peer of the first draw."""
    ratios, best = [], []
    for draw in draws:
        rates = {s: _centre([found[problem, s][one] for one in draw], name) for s in (target, *peers)}
        best.append(max(peers, key=rates.get))
        ratios.append(rates[target] / rates[best[-1]])
    return np.array(ratios), best[0]


def _interval(values):
    """The value of all seeds, and the 5 and 95 % quantiles of the resamples."""
    more = values[1:] if len(values) > 1 else values
    return float(values[0]), float(np.quantile(more, 0.05)), float(np.quantile(more, 0.95))


def held_out(found, target):
    """`held_out_differences` of a system to all others on the same problems.

    Parameters
    ----------
    found : dict
        As in `compare`.
    target : str
        The system.

    Returns
    -------
    dict
        By problem and system, where both have a seed.
    """
    differences = {}
    for (problem, system), theirs in found.items():
        ours = found.get((problem, target), {})
        if system != target and set(ours) & set(theirs):
            differences.setdefault(problem, {})[system] = held_out_differences(ours, theirs)
    return differences


def held_out_differences(ours, theirs):
    """Log score and coverage errors of a system less those of another on the same test rows, with standard errors.

    Parameters
    ----------
    ours, theirs : dict
        Measures by seed. Seeds with the same test set are averaged row by row first.

    Returns
    -------
    dict
        ``log_score`` and, by nominal level, ``coverage``: (difference, standard error).
    """
    sets = {}
    for seed in sorted(set(ours) & set(theirs)):
        sets.setdefault(ours[seed]["test"], []).append(seed)

    def rows(of, quantity):
        """A quantity of each test row, the mean over the seeds that share it."""
        parts = [np.mean([quantity(of[seed]["rows"]) for seed in group], axis=0) for group in sets.values()]
        return np.concatenate(parts)

    score = rows(ours, lambda x: x["log_score"]) - rows(theirs, lambda x: x["log_score"])
    result = {"log_score": _mean_and_error(score), "coverage": []}
    for level in NOMINAL:
        parts = [rows(of, lambda x, level=level: x["inside"] <= 0.5 * level) for of in (ours, theirs)]
        errors = [abs(part.mean() - level) for part in parts]
        signed = [np.sign(part.mean() - level) * part for part in parts]
        result["coverage"].append((errors[0] - errors[1], _mean_and_error(signed[0] - signed[1])[1]))
    return result


def _mean_and_error(values):
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))
