"""Which columns the trees split, and which they split together: counts, shares, the prior's reference, pairs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from .checkpoints import data_digest, describe, row_texts
from .diagnostics import mcse
from .hyperpriors import Dirichlet
from .inputs import check_choice, check_count, check_seed
from .kernels.hyper import set_log_weights
from .kernels.state import TreeState
from .outcomes import name_of
from .stored import parents_of
from .trees import column_label

__all__ = ["KINDS", "Inclusion", "Interactions", "count_splits", "find_interactions", "prior_shares", "shares_of"]

KINDS = ("splits", "trees", "any")
_PAIR_KINDS = ("splits", "trees")
# Nodes that are looked at together.
_BLOCK_NODES = 1_000_000


class Inclusion(NamedTuple):
    """How often each column is split; printing it shows the table, largest share first.

    Attributes
    ----------
    kind : str
        "splits", "trees" or "any", see `Posterior.inclusion`.
    mean : ndarray, shape (n_dims,)
        Posterior mean of the share.
    mcse : ndarray, shape (n_dims,)
        Its Monte Carlo standard error over all chains, by ArviZ; NaN where nothing can be said.
    draws : ndarray, shape (n_chains, n_draws, n_dims)
        The share in each draw.
    prior : ndarray or None, shape (n_dims,)
        Mean under the prior of the trees on the training codes: what a column gets before y is seen.
    prior_mcse : ndarray or None, shape (n_dims,)
        Its standard error.
    null : PermutationNull or None
        Shares under permuted responses.
    column_names : tuple of str or None
    """

    kind: str
    mean: np.ndarray
    mcse: np.ndarray
    draws: np.ndarray
    prior: np.ndarray | None = None
    prior_mcse: np.ndarray | None = None
    null: object = None
    column_names: tuple | None = None

    @property
    def labels(self):
        """A name for each column: of the frame, else "x0", "x1", ..."""
        return [column_label(self.column_names, dim) for dim in range(len(self.mean))]

    def __str__(self):
        heads, columns = [f"share ({self.kind})", "mcse"], [self.mean, self.mcse]
        if self.prior is not None:
            heads, columns = [*heads, "prior", "prior mcse"], [*columns, self.prior, self.prior_mcse]
        if self.null is not None:
            heads, columns = [*heads, "null mean", "p"], [*columns, self.null.mean, self.null.p_values(self.mean)]
        labels = self.labels
        width = max(map(len, labels))
        lines = [" " * width + "".join(f"{head:>16}" for head in heads)]
        for dim in np.argsort(-self.mean, kind="stable"):
            lines.append(f"{labels[dim]:<{width}}" + "".join(f"{column[dim]:>16.5f}" for column in columns))
        return "\n".join(lines)

    __repr__ = __str__


def _draw_blocks(forests, n_trees, every):
    """(numbers of the used draws, nodes, starts) of some consecutive used draws of one chain at a time."""
    n_draws = (len(forests.starts) - 1) // n_trees
    used = np.arange(0, n_draws, every)
    sizes = forests.starts[(used + 1) * n_trees] - forests.starts[used * n_trees]
    first = 0
    while first < len(used):
        last = first + max(1, int(np.searchsorted(np.cumsum(sizes[first:]), _BLOCK_NODES, side="right")))
        parts, starts, at = [], [np.zeros(1, dtype=np.int64)], 0
        for draw in used[first:last]:
            own = forests.starts[draw * n_trees : (draw + 1) * n_trees + 1]
            parts.append(forests.nodes[own[0] : own[-1]])
            starts.append(own[1:] - own[0] + at)
            at += own[-1] - own[0]
        yield slice(first, first + len(parts)), np.concatenate(parts), np.concatenate(starts)
        first += len(parts)


def _counts(nodes, starts, n_trees, n_dims, per_tree):
    """(n_draws, n_dims) splits of each column; per_tree: trees with at least one."""
    dims = nodes["dim"].astype(np.int64)
    tree = np.repeat(np.arange(len(starts) - 1), np.diff(starts))[dims >= 0]
    dims = dims[dims >= 0]
    if per_tree:
        tree, dims = np.divmod(np.unique(tree * n_dims + dims), n_dims)
    n_draws = (len(starts) - 1) // n_trees
    return np.bincount((tree // n_trees) * n_dims + dims, minlength=n_draws * n_dims).reshape(n_draws, n_dims)


def count_splits(all_forests, n_trees, n_dims, every=1, per_tree=False):
    """Splits of each column in each draw.

    Parameters
    ----------
    all_forests : list of bart.chain.Forests
        Of each chain.
    n_trees, n_dims : int
    every : int
        Use only every so many draws.
    per_tree : bool
        Count the trees that split a column at all instead.

    Returns
    -------
    ndarray of int64, shape (n_chains, n_draws, n_dims)
    """
    found = []
    for forests in all_forests:
        blocks = _draw_blocks(forests, n_trees, every)
        parts = [_counts(nodes, starts, n_trees, n_dims, per_tree) for _, nodes, starts in blocks]
        found.append(np.concatenate(parts) if parts else np.zeros((0, n_dims), dtype=np.int64))
    return np.stack(found)


def shares_of(counts, kind, n_trees):
    """Shares from counts of shape (..., n_dims); of trees for the kinds "trees" and "any"."""
    if kind == "any":
        return (counts > 0).astype(np.float64)
    if kind == "trees":
        return counts / n_trees
    # A draw without a split has the share 0 everywhere.
    return counts / np.maximum(counts.sum(axis=-1, keepdims=True), 1)


def measure_inclusion(all_forests, header, kind, every, model, n_prior, seed, null):
    """`Posterior.inclusion`; the forests are those of its kept draws."""
    check_choice(kind, "kind", KINDS)
    n_trees, n_dims, names = header["n_trees"], header["n_dims"], header["column_names"]
    check_count(every, "every")
    if model is None and (n_prior is not None or seed is not None):
        raise ValueError("n_prior and seed have no effect without model=, whose prior they are about")
    prior = None, None
    if model is not None:
        check_same_model(header, model)
        prior = prior_shares(model, kind, 100 if n_prior is None else n_prior, seed)
    if null is not None and (null.kind != kind or null.shares.shape[1] != n_dims):
        raise ValueError(f"null is about {null.shares.shape[1]} columns and {null.kind!r}, not {n_dims} and {kind!r}")
    counts = count_splits(all_forests, n_trees, n_dims, every, kind != "splits")
    draws = shares_of(counts, kind, n_trees)
    errors = np.array([mcse(draws[:, :, dim]) for dim in range(n_dims)])
    names = None if names is None else tuple(names)
    return Inclusion(kind, draws.mean(axis=(0, 1)), errors, draws, *prior, null, names)


def check_same_model(header, model):
    """Refuse a model that cannot be the one that a run was made from."""
    data = model.dataset
    names = None if data.column_names is None else tuple(data.column_names)
    kept = None if header["column_names"] is None else tuple(header["column_names"])
    mine = {"n_trees": model.n_trees, "n_dims": data.n_dims, "column_names": names,
            "y_mid": data.y_mid, "y_range": data.y_range, **row_texts(data), "outcome": name_of(model.outcome),
            "priors": describe(model.priors), "data": data_digest(model)}  # fmt: skip
    theirs = {**{name: header.get(name) for name in mine}, "column_names": kept}
    for name, value in mine.items():
        older = name in ("outcome", "priors", "data") and theirs[name] is None      # files that lack it
        if theirs[name] != value and not older:
            raise ValueError(f"model is not that of this run: {name} is {value!r}, in the run {theirs[name]!r}")


def prior_shares(model, kind="splits", n_forests=100, seed=None):
    """Shares of the columns under the prior of the trees, by simulation on the training codes.

    Parameters
    ----------
    model : bart.Model
    kind : {"splits", "trees", "any"}
    n_forests : int
        Forests drawn, at least 2.
    seed : int or sequence of int, optional

    Returns
    -------
    mean, mcse : ndarray, shape (n_dims,)
    """
    check_choice(kind, "kind", KINDS)
    check_count(n_forests, "n_prior", 2)
    rng, n_dims = np.random.Generator(np.random.PCG64DXSM(check_seed(seed))), model.dataset.n_dims
    prior = model.tree_prior.dim_weights
    is_random = isinstance(prior, Dirichlet)
    state = TreeState(model.domain.with_random_weights() if is_random else model.domain)
    counts = np.zeros((n_forests, n_dims), dtype=np.int64)
    for forest in range(n_forests):
        if is_random and len(state.domain.candidates):
            set_log_weights([state], prior.draw(len(state.domain.candidates), rng)[1])
        for _ in range(model.n_trees):
            state.draw_from_prior(rng)
            dims = state.dump()["dim"]
            dims = dims[dims >= 0]
            counts[forest] += np.bincount(dims if kind == "splits" else np.unique(dims), minlength=n_dims)
    shares = shares_of(counts, kind, model.n_trees)
    return shares.mean(axis=0), shares.std(axis=0, ddof=1) / np.sqrt(n_forests)


# -------------------------------------------------------------------------------------------------------------- pairs


class Interactions:
    """Pairs of columns that meet on a path from a root, one above the other; printing it shows the largest.

    Attributes
    ----------
    kind : str
        "splits" or "trees", see `Posterior.interactions`.
    pairs : ndarray of int64, shape (n_pairs, 2)
        The pairs that occur, first <= second, largest mean first; a pair of one column with itself is one whose
        rules are nested.
    mean : ndarray, shape (n_pairs,)
        Posterior mean of the share.
    column_names : tuple of str or None
    """

    def __init__(self, kind, pairs, shares, n_chains, n_dims, column_names):
        mean = np.asarray(shares.mean(axis=0)).ravel()
        order = np.lexsort((pairs[:, 1], pairs[:, 0], -mean))
        self.kind, self.pairs, self.mean = kind, pairs[order], mean[order]
        self._shares = shares.tocsc()[:, order]
        self._n_chains, self.n_dims, self.column_names = n_chains, n_dims, column_names
        self._place = {tuple(pair): place for place, pair in enumerate(self.pairs.tolist())}

    def draws(self, first, second):
        """The share of one pair in each draw.

        Parameters
        ----------
        first, second : int
            Columns by number, in either order.

        Returns
        -------
        ndarray, shape (n_chains, n_draws)
        """
        for name, dim in (("first", first), ("second", second)):
            if check_count(dim, name, 0) >= self.n_dims:
                raise ValueError(f"{name} is {dim}, but there are {self.n_dims} columns")
        place = self._place.get((min(first, second), max(first, second)))
        n_draws = self._shares.shape[0] // self._n_chains
        if place is None:
            return np.zeros((self._n_chains, n_draws))
        return self._shares[:, [place]].toarray().reshape(self._n_chains, n_draws)

    def mcse(self, first, second):
        """Monte Carlo standard error of the mean share of one pair, by ArviZ."""
        return mcse(self.draws(first, second))

    def matrix(self):
        """The means as a symmetric matrix, shape (n_dims, n_dims)."""
        made = np.zeros((self.n_dims, self.n_dims))
        made[self.pairs[:, 0], self.pairs[:, 1]] = self.mean
        made[self.pairs[:, 1], self.pairs[:, 0]] = self.mean
        return made

    @property
    def labels(self):
        """A name for each column: of the frame, else "x0", "x1", ..."""
        return [column_label(self.column_names, dim) for dim in range(self.n_dims)]

    def __len__(self):
        return len(self.pairs)

    def __str__(self):
        labels, shown = self.labels, self.pairs[:10].tolist()
        names = [f"{labels[a]}, {labels[b]}" for a, b in shown]
        width = max([len(name) for name in names], default=0)
        lines = [" " * width + f"{f'share ({self.kind})':>16}{'mcse':>16}"]
        for name, (a, b), mean in zip(names, shown, self.mean, strict=False):
            lines.append(f"{name:<{width}}{mean:>16.5f}{self.mcse(a, b):>16.5f}")
        if len(self) > len(shown):
            lines.append(f"and {len(self) - len(shown)} more pairs")
        return "\n".join(lines)

    __repr__ = __str__


def _pair_counts(nodes, starts, n_trees, n_dims, per_tree):
    """Keys of (draw, pair) and how many nodes above one another, or trees with such nodes, each has."""
    parent = parents_of(nodes, starts)
    tree = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    dims = nodes["dim"].astype(np.int64)
    below = np.flatnonzero(dims >= 0)
    above, found = parent[below], []
    while below.size:
        below, above = below[above >= 0], above[above >= 0]
        low, high = np.minimum(dims[below], dims[above]), np.maximum(dims[below], dims[above])
        keys = (tree[below] * n_dims + low) * n_dims + high
        found.append(np.unique(keys) if per_tree else keys)
        above = parent[above]
    keys = np.concatenate(found) if found else np.zeros(0, dtype=np.int64)
    if per_tree:
        keys = np.unique(keys)
    tree_of, pair = np.divmod(keys, n_dims * n_dims)
    return np.unique((tree_of // n_trees) * n_dims * n_dims + pair, return_counts=True)


def find_interactions(all_forests, header, kind="splits", every=1):
    """`Posterior.interactions`; the forests are those of its kept draws."""
    check_choice(kind, "kind", _PAIR_KINDS)
    check_count(every, "every")
    n_trees, n_dims, names = header["n_trees"], header["n_dims"], header["column_names"]
    rows, pairs, values, n_before = [], [], [], 0
    for forests in all_forests:
        for block, nodes, starts in _draw_blocks(forests, n_trees, every):
            keys, counts = _pair_counts(nodes, starts, n_trees, n_dims, kind == "trees")
            draw, pair = np.divmod(keys, n_dims * n_dims)
            total = np.bincount(draw, weights=counts, minlength=block.stop - block.start)
            rows.append(draw + n_before + block.start)
            pairs.append(pair)
            values.append(counts / (total[draw] if kind == "splits" else n_trees))
        n_before += len(range(0, (len(forests.starts) - 1) // n_trees, every))
    rows, pairs, values = map(np.concatenate, (rows, pairs, values))
    present, column = np.unique(pairs, return_inverse=True)
    shares = sparse.coo_array((values, (rows, column)), shape=(n_before, len(present)))
    pairs = np.stack(np.divmod(present, n_dims), axis=1)
    names = None if names is None else tuple(names)
    return Interactions(kind, pairs, shares, len(all_forests), n_dims, names)
