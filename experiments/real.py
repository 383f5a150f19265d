"""The chains on real data that tables 3, 4 and 5 share."""

import functools

from bart.chain import START_KINDS

from . import paper, real_data
from .chains import ChainSpec
from .summaries import by_chain, measure, summarise

__all__ = ["EMBEDDED", "chain_records", "data_sets", "describe", "measured", "rows", "sampler_specs", "specs"]

EMBEDDED = "diabetes"


def data_sets():
    """Names of the sets in the tables: the paper's, then the stand-ins that are at hand, then the embedded one."""
    stand_ins = [name for name in (*real_data.STAND_INS, EMBEDDED) if real_data.available(name)]
    return [*paper.REAL_SHAPES, *stand_ins]


def sampler_specs(settings, profile, name, split, sampler):
    """Chains of a sampler on one training set, the kinds of start taken in turn."""
    return [
        ChainSpec(
            name, split, settings, sampler, START_KINDS[number % len(START_KINDS)], number, profile.real_sweeps,
            profile.real_burn,
        )
        for number in range(profile.real_chains)
    ]  # fmt: skip


def specs(settings, profile):
    """All chains of tables 4 and 5."""
    return [
        spec
        for name in data_sets()
        if real_data.available(name)
        for split in profile.real_splits
        for sampler in paper.SAMPLERS
        for spec in sampler_specs(settings, profile, name, split, sampler)
    ]


@functools.cache
def rows(store, settings, profile):
    """A record for each data set and sampler over all training sets, with the paper's numbers beside.

    Returns
    -------
    list of list of dict
        A group a data set; where the data are not at hand its records hold the paper's numbers alone.
    """
    groups = []
    for name in data_sets():
        group = []
        for sampler in paper.SAMPLERS:
            record = {
                "problem": name,
                "sampler": sampler,
                "available": bool(real_data.available(name)),
                **paper.columns(paper.REAL_ESS, paper.REAL_ESS_PER_SECOND, name, sampler),
            }
            if record["available"]:
                record.update(summarise([measured(store, settings, profile, name, split, sampler)
                                        for split in profile.real_splits]))  # fmt: skip
            group.append(record)
        groups.append(group)
    return groups


@functools.cache
def measured(store, settings, profile, name, split, sampler):
    """A sampler's `summaries.measure` on one training set."""
    chosen = sampler_specs(settings, profile, name, split, sampler)
    problem = chosen[0].load()
    return measure(store.read_all(chosen), problem.y_train, problem.y_test)


def chain_records(store, settings, profile):
    """A flat record for each chain of table 4, for a file."""
    return [
        record
        for name in data_sets()
        if real_data.available(name)
        for split in profile.real_splits
        for sampler in paper.SAMPLERS
        for record in by_chain(
            measured(store, settings, profile, name, split, sampler), problem=name, data_seed=split, sampler=sampler
        )
    ]


def describe(settings, profile):
    """Effort and model, for the notes of a table."""
    kept = profile.real_sweeps - profile.real_burn
    return (
        f"Runs: {len(profile.real_splits)} training set(s), {profile.real_chains} chains a sampler and training set,"
        f" {profile.real_sweeps} sweeps, the last {kept} kept. Model: m = {settings.real_trees}, alpha"
        f" {settings.alpha:g}, beta {settings.real_beta:g}, {settings.describe()}. The data sets below the paper's"
        " three are stand-ins of our own, for which the paper has no numbers; table 3 says what each is."
    )
