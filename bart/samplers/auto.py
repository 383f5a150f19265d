"""The sampler that is used where none is named: chosen by the sizes of the problem."""

from __future__ import annotations

from typing import NamedTuple

from ..model import Model
from .text import parse_sampler

AUTO = "auto"


class Choice(NamedTuple):
    """A sampler, for models with at least so many trees and rows."""

    sampler: str
    n_trees: int = 1
    n_rows: int = 1


# Three quarters of the moves grow and prune: they change how many leaves there are and what is split.
_CGM = "cgm(move_probs=(0.375, 0.375, 0.125, 0.125))"

# The first row whose sizes the model reaches is taken; every model reaches those of the last one.
# Many trees: slide moves the cuts, levels what the values of trees have in common, both of which else stay for hundreds
# and thousands of sweeps. With few rows and many columns full of ties a slide costs seven GrowPrune sweeps, so that it
# comes less often. Three trees at most: transpose exchanges the upper rules of a deep tree, reroute puts their cuts
# right, splice takes redundant ones away.
CHOICES = (
    Choice(f"{_CGM} + slide(every=2) + levels", n_trees=4, n_rows=500),
    Choice(f"{_CGM} + slide(every=10) + levels", n_trees=4),
    Choice("cgm + splice + transpose + reroute"),
)


def auto_sampler(model):
    """The sampler "auto" of a model: a function of its numbers of trees and rows alone.

    Parameters
    ----------
    model : Model

    Returns
    -------
    TreeSampler

    Raises
    ------
    TypeError
        `model` is no Model.
    """
    if not isinstance(model, Model):
        raise TypeError(f"model must be a Model, got {type(model).__name__}")
    sizes = (model.n_trees, model.dataset.n_rows)
    found = next(choice for choice in CHOICES
                 if all(size >= least for size, least in zip(sizes, choice[1:], strict=True)))
    return parse_sampler(found.sampler)


def resolve_sampler(sampler, model):
    """The sampler that a text stands for, `AUTO` included; whatever else is given is returned as it is."""
    if not isinstance(sampler, str):
        return sampler
    return auto_sampler(model) if sampler == AUTO else parse_sampler(sampler)
