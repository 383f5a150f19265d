"""From stored chains to the numbers of a table row. Definitions are in `report.DEFINITIONS`."""

import math

import numpy as np

from bart import diagnostics

__all__ = ["R_HAT_LIMIT", "converged", "measure", "number", "r_hat", "summarise"]

R_HAT_LIMIT = 1.05
QUANTITIES = ("log_likelihood", "sigma", "n_leaves", "f")
_BY_CHAIN = ("ess", "ess_per_second", "run_cpu_seconds", "run_wall_seconds", "ms_per_sweep")
_MEANS = ("sigma", "tree_changed", "root_changed", "n_leaves", "depth", "row_visits")


def r_hat(draws):
    """Rank-normalised R-hat; 1 where all draws of all chains are equal, infinite where it is undefined.

    Parameters
    ----------
    draws : ndarray, shape (n_chains, n_draws)
    """
    if np.ptp(draws) == 0.0:
        return 1.0
    value = float(diagnostics.split_rhat(draws))
    return value if np.isfinite(value) else math.inf


def bulk_ess(draws):
    """Rank-normalised bulk ESS of all chains together; 0 where it is undefined."""
    value = float(diagnostics.ess_bulk(draws)) if np.ptp(draws) > 0.0 else 0.0
    return value if np.isfinite(value) else 0.0


def measure(chains, y_train, y_test):
    """What is measured on the chains of one sampler on one data set.

    Parameters
    ----------
    chains : list of StoredChain
        From different starts, equally long.
    y_train, y_test : ndarray, shape (n,)
        Labels with their noise.

    Returns
    -------
    dict
        Plain values; lists have one entry a chain. ``r_hat`` and ``bulk`` are by quantity, ``r_hat_rest`` is the
        largest R-hat without the chains that start over-grown.
    """
    traces = {name: np.stack([chain.kept(name) for chain in chains]) for name in chains[0].traces}
    f = np.stack([chain.f for chain in chains]).astype(float)
    ess = [diagnostics.effective_size(trace) for trace in traces["log_likelihood"]]
    seconds = traces["seconds"].sum(axis=1)
    record = {
        "starts": [chain.spec.start for chain in chains],
        "ess": [float(value) for value in ess],
        "ess_per_second": [float(value) for value in np.divide(ess, np.maximum(seconds, 1e-9))],
        "level": traces["log_likelihood"].mean(axis=1).tolist(),
        "run_cpu_seconds": [chain.header["cpu_seconds"] for chain in chains],
        "run_wall_seconds": [chain.header["wall_seconds"] for chain in chains],
        "ms_per_sweep": (1e3 * traces["seconds"].mean(axis=1)).tolist(),
        "train_mse_draw": float(traces["train_mse"].mean()),
        "test_mse_draw": float(traces["test_mse"].mean()),
        "train_mse_mean": _mean_error([chain.train_fit for chain in chains], y_train),
        "test_mse_mean": _mean_error([chain.test_fit for chain in chains], y_test),
        "var_y": float(np.var(y_train)),
    }
    for name in _MEANS:
        record[name] = traces[name].mean(axis=1).tolist()
    record["r_hat"] = _r_hats(traces, f)
    record["bulk"] = {name: bulk_ess(traces[name]) for name in QUANTITIES if name != "f"}
    record["bulk"]["f"] = float(np.median([bulk_ess(f[:, :, point]) for point in range(f.shape[2])]))
    rest = [place for place, start in enumerate(record["starts"]) if start != "overgrown"]
    without = _r_hats({name: trace[rest] for name, trace in traces.items()}, f[rest])
    record["r_hat_rest"] = max(without.values())
    return record


def _r_hats(traces, f):
    """R-hat of each quantity; of f the largest over the points."""
    found = {name: r_hat(traces[name]) for name in QUANTITIES if name != "f"}
    return {**found, "f": max(r_hat(f[:, :, point]) for point in range(f.shape[2]))}


def _mean_error(fits, y):
    """Mean squared error of the posterior mean of all chains together."""
    return float(np.mean((np.mean(fits, axis=0) - y) ** 2))


def converged(measured):
    """Whether no R-hat of a data set exceeds the limit."""
    return max(measured["r_hat"].values()) <= R_HAT_LIMIT


def summarise(measured, references=None):
    """Numbers of one row: one sampler on several data sets of a kind.

    Parameters
    ----------
    measured : list of dict
        From `measure`, one a data set.
    references : list of float, optional
        The reference level of each data set.

    Returns
    -------
    dict
        Flat and plain.
    """
    everything = {name: np.concatenate([data_set[name] for data_set in measured]) for name in (*_BY_CHAIN, *_MEANS)}
    starts = np.concatenate([data_set["starts"] for data_set in measured])
    record = {
        "n_data_sets": len(measured),
        "n_chains": len(measured[0]["ess"]),
        "ess": float(np.mean(everything["ess"])),
        "ess_min": float(np.min(everything["ess"])),
        "ess_max": float(np.max(everything["ess"])),
        "n_converged": sum(converged(data_set) for data_set in measured),
        "n_rest_converged": sum(data_set["r_hat_rest"] <= R_HAT_LIMIT for data_set in measured),
        "n_likelihood_converged": sum(data_set["r_hat"]["log_likelihood"] <= R_HAT_LIMIT for data_set in measured),
    }
    record.update(_by_start("ess", everything["ess"], starts))
    record.update(_by_start("ms_per_sweep", everything["ms_per_sweep"], starts))
    for name in ("ess_per_second", "run_cpu_seconds", "run_wall_seconds", "ms_per_sweep"):
        record[name] = float(np.mean(everything[name]))
    for name in _MEANS:
        record[name] = float(np.mean(everything[name]))
    for name in ("train_mse_draw", "train_mse_mean", "test_mse_draw", "test_mse_mean", "var_y"):
        record[name] = float(np.mean([data_set[name] for data_set in measured]))
    for name in QUANTITIES:
        record[f"r_hat_{name}"] = max(data_set["r_hat"][name] for data_set in measured)
        record[f"r_hat_{name}_median"] = float(np.median([data_set["r_hat"][name] for data_set in measured]))
        record[f"bulk_{name}"] = float(np.mean([data_set["bulk"][name] for data_set in measured]))
    if references is not None:
        gaps = np.concatenate(
            [np.subtract(data_set["level"], level) for data_set, level in zip(measured, references, strict=True)]
        )
        record["reference_level"] = float(np.mean(references))
        record["gap"], record["gap_lowest"] = float(np.mean(gaps)), float(np.min(gaps))
        record.update(_by_start("gap", gaps, starts))
    return record


def _by_start(name, values, starts):
    """Means of the chains of each kind of start."""
    return {f"{name}_{start}": float(np.mean(values[starts == start])) for start in dict.fromkeys(starts.tolist())}


def number(value, digits=3):
    """A number in `digits` significant digits without an exponent where it is short, "-" for None."""
    if value is None:
        return "-"
    if not math.isfinite(value):
        return "inf" if value > 0 else str(value)
    if value == 0.0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    if -4 <= magnitude < 7:
        return f"{value:.{max(0, digits - 1 - magnitude)}f}"
    return f"{value:.{digits - 1}e}"
