"""Samplers of one tree given the others; each module holds one, `compose` their cycles and mixtures."""

from .base import StepInfo, StepParams, TreeSampler, draw_leaf_values
from .cgm import CGM
from .compose import Cycle, Mixture
from .grow_prune import GrowPrune
from .local import Local
from .particle_gibbs import ParticleGibbs
from .perturb import Perturb
from .rotate import Rotate

__all__ = ["CGM", "Cycle", "GrowPrune", "Local", "Mixture", "ParticleGibbs", "Perturb", "Rotate", "StepInfo",
           "StepParams", "TreeSampler", "draw_leaf_values"]
