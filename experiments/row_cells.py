"""Cells that several tables share."""

import math

from .paper import SAMPLER_NAMES
from .summaries import QUANTITIES, number

__all__ = ["HIDDEN_COLUMNS", "head", "hidden_cells", "is_converged", "level", "rate", "short"]

HIDDEN_COLUMNS = [
    ("", "data"), ("", "sampler"), ("R-hat", "lik"), ("R-hat", "sigma"), ("R-hat", "lvs"), ("R-hat", "f"),
    ("bulk", "lik"), ("bulk", "lvs"), ("bulk", "f"), ("tail", "lik"), ("tail", "f"), ("chg %", "tree"),
    ("chg %", "root"), ("", "conv."), ("but for", "overgr."),
]  # fmt: skip


def head(record):
    """Data and sampler."""
    return [record["problem"], SAMPLER_NAMES[record["sampler"]]]


def hidden_cells(record):
    """A row under `HIDDEN_COLUMNS`."""
    cells = head(record)
    cells += [f"{_r_hat(record[f'r_hat_{name}_median'])}/{_r_hat(record[f'r_hat_{name}'])}" for name in QUANTITIES]
    cells += [f"{record[f'bulk_{name}_median']:.0f}" for name in ("log_likelihood", "n_leaves", "f")]
    cells += [f"{record[f'tail_{name}_median']:.0f}" for name in ("log_likelihood", "f")]
    cells += [f"{100 * record['tree_changed']:.1f}", f"{100 * record['root_changed']:.1f}"]
    return [*cells, is_converged(record), f"{record['n_rest_converged']} of {record['n_data_sets']}"]


def is_converged(record):
    """ "yes", or how many data sets are converged."""
    if record["n_converged"] == record["n_data_sets"]:
        return "yes"
    return f"{record['n_converged']} of {record['n_data_sets']}"


def rate(record):
    """The ESS per second of a row; in brackets, which say that it is worth nothing, unless all data sets converged."""
    text = number(record["ess_per_second"])
    return text if record["n_converged"] == record["n_data_sets"] else f"({text}) not converged"


def level(value):
    """Nats above or below the reference."""
    return f"{value:+.1f}"


def short(value):
    """An ESS in a range."""
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


def _r_hat(value):
    if value < 10:
        return f"{value:.2f}"
    return "inf" if math.isinf(value) else f"{value:.0f}"
