"""What the paper says in words, checked on the chains of tables 1 and 4."""

import numpy as np

from . import hypercube, paper, real
from .chains import PRIOR, ChainSpec
from .command import run_script
from .report import DEFINITIONS, Table, rows_with_rules, write_report
from .row_cells import head, is_converged
from .summaries import LOW_SD, number

__all__ = ["NAME", "expected_leaves", "first_arrival", "make", "prior_specs", "specs"]

NAME = "claims"
PRIOR_DRAWS = 2000

_REAL_COLUMNS = [
    ("", "data"), ("", "sampler"), ("train MSE", "draw"), ("train MSE", "mean"), ("test MSE", "draw"),
    ("test MSE", "mean"), ("test MSE", "/ best"), ("var", "of y"), ("", "leaves"), ("leaves", "a tree"), ("", "depth"),
    ("", "sigma"), ("", "conv."),
]  # fmt: skip
_CUBE_COLUMNS = [
    ("", "data"), ("", "sampler"), ("arrive,", "from empty"), ("sweep,", "median"), ("arrive,", "all starts"),
    ("sweep,", "median"), ("", "leaves"), ("leaves of", "reference"), ("train MSE", "draw"), ("test MSE", "draw"),
    ("test MSE", "mean"), ("from", "empty"), ("from", "smc"), ("var", "of y"),
]  # fmt: skip
_PRIOR_COLUMNS = [
    ("", "data"), ("", "beta"), ("", "2^D"), ("E[leaves],", "no data"), ("", "/ 2^D"), ("E[leaves],", "with data"),
    ("standard", "error"), ("", "/ 2^D"), ("standard", "deviation"), ("", "5 %"), ("", "95 %"),
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
    """Write the tables from stored chains and return their text."""
    cubes = [_cube_records(store, settings, profile, group) for group in hypercube.rows(store, settings, profile)]
    groups = [_real_records(store, settings, profile, group) for group in real.rows(store, settings, profile)
              if group[0]["available"]]  # fmt: skip
    priors = [_prior_record(store.read_all(prior_specs(settings, profile, dim)), dim) for dim in profile.dims]
    tables = [
        Table(
            "Claims on the hypercubes: PG converges much faster in leaves and test MSE; GrowPrune overestimates the"
            " number of leaves, with a low training MSE.",
            _CUBE_COLUMNS,
            rows_with_rules(cubes, _cube_cells),
            [
                "Arrive: chains whose log-likelihood comes within 3 sd of the reference level in any sweep, burn-in"
                " included, those from the empty tree and all, and the median of the sweeps in which they first do."
                " Leaves of reference: of the chains started at the true tree.",
                DEFINITIONS["errors"],
            ],
        ),
        Table(
            "Claims on real data: the samplers' mean squared errors are very similar, their numbers of leaves small and"
            " very similar.",
            _REAL_COLUMNS,
            rows_with_rules(groups, _real_cells),
            [
                "/ best: a sampler's MSE of the posterior mean over the smallest of the three, median of the training"
                " sets. The paper compares with errors printed by Johnson & Zhang (2011), which are not at hand.",
                "conv.: on how many training sets no R-hat of table 4 exceeds 1.05.",
            ],
        ),
        Table(
            "Claim: beta is such that the prior of hypercube-D expects roughly 2^D leaves.",
            _PRIOR_COLUMNS,
            [_prior_cells(record) for record in priors],
            [
                "No data: the expectation where every node can be split, E_d = 1 - p_d + 2 p_d E_(d+1). With data,"
                f" where a node with one row cannot: {PRIOR_DRAWS} draws of a tree from its prior on each of"
                f" {len(profile.data_seeds[:3])} data set(s)."
            ],
            n_left=1,
        ),
    ]
    records = [record for group in [*cubes, *groups] for record in group]
    return write_report(folder, NAME, tables, records + priors, store, settings, profile)


def first_arrival(trace, limit):
    """The first sweep, from 1, in which a trace is not below a limit; None where there is none."""
    reached = np.flatnonzero(np.asarray(trace) >= limit)
    return int(reached[0]) + 1 if len(reached) else None


def _cube_records(store, settings, profile, group):
    """The rows of one dimension with arrivals at the reference level and the leaves of the reference chains."""
    records = []
    for record in group:
        arrivals, is_empty, leaves = [], [], []
        for seed in profile.data_seeds:
            truth = hypercube.measured(store, settings, profile, record["dim"], seed)[1]
            leaves.append(truth["leaves"])
            limit = truth["level"] - LOW_SD * truth["sd"]
            chosen = hypercube.sampler_specs(settings, profile, record["dim"], seed, record["sampler"])
            for chain in store.read_all(chosen):
                arrivals.append(first_arrival(chain.traces["log_likelihood"], limit))
                is_empty.append(chain.spec.start == "empty")
        from_empty = [sweep for sweep, counts in zip(arrivals, is_empty, strict=True) if counts]
        record = {**record, "reference_leaves": float(np.mean(leaves))}
        for name, sweeps in (("all", arrivals), ("empty", from_empty)):
            found = [sweep for sweep in sweeps if sweep is not None]
            record[f"n_{name}"], record[f"n_arrived_{name}"] = len(sweeps), len(found)
            record[f"arrival_{name}"] = float(np.median(found)) if found else None
        records.append(record)
    return records


def _cube_cells(record):
    cells = head(record)
    for name in ("empty", "all"):
        arrival = record[f"arrival_{name}"]
        cells.append(f"{record[f'n_arrived_{name}']} of {record[f'n_{name}']}")
        cells.append("-" if arrival is None else f"{arrival:.0f}")
    names = ("n_leaves", "reference_leaves", "train_mse", "test_mse", "test_mse_mean", "test_mse_mean_empty",
             "test_mse_mean_smc", "var_y")  # fmt: skip
    return cells + [number(record[name]) for name in names]


def _real_records(store, settings, profile, group):
    """The rows of one data set with leaves a tree, and errors over the best sampler's on each training set."""
    name = group[0]["problem"]
    errors = np.array([
        [np.mean(real.measured(store, settings, profile, name, split, sampler)["test_mse_mean"])
         for sampler in paper.SAMPLERS]
        for split in profile.real_splits
    ])  # fmt: skip
    ratios = np.median(errors / errors.min(axis=1, keepdims=True), axis=0)
    return [
        {**record, "test_mse_ratio": float(ratio), "leaves_per_tree": record["n_leaves"] / settings.real_trees}
        for record, ratio in zip(group, ratios, strict=True)
    ]


def _real_cells(record):
    names = (
        "train_mse", "train_mse_mean", "test_mse", "test_mse_mean", "test_mse_ratio", "var_y", "n_leaves",
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
        "prior_leaves_se": float(np.std([chain.traces["n_leaves"].mean() for chain in chains], ddof=1)
                                 / np.sqrt(len(chains))) if len(chains) > 1 else None,  # fmt: skip
        "prior_leaves_sd": float(leaves.std(ddof=1)),
        "prior_leaves_low": float(np.quantile(leaves, 0.05)),
        "prior_leaves_high": float(np.quantile(leaves, 0.95)),
        "prior_leaves_unbounded": expected_leaves(chains[0].spec.settings.alpha, beta),
    }


def _prior_cells(record):
    cells = [record["problem"], f"{record['beta']:g}", str(record["vertices"])]
    cells += [number(record["prior_leaves_unbounded"]), number(record["prior_leaves_unbounded"] / record["vertices"])]
    cells += [number(record["prior_leaves"]), number(record["prior_leaves_se"], 2)]
    cells.append(number(record["prior_leaves"] / record["vertices"]))
    return cells + [number(record[f"prior_leaves_{name}"]) for name in ("sd", "low", "high")]


if __name__ == "__main__":
    run_script(NAME, specs, make, __doc__)
