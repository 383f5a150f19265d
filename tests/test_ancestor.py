"""Ancestor sampling as the experiment has it: exact, by enumeration, and it does what it says."""

import numpy as np
import pytest
from chain_helpers import make_data
from oracle import bfs
from tiny import PROBLEMS
from twin_particles import ParticleGibbs
from twin_random import outcomes, staged_outcomes, transition_matrix

import bart
from experiments import ancestor, ancestor_kernel
from experiments.ancestor_kernel import (
    AncestorGibbs,
    AncestorSampler,
    Draws,
    OneTree,
    decisions_of,
    draw_slot,
    structure_of,
)

SMALL = [("pair", 2), ("triple", 2), ("triple_line", 2), ("triple_line", 3), ("square", 2), ("cube", 2)]


def one_tree(problem):
    values = [np.array(values) for values in problem.values]
    return OneTree(np.array(problem.codes), values, problem.target, problem.sigma2, problem.leaf_var,
                   problem.leaf_mean, problem.alpha, problem.beta)


class Enumerated:
    """An AncestorGibbs with the law that the matrix of a twin is made of."""

    def __init__(self, kernel):
        self.kernel = kernel

    def law(self, tree):
        kernel = self.kernel
        law = staged_outcomes(kernel.start(decisions_of(tree)), kernel.advance, lambda s: s.is_done, kernel.finish)
        return {structure_of(decisions): p for decisions, p in law.items()}


class EnumeratedSubtrees(Enumerated):
    """The same at a slot of its own."""

    def law(self, tree):
        kernel, law = self.kernel, {}
        for slot, p in outcomes(lambda draws: draw_slot(tree, 0.6, draws)).items():
            if slot is None:
                law[tree] = law.get(tree, 0.0) + p
                continue
            node, subtree = slot
            start = kernel.start(decisions_of(subtree), node)
            for decisions, q in staged_outcomes(start, kernel.advance, lambda s: s.is_done, kernel.finish).items():
                new = ancestor_kernel.replaced(tree, node, structure_of(decisions))
                law[new] = law.get(new, 0.0) + p * q
        return law


def second_eigenvalue(matrix):
    return sorted(abs(np.linalg.eigvals(matrix)))[-2]


@pytest.mark.parametrize("name, size", SMALL)
def test_ancestor_sampling_is_exact(name, size):
    """|pi K - pi| < 1e-12; without it the kernel is particle Gibbs, with it another one."""
    problem = PROBLEMS[name]()
    post = problem.posterior()
    plain, sampled = (transition_matrix(Enumerated(AncestorGibbs(one_tree(problem), size, on)), post.trees)
                      for on in (False, True))
    twin = transition_matrix(ParticleGibbs(problem, size), post.trees)
    np.testing.assert_allclose(plain, twin, rtol=0, atol=1e-12)
    for matrix in (plain, sampled):
        assert abs(post.p @ matrix - post.p).max() < 1e-12
    assert name == "pair" or abs(sampled - plain).max() > 1e-3
    assert second_eigenvalue(sampled) < second_eigenvalue(plain) + 1e-12


@pytest.mark.parametrize("name, size", SMALL)
def test_ancestor_sampling_in_a_subtree_is_exact(name, size):
    problem = PROBLEMS[name]()
    post = problem.posterior()
    plain, sampled = (transition_matrix(EnumeratedSubtrees(AncestorGibbs(one_tree(problem), size, on)), post.trees)
                      for on in (False, True))
    twin = transition_matrix(ParticleGibbs(problem, size, region="subtree", descend=0.6), post.trees)
    np.testing.assert_allclose(plain, twin, rtol=0, atol=1e-12)
    assert abs(post.p @ sampled - post.p).max() < 1e-12


@pytest.mark.parametrize("broken", ["weights", "prior", "likelihood"])
def test_an_error_in_the_ancestors_weight_shows(broken, monkeypatch):
    problem = PROBLEMS["triple"]()
    post, kernel = problem.posterior(), AncestorGibbs(one_tree(problem), 2, True)
    if broken == "weights":
        ancestors = kernel._ancestors
        monkeypatch.setattr(kernel, "_ancestors", lambda new, reference: ancestors(
            [particle._replace(log_weight=0.0) for particle in new], reference))
    elif broken == "likelihood":
        log_future = kernel._log_future
        monkeypatch.setattr(kernel, "_log_future", lambda queue, future: 0.0 if log_future(queue, future) > -np.inf
                            else -np.inf)
    else:
        log_prior = kernel.model.log_prior
        monkeypatch.setattr(kernel.model, "log_prior", lambda node, rule: min(log_prior(node, rule), -1.0))
    matrix = transition_matrix(Enumerated(kernel), post.trees)
    assert abs(post.p @ matrix - post.p).max() > 1e-6


def test_the_log_density_is_that_of_the_slow_model():
    """gamma(tree) / gamma(root alone), from the future of an empty past."""
    for name in ("line", "square", "ties", "long_line", "cube"):
        problem = PROBLEMS[name]()
        kernel = AncestorGibbs(one_tree(problem), 2, True)
        for tree in problem.posterior().trees:
            found = kernel._log_future(((),), decisions_of(tree))
            assert found == pytest.approx(problem.log_joint(tree) - problem.log_likelihood(problem.all_rows), abs=1e-10)
            assert structure_of(decisions_of(tree)) == tree
            internal = [path for path, node in bfs(tree) if node is not None]
            assert (kernel._cost(((),), decisions_of(tree)) > 0) == bool(internal)


def test_what_is_seen_by_hand():
    """Two pasts of one split each: a future of two stops fits both, one of three decisions only where it is valid."""
    model = one_tree(PROBLEMS["triple_line"]())
    particles = [ancestor_kernel.Particle(((0, code), None), (((0, code, "R"),),), code) for code in (0, 1)]
    for future, fits in (((None,), True), (((0, 1), None, None), False)):
        kernel = AncestorGibbs(model, 2, False, [])
        chances = kernel._ancestors(particles, ((0, 0), None, *future))
        seen = kernel.seen[0]
        assert (seen.is_open, seen.n_others, seen.fits, seen.fits_places) == (True, 1, fits, fits)
        assert seen.p_other == pytest.approx(chances[1]) == seen.p_other_places and (chances[1] > 0) == fits
    other = particles[1]._replace(decisions=((0, 1), (0, 0)), queue=(((0, 1, "R"),), ((0, 1, "L"), (0, 0, "L")),
                                                                    ((0, 1, "L"), (0, 0, "R"))))
    kernel = AncestorGibbs(model, 2, False, [])
    assert kernel._ancestors([particles[0], other], ((0, 0), None, None))[0] == 1.0
    assert kernel.row_visits == 0 and not kernel.seen[0].fits


@pytest.mark.parametrize("region", ["tree", "subtree"])
@pytest.mark.parametrize("samples_ancestors", [False, True])
def test_the_sampler_steps_a_tree(samples_ancestors, region, rng):
    """In chains; its row visits are those of the compiled kernel, and with ancestors some more."""
    X, y = make_data()
    model = bart.Model(X, y, n_trees=2)
    sampler = AncestorSampler(4, samples_ancestors, descend=0.5 if region == "subtree" else None)
    visits = bart.Ensemble(model, sampler, rng).run(400)["row_visits"]
    compiled = bart.Ensemble(model, bart.ParticleGibbs(4, region=region), rng).run(400)["row_visits"]
    ratio = visits.mean() / compiled.mean()
    assert 0.75 < ratio < (3.0 if samples_ancestors else 1.33)


def test_the_script_writes_its_tables(tmp_path, monkeypatch, capsys):
    """On one small problem; GrowPrune's steps of a stump are grows of the root, which show in all columns."""
    cases = ("hypercube-2", 1, "truth", 20, 2), ("friedman-30-5", 3, "empty", 20, None)
    monkeypatch.setattr(ancestor, "CASES", cases)
    monkeypatch.setattr(ancestor, "CLIMBS", ("hypercube-2",))
    ancestor.main(["--references=3", "--repeats=2", "--data-sets=1", "--visits=500", f"--out={tmp_path}"])
    text = (tmp_path / "ancestor.txt").read_text()
    assert text == capsys.readouterr().out and text.count("subtree PG, C = 10, ancestors") == 3
    _, model = ancestor.make_model("hypercube-2", 1, 1)
    chosen = [(None, model.dataset.y_scaled, bart.StepParams(1e-4, 0.1))]
    found = ancestor.measure(chosen, model, bart.GrowPrune(), 200, np.random.default_rng(1))
    assert found["tree"] == found["leaf_sets"] == found["root"] > 0.2 and found["jump"] > 0
    assert found["leaf_sets_error"] == 0.0 and 14 < found["row_visits"] < 26


def test_draws_follow_their_probabilities(rng):
    draws, p = Draws(rng), np.array([0.2, 0.0, 0.5, 0.3])
    counts = np.bincount([draws.choice(p) for _ in range(20_000)], minlength=4)
    assert counts[1] == 0 and (abs(counts - 20_000 * p) <= 4.5 * np.sqrt(20_000 * p * (1 - p))).all()
