"""Which columns are split: counts, shares and pairs by slow loops, the prior's reference, the permutation null."""

import itertools

import numpy as np
import pytest
from chain_helpers import make_data
from scipy import stats
from view_helpers import walk

import bart
from bart import diagnostics
from bart.checkpoints import data_digest
from bart.inclusion import prior_shares
from bart.permutation import PermutationNull, permuted_model

KINDS = ("splits", "trees", "any")


@pytest.fixture(scope="module")
def model():
    return bart.Model(*make_data(60), n_trees=4)


@pytest.fixture(scope="module")
def post(model):
    return bart.sample(
        model, "cgm", n_burn=5, n_draws=20, n_chains=2, seed=4, init="overgrown", keep_burn_trees=True, progress=False
    )


@pytest.fixture(scope="module")
def stumps(post):
    """A run in which no tree splits."""
    model = bart.Model(*make_data(20), n_trees=2, alpha=0.0)
    return bart.sample(model, "cgm", n_burn=0, n_draws=5, n_chains=2, seed=1, init="empty", progress=False)


def slow_counts(post, every, per_tree, burn=False):
    n_draws = post.n_burn if burn else post.n_draws
    found = np.zeros((post.n_chains, len(range(0, n_draws, every)), 3))
    for chain, (place, draw), tree in itertools.product(
        range(post.n_chains), enumerate(range(0, n_draws, every)), range(post.header["n_trees"])
    ):
        dims = [node["dim"] for node in walk(post, chain, draw, tree, burn) if node["dim"] >= 0]
        for dim in set(dims) if per_tree else dims:
            found[chain, place, dim] += 1
    return found


@pytest.mark.parametrize("block", [1, 50, 10**6])
@pytest.mark.parametrize(("every", "burn"), [(1, False), (3, False), (2, True)])
def test_split_counts(post, monkeypatch, block, every, burn):
    monkeypatch.setattr("bart.inclusion._BLOCK_NODES", block)
    np.testing.assert_array_equal(post.split_counts(every, burn), slow_counts(post, every, False, burn))


@pytest.mark.parametrize("kind", KINDS)
def test_inclusion(post, kind):
    pytest.importorskip("arviz")
    counts = slow_counts(post, 2, kind != "splits")
    if kind == "splits":
        totals = counts.sum(axis=2, keepdims=True)
        expected = np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0)
    else:
        expected = counts / 4 if kind == "trees" else counts > 0
    found = post.inclusion(kind, every=2)
    np.testing.assert_allclose(found.draws, expected, rtol=1e-12)
    np.testing.assert_allclose(found.mean, expected.mean(axis=(0, 1)), rtol=1e-12)
    for dim in range(3):
        np.testing.assert_equal(found.mcse[dim], diagnostics.mcse(found.draws[:, :, dim]))
    assert found.prior is None and found.null is None and found.labels == ["x0", "x1", "x2"]


def test_without_splits_shares_are_zero(stumps):
    pytest.importorskip("arviz")
    for kind in KINDS:
        found = stumps.inclusion(kind)
        assert not found.mean.any() and np.isnan(found.mcse).all()
    assert len(stumps.interactions()) == 0 and not stumps.interactions("trees").matrix().any()
    assert not stumps.interactions().draws(0, 2).any() and "mcse" in str(stumps.interactions())


def test_the_table_of_inclusion(post, model):
    pytest.importorskip("arviz")
    null = PermutationNull("splits", np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]]))
    found = post.inclusion(model=model, null=null, seed=1, n_prior=10)
    lines = str(found).splitlines()
    assert len(lines) == 4 and len({len(line) for line in lines}) == 1
    order = np.argsort(-found.mean)
    assert [line.split()[0] for line in lines[1:]] == [f"x{dim}" for dim in order]
    assert [head for head in ("share", "mcse", "prior", "null mean") if head not in lines[0]] == []


# The prior's reference


@pytest.mark.parametrize("kind", KINDS)
def test_the_prior_where_it_is_known(kind):
    """One column of two values: a tree splits with probability alpha, once."""
    X = np.repeat([[0.0, 1.0], [2.0, 1.0]], 5, axis=0)
    model = bart.Model(X, np.arange(10.0), n_trees=2, alpha=0.6)
    expected = 0.6 if kind == "trees" else 1 - 0.4**2
    mean, mcse = prior_shares(model, kind, 2000, seed=3)
    assert mean[1] == 0.0 and mcse[1] == 0.0
    assert abs(mean[0] - expected) < 5 * mcse[0] and mcse[0] < 0.02


def test_exchangeable_columns_have_equal_shares_and_weights_count():
    X = np.random.default_rng(3).random((30, 4))
    mean, mcse = prior_shares(bart.Model(X, X[:, 0], n_trees=3), "splits", 1000, seed=1)
    assert abs(mean.sum() - 1.0) < 0.01 and np.abs(mean - mean.mean()).max() < 5 * mcse.max()
    weighted = bart.Model(X, X[:, 0], n_trees=3, dim_weights=(1, 0, 1, 2))
    mean, mcse = prior_shares(weighted, "splits", 1000, seed=1)
    assert mean[1] == 0.0 and abs(mean[3] - 2 * mean[0]) < 5 * 3 * mcse.max()


def test_chains_without_data_weight_have_the_prior_shares(seed):
    """Under sigma so large that y says nothing, the posterior's shares are the reference."""
    pytest.importorskip("arviz")
    rng = np.random.default_rng(5)
    X = np.stack([rng.random(40), rng.integers(0, 2, 40), rng.integers(0, 4, 40)], axis=1)
    model = bart.Model(X, rng.normal(size=40), n_trees=3, sigma=1e6, leaf_var=1e-6)
    post = bart.sample(model, "cgm", n_burn=50, n_draws=4000, n_chains=2, seed=seed, progress=False)
    for kind in KINDS:
        found = post.inclusion(kind, model=model, n_prior=2000, seed=seed)
        error = np.hypot(found.mcse, found.prior_mcse)
        assert np.abs(found.mean - found.prior).max() < 5 * error.max() and error.max() < 0.03
    # A column of two values can be split once on a path.
    shares, _ = prior_shares(model, "splits", 2000, seed)
    assert shares[1] < min(shares[0], shares[2])


def test_the_model_of_another_run_is_refused(post, model):
    pytest.importorskip("arviz")
    X, y = make_data(60)
    others = {
        "n_trees": bart.Model(X, y, n_trees=5), "n_dims": bart.Model(X[:, :2], y, n_trees=4),
        "y_mid": bart.Model(X, y + 1.0, n_trees=4), "priors": bart.Model(X, y, n_trees=4, alpha=0.5),
        "data": bart.Model(X[::-1], y, n_trees=4, sigma_hat=model.sigma_hat),
    }  # fmt: skip
    for name, other in others.items():
        with pytest.raises(ValueError, match=f"not that of this run: {name}"):
            post.inclusion(model=other)
    assert post.inclusion(model=bart.Model(X, y, n_trees=4), n_prior=2).prior is not None
    header = {name: value for name, value in post.header.items() if name not in ("data", "outcome")}
    assert bart.Posterior(post.sweeps, header, post.forests).inclusion(model=others["data"], n_prior=2)


def test_a_model_of_another_outcome_is_refused():
    """f, its priors and the numbers in y are the same."""
    X, y = np.random.default_rng(1).random((40, 2)), np.arange(40) % 2
    probit = bart.Model(X, y, n_trees=2, outcome="probit", offset=0.0)
    gaussian = bart.Model(X, y, n_trees=2, sigma=1.0, scale=False, leaf_var=probit.leaf_prior.var)
    post = bart.sample(gaussian, "cgm", n_burn=0, n_draws=2, n_chains=1, seed=1, progress=False)
    same = {"y_mid": probit.dataset.y_mid, "y_range": 1.0, "data": data_digest(probit)}
    with pytest.raises(ValueError, match="not that of this run: outcome"):
        bart.Posterior(post.sweeps, post.header | same, post.forests).pointwise_log_likelihood(model=probit)


def test_the_prior_of_columns_that_cannot_be_split():
    model = bart.Model(np.ones((10, 3)), np.arange(10.0), n_trees=2, dim_weights="dirichlet")
    mean, mcse = prior_shares(model, "splits", 5, 1)
    assert mean.tolist() == mcse.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"kind": "nodes"}, "kind"), ({"n_prior": 5}, "n_prior and seed have no effect"), ({"every": 0}, "every"),
        ({"seed": 5}, "n_prior and seed have no effect"),
        ({"null": PermutationNull("trees", np.zeros((2, 3)))}, "null is about"),
        ({"null": PermutationNull("splits", np.zeros((2, 4)))}, "null is about 4"),
    ],
)  # fmt: skip
def test_bad_arguments_of_inclusion(post, options, match):
    with pytest.raises(ValueError, match=match):
        post.inclusion(**options)


# Pairs


@pytest.mark.parametrize("block", [1, 10**6])
@pytest.mark.parametrize("kind", ["splits", "trees"])
def test_interactions(post, monkeypatch, kind, block):
    monkeypatch.setattr("bart.inclusion._BLOCK_NODES", block)
    found = post.interactions(kind, every=2)
    expected = np.zeros((2, 10, 3, 3))
    for chain, place in itertools.product(range(2), range(10)):
        for tree in range(4):
            pairs = [
                (min(node["dim"], above), max(node["dim"], above))
                for node in walk(post, chain, 2 * place, tree) if node["dim"] >= 0 for above in node["above"]
            ]  # fmt: skip
            for pair in pairs if kind == "splits" else set(pairs):
                expected[(chain, place, *pair)] += 1
        total = expected[chain, place].sum()
        expected[chain, place] /= 4 if kind == "trees" else max(total, 1)
    assert expected.any()
    for a, b in itertools.combinations_with_replacement(range(3), 2):
        np.testing.assert_allclose(found.draws(a, b), expected[:, :, a, b], rtol=1e-12)
        np.testing.assert_array_equal(found.draws(b, a), found.draws(a, b))
        assert found.matrix()[a, b] == found.matrix()[b, a] == pytest.approx(expected[:, :, a, b].mean())
    assert np.all(np.diff(found.mean) <= 0)
    for pair, mean in zip(found.pairs, found.mean, strict=True):
        assert mean == pytest.approx(found.draws(*pair.tolist()).mean())


def test_the_table_of_pairs(post):
    pytest.importorskip("arviz")
    found = post.interactions()
    lines = str(found).splitlines()
    a, b = found.pairs[0].tolist()
    assert lines[1].startswith(f"x{a}, x{b}") and f"{found.mcse(a, b):.5f}" in lines[1]
    with pytest.raises(ValueError, match="second is 3"):
        found.draws(0, 3)
    with pytest.raises(ValueError, match="kind"):
        post.interactions("any")


def test_a_product_is_found_as_a_pair():
    rng = np.random.default_rng(1)
    X = rng.random((200, 4))
    y = 10.0 * (X[:, 1] > 0.5) * (X[:, 2] > 0.5) + rng.normal(0, 0.3, 200)
    post = bart.sample(bart.Model(X, y, n_trees=10), "cgm", n_burn=100, n_draws=100, n_chains=2, seed=2, progress=False)
    assert post.interactions().pairs[0].tolist() == [1, 2] and post.interactions("trees").pairs[0].tolist() == [1, 2]


# The permutation null


def test_a_permuted_model_is_the_model_of_permuted_responses():
    X, y = make_data(50)
    order = np.random.default_rng(2).permutation(50)
    for options in (
        {}, {"sigma_hat": "sd"}, {"sigma_hat": 0.7}, {"sigma": 0.5}, {"nu": 4.0, "q": 0.75, "noise_shape": "full"},
        {"scale": False},
    ):  # fmt: skip
        model = bart.Model(X, y, n_trees=3, **options)
        before = model.dataset.y.copy(), repr(model.noise_prior)
        found, expected = permuted_model(model, order), bart.Model(X, y[order], n_trees=3, **options)
        np.testing.assert_array_equal(found.dataset.y, y[order])
        np.testing.assert_array_equal(found.dataset.y_scaled, expected.dataset.y_scaled)
        assert found.codes is model.codes and found.domain is model.domain and not found.dataset.y.flags.writeable
        mine, other = vars(found.noise_prior), vars(expected.noise_prior)
        assert mine == pytest.approx(other, rel=1e-9) and found.sigma_hat_method == expected.sigma_hat_method
        np.testing.assert_array_equal(model.dataset.y, before[0])
        assert repr(model.noise_prior) == before[1]


def test_the_null_is_reproducible_and_of_its_kind(model):
    options = {"n_permutations": 3, "sampler": "cgm", "n_burn": 5, "n_draws": 10}
    for kind in KINDS:
        null = bart.permutation_null(model, kind=kind, seed=1, **options)
        again = bart.permutation_null(model, kind=kind, seed=1, n_chains=1, executor=2, **options)
        assert null.kind == kind and null.shares.shape == (3, 3)
        np.testing.assert_array_equal(null.shares, again.shares)
        assert not np.array_equal(null.shares, bart.permutation_null(model, kind=kind, seed=2, **options).shares)
    assert len(np.unique(null.shares, axis=0)) > 1
    other = bart.permutation_null(model, kind="any", seed=1, tree_order="random", **options)
    assert not np.array_equal(other.shares, null.shares)


def test_thresholds_of_the_null(rng):
    shares = rng.dirichlet([4.0, 2.0, 2.0, 1.0], 40)
    null = PermutationNull("splits", shares)
    ordered = np.sort(shares, axis=0)
    np.testing.assert_array_equal(null.threshold(0.1), ordered[36])
    np.testing.assert_array_equal(null.threshold(0.1, "max"), np.full(4, np.sort(shares.max(axis=1))[36]))
    limit = null.threshold(0.1, "se")
    held = [(shares <= limit * (1 + 1e-12)).all(axis=1).mean()]
    factor = (limit - null.mean) / shares.std(axis=0, ddof=1)
    np.testing.assert_allclose(factor, factor[0], rtol=1e-9)
    assert 0.9 <= held[0] < 0.95
    np.testing.assert_allclose(null.p_values(shares[0]), (1 + (shares >= shares[0]).sum(axis=0)) / 41)


def test_a_signal_stands_above_the_null_and_noise_does_not():
    rng = np.random.default_rng(6)
    X = rng.random((100, 5))
    model = bart.Model(X, 5.0 * np.sin(6.0 * X[:, 3]) + rng.normal(0, 0.3, 100), n_trees=20)
    post = bart.sample(model, "growprune", n_burn=200, n_draws=400, n_chains=2, seed=1, progress=False)
    null = bart.permutation_null(model, 19, "splits", "growprune", 200, 400, 2, seed=3)
    shares = post.split_counts().sum(axis=(0, 1)) / post.split_counts().sum()
    above = shares > null.threshold(0.05, "max")
    assert above.tolist() == [False, False, False, True, False]
    assert stats.rankdata(-shares)[3] == 1 and null.p_values(shares)[3] == 0.05


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"n_permutations": 1}, ValueError, "n_permutations"), ({"kind": "x"}, ValueError, "kind"),
        ({"keep_trees": False}, ValueError, "keep_trees has no place"), ({"checkpoint": "x"}, ValueError, "checkpoint"),
        ({"seed": "a"}, TypeError, "seed must be"), ({"seed": [1, -1]}, ValueError, r"seed\[1\] must be"),
        ({"n_draws": 0}, ValueError, "n_draws"), ({"sampler": "none"}, ValueError, "none"),
        ({"no_such": 1}, TypeError, "no_such"),
    ],
)  # fmt: skip
def test_bad_arguments_of_the_null(model, options, error, match):
    with pytest.raises(error, match=match):
        bart.permutation_null(model, **options)
    with pytest.raises(TypeError, match="model must be a Model"):
        bart.permutation_null(3)
    with pytest.raises(ValueError, match="rule"):
        PermutationNull("splits", np.zeros((2, 2))).threshold(0.1, "global")
    with pytest.raises(ValueError, match="level"):
        PermutationNull("splits", np.zeros((2, 2))).threshold(0)
