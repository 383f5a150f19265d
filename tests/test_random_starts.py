"""The starts that do not look at y, "prior" and "overgrown": the laws of their trees by enumeration, and twins."""

import numpy as np
import pytest
from bart.kernels.testing import ScriptedBitGenerator
from compiled import count_keys, make_state, script_of
from laws import g_test
from oracle import n_leaves, replace_at
from scipy import stats
from test_starts import LEVEL, grow, model_of
from tiny import PROBLEMS
from twin_proposals import PriorProposal
from twin_random import Uniforms, outcomes
from twins import GrowPrune, draw_rule

import bart
from bart.backfitting import OVERGROWN_LEAVES

SEEN = ("line", "plane", "ties", "long_line", "weighted", "grid", "cube", "shallow", "unsplit_root")


def from_prior(problem, random, mutant=None):
    return grow(problem, PriorProposal(problem, mutant), random, mutant)


def overgrow(problem, random, mutant=None):
    """The twin: any leaf that can be split, by a rule of the prior, until there are as many leaves as a start has."""
    tree = None
    while n_leaves(tree) < OVERGROWN_LEAVES and (nodes := GrowPrune(problem).growable(tree)):
        if mutant == "leaves by their rows":
            n = [len(node.rows) for node in nodes]
            node = nodes[random.choice([k / sum(n) for k in n])]
        elif mutant == "first leaf":
            node = nodes[0]
        else:
            node = nodes[random.below(len(nodes))]
        tree = replace_at(tree, node.path, (*draw_rule(problem, node.rows, random), None, None))
        if mutant == "a split at a time":
            break
    return tree


TWINS = {"prior": from_prior, "overgrown": overgrow}
DRAWS = {"prior": lambda state, rng: state.draw_from_prior(rng),
         "overgrown": lambda state, rng: state.overgrow(OVERGROWN_LEAVES, rng)}


def law_of(init, problem, mutant=None):
    """Exact law of the tree: dict of tree -> probability."""
    return outcomes(lambda random: TWINS[init](problem, random, mutant))


def p_value(init, problem, law, rng, n=50_000):
    """G-test of n compiled draws against a law over all trees; 0 where one is outside its support."""
    counts = count_keys(make_state(problem), lambda state: DRAWS[init](state, rng), n)
    trees = problem.posterior().trees
    found = [counts.pop(make_state(problem, tree).key(), 0) for tree in trees]
    assert not counts, "a tree that the prior does not have"
    return g_test(found, [law.get(tree, 0.0) for tree in trees])


@pytest.mark.parametrize("name", SEEN)
@pytest.mark.parametrize("init", TWINS)
def test_trees_follow_their_law(init, name, rng):
    problem = PROBLEMS[name]()
    law = law_of(init, problem)
    assert abs(sum(law.values()) - 1.0) < 1e-12
    assert p_value(init, problem, law, rng) > LEVEL


@pytest.mark.parametrize("init, name, mutant", [
    ("prior", "line", "depths from 0"), ("prior", "weighted", "depths from 0"),
    ("prior", "shallow", "root always split"), ("overgrown", "long_line", "leaves by their rows"),
    ("overgrown", "long_line", "first leaf"), ("overgrown", "ties", "a split at a time")])
def test_wrong_laws_are_seen(init, name, mutant, rng):
    problem = PROBLEMS[name]()
    assert p_value(init, problem, law_of(init, problem, mutant), rng) < LEVEL


@pytest.mark.parametrize("name", SEEN)
@pytest.mark.parametrize("init", TWINS)
def test_the_same_draws_on_the_same_uniforms(init, name, rng):
    problem, found = PROBLEMS[name](), set()
    state = make_state(problem)
    for _ in range(200):
        uniforms = script_of(rng, 100)
        bits, source = ScriptedBitGenerator(uniforms), Uniforms(iter(uniforms).__next__)
        DRAWS[init](state, bits.generator)
        assert state.structure == TWINS[init](problem, source)
        assert bits.n_used == source.n_used
        found.add(state.structure)
    assert len(found) > 1 or name == "unsplit_root"


@pytest.mark.parametrize("name", ["line", "ties", "weighted", "cube"])
@pytest.mark.parametrize("init", TWINS)
def test_an_ensemble_starts_from_such_trees(init, name, rng):
    """G-test of the second of two trees, whatever the first; leaf values from their prior: Kolmogorov-Smirnov."""
    problem = PROBLEMS[name]()
    law, model = law_of(init, problem), model_of(problem, n_trees=2)
    counts, z = dict.fromkeys(law, 0), []
    for _ in range(4_000):
        state = bart.Ensemble(model, bart.CGM(), rng, init=init).trees[1]
        counts[state.structure] += 1
        z += list((state.leaf_values - problem.leaf_mean) / np.sqrt(problem.leaf_var))
    assert g_test(list(counts.values()), list(law.values())) > LEVEL
    assert stats.kstest(z, "norm").pvalue > LEVEL
