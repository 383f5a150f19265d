"""The loops over rows against numpy, for every vector width, code type and small N; same bits from all widths."""

import numpy as np
import pytest
from bart.kernels.rowops import TARGETS
from bart.kernels.testing_rows import RowLoops

SIZES = (*range(1, 41), 4095, 4096, 4097, 10_001)
CODES = (np.uint8, np.uint16, np.uint32)


def holds(where, n):
    mask = np.ones(n, dtype=bool)
    for column, relation, cut in where:
        mask &= {"<=": column <= cut, ">": column > cut, "==": column == cut}[relation]
    return mask


def lane_sum(r, mask):
    """The sum of r over a mask in the order that rowops.pxd defines: 8 lanes in blocks of 4096 rows."""
    total = 0.0
    for start in range(0, len(r), 4096):
        block = np.where(mask, r, 0.0)[start:start + 4096]
        lanes = np.zeros(-(-len(block) // 8) * 8)
        lanes[:len(block)] = block
        acc = np.zeros(8)
        for eight in lanes.reshape(-1, 8):
            acc += eight
        total += ((acc[0] + acc[1]) + (acc[2] + acc[3])) + ((acc[4] + acc[5]) + (acc[6] + acc[7]))
    return total


def cases(rng, code_type, label_type):
    """Random columns, labels and predicates at every size; cuts at the ends of the type too."""
    top = min(np.iinfo(code_type).max, 70_000)
    for n in SIZES:
        columns = rng.integers(0, top, size=(2, n), endpoint=True).astype(code_type)
        labels = rng.integers(0, 5, size=n).astype(label_type)
        r = rng.normal(size=n)
        for cut in (0, int(rng.integers(0, top)), top):
            where = [(labels, "==", int(rng.integers(0, 5))), (columns[0], "<=", cut), (columns[1], ">", cut // 3)]
            yield n, columns, labels, r, where[: int(rng.integers(1, 4))]


@pytest.fixture(params=sorted(TARGETS))
def loops(request):
    return RowLoops(request.param)


@pytest.mark.parametrize("label_type", CODES)
@pytest.mark.parametrize("code_type", CODES)
def test_masked_loops(loops, rng, code_type, label_type):
    for n, columns, labels, r, where in cases(rng, code_type, label_type):
        mask = holds(where, n)
        count, total = loops.masked_sum(where, r)
        assert count == mask.sum()
        assert total == lane_sum(r, mask)
        np.testing.assert_array_equal(loops.select(where, n), np.flatnonzero(mask))
        low, high = loops.masked_range(columns[1], where)
        if mask.any():
            assert (low, high) == (columns[1][mask].min(), columns[1][mask].max())
        else:
            assert low > high
        relabelled, expected = labels.copy(), labels.copy()
        own = [p if p[0] is not labels else (relabelled, *p[1:]) for p in where]
        loops.relabel(relabelled, 200, own)
        expected[mask] = 200
        np.testing.assert_array_equal(relabelled, expected)
        for n_sets in range(1, 8):
            cuts = rng.integers(0, columns.max(), size=n_sets, endpoint=True)
            several = loops.masked_sums([(columns[k % 2], "<=", cut) for k, cut in enumerate(cuts)], r)
            masks = [columns[k % 2] <= cut for k, cut in enumerate(cuts)]
            assert several == [(one.sum(), lane_sum(r, one)) for one in masks]


@pytest.mark.parametrize("label_type", CODES)
@pytest.mark.parametrize("code_type", CODES)
def test_leaf_loops(loops, rng, code_type, label_type):
    for n, columns, many, r, where in cases(rng, code_type, label_type):
        cut = where[-1][2]
        for n_leaves in (1, 2, 3, 4, 5, 12):
            labels = (many + rng.integers(0, 8) if n_leaves == 12 else many % n_leaves).astype(label_type)
            leaf = int(labels[rng.integers(0, n)])
            sums, count, total = loops.leaf_sums(labels, n_leaves, r, leaf, (columns[1], "<=", cut))
            mask = (labels == leaf) & (columns[1] <= cut)
            assert sums.tolist() == [lane_sum(r, labels == each) for each in range(n_leaves)]
            assert (count, total) == (mask.sum(), lane_sum(r, mask))
            assert loops.leaf_sums(labels, n_leaves, r)[0].tobytes() == sums.tobytes()
            value = rng.normal(size=n_leaves)
            np.testing.assert_array_equal(loops.add_leaf_values(r, value, labels), r + value[labels])
            both = loops.leaf_sums_and_add(r, value, labels)
            np.testing.assert_array_equal(both[0], sums)
            np.testing.assert_array_equal(both[1], r + value[labels])
        assert loops.sum_squares(r) == lane_sum(r * r, np.ones(n, dtype=bool))


@pytest.mark.parametrize("code_type", CODES)
def test_list_loops(loops, rng, code_type):
    for n, columns, labels, r, where in cases(rng, code_type, np.uint8):
        rows = np.flatnonzero(rng.random(n) < 0.7).astype(np.uint32)
        if len(rows) == 0:
            rows = np.zeros(1, dtype=np.uint32)
        cut = int(columns[0][rows[0]])
        left, right, total = loops.partition(rows, (columns[0], "<=", cut), r)
        goes_left = columns[0][rows] <= cut
        np.testing.assert_array_equal(left, rows[goes_left])
        np.testing.assert_array_equal(right, rows[~goes_left])
        assert total == pytest.approx(r[left].sum(), abs=1e-9)
        assert loops.list_range(columns[0], rows) == (columns[0][rows].min(), columns[0][rows].max())
        written, expected = labels.copy(), labels.copy()
        loops.label_list(written, 9, rows)
        expected[rows] = 9
        np.testing.assert_array_equal(written, expected)
        candidates = np.array([1], dtype=np.int32)
        mask = holds(where, n)
        assert loops.differ(columns, candidates, where) == (len(np.unique(columns[1][mask])) > 1)


@pytest.mark.parametrize("n_bins", (2, 17, 64, 256))
def test_histograms(loops, rng, n_bins):
    """Of adjacent columns, which are read as words, and of others; of runs that only begin or end as such."""
    n_dims, shift, scale, most = 20, 45, 2.0**30, 2.0**31
    for n in (*SIZES[:12], 511, 512, 513, 1100):
        bins = rng.integers(0, n_bins, size=(n, n_dims), dtype=np.uint8)
        r = rng.normal(size=n)
        packed = (1 << shift) + np.rint(np.clip(r * scale, -most, most)).astype(np.int64)
        listed = np.flatnonzero(rng.random(n) < 0.6).astype(np.uint32)
        for dims in (range(20), range(3, 13), [19], [0, 2, 1, 3], [5, 9, 2, 12, 3, 3, 7, 12, 4, 5, 6, 7, 1, 0],
                     range(12, 20), [2, 3], [4, 5, 7]):
            dims = np.array(dims, dtype=np.int32)
            for rows in (None, listed) if len(listed) else (None,):
                chosen = np.arange(n) if rows is None else rows
                expected = np.zeros((len(dims), n_bins), dtype=np.int64)
                for k, dim in enumerate(dims):
                    np.add.at(expected[k], bins[chosen, dim], packed[chosen])
                found = loops.histogram(bins, n_bins, dims, r, scale, most, shift, rows)
                np.testing.assert_array_equal(found, expected)


def test_loops_over_sets_and_doubles(loops, rng):
    for n in SIZES:
        column, cut = rng.integers(0, 9, size=n).astype(np.uint8), int(rng.integers(0, 9))
        chosen, other = column <= cut, column > 4
        bits, others = loops.leaf_bits((column, "<=", cut), n), loops.leaf_bits((column, ">", 4), n)
        assert loops.count_common(bits, bits) == chosen.sum()
        assert loops.count_common(bits, others) == (chosen & other).sum()
        r = rng.normal(size=n)
        assert loops.largest(r) == np.abs(r).max()
    for n_rows, n in ((3, 1), (4, 8), (13, 24)):
        rows, panel = rng.normal(size=(n_rows, n + 8)), rng.normal(size=(n, 8))
        expected = rows.copy()
        for k in range(n):
            expected[:, n:] -= rows[:, k:k + 1] * panel[k]
        loops.eliminate(rows, panel)
        np.testing.assert_array_equal(rows, expected)


SHIFT = 40


def histogram_of(bins, r, n_bins, scale):
    """Packed sums of a leaf's rows by bin, its rows and the total of the integers that stand for their targets."""
    whole = np.rint(r * scale).astype(np.int64)
    sums = np.zeros(n_bins, dtype=np.int64)
    for b, q in zip(bins, whole, strict=True):
        sums[b] += (1 << SHIFT) + q
    return sums, len(bins), int(whole.sum())


def leaf_cases(rng, span=70):
    """(leaves as of RowLoops, the same as (bins, targets, above), first, masses, scale, sigma2, leaf_var, leaf_mean):
    few and many leaves, of one row or more, all of them in few bins at times, so that cuts empty them."""
    for n_leaves in (1, 2, 3, 4, 5, 7, 8, 9, 17, 40, 300):
        for n_bins in (1, 2, 17, 63, 256):
            unit, n_rows = 10.0 ** rng.integers(-span, span), int(rng.integers(1, 30)) if n_leaves > 1 else 1
            n_cuts = int(rng.integers(1, n_bins + 1))
            first = int(rng.integers(0, n_bins - n_cuts + 1))
            scale = 2.0**20 / unit
            leaves, plain = [], []
            for _ in range(n_leaves):
                n = int(rng.integers(1, n_rows + 1))
                bins = rng.integers(0, max(1, n_bins // int(rng.integers(1, 5))), n)
                r = np.rint(2**20 * rng.uniform(-1, 1, n)) / scale
                above = bool(rng.integers(0, 2))
                leaves.append((*histogram_of(bins, r, n_bins, scale), above))
                plain.append((bins, r, above))
            mass = rng.random(n_cuts) * (rng.random(n_cuts) < 0.9)
            sigma2, leaf_var = unit**2 * np.exp(rng.normal(1, 2, 2))
            yield leaves, plain, first, mass, scale, sigma2, leaf_var, unit * rng.normal(0, 0.1)


def log_L(r, sigma2, leaf_var, leaf_mean):
    """Log marginal likelihood of a leaf, up to what all trees share; or, without rows, what the loops take for it."""
    if len(r) == 0:
        return np.log(1e-3)
    v, total = sigma2 + len(r) * leaf_var, sum(x - leaf_mean for x in r)
    return 0.5 * np.log(sigma2 / v) + 0.5 * (leaf_var / sigma2) * total * (total / v)


def test_weights_of_a_rule_above_leaves(loops, rng):
    n_empty = 0
    for leaves, plain, first, mass, scale, *params in leaf_cases(rng, 140):
        weight, top, total = loops.leaf_cut_weights(leaves, first, mass, scale, SHIFT, *params)
        expected = []
        for cut in range(first, first + len(mass)):
            kept = [r[(bins > cut) == above] for bins, r, above in plain]
            n_empty += sum(len(r) == 0 for r in kept)
            expected.append(sum(log_L(r, *params) for r in kept))
        expected = np.array(expected)
        assert ((weight > 0) == (mass > 0)).all() and total == pytest.approx(weight.sum(), rel=1e-12)
        close = (mass > 0) & (expected > expected.max() - 500)
        np.testing.assert_allclose(np.log(weight[close] / mass[close]) + top, expected[close], rtol=1e-10, atol=1e-9)
    assert n_empty > 1000


def test_weights_of_a_leaf_that_is_split(loops, rng):
    """One leaf on either side that claim the same rows: L(l) L(r), but for the cuts that leave a side empty."""
    for leaves, plain, first, mass, scale, *params in leaf_cases(rng):
        sums, rows, whole, _ = leaves[0]
        weight, top, total = loops.cut_weights(sums, first, mass, rows, whole, scale, SHIFT, *params)
        pair, top_of_pair, _ = loops.leaf_cut_weights([(sums, rows, whole, 0), (sums, rows, whole, 1)], first, mass,
                                                      scale, SHIFT, *params)
        assert total == pytest.approx(weight.sum(), rel=1e-12)
        bins, r, _ = plain[0]
        n_left = np.array([(bins <= cut).sum() for cut in range(first, first + len(mass))])
        split = (mass > 0) & (n_left > 0) & (n_left < rows)
        close = split & (weight > 1e-200) & (pair > 1e-200)
        np.testing.assert_allclose(np.log(weight[close]) + top + log_L(r, *params), np.log(pair[close]) + top_of_pair,
                                   rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("n_leaves", [1, 3, 4, 7, 100])
def test_no_cell_becomes_impossible(loops, n_leaves):
    """Whatever the noise: factors of leaves multiply, and those of some cells must not vanish beside others."""
    sums, rows, whole = histogram_of(np.array([0, 5]), np.array([1.0, -1.0]), 10, 2.0**20)
    mass = np.full(9, 1e-30)
    for sigma2 in (1e-60, 1e-30, 1.0, 1e30, 1e60):
        leaves = [(sums, rows, whole, above % 2) for above in range(n_leaves)]
        weight, top, total = loops.leaf_cut_weights(leaves, 0, mass, 2.0**20, SHIFT, sigma2, 1.0, 0.0)
        assert (weight > 0).all() and np.isfinite([*weight, top, total]).all() and total > 0


@pytest.mark.skipif(len(TARGETS) < 2, reason="this processor runs one build only")
def test_same_bits_of_weights_from_every_width(rng):
    wide, narrow = RowLoops("avx2"), RowLoops("baseline")
    for leaves, _, first, mass, scale, *params in leaf_cases(rng):
        a, b = (loops.leaf_cut_weights(leaves, first, mass, scale, SHIFT, *params) for loops in (wide, narrow))
        assert a[0].tobytes() == b[0].tobytes() and a[1:] == b[1:]
        a, b = (loops.cut_weights(*leaves[0][:1], first, mass, *leaves[0][1:3], scale, SHIFT, *params)
                for loops in (wide, narrow))
        assert a[0].tobytes() == b[0].tobytes() and a[1:] == b[1:]


@pytest.mark.skipif(len(TARGETS) < 2, reason="this processor runs one build only")
def test_same_bits_from_every_width(rng):
    wide, narrow = RowLoops("avx2"), RowLoops("baseline")
    for code_type in CODES:
        for _, _, labels, r, where in cases(rng, code_type, np.uint8):
            r = r * 10.0 ** rng.integers(-8, 8, size=len(r))
            assert wide.masked_sum(where, r) == narrow.masked_sum(where, r)
            for n_leaves in (1, 2, 3, 4, 5):
                own, rule = labels % n_leaves, (where[-1][0], "<=", where[-1][2])
                a, b = (loops.leaf_sums(own, n_leaves, r, n_leaves - 1, rule) for loops in (wide, narrow))
                assert a[0].tobytes() == b[0].tobytes() and a[1:] == b[1:]
            assert wide.sum_squares(r) == narrow.sum_squares(r)
            rows = np.arange(len(r), dtype=np.uint32)
            assert wide.partition(rows, where[-1], r)[2] == narrow.partition(rows, where[-1], r)[2]
