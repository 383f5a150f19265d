"""Sources of randomness for the slow twins, and the enumeration of every outcome.

A twin draws through three calls only: ``choice(p)`` (first index whose cumulative probability exceeds one
uniform), ``below(n)`` (floor of n times one uniform) and ``uniform(breaks)`` (one uniform, used only
through which interval between the breaks it falls in). So the law of what a twin returns is a finite sum.
"""

from __future__ import annotations

import numpy as np


class Uniforms:
    """Draws from a function that returns one uniform on [0, 1) a call."""

    def __init__(self, next_uniform):
        self._next = next_uniform
        self.n_used = 0

    def uniform(self, breaks=()):
        """The uniform itself."""
        self.n_used += 1
        return float(self._next())

    def choice(self, probabilities):
        """First index whose cumulative probability exceeds the uniform."""
        u, total = self.uniform(), 0.0
        for i, p in enumerate(probabilities):
            total += p
            if u < total:
                return i
        # Rounding may leave the total below u: the last index that can occur.
        return max(i for i, p in enumerate(probabilities) if p > 0)

    def below(self, n):
        """Floor of n u."""
        return min(int(self.uniform() * n), n - 1)


def scripted(uniforms):
    """Source that replays a list of uniforms; IndexError-like StopIteration when it runs dry."""
    return Uniforms(iter([float(u) for u in uniforms]).__next__)


def from_generator(rng):
    """Source that reads a numpy Generator."""
    return Uniforms(rng.random)


class _Replay:
    """Follows a recorded prefix of choices, then always takes the first possible one."""

    def __init__(self, prefix):
        self.path = prefix
        self.position = 0

    def choice(self, probabilities):
        if self.position == len(self.path):
            options = [(i, p) for i, p in enumerate(probabilities) if p > 0]
            self.path.append([options, 0])
        options, taken = self.path[self.position]
        self.position += 1
        return options[taken][0]

    def below(self, n):
        return self.choice([1.0 / n] * n)

    def uniform(self, breaks=()):
        edges = [0.0, *sorted({b for b in breaks if 0.0 < b < 1.0}), 1.0]
        i = self.choice([b - a for a, b in zip(edges, edges[1:], strict=False)])
        return 0.5 * (edges[i] + edges[i + 1])


def outcomes(function):
    """Exact law of ``function(random)``: dict of result -> probability, by depth-first enumeration."""
    law, path = {}, []
    while True:
        result = function(_Replay(path))
        probability = 1.0
        for options, taken in path:
            probability *= options[taken][1]
        law[result] = law.get(result, 0.0) + probability
        while path and path[-1][1] == len(path[-1][0]) - 1:
            path.pop()
        if not path:
            return law
        path[-1][1] += 1


def staged_outcomes(start, advance, is_done, finish):
    """Exact law of a kernel made of stages, merging equal states after each of them.

    The law is that of ``outcomes`` applied to the whole kernel, at a cost linear in the stages.
    """
    front, law = {start: 1.0}, {}
    while front:
        following = {}
        for state, weight in front.items():
            step, into = (finish, law) if is_done(state) else (advance, following)
            for result, p in outcomes(lambda random, f=step, s=state: f(s, random)).items():
                into[result] = into.get(result, 0.0) + weight * p
        front = following
    return law


def transition_matrix(twin, trees):
    """Row i is the exact law of one step of the twin from ``trees[i]``; columns in the same order.

    Raises
    ------
    KeyError
        If a step leaves the enumerated state space.
    """
    index = {tree: i for i, tree in enumerate(trees)}
    matrix = np.zeros((len(trees), len(trees)))
    for i, tree in enumerate(trees):
        for result, p in twin.law(tree).items():
            matrix[i, index[result]] += p
    return matrix


def stationary(matrix):
    """Stationary law of an irreducible matrix."""
    n = len(matrix)
    system = np.vstack([matrix.T - np.eye(n), np.ones(n)])
    return np.linalg.lstsq(system, np.append(np.zeros(n), 1.0), rcond=None)[0]
