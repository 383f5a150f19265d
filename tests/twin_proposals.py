"""Slow twins of the proposals of a node's decision: the prior, and the one-step optimal one over cells of gaps.

A decision is a rule ``(dim, gap)``, or None for a stop. Cells of a column are ``(first, rep)``: cell k holds the
gaps ``first[k]`` to ``first[k + 1] - 1`` and is weighed by the split at the gap ``rep[k]``, so that the weights are
those of the exact ratios only where every gap is its own cell; the factors P / q make up for it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from functools import cache
from typing import NamedTuple

from twins import log, propose


class Cell(NamedTuple):
    """The part of a cell inside a node's range: gaps ``low`` to ``high - 1``."""

    dim: int
    low: int
    high: int


class Weighed(NamedTuple):
    """A stop and the cells looked at, their log weights, and the log of the weights' sum."""

    options: tuple
    log_weights: tuple
    log_z: float


def singletons(problem):
    """Every gap its own cell."""
    return cells_of_width(problem, 1)


def cells_of_width(problem, width, place=0):
    """Cells of ``width`` gaps (the last one may be smaller), the representative ``place`` gaps on, cyclically."""
    cells = []
    for values in problem.values:
        n_gaps = len(values) - 1
        first = [*range(0, n_gaps, width), n_gaps]
        cells.append((first, [a + place % (b - a) for a, b in zip(first, first[1:], strict=False)]))
    return cells


def log_split(problem, rows, dim, gap):
    """log L(left) L(right) / L of the rows; 0 where a side is empty."""
    left, right = problem.divide(rows, dim, gap)
    log_l = problem.log_likelihood
    return log_l(left) + log_l(right) - log_l(rows)


class PriorProposal:
    """Stop or split by the prior: P / q is one, and no dimension is looked at beforehand."""

    def __init__(self, problem, mutant=None):
        self.problem, self.mutant = problem, mutant

    def subset(self, node, random, rule=None):
        """No dimension, and no draw."""
        return ()

    def propose(self, node, random, looked=None):
        """A decision: (rule or None, log P / q, number of dimensions looked at)."""
        return propose(self.problem, node.rows, node.depth, random, self.mutant), 0.0, 0

    def log_ratio(self, node, rule, random, looked=None):
        """Factor of a stored decision: (log P / q, number of dimensions looked at)."""
        return 0.0, 0


class OptimalProposal:
    """A decision by prior times likelihood ratio, over cells, mixed with a share of the prior.

    Parameters
    ----------
    problem : Problem
    cells : list, optional
        (first, rep) of each dimension; by default every gap is its own cell.
    subset : int, optional
        How many valid dimensions are looked at, by weight and with replacement where those valid at the root have
        unequal weights, else uniformly and without; None: all.
    prior_share : float
        e in q = (1 - e) q_opt + e P, with P the prior restricted to the dimensions looked at.
    log_factor : callable, optional
        Further log weight of every split at a depth.
    mutant : str, optional
    """

    def __init__(self, problem, cells=None, subset=None, prior_share=0.0, log_factor=None, mutant=None):
        self.problem, self.size, self.prior_share, self.mutant = problem, subset, prior_share, mutant
        self.cells = singletons(problem) if cells is None else cells
        self.log_factor = log_factor
        self.candidates = tuple(problem.valid_dims(problem.all_rows))
        self.equal = len({problem.dim_weights[d] for d in self.candidates}) == 1
        self.by_weight = not self.equal and subset is not None and subset < len(self.candidates)
        self.weigh = cache(self._weigh)

    # ------------------------------------------------------------ dimensions looked at
    def subset(self, node, random, rule=None):
        """Dimensions looked at, in the order drawn; that of a stored split is among them, the others as without it."""
        valid = self.problem.valid_dims(node.rows)
        if self.size is None or not (self.equal or self.by_weight) or not valid:
            return tuple(valid)
        remaining, chosen = list(self.candidates), []
        if rule is not None and self.mutant != "subset unconditioned":
            chosen.append(rule[0])
            if self.equal:
                remaining.remove(rule[0])
        while remaining and len(chosen) < self.size:
            dim = remaining[self.position(remaining, random)]
            if dim in valid:
                chosen.append(dim)
            if self.equal or dim not in valid:
                remaining.remove(dim)
        return tuple(chosen)

    def position(self, dims, random):
        """Place in a list of dimensions: uniform, or by weight."""
        if self.equal:
            return random.below(len(dims))
        weights = [self.problem.dim_weights[d] for d in dims]
        return random.choice([w / sum(weights) for w in weights])

    def shares(self, looked):
        """U of each dimension looked at, restricted to them; equal where weights have drawn them."""
        weights = [1.0 if self.by_weight else self.problem.dim_weights[d] for d in looked]
        return [w / sum(weights) for w in weights]

    # ------------------------------------------------------------ weights
    def mass(self, dim, low, high):
        """Mass of the gaps ``low`` to ``high - 1``."""
        return self.problem.cumulative[dim][high] - self.problem.cumulative[dim][low]

    def cell_within(self, rows, dim, k):
        """The gaps of cell k in the rows' range."""
        low, high = self.problem.code_range(rows, dim)
        first = self.cells[dim][0]
        return Cell(dim, max(first[k], low), min(first[k + 1], high))

    def log_cell(self, rows, rule):
        """log r: the split's ratio at the representative of the rule's cell; 0 of a stop."""
        if rule is None:
            return 0.0
        first, rep = self.cells[rule[0]]
        return log_split(self.problem, rows, rule[0], rep[bisect_right(first, rule[1]) - 1])

    def _weigh(self, rows, depth, looked):
        p = self.problem.split_probability(rows, depth)
        log_any = log(p) + (self.log_factor(depth) if self.log_factor else 0.0)
        options, log_weights = [None], [log(1.0 - p)]
        for dim, share in zip(looked, self.shares(looked), strict=True):
            log_dim = log(share / self.problem.range_mass(rows, dim))
            for k, rep in enumerate(self.cells[dim][1]):
                cell = self.cell_within(rows, dim, k)
                if cell.low < cell.high:
                    options.append(cell)
                    log_weights.append(log_any + log_dim + log(self.mass(*cell))
                                       + log_split(self.problem, rows, dim, rep))
        # fsum: the same to the last bit in whatever order the dimensions were drawn, so that states merge.
        top = max(log_weights)
        log_z = top + log(math.fsum(math.exp(w - top) for w in log_weights))
        return Weighed(tuple(options), tuple(log_weights), log_z)

    def factor(self, node, looked, rule):
        """log P / q of a decision."""
        if not looked or (rule is None and self.mutant == "stop weight one"):
            return 0.0
        log_odds = self.log_cell(node.rows, rule) - self.weigh(node.rows, node.depth, looked).log_z
        e = self.prior_share
        if e == 0.0 or self.mutant == "prior share left out":
            return -log_odds
        return -log((1.0 - e) * math.exp(log_odds) + e)

    # ------------------------------------------------------------ the interface
    def propose(self, node, random, looked=None):
        """A decision: (rule or None, log P / q, number of dimensions looked at)."""
        if looked is None:
            looked = self.subset(node, random)
        rule = self.draw(node, looked, random) if looked else None
        return rule, self.factor(node, looked, rule), len(looked)

    def log_ratio(self, node, rule, random, looked=None):
        """Factor of a stored decision: (log P / q, number of dimensions looked at)."""
        if looked is None:
            looked = self.subset(node, random, rule)
        return self.factor(node, looked, rule), len(looked)

    def draw(self, node, looked, random):
        """A rule or None from q."""
        e = self.prior_share
        if e > 0.0 and random.choice([e, 1.0 - e]) == 0:
            return self.draw_from_prior(node, looked, random)
        weighed = self.weigh(node.rows, node.depth, looked)
        chosen = weighed.options[random.choice([math.exp(w - weighed.log_z) for w in weighed.log_weights])]
        return None if chosen is None else self.draw_gap(chosen, random)

    def draw_from_prior(self, node, looked, random):
        """A rule or None from the prior restricted to the dimensions looked at."""
        p = self.problem.split_probability(node.rows, node.depth)
        if random.choice([p, 1.0 - p]) == 1:
            return None
        i = random.below(len(looked)) if self.equal or self.by_weight else random.choice(self.shares(looked))
        return self.draw_gap(Cell(looked[i], *self.problem.code_range(node.rows, looked[i])), random)

    def draw_gap(self, cell, random):
        """A rule of the cell, by mass."""
        dim, low, high = cell
        if self.mutant == "cell share left out":
            return dim, low + random.below(high - low)
        total = self.mass(dim, low, high)
        return dim, low + random.choice([self.mass(dim, g, g + 1) / total for g in range(low, high)])


def make_proposal(problem, proposal="prior", cells=None, subset=None, prior_share=0.0, mutant=None):
    """The proposal of a name."""
    if proposal == "prior":
        return PriorProposal(problem, mutant)
    return OptimalProposal(problem, cells, subset, prior_share, mutant=mutant)
