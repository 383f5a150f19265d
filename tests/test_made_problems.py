"""Made problems: the three regions, Friedman's sizes, and the registry of names."""

import numpy as np
import pytest
from real_data_helpers import digest

from experiments import problems, real_data


def test_three_region():
    made = [problems.three_region(seed=seed) for seed in range(40)]
    bounds = [
        [(0.1, 0.4), (0.1, 0.4), (0.6, 0.9)],
        [(0.1, 0.4), (0.6, 0.9), (0.6, 0.9)],
        [(0.6, 0.9), (0.1, 0.9), (0.1, 0.4)],
    ]
    for problem in made:
        assert problem.X_train.shape == problem.X_test.shape == (300, 3) and problem.n_trees == 1
        for X, f in ((problem.X_train, problem.f_train), (problem.X_test, problem.f_test)):
            expected = np.where(X[:, 0] > 0.5, 5.0, np.where(X[:, 1] > 0.5, 3.0, 1.0))
            np.testing.assert_array_equal(f, expected)
        assert not np.any(problem.X_train == problem.X_test)
    X = np.concatenate([[problem.X_train, problem.X_test] for problem in made])
    for third in range(3):
        for dim, (low, high) in enumerate(bounds[third]):
            x = X[:, 100 * third : 100 * third + 100, dim].ravel()
            assert low <= x.min() and x.max() <= high
            # 8000 uniforms; 5 standard errors (error rate < 1e-5 for the nine).
            assert abs(x.mean() - (low + high) / 2) < 5 * (high - low) / np.sqrt(12 * len(x))
            assert x.min() < low + 0.01 and x.max() > high - 0.01
    noise = np.concatenate([p.y_test - p.f_test for p in made] + [p.y_train - p.f_train for p in made])
    assert abs(noise.std() - 0.5) < 5 * 0.5 / np.sqrt(2 * len(noise))
    np.testing.assert_array_equal(made[1].y_train, problems.three_region().y_train)
    assert digest(made[1]) != digest(made[2])
    assert problems.three_region(30).X_train.shape == (30, 3)
    for n_rows in (0, -3, 100):
        with pytest.raises(ValueError, match="n_rows.*multiple of 3"):
            problems.three_region(n_rows)


def test_sizes_of_friedman():
    assert problems.friedman(20, 1, 5).name == "friedman-20-5"
    with pytest.raises(ValueError, match="n_dims.*at least 5.*got 4"):
        problems.friedman(20, 1, 4)
    with pytest.raises(ValueError, match="n_rows"):
        problems.friedman(0, 1)


def test_names_of_made_problems():
    pairs = [
        ("hypercube-4", problems.hypercube(4, 3, 0.5)),
        ("friedman-500-10", problems.friedman(500, 3, 10)),
        ("three-region", problems.three_region(seed=3)),
    ]
    for name, expected in pairs:
        problem = problems.made(name, 3, 0.5)
        assert problem.name == expected.name == name and problem.seed == 3 and problem.note == expected.note
        assert digest(problem) == digest(expected)
    bad = ["hypercube", "hypercube-0", "hypercube-x", "hypercube-2-3", "hypercube--2", "hypercube-٣"]
    for name in [*bad, "friedman-10", "friedman-5-10-1", "three-region-3", "CaliforniaHouses", ""]:
        with pytest.raises(ValueError, match="hypercube-<dims>, friedman-<rows>-<dims>, three-region"):
            problems.made(name, 1, 0.0)
    with pytest.raises(ValueError, match="at least 5"):
        problems.made("friedman-10-4", 1, 0.0)


def test_every_data_set_has_a_stream_of_its_own():
    tags = problems._TAGS
    assert len(set(tags.values())) == len(tags)
    assert {source.name for source in real_data.sources()} <= set(tags)
