"""What the paper says in words: errors and leaves are similar across samplers; the prior expects some 2^D leaves."""

import numpy as np

from . import hypercube, paper, real
from .chains import PRIOR, ChainSpec
from .command import run_script
from .report import DEFINITIONS, Table, rows_with_rules, write_report
from .row_cells import head, is_converged
from .summaries import number

__all__ = ["NAME", "make", "prior_specs", "specs"]

NAME = "claims"
PRIOR_DRAWS = 2000

_FIT_COLUMNS = [
    ("", "data"), ("", "sampler"), ("train MSE", "draw"), ("train MSE", "mean"), ("test MSE", "draw"),
    ("test MSE", "mean"), ("test MSE", "/ best"), ("var", "of y"), ("", "leaves"), ("leaves", "a tree"), ("", "depth"),
    ("", "sigma"), ("", "conv."),
]  # fmt: skip
_PRIOR_COLUMNS = [
    ("", "data"), ("", "beta"), ("", "2^D"), ("E[leaves]", "prior"), ("standard", "error"), ("standard", "deviation"),
    ("", "5 %"), ("", "95 %"), ("without", "data"), ("E[leaves]", "/ 2^D"),
]  # fmt: skip


def prior_specs(settings, profile, dim):
    """Draws of a tree from the prior of hypercube-D, on the first data sets."""
    return [
        ChainSpec(f"hypercube-{dim}", seed, settings, PRIOR, PRIOR, 0, PRIOR_DRAWS, 0)
        for seed in profile.data_seeds[:3]
    ]


def specs(settings, profile):
    """The chains of the tables 1 and 4, and the draws from the priors."""
    found = [spec for dim in profile.dims for spec in prior_specs(settings, profile, dim)]
    return [*found, *hypercube.specs(settings, profile), *real.specs(settings, profile)]


def expected_leaves(alpha, beta, max_depth=400):
    """Expected leaves of a tree under the prior where every node can be split.

    E_d = 1 - p_d + 2 p_d E_(d+1) with p_d = alpha (1 + d)^-beta, run upwards from `max_depth`; infinite where
    the expected size of a level does not fall.
    """
    p_split = alpha * (1.0 + np.arange(max_depth)) ** -beta
    if 2.0 * p_split[-1] >= 1.0:
        return float("inf")
    expected = 1.0
    for p in p_split[::-1]:
        expected = 1.0 - p + 2.0 * p * expected
    return float(expected)


def make(store, settings, profile, folder="figures"):
    """Write the tables from stored chains and return their text.

    Parameters
    ----------
    store : Store
    settings : Settings
    profile : Profile
    folder : str

    Returns
    -------
    str

    Raises
    ------
    MissingChains
    """
    cubes = hypercube.rows(store, settings, profile)
    groups = cubes + [group for group in real.rows(store, settings, profile) if group[0]["available"]]
    groups = [_with_ratio(group, 1 if group in cubes else settings.real_trees) for group in groups]
    priors = [_prior_record(store.read_all(prior_specs(settings, profile, dim)), dim) for dim in profile.dims]
    tables = [
        Table(
            "Claim: the samplers' mean squared errors are similar, their numbers of leaves small and similar.",
            _FIT_COLUMNS,
            rows_with_rules(groups, _fit_cells),
            [
                DEFINITIONS["errors"] + " / best: of the posterior mean, over the smallest of the three samplers.",
                DEFINITIONS["converged"],
                "Runs and models are those of tables 1 and 4.",
            ],
        ),
        Table(
            "Claim: the prior of hypercube-D expects roughly 2^D leaves.",
            _PRIOR_COLUMNS,
            [_prior_cells(record) for record in priors],
            [
                f"{PRIOR_DRAWS} draws of a tree from its prior on each of {len(profile.data_seeds[:3])} data sets;"
                " without data: the expectation where every node could be split, E_d = 1 - p_d + 2 p_d E_(d+1)."
            ],
            n_left=1,
        ),
    ]
    records = [record for group in groups for record in group]
    return write_report(folder, NAME, tables, records + priors, store, settings, profile)


def _with_ratio(group, n_trees):
    best = min(record["test_mse_mean"] for record in group)
    return [
        {**record, "test_mse_ratio": record["test_mse_mean"] / best, "leaves_per_tree": record["n_leaves"] / n_trees}
        for record in group
    ]


def _fit_cells(record):
    names = (
        "train_mse_draw", "train_mse_mean", "test_mse_draw", "test_mse_mean", "test_mse_ratio", "var_y", "n_leaves",
        "leaves_per_tree", "depth", "sigma",
    )  # fmt: skip
    return [*head(record), *(number(record[name]) for name in names), is_converged(record)]


def _prior_record(chains, dim):
    leaves = np.concatenate([chain.traces["n_leaves"] for chain in chains])
    beta = paper.HYPERCUBE_BETA[dim]
    return {
        "problem": f"D = {dim}",
        "sampler": PRIOR,
        "beta": beta,
        "vertices": 2**dim,
        "prior_leaves": float(leaves.mean()),
        "prior_leaves_se": float(leaves.std(ddof=1) / np.sqrt(len(leaves))),
        "prior_leaves_sd": float(leaves.std(ddof=1)),
        "prior_leaves_low": float(np.quantile(leaves, 0.05)),
        "prior_leaves_high": float(np.quantile(leaves, 0.95)),
        "prior_leaves_unbounded": expected_leaves(chains[0].spec.settings.alpha, beta),
    }


def _prior_cells(record):
    cells = [record["problem"], f"{record['beta']:g}", str(record["vertices"])]
    names = ("leaves", "leaves_se", "leaves_sd", "leaves_low", "leaves_high", "leaves_unbounded")
    cells += [number(record[f"prior_{name}"]) for name in names]
    return [*cells, number(record["prior_leaves"] / record["vertices"])]


if __name__ == "__main__":
    run_script(NAME, specs, make, __doc__)
