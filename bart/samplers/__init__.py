"""Samplers of one tree given the others; each module holds one."""

from .base import StepInfo, StepParams, TreeSampler, draw_leaf_values
from .cgm import CGM
from .grow_prune import GrowPrune
from .local import Local
from .particle_gibbs import ParticleGibbs
from .perturb import Perturb
from .rotate import Rotate

__all__ = ["CGM", "GrowPrune", "Local", "ParticleGibbs", "Perturb", "Rotate", "StepInfo", "StepParams", "TreeSampler",
           "draw_leaf_values"]
