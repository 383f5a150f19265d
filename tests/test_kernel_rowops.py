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
