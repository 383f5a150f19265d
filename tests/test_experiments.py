"""Experiments: settings and numbers against their definitions."""

import json
from dataclasses import replace

import numpy as np
import pytest

from bart import diagnostics
from experiments import (
    ablations,
    authors_code,
    authors_runs,
    chains,
    claims,
    hypercube,
    paper,
    problems,
    report,
    row_cells,
    runner,
    store,
    stuck,
    summaries,
)
from experiments.settings import AUTHORS, PAPER, PROFILES

TINY = PROFILES["tiny"]


# Settings and the paper's numbers


def test_the_papers_numbers(reference_dir):
    tables = json.loads((reference_dir / "paper_tables.json").read_text())
    cube, real_tables = tables["hypercube"], tables["real"]
    for dim in (2, 3, 4, 5, 7):
        assert paper.HYPERCUBE_BETA[dim] == cube["beta_s"][str(dim)]
        assert paper.HYPERCUBE_ESS[dim] == cube["ess"][str(dim)]
        assert paper.HYPERCUBE_ESS_PER_SECOND[dim] == cube["ess_per_second"][str(dim)]
    for name, shape in real_tables["shape"].items():
        assert paper.REAL_SHAPES[name] == (shape["n_train"], shape["n_test"], shape["dims"])
        assert paper.REAL_ESS[name] == real_tables["ess"][name]
        assert paper.REAL_ESS_PER_SECOND[name] == pytest.approx(real_tables["ess_per_second"][name], rel=1e-12)


def test_the_numbers_of_the_authors_scripts(reference_dir):
    runs = json.loads((reference_dir / "authors_code.json").read_text())["hypercube"]
    names = {
        "sampler": "sampler", "start": "init", "seed": "seed", "n_sweeps": "n_sweeps", "n_burn": "n_burn",
        "leaves": "mean_leaves", "level": "log_likelihood_mean", "ess": "ess", "train_mse": "train_mse",
        "var_y": "var_y", "ms_per_sweep": "cpu_ms_per_sweep",
    }  # fmt: skip
    assert len(runs) == len(authors_code.RUNS)
    for run, mine in zip(runs, authors_code.RUNS, strict=True):
        assert run["problem"] == f"hypercube-{mine.dim}"
        for field, name in names.items():
            assert getattr(mine, field) == run.get(name)


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
    real_model = PAPER.model(problems.friedman(50, 1))
    assert real_model.n_trees == 200 and real_model.tree_prior.beta == 2.0
    assert replace(PAPER, ess_threshold=0.5).sampler("pg").ess_threshold == 0.5
    with pytest.raises(ValueError, match="name"):
        PAPER.sampler("gibbs")


def test_the_full_profile_is_that_of_the_paper():
    full = PROFILES["full"]
    assert full.dims == (2, 3, 4, 5, 7) and full.real_splits == (1, 2, 3)
    assert (full.n_sweeps, full.n_burn, full.real_sweeps, full.real_burn) == (2000, 1000, 2000, 1000)
    assert len(full.data_seeds) >= 10 and full.real_chains >= 10 and full.authors_seeds >= 20
    assert min(full.ablation_particles) == 2 and max(full.ablation_particles) == 50
    assert (PROFILES["quick"].n_sweeps, PROFILES["quick"].real_sweeps) == (2000, 2000)


def test_each_ablation_differs_in_what_it_says():
    steps = ablations.studies(PROFILES["full"])[0][2]
    for label, settings in steps.items():
        mine, base = settings.as_dict(), PAPER.as_dict()
        changed = {name for name in mine if mine[name] != base[name] and name != "name"}
        assert len(changed) == (0 if label == "paper" else 5 if label.startswith("authors") else 1), label
    everything = {name for name, value in AUTHORS.as_dict().items() if value != PAPER.as_dict()[name]} - {"name"}
    single = [settings.as_dict() for label, settings in steps.items() if "authors" not in label]
    one_by_one = {name for record in single for name, value in record.items() if value != PAPER.as_dict()[name]}
    assert everything == one_by_one - {"sigma_hat"}


# What is measured


@pytest.fixture(scope="module")
def one_cell(tmp_path_factory):
    """A store with one sampler's chains and the reference chains on one data set."""
    kept = store.Store(tmp_path_factory.mktemp("runs"))
    chosen = hypercube.sampler_specs(PAPER, TINY, 2, 1, "cgm")
    truth = hypercube.reference_specs(PAPER, TINY, 2, 1)
    runner.run_missing(kept, [*chosen, *truth], 2, False)
    return kept, chosen, truth


def test_measures_are_as_defined(one_cell):
    kept, chosen, _ = one_cell
    read = kept.read_all(chosen)
    problem = chosen[0].load()
    record = summaries.measure(read, problem.y_train, problem.y_test)
    trace = np.stack([chain.traces["log_likelihood"][TINY.n_burn :] for chain in read])
    assert trace.shape == (4, TINY.n_sweeps - TINY.n_burn)
    assert record["starts"] == ["empty", "prior", "overgrown", "smc"]
    assert record["ess"] == [diagnostics.effective_size(values) for values in trace]
    assert record["level"] == trace.mean(axis=1).tolist()
    assert record["r_hat"]["log_likelihood"] == summaries.r_hat(trace)
    f = np.stack([chain.f for chain in read]).astype(float)
    points = range(chains.N_POINTS)
    assert record["r_hat"]["f"] == max(summaries.r_hat(f[:, :, point]) for point in points)
    assert record["bulk"]["f"] == min(diagnostics.ess_bulk(f[:, :, point]) for point in points)
    assert record["tail"]["log_likelihood"] == diagnostics.ess_tail(trace)
    seconds = [chain.traces["seconds"][TINY.n_burn :].sum() for chain in read]
    assert record["ess_per_second"] == pytest.approx(np.array(record["ess"]) / seconds)
    errors = [np.mean((chain.test_fit - problem.y_test) ** 2) for chain in read]
    assert record["test_mse_mean"] == pytest.approx(errors)
    assert np.all(np.array(record["test_mse"]) >= errors)  # Jensen
    assert summaries.converged(record) == (max(record["r_hat"].values()) <= 1.05)
    rest = summaries.measure([read[0], read[1], read[3]], problem.y_train, problem.y_test)
    assert record["r_hat_rest"] == max(rest["r_hat"].values())
    flat = summaries.by_chain(record, problem="hypercube-2")
    assert [line["start"] for line in flat] == record["starts"] and flat[2]["ess"] == record["ess"][2]
    assert flat[1]["chain_seed"] == chosen[1].seed and flat[0]["problem"] == "hypercube-2"
    json.dumps(record)


def test_the_reference_level_is_that_of_chains_from_the_true_tree(one_cell):
    kept, _, truth = one_cell
    read = kept.read_all(truth)
    assert [chain.spec.sampler for chain in read] == ["cgm", "growprune", "cgm", "growprune"]
    found = hypercube.reference(read)
    traces = np.stack([chain.kept("log_likelihood") for chain in read])
    level = found["level"]
    assert level == pytest.approx(traces.mean()) and found["levels"] == pytest.approx(traces.mean(axis=1))
    assert found["sd"] == pytest.approx(np.sqrt(np.mean(traces.var(axis=1))))
    assert found["r_hat_log_likelihood"] == summaries.r_hat(traces)
    # A stump explains nothing: at the true tree the likelihood is far higher.
    y = truth[0].load().y_train
    stump = np.sum(-0.5 * np.log(2 * np.pi * y.var()) - 0.5 * (y - y.mean()) ** 2 / y.var())
    assert level > stump + 20


def test_a_row_over_several_data_sets(one_cell):
    kept, chosen, _ = one_cell
    problem = chosen[0].load()
    first = summaries.measure(kept.read_all(chosen), problem.y_train, problem.y_test)
    other = {**first, "ess": [10.0, 20.0, 30.0, 40.0], "level": [5.0, 6.0, 7.0, 8.0]}
    other["r_hat"], other["bulk"] = dict.fromkeys(first["r_hat"], 1.01), dict.fromkeys(first["bulk"], 7.0)
    references = [{"level": -1.0, "sd": 1.0}, {"level": 10.0, "sd": 1.5}]
    row = summaries.summarise([first, other], references)
    assert row["ess"] == pytest.approx((sum(first["ess"]) + 100.0) / 8)
    assert row["ess_median"] == pytest.approx(np.median([*first["ess"], 10.0, 20.0, 30.0, 40.0]))
    assert row["ess_empty"] == pytest.approx((first["ess"][0] + 10.0) / 2)
    assert row["ess_smc"] == pytest.approx((first["ess"][3] + 40.0) / 2)
    gaps = [value + 1.0 for value in first["level"]] + [-5.0, -4.0, -3.0, -2.0]
    assert row["gap"] == pytest.approx(np.mean(gaps)) and row["gap_lowest"] == pytest.approx(min(gaps))
    assert row["gap_se"] == pytest.approx(abs(np.mean(gaps[:4]) - np.mean(gaps[4:])) / 2)
    assert row["r_hat_f"] == max(first["r_hat"]["f"], 1.01)
    assert row["r_hat_f_median"] == pytest.approx((first["r_hat"]["f"] + 1.01) / 2)
    assert row["bulk_f"] == min(first["bulk"]["f"], 7.0)
    assert row["n_converged"] == 1 + summaries.converged(first) and row["n_data_sets"] == 2


def test_chains_that_are_low_and_show_a_high_ess(one_cell):
    kept, chosen, _ = one_cell
    problem = chosen[0].load()
    first = summaries.measure(kept.read_all(chosen), problem.y_train, problem.y_test)
    made = {**first, "ess": [500.0, 500.0, 50.0, 50.0], "level": [-3.1, -2.9, -3.1, 0.0]}
    row = summaries.summarise([made], [{"level": 0.0, "sd": 1.0}])
    assert (row["n_low"], row["n_high"], row["n_high_and_low"], row["n_chains"]) == (2, 2, 1, 4)


def test_r_hat_of_standing_chains():
    assert summaries.r_hat(np.full((4, 50), 3.0)) == 1.0
    assert summaries.r_hat(np.repeat([[1.0], [2.0]], 50, axis=1)) == float("inf")


@pytest.mark.parametrize(("n_converged", "shown"), [(3, True), (2, False), (0, False)])
def test_no_bare_ess_per_second_without_convergence(n_converged, shown):
    record = {"n_converged": n_converged, "n_data_sets": 3, "ess_per_second": 123.0}
    assert row_cells.rate(record) == ("123" if shown else "(123) not converged")
    assert row_cells.is_converged(record) == ("yes" if shown else f"{n_converged} of 3")


@pytest.mark.parametrize(("limit", "sweep"), [(0.5, 3), (-1.0, 1), (2.0, None)])
def test_first_arrival(limit, sweep):
    assert claims.first_arrival([0.0, 0.2, 0.6, 0.1, 1.0], limit) == sweep


def test_numbers_are_short():
    cases = [(None, "-"), (0.0, "0"), (1.0, "1.00"), (751.66, "752"), (0.001967, "0.00197"), (12345.6, "12346")]
    cases += [(3.2e9, "3.20e+09"), (float("inf"), "inf"), (-0.5, "-0.500"), (8e-5, "8.00e-05")]
    for value, text in cases:
        assert summaries.number(value) == text


def test_tables_are_aligned():
    rows = [["x", "yy", "1"], None, ["xxx", "y", "22"]]
    table = report.Table("title", [("", "a"), ("b", "b"), ("cc", "c")], rows, ["note"])
    expected = ["title", "-" * 11, "     b   cc", "a    b    c", "-" * 11, "x    yy   1", "-" * 11]
    assert table.text().splitlines() == [*expected, "xxx  y   22", "-" * 11, "note"]


def test_expected_leaves_of_a_prior():
    assert claims.expected_leaves(0.0, 1.0) == 1.0
    assert claims.expected_leaves(0.3, 0.0) == pytest.approx(0.7 / 0.4)  # E = 1 - p + 2 p E
    assert claims.expected_leaves(0.6, 0.0) == float("inf")
    # Simulation, bound at 5 standard errors.
    rng = np.random.default_rng(1)

    def leaves(depth):
        split = rng.random() < 0.95 / (1 + depth) ** 2.0
        return leaves(depth + 1) + leaves(depth + 1) if split else 1

    drawn = [leaves(0) for _ in range(4000)]
    assert abs(np.mean(drawn) - claims.expected_leaves(0.95, 2.0)) < 5 * np.std(drawn) / np.sqrt(4000)


def test_a_frozen_tree_never_changes(tmp_path):
    kept = store.Store(tmp_path)
    chosen = hypercube.sampler_specs(stuck.frozen_settings(PAPER), TINY, 2, 1, "pg")
    runner.run_missing(kept, chosen, 1, False)
    for chain in kept.read_all(chosen):
        assert not chain.traces["tree_changed"].any() and np.ptp(chain.traces["n_leaves"]) == 0.0


def test_the_scripts_runs_are_counted_against_quantiles(monkeypatch):
    lengths = [(20, 0), (20, 0), (10, 5)]
    runs = [authors_code.AuthorsRun(2, "cgm", "empty", seed, *length, leaves, 0.0, 5.0, 0.0, 1.0, 1.0)
            for seed, (leaves, length) in enumerate(zip((0.0, 50.0, 101.0), lengths, strict=True))]  # fmt: skip
    monkeypatch.setattr(authors_runs, "RUNS", runs)
    spec = chains.ChainSpec("hypercube-2", 1, AUTHORS, "cgm", "empty", 0, 20, 0)
    noise = np.random.default_rng(3).normal(size=20)
    made = []
    for value in range(101):
        leaves = np.full(20, float(value))
        leaves[5:10] += 4.0  # what the third run kept: its place is among 4 .. 104
        made.append(store.StoredChain(spec, {}, {"n_leaves": leaves, "log_likelihood": noise + value - 50.0}))
    record = authors_runs._record(made, 2, "cgm", "empty")
    found = [record[f"leaves_{name}"] for name in ("low", "median", "high")]
    assert found == pytest.approx([2.0, 51.0, 100.0])
    assert record["leaves_inside"] == 2 and record["level_inside"] == 3 and record["n_runs"] == 3
