"""Tables of our own: what each choice of particle Gibbs does, one at a time."""

import functools
from dataclasses import replace

from bart.chain import START_KINDS

from . import hypercube, paper
from .chains import ChainSpec
from .command import run_script
from .report import DEFINITIONS, Table, rows_with_rules, write_report
from .row_cells import is_converged, level
from .settings import AUTHORS, PAPER
from .summaries import measure, number, summarise

__all__ = ["NAME", "make", "specs", "studies"]

NAME = "ablations"
FRIEDMAN = "friedman-500-10"

_COLUMNS = [
    ("", "settings"), ("", "data"), ("", "sampler"), ("ESS", "median"), ("bulk ESS", "lik"), ("bulk", "f"),
    ("level - ref.", "(s.e.)"), ("", "leaves"), ("R-hat", "lik"), ("R-hat", "f"),
    ("chg %", "tree"), ("row vis.", "a sweep"), ("ms a", "sweep"), ("", "conv."),
]  # fmt: skip


_NOTE = (
    "ESS: coda's, of the log-likelihood of one chain. Bulk ESS: of all chains of a data set together; of f the worst"
    " of 24 test points. R-hat: across the chains of a data set; all three the median of the data sets. Level: mean"
    " log-likelihood less that of chains started at the true tree under the same settings; its standard error from the"
    " means of the data sets, 0 where there is one. Rows that differ by less than a few standard errors"
    " are not distinguished by these runs. conv.: data sets without an R-hat above 1.05."
)


def studies(profile):
    """The studies: title, samplers, and the settings that are compared, by label.

    Returns
    -------
    list of (str, tuple of str, dict of Settings)
    """
    steps = {
        "paper": PAPER,
        "noise shape nu": replace(PAPER, noise_shape=AUTHORS.noise_shape),
        "midpoints": replace(PAPER, threshold=AUTHORS.threshold),
        "random tree order": replace(PAPER, tree_order=AUTHORS.tree_order),
        "noise-free labels": replace(PAPER, label_noise=AUTHORS.label_noise),
        "bookkeeping": replace(PAPER, bookkeeping=AUTHORS.bookkeeping),
        "sigma_hat by ols": replace(PAPER, sigma_hat="ols"),
        "authors (all but ols)": AUTHORS,
    }
    particles = {f"C = {count}": replace(PAPER, n_particles=count) for count in profile.ablation_particles}
    schemes = {}
    for scheme in ("multinomial", "systematic", "killing"):
        schemes[f"{scheme}, always"] = replace(PAPER, resampling=scheme)
        schemes[f"{scheme}, ESS < C/2"] = replace(PAPER, resampling=scheme, ess_threshold=0.5)
    schemes["never"] = replace(PAPER, ess_threshold=0.0)
    final = {
        "plain": PAPER,
        "forced": replace(PAPER, final="forced"),
        "forced, ESS < C/2": replace(PAPER, final="forced", ess_threshold=0.5),
        "forced, C = 2": replace(PAPER, final="forced", n_particles=2),
    }
    return [
        ("Ablation 1. From the paper's settings to the authors', one difference at a time.", paper.SAMPLERS, steps),
        ("Ablation 2. Number of particles.", ("pg",), particles),
        ("Ablation 3. Resampling scheme and when to resample.", ("pg",), schemes),
        ("Ablation 4. Final index drawn by weight, or by a forced move.", ("pg",), final),
    ]


def _problems(profile, settings):
    """Names of the problems of a study; on Friedman's function labels and one tree's order mean nothing."""
    cubes = [f"hypercube-{dim}" for dim in profile.ablation_dims]
    if settings.label_noise != PAPER.label_noise and settings.name != AUTHORS.name:
        return cubes
    if settings.tree_order != PAPER.tree_order and settings.name != AUTHORS.name:
        return [FRIEDMAN]
    return [*cubes, FRIEDMAN]


def _chain_specs(profile, settings, problem, seed, sampler):
    if problem != FRIEDMAN:
        return hypercube.sampler_specs(settings, profile, int(problem.split("-")[1]), seed, sampler)
    return [
        ChainSpec(problem, seed, settings, sampler, start, number, profile.ablation_sweeps, profile.ablation_burn)
        for number, start in enumerate(START_KINDS)
    ]


def _seeds(profile, problem):
    """Data seeds: on Friedman's function half of them, as 200 trees take longer."""
    seeds = profile.ablation_seeds
    return seeds[: max(1, len(seeds) // 2)] if problem == FRIEDMAN else seeds


def _rows(profile):
    """Every row of every study: its number, label, settings, problem and sampler, without repeats."""
    for study, (_, samplers, variants) in enumerate(studies(profile)):
        for label, settings in variants.items():
            for problem in _problems(profile, settings):
                for sampler in samplers if problem != FRIEDMAN else ("pg",):
                    yield study, label, settings, problem, sampler


def specs(settings, profile):
    """All chains; `settings` does not matter, as a study names its own."""
    found = []
    for _, _, variant, problem, sampler in _rows(profile):
        for seed in _seeds(profile, problem):
            found += _chain_specs(profile, variant, problem, seed, sampler)
            if problem != FRIEDMAN:
                found += hypercube.reference_specs(variant, profile, int(problem.split("-")[1]), seed)
    return found


def make(store, settings, profile, folder="figures"):
    """Write the tables from stored chains and return their text."""
    records = [
        {"study": study, "settings": label, **_measured(store, profile, variant, problem, sampler)}
        for study, label, variant, problem, sampler in _rows(profile)
    ]
    tables = []
    for study, (title, _, _) in enumerate(studies(profile)):
        groups = []
        for problem in dict.fromkeys(record["problem"] for record in records if record["study"] == study):
            of_problem = [record for record in records if record["study"] == study and record["problem"] == problem]
            for sampler in dict.fromkeys(record["sampler"] for record in of_problem):
                groups.append([record for record in of_problem if record["sampler"] == sampler])
        tables.append(Table(title, _COLUMNS, rows_with_rules(groups, _cells), [], n_left=3))
    tables[-1].notes += [_NOTE, DEFINITIONS["visits"]]
    tables[-1].notes.append(
        "Settings: those of each row as named, the others those of the paper."
        f" Runs: hypercubes as in table 1 on {len(profile.ablation_seeds)} data set(s); Friedman: Friedman's function,"
        f" 500 rows, 10 features, noise sd 1, m = {PAPER.real_trees}, {profile.ablation_sweeps} sweeps, the last"
        f" {profile.ablation_sweeps - profile.ablation_burn} kept, on {len(_seeds(profile, FRIEDMAN))} data set(s); a"
        " chain from each kind of start. The order of the trees is an ablation where there are several, noise-free"
        " labels where the paper adds noise."
    )
    return write_report(folder, NAME, tables, records, store, PAPER, profile)


@functools.cache
def _measured(store, profile, variant, problem, sampler):
    measures, references = [], []
    for seed in _seeds(profile, problem):
        chosen = _chain_specs(profile, variant, problem, seed, sampler)
        data = chosen[0].load()
        measures.append(measure(store.read_all(chosen), data.y_train, data.y_test))
        if problem != FRIEDMAN:
            truth = hypercube.reference_specs(variant, profile, int(problem.split("-")[1]), seed)
            references.append(hypercube.reference(store.read_all(truth)))
    return {"problem": problem, "sampler": sampler, **summarise(measures, references or None)}


def _cells(record):
    return [
        record["settings"],
        record["problem"].replace("hypercube-", "D = ").replace(FRIEDMAN, "Friedman"),
        paper.SAMPLER_NAMES[record["sampler"]],
        number(record["ess_median"]),
        *(number(record[f"bulk_{name}_median"], 2) for name in ("log_likelihood", "f")),
        f"{level(record['gap'])} ({record['gap_se']:.0f})" if "gap" in record else "-",
        number(record["n_leaves"]),
        *(f"{record[f'r_hat_{name}_median']:.2f}" for name in ("log_likelihood", "f")),
        f"{100 * record['tree_changed']:.1f}",
        f"{record['row_visits']:.0f}",
        number(record["ms_per_sweep"]),
        is_converged(record),
    ]


if __name__ == "__main__":
    run_script(NAME, specs, make, __doc__)
