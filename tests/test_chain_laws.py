"""The z-scores that long runs are judged by see what they must, and only that."""

import math

import numpy as np
import pytest
from chain_laws import assert_means, standard_error, z_scores


def autoregression(rng, n, rho):
    noise, x = rng.standard_normal(n), np.empty(n)
    x[0] = noise[0]
    for i in range(1, n):
        x[i] = rho * x[i - 1] + math.sqrt(1.0 - rho * rho) * noise[i]
    return x


def test_standard_error_of_a_dependent_chain(rng):
    n, rho = 100_000, 0.9
    error = standard_error(autoregression(rng, n, rho), 0.0)
    assert error == pytest.approx(math.sqrt((1 + rho) / (1 - rho) / n), rel=0.5)


def test_an_event_that_was_never_seen():
    never = np.zeros(1000, dtype=bool)
    assert z_scores({"a": never}, {"a": 0.0}) == {"a": 0.0}
    assert z_scores({"a": never}, {"a": 0.004})["a"] == pytest.approx(-2.0, abs=0.01)
    assert z_scores({"a": never}, {"a": 0.5})["a"] < -30


def test_an_impossible_event_that_was_seen(rng):
    seen = rng.random(10_000) < 0.1
    assert abs(z_scores({"a": seen}, {"a": 0.0})["a"]) > 10
    assert z_scores({"a": np.ones(100)}, {"a": 0.9})["a"] == math.inf


def test_a_failure_must_repeat():
    calls = []

    def run(n, repeat):
        calls.append((n, repeat))
        wrong = 1.0 if repeat == 0 else 0.0
        return {"a": wrong + np.resize([-0.1, 0.1, 0.1, -0.1], n)}

    assert_means(run, {"a": 0.0}, 1000)
    assert calls == [(1000, 0), (10_000, 1)]
    with pytest.raises(AssertionError):
        assert_means(lambda n, repeat: {"a": 1.0 + np.resize([-0.1, 0.1], n)}, {"a": 0.0}, 1000)
