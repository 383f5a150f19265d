"""Figure 3 of the paper: traces of the three samplers on hypercube-4, several chains each."""

import os
import textwrap

import numpy as np

from bart.storage import atomic_file

from . import paper
from .chains import REFERENCE, Job, mse_traces, run_job, run_jobs, sample
from .command import parse
from .report import provenance, provenance_line, write_json

__all__ = ["make", "main"]

STEM = "figure_3"
DATA_SEED = 1

# Colour-blind safe (Okabe & Ito), one for each kind of start.
COLOURS = {"empty": "#0072B2", "prior": "#E69F00", "overgrown": "#009E73", "smc": "#CC79A7"}
START_LABELS = {
    "empty": "empty tree",
    "prior": "draw from the prior",
    "overgrown": "over-grown tree",
    "smc": "particle filter",
}
_MARGINS = {"left": 0.09, "right": 0.985, "top": 0.935, "bottom": 0.145, "hspace": 0.08, "wspace": 0.05}
QUANTITIES = (
    ("log_likelihood", "log-likelihood", False),
    ("n_leaves", "number of leaves", False),
    ("train_mse", "training MSE", True),
    ("test_mse", "test MSE", True),
)


def trace_job(job):
    """Traces of a job's chains over all sweeps, or the reference level.

    Returns
    -------
    dict
        ``sampler``; ``level`` for the reference, else ``starts`` and an array (n_chains, n_sweeps) a
        quantity.
    """
    if job.sampler == REFERENCE:
        return run_job(job)
    problem = job.problem()
    post = sample(job, problem, keep_burn_trees=True)
    return {
        "sampler": job.sampler,
        "starts": post.starts,
        "chain_seed": job.chain_seed,
        "log_likelihood": post.sweeps["log_likelihood"],
        "n_leaves": post.sweeps["n_leaves"],
        "train_mse": mse_traces(post, problem.X_train, problem.y_train),
        "test_mse": mse_traces(post, problem.X_test, problem.y_test),
    }


def make(settings, profile, folder="figures", n_workers=None):
    """Run the chains, draw the figure, write it with its caption and data, and return the caption.

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
    jobs = [
        Job(
            "hypercube",
            profile.figure_dim,
            DATA_SEED,
            sampler,
            settings,
            profile.n_reference if sampler == REFERENCE else profile.n_chains,
            profile.n_sweeps,
            profile.n_burn,
        )
        for sampler in (*paper.SAMPLERS, REFERENCE)
    ]
    results = {result["sampler"]: result for result in run_jobs(jobs, n_workers, trace_job, "figure 3")}
    level = results.pop(REFERENCE)["level"]
    problem = jobs[0].problem()
    origin = provenance(settings, profile, data_seed=DATA_SEED)
    caption = _caption(settings, profile, problem, level)
    os.makedirs(folder, exist_ok=True)
    figure = draw(results, profile, problem, level, caption + " " + provenance_line(origin))
    with atomic_file(os.path.join(folder, STEM + ".png")) as file:
        figure.savefig(file, format="png", dpi=200)
    text = "\n".join(textwrap.wrap(caption, 118) + textwrap.wrap(provenance_line(origin), 118)) + "\n"
    with atomic_file(os.path.join(folder, STEM + ".txt"), "w") as file:
        file.write(text)
    write_json(os.path.join(folder, STEM + ".json"), _record(results, level, profile, origin))
    return text


def _caption(settings, profile, problem, level):
    chains = f"{profile.n_chains} chains a sampler, a colour for each kind of start"
    data = f"data seed {DATA_SEED}, {len(problem.y_train)} rows, {problem.note}"
    priors = f"alpha {settings.alpha:g}, beta {problem.beta:g}, k {settings.k:g}, nu {settings.nu:g}"
    return (
        f"Figure 3. Traces against sweep on {problem.name} ({data}), one tree, {chains}. Log-likelihood in"
        " the units of y; MSE of the current draw against noisy labels, in the units of y squared. Dashed:"
        f" the reference level {level:.1f}, the mean log-likelihood of chains started at the true tree; the"
        f" {2**profile.figure_dim} leaves of the true tree; the variance of y. Grey: burn-in,"
        f" {profile.n_burn} of {profile.n_sweeps} sweeps. {priors}, q {settings.q:g}, sigma_hat"
        f" '{settings.sigma_hat}'; PG: {settings.n_particles} particles."
    )


def _record(results, level, profile, origin):
    """Means of each chain over the kept sweeps, for the JSON file."""
    chains = []
    for sampler, result in results.items():
        for number, start in enumerate(result["starts"]):
            record = {"sampler": sampler, "start": start, "chain_seed": result["chain_seed"]}
            for name, _, _ in QUANTITIES:
                record[name] = float(np.mean(result[name][number, profile.n_burn :]))
            chains.append(record)
    return {"provenance": origin, "reference_level": level, "chains": chains}


def draw(results, profile, problem, level, caption):
    """The figure: a row a quantity, a column a sampler, axes shared along a row.

    Returns
    -------
    matplotlib.figure.Figure
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 10.6))
    FigureCanvasAgg(figure)
    axes = figure.subplots(
        len(QUANTITIES), len(results), sharex=True, sharey="row", squeeze=False, gridspec_kw=_MARGINS
    )
    lines = {
        "log_likelihood": level, "n_leaves": 2**profile.figure_dim,
        "train_mse": float(np.var(problem.y_train)), "test_mse": float(np.var(problem.y_test)),
    }  # fmt: skip
    for column, (sampler, result) in enumerate(results.items()):
        axes[0, column].set_title(paper.SAMPLER_NAMES[sampler], fontsize=12)
        for row, (name, label, logarithmic) in enumerate(QUANTITIES):
            axis = axes[row, column]
            _panel(axis, result, name, profile, lines[name])
            if logarithmic:
                _plain_log_axis(axis, np.concatenate([other[name] for other in results.values()]))
            if column == 0:
                axis.set_ylabel(label, fontsize=10)
        axes[-1, column].set_xlabel("sweep", fontsize=10)
    _limit_levels(axes[0, 0], results, level)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    legend = figure.legend(
        handles, labels, loc="upper center", ncols=len(labels), frameon=False, fontsize=9.5, borderaxespad=0.2
    )
    for handle in legend.legend_handles[1:]:
        handle.set_linewidth(1.8)
    figure.align_ylabels(axes[:, 0])
    text = "\n".join(textwrap.wrap(caption, 158))
    figure.text(0.02, 0.01, text, fontsize=7.8, va="bottom", linespacing=1.35)
    return figure


def _panel(axis, result, name, profile, line):
    from matplotlib.ticker import MaxNLocator

    sweeps = np.arange(1, profile.n_sweeps + 1)
    axis.axvspan(1, profile.n_burn, color="0.94", lw=0, zorder=0)
    axis.axhline(line, color="0.15", lw=1.0, ls=(0, (5, 3)), zorder=3, label="reference (see below)")
    for number, (start, trace) in enumerate(zip(result["starts"], result[name], strict=True)):
        label = START_LABELS[start] if number == result["starts"].index(start) else None
        axis.plot(sweeps, trace, lw=0.55, alpha=0.9, color=COLOURS[start], label=label, rasterized=True)
    axis.set_xlim(1, profile.n_sweeps)
    axis.xaxis.set_major_locator(MaxNLocator(4, prune="upper"))
    axis.tick_params(which="both", labelsize=8.5, direction="in", top=True, right=True)
    axis.grid(True, which="major", color="0.88", lw=0.5)
    axis.set_axisbelow(True)


def _plain_log_axis(axis, values):
    """A logarithmic scale labelled 0.1, 1, 10, and where it spans little also 2 and 5 of each decade."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_yscale("log")
    wide = np.log10(values.max() / values.min()) > 1.7
    axis.yaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=12))
    axis.yaxis.set_minor_locator(LogLocator(subs=np.arange(2.0, 10.0), numticks=12))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())


def _limit_levels(axis, results, level):
    """Show from the lowest common level on: the first sweeps lie far below it."""
    kept = np.concatenate([result["log_likelihood"][:, 10:].ravel() for result in results.values()])
    low, high = np.quantile(kept, 0.002), max(kept.max(), level)
    axis.set_ylim(low - 0.06 * (high - low), high + 0.06 * (high - low))


def main(arguments=None):
    """Command line: ``python -m experiments.figure_3 --quick``."""
    options = parse(arguments, __doc__)
    print(make(options.settings, options.profile, options.out, options.workers))


if __name__ == "__main__":
    main()
