"""Exact samplers for Bayesian additive regression trees (BART)."""

__version__ = "0.1.0"       # first: runs record it

from .backfitting import Ensemble
from .data import Dataset, RankCodes
from .diagnostics import effective_size
from .hyperpriors import ChiK, Dirichlet
from .kernels.state import TreeState
from .ladder import Ladder
from .model import Model
from .outcomes import Outcome, Probit
from .permutation import permutation_null
from .posterior import Posterior, load
from .priors import LeafPrior, NoisePrior, TreePrior
from .runs import resume
from .samplers import (
    CGM,
    Cycle,
    GrowPrune,
    JointLeaves,
    Levels,
    Local,
    Mixture,
    ParticleGibbs,
    Perturb,
    Recut,
    Reroute,
    Rotate,
    Slide,
    Splice,
    StepInfo,
    StepParams,
    Transpose,
    TreeSampler,
    auto_sampler,
    draw_leaf_values,
    format_sampler,
    parse_sampler,
)
from .sampling import sample
from .stopping import RunState, StopSampling, Targets
from .trees import Forest

__all__ = [
    "CGM", "ChiK", "Cycle", "Dataset", "Dirichlet", "Ensemble", "Forest", "GrowPrune", "JointLeaves", "Ladder",
    "LeafPrior", "Levels", "Local", "Mixture", "Model", "NoisePrior", "Outcome", "ParticleGibbs", "Perturb",
    "Posterior", "Probit", "RankCodes", "Recut", "Reroute", "Rotate", "RunState", "Slide", "Splice", "StepInfo",
    "StepParams", "StopSampling", "Targets", "Transpose", "TreePrior", "TreeSampler", "TreeState", "auto_sampler",
    "draw_leaf_values", "effective_size", "format_sampler", "load", "parse_sampler", "permutation_null", "resume",
    "sample",
]

# Modules on optional packages, imported where they are first named.
_OPTIONAL = ("estimators",)


def __getattr__(name):
    if name in _OPTIONAL:
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
