"""From the jobs of one table row, over several data sets, to its numbers and cells."""

import math

import numpy as np

from .paper import SAMPLER_NAMES

__all__ = [
    "ess_cells",
    "ess_columns",
    "fit_cells",
    "fit_columns",
    "number",
    "rate_cells",
    "rate_columns",
    "summarise",
]


def summarise(jobs, references=None, paper_ess=None, paper_rate=None):
    """Numbers of one row: one sampler on several data sets of a kind.

    Parameters
    ----------
    jobs : list of dict
        From `chains.run_job`, one a data set.
    references : dict, optional
        Reference level by data seed.
    paper_ess, paper_rate : float, optional
        The paper's ESS and ESS per second.

    Returns
    -------
    dict
        Flat and plain.
    """
    ess = [value for job in jobs for value in job["ess"]]
    record = {
        "problem": jobs[0]["problem"],
        "sampler": jobs[0]["sampler"],
        "n_data_sets": len(jobs),
        "n_chains": len(jobs[0]["ess"]),
        "paper_ess": paper_ess,
        "paper_ess_per_second": paper_rate,
        "paper_run_seconds": paper_ess / paper_rate if paper_ess and paper_rate else None,
        "ess": float(np.mean(ess)),
        "ess_min": float(np.min(ess)),
        "ess_max": float(np.max(ess)),
        "ess_per_second": float(np.mean([value for job in jobs for value in job["ess_per_second"]])),
        "n_converged": sum(job["converged"] for job in jobs),
        "run_cpu_seconds": float(np.mean([value for job in jobs for value in job["cpu_seconds"]])),
        "run_wall_seconds": float(np.mean([value for job in jobs for value in job["wall_seconds"]])),
    }
    for name in ("log_likelihood", "sigma", "n_leaves", "f"):
        record[f"r_hat_{name}"] = max(job["r_hat"][name] for job in jobs)
    averaged = (
        "ess_bulk", "ess_tail", "tree_changed", "root_changed", "leaves", "leaves_per_tree", "depth",
        "ms_per_sweep", "level", "sigma", "train_mse_draw", "train_mse_mean", "test_mse_draw",
        "test_mse_mean", "var_y",
    )  # fmt: skip
    for name in averaged:
        record[name] = float(np.mean([job[name] for job in jobs]))
    if references is not None:
        gaps = [value - references[job["data_seed"]] for job in jobs for value in job["levels"]]
        record["reference_level"] = float(np.mean([references[job["data_seed"]] for job in jobs]))
        record["level_gap"] = float(np.mean(gaps))
        record["level_gap_lowest"] = float(np.min(gaps))
    return record


def is_converged(record):
    """Whether every data set of the row converged."""
    return record["n_converged"] == record["n_data_sets"]


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


def _head(record):
    return [record["problem"].replace("hypercube-", "D = "), SAMPLER_NAMES[record["sampler"]]]


def ess_columns(has_reference):
    """Header of the table of effective sample sizes."""
    columns = [
        ("", "data"), ("", "sampler"), ("ESS", "paper"), ("ESS", "here"), ("", "(min-max)"), ("bulk", "ESS"),
        ("tail", "ESS"), ("R-hat", "lik"), ("R-hat", "sigma"), ("R-hat", "lvs"), ("R-hat", "f"),
    ]  # fmt: skip
    if has_reference:
        columns += [("level", "mean"), ("level", "lowest")]
    return [*columns, ("chg %", "tree"), ("chg %", "root"), ("", "conv.")]


def ess_cells(record):
    """A row under `ess_columns`."""
    cells = _head(record) + [number(record["paper_ess"]), number(record["ess"])]
    cells.append(f"({_short(record['ess_min'])}-{_short(record['ess_max'])})")
    cells += [f"{record['ess_bulk']:.0f}", f"{record['ess_tail']:.0f}"]
    cells += [_r_hat(record[f"r_hat_{name}"]) for name in ("log_likelihood", "sigma", "n_leaves", "f")]
    if "level_gap" in record:
        cells += [f"{record['level_gap']:+.1f}", f"{record['level_gap_lowest']:+.1f}"]
    cells += [f"{100 * record['tree_changed']:.1f}", f"{100 * record['root_changed']:.1f}"]
    return [*cells, "yes" if is_converged(record) else f"{record['n_converged']} of {record['n_data_sets']}"]


def _short(value):
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


def _r_hat(value):
    return f"{value:.2f}" if value < 100 else "inf" if math.isinf(value) else f"{value:.0f}"


def rate_columns():
    """Header of the table of effective sample sizes per second."""
    return [
        ("", "data"), ("", "sampler"), ("ESS/s", "paper"), ("ESS/s", "here"), ("run, s", "paper"),
        ("run, s", "CPU"), ("run, s", "wall"), ("ms a", "sweep"),
    ]  # fmt: skip


def rate_cells(record):
    """A row under `rate_columns`: an ESS per second only where the row is converged."""
    rate = number(record["ess_per_second"])
    if not is_converged(record):
        rate = f"not converged ({record['n_converged']} of {record['n_data_sets']})"
    cells = [*_head(record), number(record["paper_ess_per_second"]), rate]
    names = ("paper_run_seconds", "run_cpu_seconds", "run_wall_seconds", "ms_per_sweep")
    return cells + [number(record[name]) for name in names]


def fit_columns():
    """Header of the table of errors and tree sizes."""
    return [
        ("", "data"), ("", "sampler"), ("train MSE", "draw"), ("train MSE", "mean"), ("test MSE", "draw"),
        ("test MSE", "mean"), ("var", "of y"), ("", "leaves"), ("leaves", "a tree"), ("", "depth"),
        ("", "sigma"),
    ]  # fmt: skip


def fit_cells(record):
    """A row under `fit_columns`."""
    names = (
        "train_mse_draw", "train_mse_mean", "test_mse_draw", "test_mse_mean", "var_y", "leaves",
        "leaves_per_tree", "depth", "sigma",
    )  # fmt: skip
    return _head(record) + [number(record[name]) for name in names]
