"""Tiny problems on which every error of a kernel is meant to show; sizes stay below some 200 states."""

from oracle import Problem


def line():
    """Four rows, uneven gaps, deep trees."""
    return Problem([[0.0], [0.4], [2.0], [2.3]], [1.3, -0.4, 0.6, -1.5], 0.5, 1.0, alpha=0.95, beta=0.5)


def plane():
    """Four rows, two dimensions without ties, uneven gaps: several codes with one partition."""
    X = [[0.0, 0.1], [0.3, 2.0], [1.9, 0.0], [2.0, 0.7]]
    return Problem(X, [0.9, -0.6, -0.8, 1.1], 0.4, 0.3, 0.2, alpha=0.95, beta=0.25)


def square():
    """Corners of a square: both children of a root may carry the same rule."""
    return Problem([[0, 0], [0, 1], [1, 0], [1, 1]], [1.0, -1.2, -0.7, 0.8], 0.5, 2.0, alpha=0.8, beta=0.25)


def ties():
    """Ties, a constant column and leaves that cannot split."""
    X = [[0, 5, 1], [0, 5, 1], [1, 5, 1], [1, 5, 3], [4, 5, 3]]
    return Problem(X, [0.5, 0.7, -0.9, 0.1, 1.6], 0.3, 0.04, alpha=0.95, beta=0.25)


def long_line():
    """Five rows in one dimension, a leaf variance far from 1."""
    X = [[0.0], [1.0], [1.1], [3.0], [7.0]]
    return Problem(X, [0.1, 0.3, -0.2, 0.4, -0.5], 0.05, 0.02, alpha=0.95, beta=0.25)


def shallow():
    """A root that seldom grows."""
    return Problem([[0.0, 1.0], [0.5, 0.0], [2.0, 3.0]], [0.2, -0.3, 0.1], 0.25, 1.0, alpha=0.3, beta=2.0)


def weighted():
    """Three dimensions, of which one is never used and one twice as often."""
    X = [[0.0, 0.0, 1.0], [0.2, 3.0, 0.0], [1.0, 2.0, 0.5], [1.0, 1.0, 2.5]]
    return Problem(X, [1.0, -0.5, 0.3, -0.9], 0.5, 0.8, alpha=0.8, beta=1.0, dim_weights=(1, 0, 2))


def weighted_three():
    """As ``weighted`` with three rows."""
    X = [[0.0, 0.0, 1.0], [0.2, 3.0, 0.0], [1.0, 2.0, 0.5]]
    return Problem(X, [1.0, -0.5, 0.3], 0.5, 0.8, alpha=0.8, beta=1.0, dim_weights=(1, 0, 2))


def grid():
    """A coarse grid of cuts: nodes with several distinct values and no cut between them."""
    X = [[0.0, 0.0], [0.1, 1.0], [0.9, 0.41], [1.0, 0.45]]
    return Problem(X, [0.8, -0.6, 0.5, -1.0], 0.4, 1.0, alpha=0.95, beta=0.5, cuts="grid", n_cuts=4)


def triple():
    """Three rows in a plane, for three particles."""
    return Problem([[0.0, 0.0], [1.0, 2.0], [3.0, 1.0]], [1.0, -1.0, 0.4], 0.5, 0.7, alpha=0.95, beta=0.5)


def cube():
    """Three rows in three dimensions of equal weight, one of them invalid at some nodes."""
    X = [[0.0, 0.0, 1.0], [0.2, 2.0, 0.0], [3.0, 2.0, 0.3]]
    return Problem(X, [0.9, -1.1, 0.5], 0.4, 0.6, alpha=0.9, beta=0.5)


def weighted_cube():
    """As ``cube`` with unequal weights, so that a subset by weight may hold a dimension twice."""
    cube_ = cube()
    return Problem(cube_.X, cube_.target, 0.4, 0.6, alpha=0.9, beta=0.5, dim_weights=(1, 3, 2))


def triple_line():
    """Three rows in a line, for three particles."""
    return Problem([[0.0], [1.0], [3.0]], [1.0, -1.0, 0.4], 0.5, 0.7, alpha=0.8, beta=0.5)


def pair():
    """Two rows: two trees."""
    return Problem([[0.0], [1.0]], [0.6, -0.7], 0.5, 0.7, alpha=0.8, beta=0.5)


def unsplit_root():
    """All rows equal: the lone root is the only tree."""
    return Problem([[1.0], [1.0], [1.0]], [0.1, 0.5, -0.2], 0.5, 1.0, alpha=0.95, beta=0.5)


def terrace():
    """Rotations whose three parts hold rules of another dimension, of another weight."""
    X = [[0.0, 0.0], [1.0, 0.0], [1.5, 2.0], [4.0, 0.0], [4.2, 2.0]]
    return Problem(X, [0.5, -0.4, 0.8, -0.7, 0.2], 0.4, 0.5, 0.1, alpha=0.9, beta=1.0, dim_weights=(3, 1))


def authors():
    """The four rows on which the authors' particle Gibbs is known to be off."""
    return Problem([[0.0], [1.0], [2.0], [3.0]], [1.3, -0.4, 0.6, -1.5], 0.5, 1.0, alpha=0.95, beta=0.5)


def tiles():
    """A lattice of six rows: what is transposed has rules of either dimension below it."""
    X = [[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [0.0, 1.0], [1.0, 1.0], [3.0, 1.0]]
    return Problem(X, [1.0, -0.8, 0.9, -1.0, 0.7, -0.9], 0.6, 1.0, alpha=0.95, beta=0.2)


def precise():
    """As ``plane`` with rows of very different precisions."""
    X = [[0.0, 0.1], [0.3, 2.0], [1.9, 0.0], [2.0, 0.7]]
    return Problem(X, [0.9, -0.6, -0.8, 1.1], 0.4, 0.3, 0.2, alpha=0.95, beta=0.25, weights=(0.3, 4.0, 1.0, 0.7))


def precise_ties():
    """As ``ties`` with rows of different precisions."""
    X = [[0, 5, 1], [0, 5, 1], [1, 5, 1], [1, 5, 3], [4, 5, 3]]
    return Problem(X, [0.5, 0.7, -0.9, 0.1, 1.6], 0.3, 0.4, 0.1, alpha=0.95, beta=0.25,
                   weights=(2.5, 0.2, 1.0, 5.0, 0.6))


_ALL = (line, plane, square, ties, long_line, shallow, weighted, weighted_three, grid, triple, cube,
        weighted_cube, triple_line, pair, unsplit_root, terrace, authors, precise, precise_ties, tiles)
PROBLEMS = {f.__name__: f for f in _ALL}
