"""Samplers as text, and back."""

import numpy as np
import pytest
from chain_helpers import make_model
from test_compose import COMPOSED

import bart
from bart.samplers.text import SAMPLERS

GP, CGM, PG = bart.GrowPrune(), bart.CGM(), bart.ParticleGibbs()
PARSED = {
    "growprune": GP,
    "cgm": CGM,
    "pg": PG,
    "pg()": PG,
    "splice + cgm": bart.Cycle(bart.Splice(), CGM),
    "recut": bart.Recut(),
    "recut(subset=None)": bart.Recut(None),
    "cgm + splice + transpose": bart.Cycle(bart.CGM(), bart.Splice(), bart.Transpose()),
    "cgm + splice + transpose + reroute": bart.Cycle(bart.CGM(), bart.Splice(), bart.Transpose(), bart.Reroute()),
    "local + recut(subset=2)": bart.Cycle(bart.Local(), bart.Recut(2)),
    "joint(every=7)": bart.JointLeaves(7),
    "levels(every=2)": bart.Levels(2),
    "slide": bart.Slide(),
    "slide(every=2, n_gaps=8)": bart.Slide(2, 8),
    "growprune + slide(n_rows=32)": bart.Cycle(GP, bart.Slide(every=1, n_rows=32)),
    "pg(n_particles=2, final=forced)": bart.ParticleGibbs(2, final="forced"),
    "pg(resampling='killing', ess_threshold=None)": bart.ParticleGibbs(resampling="killing"),
    "cgm(move_probs=(.25, .25, .4, .1))": bart.CGM((0.25, 0.25, 0.4, 0.1)),
    "growprune + cgm + pg": bart.Cycle(GP, CGM, PG),
    "growprune + (cgm + pg)": bart.Cycle(GP, CGM, PG),
    " ( growprune\n + cgm )": bart.Cycle(GP, CGM),
    "+growprune": bart.Cycle(GP),
    "0.3*growprune | 0.7*pg": bart.Mixture((0.3, GP), (0.7, PG)),
    "growprune | cgm | pg": bart.Mixture(GP, CGM, PG),
    "growprune | (cgm | pg)": bart.Mixture(GP, bart.Mixture(CGM, PG)),
    "1*cgm": bart.Mixture(CGM),
    "cgm | growprune + pg": bart.Mixture(CGM, bart.Cycle(GP, PG)),
    "0.5*cgm | 0.5*(growprune + pg)": bart.Mixture(CGM, bart.Cycle(GP, PG)),
    "0.5*cgm | 0.5*(0.1*growprune | 0.9*pg)": bart.Mixture(CGM, bart.Mixture((0.1, GP), (0.9, PG))),
    "cgm + (0.3*pg(n_particles=2) | 0.7*growprune) + joint(every=5)": bart.Cycle(
        CGM, bart.Mixture((0.3, bart.ParticleGibbs(2)), (0.7, GP)), bart.JointLeaves(every=5)),
}
REFUSED = {
    "": "invalid syntax at character 1",
    "pg(": "never closed at character 3",
    "pg + loc": "unknown name .*growprune.*: 'loc' at character 6",
    "pg + é": "unknown name .*: 'é' at character 6",
    "é + pg + loc": "unknown name .*: 'é' at character 1",
    "pg(3)": "keyword=value: '3' at character 4",
    "pg(*x)": r"keyword=value: '\*x' at character 4",
    "cgm + pg(n=3)": r"unknown option of pg \(known are n_particles, .*: 'n=3' at character 10",
    "pg(**{})": "unknown option",
    "pg(n_particles=2, n_particles=3)": "(n_particles is given twice|repeated)",
    "pg(n_particles=0)": "n_particles must be at least 1",
    "pg(n_particles=2.5)": "n_particles must be an integer",
    "pg(n_particles=a.b)": "literal or a word: 'a.b' at character 16",
    "growprune - cgm": "make a sampler: 'growprune - cgm' at character 1",
    "pg.step": "make a sampler", "-pg": "make a sampler", "3": "make a sampler", "'pg'": "make a sampler",
    "pg; cgm": "invalid syntax at character 3",
    "0.5*pg | 0.4*cgm": "sum to 1",
    "0.5*pg | cgm": r"parts\[1\]",
    "0.5*pg + cgm": "sum to 1, got .0.5,.: '0.5.pg'",
    "x*pg | cgm": "number goes before",
    "True*pg": "number goes before", "pg*0.5": "number goes before", "2*0.5*pg": "number goes before",
    "joint + pg": "comes last", "slide + pg": "Slide .*comes last",
    "pg | (cgm + joint)": "JointLeaves acts between sweeps", "+joint": "JointLeaves",
    "\0": "null bytes", "pg" + " + pg" * 20_000: "too deeply",
}


@pytest.mark.parametrize("text", PARSED)
def test_what_texts_stand_for(text):
    sampler = bart.parse_sampler(text)
    assert sampler == PARSED[text] and repr(sampler) == repr(PARSED[text])


@pytest.mark.parametrize("sampler", [*PARSED.values(), *COMPOSED.values()], ids=repr)
def test_text_of_a_sampler_stands_for_it(sampler):
    assert bart.parse_sampler(bart.format_sampler(sampler)) == sampler


def test_text_is_short():
    assert bart.format_sampler(bart.Cycle(GP, bart.Mixture((0.3, bart.ParticleGibbs(2, final="forced")), (0.7, CGM)),
                                          bart.JointLeaves())) == (
        "growprune + (0.3*pg(n_particles=2, final=forced) | 0.7*cgm) + joint")


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused(text):
    with pytest.raises(ValueError, match=REFUSED[text]):
        bart.parse_sampler(text)


def test_other_types_are_refused():
    with pytest.raises(TypeError, match="text"):
        bart.parse_sampler(GP)
    with pytest.raises(ValueError, match="sampler must be made of growprune"):
        bart.format_sampler(bart.TreeSampler())


def random_sampler(rng, depth=3):
    """Any composition of any of the samplers."""
    kind = rng.integers(0, 5 if depth else 3)
    if kind < 3:
        return [bart.GrowPrune(rng.uniform(0.1, 0.9)), bart.CGM(), bart.ParticleGibbs(int(rng.integers(1, 20)))][kind]
    parts = [random_sampler(rng, depth - 1) for _ in range(rng.integers(1, 4))]
    if kind == 3:
        return bart.Cycle(*parts)
    return bart.Mixture(*zip(rng.dirichlet(np.ones(len(parts))), parts, strict=True))


def test_random_compositions_go_through_text(rng):
    for _ in range(300):
        sampler = random_sampler(rng)
        assert bart.parse_sampler(bart.format_sampler(sampler)) == sampler
        assert bart.parse_sampler(bart.format_sampler(bart.Cycle(sampler, bart.JointLeaves(3)))).parts[-1].every == 3


@pytest.mark.parametrize("name", SAMPLERS)
def test_registered_names_are_those_of_their_classes(name):
    made = bart.parse_sampler(name)
    assert type(made) is SAMPLERS[name] and made.name == name and bart.format_sampler(made) == name


@pytest.mark.parametrize("make", [bart.Local, lambda subset: bart.ParticleGibbs(3, proposal="optimal", subset=subset)],
                         ids=["local", "pg"])
def test_any_subset_at_least_as_large_as_the_columns_is_all_of_them(make):
    model, traces = make_model(n_rows=40), []
    for subset in (3, 2**31, 2**70):
        traces.append(bart.Ensemble(model, make(subset), np.random.default_rng(3)).run(20))
    for other in traces[1:]:
        np.testing.assert_array_equal(other["log_likelihood"], traces[0]["log_likelihood"])
