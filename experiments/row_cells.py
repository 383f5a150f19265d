"""Cells that several tables share."""

import math

from .paper import SAMPLER_NAMES
from .summaries import QUANTITIES, number

__all__ = ["HIDDEN_COLUMNS", "head", "hidden_cells", "is_converged", "level", "rate", "short"]

HIDDEN_COLUMNS = [
    ("", "data"), ("", "sampler"), ("R-hat", "lik"), ("R-hat", "sigma"), ("R-hat", "lvs"), ("R-hat", "f"),
    ("median", "lik"), ("median", "lvs"), ("median", "f"), ("bulk ESS", "lik"), ("bulk ESS", "lvs"),
    ("bulk ESS", "f"), ("chg %", "tree"), ("chg %", "root"), ("", "conv."),
]  # fmt: skip


def head(record):
    """Data and sampler."""
    return [record["problem"], SAMPLER_NAMES[record["sampler"]]]


def hidden_cells(record):
    """A row under `HIDDEN_COLUMNS`."""
    cells = head(record) + [_r_hat(record[f"r_hat_{name}"]) for name in QUANTITIES]
    cells += [_r_hat(record[f"r_hat_{name}_median"]) for name in ("log_likelihood", "n_leaves", "f")]
    cells += [f"{record[f'bulk_{name}']:.0f}" for name in ("log_likelihood", "n_leaves", "f")]
    cells += [f"{100 * record['tree_changed']:.1f}", f"{100 * record['root_changed']:.1f}"]
    return [*cells, is_converged(record)]


def is_converged(record):
    """ "yes", or how many data sets are converged."""
    if record["n_converged"] == record["n_data_sets"]:
        return "yes"
    return f"{record['n_converged']} of {record['n_data_sets']}"


def rate(record):
    """The ESS per second of a row, only where all its data sets are converged."""
    if record["n_converged"] == record["n_data_sets"]:
        return number(record["ess_per_second"])
    return f"not converged ({record['n_converged']} of {record['n_data_sets']})"


def level(value):
    """Nats above or below the reference."""
    return f"{value:+.1f}"


def short(value):
    """An ESS in a range."""
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


def _r_hat(value):
    return f"{value:.2f}" if value < 100 else "inf" if math.isinf(value) else f"{value:.0f}"
