"""The slow model's problems as objects of the package, and twins beside the compiled samplers."""

from collections import Counter

from bart.kernels.columns import Domain
from bart.kernels.state import TreeState
from bart.kernels.testing import ScriptedBitGenerator
from oracle import bfs
from twin_compose import Cycle as CycleTwin
from twin_compose import Mixture as MixtureTwin
from twin_local import Local as LocalTwin
from twin_particles import ParticleGibbs as ParticleGibbsTwin
from twin_random import Uniforms
from twin_recut import Recut as RecutTwin
from twin_transpose import Transpose as TransposeTwin
from twins import CGM as CGMTwin
from twins import GrowPrune as GrowPruneTwin
from twins_rules import Perturb as PerturbTwin
from twins_rules import Reroute as RerouteTwin
from twins_rules import Rotate as RotateTwin
from twins_rules import Splice as SpliceTwin

from bart.data import RankCodes
from bart.priors import TreePrior
from bart.samplers import (
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
    Splice,
    StepParams,
    Transpose,
)

PAIRS = {
    "growprune": (GrowPrune, GrowPruneTwin),
    "cgm": (CGM, CGMTwin),
    "pg": (ParticleGibbs, ParticleGibbsTwin),
    "perturb": (Perturb, PerturbTwin),
    "rotate": (Rotate, RotateTwin),
    "splice": (Splice, SpliceTwin),
    "local": (Local, LocalTwin),
    "recut": (Recut, RecutTwin),
    "transpose": (Transpose, TransposeTwin),
    "reroute": (Reroute, RerouteTwin),
}


def make_pair(problem, kind, n_bins=None, **options):
    """(compiled sampler, its twin on the problem) with the same options, and the cells of states with `n_bins`.

    A "cycle" has the option `parts`, a list of (kind, options), a "mixture" `probabilities` too.
    """
    if kind in ("cycle", "mixture"):
        pairs = [make_pair(problem, part, n_bins, **of_part) for part, of_part in options["parts"]]
        samplers, twins = zip(*pairs, strict=True)
        if kind == "cycle":
            return Cycle(*samplers), CycleTwin(problem, twins)
        probabilities = options["probabilities"]
        return (Mixture(*zip(probabilities, samplers, strict=True)), MixtureTwin(problem, twins, probabilities))
    compiled, twin = PAIRS[kind]
    cells = {}
    if kind in ("local", "recut", "transpose") or options.get("proposal") == "optimal":
        cells["cells"] = cells_of(make_state(problem, n_bins=n_bins))
    return compiled(**options), twin(problem, **options, **cells)


def cells_of(state):
    """The cells of gaps of each dimension, as the twins take them."""
    pairs = [state.domain.cells(dim) for dim in range(state.domain.codes.codes.shape[0])]
    return [(first.tolist(), rep.tolist()) for first, rep in pairs]


_TWO = ("pg", {"n_particles": 2})
_SUBTREE = ("pg", {"n_particles": 2, "region": "subtree", "proposal": "optimal", "final": "forced"})
_KILLING = ("pg", {"n_particles": 3, "resampling": "killing", "final": "forced"})
COMPOSED = {
    "cycle-grow-grow": ("cycle", {"parts": [("growprune", {}), ("growprune", {"p_grow": 0.3})]}),
    "cycle-cgm-pg": ("cycle", {"parts": [("cgm", {}), _TWO]}),
    "cycle-pg-grow-cgm": ("cycle", {"parts": [_TWO, ("growprune", {}), ("cgm", {})]}),
    "mixture-grow-pg": ("mixture", {"parts": [("growprune", {}), _TWO], "probabilities": (0.3, 0.7)}),
    "mixture-alone": ("mixture", {"parts": [("cgm", {})], "probabilities": (1.0,)}),
    "cycle-of-mixture": ("cycle", {"parts": [("growprune", {}), ("mixture", {
        "parts": [("cgm", {}), _KILLING, ("growprune", {})], "probabilities": (0.5, 0.25, 0.25)}), ("growprune", {})]}),
    "mixture-of-cycle": ("mixture", {"parts": [("cycle", {"parts": [_TWO, ("cgm", {})]}), ("growprune", {})],
                                     "probabilities": (0.4, 0.6)}),
    "cycle-of-all": ("cycle", {"parts": [("rotate", {}), ("local", {"descend": 0.7}), ("splice", {}), ("perturb", {}),
                                         _SUBTREE, ("splice", {}), ("perturb", {}), ("rotate", {}),
                                         ("growprune", {}), ("recut", {"subset": None}), ("local", {}),
                                         ("recut", {})]}),
}


def make_prior(problem):
    """The problem's tree prior."""
    grid = {"n_cuts": problem.n_cuts} if problem.cuts != "width" else {}
    return TreePrior(alpha=problem.alpha, beta=problem.beta, cuts=problem.cuts,
                     dim_weights=tuple(problem.dim_weights), **grid)


def make_state(problem, tree=None, n_bins=None):
    """A compiled tree bound to the problem's data; `n_bins` - 1 is the most cells that a column's gaps are cut into."""
    bins = {} if n_bins is None else {"n_bins": n_bins}
    return TreeState(Domain(RankCodes(problem.X), make_prior(problem), **bins), structure=tree, weights=problem.weights)


def count_keys(state, draw, n):
    """How often n draws, each by `draw(state)`, give each structure: Counter by key."""
    counts = Counter()
    for _ in range(n):
        draw(state)
        counts[state.key()] += 1
    return counts


def make_params(problem):
    """Variances and mean of the problem."""
    return StepParams(problem.sigma2, problem.leaf_var, problem.leaf_mean)


def staged_paths(state):
    """Paths of the leaves that the authors' bookkeeping has marked."""
    nodes, waiting, out = state.dump(), [(0, "")], set()
    for number, path in waiting:
        left = int(nodes[number]["left"])
        if left >= 0:
            waiting += [(left, path + "L"), (left + 1, path + "R")]
        elif nodes[number]["staged"]:
            out.add(path)
    return out


def script_of(rng, length):
    """A stream of uniforms that a compiled step and a twin can both read."""
    return rng.random(length).tolist()


def both_step(state, sampler, twin, tree, uniforms, staged=frozenset()):
    """One step of each on the same uniforms: (StepInfo, uniforms used, twin's Result, uniforms used)."""
    problem = twin.problem
    bits = ScriptedBitGenerator(uniforms)
    info = sampler.step(state, problem.target, make_params(problem), bits.generator)
    source = Uniforms(iter(uniforms).__next__)
    extra = {"staged": staged} if isinstance(twin, ParticleGibbsTwin) else {}
    result = twin.step(tree, source, **extra)
    return info, bits.n_used, result, source.n_used


def stuck_staged(problem, tree, staged):
    """Marked leaves that cannot split: the only marks that matter."""
    rows = {"": problem.all_rows}
    for path, node in bfs(tree):
        if node is not None:
            rows[path + "L"], rows[path + "R"] = problem.divide(rows[path], node[0], node[1])
    return {path for path in staged if not problem.can_split(rows[path])}
