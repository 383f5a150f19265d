"""The finding: a chain that is stuck has a high effective sample size, and which rows of the tables that is so for."""

from dataclasses import replace

import numpy as np

from bart import diagnostics

from . import hypercube, paper, pictures, real
from .command import run_script
from .report import Table, origin_line, origin_record, rows_with_rules, write_report
from .row_cells import head, level
from .summaries import HIGH_ESS, LOW_SD, R_HAT_LIMIT, number

__all__ = ["NAME", "frozen_settings", "make", "specs"]

NAME = "stuck"
FROZEN = "frozen"
TRACE_SEED = 1
_LABELS = {**paper.SAMPLER_NAMES, FROZEN: "tree frozen"}
_COLUMNS = [
    ("", "data"), ("", "sampler"), ("ESS", "paper"), ("ESS", "mean"), ("", "median"), ("ESS, tree", "frozen"),
    ("level -", "reference"), ("chains", "low"), ("ESS", "> 100"), ("both", ""), ("chg %", "tree"), ("R-hat", "lik"),
    ("R-hat", "f"), ("", "converged"), ("but for", "overgr."),
]  # fmt: skip
_NOTES = (
    "ESS: coda's, of the log-likelihood of one chain. ESS, tree frozen: mean of the same number for particle Gibbs"
    " with a single particle, C = 1, whose tree never changes: only leaf values and sigma are drawn, from the same"
    " starts. Level: mean log-likelihood less that of chains started at the true tree, nats. Chains low: mean"
    f" log-likelihood more than {LOW_SD:g} sd (within a reference chain) below the reference; ESS > {HIGH_ESS:g}:"
    " chains that show so much; both: chains that stand low and show it.",
    f"Converged: data sets on which no R-hat of log-likelihood, sigma, leaves and f at 24 points exceeds {R_HAT_LIMIT}"
    " across chains from different starts, and the same without the chains that start over-grown; R-hat: the median of"
    " the data sets.",
)


def frozen_settings(settings):
    """The settings of a particle Gibbs sampler that never changes its tree."""
    return replace(settings, name=FROZEN, n_particles=1)


def frozen_specs(settings, profile):
    """Chains with a frozen tree, as many as those of particle Gibbs in table 1."""
    return [
        spec
        for dim in profile.dims
        for seed in profile.data_seeds
        for spec in hypercube.sampler_specs(frozen_settings(settings), profile, dim, seed, "pg")
    ]


def specs(settings, profile):
    """The chains of tables 1 and 4, and those with a frozen tree."""
    return [*hypercube.specs(settings, profile), *frozen_specs(settings, profile), *real.specs(settings, profile)]


def make(store, settings, profile, folder="figures"):
    """Write the table and the figure from stored chains and return the text of both."""
    points = {dim: _points(store, settings, profile, dim) for dim in profile.dims}
    cubes = [
        [{**record, "ess_frozen": float(np.mean(points[dim][FROZEN][:, 0]))} for record in group]
        for dim, group in zip(profile.dims, hypercube.rows(store, settings, profile), strict=True)
    ]
    groups = cubes + [group for group in real.rows(store, settings, profile) if group[0]["available"]]
    table = Table(
        "Which rows of tables 1 and 4 come from converged chains, and how many chains are stuck with a high ESS.",
        _COLUMNS,
        rows_with_rules(groups, _cells),
        list(_NOTES),
    )
    records = [record for group in groups for record in group]
    text = write_report(folder, NAME, [table], records, store, settings, profile)
    return text + "\n" + _make_figure(store, settings, profile, points, folder)


def _cells(record):
    has_reference = "gap" in record
    counts = [f"{record[name]} of {record['n_chains']}" if has_reference else "-" for name in ("n_low", "n_high")]
    return [
        *head(record),
        number(record["paper_ess"]),
        number(record["ess"]),
        number(record["ess_median"]),
        number(record.get("ess_frozen")),
        level(record["gap"]) if has_reference else "-",
        *counts,
        str(record["n_high_and_low"]) if has_reference else "-",
        f"{100 * record['tree_changed']:.1f}",
        *(f"{record[f'r_hat_{name}_median']:.2f}" for name in ("log_likelihood", "f")),
        *(f"{record[name]} of {record['n_data_sets']}" for name in ("n_converged", "n_rest_converged")),
    ]


def _points(store, settings, profile, dim):
    """Of every chain on a dimension its ESS and its level less the reference: an array (n, 2) a sampler."""
    found = {name: [] for name in (*paper.SAMPLERS, FROZEN)}
    for seed in profile.data_seeds:
        measures, truth = hypercube.measured(store, settings, profile, dim, seed)
        for sampler in paper.SAMPLERS:
            gaps = np.subtract(measures[sampler]["level"], truth["level"])
            found[sampler] += zip(measures[sampler]["ess"], gaps, strict=True)
        frozen = hypercube.sampler_specs(frozen_settings(settings), profile, dim, seed, "pg")
        for chain in store.read_all(frozen):
            trace = chain.kept("log_likelihood")
            found[FROZEN].append((diagnostics.effective_size(trace), trace.mean() - truth["level"]))
    return {name: np.array(values, dtype=float) for name, values in found.items()}


def _make_figure(store, settings, profile, points, folder):
    dim = profile.trace_dims[0]
    chains = {
        sampler: store.read_all(hypercube.sampler_specs(settings, profile, dim, TRACE_SEED, sampler))
        for sampler in ("cgm", "pg")
    }
    truth = hypercube.measured(store, settings, profile, dim, TRACE_SEED)[1]
    shown = [other for other in profile.dims if other > 2][:4] or list(profile.dims)
    figure = draw(chains, truth["level"], {other: points[other] for other in shown}, profile.n_burn)
    origin = origin_record(store, settings, profile)
    caption = [
        f"Stuck chains. Above: log-likelihood less the reference level on hypercube-{dim}, data seed {TRACE_SEED}, by"
        " sweep, chains of CGM and particle Gibbs from the empty tree, a prior draw, an over-grown tree and a particle"
        " filter; at the right the ESS of the last"
        f" {profile.n_sweeps - profile.n_burn} sweeps of each PG chain. Below: every chain of table 1 with"
        f" D = {', '.join(map(str, shown))}, its ESS against its level, and chains of a sampler whose tree never"
        " changes (PG with C = 1); an ESS below 1 is drawn at 1. Higher is 'better' by the paper's measure; only"
        " points at zero have reached the level of chains started at the true tree.",
        hypercube.describe(settings, profile),
        origin_line(origin),
    ]
    record = {"provenance": origin, "points": {str(key): _plain(value) for key, value in points.items()}}
    return pictures.save(figure, folder, "figure_stuck", caption, record)


def _plain(by_sampler):
    return {name: values.tolist() for name, values in by_sampler.items()}


def draw(chains, reference, points, n_burn):
    """The figure: traces of two samplers above, ESS against level of all chains below.

    Parameters
    ----------
    chains : dict
        From "cgm" and "pg" to their StoredChains on one data set.
    reference : float
        Its reference level.
    points : dict
        From a dimension to, by sampler, an array (n, 2) of ESS and level less the reference.
    n_burn : int

    Returns
    -------
    matplotlib.figure.Figure
    """
    with pictures.style():
        figure = pictures.new_figure(pictures.COLUMN_WIDTH, 4.9)
        grid = figure.add_gridspec(
            3, 2, height_ratios=(1.25, 1.0, 1.0), left=0.19, right=0.925, top=0.985, bottom=0.125, hspace=0.42,
            wspace=0.1,
        )  # fmt: skip
        _draw_traces(figure.add_subplot(grid[0, :]), chains, reference, n_burn)
        panels = [figure.add_subplot(grid[1 + place // 2, place % 2]) for place in range(len(points))]
        for place, (axis, (dim, by_sampler)) in enumerate(zip(panels, points.items(), strict=True)):
            _draw_points(axis, dim, by_sampler)
            if place % 2:
                axis.set_yticklabels([])
            else:
                axis.set_ylabel("ESS of the chain")
        figure.text(0.56, 0.07, "log-likelihood less reference level (nats)", ha="center", fontsize=8)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="lower center", bbox_to_anchor=(0.53, 0.0), ncols=4, handletextpad=0.1,
            columnspacing=1.0,
        )  # fmt: skip
        return figure


def _draw_traces(axis, chains, reference, n_burn):
    n_sweeps = chains["pg"][0].spec.n_sweeps
    axis.axvspan(0, n_burn, color="0.93", lw=0, zorder=0)
    axis.axhline(0.0, color="0.0", lw=0.8, ls=(0, (4, 2)), zorder=3)
    low = 0.0
    for sampler, found in chains.items():
        for place, chain in enumerate(found):
            gap = chain.traces["log_likelihood"] - reference
            label = _LABELS[sampler] if place == 0 else None
            look = {"lw": 0.5, "color": _colour(sampler), "alpha": 0.9, "rasterized": True}
            axis.plot(np.arange(1, n_sweeps + 1), gap, label=label, **look)
            low = min(low, float(np.min(gap[n_burn:])))
    axis.set_xlim(0, n_sweeps)
    axis.set_ylim(1.3 * low, -0.12 * low)
    _label_ess(axis, chains["pg"], reference, 0.1 * -low)
    axis.set_xticks(np.linspace(0, n_sweeps, 5))
    axis.set_xlabel("sweep")
    axis.set_ylabel("log-likelihood less\nreference (nats)", linespacing=1.1)
    axis.legend(loc="lower left", handlelength=1.2, ncols=2, borderaxespad=0.2)


def _label_ess(axis, chains, reference, distance):
    """At the right of each chain its ESS, the labels kept apart."""
    traces = [chain.kept("log_likelihood") - reference for chain in chains]
    found = sorted((float(np.mean(trace)), diagnostics.effective_size(trace)) for trace in traces)
    places = [place for place, _ in found]
    for rank in range(1, len(places)):
        places[rank] = max(places[rank], places[rank - 1] + distance)
    shift = np.mean(places) - np.mean([place for place, _ in found])
    for place, (_, ess) in zip(places, found, strict=True):
        axis.annotate(
            f"{ess:.0f}", (1.0, place - shift), xycoords=("axes fraction", "data"), xytext=(3, 0),
            textcoords="offset points", fontsize=7, va="center", color=_colour("pg"),
        )  # fmt: skip
    axis.annotate(
        "ESS", (1.0, places[-1] - shift + 1.3 * distance), xycoords=("axes fraction", "data"), xytext=(3, 0),
        textcoords="offset points", fontsize=7, va="center",
    )  # fmt: skip


def _draw_points(axis, dim, by_sampler):
    markers = {"cgm": "o", "growprune": "^", "pg": "x", FROZEN: "s"}
    for sampler, values in by_sampler.items():
        look = {"s": 9, "facecolors": "none", "edgecolors": _colour(sampler)}
        if sampler in ("pg", FROZEN):
            look = {"s": 9 if sampler == "pg" else 5, "color": _colour(sampler)}
        axis.scatter(
            values[:, 1], np.maximum(values[:, 0], 1.0), marker=markers[sampler], linewidths=0.55,
            zorder=1.5 if sampler == FROZEN else 2, label=_LABELS[sampler], **look,
        )  # fmt: skip
    axis.axvline(0.0, color="0.0", lw=0.8, ls=(0, (4, 2)))
    axis.set_yscale("log")
    axis.set_ylim(0.8, 2000)
    axis.set_title(f"$D = {dim}$", fontsize=8)
    axis.grid(True, which="major")


def _colour(sampler):
    return pictures.SAMPLER_COLOURS.get(sampler, "0.6")


if __name__ == "__main__":
    run_script(NAME, specs, make, __doc__)
