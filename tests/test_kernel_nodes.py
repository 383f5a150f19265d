"""Questions to a node in both forms, the marginal likelihood, and the resamplers, against slow references."""

import numpy as np
import pytest
from bart.kernels.columns import Domain
from bart.kernels.testing import ancestors, final_index, node_questions, tabulated_log_L
from scipy import stats

import bart

WEIGHTS = {
    "one dominates": np.array([0.999] + [0.001 / 9] * 9),
    "clamped next to nothing": np.array([1e-300] + [0.001 / 8] * 8 + [0.999]),
    "another holds all": np.array([0.0] * 9 + [1.0]),
    "clamped holds all": np.array([1.0] + [0.0] * 9),
    "equal": np.full(4, 0.25),
    "two": np.array([0.3, 0.7]),
    "uneven": np.array([0.05, 0.5, 0.15, 0.3]),
}


def random_path(rng, values, codes, length):
    """A path of valid rules, and the rows at its end."""
    rows, path = np.arange(codes.shape[1]), []
    for _ in range(length):
        valid = [d for d in range(len(codes)) if len(np.unique(codes[d][rows])) > 1]
        if not valid:
            break
        dim = int(rng.choice(valid))
        low, high = codes[dim][rows].min(), codes[dim][rows].max()
        cut, side = int(rng.integers(low, high)), int(rng.integers(2))
        path.append((dim, cut, side))
        rows = rows[(codes[dim][rows] > cut) == bool(side)]
    return path, rows


@pytest.mark.parametrize("levels", [2, 4, 1000])
@pytest.mark.parametrize("cuts", ["width", "grid", "quantile"])
def test_both_forms_of_a_node_give_the_slow_answers(rng, levels, cuts):
    for n in (*range(1, 41), 300):
        X = rng.integers(0, levels, size=(n, 3)) ** 2.0
        codes = bart.RankCodes(X)
        prior = bart.TreePrior(cuts=cuts, **({} if cuts == "width" else {"n_cuts": 3}))
        domain = Domain(codes, prior)
        mass, target = prior.gap_mass(codes.values), rng.normal(size=n)
        path, rows = random_path(rng, codes.values, codes.codes.astype(int), int(rng.integers(0, 6)))
        dim = int(rng.integers(3))
        cut = int(rng.integers(0, len(codes.values[dim])))
        left = rows[codes.codes[dim][rows] <= cut]
        for as_rows in (False, True):
            found = node_questions(domain, path, dim, cut, target, as_rows)
            assert found["n"] == len(rows) and found["n_left"] == len(left)
            assert found["s_left"] == pytest.approx(target[left].sum(), abs=1e-9)
            any_valid = False
            for d, (low, high, valid) in enumerate(found["ranges"]):
                seen = codes.codes[d][rows]
                assert (low, high) == (seen.min(), seen.max())
                slow = mass[d][seen.max()] > mass[d][seen.min()]
                assert bool(valid) == slow
                any_valid |= slow
            assert bool(found["can_split"]) == any_valid


def test_log_L_is_the_gaussian_marginal_likelihood_up_to_terms_all_trees_share(rng):
    for sigma2, mean, var in ((0.5, 0.0, 1.0), (0.03, 0.4, 0.0025), (50.0, -1.0, 0.01)):
        for n in range(1, 41):
            R = rng.normal(size=n)
            cov = sigma2 * np.eye(n) + var
            exact = stats.multivariate_normal(np.full(n, mean), cov).logpdf(R)
            shared = -0.5 * n * np.log(2 * np.pi * sigma2) - ((R - mean) ** 2).sum() / (2 * sigma2)
            ours = tabulated_log_L(sigma2, mean, var, np.array([n]), np.array([R.sum()]))[0]
            assert ours == pytest.approx(exact - shared, abs=1e-8)


@pytest.mark.parametrize("scheme", ["multinomial", "systematic", "killing"])
@pytest.mark.parametrize("name", WEIGHTS)
def test_resamplers_keep_the_clamped_particle_and_the_law(rng, scheme, name):
    """P(ancestor = i) = W_i for every slot when the clamped particle itself is drawn by weight; counts over 1e5."""
    weights, n = WEIGHTS[name], 100_000
    C = len(weights)
    counts = np.zeros(C)
    for index in range(C):
        # The clamped particle has index i with probability W_i: put it first, as the kernels have it.
        repeats = round(n * weights[index])
        order = np.r_[index, np.delete(np.arange(C), index)]
        if repeats:
            drawn = ancestors(weights[order], scheme, rng, repeats)
            assert (drawn[:, 0] == 0).all() and drawn.min() >= 0 and drawn.max() < C
            counts[order] += np.bincount(drawn.ravel(), minlength=C)
    total = counts.sum()
    # Copies within a draw are dependent: the bound is that of C copies moving together, at 1e-5 two-sided.
    bound = 4.5 * np.sqrt(C * total * weights * (1 - weights)) + C
    assert (np.abs(counts - total * weights) <= bound).all(), (counts / total, weights)


@pytest.mark.parametrize("scheme", ["multinomial", "systematic", "killing"])
@pytest.mark.parametrize("name", WEIGHTS)
def test_resamplers_survive_any_clamped_weight(rng, scheme, name):
    drawn = ancestors(WEIGHTS[name], scheme, rng, 100_000)
    assert (drawn[:, 0] == 0).all()
    assert (WEIGHTS[name][drawn[:, 1:]] > 0).all() or WEIGHTS[name][0] < 1e-100


@pytest.mark.parametrize("name", WEIGHTS)
def test_forced_move_keeps_the_weights_invariant(rng, name):
    """Start by weight, move: the law of the end is the weights (G-test at 1e-5)."""
    weights, n = WEIGHTS[name], 60_000
    C, counts = len(weights), np.zeros(len(weights))
    for index in range(C):
        order = np.r_[index, np.delete(np.arange(C), index)]
        drawn = final_index(weights[order], True, rng, round(n * weights[index]))
        counts[order] += np.bincount(drawn, minlength=C)
    expected = counts.sum() * weights
    keep = expected > 20
    assert counts[~keep].sum() <= expected[~keep].sum() + 5 * np.sqrt(expected[~keep].sum() + 1)
    if keep.sum() > 1:
        scaled = expected[keep] * counts[keep].sum() / expected[keep].sum()
        assert stats.power_divergence(counts[keep], scaled, lambda_="log-likelihood").pvalue > 1e-5


def test_final_index_by_weight(rng):
    counts = np.bincount(final_index(WEIGHTS["uneven"], False, rng, 40_000), minlength=4)
    assert stats.chisquare(counts, 40_000 * WEIGHTS["uneven"]).pvalue > 1e-5
