"""Tables 4 and 5 of the paper: ESS and ESS per second of the three samplers on real data."""

from . import paper
from .chains import Job, run_jobs
from .command import parse, rows_with_rules
from .problems import real_problem
from .report import DEFINITIONS, Table, provenance, write_report
from .summaries import ess_cells, ess_columns, fit_cells, fit_columns, rate_cells, rate_columns, summarise

__all__ = ["make", "main"]

STEM = "tables_4_5"


def make(settings, profile, folder="figures", n_workers=None, download=False):
    """Run everything, write the files and return the text.

    Parameters
    ----------
    settings : Settings
    profile : Profile
    folder : str
    n_workers : int, optional
    download : bool
        Fetch CaliforniaHouses where ``PGBART_DATA`` is not set.

    Returns
    -------
    str
    """
    problem = real_problem(profile.real_splits[0], download)
    jobs = [
        Job(
            "real",
            0,
            split,
            sampler,
            settings,
            profile.real_chains,
            profile.real_sweeps,
            profile.real_burn,
            every=profile.real_every,
            download=download,
        )
        for split in profile.real_splits
        for sampler in paper.SAMPLERS
    ]
    rows = run_jobs(jobs, n_workers, label="tables 4 and 5")
    group = [
        summarise(
            [row for row in rows if row["sampler"] == sampler],
            None,
            paper.REAL_ESS.get(problem.name, {}).get(sampler),
            paper.REAL_ESS_PER_SECOND.get(problem.name, {}).get(sampler),
        )
        for sampler in paper.SAMPLERS
    ]
    tables = _tables(group, settings, profile, problem)
    origin = provenance(settings, profile, data=problem.note)
    return write_report(folder, STEM, tables, group, rows, origin)


def _tables(group, settings, profile, problem):
    kept = profile.real_sweeps - profile.real_burn
    rows = f"{len(problem.y_train)} training and {len(problem.y_test)} test rows"
    what = (
        f"{problem.name} ({problem.note}): {rows}, {problem.n_dims} features, {len(profile.real_splits)}"
        " training set(s)"
    )
    model = (
        f"Model: m = {settings.real_trees}, alpha {settings.alpha:g}, beta {settings.real_beta:g},"
        f" k = {settings.k:g}, nu = {settings.nu:g}, q = {settings.q:g}, sigma_hat by '{settings.sigma_hat}';"
        f" PG: {settings.n_particles} particles, {settings.resampling} resampling after every stage."
    )
    if problem.name not in paper.REAL_ESS:
        model += (
            " The paper has no numbers for these data; set PGBART_DATA or use --download to have its own."
        )
    texts = DEFINITIONS
    return [
        Table(
            f"Table 4. Effective sample size of the log-likelihood. {what}; {profile.real_sweeps} sweeps,"
            f" the last {kept} kept, {profile.real_chains} chains each.",
            ess_columns(False),
            rows_with_rules([group], ess_cells),
            [texts[key] for key in ("ess", "r_hat", "changed", "starts")] + [model],
        ),
        Table(
            "Table 5. Effective sample size per second, same runs.",
            rate_columns(),
            rows_with_rules([group], rate_cells),
            [texts["seconds"]],
        ),
        Table(
            "Fit, same runs.",
            fit_columns(),
            rows_with_rules([group], fit_cells),
            [texts["errors"] + f" Errors come from one kept draw in {profile.real_every}."],
        ),
    ]


def main(arguments=None):
    """Command line: ``python -m experiments.tables_4_5 --quick``."""
    options = parse(arguments, __doc__)
    print(make(options.settings, options.profile, options.out, options.workers, options.download))


if __name__ == "__main__":
    main()
