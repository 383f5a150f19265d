"""Parallel tempering: the states of a ladder follow the product of the tempered posteriors, and errors in it show."""

import math
from itertools import product

import numpy as np
import pytest
from chain_laws import z_scores
from laws import g_test
from oracle import Problem, n_leaves
from tiny import PROBLEMS

import bart
from bart import tempering
from bart.tempering import TemperedEnsemble

LEVEL = 1e-5
BOUND = 4.5
N_REPLICAS = 15_000
N_SWEEPS = 15_000
TEMPERATURES = (1.0, 0.35, 0.1)
SAMPLERS = {"growprune": bart.GrowPrune(), "cgm": bart.CGM(), "pg": bart.ParticleGibbs(3),
            "local": bart.Local(), "optimal": bart.ParticleGibbs(2, proposal="optimal", region="subtree")}
BETWEEN_SWEEPS = {"slide": bart.Cycle(bart.GrowPrune(), bart.Slide(every=1))}


def at(problem, t):
    """The problem whose posterior has the likelihood to the power t, up to a factor that trees share."""
    return Problem(problem.X, problem.target, problem.sigma2 / t, problem.leaf_var, problem.leaf_mean,
                   problem.alpha, problem.beta)


def make_ladder(problem, sampler, rng, n_trees=1, temperatures=TEMPERATURES, **options):
    noise = {"sigma": problem.sigma2**0.5} if not options else options
    model = bart.Model(problem.X, problem.target, n_trees=n_trees, alpha=problem.alpha, beta=problem.beta,
                       scale=False, leaf_mean=problem.leaf_mean, leaf_var=problem.leaf_var, **noise)
    return TemperedEnsemble(model, sampler, rng, bart.Ladder(temperatures=temperatures))


def rungs(ladder):
    """The Ensembles by rung."""
    return [ladder.ensembles[e] for e in ladder.order]


# ------------------------------------------------------------------------------------------------------ fixed noise


def coarse(tree):
    """Number of leaves and rule of the root."""
    return n_leaves(tree), tree and tree[:2]


def round_p_value(name, sampler, n_replicas, rng):
    """Smallest p-value of the trees after a sweep of all states and a round of swaps, from exact draws."""
    problem = PROBLEMS[name]()
    laws = [at(problem, t).posterior() for t in TEMPERATURES]
    ladder = make_ladder(problem, sampler, rng)
    draws = np.column_stack([rng.choice(law.n_trees, n_replicas, p=law.p) for law in laws])
    found = np.empty_like(draws)
    for row, trees in enumerate(draws):
        for ensemble, law, i in zip(rungs(ladder), laws, trees, strict=True):
            ensemble.trees[0].structure = law.trees[i]
            ensemble.recompute_residual()
        ladder.run(1)
        found[row] = [law.index[e.structures()[0]] for e, law in zip(rungs(ladder), laws, strict=True)]
    values = [g_test(np.bincount(found[:, k], minlength=law.n_trees), law.p) for k, law in enumerate(laws)]
    for k in range(len(laws) - 1):
        names = [[coarse(tree) for tree in law.trees] for law in laws[k : k + 2]]
        kinds = sorted(set(names[0]), key=str)
        p, counts = np.zeros((2, len(kinds))), np.zeros((len(kinds), len(kinds)), dtype=int)
        place = [np.array([kinds.index(kind) for kind in side]) for side in names]
        for side in (0, 1):
            np.add.at(p[side], place[side], laws[k + side].p)
        np.add.at(counts, (place[0][found[:, k]], place[1][found[:, k + 1]]), 1)
        values.append(g_test(counts.ravel(), np.outer(*p).ravel()))
    return min(values)


@pytest.mark.parametrize("name", ["line", "plane", "ties"])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_sweep_and_a_round_leave_the_product_of_the_laws_invariant(sampler, name, rng):
    p = round_p_value(name, SAMPLERS[sampler], N_REPLICAS, rng)
    if p <= LEVEL:      # a failure counts if it repeats with more replicas
        p = round_p_value(name, SAMPLERS[sampler], 5 * N_REPLICAS, rng)
    assert p > LEVEL


def law_of(law, view):
    """Exact probability of each value of a function of the tree."""
    out = {}
    for tree, p in zip(law.trees, law.p, strict=True):
        out[view(tree)] = out.get(view(tree), 0.0) + p
    return out


def long_run_z(name, sampler, n_sweeps, rng):
    """z-scores of a long run: leaves and root at t = 1, before and after swaps, leaves at the others, and jointly."""
    problem = PROBLEMS[name]()
    laws = [at(problem, t).posterior() for t in TEMPERATURES]
    ladder = make_ladder(problem, sampler, rng)
    trees, traced = [], []
    for _ in range(n_sweeps):
        traced.append(ladder.run(1)["n_leaves"][0])
        trees.append([ensemble.structures()[0] for ensemble in rungs(ladder)])
    leaves = np.array([[n_leaves(tree) for tree in row] for row in trees])
    roots = [row[0] and row[0][:2] for row in trees]
    by_leaves = [law_of(law, n_leaves) for law in laws]
    exact = {("root", key): p for key, p in law_of(laws[0], lambda tree: tree and tree[:2]).items()}
    traces = {("root", key): np.array([root == key for root in roots]) for _, key in exact}
    for count, p in by_leaves[0].items():
        exact["traced", count], traces["traced", count] = p, np.array(traced) == count
    for k, law in enumerate(by_leaves):
        for count, p in law.items():
            exact[k, count], traces[k, count] = p, leaves[:, k] == count
    for a, b in product(by_leaves[0], by_leaves[1]):
        exact["joint", a, b] = by_leaves[0][a] * by_leaves[1][b]
        traces["joint", a, b] = (leaves[:, 0] == a) & (leaves[:, 1] == b)
    return z_scores(traces, exact)


def assert_z(run, *arguments):
    """Every |z| below the bound, or with ten times as many sweeps."""
    *arguments, n_sweeps, rng = arguments
    worst = run(*arguments, n_sweeps, rng)
    if max(abs(z) for z in worst.values()) >= BOUND:
        worst = run(*arguments, 10 * n_sweeps, rng)
    assert max(abs(z) for z in worst.values()) < BOUND, worst


@pytest.mark.parametrize(("name", "sampler"), [("line", "cgm"), ("long_line", "growprune"), ("square", "pg"),
                                               ("line", "slide")])
def test_a_long_run_has_the_exact_laws(name, sampler, rng):
    assert_z(long_run_z, name, (SAMPLERS | BETWEEN_SWEEPS)[sampler], N_SWEEPS, rng)


# ------------------------------------------------------------------------------------------------ free noise, two trees


def free_noise_law(problem, noise, t):
    """Exact law of the number of leaves, and mean of log sigma2, under the likelihood to the power t."""
    grid = np.linspace(-7.0, 7.0, 1_401)        # of log sigma2; the ends hold no mass
    logs, laws = [], []
    n = problem.n_rows
    for s in np.exp(grid):
        law = Problem(problem.X, problem.target, s / t, problem.leaf_var, problem.leaf_mean, problem.alpha,
                      problem.beta).posterior()
        to_power = 0.5 * n * math.log(2 * math.pi * s / t) - 0.5 * t * n * math.log(2 * math.pi * s)
        logs.append(law.log_evidence + to_power - noise.shape * math.log(s) - noise.rate / s)
        laws.append(law.p_n_leaves())
    weights = np.exp(np.array(logs) - max(logs))
    weights /= weights.sum()
    assert max(weights[0], weights[-1]) < 1e-6
    return weights @ np.array(laws), float(weights @ grid)


def free_noise_z(sampler, n_sweeps, rng):
    """z-scores of leaves and log sigma2 at every rung with sigma2 free; sigma2 enters the ratio of a swap."""
    problem = PROBLEMS["triple_line"]()
    ladder = make_ladder(problem, sampler, rng, temperatures=(1.0, 0.3), nu=6.0, q=0.6)
    found = []
    for _ in range(n_sweeps):
        ladder.run(1)
        found.append([(ensemble.trees[0].n_leaves, math.log(ensemble.sigma2)) for ensemble in rungs(ladder)])
    found = np.array(found)
    exact, traces = {}, {}
    for k, t in enumerate(ladder.temperatures):
        p, log_sigma2 = free_noise_law(problem, ladder.cold.model.noise_prior, t)
        exact[k, "log sigma2"], traces[k, "log sigma2"] = log_sigma2, found[:, k, 1]
        for count in range(1, problem.n_rows + 1):
            exact[k, count], traces[k, count] = p[count - 1], found[:, k, 0] == count
    return z_scores(traces, exact)


def test_sigma2_is_part_of_the_state(rng):
    assert_z(free_noise_z, SAMPLERS["cgm"], 2 * N_SWEEPS, rng)


def test_two_trees(rng):
    """The law of both structures at each rung, leaf values integrated out together."""
    problem, split = PROBLEMS["pair"](), (0, 0, None, None)

    def law(t):
        out = {}
        for pair in product((None, split), repeat=2):
            columns = [np.ones((2, 1)) if tree is None else np.eye(2) for tree in pair]
            Z = np.hstack(columns)
            covariance = problem.sigma2 / t * np.eye(2) + problem.leaf_var * Z @ Z.T
            log_p = -0.5 * np.linalg.slogdet(covariance)[1]
            log_p -= 0.5 * problem.target @ np.linalg.solve(covariance, problem.target)
            prior = math.prod(1 - problem.alpha if tree is None else problem.alpha for tree in pair)
            out[pair] = prior * math.exp(log_p)
        total = sum(out.values())
        return {pair: p / total for pair, p in out.items()}

    def run(n_sweeps, rng):
        ladder = make_ladder(problem, SAMPLERS["growprune"], rng, n_trees=2)
        exact = {(k, pair): p for k, t in enumerate(TEMPERATURES) for pair, p in law(t).items()}
        found = []
        for _ in range(n_sweeps):
            ladder.run(1)
            found.append([tuple(ensemble.structures()) for ensemble in rungs(ladder)])
        traces = {(k, pair): np.array([row[k] == pair for row in found]) for k, pair in exact}
        return z_scores(traces, exact)

    assert_z(run, N_SWEEPS, rng)


# ---------------------------------------------------------------------------------------------------------- mutants


def _no_normalising_constant(monkeypatch):
    right = TemperedEnsemble._advance

    def wrong(self, e, rows, *rest):
        right(self, e, rows, *rest)
        ensemble = self.ensembles[e]
        self._log_likelihood[e] += 0.5 * len(ensemble.residual) * math.log(ensemble.sigma2)

    monkeypatch.setattr(TemperedEnsemble, "_advance", wrong)


def _temperatures_stay(monkeypatch):
    monkeypatch.setattr(TemperedEnsemble, "_set_temperatures",
                        lambda self, rungs: [setattr(e, "temperature", t) for e, t in
                                             zip(self.ensembles, self.temperatures, strict=True)])


def _likelihood_by_rung(monkeypatch):
    right = TemperedEnsemble._advance

    def wrong(self, e, rows, *rest):
        before = list(self._log_likelihood)
        right(self, e, rows, *rest)
        value, self._log_likelihood = self._log_likelihood[e], before
        self._log_likelihood[self.order.index(e)] = value

    monkeypatch.setattr(TemperedEnsemble, "_advance", wrong)


def _ratio(function):
    return lambda monkeypatch: monkeypatch.setattr(tempering, "log_swap_ratio", function)


MUTANTS = {
    "always accepted": _ratio(lambda t_i, t_j, l_i, l_j: 0.0),
    "sign inverted": _ratio(lambda t_i, t_j, l_i, l_j: (t_i - t_j) * (l_i - l_j)),
    "tempered log-likelihood": _ratio(lambda t_i, t_j, l_i, l_j: (t_i - t_j) * (t_j * l_j - t_i * l_i)),
    "half of the ratio": _ratio(lambda t_i, t_j, l_i, l_j: 0.5 * (t_i - t_j) * (l_j - l_i)),
    "temperatures are not exchanged": _temperatures_stay,
    "log-likelihood by rung": _likelihood_by_rung,
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_an_error_in_the_swap_is_seen_after_one_round(mutant, rng, monkeypatch):
    MUTANTS[mutant](monkeypatch)
    assert round_p_value("line", SAMPLERS["cgm"], N_REPLICAS, rng) < 1e-8


def test_an_error_in_the_part_of_sigma2_is_seen_in_a_long_run(rng, monkeypatch):
    _no_normalising_constant(monkeypatch)
    assert max(abs(z) for z in free_noise_z(SAMPLERS["cgm"], 2 * N_SWEEPS, rng).values()) > 8
