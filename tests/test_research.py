"""The page experiments/research.md: every block runs, and what its functions do is exact.

Exact answers come from closed forms, quadrature and the enumeration of trees; a test's error rate is 1e-5 or less.
"""

import contextlib
import io
import re
from pathlib import Path

import numpy as np
import pytest
from chain_helpers import make_model
from oracle import Problem
from scipy import stats
from scipy.integrate import quad
from scipy.special import ndtr

import bart

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "experiments" / "research.md").read_text()
BLOCKS = dict(re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?```python\n(.*?)```", PAGE, re.M | re.S))
LEVEL = 1e-5
TINY_X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [3.0, 1.0]])
TINY_Y = np.array([1.3, -0.4, 0.6, -1.5])


def block(word):
    (code,) = (code for title, code in BLOCKS.items() if word in title)
    return code


def functions(word):
    """What a block defines before its first line of data, without running the rest."""
    names = {}
    exec(re.split(r"^(?:rng|X, y) =", block(word), maxsplit=1, flags=re.M)[0], names)
    return names


def run(word, monkeypatch):
    """A block's names after it ran, and what it printed."""
    monkeypatch.chdir(ROOT)
    names, printed = {}, io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block(word), f"research.md: {word}", "exec"), names)
    return names, printed.getvalue()


def check_mean(draws, expected):
    """The mean of correlated draws against a number: five of its standard errors by means of batches."""
    batches = np.array_split(np.asarray(draws), 25)
    means = np.array([batch.mean() for batch in batches])
    t = (means.mean() - expected) / (means.std(ddof=1) / np.sqrt(len(means)))
    assert 2 * stats.t.sf(abs(t), len(means) - 1) > LEVEL, (means.mean(), expected, t)


def test_the_page_has_all_blocks():
    assert len(BLOCKS) == PAGE.count("```python") == 7


# As they stand


def test_intercepts_find_the_truth(monkeypatch):
    names, printed = run("random intercepts", monkeypatch)
    assert np.corrcoef(names["differences"].mean(axis=(0, 1)), names["truth"])[0, 1] > 0.98
    assert float(printed.split()[-1]) < 1.1


def test_probit_finds_the_probabilities(monkeypatch):
    names, _ = run("probit", monkeypatch)
    assert np.abs(names["probability"] - ndtr(3 * names["X"][:, 0] - 1.5)).mean() < 0.1
    assert np.array_equal(names["z"] > 0, names["labels"])


def test_two_forests_find_their_parts(monkeypatch):
    names, _ = run("Two forests", monkeypatch)
    for found, truth in zip(names["parts"], (names["smooth"], names["steps"]), strict=True):
        assert np.corrcoef(found, truth)[0, 1] > 0.9
    first, second = names["first"], names["second"]
    rest = names["y"] - names["part"](first) - names["part"](second) - names["many"].dataset.y_mid
    np.testing.assert_allclose(first.residual * names["many"].dataset.y_range, rest, atol=1e-9)


def test_the_hyperparameter_moves(monkeypatch):
    names, _ = run("hyperparameter", monkeypatch)
    k = np.array(names["k"][300:])
    assert 0.2 < k.min() < k.max() < 20 and k.std() > 0.01


def test_the_slope_of_the_variance_is_found(monkeypatch):
    names, _ = run("variance depends", monkeypatch)
    slopes = np.array(names["slopes"][300:])
    assert abs(slopes.mean() - 4.0) < 4 * slopes.std() and slopes.std() < 1.0
    np.testing.assert_array_equal(names["ensemble"].weights, np.exp(-names["g"] * names["u"]))


# Exactness


def test_intercepts_are_exact():
    """Stumps alone (alpha = 0): f is one normal constant, so that f and b given y are jointly normal."""
    redraw = functions("random intercepts")["redraw_intercepts"]
    rng = np.random.default_rng(11)
    group, y = np.array([0, 0, 0, 1, 2, 2]), np.array([1.0, 0.4, 1.1, -0.6, 0.2, 0.3])
    model = bart.Model(np.arange(6.0)[:, None], y, n_trees=1, alpha=0.0, sigma=0.5, leaf_var=0.6, scale=False)
    ensemble, b, draws = bart.Ensemble(model, "growprune", rng), np.zeros(3), []
    for _ in range(10_000):
        ensemble.sweep()
        b = redraw(ensemble, group, b, 0.8, rng)
        draws.append([*b, ensemble.trees[0].leaf_values[0]])
    A = np.column_stack([np.eye(3)[group], np.ones(6)])
    cov = np.linalg.inv(A.T @ A / 0.25 + np.diag([1 / 0.8] * 3 + [1 / 0.6]))
    mean, draws = cov @ A.T @ y / 0.25, np.array(draws[100:])
    for i in range(4):
        check_mean(draws[:, i], mean[i])
        check_mean((draws[:, i] - mean[i]) ** 2, cov[i, i])
    check_mean((draws[:, 0] - mean[0]) * (draws[:, 3] - mean[3]), cov[0, 3])


def test_probit_is_exact():
    """Stumps alone: P(mu | labels) by quadrature."""
    redraw = functions("probit")["redraw_latent"]
    rng = np.random.default_rng(12)
    labels = np.array([True] * 7 + [False] * 2)
    z = np.where(labels, 0.5, -0.5)
    model = bart.Model(np.arange(9.0)[:, None], z, n_trees=1, alpha=0.0, sigma=1.0, leaf_var=1.5, scale=False)
    ensemble, draws = bart.Ensemble(model, "growprune", rng), []
    for _ in range(10_000):
        ensemble.sweep()
        z = redraw(ensemble, labels, z, rng)
        assert np.array_equal(z > 0, labels)
        draws.append(ensemble.trees[0].leaf_values[0])

    def density(mu):
        return ndtr(mu) ** 7 * ndtr(-mu) ** 2 * np.exp(-mu * mu / 3)

    total = quad(density, -8, 8)[0]
    mean = quad(lambda mu: mu * density(mu), -8, 8)[0] / total
    check_mean(draws[100:], mean)
    check_mean((np.array(draws[100:]) - mean) ** 2, quad(lambda mu: (mu - mean) ** 2 * density(mu), -8, 8)[0] / total)


def test_the_slope_of_the_variance_is_exact():
    """Stumps alone under fixed noise: g, and f given g, by quadrature over g."""
    redraw = functions("variance depends")["redraw_slope"]
    rng = np.random.default_rng(16)
    u, y = np.array([-1.0, -0.5, 0.0, 0.3, 0.8, 1.0]), np.array([0.3, 0.1, -0.6, 0.9, 1.4, -0.8])
    model = bart.Model(u[:, None], y, n_trees=1, alpha=0.0, sigma=0.7, leaf_var=0.6, scale=False)
    ensemble, g, draws = bart.Ensemble(model, "growprune", rng), 0.0, []
    for _ in range(20_000):
        ensemble.sweep()
        g = redraw(ensemble, u, g, 1.5, rng, step=1.5)
        draws.append((g, ensemble.trees[0].leaf_values[0]))
    grid, draws = np.linspace(-9, 9, 2001), np.array(draws[100:])
    laws = [stats.multivariate_normal(np.zeros(6), np.diag(0.49 * np.exp(g * u)) + 0.6) for g in grid]
    weights = np.exp([law.logpdf(y) - 0.5 * (g / 1.5) ** 2 for g, law in zip(grid, laws, strict=True)])
    weights /= weights.sum()
    f = np.array([0.6 * np.linalg.solve(law.cov, y).sum() for law in laws])
    check_mean(draws[:, 0], weights @ grid)
    check_mean(draws[:, 0] ** 2, weights @ grid**2)
    check_mean(draws[:, 1], weights @ f)
    check_mean(draws[:, 0] * draws[:, 1], weights @ (grid * f))


@pytest.mark.parametrize("f", [-30.0, -3.0, 0.0, 3.0, 30.0])
def test_latent_outcomes_are_truncated_normal(f, rng):
    """Far tails included."""
    redraw = functions("probit")["redraw_latent"]

    class Fixed:
        residual = None

    n = 4000
    for label in (True, False):
        holder, z = Fixed(), np.zeros(n)
        holder.residual = z - f
        new = redraw(holder, np.full(n, label), z, rng)
        low, high = (-f, np.inf) if label else (-np.inf, -f)
        assert np.isfinite(new).all() and ((new > 0) == label).all()
        np.testing.assert_allclose(holder.residual, new - f)
        assert stats.kstest(new, stats.truncnorm(low, high, loc=f).cdf).pvalue > LEVEL


def test_two_forests_are_exact():
    """Two stumps of unlike prior variance under a free noise: means by quadrature over sigma2."""
    names = functions("Two forests")
    rng = np.random.default_rng(13)
    y = np.array([0.3, 1.4, 0.9, 2.0, 1.1, 0.6, 1.7])
    options = {"n_trees": 1, "alpha": 0.0, "sigma_hat": 0.6, "scale": False}
    models = [bart.Model(np.arange(7.0)[:, None], y, leaf_var=var, **options) for var in (0.4, 1.1)]
    first, second = (bart.Ensemble(model, "growprune", rng) for model in models)
    names["start_together"](first, second)
    draws = []
    for _ in range(10_000):
        names["sweep_together"](first, second)
        draws.append([names["part"](first)[0], names["part"](second)[0], np.log(first.sigma2)])
    noise, n, total = models[0].noise_prior, 7, y.sum()

    def log_weight(u):          # log of p(y | sigma2) p(log sigma2), both constants integrated out, u = log sigma2
        v, c = np.exp(u), 1.5
        log_y = -0.5 * n * np.log(v) - 0.5 * np.log1p(n * c / v) - 0.5 * (y @ y / v - c * total**2 / v / (v + n * c))
        return log_y - noise.shape * u - noise.rate / v

    grid = np.linspace(-6, 4, 4001)
    weights = np.exp([log_weight(u) for u in grid])
    weights /= weights.sum()
    draws = np.array(draws[100:])
    for i, var in enumerate((0.4, 1.1)):
        check_mean(draws[:, i], weights @ (var * total / (np.exp(grid) + n * 1.5)))
    check_mean(draws[:, 2], weights @ grid)


def test_the_samplers_in_python_are_exact(monkeypatch):
    """One step from an exact draw of the tree leaves the enumerated law: G-test over all trees."""
    prior_trees, cost = functions("sampler in Python")["PriorTrees"], functions("tree prior")["LeafCost"]
    exact = Problem(TINY_X, TINY_Y, sigma2=0.5, leaf_var=1.0).posterior()
    sizes = np.array([state_leaves(tree) for tree in exact.trees])
    params = bart.StepParams(sigma2=0.5, leaf_var=1.0)
    state = bart.TreeState(bart.RankCodes(TINY_X), bart.TreePrior(alpha=0.95, beta=2.0))
    rng = np.random.default_rng(14)
    for sampler, p in [
        (prior_trees(), exact.p),
        (cost(bart.GrowPrune(), 0.7), exact.p * np.exp(-0.7 * sizes)),
        (cost(bart.CGM(), -0.5), exact.p * np.exp(0.5 * sizes)),
    ]:
        p = p / p.sum()
        counts = np.zeros(len(p))
        for i in rng.choice(len(p), 20_000, p=p):
            state.structure = exact.trees[i]
            info = sampler.step(state, TINY_Y, params, rng)
            found = state.structure
            assert info.n_leaves == state.n_leaves and info.changed == (found != exact.trees[i])
            counts[exact.index[found]] += 1
        rare = p * counts.sum() < 10
        cells = np.append(counts[~rare], counts[rare].sum()), np.append(p[~rare], p[rare].sum()) * counts.sum()
        keep = cells[1] > 0
        assert stats.power_divergence(cells[0][keep], cells[1][keep], lambda_="log-likelihood").pvalue > LEVEL


def state_leaves(tree):
    return 1 if tree is None else state_leaves(tree[2]) + state_leaves(tree[3])


@pytest.mark.parametrize("word", ["sampler in Python", "tree prior"])
def test_their_blocks_agree_with_the_exact_law(monkeypatch, word):
    _, printed = run(word, monkeypatch)
    exact, found = (np.array(re.findall(r"\d\.\d+(?:e-?\d+)?", line), dtype=float)
                    for line in printed.splitlines()[:2])  # fmt: skip
    assert len(exact) == 4 and np.abs(exact - found).max() < 0.03


def test_the_hyperparameter_is_exact():
    """p(leaf_var | y) by quadrature over the evidence of enumerated trees."""
    redraw = functions("hyperparameter")["redraw_leaf_var"]
    rng = np.random.default_rng(15)
    model = bart.Model(TINY_X, TINY_Y, n_trees=1, sigma=np.sqrt(0.5), leaf_var=1.0, scale=False)
    ensemble, draws, leaves = bart.Ensemble(model, "growprune", rng), [], []
    for _ in range(20_000):
        leaves.append(ensemble.sweep()["n_leaves"])
        redraw(ensemble, 3.0, 2.0, rng)
        draws.append(np.log(ensemble.leaf_var))
    grid = np.linspace(-2.5, 4.5, 141)
    laws = [Problem(TINY_X, TINY_Y, sigma2=0.5, leaf_var=np.exp(u)).posterior() for u in grid]
    log_weights = np.array([law.log_evidence for law in laws]) - 3.0 * grid - 2.0 * np.exp(-grid)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    check_mean(draws[100:], weights @ grid)
    check_mean(np.array(draws[100:]) ** 2, weights @ grid**2)
    n_leaves = np.array([law.p_n_leaves() for law in laws])
    check_mean(leaves[100:], weights @ n_leaves @ np.arange(1, 5))


# leaf_var and leaf_mean of an Ensemble


@pytest.mark.parametrize("sampler", ["growprune", "pg(n_particles=3)", "local + joint(every=2)"])
def test_a_set_leaf_prior_is_that_of_a_model_with_it(sampler):
    """Set on an Ensemble before its first sweep, or given to the model: the same bits."""
    target = make_model(sigma=0.3, leaf_mean=0.3, leaf_var=0.5)
    structures = [(0, 3, None, None), None, None, (1, 5, None, None)]
    runs = []
    for set_later in (False, True):
        model = make_model(sigma=0.3) if set_later else target
        ensemble = bart.Ensemble(model, sampler, np.random.default_rng(1), init=structures)
        for tree in ensemble.trees:
            tree.leaf_values = np.full(tree.n_leaves, 0.1)
        ensemble.recompute_residual()
        ensemble.rng.bit_generator.state = np.random.default_rng(2).bit_generator.state
        if set_later:
            ensemble.leaf_mean, ensemble.leaf_var = target.leaf_prior.mean, target.leaf_prior.var
        runs.append(ensemble.run(30))
    for name in ("log_likelihood", "n_leaves", "tree_changed"):
        np.testing.assert_array_equal(runs[0][name], runs[1][name])


def test_the_residual_may_be_set_and_changed_in_place():
    model = make_model()
    runs = []
    for way in range(3):
        ensemble = bart.Ensemble(model, "growprune", np.random.default_rng(5))
        array = ensemble.residual
        if way == 0:
            ensemble.residual[:] = ensemble.residual + 0.25
        elif way == 1:
            ensemble.residual += 0.25
        else:
            ensemble.residual = (ensemble.residual + 0.25).tolist()
        assert ensemble.residual is array
        runs.append(ensemble.run(20)["log_likelihood"])
    np.testing.assert_array_equal(runs[0], runs[1])
    np.testing.assert_array_equal(runs[0], runs[2])
    for bad in (np.zeros(3), [1.0], np.full(40, np.nan), "x"):
        with pytest.raises(ValueError, match="residual"):
            ensemble.residual = bad


def test_a_set_leaf_prior_is_part_of_the_state():
    model = make_model()
    one, other = (bart.Ensemble(model, "growprune", np.random.default_rng(k)) for k in (3, 4))
    one.leaf_mean, one.leaf_var = 0.01, 0.5
    one.run(5)
    other.set_state(one.get_state())
    other.rng.bit_generator.state = one.rng.bit_generator.state
    assert (other.leaf_mean, other.leaf_var) == (0.01, 0.5)
    np.testing.assert_array_equal(one.run(20)["log_likelihood"], other.run(20)["log_likelihood"])
    old = {key: value for key, value in one.get_state().items() if key != "leaf_prior"}
    other.set_state(old)            # a state from before it could be set
    assert (other.leaf_mean, other.leaf_var) == (model.leaf_prior.mean, model.leaf_prior.var)


@pytest.mark.parametrize(("name", "value"), [("leaf_var", 0.0), ("leaf_var", "1"), ("leaf_mean", np.nan)])
def test_a_bad_leaf_prior_is_refused_by_name(name, value):
    ensemble = bart.Ensemble(make_model(), "growprune", np.random.default_rng(0))
    with pytest.raises((TypeError, ValueError), match=name):
        setattr(ensemble, name, value)
