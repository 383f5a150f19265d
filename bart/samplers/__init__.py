"""Samplers of one tree given the others; each module holds one."""

from .base import StepInfo, StepParams, TreeSampler, draw_leaf_values
from .cgm import CGM
from .grow_prune import GrowPrune
from .particle_gibbs import ParticleGibbs

__all__ = ["CGM", "GrowPrune", "ParticleGibbs", "StepInfo", "StepParams", "TreeSampler", "draw_leaf_values"]
