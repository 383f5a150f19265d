"""The start "grow": the law of its trees by enumeration, and that each is drawn given the trees before it."""

import numpy as np
import pytest
from bart.kernels.plan import KernelPlan
from bart.kernels.testing import ScriptedBitGenerator, replicate
from chain_helpers import assert_same, make_data, make_model
from compiled import cells_of, make_params, make_state, script_of
from laws import g_test
from oracle import Problem, replace_at
from scipy import stats
from tiny import PROBLEMS
from twin_proposals import OptimalProposal
from twin_random import Uniforms, outcomes
from twins import Node

import bart
from bart.backfitting import FILTERS

LEVEL = 1e-5
SEEN = [(name, n_bins) for name in ("line", "plane", "ties", "long_line", "weighted", "grid", "cube", "unsplit_root")
        for n_bins in (None, 3)]
WEIGHED = ("line", "ties", "weighted", "cube")


class Grow(bart.TreeSampler):
    """The start's pass as a sampler, for what replicates steps."""

    def plan(self):
        return KernelPlan(**FILTERS["grow"])


def grow(problem, proposal, random):
    """The twin: nodes breadth first, each stopped or split by the optimal proposal."""
    tree, queue = None, [Node("", None, problem.all_rows, 0)]
    for node in queue:
        rule = proposal.propose(node, random)[0]
        if rule is not None:
            tree = replace_at(tree, node.path, (*rule, None, None))
            queue += [Node(node.path + side, None, rows, node.depth + 1)
                      for side, rows in zip("LR", problem.divide(node.rows, *rule), strict=True)]
    return tree


def law_of(problem, n_bins=None):
    """Exact law of the grown tree: dict of tree -> probability."""
    proposal = OptimalProposal(problem, cells_of(make_state(problem, n_bins=n_bins)))
    return outcomes(lambda random: grow(problem, proposal, random))


def model_of(problem, **options):
    cuts = {"cuts": "grid", "n_cuts": problem.n_cuts} if problem.cuts == "grid" else {}
    return bart.Model(problem.X, problem.target, alpha=problem.alpha, beta=problem.beta, scale=False,
                      sigma=problem.sigma2 ** 0.5, leaf_mean=problem.leaf_mean, leaf_var=problem.leaf_var,
                      dim_weights=tuple(problem.dim_weights), **cuts, **options)


@pytest.mark.parametrize("name, n_bins", SEEN)
def test_grown_trees_follow_the_product_of_their_decisions(name, n_bins, rng):
    """G-test of 100 000 passes, from whatever tree; the posterior is another law, and this test tells them apart."""
    problem = PROBLEMS[name]()
    law, post = law_of(problem, n_bins), problem.posterior()
    assert abs(sum(law.values()) - 1.0) < 1e-12
    state, start = make_state(problem, n_bins=n_bins), post.trees[-1]
    found = replicate(Grow(), state, start, problem.target, make_params(problem), rng, 100_000)
    keys = {make_state(problem, tree).key(): i for i, tree in enumerate(post.trees)}
    counts = np.zeros(len(keys))
    for key, count in found.items():
        counts[keys[key]] = count
    assert g_test(counts, [law.get(tree, 0.0) for tree in post.trees]) > LEVEL
    assert len(keys) == 1 or g_test(counts, post.p) < 1e-20


@pytest.mark.parametrize("name, n_bins", SEEN)
def test_the_same_decisions_on_the_same_uniforms(name, n_bins, rng):
    problem = PROBLEMS[name]()
    state, params = make_state(problem, n_bins=n_bins), make_params(problem)
    proposal, grown = OptimalProposal(problem, cells_of(state)), set()
    for _ in range(200):
        uniforms = script_of(rng, 100)
        bits = ScriptedBitGenerator(uniforms)
        state.step(Grow().plan(), problem.target, params, bits.generator)
        source = Uniforms(iter(uniforms).__next__)
        assert state.structure == grow(problem, proposal, source)
        assert bits.n_used == source.n_used + 1         # the draw of one particle among one
        grown.add(state.structure)
    assert len(grown) > 1 or name == "unsplit_root"


@pytest.mark.parametrize("name", WEIGHED)
def test_an_ensemble_starts_from_grown_trees(name, rng):
    """G-test of the trees; leaf values from their posterior given the tree: Kolmogorov-Smirnov."""
    problem = PROBLEMS[name]()
    law, model = law_of(problem), model_of(problem, n_trees=1)
    trees, z = list(law), []
    counts = dict.fromkeys(trees, 0)
    for _ in range(4_000):
        state = bart.Ensemble(model, bart.CGM(), rng, init="grow").trees[0]
        counts[state.structure] += 1
        n, sums = state.leaf_counts(), np.bincount(state.leaf_of_row, problem.target - problem.leaf_mean)
        precision = 1.0 / problem.leaf_var + n / problem.sigma2
        mean = problem.leaf_mean + sums / problem.sigma2 / precision
        z += list((state.leaf_values - mean) * np.sqrt(precision))
    assert g_test(list(counts.values()), list(law.values())) > LEVEL
    assert stats.kstest(z, "norm").pvalue > LEVEL


def test_each_tree_is_grown_given_the_trees_before_it(rng):
    """How often the second is a stump, against its probability given what the first leaves, by twin: |z| < 4.5."""
    X, y = [[0.0], [1.0], [2.5], [3.0]], [3.0, 2.5, -2.8, -3.0]

    def p_stump(target):
        problem = Problem(X, target, 0.5, 2.0, alpha=0.5, beta=1.0)
        weighed = OptimalProposal(problem).weigh(problem.all_rows, 0, (0,))
        return np.exp(weighed.log_weights[0] - weighed.log_z)

    model = model_of(Problem(X, y, 0.5, 2.0, alpha=0.5, beta=1.0), n_trees=2)
    excess = variance = stumps = 0.0
    for _ in range(2_000):
        trees = bart.Ensemble(model, bart.CGM(), rng, init="grow").trees
        p = p_stump(y - trees[0].fit())
        stumps += trees[1].structure is None
        excess += (trees[1].structure is None) - p
        variance += p * (1.0 - p)
    assert abs(excess) < 4.5 * np.sqrt(variance)
    assert p_stump(y) < 0.01 < 0.2 < stumps / 2_000         # so a tree grown on y itself would show


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
