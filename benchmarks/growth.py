"""How the cost of one tree's update grows with rows, features, particles and trees, one at a time around a base point.

The data are drawn from the model itself: trees and leaf values from their prior, then y. The chain starts at the trees
that made y, a draw from the posterior, so that it is stationary at once and the trees are about equally large along
each line of the design. On other data the number of leaves would change with every variable, and deep trees would take
longer to settle than the machine has time.
"""

import numpy as np

import bart
from experiments.report import Table

from .measure import cpu_seconds, generator, make_sampler, time_updates

VARIABLES = {"n_rows": "N", "n_dims": "D", "n_particles": "C", "n_trees": "m"}
BASE = {"n_rows": 10_000, "n_dims": 10, "n_particles": 10, "n_trees": 200}
LEVELS = {"n_rows": (200, 1000, 2000, 10_000, 100_000, 1_000_000), "n_dims": (5, 10, 50, 100, 400),
          "n_particles": (2, 5, 10, 20, 50), "n_trees": (1, 10, 50, 200, 500)}
QUICK_BASE = {"n_rows": 200, "n_dims": 10, "n_particles": 10, "n_trees": 10}
QUICK_LEVELS = {"n_rows": (200, 1000), "n_dims": (10, 50), "n_particles": (2, 10), "n_trees": (1, 10)}
# alpha, beta, and the most rows it is run with: a deep update of a million rows takes seconds.
PRIORS = {"default": (0.95, 2.0, None), "deep": (0.95, 0.3, 100_000)}
NOISE = 0.2         # beside a standard deviation of 1 of the trees' sum; Friedman's function has about this ratio
POOL = 200          # trees that are drawn for a point with fewer, which takes them evenly by size
SWEEPS_SECONDS = 0.05
WARM_SECONDS = 0.1


def growth_part(quick, samplers):
    """A record for each point, prior and sampler, and at the base point for each number of particles."""
    base, levels, most_pairs, budget = (QUICK_BASE, QUICK_LEVELS, 4, 0.2) if quick else (BASE, LEVELS, 40, 4.0)
    records = []
    for prior, (alpha, beta, most_rows) in PRIORS.items():
        for point in data_points(base, levels):
            if most_rows and point["n_rows"] > most_rows:
                continue
            problem = DrawnProblem(alpha=alpha, beta=beta, **point)
            for name in samplers:
                for sampler in variants(name, base, levels if is_base(point, base) else {}):
                    records.append({"sampler": name.split(" C=")[0], "prior": prior, "alpha": alpha, "beta": beta,
                                    "n_particles": getattr(sampler, "n_particles", None), "base": base,
                                    **cost(problem, sampler, most_pairs, budget)})
    return records


def data_points(base, levels):
    """The distinct (n_rows, n_dims, n_trees) of the design, the base point among them."""
    names = [name for name in VARIABLES if name != "n_particles"]
    points = [{**{key: base[key] for key in names}, name: level} for name in names for level in levels[name]]
    return list({tuple(point.values()): point for point in points}.values())


def is_base(point, base):
    return all(base[name] == value for name, value in point.items())


def variants(name, base, levels):
    """The sampler, or one for each number of particles where it has particles."""
    sampler = make_sampler(name)
    if not hasattr(sampler, "n_particles"):
        return [sampler]
    return [type(sampler)(n_particles=count) for count in levels.get("n_particles", (base["n_particles"],))]


class DrawnProblem:
    """A model whose y is a draw from it, and the trees that made y.

    Parameters
    ----------
    n_rows, n_dims, n_trees : int
    alpha, beta : float

    Attributes
    ----------
    model : bart.Model
        Unscaled; leaf values have variance 1 / n_trees; sigma is unknown to it.
    mean_leaves : float
        Of the trees that made y.
    """

    def __init__(self, n_rows, n_dims, n_trees, alpha, beta):
        rng = generator(n_rows, n_dims, n_trees)
        X = rng.random((n_rows, n_dims))
        tree = bart.TreeState(bart.RankCodes(X), bart.TreePrior(alpha, beta))
        y = NOISE * rng.standard_normal(n_rows)
        self._structures = _evenly_by_size(tree, n_trees, rng)
        self._values = []
        for structure in self._structures:
            tree.structure = structure
            tree.leaf_values = rng.standard_normal(tree.n_leaves) / np.sqrt(n_trees)
            self._values.append(tree.leaf_values)
            y += tree.fit()
        self.mean_leaves = sum(len(values) for values in self._values) / n_trees
        self.model = bart.Model(X, y, n_trees=n_trees, alpha=alpha, beta=beta, scale=False, leaf_mean=0.0,
                                leaf_var=1.0 / n_trees, sigma_hat=1.5 * NOISE)

    def ensemble(self, sampler):
        """A chain at the trees, leaf values and sigma that made y."""
        ensemble = bart.Ensemble(self.model, sampler, generator(1), init=self._structures)
        for tree, values in zip(ensemble.trees, self._values, strict=True):
            tree.leaf_values = values
        ensemble.recompute_residual()
        ensemble.sigma2 = NOISE**2
        return ensemble


def _evenly_by_size(tree, n_trees, rng):
    """Structures from the prior; fewer than `POOL` are taken from so many at even quantiles of the leaves.

    One tree from the prior may be a stump or huge; this one is of middle size, and ten have nearly the prior's mean.
    """
    pool = []
    for number in range(max(n_trees, POOL)):
        tree.draw_from_prior(rng)
        pool.append((tree.n_leaves, number, tree.structure))
    pool.sort(key=lambda drawn: drawn[:2])
    places = (np.arange(n_trees) + 0.5) * len(pool) / n_trees
    return [pool[int(place)][2] for place in places]


def cost(problem, sampler, most_pairs, budget):
    """Warm up, then measure as many pairs as take `budget` CPU seconds: at least 4, at most `most_pairs`."""
    ensemble = problem.ensemble(sampler)
    seconds = cpu_seconds(lambda: ensemble.run(1))
    n_warm = max(1, int(WARM_SECONDS / seconds))
    seconds = cpu_seconds(lambda: ensemble.run(n_warm)) / n_warm
    n_sweeps = max(1, int(SWEEPS_SECONDS / seconds))
    n_pairs = int(np.clip(budget / (n_sweeps * seconds), 4, most_pairs))
    return {"drawn_leaves": problem.mean_leaves, **time_updates(ensemble, n_pairs, n_sweeps)}


# ------------------------------------------------------------------------------------------------------- reading
def line(records, variable, sampler, prior):
    """The records of one line of the design, sorted by its variable; without particles, none for C."""
    base = records[0]["base"]
    found = [r for r in records if (r["sampler"], r["prior"]) == (sampler, prior) and r[variable] is not None
             and all(r[name] in (base[name], None) for name in VARIABLES if name != variable)]
    return sorted(found, key=lambda r: r[variable])


def lines(records):
    """(variable, sampler, prior, records) of each line with two points or more."""
    samplers = dict.fromkeys(r["sampler"] for r in records)
    priors = dict.fromkeys(r["prior"] for r in records)
    every = [(variable, sampler, prior, line(records, variable, sampler, prior))
             for variable in VARIABLES for sampler in samplers for prior in priors]
    return [found for found in every if len(found[3]) > 1]


def slope(variable, found, field):
    """Least-squares slope of log median cost against the log of the variable."""
    costs = np.log([r[field]["median"] for r in found])
    return float(np.polyfit(np.log([r[variable] for r in found]), costs, 1)[0])


def growth_tables(records):
    """The records, and the slopes of their lines."""
    return [_record_table(records), _slope_table(records)]


def _record_table(records):
    rows = []
    for r in records:
        if rows and rows[-1][0] != r["prior"]:
            rows.append(None)
        rows.append([r["prior"], r["sampler"], *(f"{r[name] or '-'}" for name in VARIABLES),
                     f"{r['us_per_update']['median']:.2f}", f"{r['us_per_update']['min']:.2f}",
                     f"{r['us_per_pass']['median']:.3f}", f"{r['passes']['median']:.1f}", f"{r['passes']['repeats']}",
                     f"{r['mean_leaves']:.1f}", f"{r['drawn_leaves']:.1f}", f"{100 * r['changed']:.0f}"])
    priors = "; ".join(f"{name}: alpha {alpha:g}, beta {beta:g}" for name, (alpha, beta, _) in PRIORS.items())
    return Table(
        "Growth: CPU time of one tree's update, one variable at a time around a base point",
        [("prior", ""), ("sampler", ""), *((name, "") for name in VARIABLES.values()), ("us an", "update"),
         ("us", "least"), ("us a", "pass"), ("passes", "median"), ("pairs", ""), ("leaves", "a tree"),
         ("leaves", "at start"), ("changed", "%")],
        rows,
        [f"N rows, D features, C particles, m trees. Priors: {priors}. y is drawn from the model, with trees from "
         f"the prior, noise sd {NOISE:g} beside sd 1 of the trees' sum, and the chain starts at the trees that made "
         "y, a draw from the posterior but for sigma: it needs no burn-in, and has as many leaves at all sizes as the "
         f"rows allow. Where m < {POOL}, the m trees are taken from {POOL} at even quantiles of their leaves. "
         "Updates and passes as in part friedman; an update is a sweep by its trees, at m = 1 with the whole draw of "
         "sigma."])


def _slope_table(records):
    rows = []
    for variable, sampler, prior, found in lines(records):
        if rows and rows[-1][0] != VARIABLES[variable]:
            rows.append(None)
        steps = [(slope(variable, pair, "passes"), pair) for pair in zip(found, found[1:], strict=False)]
        steepest, pair = max(steps, key=lambda step: step[0])
        rows.append([VARIABLES[variable], sampler, prior, f"{slope(variable, found, 'us_per_update'):.2f}",
                     f"{slope(variable, found, 'passes'):.2f}", f"{steepest:.2f}",
                     f"{pair[0][variable]} to {pair[1][variable]}"])
    return Table(
        "Growth: slopes of log cost against the log of each variable, least squares",
        [("against", ""), ("sampler", ""), ("prior", ""), ("us", "slope"), ("passes", "slope"),
         ("passes,", "steepest step"), ("of", "")],
        rows, ["1: in proportion to the variable; 0: independent of it. A pass is itself in proportion to N, so that "
               "in N a slope of passes above 0 is a cost that grows faster than the rows; below some 1000 rows the "
               "fixed cost of an update rules."], n_left=3)
