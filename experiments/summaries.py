"""From stored chains to the numbers of a table row. Definitions are in `report.DEFINITIONS`."""

import math

import numpy as np

from bart import diagnostics

__all__ = ["HIGH_ESS", "LOW_SD", "R_HAT_LIMIT", "by_chain", "converged", "measure", "number", "r_hat", "summarise"]

R_HAT_LIMIT = 1.05
# A chain is low where its mean log-likelihood is so many standard deviations below the reference level.
LOW_SD = 3.0
HIGH_ESS = 100.0
QUANTITIES = ("log_likelihood", "sigma", "n_leaves", "f")
_TRACE_MEANS = ("sigma", "tree_changed", "root_changed", "n_leaves", "depth", "row_visits", "train_mse", "test_mse")
_BY_CHAIN = (
    "ess", "ess_per_second", "run_cpu_seconds", "run_wall_seconds", "ms_per_sweep", "train_mse_mean", "test_mse_mean",
    *_TRACE_MEANS,
)  # fmt: skip


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
        "seeds": [chain.header["seed"] for chain in chains],
        "ess": [float(value) for value in ess],
        "ess_per_second": [float(value) for value in np.divide(ess, np.maximum(seconds, 1e-9))],
        "level": traces["log_likelihood"].mean(axis=1).tolist(),
        "run_cpu_seconds": [chain.header["cpu_seconds"] for chain in chains],
        "run_wall_seconds": [chain.header["wall_seconds"] for chain in chains],
        "ms_per_sweep": (1e3 * traces["seconds"].mean(axis=1)).tolist(),
        "train_mse_mean": [float(np.mean((chain.train_fit - y_train) ** 2)) for chain in chains],
        "test_mse_mean": [float(np.mean((chain.test_fit - y_test) ** 2)) for chain in chains],
        "var_y": float(np.var(y_train)),
    }
    for name in _TRACE_MEANS:
        record[name] = traces[name].mean(axis=1).tolist()
    record["r_hat"] = _over_points(r_hat, max, traces, f)
    record["bulk"] = _over_points(_ess(diagnostics.ess_bulk), min, traces, f)
    record["tail"] = _over_points(_ess(diagnostics.ess_tail), min, traces, f)
    rest = [place for place, start in enumerate(record["starts"]) if start != "overgrown"]
    without = {name: trace[rest] for name, trace in traces.items()}
    record["r_hat_rest"] = max(_over_points(r_hat, max, without, f[rest]).values())
    return record


def _ess(function):
    """A rank-normalised ESS of all chains together; 0 where it is undefined."""

    def of(draws):
        value = float(function(draws)) if np.ptp(draws) > 0.0 else 0.0
        return value if np.isfinite(value) else 0.0

    return of


def _over_points(function, worst, traces, f):
    """A diagnostic of each quantity; of f the worst over the points."""
    found = {name: function(traces[name]) for name in QUANTITIES if name != "f"}
    return {**found, "f": worst(function(f[:, :, point]) for point in range(f.shape[2]))}


def converged(measured):
    """Whether no R-hat of a data set exceeds the limit."""
    return max(measured["r_hat"].values()) <= R_HAT_LIMIT


def summarise(measured, references=None):
    """Numbers of one row: one sampler on several data sets of a kind.

    Parameters
    ----------
    measured : list of dict
        From `measure`, one a data set.
    references : list of dict, optional
        Of each data set the reference ``level`` and the standard deviation ``sd`` of its log-likelihood.

    Returns
    -------
    dict
        Flat and plain. Means over all chains; R-hat and bulk ESS of the worst data set and their medians.
    """
    everything = {name: np.concatenate([data_set[name] for data_set in measured]) for name in _BY_CHAIN}
    starts = np.concatenate([data_set["starts"] for data_set in measured])
    record = {
        "n_data_sets": len(measured),
        "n_chains": len(starts),
        "n_converged": sum(converged(data_set) for data_set in measured),
        "n_rest_converged": sum(data_set["r_hat_rest"] <= R_HAT_LIMIT for data_set in measured),
        "var_y": float(np.mean([data_set["var_y"] for data_set in measured])),
    }
    for name, values in everything.items():
        record[name] = float(np.mean(values))
    for name in ("ess", "ess_per_second"):
        record[f"{name}_median"] = float(np.median(everything[name]))
        record[f"{name}_min"], record[f"{name}_max"] = map(float, (everything[name].min(), everything[name].max()))
    for name in ("ess", "ms_per_sweep", "test_mse_mean"):
        record.update(_by_start(name, everything[name], starts))
    for name in QUANTITIES:
        for kind, worst in (("r_hat", np.max), ("bulk", np.min), ("tail", np.min)):
            values = [data_set[kind][name] for data_set in measured]
            record[f"{kind}_{name}"] = float(worst(values))
            record[f"{kind}_{name}_median"] = float(np.median(values))
    if references is not None:
        record.update(_against_references(measured, references, everything["ess"], starts))
    return record


def _against_references(measured, references, ess, starts):
    """Levels less the reference, and how many chains stand low, with whatever ESS."""
    pairs = list(zip(measured, references, strict=True))
    by_data_set = [np.subtract(data_set["level"], reference["level"]) for data_set, reference in pairs]
    gaps = np.concatenate(by_data_set)
    is_low = np.concatenate(
        [found < -LOW_SD * reference["sd"] for found, reference in zip(by_data_set, references, strict=True)]
    )
    means = [np.mean(found) for found in by_data_set]
    return {
        "reference_level": float(np.mean([reference["level"] for reference in references])),
        "gap": float(np.mean(gaps)),
        "gap_lowest": float(np.min(gaps)),
        "gap_se": float(np.std(means, ddof=1) / np.sqrt(len(pairs))) if len(pairs) > 1 else 0.0,
        **_by_start("gap", gaps, starts),
        "n_low": int(np.sum(is_low)),
        "n_high": int(np.sum(ess > HIGH_ESS)),
        "n_high_and_low": int(np.sum(is_low & (ess > HIGH_ESS))),
    }


def _by_start(name, values, starts):
    """Means of the chains of each kind of start."""
    return {f"{name}_{start}": float(np.mean(values[starts == start])) for start in dict.fromkeys(starts.tolist())}


def by_chain(measured, **columns):
    """A flat record for each chain of a data set, for a file; `columns` come first."""
    names = {"start": "starts", "chain_seed": "seeds", **{name: name for name in ("level", *_BY_CHAIN)}}
    return [
        {**columns, **{name: measured[source][place] for name, source in names.items()}}
        for place in range(len(measured["starts"]))
    ]


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
