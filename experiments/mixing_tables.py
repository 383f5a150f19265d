"""Tables of the mixing experiments: effective draws, held-out rows, ratios to the best of the other packages."""

import numpy as np

from . import summaries
from .mixing_measures import LEAST_DRAWS, NOMINAL, RATES, compare, held_out
from .mixing_runs import kernels_notes
from .report import Table, rows_with_rules

__all__ = ["tables"]

# One chain of 8000 sweeps, the first 4000 burn-in, Friedman N = 2000, D = 10; measured once, elsewhere.
DBARTS = {"ms_per_sweep": 3.0, "n_sweeps": 8000, "ess": {"sigma": 180, "log_likelihood": 44, "f_median": 42}}

_COLUMNS = [
    ("problem", ""), ("system", ""), ("sigma", "ESS/s"), ("log-lik", "ESS/s"), ("f, median", "ESS/s"),
    ("f, 5 %", "ESS/s"), ("R-hat", "sigma"), ("R-hat", "log-lik"), ("R-hat", "f, med."), ("R-hat", "f, worst"),
    ("n", ""),
]  # fmt: skip
_RUN_COLUMNS = [
    ("problem", ""), ("system", ""), ("log-lik", "level"), ("sigma", "mean"), ("leaves", "a tree"),
    ("sweeps", "a chain"), ("draws", "a chain"), ("CPU s", "a run"), ("CPU by", "wall"), ("pass", "us"), ("n", ""),
]  # fmt: skip
_TEST_COLUMNS = [
    ("problem", ""), ("system", ""), ("RMSE", ""), ("log", "score"),
    *((f"{100 * level:g} %", "inside") for level in NOMINAL), ("log score:", "difference"), ("", "in s.e."),
    *((f"{100 * level:g} %", "in s.e.") for level in NOMINAL), ("n", ""),
]  # fmt: skip
_NAMES = {"sigma": "sigma", "log_likelihood": "log-lik", "f_median": "f, median", "f_low": "f, 5 %"}
_RATIO_COLUMNS = [("problem", ""), ("", "seeds"), *((name, "(90 %)") for name in _NAMES.values())]


def _median(measured, *path):
    values = []
    for one in measured.values():
        for name in path:
            one = one[name]
        values.append(one)
    return float(np.median(values))


def _row(problem, system, measured):
    rates = [summaries.number(_median(measured, "rate", name) or None) for name in RATES]
    worst = max(_median(measured, "r_hat", name) for name in ("sigma", "log_likelihood"))
    cells = [f"({rate})" if worst > summaries.R_HAT_LIMIT else rate for rate in rates[:2]]
    far = _median(measured, "r_hat", "f_worst") > summaries.R_HAT_LIMIT
    cells += [f"({rate})" if far else rate for rate in rates[2:]]
    hats = [f"{_median(measured, 'r_hat', name):.2f}" for name in ("sigma", "log_likelihood", "f_median", "f_worst")]
    return [problem, system, *cells, *hats, f"{len(measured)}"]


def _run_row(problem, system, measured):
    cells = [summaries.number(_median(measured, name), 4) for name in ("level", "mean_sigma")]
    digits = {"mean_leaves": 2, "n_sweeps": 0, "n_records": 0, "seconds": 1, "busy": 2, "us_per_pass": 2}
    cells += [f"{_median(measured, name):.{n}f}" for name, n in digits.items()]
    return [problem, system, *cells, f"{len(measured)}"]


def _test_row(problem, system, measured, found):
    cells = [summaries.number(_median(measured, name)) for name in ("rmse", "log_score")]
    inside = np.mean([one["coverage"] for one in measured.values()], axis=0)
    cells += [f"{100 * share:.1f}" for share in inside]
    if found is None:
        return [problem, system, *cells, *["-"] * (2 + len(NOMINAL)), f"{len(measured)}"]
    pairs = (found["log_score"], *found["coverage"])
    cells += [f"{found['log_score'][0]:+.4f}", *(f"{value / error:+.1f}" if error else "0" for value, error in pairs)]
    return [problem, system, *cells, f"{len(measured)}"]


def tables(found, target, budget):
    """The tables of what is stored: mixing, the runs, held-out rows, and ratios to the best peer.

    Parameters
    ----------
    found : dict
        As in `compare`.
    target : str
        The system that is compared with all others.
    budget : float

    Returns
    -------
    list of Table
    """
    problems = list(dict.fromkeys(problem for problem, _ in found))
    groups = [[(p, s, one) for (p, s), one in found.items() if p == problem] for problem in problems]
    mixing = Table(
        f"Effective draws a CPU second, {budget:g} CPU seconds for four chains together", _COLUMNS,
        rows_with_rules(groups, lambda entry: _row(*entry)), _notes(budget))
    kernels = [one["kernels"] for measured in found.values() for one in measured.values()]
    runs = Table(
        f"Where the chains are, {budget:g} CPU seconds for four chains together", _RUN_COLUMNS,
        rows_with_rules(groups, lambda entry: _run_row(*entry)), [*_run_notes(), *kernels_notes(kernels)])
    apart = held_out(found, target)
    test = Table(
        f"Held-out rows after {budget:g} CPU seconds", _TEST_COLUMNS,
        rows_with_rules(groups, lambda entry: _test_row(*entry, apart.get(entry[0], {}).get(entry[1]))),
        _test_notes(target))
    made = [mixing, runs, test]
    ratios = compare(found, target)
    if ratios is not None:
        made.append(_ratio_table(ratios, target))
    return made


def _ratio_table(ratios, target):
    def cell(n_seeds, value, low, high, *best):
        return " ".join([f"{value:.3g}", *([f"({low:.3g}, {high:.3g})"] if n_seeds > 1 else []), *best])

    seeds, n_common = ratios["sigma"]["seeds"], ratios["sigma"]["n_seeds"]
    rows = [
        [name, f"{len(own)}", *(cell(len(own), *ratios[quantity]["ratios"][name]) for quantity in RATES)]
        for name, own in seeds.items()
    ]
    medians = [cell(n_common, *ratios[quantity]["median"]) if n_common else "-" for quantity in RATES]
    rows += [None, [f"median of {len(seeds)}", f"{n_common}", *medians]]
    return Table(
        f"{target} by the best peer: ratios of effective draws a CPU second", _RATIO_COLUMNS, rows,
        ["Ratio of geometric means over the seeds that all systems have, 5 and 95 % quantiles of a bootstrap over "
         "these (the best peer found anew in each resample; of one seed there are none), and the peer that is best for "
         "that quantity and problem. Last line: the median over the problems, of the seeds that all have. A run "
         "without an ESS counts as 4 effective draws. Chains that stand in different places have an ESS of 4 to 6, "
         "never less: the ratio to a peer that has not converged is an understatement."],
        n_left=1)


def _notes(budget):
    dbarts = ", ".join(
        f"{_NAMES[name]} {1e3 * value / (DBARTS['ms_per_sweep'] * DBARTS['n_sweeps']):.2g}"
        for name, value in DBARTS["ess"].items()
    )
    return [
        f"A run: four chains in turn in one process, {budget:g} CPU seconds of all of them together, everything of a "
        "sweep and (ours) the making of the start included; half of the seconds of each chain are burn-in. Set-up of "
        "the data, compilation (bartz: the first sweep is not counted) and predictions are not counted. ESS/s: "
        "rank-normalised bulk ESS of the kept draws of all chains together (ArviZ, one function for all) by ALL these "
        "CPU seconds; f at 50 held-out points: median and 5 % quantile over the points. In brackets where R-hat "
        f"(rank-normalised, split; of f the worst point) exceeds {summaries.R_HAT_LIMIT}. At most some 2000 draws a "
        f"chain, evenly spaced; -: fewer than {LEAST_DRAWS}, which have no ESS. Medians over n seeds; a seed is "
        "another data set or split and other chains.",
        "Our chains start from the empty trees, a draw of the prior, over-grown trees, a particle filter; those of the "
        "other packages from stumps, stochtree warm after five sweeps of grow-from-root (counted, at most half of "
        "the burn-in). The prior is the same where a package can have it (m = 200, alpha .95, beta 2, k 2, nu 3, q .9, "
        "sigma by least squares where that exists); benchmarks/peer_tables.py says what differs. Log-likelihood: "
        "sum of log N(y | f, sigma^2) at the end of a sweep, units of y.",
        f"dbarts on friedman-2000-10, one chain, not measured here: {dbarts} a second by the same definition.",
    ]


def _run_notes():
    return [
        "Log-likelihood, sigma, leaves: means over the kept draws of all chains. Sweeps: with burn-in; draws: those "
        "that are measured. CPU by wall: seconds after the burn-in; below 1 the run shared its core. pass: one "
        "streaming masked sum over the rows, before and after the run, which tells how fast the machine was then. "
        "Medians over n seeds.",
    ]


def _test_notes(target):
    return [
        "The first 1000 test rows. Log score: log of the mean over draws (some 100 a chain) of N(y | f, sigma^2), mean "
        "over the rows. Inside: share of the rows within the central interval of the same predictive law.",
        f"Difference: log score of {target} less that of the row, row by row, and by its standard error; further: "
        f"|inside - nominal| of {target} less that of the row, by its standard error. Worse is below -2 for the log "
        "score, above +2 for coverage.",
    ]
