"""The chains on hypercube-D that tables 1 and 2, the claims and the finding share."""

import functools

import numpy as np

from bart.chain import START_KINDS

from . import paper
from .chains import TRUTH, ChainSpec
from .summaries import by_chain, measure, r_hat, summarise

__all__ = [
    "chain_records",
    "describe",
    "dimension_specs",
    "measured",
    "reference",
    "reference_specs",
    "rows",
    "sampler_specs",
    "specs",
]

_REFERENCES = (("cgm", 0), ("growprune", 0), ("cgm", 1), ("growprune", 1))


def sampler_specs(settings, profile, dim, seed, sampler):
    """A chain of a sampler from each kind of start, on one data set."""
    return [
        ChainSpec(f"hypercube-{dim}", seed, settings, sampler, start, number, profile.n_sweeps, profile.n_burn)
        for number, start in enumerate(START_KINDS)
    ]


def reference_specs(settings, profile, dim, seed):
    """Chains started at the true tree, half of them CGM, half GrowPrune: their mean is the reference level."""
    return [
        ChainSpec(f"hypercube-{dim}", seed, settings, sampler, TRUTH, number, profile.n_sweeps, profile.n_burn)
        for sampler, number in _REFERENCES
    ]


def dimension_specs(settings, profile, dim, seeds=None):
    """All chains on the data sets of one dimension, references included."""
    specs = []
    for seed in profile.data_seeds if seeds is None else seeds:
        for sampler in paper.SAMPLERS:
            specs += sampler_specs(settings, profile, dim, seed, sampler)
        specs += reference_specs(settings, profile, dim, seed)
    return specs


def specs(settings, profile):
    """All chains of tables 1 and 2."""
    return [spec for dim in profile.dims for spec in dimension_specs(settings, profile, dim)]


def reference(chains):
    """What chains started at the true tree say, kept sweeps, units of y.

    Returns
    -------
    dict
        ``level``, their mean log-likelihood, ``levels`` of each, ``sd`` within a chain (root of the mean variance),
        ``leaves``, and R-hat of the log-likelihood and of the leaves.
    """
    traces = np.stack([chain.kept("log_likelihood") for chain in chains])
    leaves = np.stack([chain.kept("n_leaves") for chain in chains])
    return {
        "level": float(traces.mean()),
        "levels": traces.mean(axis=1).tolist(),
        "sd": float(np.sqrt(traces.var(axis=1).mean())),
        "leaves": float(leaves.mean()),
        "r_hat_log_likelihood": r_hat(traces),
        "r_hat_n_leaves": r_hat(leaves),
    }


@functools.cache
def measured(store, settings, profile, dim, seed):
    """Each sampler's measures on one data set, and its reference.

    Returns
    -------
    dict, dict
        From sampler to `summaries.measure`; from `reference`.
    """
    found = {}
    for sampler in paper.SAMPLERS:
        chosen = sampler_specs(settings, profile, dim, seed, sampler)
        problem = chosen[0].load()
        found[sampler] = measure(store.read_all(chosen), problem.y_train, problem.y_test)
    return found, reference(store.read_all(reference_specs(settings, profile, dim, seed)))


@functools.cache
def rows(store, settings, profile):
    """A record for each dimension and sampler, over all data sets, with the paper's numbers beside.

    Parameters
    ----------
    store : Store
    settings : Settings
    profile : Profile

    Returns
    -------
    list of list of dict
        A group a dimension, a record a sampler.
    """
    groups = []
    for dim in profile.dims:
        data_sets = [measured(store, settings, profile, dim, seed) for seed in profile.data_seeds]
        group = []
        for sampler in paper.SAMPLERS:
            record = {
                "problem": f"D = {dim}",
                "dim": dim,
                "sampler": sampler,
                **paper.columns(paper.HYPERCUBE_ESS, paper.HYPERCUBE_ESS_PER_SECOND, dim, sampler),
            }
            of_sampler = [found[sampler] for found, _ in data_sets]
            group.append({**record, **summarise(of_sampler, [truth for _, truth in data_sets])})
        groups.append(group)
    return groups


def chain_records(store, settings, profile):
    """A flat record for each chain of table 1, for a file."""
    records = []
    for dim in profile.dims:
        for seed in profile.data_seeds:
            found, truth = measured(store, settings, profile, dim, seed)
            for sampler, one in found.items():
                columns = {"problem": f"hypercube-{dim}", "data_seed": seed, "sampler": sampler}
                shared = {"reference_level": truth["level"], "reference_sd": truth["sd"]}
                records += [{**record, **shared} for record in by_chain(one, **columns)]
    return records


def describe(settings, profile):
    """Effort and model in two sentences, for the notes of a table."""
    kept = profile.n_sweeps - profile.n_burn
    seeds = profile.data_seeds
    betas = ", ".join(f"{paper.HYPERCUBE_BETA[dim]:g}" for dim in profile.dims)
    return (
        f"Runs: {len(seeds)} data sets a dimension (data seeds {seeds[0]} to {seeds[-1]}), {len(START_KINDS)} chains a"
        f" sampler and data set, one from each kind of start, {profile.n_sweeps} sweeps, the last {kept} kept. Model:"
        f" m = 1, alpha {settings.alpha:g}, beta {betas} for D = {', '.join(map(str, profile.dims))}, label noise sd"
        f" {settings.label_noise:g}, {settings.describe()}."
    )
