"""Slow twins of compositions: products and convex sums of transition matrices, and steps that draw alike."""

from __future__ import annotations

from twins import Result


def root_of(tree):
    """The decision at the root."""
    return tree and tree[:2]


class Cycle:
    """Each twin in turn on the same target.

    Parameters
    ----------
    problem : Problem
    parts : sequence of twins
    """

    def __init__(self, problem, parts):
        self.problem, self.parts = problem, parts

    def step(self, tree, random):
        """One step of each part, on one source of uniforms."""
        results = []
        for part in self.parts:
            result = part.step(tree, random)
            moved = (tree != result.tree, root_of(tree) != root_of(result.tree))
            results.append(result._replace(
                changed=moved[0] if result.changed is None else result.changed,
                root_changed=moved[1] if result.root_changed is None else result.root_changed))
            tree = result.tree
        return Result(tree, results[-1].move, results[-1].log_ratio, sum(r.n_stages for r in results),
                      row_visits=sum(r.row_visits for r in results), changed=any(r.changed for r in results),
                      root_changed=any(r.root_changed for r in results))

    def law(self, tree):
        """Row of the product K_1 K_2 ... of the parts' matrices."""
        law = {tree: 1.0}
        for part in self.parts:
            following = {}
            for start, p in law.items():
                for end, q in part.law(start).items():
                    following[end] = following.get(end, 0.0) + p * q
            law = following
        return law


class Mixture:
    """One of the twins, drawn with fixed probabilities.

    Parameters
    ----------
    problem : Problem
    parts : sequence of twins
    probabilities : sequence of float
    """

    def __init__(self, problem, parts, probabilities):
        self.problem, self.parts, self.probabilities = problem, parts, probabilities

    def step(self, tree, random):
        """A step of the part drawn; one alone is not drawn."""
        chosen = random.choice(self.probabilities) if len(self.parts) > 1 else 0
        return self.parts[chosen].step(tree, random)

    def law(self, tree):
        """Row of the convex sum p_1 K_1 + p_2 K_2 + ... of the parts' matrices."""
        law = {}
        for probability, part in zip(self.probabilities, self.parts, strict=True):
            for end, q in part.law(tree).items():
                law[end] = law.get(end, 0.0) + probability * q
        return law
