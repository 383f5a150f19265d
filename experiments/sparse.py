"""Friedman's function and noise columns: equal or Dirichlet split probabilities, a fixed k or one that is drawn.

    python -m experiments.sparse                # five data sets: some five CPU minutes
    python -m experiments.sparse --quick        # one
"""

import argparse
import time

import numpy as np

import bart
from bart.diagnostics import split_rhat

from .command import one_line_errors, say

__all__ = ["SYSTEMS", "friedman", "main", "measure"]

N_ROWS, N_TEST, N_DIMS, N_RELEVANT = 500, 1000, 100, 5
SYSTEMS = {
    "equal, k = 2": {},
    "Dirichlet, k = 2": {"dim_weights": "dirichlet"},
    "equal, chi k": {"k": bart.ChiK()},
    "Dirichlet, chi k": {"dim_weights": "dirichlet", "k": bart.ChiK()},
}
RUN = {"n_burn": 1000, "n_draws": 1000, "n_chains": 4, "progress": False}
# The first number of the streams that make the data.
_TAG = 31


def friedman(n_rows, n_dims, rng):
    """X uniform, the mean of y, and y with noise of standard deviation 1."""
    X = rng.random((n_rows, n_dims))
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, f, f + rng.standard_normal(n_rows)


def measure(system, number, n_dims=N_DIMS, **run):
    """What one fit finds: a dict of numbers."""
    rng = np.random.default_rng((_TAG, number))
    X, _, y = friedman(N_ROWS, n_dims, rng)
    X_test, f_test, _ = friedman(N_TEST, n_dims, rng)
    began = time.process_time()
    post = bart.sample(bart.Model(X, y, **SYSTEMS[system]), seed=number, **{**RUN, **run})
    seconds = time.process_time() - began
    shares = post.split_counts()
    used = (shares > 0).mean(axis=(0, 1))                   # P(some tree splits the column)
    shares = (shares / shares.sum(axis=2, keepdims=True)).mean(axis=(0, 1))
    return {
        "rmse": float(np.sqrt(np.mean((post.predict(X_test) - f_test) ** 2))),
        "share": float(shares[:N_RELEVANT].sum()), "least": float(used[:N_RELEVANT].min()),
        "noise": float(used[N_RELEVANT:].mean()), "most": float(used[N_RELEVANT:].max()),
        "r_hat": split_rhat(post["sigma"]), "seconds": seconds,
    }


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m experiments.sparse", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="one data set instead of five")
    options = parser.parse_args(arguments)
    with one_line_errors():
        say(f"Friedman, N = {N_ROWS}, {N_DIMS - N_RELEVANT} noise columns; RMSE of f at {N_TEST} new rows; share of\n"
            "the splits on the five columns, the least of their inclusion probabilities; those of noise\n"
            "columns, mean and largest; R-hat of sigma; CPU seconds of a fit. Means over data sets, the\n"
            "RMSE's standard error in brackets.\n")
        say(f"{'':<18}{'RMSE':>15}{'share':>8}{'least':>8}{'noise':>8}{'largest':>9}{'R-hat':>7}{'s':>6}")
        for system in SYSTEMS:
            found = [measure(system, number) for number in range(1, 2 if options.quick else 6)]
            mean = {name: np.mean([one[name] for one in found]) for name in found[0]}
            error = np.std([one["rmse"] for one in found], ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.nan
            say(f"{system:<18}{mean['rmse']:>8.3f} ({error:.3f}){mean['share']:>7.3f}{mean['least']:>8.2f}"
                f"{mean['noise']:>8.3f}{mean['most']:>9.3f}{mean['r_hat']:>7.2f}{mean['seconds']:>6.1f}")


if __name__ == "__main__":
    main()
