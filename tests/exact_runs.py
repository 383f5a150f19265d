"""Long runs on the tiny problems whose exact laws an independent program computed."""

import json
from pathlib import Path

import numpy as np
from auto_choices import AUTO, AUTO_STEPS
from bart.kernels.forest import ForestStore, predict_draws
from bart.kernels.testing import trace_steps
from compiled import make_params, make_state
from oracle import Problem

import bart
from bart import (
    CGM,
    Cycle,
    GrowPrune,
    Local,
    Mixture,
    ParticleGibbs,
    Perturb,
    Recut,
    Reroute,
    Rotate,
    Slide,
    Splice,
    Transpose,
)

CASES = {case["name"]: case
         for case in json.loads((Path(__file__).parent / "golden" / "tiny_posteriors.json").read_text())}
_SUBTREE = ParticleGibbs(2, region="subtree", proposal="optimal", final="forced")
SAMPLERS = {
    "GrowPrune": GrowPrune(),
    "CGM": CGM(),
    "CGM .25 .25 .40 .10": CGM(move_probs=(0.25, 0.25, 0.40, 0.10)),
    "Splice": Splice(),
    "PG C=2": ParticleGibbs(2),
    "PG C=3": ParticleGibbs(3),
    "PG C=10": ParticleGibbs(10),
    "PG C=2 systematic": ParticleGibbs(2, "systematic"),
    "PG C=3 systematic": ParticleGibbs(3, "systematic"),
    "PG C=2 killing": ParticleGibbs(2, "killing"),
    "PG C=3 killing": ParticleGibbs(3, "killing"),
    "PG C=5 below .5": ParticleGibbs(5, ess_threshold=0.5),
    "PG C=3 never": ParticleGibbs(3, ess_threshold=0.0),
    "PG C=2 forced": ParticleGibbs(2, final="forced"),
    "PG C=10 forced": ParticleGibbs(10, final="forced"),
    "PG C=5 systematic below .5 forced": ParticleGibbs(5, "systematic", 0.5, "forced"),
    "optimal C=2": ParticleGibbs(2, proposal="optimal"),
    "optimal C=3 below .5 forced": ParticleGibbs(3, ess_threshold=0.5, final="forced", proposal="optimal"),
    "optimal C=2 subset 1": ParticleGibbs(2, proposal="optimal", subset=1),
    "optimal C=3 subset 2 share .3": ParticleGibbs(3, "killing", proposal="optimal", subset=2, prior_share=0.3),
    "subtree C=5": ParticleGibbs(5, region="subtree"),
    "subtree optimal C=2 never forced": ParticleGibbs(2, ess_threshold=0.0, final="forced", proposal="optimal",
                                                      region="subtree"),
    "subtree optimal C=3 subset 1 share .3": ParticleGibbs(3, "systematic", 0.5, proposal="optimal", subset=1,
                                                           prior_share=0.3, region="subtree", descend=0.7),
    "local": Local(),
    "local subset 1": Local(subset=1),
    "local slot": Local(descend=0.5),
    "local slot subset 1": Local(subset=1, descend=0.7),
    "cycle local perturb rotate": Cycle(Local(), Perturb(), Rotate()),
    "cycle local recut": Cycle(Local(), Recut()),
    "cycle growprune recut all": Cycle(GrowPrune(), Recut(subset=None)),
    "cycle cgm splice transpose": Cycle(CGM(), Splice(), Transpose()),
    "cycle cgm reroute": Cycle(CGM(), Reroute()),
    "mixture local / subtree optimal": Mixture((0.7, Local()), (0.3, _SUBTREE)),
} | {f"auto: {text}": sampler for text, sampler in AUTO_STEPS.items()}
# Of whole chains alone: what acts between sweeps makes no single steps.
BETWEEN_SWEEPS = {
    "cycle growprune slide": Cycle(GrowPrune(), Slide(every=1)),
    "cycle cgm slide 2 gaps": Cycle(CGM(), Slide(every=1, n_gaps=2, n_rows=1)),
} | {f"auto: {text}": sampler for text, sampler in AUTO.items() if text not in AUTO_STEPS}
# Steps before the first one that counts, as a share of those that do.
BURN_SHARE = 0.02


def make_problem(case):
    return Problem(*(case[k] for k in ("X", "target", "sigma2", "leaf_var", "leaf_mean", "alpha", "beta")))


def root_key(problem, entry):
    """(dim, code) of an entry of the law of the root; dim -1 where it is a leaf."""
    if "stop" in entry:
        return -1, 0
    return entry["dim"], problem.values[entry["dim"]].index(entry["between"][0])


def root_name(key):
    return "root is a leaf" if key[0] < 0 else f"root rule {key}"


def exact_means(case):
    """Exact mean of each quantity of `step_traces`, by name."""
    problem, exact = make_problem(case), case["exact"]
    found = {f"{k} leaves": p for k, p in enumerate(exact["p_n_leaves"], start=1)}
    found |= {root_name(root_key(problem, e)): e.get("stop", e.get("p")) for e in exact["root"]}
    return found | {f"f at row {n}": mean for n, mean in enumerate(exact["posterior_mean_f"])}


def step_traces(case, sampler, n_steps, rng):
    """Traces of the number of leaves, the root's decision (both as indicators) and f at each row, (n_steps,) each."""
    problem = make_problem(case)
    state, params = make_state(problem), make_params(problem)
    trace_steps(sampler, state, problem.target, params, rng, int(BURN_SHARE * n_steps))
    leaves, dims, codes, f = trace_steps(sampler, state, problem.target, params, rng, n_steps)
    return named_traces(case, problem, leaves, dims, codes, f)


def named_traces(case, problem, leaves, dims, codes, f):
    """Of leaves, dimension and code of the root's rule, and f at each row: the quantities of `exact_means`."""
    found = {f"{k} leaves": leaves == k for k in range(1, len(case["exact"]["p_n_leaves"]) + 1)}
    for entry in case["exact"]["root"]:
        dim, code = key = root_key(problem, entry)
        found[root_name(key)] = (dims == dim) & ((codes == code) | (dim < 0))
    return found | {f"f at row {n}": f[:, n] for n in range(problem.n_rows)}


def sweep_traces(case, sampler, n_sweeps, rng):
    """As `step_traces`, of a whole chain with one tree and fixed noise, in the units of y; read off stored trees."""
    model = bart.Model(case["X"], case["target"], n_trees=1, alpha=case["alpha"], beta=case["beta"], scale=False,
                       sigma=case["sigma2"] ** 0.5, leaf_mean=case["leaf_mean"], leaf_var=case["leaf_var"])
    n_burn = int(BURN_SHARE * n_sweeps)
    ensemble, store = bart.Ensemble(model, sampler, rng), ForestStore(1)
    ensemble.run(n_burn)
    leaves = ensemble.run(n_sweeps, store=store)["n_leaves"]
    problem, roots = make_problem(case), store.nodes[store.starts[:-1]]
    dims, codes = roots["dim"], np.zeros(n_sweeps, dtype=int)
    for dim, values in enumerate(problem.values):
        codes[dims == dim] = np.searchsorted(values, roots["value"][dims == dim], side="right") - 1
    f = np.empty((n_sweeps, problem.n_rows))
    predict_draws(problem.X, store.nodes, store.starts, 1, 0, n_sweeps, f)
    return named_traces(case, problem, leaves, dims, codes, f)
