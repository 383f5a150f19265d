"""The starts "grow" and "smc": the laws of their trees by enumeration, and that each is drawn given those before it."""

import numpy as np
import pytest
from bart.kernels.plan import KernelPlan
from bart.kernels.testing import ScriptedBitGenerator
from chain_helpers import assert_same, make_data, make_model
from compiled import both_step, cells_of, make_params, make_state, script_of
from laws import g_test
from oracle import Problem, replace_at
from scipy import stats
from test_one_step import count_steps
from tiny import PROBLEMS
from twin_particles import ParticleGibbs
from twin_proposals import OptimalProposal
from twin_random import Uniforms, outcomes
from twins import Node, mutated

import bart
from bart.backfitting import FILTERS

LEVEL = 1e-5
SEEN = [(name, n_bins) for name in ("line", "plane", "ties", "long_line", "weighted", "grid", "cube", "unsplit_root")
        for n_bins in (None, 3)]
FILTERED = [*((name, 2) for name in ("line", "square", "ties", "long_line", "shallow", "weighted_three", "grid", "cube",
                                     "precise_ties", "unsplit_root")),
            ("triple_line", 3), ("line", 1)]


class Start(bart.TreeSampler):
    """A start's pass as a sampler, for what replicates steps."""

    def __init__(self, kind, **options):
        self.options = FILTERS[kind] | options

    def plan(self):
        return KernelPlan(**self.options)


def grow(problem, proposal, random, mutant=None):
    """The twin: nodes breadth first, each stopped or split by the optimal proposal."""
    tree, queue = None, [Node("", None, problem.all_rows, 0)]
    for node in queue:
        rule = proposal.propose(node, random)[0]
        if rule is not None:
            tree = replace_at(tree, node.path, (*rule, None, None))
            depth = 0 if mutant == "depths from 0" else node.depth + 1
            queue += [Node(node.path + side, None, rows, depth)
                      for side, rows in zip("LR", problem.divide(node.rows, *rule), strict=True)]
    return tree


def grown_law(problem, n_bins=None, mutant=None):
    """Exact law of the grown tree: dict of tree -> probability."""
    cells = cells_of(make_state(problem, n_bins=n_bins))
    proposal = OptimalProposal(mutated(problem, mutant), cells, mutant=mutant)
    return outcomes(lambda random: grow(problem, proposal, random, mutant))


def filtered_law(problem, n_particles=2, **options):
    """Exact law of the tree of a particle filter: dict of tree -> probability."""
    return ParticleGibbs(problem, n_particles, **{"clamped": False} | options).law(None)


LAWS = {"grow": grown_law, "smc": filtered_law}


@pytest.fixture
def two_particles(monkeypatch):
    """The start "smc" with as few particles as can be enumerated."""
    monkeypatch.setitem(FILTERS, "smc", FILTERS["smc"] | {"n_particles": 2})


def start_counts(problem, sampler, n, rng, n_bins=None):
    """Counts of the enumerated trees after n passes, from the last of them."""
    trees = problem.posterior().trees
    return count_steps(problem, trees, sampler, [0] * (len(trees) - 1) + [n], rng, n_bins)


def p_value(counts, law, problem):
    return g_test(counts, [law.get(tree, 0.0) for tree in problem.posterior().trees])


def check_law(problem, law, counts):
    """The posterior is another law, and the test tells them apart."""
    assert abs(sum(law.values()) - 1.0) < 1e-12
    assert p_value(counts, law, problem) > LEVEL
    post = problem.posterior()
    assert post.n_trees == 1 or g_test(counts, post.p) < 1e-20


def model_of(problem, **options):
    cuts = {"cuts": "grid", "n_cuts": problem.n_cuts} if problem.cuts == "grid" else {}
    return bart.Model(problem.X, problem.target, alpha=problem.alpha, beta=problem.beta, scale=False,
                      sigma=problem.sigma2 ** 0.5, leaf_mean=problem.leaf_mean, leaf_var=problem.leaf_var,
                      dim_weights=tuple(problem.dim_weights), **cuts, **options)


@pytest.mark.parametrize("name, n_bins", SEEN)
def test_grown_trees_follow_the_product_of_their_decisions(name, n_bins, rng):
    """G-test of 100 000 passes, from whatever tree."""
    problem = PROBLEMS[name]()
    check_law(problem, grown_law(problem, n_bins), start_counts(problem, Start("grow"), 100_000, rng, n_bins))


@pytest.mark.parametrize("name, n_particles", FILTERED)
def test_filtered_trees_follow_the_law_of_few_particles(name, n_particles, rng):
    problem, sampler = PROBLEMS[name](), Start("smc", n_particles=n_particles)
    check_law(problem, filtered_law(problem, n_particles), start_counts(problem, sampler, 100_000, rng))


@pytest.mark.parametrize("name, n_bins, mutant", [
    ("ties", None, "sigma for variance"), ("line", None, "depths from 0"),
    ("line", 3, "cell share left out")])
def test_wrong_laws_of_grown_trees_are_seen(name, n_bins, mutant, rng):
    problem = PROBLEMS[name]()
    counts = start_counts(problem, Start("grow"), 100_000, rng, n_bins)
    assert p_value(counts, grown_law(problem, n_bins, mutant), problem) < LEVEL


@pytest.mark.parametrize("name, wrong", [
    ("line", {"mutant": "first particle kept"}), ("line", {"mutant": "weights kept on copy"}),
    ("ties", {"mutant": "sigma for variance"}), ("shallow", {"mutant": "root always split"}),
    ("precise_ties", {"mutant": "skipped stages"}), ("ties", {"mutant": "stop of unsplittable nodes weighted"}),
    ("line", {"ess_threshold": 0.0}), ("line", {"clamped": True}), ("triple_line", {"n_particles": 3})], ids=str)
def test_wrong_laws_of_filtered_trees_are_seen(name, wrong, rng):
    problem = PROBLEMS[name]()
    counts = start_counts(problem, Start("smc", n_particles=2), 100_000, rng)
    assert p_value(counts, filtered_law(problem, **wrong), problem) < LEVEL


@pytest.mark.parametrize("name, n_bins", SEEN)
def test_the_same_decisions_on_the_same_uniforms(name, n_bins, rng):
    problem = PROBLEMS[name]()
    state, params = make_state(problem, n_bins=n_bins), make_params(problem)
    proposal, grown = OptimalProposal(problem, cells_of(state)), set()
    for _ in range(200):
        uniforms = script_of(rng, 100)
        bits = ScriptedBitGenerator(uniforms)
        state.step(Start("grow").plan(), problem.target, params, bits.generator)
        source = Uniforms(iter(uniforms).__next__)
        assert state.structure == grow(problem, proposal, source)
        assert bits.n_used == source.n_used + 1         # the draw of one particle among one
        grown.add(state.structure)
    assert len(grown) > 1 or name == "unsplit_root"


@pytest.mark.parametrize("n_particles, n_times", [(1, 100), (2, 200), (5, 100), (FILTERS["smc"]["n_particles"], 10)])
@pytest.mark.parametrize("name", ["line", "plane", "ties", "weighted", "grid", "precise_ties", "tiles", "unsplit_root"])
def test_filters_decide_alike_on_the_same_uniforms(name, n_particles, n_times, rng):
    problem = PROBLEMS[name]()
    sampler, state = Start("smc", n_particles=n_particles), make_state(problem)
    twin, found = ParticleGibbs(problem, n_particles, clamped=False), set()
    for _ in range(n_times):
        tree = state.structure
        info, n_used, result, n_twin = both_step(state, sampler, twin, tree, script_of(rng, 100 * n_particles))
        assert (state.structure, n_used, info.n_stages) == (result.tree, n_twin, result.n_stages)
        assert info.row_visits == result.row_visits
        found.add(tree)
    assert len(found) > 1 or name == "unsplit_root"


@pytest.mark.parametrize("init, name", [*(("grow", name) for name in ("line", "ties", "weighted", "cube")),
                                        *(("smc", name) for name in ("line", "ties", "weighted_three", "cube"))])
def test_an_ensemble_starts_from_such_trees(init, name, rng, two_particles):
    """G-test of the trees; leaf values from their posterior given the tree: Kolmogorov-Smirnov."""
    problem = PROBLEMS[name]()
    law, model = LAWS[init](problem), model_of(problem, n_trees=1)
    trees, z = list(law), []
    counts = dict.fromkeys(trees, 0)
    for _ in range(4_000):
        state = bart.Ensemble(model, bart.CGM(), rng, init=init).trees[0]
        counts[state.structure] += 1
        n, sums = state.leaf_counts(), np.bincount(state.leaf_of_row, problem.target - problem.leaf_mean)
        precision = 1.0 / problem.leaf_var + n / problem.sigma2
        mean = problem.leaf_mean + sums / problem.sigma2 / precision
        z += list((state.leaf_values - mean) * np.sqrt(precision))
    assert g_test(list(counts.values()), list(law.values())) > LEVEL
    assert stats.kstest(z, "norm").pvalue > LEVEL


@pytest.mark.parametrize("init, n_times", [("grow", 2_000), ("smc", 800)])
def test_each_tree_is_drawn_given_the_trees_before_it(init, n_times, rng, two_particles):
    """How often the second is a stump, against its probability given what the first leaves, by twin: |z| < 4.5."""
    X, y = [[0.0], [0.0], [1.0], [1.0]], [3.0, 2.5, -2.8, -3.0]

    def p_stump(target):
        problem = Problem(X, target, 0.5, 2.0, alpha=0.5, beta=1.0)
        return LAWS[init](problem)[None]

    model = model_of(Problem(X, y, 0.5, 2.0, alpha=0.5, beta=1.0), n_trees=2)
    excess = variance = stumps = 0.0
    for _ in range(n_times):
        trees = bart.Ensemble(model, bart.CGM(), rng, init=init).trees
        p = p_stump(y - trees[0].fit())
        stumps += trees[1].structure is None
        excess += (trees[1].structure is None) - p
        variance += p * (1.0 - p)
    assert abs(excess) < 4.5 * np.sqrt(variance)
    assert p_stump(y) + 0.15 < stumps / n_times         # so a tree drawn on y itself would show


def test_a_chain_from_grown_trees_repeats_and_is_recorded():
    model, size = make_model(), {"n_burn": 0, "n_draws": 4, "n_chains": 2, "seed": 3, "progress": False}
    post = bart.sample(model, "cgm", init="grow", **size)
    assert_same(post, bart.sample(model, "cgm", init="grow", executor=2, **size))
    assert post.starts == ["grow", "grow"]
    mixed = bart.sample(model, "cgm", init=["empty", "grow"], **size)
    assert mixed.starts == ["empty", "grow"]
    np.testing.assert_array_equal(mixed["sigma"][1], post["sigma"][1])


def test_grown_trees_fit_and_need_no_size():
    """Far above the empty start on data with signal, from the first sweep; `init_leaves` is of another start."""
    X, y = make_data(400)
    model, size = bart.Model(X, y, n_trees=5), {"n_burn": 0, "n_draws": 1, "n_chains": 5, "seed": 1}
    levels = {init: bart.sample(model, "growprune", init=init, progress=False, **size)["log_likelihood"]
              for init in ("empty", "grow")}
    assert levels["grow"].min() > levels["empty"].max() + 50.0
    with pytest.raises(ValueError, match="init_leaves"):
        bart.sample(model, "cgm", init="grow", init_leaves=5, **size)


@pytest.mark.parametrize("sampler", ["local", "pg(proposal=optimal, n_particles=3)"])
@pytest.mark.parametrize(("prior", "most"), [({"alpha": 0.0}, 0), ({"beta": 5e3}, 1),
                                             ({"beta": 5e3, "dim_weights": (1.0, 3.0)}, 1)], ids=str)
def test_nothing_splits_where_the_prior_cannot_however_strong_the_signal(prior, most, sampler, rng):
    """p_s = 0 (or below the least double) against likelihood ratios above exp(745)."""
    X = rng.random((80, 2))
    y = np.where(X[:, 0] > 0.5, np.where(X[:, 1] > 0.5, 100.0, 0.0), -100.0)
    model = bart.Model(X, y, n_trees=1, scale=False, sigma=1.0, leaf_var=1e4, **prior)
    for init in ("grow", "empty"):
        ensemble = bart.Ensemble(model, sampler, rng, init=init)
        assert ensemble.trees[0].depth <= most
        traces = ensemble.run(50)
        assert ensemble.trees[0].depth <= most and np.isfinite(traces["log_likelihood"]).all()
