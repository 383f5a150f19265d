"""The sampler "auto", samplers as texts in sample() and Ensemble, and what a run says of what made it."""

import concurrent.futures

import numpy as np
import pytest
from chain_helpers import assert_same, make_data, make_model
from chain_laws import assert_means
from exact_runs import CASES, exact_means, sweep_traces

import bart
from bart.samplers import auto
from bart.samplers.auto import CHOICES, Choice, auto_sampler

SIZE = {"n_burn": 5, "n_draws": 6, "n_chains": 2, "seed": 4, "progress": False}
FEW, MANY = 3, 25
LADDER = bart.Ladder(n_rungs=2, t_min=0.5)


def test_every_choice_is_a_sampler_and_every_model_has_one():
    for choice in CHOICES:
        assert bart.format_sampler(bart.parse_sampler(choice.sampler)) == choice.sampler
    assert CHOICES[-1][1:] == (1, 1)


def check_laws(choices, seed):
    """Whole chains of each choice against exact values; other files prove each of them by more than that."""
    case = CASES["four_rows_2d"]
    for number, choice in enumerate(choices):
        assert_means(lambda n, repeat, text=choice.sampler, number=number: sweep_traces(
            case, text, n, np.random.default_rng([seed, number, repeat])), exact_means(case), 10_000)


def test_every_choice_has_the_exact_law(seed):
    check_laws(CHOICES, seed)


@pytest.mark.parametrize("text", ["perturb", "rotate + perturb + recut", "reroute", "cgm(move_probs=(0, 0, 0.5, 0.5))",
                                  "perturb + slide(every=1) + levels"])
def test_a_choice_that_does_not_reach_every_tree_is_seen(text, seed):
    """Each part leaves the posterior invariant, so that only a chain that must find it tells."""
    with pytest.raises(AssertionError, match="leaves"):
        check_laws((Choice(text),), seed)


def test_the_first_choice_whose_sizes_are_reached_is_taken(monkeypatch):
    rows = (Choice("cgm", n_trees=9), Choice("pg", n_rows=50), Choice("rotate + cgm", 4, 20), Choice("growprune"))
    monkeypatch.setattr(auto, "CHOICES", rows)
    cases = {(9, 50, 3): 0, (9, 10, 1): 0, (8, 50, 3): 1, (8, 49, 3): 2, (8, 19, 3): 3, (3, 49, 2): 3}
    for (n_trees, *shape), expected in cases.items():
        model = bart.Model(*make_data(*shape), n_trees=n_trees)
        assert bart.format_sampler(auto_sampler(model)) == rows[expected].sampler


@pytest.mark.parametrize("n_trees", [FEW, MANY])
def test_auto_is_the_default_and_stands_for_its_parts(n_trees):
    """The same bits as of the sampler named, on threads and in other processes too."""
    model = make_model(n_trees)
    sampler = auto_sampler(model)
    post = bart.sample(model, **SIZE)
    assert_same(post, bart.sample(model, "auto", **SIZE))
    assert_same(post, bart.sample(model, sampler, **SIZE))
    assert_same(post, bart.sample(model, executor=2, **SIZE))
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        assert_same(post, bart.sample(model, executor=pool, **SIZE))
    assert post.sampler == bart.format_sampler(sampler) and bart.parse_sampler(post.sampler) == sampler
    assert post.ladder is None and repr(post.sampler) in repr(post)


@pytest.mark.parametrize("n_trees", [FEW, MANY])
@pytest.mark.parametrize("sampler", ["auto", "cgm", bart.CGM()])
def test_a_ladder_goes_with_auto_as_with_any_sampler(sampler, n_trees):
    model = make_model(n_trees)
    assert bart.sample(model, sampler, **SIZE).ladder is None
    post = bart.sample(model, sampler, ladder=LADDER, **SIZE)
    assert post.ladder == repr(LADDER) and post.swap_rates.shape == (2, 1)


def test_texts_are_samplers():
    """The paper's kernel is one word away."""
    model = make_model(FEW)
    for text, sampler in (("pg", bart.ParticleGibbs(n_particles=10, resampling="multinomial", final="plain")),
                          ("cgm + joint(every=2)", bart.Cycle(bart.CGM(), bart.JointLeaves(every=2)))):
        post = bart.sample(model, text, **SIZE)
        assert_same(post, bart.sample(model, sampler, **SIZE))
        assert post.sampler == text
        made = [bart.Ensemble(model, one, np.random.default_rng(1)) for one in (text, sampler)]
        np.testing.assert_array_equal(*(ensemble.run(9)["sigma"] for ensemble in made))
        assert made[0].sampler == sampler
        made[0].sampler = "growprune"
        assert made[0].sampler == bart.GrowPrune()
    assert bart.Ensemble(model, "auto", np.random.default_rng(1)).sampler == auto_sampler(model)


@pytest.mark.parametrize("make", [
    lambda model, text: bart.sample(model, text, **SIZE),
    lambda model, text: bart.Ensemble(model, text, np.random.default_rng(1)),
])
@pytest.mark.parametrize("text", ["", "automatic", "pg(n_particles=0)", "auto + cgm", "joint", "Auto"])
def test_bad_texts_are_refused_by_name(make, text):
    with pytest.raises(ValueError, match=r"\bsampler\b"):
        make(make_model(FEW), text)


@pytest.mark.parametrize("ladder", ["none", "auto", "", False, 8])
def test_bad_ladders_are_refused_by_name(ladder):
    for sampler in ("auto", "cgm"):
        with pytest.raises(TypeError, match=r"\bladder must be\b"):
            bart.sample(make_model(FEW), sampler, ladder=ladder, **SIZE)


def test_only_a_model_has_an_automatic_sampler():
    with pytest.raises(TypeError, match="model must be a Model"):
        auto_sampler(make_data())


def test_a_checkpoint_knows_what_auto_stood_for(tmp_path, monkeypatch):
    """A run is resumed under either name; where "auto" has come to mean something else it is refused."""
    model, folder = make_model(MANY), {"checkpoint": tmp_path / "run"}
    bart.sample(model, **{**SIZE, "n_draws": 2}, **folder)
    post = bart.sample(model, auto_sampler(model), **SIZE, **folder)
    assert_same(post, bart.sample(model, **SIZE))
    with pytest.raises(ValueError, match="other run"):
        bart.sample(model, ladder=LADDER, **SIZE, **folder)
    monkeypatch.setattr(auto, "CHOICES", (Choice("cgm"),))
    with pytest.raises(ValueError, match="other sampler"):
        bart.sample(model, **SIZE, **folder)
    with pytest.raises(ValueError, match="other sampler"):
        bart.sample(model, "pg", **SIZE, **folder)


def test_what_made_a_run_is_stored_with_it(tmp_path):
    post = bart.sample(make_model(FEW), **SIZE)
    post.save(tmp_path / "run.npz")
    found = bart.load(tmp_path / "run.npz")
    assert (found.sampler, found.ladder, repr(found)) == (post.sampler, post.ladder, repr(post))


class Own(bart.TreeSampler):
    """A sampler without a text."""

    def __init__(self, p):
        self.p = p

    def __repr__(self):
        return f"Own({self.p})"

    def step(self, state, target, params, rng):
        return bart.GrowPrune(self.p).step(state, target, params, rng)


def test_a_sampler_of_ones_own_is_recorded_by_what_it_says():
    post = bart.sample(make_model(FEW), Own(0.3), **SIZE)
    assert post.sampler == "Own(0.3)" and post.ladder is None


def test_several_chains_start_dispersed_by_default():
    model = make_model(MANY)
    assert bart.sample(model, **{**SIZE, "n_chains": 5}).starts == ["empty", "prior", "overgrown", "smc", "empty"]
    assert bart.sample(model, **{**SIZE, "n_chains": 1}).starts == ["empty"]
