"""Ancestor sampling, future work in the paper: how often it could change a past, and whether it pays.

From trees of running chains, steps of several kernels from each tree: what another past would have to fit, how probable
it is, how far the tree moves, and for how many row visits. Then chains from the empty tree, at equal row visits.
"""

import argparse
import os
import textwrap

import numpy as np

import bart
from bart.storage import atomic_file

from . import problems
from .ancestor_kernel import AncestorSampler
from .chains import provenance
from .report import WIDTH, Table, write_json

__all__ = ["NAME", "climb", "main", "measure", "references"]

NAME = "ancestor"
N_PARTICLES = 10
SEED = 1
# Problem, trees, where the chain that gives the trees starts, its sweeps before the first of them and between two.
CASES = (
    ("friedman-2000-10", 200, "empty", 1000, None),
    ("friedman-200-10", 10, "empty", 1000, None),
    ("hypercube-2", 1, "empty", 500, 20),
    ("hypercube-4", 1, "empty", 2000, 20),
    ("hypercube-4", 1, "truth", 200, 20),
)
SAMPLERS = {
    "PG, C = 3": bart.ParticleGibbs(3),
    "PG, C = 3, ancestors": AncestorSampler(3),
    "PG, C = 10": bart.ParticleGibbs(10),
    "PG, C = 10, ancestors": AncestorSampler(10),
    "PG, C = 20": bart.ParticleGibbs(20),
    "subtree PG, C = 3": bart.ParticleGibbs(3, region="subtree", descend=0.7),
    "subtree PG, C = 3, ancestors": AncestorSampler(3, descend=0.7),
    "subtree PG, C = 10": bart.ParticleGibbs(10, region="subtree", descend=0.7),
    "subtree PG, C = 10, ancestors": AncestorSampler(10, descend=0.7),
    "GrowPrune": bart.GrowPrune(),
}
CLIMBS = ("hypercube-3", "hypercube-4")
_SEEN_COLUMNS = [
    ("", "problem"), ("", "m"), ("chain", "from"), ("leaves", "a tree"), ("", "stages"), ("reference", "unfinished"),
    ("other", "pasts"), ("fits %", "queue"), ("", "places"), ("taken %", "queue"), ("", "places"),
    ("finished:", "fits %"), ("taken", "%"),
]  # fmt: skip
_GAIN_COLUMNS = [
    ("", "problem"), ("chain", "from"), ("", "kernel"), ("tree", "chg %"), ("leaf sets", "chg %"), ("", "+-"),
    ("root", "chg %"), ("", "jump"), ("row visits", "a step"), ("per 1e6:", "leaf sets"), ("", "jumps"),
]  # fmt: skip
_CLIMB_COLUMNS = [("", "problem"), ("", "kernel"), ("", "sweeps"), ("level -", "reference"), ("by data", "set")]
_SEEN_NOTES = (
    "Stages: those of a step of PG with C = 10 after which particles are resampled, a step; reference unfinished: the"
    " share of them at which the clamped particle has decisions left. Other pasts: partial trees unlike its own among"
    " the particles then. Fits: share of these stages at which some other past can be continued by the reference's"
    " future (positive density): the decisions taken in the order of the queue, or each at its own place in the tree."
    " Taken: probability that the ancestor step takes another past, mean over these stages. Finished: the same for the"
    " stages at which the reference has no decision left, where every other finished tree fits.",
)
_GAIN_NOTES = (
    "From trees of chains of CGM (hypercubes) and of PG (Friedman), a step of each kernel repeated from each tree. Chg:"
    " share of steps after which the tree, the sets of rows in its leaves (+- standard error over trees), the root's"
    " rule differ. Jump: squared change of the tree's posterior mean, mean over rows and steps, in units of sigma^2 /"
    " 1000. Row visits: rows of the nodes at which rules are tried, those of the reference's future after another past"
    " included.",
)
_CLIMB_NOTES = (
    "Chains from the empty tree, all of the same row visits. Level: mean log-likelihood of the last fifth of the sweeps"
    " less that of a chain of CGM from the true tree, nats; mean over data sets, and each of them.",
)


def make_model(name, n_trees, seed):
    """The problem of a name and its model."""
    problem = problems.made(name, seed)
    return problem, bart.Model(problem.X_train, problem.y_train, n_trees=n_trees, beta=problem.beta or 2.0)


def references(case, n_references, seed):
    """Trees of a chain with what they explain.

    Parameters
    ----------
    case : tuple
        A row of `CASES`.
    n_references : int
    seed : int

    Returns
    -------
    list of (structure, target, StepParams), and the Model
    """
    name, n_trees, start, n_burn, gap = case
    problem, model = make_model(name, n_trees, seed)
    init = [problems.true_tree(problem)] if start == "truth" else start
    sampler = bart.CGM() if n_trees == 1 else bart.ParticleGibbs(N_PARTICLES)
    ensemble = bart.Ensemble(model, sampler, np.random.default_rng(seed), init=init)
    ensemble.run(n_burn)
    if gap is None:
        return [_reference(model, ensemble, tree) for tree in ensemble.trees[:n_references]], model
    found = []
    for _ in range(n_references):
        ensemble.run(gap)
        found.append(_reference(model, ensemble, ensemble.trees[0]))
    return found, model


def _reference(model, ensemble, tree):
    params = bart.StepParams(ensemble.sigma2, model.leaf_prior.var, model.leaf_prior.mean)
    return tree.structure, ensemble.residual + tree.fit(), params


def measure(chosen, model, sampler, n_repeats, rng):
    """Steps of a kernel from every reference.

    Parameters
    ----------
    chosen : list
        What `references` returned.
    model : bart.Model
    sampler : bart.TreeSampler
    n_repeats : int
        Steps from each of them.
    rng : numpy.random.Generator

    Returns
    -------
    dict
        Shares of steps that change tree, leaf sets (with a standard error) and root, jump, row visits a step.
    """
    state, found = bart.TreeState(model.domain), np.zeros((len(chosen), 5))
    for place, (structure, target, params) in enumerate(chosen):
        for _ in range(n_repeats):
            state.structure = structure
            labels, fit = _first_rows(state), _mean_fit(state, target, params)
            info = sampler.step(state, target, params, rng)
            new = state.structure
            moved = not np.array_equal(labels, _first_rows(state))
            jump = np.mean((fit - _mean_fit(state, target, params)) ** 2) / params.sigma2
            root = (new and new[:2]) != (structure and structure[:2])
            found[place] += np.array([new != structure, moved, root, 1000.0 * jump, info.row_visits]) / n_repeats
    error = found[:, 1].std() / np.sqrt(len(chosen))
    names = ("tree", "leaf_sets", "root", "jump", "row_visits")
    return dict(zip(names, found.mean(axis=0).tolist(), strict=True)) | {"leaf_sets_error": float(error)}


def _first_rows(state):
    """For each row the first row of its leaf: equal for equal partitions, whatever the leaves' numbers."""
    labels = state.leaf_of_row
    return np.unique(labels, return_index=True)[1][labels]


def _mean_fit(state, target, params):
    labels = state.leaf_of_row
    sums = np.bincount(labels, target - params.leaf_mean)
    return (params.leaf_mean + params.leaf_var * sums / (params.sigma2 + state.leaf_counts() * params.leaf_var))[labels]


def climb(name, seeds, n_visits):
    """Levels that chains from the empty tree reach with so many row visits, less a reference level.

    Returns
    -------
    list of dict
        A record for each of `SAMPLERS`.
    """
    records = []
    for label, sampler in SAMPLERS.items():
        gaps, sweeps = [], []
        for seed in seeds:
            problem, model = make_model(name, 1, seed)
            ensemble = bart.Ensemble(model, bart.CGM(), np.random.default_rng(seed), init=[problems.true_tree(problem)])
            reference = ensemble.run(4_000)["log_likelihood"][1_000:].mean()
            ensemble, levels, spent = bart.Ensemble(model, sampler, np.random.default_rng(seed)), [], 0
            while spent < n_visits:
                traces = ensemble.run(10)
                spent += max(int(traces["row_visits"].sum()), 1)
                levels.extend(traces["log_likelihood"])
            gaps.append(float(np.mean(levels[-len(levels) // 5 :]) - reference))
            sweeps.append(len(levels))
        records.append({"problem": name, "kernel": label, "sweeps": float(np.mean(sweeps)), "gaps": gaps})
    return records


def summarise(case, chosen, seen, n_steps):
    """One record of what `AncestorGibbs` saw."""
    unfinished = [one for one in seen if one.is_open]
    finished = [one for one in seen if not one.is_open]
    return {
        "problem": case[0], "n_trees": case[1], "start": case[2],
        "leaves": _mean(_n_leaves(structure) for structure, _, _ in chosen), "stages": len(seen) / n_steps,
        "unfinished": len(unfinished) / max(len(seen), 1), "others": _mean(one.n_others for one in unfinished),
        "fits": _mean(one.fits for one in unfinished), "fits_places": _mean(one.fits_places for one in unfinished),
        "taken": _mean(one.p_other for one in unfinished),
        "taken_places": _mean(one.p_other_places for one in unfinished),
        "fits_finished": _mean(one.fits for one in finished), "taken_finished": _mean(one.p_other for one in finished),
    }  # fmt: skip


def _n_leaves(structure):
    return 1 if structure is None else _n_leaves(structure[2]) + _n_leaves(structure[3])


def _mean(values):
    values = list(values)
    return float(np.mean(values)) if values else float("nan")


def _seen_cells(record):
    names = ("fits", "fits_places", "taken", "taken_places", "fits_finished", "taken_finished")
    return [record["problem"], f"{record['n_trees']}", record["start"], f"{record['leaves']:.1f}",
            f"{record['stages']:.1f}", f"{record['unfinished']:.2f}", f"{record['others']:.1f}",
            *(f"{100 * record[name]:.1f}" for name in names)]


def _gain_cells(record):
    shares = [f"{100 * record[name]:.2f}" for name in ("tree", "leaf_sets", "leaf_sets_error", "root")]
    rates = [f"{1e6 * record[name] / record['row_visits']:.3g}" for name in ("leaf_sets", "jump")]
    return [record["problem"], record["start"], record["kernel"], *shares, f"{record['jump']:.3g}",
            f"{record['row_visits']:.0f}", *rates]


def _climb_cells(record):
    return [record["problem"], record["kernel"], f"{record['sweeps']:.0f}", f"{np.mean(record['gaps']):.0f}",
            " ".join(f"{gap:.0f}" for gap in record["gaps"])]


def _with_rules(groups, cells):
    return [row for group in groups for row in (*map(cells, group), None)][:-1]


def _tables(options):
    """Records and tables of everything."""
    seen_records, gain_groups = [], []
    for case in CASES:
        rng, seen = np.random.default_rng(SEED), []
        chosen, model = references(case, options.references, SEED)
        measure(chosen, model, AncestorSampler(N_PARTICLES, False, seen), options.repeats, rng)
        seen_records.append(summarise(case, chosen, seen, len(chosen) * options.repeats))
        gain_groups.append([{"problem": case[0], "start": case[2], "kernel": label,
                             **measure(chosen, model, sampler, options.repeats, rng)}
                            for label, sampler in SAMPLERS.items()])
    climbs = [climb(name, range(1, options.data_sets + 1), options.visits) for name in CLIMBS]
    tables = [
        Table("What ancestor sampling could change in a step of particle Gibbs, C = 10.", _SEEN_COLUMNS,
              list(map(_seen_cells, seen_records)), list(_SEEN_NOTES), n_left=1),
        Table("What it changes, and what it costs.", _GAIN_COLUMNS, _with_rules(gain_groups, _gain_cells),
              list(_GAIN_NOTES), n_left=3),
        Table("What it reaches.", _CLIMB_COLUMNS, _with_rules(climbs, _climb_cells), list(_CLIMB_NOTES)),
    ]
    return {"seen": seen_records, "gains": gain_groups, "climbs": climbs}, tables


def main(arguments=None):
    """Measure, write ``ancestor.txt`` and ``.json``, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--references", type=int, default=100, help="trees of each problem (default: 100)")
    add("--repeats", type=int, default=5, help="steps of each kernel from each tree (default: 5)")
    add("--data-sets", type=int, default=3, help="hypercubes of each size to climb on (default: 3)")
    add("--visits", type=int, default=500_000, help="row visits of a climb (default: 500 000)")
    add("--out", default="figures", help="folder of the tables (default: figures)")
    options = parser.parse_args(arguments)
    origin = provenance()                   # first, as it refuses kernels that are not built from their sources
    records, tables = _tables(options)
    size = (f"At most {options.references} trees, {options.repeats} steps of each kernel from each of them; climbs of"
            f" {options.visits} row visits; {origin['cpu']}; commit {origin['commit']}.")
    text = "\n\n".join(table.text() for table in tables) + "\n" + "\n".join(textwrap.wrap(size, WIDTH)) + "\n"
    os.makedirs(options.out, exist_ok=True)
    with atomic_file(os.path.join(options.out, f"{NAME}.txt"), "w") as file:
        file.write(text)
    write_json(os.path.join(options.out, f"{NAME}.json"), {"provenance": origin, **records})
    print(text, end="")


if __name__ == "__main__":
    main()
