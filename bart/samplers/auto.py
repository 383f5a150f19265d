"""The sampler that is used where none is named: chosen by the sizes of the problem."""

from __future__ import annotations

from typing import NamedTuple

from ..inputs import check_choice
from ..ladder import Ladder
from ..model import Model
from .text import parse_sampler

AUTO = "auto"


class Choice(NamedTuple):
    """A sampler and its ladder, for models with at least so many trees and rows."""

    sampler: str
    ladder: Ladder | None = None
    n_trees: int = 1
    n_rows: int = 1


# Three quarters of the moves grow and prune: they change how many leaves there are and what is split.
_CGM = "cgm(move_probs=(0.375, 0.375, 0.125, 0.125))"

# The first row whose sizes the model reaches is taken; every model reaches those of the last one.
# Many trees: slide moves the cuts, levels what the values of trees have in common, both of which else stay for hundreds
# and thousands of sweeps. With few rows and many columns full of ties a slide costs seven GrowPrune sweeps, so that it
# comes less often. Few trees: splice, and tempering, let a single tree leave its mode, and transpose exchanges its
# upper rules.
CHOICES = (
    Choice(f"{_CGM} + slide(every=2) + levels", n_trees=20, n_rows=500),
    Choice(f"{_CGM} + slide(every=10) + levels", n_trees=20),
    Choice("local + cgm + splice + levels", n_trees=4),
    Choice("cgm + splice + transpose", ladder=Ladder(n_rungs=24, t_min=0.25, every=2), n_rows=1000),
    Choice("cgm + splice + transpose", ladder=Ladder(n_rungs=12, t_min=0.2, every=2)),
)


def auto_sampler(model):
    """The sampler "auto" of a model: a function of its numbers of trees and rows alone.

    There is no ladder beside it where the model's outcome has latent variables (see `resolve_ladder`).

    Parameters
    ----------
    model : Model

    Returns
    -------
    sampler : TreeSampler
    ladder : Ladder or None
        Parallel tempering to go with it.

    Raises
    ------
    TypeError
        `model` is no Model.
    """
    if not isinstance(model, Model):
        raise TypeError(f"model must be a Model, got {type(model).__name__}")
    sizes = (model.n_trees, model.dataset.n_rows)
    found = next(choice for choice in CHOICES
                 if all(size >= least for size, least in zip(sizes, choice[2:], strict=True)))
    return parse_sampler(found.sampler), found.ladder if model.outcome is None else None


def resolve_sampler(sampler, model):
    """The sampler that a text stands for, `AUTO` included; whatever else is given is returned as it is."""
    if not isinstance(sampler, str):
        return sampler
    return auto_sampler(model)[0] if sampler == AUTO else parse_sampler(sampler)


def resolve_ladder(ladder, sampler, model):
    """A Ladder or None: what was given, or for `AUTO` what goes with the sampler, none with one that was named."""
    if isinstance(ladder, str):
        check_choice(ladder, "ladder", (AUTO,))
        return auto_sampler(model)[1] if isinstance(sampler, str) and sampler == AUTO else None
    if not (ladder is None or isinstance(ladder, Ladder)):
        raise TypeError(f"ladder must be a Ladder, {AUTO!r} or None, got {type(ladder).__name__}")
    if ladder is not None and model.outcome is not None:
        raise ValueError(f"ladder: parallel tempering is not exact with outcome={model.outcome.name!r}, whose latent "
                         "variables are drawn at t = 1; use ladder=None")
    return ladder
