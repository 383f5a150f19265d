"""The script that compares classifiers: its measures, its classes, and a run of it on few rows."""

import json
import math

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, log_loss

from experiments import classifiers


def test_losses_are_those_of_scikit_learn(rng):
    p, y = rng.random(200), rng.random(200) < 0.4
    assert math.isclose(classifiers.row_losses(p, y).mean(), log_loss(y, p))
    assert math.isclose(classifiers.row_losses(np.array([0.0]), np.array([True]))[0], -math.log(1e-15))
    data = classifiers.load("breast_cancer", 1)
    found = classifiers.measure("logistic regression", data, 1)
    assert math.isclose(found["log_loss"], log_loss(data.y_test, found["p"]))
    assert math.isclose(found["brier"], brier_score_loss(data.y_test, found["p"]))
    assert 0 < found["errors"] < 0.1 and found["r_hat"] is None


def test_calibration_error(rng):
    p = rng.random(20_000)
    right, wrong = rng.random(20_000) < p, rng.random(20_000) < p**2
    assert classifiers.calibration_error(p, right) < 0.015
    assert math.isclose(classifiers.calibration_error(p, wrong), 1 / 6, abs_tol=0.015)         # E[p - p^2]
    assert math.isclose(classifiers.chance_error(p, rng), classifiers.calibration_error(p, right), abs_tol=0.005)
    given, seen = classifiers.bins(np.array([0.9, 0.1, 0.2]), np.array([1, 0, 1]))
    np.testing.assert_array_equal(given, [0.1, 0.2, 0.9])
    np.testing.assert_array_equal(seen, [0, 1, 1])


def test_splits():
    first, second = (classifiers.load("breast_cancer", split) for split in (1, 2))
    assert first.X_train.shape == (379, 30) and first.X_test.shape == (190, 30)
    assert (first.X_test != second.X_test).any()
    np.testing.assert_array_equal(first.X_test, classifiers.load("breast_cancer", 1).X_test)
    for name in classifiers.available():
        data = classifiers.load(name, 1)
        assert data.y_train.dtype == bool and 0.2 < data.y_train.mean() < 0.6


def test_the_script_writes_its_table_and_picture(tmp_path, capsys):
    classifiers.main(["--tiny", "--only", "breast_cancer", "--out", str(tmp_path)])
    text = (tmp_path / "classifiers.txt").read_text()
    assert text.rstrip("\n") in capsys.readouterr().out
    records = json.loads((tmp_path / "classifiers.json").read_text())["table"]
    assert [record["system"] for record in records] == list(classifiers.SYSTEMS)
    assert records[0]["extra"] == 0.0 and all(record["log_loss"] > 0 for record in records)
    assert (tmp_path / "figure_classifiers.png").stat().st_size > 10_000
    with pytest.raises(SystemExit):
        classifiers.main(["--only", "nothing"])
