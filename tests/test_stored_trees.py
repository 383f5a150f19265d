"""Stored trees as a user sees them: against a slow walk; text, arrays, frames, JSON."""

import json
import sys

import numpy as np
import pytest
from chain_helpers import make_data
from view_helpers import all_draws, walk

import bart
from bart.trees import Tree


@pytest.fixture(scope="module")
def post():
    pandas = pytest.importorskip("pandas")
    X, y = make_data(60)
    model = bart.Model(pandas.DataFrame(X, columns=["age", "size", "c"]), 7.0 * y - 3.0, n_trees=4)
    return bart.sample(
        model, "cgm", n_burn=12, n_draws=15, n_chains=2, seed=4, keep_burn_trees=True, init="overgrown",
        progress=False,
    )  # fmt: skip


def by_hand():
    """A tree that splits column 1 at 0.5, and its left side column 0 at -2."""
    nodes = [(1, 0.5, 1, 2), (0, -2.0, 3, 4), 30.0, -10.0, 20.0]
    plain = [
        {"value": n} if isinstance(n, float) else dict(zip(("dim", "threshold", "left", "right"), n, strict=True))
        for n in nodes
    ]
    return {"format": "bart forest", "version": 1, "offset": 100.0, "n_dims": 2, "column_names": None,
            "trees": [plain, [{"value": 0.5}]]}  # fmt: skip


def test_a_forest_by_hand():
    forest = bart.Forest.from_json(json.dumps(by_hand()))
    tree = forest[0]
    assert len(forest) == 2 and tree.n_leaves == 3 and tree.depth == 2 and forest[1].depth == 0
    assert tree.structure == (1, 0.5, (0, -2.0, -10.0, 20.0), 30.0) and forest[1].structure == 0.5
    X = np.array([[-2.0, 0.5], [-1.9, 0.5], [-9.0, 0.6]])
    np.testing.assert_array_equal(tree.apply(X), [3, 4, 2])
    np.testing.assert_array_equal(tree.predict(X), [-10.0, 20.0, 30.0])
    np.testing.assert_array_equal(forest.predict(X), [90.5, 120.5, 130.5])
    for X, match in (([[1.0]], "1 columns"), ([1.0, 2.0], "shape"), ([[np.nan, 0.0]], "NaN")):
        with pytest.raises(ValueError, match=match):
            tree.predict(X)
    assert str(tree) == "x1 <= 0.5\n    x0 <= -2: -10\n    x0 > -2: 20\nx1 > 0.5: 30"
    assert str(forest).endswith("tree 1\n0.5") and "3 leaves" in repr(tree) and "4 leaves" in repr(forest)
    np.testing.assert_array_equal(forest.nodes["tree"], [0, 0, 0, 0, 0, 1])
    np.testing.assert_array_equal(forest.nodes["parent"], [-1, 0, 0, 1, 1, -1])


@pytest.mark.parametrize("burn", [False, True])
def test_trees_are_those_of_a_slow_walk(post, burn):
    for chain, draw in ((0, 0), (1, 7), (1, 11)):
        forest = post.trees(chain, draw, burn=burn)
        for number, tree in enumerate(forest):
            expected = walk(post, chain, draw, number, burn)
            assert len(tree) == len(expected)
            # A walk is depth first: follow the same order in the tree.
            order, todo = [], [0]
            while todo:
                at = todo.pop()
                order.append(at)
                if tree.nodes["dim"][at] >= 0:
                    todo += [tree.nodes["right"][at], tree.nodes["left"][at]]
            for at, slow in zip(order, expected, strict=True):
                node = tree.nodes[at]
                assert node["dim"] == slow["dim"] and node["depth"] == slow["depth"]
                if slow["dim"] < 0:
                    assert node["value"] == slow["value"] and np.isnan(node["threshold"]) and node["left"] == -1
                else:
                    assert node["threshold"] == slow["threshold"] and np.isnan(node["value"])
                    assert tree.nodes["parent"][node["left"]] == tree.nodes["parent"][node["right"]] == at
            assert tree.n_leaves == sum(slow["dim"] < 0 for slow in expected)
            assert tree.depth == max(slow["depth"] for slow in expected)


def test_forests_predict_what_the_run_predicts(post):
    X = np.random.default_rng(3).random((30, 3))
    draws = post.predict(X, draws=True).draws
    np.testing.assert_allclose(draws, all_draws(post, X), rtol=1e-12)
    for chain, draw in ((0, 2), (1, 14)):
        np.testing.assert_allclose(post.trees(chain, draw).predict(X), draws[chain, draw], rtol=1e-12)


def test_text_shows_names_and_units(post):
    forest = max((post.trees(0, draw) for draw in range(15)), key=lambda forest: len(forest.nodes))
    text = str(forest)
    inner = forest.nodes[forest.nodes["dim"] >= 0]
    for node in inner:
        assert f"{('age', 'size', 'c')[node['dim']]} <= {node['threshold']:.6g}" in text
    leaves = forest.nodes[forest.nodes["dim"] < 0]
    assert sum(line.endswith(f": {leaf['value']:.6g}") for leaf in leaves for line in text.splitlines()) >= 1
    assert text.startswith(f"f(x) = {post.header['y_mid']:.6g} + the sum of 4 trees")


def test_json_round_trip_is_exact(post):
    pandas = pytest.importorskip("pandas")
    forest = post.trees(1, 3)
    for indent in (None, 2):
        text = forest.to_json(indent)
        again = bart.Forest.from_json(text)
        assert again == forest and again.to_json(indent) == text
    assert again.column_names == ("age", "size", "c") and json.loads(text)["version"] == 1
    frame = pandas.DataFrame(np.random.default_rng(1).random((5, 3)), columns=["age", "size", "c"])
    np.testing.assert_array_equal(again.predict(frame), forest.predict(frame))
    with pytest.raises(ValueError, match="another order"):
        again.predict(frame[["size", "age", "c"]])
    assert forest != post.trees(1, 4) and forest != 3 and forest[0] != 3


def changed(path, value):
    record = by_hand()
    at = record
    for key in path[:-1]:
        at = at[key]
    if value is KeyError:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return json.dumps(record)


@pytest.mark.parametrize(
    ("path", "value", "match"),
    [
        (["format"], "other", "format"), (["version"], 2, "version 2"), (["offset"], KeyError, "offset"),
        (["offset"], "1", "offset|number"), (["n_dims"], 0, "n_dims"),
        (["column_names"], ["a"], "names 1 columns of 2"),
        (["trees"], 3, "whole forest"), (["trees", 1], [], "tree 1.*no nodes"), (["trees", 0, 0, "left"], 0, "child 0"),
        (["trees", 0, 0, "left"], 9, "child 9"), (["trees", 0, 0, "right"], 1, "child"),
        (["trees", 0, 1, "left"], 2, "child 2"), (["trees", 0, 0, "dim"], 2, "column 2 of 2"),
        (["trees", 0, 0, "dim"], 0.5, "dim must be an integer"),
        (["trees", 0, 0, "threshold"], "x", "no finite number"),
        (["trees", 0, 2], {"value": None}, "tree 0.*no finite number"), (["trees", 0, 0, "left"], KeyError, "left"),
        (["trees", 0, 2], [1], "tree 0"), (["trees", 0, 0], {"value": 1.0}, "no parent"),
    ],
)  # fmt: skip
def test_damaged_json_is_refused(path, value, match):
    with pytest.raises(ValueError, match=match):
        bart.Forest.from_json(changed(path, value))


def test_text_that_is_no_json_is_refused():
    for text in ("", "[1", "3", "[]"):
        with pytest.raises(ValueError):
            bart.Forest.from_json(text)


def test_a_very_deep_tree():
    n = 3000
    nodes = [{"dim": 0, "threshold": float(-d), "left": 2 * d + 1, "right": 2 * d + 2} if d < n else {"value": 1.0}
             for d in range(n + 1)]  # fmt: skip
    flat = [nodes[0]]
    for d in range(1, n + 1):
        flat += [nodes[d], {"value": float(d)}]
    record = by_hand() | {"trees": [flat]}
    tree = bart.Forest.from_json(json.dumps(record))[0]
    assert tree.depth == n and tree.n_leaves == n + 1
    assert len(str(tree).splitlines()) == 2 * n and bart.Forest.from_json(json.dumps(record)).to_json()
    np.testing.assert_array_equal(tree.predict([[0.5, 0.0], [-1e9, 0.0], [-1.5, 0.0]]), [1.0, 1.0, 3.0])


def test_the_table_of_nodes(post):
    for every, burn in ((1, False), (4, False), (5, True)):
        table, parts = post.nodes(every, burn), []
        for chain in range(2):
            for draw in range(0, 12 if burn else 15, every):
                own = table[(table["chain"] == chain) & (table["draw"] == draw)]
                forest = post.trees(chain, draw, burn=burn)
                for name in forest.nodes.dtype.names:
                    np.testing.assert_array_equal(own[name], forest.nodes[name])
                parts.append(len(own))
        assert sum(parts) == len(table)


def test_the_frame_of_nodes(post):
    pytest.importorskip("pandas")
    frame, table = post.to_frame(every=3), post.nodes(every=3)
    assert list(frame.columns) == [*table.dtype.names[:7], "column", *table.dtype.names[7:]]
    for name in table.dtype.names:
        np.testing.assert_array_equal(frame[name].to_numpy(), table[name])
    labels = [None, "age", "size", "c"]
    assert frame["column"].tolist() == [labels[dim + 1] for dim in table["dim"]]


def test_without_pandas_the_extra_is_named(post, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pgbart\[frames\]"):
        post.to_frame()


def test_a_place_that_does_not_exist_is_refused(post):
    for chain, draw, error, match in (
        (2, 0, IndexError, "chain is 2.*are 2"), (0, 15, IndexError, "draw is 15.*are 15"),
        (-1, 0, ValueError, "chain"), (0, -1, ValueError, "draw"), (0.0, 0, TypeError, "chain"),
    ):  # fmt: skip
        with pytest.raises(error, match=match):
            post.trees(chain, draw)
    with pytest.raises(IndexError, match="draw is 12"):
        post.trees(0, 12, burn=True)
    with pytest.raises(TypeError, match="burn"):
        post.trees(0, 0, burn=1)


def test_without_trees_nothing_is_looked_at():
    model = bart.Model(*make_data(), n_trees=2)
    bare = bart.sample(
        model, "cgm", n_burn=1, n_draws=3, n_chains=1, seed=1, keep_trees=False, progress=False
    )
    X, y = make_data()
    for question in (
        lambda: bare.trees(0, 0), bare.nodes, bare.split_counts, bare.inclusion, bare.interactions,
        lambda: bare.partial_dependence(X, 0), lambda: bare.individual_dependence(X, 0),
        lambda: bare.permutation_importance(X, y), lambda: bare.pointwise_log_likelihood(X, y),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="stored no trees"):
            question()


def test_a_loaded_run_has_the_same_trees(post, tmp_path):
    post.save(tmp_path / "run.npz")
    found = bart.load(tmp_path / "run.npz")
    assert found.nodes().tobytes() == post.nodes().tobytes()
    assert found.trees(1, 2) == post.trees(1, 2) and found.trees(1, 2, burn=True) == post.trees(1, 2, burn=True)
    np.testing.assert_array_equal(found.split_counts(), post.split_counts())


def test_trees_of_one_run_do_not_share_memory(post):
    forest = post.trees(0, 0)
    before = forest.to_json()
    tree = forest[0]
    tree.nodes["value"] = 1.0
    assert post.trees(0, 0).to_json() == before and isinstance(tree, Tree)
