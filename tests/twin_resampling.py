"""Conditional resampling schemes: ancestors of C slots given that slot 0 keeps the clamped particle 0.

Each takes normalised weights over all C particles and returns the list of ancestors, the first of them 0.
"""

from __future__ import annotations

import math


def multinomial(weights, random, mutant=None):
    """C - 1 independent draws over all C particles."""
    size = len(weights)
    if mutant == "reference outside the pool":
        rest = sum(weights[1:])
        return [0] + [1 + random.choice([w / rest for w in weights[1:]]) for _ in range(1, size)]
    if mutant == "sorted draws, one overwritten":
        drawn = sorted(random.choice(weights) for _ in range(size))
        return [0, *drawn[1:]]
    return [0] + [random.choice(weights) for _ in range(1, size)]


def systematic(weights, random, mutant=None):
    """Systematic ancestors given that particle 0 has one, rotated by a uniform copy of it.

    With w = C W_0, f = floor(w) and p = w - f the offset is p U with probability p (f + 1) / w, else
    p + (1 - p) U: the law of the offset weighted by the number of ticks that fall on particle 0.
    """
    size = len(weights)
    w = size * weights[0]
    f = math.floor(w)
    p = w - f
    cumulative = [sum(weights[:i + 1]) for i in range(size)]
    # Within a piece of the offset's law, ancestors change where a tick crosses a cumulative weight.
    crossings = [size * c - math.floor(size * c) for c in cumulative]
    # With no weight at all the clamped particle holds the first tick alone: the limit of a small weight.
    first = p * (f + 1) / w if w > 0 else 1.0
    if mutant == "systematic offset unconditioned":
        u = random.uniform(crossings)
    elif random.choice([first, 1.0 - first]) == 0:
        u = p * random.uniform([c / p for c in crossings] if p > 0 else [])
    else:
        u = p + (1.0 - p) * random.uniform([(c - p) / (1.0 - p) for c in crossings])
    ticks = [(j + u) / size for j in range(size)]
    drawn = [next((i for i, c in enumerate(cumulative) if t < c), size - 1) for t in ticks]
    drawn[0] = 0        # holds already, but for rounding (and for a mutant)
    n_clamped = drawn.count(0)
    k = random.below(n_clamped)
    return [drawn[(i + k) % size] for i in range(size)]


def killing(weights, random, mutant=None):
    """Each particle survives with probability W_i / max W, else is redrawn; slots shifted at random."""
    size, top = len(weights), max(weights)
    away = [(1.0 - w / top) / size for w in weights]
    law = [1.0 - sum(away[1:]), *away[1:]]
    shift = 0 if mutant == "killing without the shift" else random.choice(law)
    before = [0] * size
    for i in range(size):
        if i == shift:
            continue
        keep = weights[i] / top
        before[i] = i if random.choice([keep, 1.0 - keep]) == 0 else random.choice(weights)
    return [before[(k + shift) % size] for k in range(size)]


SCHEMES = {"multinomial": multinomial, "systematic": systematic, "killing": killing}
