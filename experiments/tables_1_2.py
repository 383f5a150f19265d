"""Tables 1 and 2 of the paper: ESS and ESS per second of the three samplers on hypercube-D."""

from . import paper
from .chains import REFERENCE, Job, run_jobs
from .command import parse, rows_with_rules
from .report import DEFINITIONS, Table, provenance, write_report
from .summaries import ess_cells, ess_columns, fit_cells, fit_columns, rate_cells, rate_columns, summarise

__all__ = ["make", "main"]

STEM = "tables_1_2"


def jobs_of(settings, profile):
    """All jobs: three samplers and the reference chains on each data set."""
    jobs = []
    for dim in profile.dims:
        for seed in profile.data_seeds:
            for sampler in (*paper.SAMPLERS, REFERENCE):
                n_chains = profile.n_reference if sampler == REFERENCE else profile.n_chains
                job = Job(
                    "hypercube", dim, seed, sampler, settings, n_chains, profile.n_sweeps, profile.n_burn
                )
                jobs.append(job)
    return jobs


def make(settings, profile, folder="figures", n_workers=None):
    """Run everything, write the files and return the text.

    Parameters
    ----------
    settings : Settings
    profile : Profile
    folder : str
    n_workers : int, optional

    Returns
    -------
    str
    """
    rows = run_jobs(jobs_of(settings, profile), n_workers, label="tables 1 and 2")
    groups = []
    for dim in profile.dims:
        of_dim = [row for row in rows if row["size"] == dim]
        references = {row["data_seed"]: row["level"] for row in of_dim if row["sampler"] == REFERENCE}
        groups.append(
            [
                summarise(
                    [row for row in of_dim if row["sampler"] == sampler],
                    references,
                    paper.HYPERCUBE_ESS.get(dim, {}).get(sampler),
                    paper.HYPERCUBE_ESS_PER_SECOND.get(dim, {}).get(sampler),
                )
                for sampler in paper.SAMPLERS
            ]
        )
    tables = _tables(groups, settings, profile)
    records = [record for group in groups for record in group]
    return write_report(folder, STEM, tables, records, rows, provenance(settings, profile))


def _tables(groups, settings, profile):
    seeds = ", ".join(map(str, profile.data_seeds))
    effort = (
        f"{profile.n_sweeps} sweeps, the last {profile.n_sweeps - profile.n_burn} kept; {profile.n_chains}"
        f" chains on each data set (seeds {seeds})"
    )
    betas = ", ".join(f"{paper.HYPERCUBE_BETA[dim]:g} (D = {dim})" for dim in profile.dims)
    model = (
        f"m = 1, alpha {settings.alpha:g}, k = {settings.k:g}, nu = {settings.nu:g}, q = {settings.q:g},"
        f" sigma_hat by '{settings.sigma_hat}', label noise {settings.label_noise:g}, beta {betas}; PG:"
        f" {settings.n_particles} particles, {settings.resampling} resampling after every stage"
    )
    texts = DEFINITIONS
    return [
        Table(
            f"Table 1. Effective sample size of the log-likelihood on hypercube-D. {effort}.",
            ess_columns(True),
            rows_with_rules(groups, ess_cells),
            [texts[key] for key in ("ess", "r_hat", "level", "changed", "starts")] + [f"Model: {model}."],
        ),
        Table(
            "Table 2. Effective sample size per second on hypercube-D, same runs.",
            rate_columns(),
            rows_with_rules(groups, rate_cells),
            [texts["seconds"]],
        ),
        Table(
            "Fit on hypercube-D, same runs.",
            fit_columns(),
            rows_with_rules(groups, fit_cells),
            [texts["errors"]],
        ),
    ]


def main(arguments=None):
    """Command line: ``python -m experiments.tables_1_2 --quick``."""
    options = parse(arguments, __doc__)
    print(make(options.settings, options.profile, options.out, options.workers))


if __name__ == "__main__":
    main()
