"""Files of every released format: read, predicted from, continued. tests/files/README.md says how they were made."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from chain_helpers import make_data, make_model

import bart

FILES = Path(__file__).parent / "files"
SAVED = sorted(path.name for path in FILES.glob("posterior-*.npz"))
CHECKPOINTS = sorted(path.name for path in FILES.glob("checkpoint-*"))
OPTIONS = {"n_burn": 4, "n_chains": 2, "seed": 11, "keep_burn_trees": True, "progress": False}


@pytest.mark.parametrize("name", SAVED)
def test_old_runs_load_and_predict_the_same(name, tmp_path):
    expected = json.loads((FILES / "predictions.json").read_text())
    post = bart.load(FILES / name)
    assert post["sigma"].shape == (2, 5) and post.burn["sigma"].shape == (2, 4)
    np.testing.assert_array_equal(post.predict(expected["rows"]), expected[name])
    assert post.seed == 11 and post.sampler == "growprune" and (post.swap_rates is None) == ("ladder" not in name)
    assert np.isfinite(post.summary(["sigma"])["sigma"]["mean"])
    post.save(tmp_path / "again.npz")
    np.testing.assert_array_equal(bart.load(tmp_path / "again.npz").predict(expected["rows"]), expected[name])


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_old_checkpoints_go_on(name, tmp_path):
    """Three draws of each chain are stored. What follows may differ in last bits on another machine."""
    shutil.copytree(FILES / name, tmp_path / "run")
    post = bart.sample(make_model(), "growprune", n_draws=5, checkpoint=tmp_path / "run", **OPTIONS)
    whole = bart.sample(make_model(), "growprune", n_draws=5, **OPTIONS)
    np.testing.assert_array_equal(post.sweeps["n_leaves"], whole.sweeps["n_leaves"])
    np.testing.assert_allclose(post.sweeps["sigma"], whole.sweeps["sigma"], rtol=1e-9)
    rows = make_data()[0][:5]
    np.testing.assert_allclose(post.predict(rows), whole.predict(rows), rtol=1e-9)
    again = bart.resume(tmp_path / "run")           # from now on the folder holds model and settings
    np.testing.assert_array_equal(again["sigma"], post["sigma"])


def test_there_are_files_of_every_format():
    assert {"posterior-3.npz", "posterior-3-ladder.npz"} <= set(SAVED)
    assert {"checkpoint-3", "checkpoint-3-run-1"} <= set(CHECKPOINTS)


def test_an_old_run_file_resumes(tmp_path):
    shutil.copytree(FILES / "checkpoint-3-run-1", tmp_path / "run")
    post = bart.resume(tmp_path / "run", n_draws=5)
    whole = bart.sample(make_model(), "growprune", n_draws=5, **OPTIONS)
    np.testing.assert_array_equal(post.sweeps["n_leaves"], whole.sweeps["n_leaves"])
    np.testing.assert_allclose(post.sweeps["sigma"], whole.sweeps["sigma"], rtol=1e-9)
