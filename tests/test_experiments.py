"""Experiments: problems and settings against their definitions, tables and figure in the smallest profile."""

import csv
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chain_helpers import child_environment

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))  # last: the build under test comes before the source tree

import bart  # noqa: E402
from bart import diagnostics  # noqa: E402
from bart.data import RankCodes  # noqa: E402
from experiments import (  # noqa: E402  # noqa: E402
    chains,
    command,
    figure_3,
    paper,
    problems,
    report,
    reproduce,
    summaries,
    tables_1_2,
    tables_4_5,
)
from experiments.settings import AUTHORS, PAPER, PROFILES  # noqa: E402

TINY = PROFILES["tiny"]


def tiny_job(sampler="growprune", **options):
    job = chains.Job("hypercube", 2, 1, sampler, PAPER, n_chains=2, n_sweeps=30, n_burn=10)
    return replace(job, **options)


# Problems


@pytest.mark.parametrize("n_dims", [2, 3, 5])
def test_hypercube_is_as_the_paper_says(n_dims):
    problem = problems.hypercube(n_dims, 3)
    n_rows = 10 * 2**n_dims
    assert problem.X_train.shape == problem.X_test.shape == (n_rows, n_dims)
    assert problem.y_train.shape == problem.y_test.shape == (n_rows,)
    vertices = np.sign(problem.X_train)
    found, counts = np.unique(vertices, axis=0, return_counts=True)
    assert len(found) == 2**n_dims and np.all(counts == 10)
    np.testing.assert_array_equal(vertices, np.sign(problem.X_test))
    assert len(np.unique(problem.f_train)) == 2**n_dims
    for vertex in found:
        rows = np.all(vertices == vertex, axis=1)
        assert np.ptp(problem.f_train[rows]) == 0.0
    assert problem.beta == paper.HYPERCUBE_BETA[n_dims] and problem.n_trees == 1


def test_the_laws_of_the_hypercube():
    """Standard deviations over 400 data sets of D = 2; bounds at 5 standard errors (error rate < 1e-5)."""
    made = [problems.hypercube(2, seed) for seed in range(400)]
    offsets = np.concatenate([(p.X_train - np.sign(p.X_train)).ravel() for p in made])
    noise = np.concatenate([p.y_test - p.f_test for p in made])
    values = np.concatenate([np.unique(p.f_train) for p in made])
    assert abs(offsets.std() - 0.1) < 5 * 0.1 / np.sqrt(2 * len(offsets))
    assert abs(noise.std() - 0.01) < 5 * 0.01 / np.sqrt(2 * len(noise))
    assert abs(values.std() - 3.0) < 5 * 3.0 / np.sqrt(2 * len(values))
    assert abs(values.mean()) < 5 * 3.0 / np.sqrt(len(values))


def test_data_seeds_and_noise():
    first, again, other = (problems.hypercube(3, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.y_train, again.y_train)
    assert not np.any(first.X_train == other.X_train)
    assert not np.any(first.X_train == first.X_test)
    noiseless = problems.hypercube(3, 1, noise=0.0)
    np.testing.assert_array_equal(noiseless.X_train, first.X_train)
    np.testing.assert_array_equal(noiseless.y_train, first.f_train)


@pytest.mark.parametrize("n_dims", [1, 2, 4])
def test_the_true_tree_has_one_leaf_a_vertex(n_dims):
    problem = problems.hypercube(n_dims, 1)
    codes = RankCodes(problem.X_train).codes
    leaves = []

    def walk(structure, rows):
        if structure is None:
            leaves.append(rows)
            return
        dim, code, left, right = structure
        goes_left = codes[dim][rows] <= code
        walk(left, rows[goes_left])
        walk(right, rows[~goes_left])

    walk(problems.true_tree(problem), np.arange(len(problem.y_train)))
    assert len(leaves) == 2**n_dims
    assert all(len(rows) == 10 and np.ptp(problem.f_train[rows]) == 0.0 for rows in leaves)


def test_friedman():
    problem = problems.friedman(500, 1)
    assert problem.X_train.shape == (500, 10) and problem.X_test.shape == (500, 10)
    x = problem.X_train[7]
    expected = 10 * np.sin(np.pi * x[0] * x[1]) + 20 * (x[2] - 0.5) ** 2 + 10 * x[3] + 5 * x[4]
    assert problem.f_train[7] == pytest.approx(expected, rel=1e-12)
    assert abs(np.std(problem.y_train - problem.f_train) - 1.0) < 5 / np.sqrt(1000)


def test_california_houses(data_dir):
    sets = [problems.california_houses(split) for split in (1, 2, 3)]
    table = np.loadtxt(data_dir / "california_housing" / "cal_housing.data", delimiter=",")
    rows = {tuple(row[2:]) for row in table}
    for problem in sets:
        assert problem.X_train.shape == (2000, 6) and problem.X_test.shape == (5000, 6)
        assert problem.y_train.shape == (2000,) and problem.y_test.shape == (5000,)
        assert 14999.0 <= problem.y_train.min() and problem.y_train.max() <= 500001.0
        assert tuple([*problem.X_train[5], problem.y_train[5]]) in rows
        np.testing.assert_array_equal(problem.X_test, sets[0].X_test)
    drawn = [{tuple([*x, y]) for x, y in zip(p.X_train, p.y_train, strict=True)} for p in sets]
    # Rows may repeat in the six columns, so a handful of values is shared although no row is.
    assert len(drawn[0] & drawn[1]) < 10 and len(drawn[0] & drawn[2]) < 10
    assert sets[0].n_dims == paper.REAL_SHAPES["CaliforniaHouses"][2]
    with pytest.raises(ValueError, match="split"):
        problems.california_houses(4)


def test_real_data_without_the_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("PGBART_DATA", raising=False)
    assert problems.real_problem(1).name == "diabetes"
    with pytest.raises(FileNotFoundError, match="PGBART_DATA"):
        problems.california_houses(1)
    monkeypatch.setenv("PGBART_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="cal_housing.data"):
        problems.real_problem(1)


def test_diabetes():
    pytest.importorskip("sklearn")
    first, other = problems.diabetes(1), problems.diabetes(2)
    assert first.X_train.shape == (342, 10) and first.X_test.shape == (100, 10)
    assert not np.array_equal(first.y_test, other.y_test)
    assert set(map(tuple, first.X_train)).isdisjoint(map(tuple, first.X_test))


# Settings and the paper's numbers


def test_the_papers_numbers(reference_dir):
    tables = json.loads((reference_dir / "paper_tables.json").read_text())
    cube, real = tables["hypercube"], tables["real"]
    for dim in (2, 3, 4, 5, 7):
        assert paper.HYPERCUBE_BETA[dim] == cube["beta_s"][str(dim)]
        assert paper.HYPERCUBE_ESS[dim] == cube["ess"][str(dim)]
        assert paper.HYPERCUBE_ESS_PER_SECOND[dim] == cube["ess_per_second"][str(dim)]
    for name, shape in real["shape"].items():
        assert paper.REAL_SHAPES[name] == (shape["n_train"], shape["n_test"], shape["dims"])
        assert paper.REAL_ESS[name] == real["ess"][name]
        assert paper.REAL_ESS_PER_SECOND[name] == pytest.approx(real["ess_per_second"][name], rel=1e-12)


def test_settings():
    problem = problems.hypercube(2, 1)
    model, authors = PAPER.model(problem), AUTHORS.model(problem)
    assert model.n_trees == 1 and model.tree_prior.beta == 1.0 and model.tree_prior.threshold == "uniform"
    assert model.sigma_hat == pytest.approx(np.std(problem.y_train))
    assert model.noise_prior.shape == 1.5 and authors.noise_prior.shape == 3.0
    assert authors.tree_prior.threshold == "midpoint" and AUTHORS.tree_order == "random"
    assert AUTHORS.label_noise == 0.0 and PAPER.label_noise == 0.01
    sampler = PAPER.sampler("pg")
    assert (sampler.n_particles, sampler.resampling, sampler.final) == (10, "multinomial", "plain")
    assert sampler.bookkeeping == "canonical" and sampler.ess_threshold is None
    assert all(AUTHORS.sampler(name).bookkeeping == "authors" for name in paper.SAMPLERS)
    assert tuple(PAPER.sampler("cgm").move_probs) == (0.25, 0.25, 0.25, 0.25)
    real = PAPER.model(problems.friedman(50, 1))
    assert real.n_trees == 200 and real.tree_prior.beta == 2.0
    with pytest.raises(ValueError, match="name"):
        PAPER.sampler("gibbs")


def test_profiles():
    quick, full = PROFILES["quick"], PROFILES["full"]
    assert quick.dims == (2, 3, 4) and full.dims == (2, 3, 4, 5, 7)
    for profile in (quick, full):
        assert (profile.n_sweeps, profile.n_burn, profile.n_chains) == (2000, 1000, 4)
        assert len(profile.data_seeds) == 3


# What is measured


def test_a_job_measures_what_is_defined():
    job = tiny_job("cgm")
    row = chains.run_job(job)
    problem = job.problem()
    post = chains.sample(job, problem)
    trace = post["log_likelihood"]
    assert trace.shape == (2, 20)
    assert row["ess"] == [diagnostics.effective_size(chain) for chain in trace]
    assert row["levels"] == trace.mean(axis=1).tolist() and row["level"] == pytest.approx(trace.mean())
    assert row["r_hat"]["log_likelihood"] == chains.r_hat(trace)
    assert row["tree_changed"] == post["tree_changed"].mean()
    draws = post.predict(problem.X_test, draws=True)
    assert row["test_mse_draw"] == pytest.approx(np.mean((draws.draws - problem.y_test) ** 2), rel=1e-12)
    assert row["test_mse_mean"] == pytest.approx(np.mean((draws.mean - problem.y_test) ** 2), rel=1e-12)
    points = problem.X_test[np.linspace(0, 39, 24).astype(int)]
    f = post.predict(points, draws=True).draws
    assert row["r_hat"]["f"] == max(chains.r_hat(f[:, :, point]) for point in range(24))
    assert row["converged"] == (max(row["r_hat"].values()) <= 1.05)
    json.dumps(row)


def test_mse_of_every_sweep():
    job = tiny_job("growprune")
    problem = job.problem()
    post = chains.sample(job, problem, keep_burn_trees=True)
    traces = chains.mse_traces(post, problem.X_train, problem.y_train)
    assert traces.shape == (2, 30)
    draws = post.predict(problem.X_train, draws=True).draws
    expected = ((draws - problem.y_train) ** 2).mean(axis=2)
    np.testing.assert_allclose(traces[:, 10:], expected, rtol=1e-12)
    sigma = post.sweeps["sigma"]
    n_rows = len(problem.y_train)
    terms = -0.5 * n_rows * np.log(2 * np.pi * sigma**2) - 0.5 * n_rows * traces / sigma**2
    np.testing.assert_allclose(post.sweeps["log_likelihood"], terms, rtol=1e-9)


def test_the_reference_level_is_that_of_chains_from_the_true_tree():
    row = chains.run_job(tiny_job(chains.REFERENCE, n_chains=4))
    assert len(row["levels"]) == 4 and row["level"] == pytest.approx(np.mean(row["levels"]))
    # A stump explains nothing: at the true tree the likelihood is far higher.
    problem = problems.hypercube(2, 1)
    sd = problem.y_train.std()
    stump = np.sum(
        -0.5 * np.log(2 * np.pi * sd**2) - 0.5 * ((problem.y_train - problem.y_train.mean()) / sd) ** 2
    )
    assert row["level"] > stump + 20


def test_r_hat_of_standing_chains():
    assert chains.r_hat(np.full((4, 50), 3.0)) == 1.0
    assert chains.r_hat(np.repeat([[1.0], [2.0]], 50, axis=1)) == float("inf")


def test_jobs_run_on_processes_as_in_turn():
    jobs = [tiny_job("cgm"), tiny_job("growprune"), tiny_job("growprune", seed=2)]
    alone, together = chains.run_jobs(jobs, 1), chains.run_jobs(jobs, 2)
    for first, second in zip(alone, together, strict=True):
        for name in ("problem", "data_seed", "sampler", "ess", "level", "r_hat", "test_mse_draw"):
            assert first[name] == second[name]
    assert [row["data_seed"] for row in alone] == [1, 1, 2]


# Tables


def fake_rows(r_hat):
    job = chains.run_job(tiny_job("growprune"))
    job["r_hat"] = dict.fromkeys(job["r_hat"], r_hat)
    return [{**job, "converged": r_hat <= 1.05}]


@pytest.mark.parametrize(
    ("r_hat", "shown"), [(1.01, True), (1.05, True), (1.06, False), (float("inf"), False)]
)
def test_no_bare_ess_per_second_without_convergence(r_hat, shown):
    record = summaries.summarise(fake_rows(r_hat), None, 100.0, 10.0)
    cells = summaries.rate_cells(record)
    assert ("not converged" in cells[3]) != shown
    rate = summaries.number(record["ess_per_second"])
    assert (rate in cells) == shown
    assert cells[4] == "10.0"


def test_numbers_are_short():
    cases = [
        (None, "-"),
        (0.0, "0"),
        (1.0, "1.00"),
        (751.66, "752"),
        (0.001967, "0.00197"),
        (12345.6, "12346"),
    ]
    cases += [(3.2e9, "3.20e+09"), (float("inf"), "inf"), (-0.5, "-0.500"), (8e-5, "8.00e-05")]
    for value, text in cases:
        assert summaries.number(value) == text


def test_tables_are_aligned():
    rows = [["x", "yy", "1"], None, ["xxx", "y", "22"]]
    table = report.Table("title", [("", "a"), ("b", "b"), ("cc", "c")], rows, ["note"])
    expected = ["title", "-" * 11, "     b   cc", "a    b    c", "-" * 11, "x    yy   1", "-" * 11]
    assert table.text().splitlines() == [*expected, "xxx  y   22", "-" * 11, "note"]


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory):
    """The whole driver in its smallest profile, on the embedded data."""
    pytest.importorskip("sklearn")
    pytest.importorskip("arviz")
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("figures")
    environment = child_environment()
    environment.pop("PGBART_DATA", None)
    environment["PYTHONPATH"] += f":{ROOT}"
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "experiments.reproduce", "--tiny", "--out", str(folder)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return folder, run.stdout


def test_the_driver_prints_every_table(tiny_run):
    _, text = tiny_run
    for title in ("Table 1.", "Table 2.", "Table 4.", "Table 5.", "Figure 3.", "Wall time"):
        assert title in text
    for key in ("ess", "r_hat", "level", "seconds", "starts", "changed", "errors"):
        assert report.DEFINITIONS[key].split(":")[0] in text
    assert "752" in text
    assert max(len(line) for line in text.splitlines() if not line.startswith(("Files", "Wall"))) <= 120
    assert "The paper has no numbers for these data" in " ".join(text.split())


def test_the_driver_writes_every_file(tiny_run):
    folder, text = tiny_run
    names = sorted(path.name for path in folder.iterdir())
    stems = ("figure_3", "tables_1_2", "tables_4_5")
    expected = [
        f"{stem}.{end}" for stem in stems for end in ("json", "txt", "csv" if "t" in stem[0] else "png")
    ]
    assert names == sorted(expected)
    for stem in ("tables_1_2", "tables_4_5"):
        assert (folder / f"{stem}.txt").read_text().strip() in text
        record = json.loads((folder / f"{stem}.json").read_text())
        assert set(record) == {"provenance", "table", "jobs"}
        origin = record["provenance"]
        assert origin["settings"]["name"] == "paper" and origin["profile"]["name"] == "tiny"
        assert origin["cpu"] and origin["versions"]["numpy"] == np.__version__
        assert all(job["chain_seed"] and "data_seed" in job for job in record["jobs"])
        with open(folder / f"{stem}.csv", newline="") as file:
            lines = list(csv.DictReader(file))
        assert [line["sampler"] for line in lines] == list(paper.SAMPLERS)
        assert float(lines[0]["ess"]) == pytest.approx(record["table"][0]["ess"])
    figure = (folder / "figure_3.png").read_bytes()
    assert figure.startswith(b"\x89PNG") and len(figure) > 50_000


def test_the_real_table_has_the_papers_numbers_beside(data_dir, tmp_path):
    profile = replace(TINY, real_sweeps=4, real_burn=0, real_every=4)
    text = tables_4_5.make(PAPER, profile, str(tmp_path), n_workers=2)
    row = next(line for line in text.splitlines() if line.startswith("CaliforniaHouses  PG"))
    assert row.split()[2] == "76.8"
    assert "2000 training and 5000 test rows, 6 features" in " ".join(text.split())


def test_the_authors_settings_run(tmp_path):
    profile = replace(TINY, n_sweeps=20, n_burn=4)
    text = tables_1_2.make(AUTHORS, profile, str(tmp_path), n_workers=1)
    assert "Settings 'authors'" in text and "label noise 0," in " ".join(text.split())


def test_the_figure_has_a_panel_for_each_quantity_and_sampler():
    pytest.importorskip("matplotlib")
    profile = replace(TINY, n_chains=4)
    rng = np.random.default_rng(1)
    starts = list(figure_3.COLOURS)
    shape = (4, profile.n_sweeps)
    results = {
        name: {"starts": starts, **{key: rng.random(shape) + 0.1 for key, _, _ in figure_3.QUANTITIES}}
        for name in paper.SAMPLERS
    }
    figure = figure_3.draw(results, profile, problems.hypercube(2, 1), 0.5, "caption")
    assert len(figure.axes) == 12
    assert all(len(axis.lines) == 5 for axis in figure.axes)
    assert "caption" in [text.get_text() for text in figure.texts]


def test_command_lines():
    options = command.parse([], "about")
    assert options.profile.name == "quick" and options.settings is PAPER and options.out == "figures"
    options = command.parse(["--full", "--settings", "authors", "--workers", "2", "--out", "x"], "about")
    assert options.profile.name == "full" and options.settings is AUTHORS and options.workers == 2
    for bad in (["--workers", "0"], ["--quick", "--full"], ["--settings", "mine"]):
        with pytest.raises(SystemExit):
            command.parse(bad, "about")


def test_the_package_knows_nothing_of_the_experiments():
    for path in Path(bart.__file__).parent.rglob("*.py"):
        assert "experiments" not in path.read_text(), path
    assert callable(reproduce.main)
