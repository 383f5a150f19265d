"""Samplers of one tree given the others, a module each; their compositions; what acts between sweeps."""

from .auto import auto_sampler
from .base import StepInfo, StepParams, TreeSampler, draw_leaf_values
from .cgm import CGM
from .compose import Cycle, Mixture
from .grow_prune import GrowPrune
from .joint import JointLeaves
from .levels import Levels
from .local import Local
from .particle_gibbs import ParticleGibbs
from .perturb import Perturb
from .recut import Recut
from .reroute import Reroute
from .rotate import Rotate
from .slide import Slide
from .splice import Splice
from .text import format_sampler, parse_sampler
from .transpose import Transpose

__all__ = ["CGM", "Cycle", "GrowPrune", "JointLeaves", "Levels", "Local", "Mixture", "ParticleGibbs", "Perturb",
           "Recut", "Reroute", "Rotate", "Slide", "Splice", "StepInfo", "StepParams", "Transpose", "TreeSampler",
           "auto_sampler", "draw_leaf_values", "format_sampler", "parse_sampler"]
