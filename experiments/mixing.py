"""The mixing experiments with many trees: what is run, and the command line that they share."""

import argparse
import os

from bart import parse_sampler
from bart.samplers.auto import AUTO
from bart.storage import atomic_file

from . import chains
from .command import STORE, one_line_errors, say
from .mixing_measures import compare, held_out, measure
from .mixing_runs import PEER_SYSTEMS, MissingRuns, RunSpec, RunStore, peer_is_missing, test_rows
from .mixing_runs import load as load_problem
from .mixing_tables import tables
from .mixing_worker import ladder_of
from .report import write_json

__all__ = ["BUDGETS", "add_folders", "check_systems", "main", "specs"]

BUDGETS = {"quick": 8.0, "screening": 20.0, "full": 60.0}
SEEDS = {"quick": (0, 1), "screening": (0, 1, 2, 3, 4), "full": (0, 1, 2, 3, 4)}
SYSTEMS = ("auto", "growprune", "cgm", "pg(n_particles=10)", *PEER_SYSTEMS)


def add_options(parser):
    """Options that the mixing experiments share."""
    add = parser.add_argument
    effort = parser.add_mutually_exclusive_group()
    for name, budget in BUDGETS.items():
        text = f"{budget:g} CPU seconds"
        effort.add_argument(f"--{name}", dest="effort", action="store_const", const=name, help=text)
    parser.set_defaults(effort="screening")
    add("--budget", type=float, help="CPU seconds of all chains of a run together")
    add("--seeds", type=int, nargs="+", help="default: 0 1 with --quick, else 0 to 4")
    add_folders(parser)


def add_folders(parser):
    """Where runs and tables are, and what to take of the runs."""
    add = parser.add_argument
    add("--store", default=os.path.join(os.path.dirname(STORE), "mixing_runs"), help="folder of the stored runs")
    add("--out", default="figures", help="folder of the tables (default: figures)")
    add("--tables-only", action="store_true", help="run nothing: tables of what is stored")
    add("--any-kernels", action="store_true", help="of a run that is not there by these kernels take the newest")


def check_systems(systems, ladder="", peers=True):
    """Refuse a text that is none of a sampler or ladder, before any work; leave out peers that are not installed, or
    refuse all of them."""
    ladder_of(ladder)
    for name in systems:
        if name in PEER_SYSTEMS and not peers:
            raise ValueError(f"{name}: another package; samplers of this one alone are compared here")
        if name not in (AUTO, *PEER_SYSTEMS):
            parse_sampler(name)
    for name in systems:
        if peer_is_missing(name):
            say(f"{name} is left out: python -m benchmarks.peers --install")
    return [name for name in systems if not peer_is_missing(name)]


def read_all(store, specs):
    """Measures of the runs that are stored: from (problem, system) to those of each seed."""
    found = {}
    for spec in specs:
        record = store.read(spec)
        if record is not None:
            y = test_rows(load_problem(spec.problem, spec.data_seed))
            found.setdefault((spec.problem, spec.system), {})[spec.seed] = measure(record, y)
    return found


def specs(problems, systems, seeds, budget):
    """All runs, seeds first, so that what is stored early says something of everything.

    Parameters
    ----------
    problems : dict
        From a problem's name to its data seed, a function of the seed.
    """
    return [
        RunSpec(problem, data_seed(seed), system, seed, budget)
        for seed in seeds
        for problem, data_seed in problems.items()
        for system in systems
    ]


def main(name, problems, description, arguments=None):
    """Command line of `mixing_friedman`, `mixing_real`, `mixing_all`: make the missing runs, write the tables."""
    parser = argparse.ArgumentParser(description=description)
    add_options(parser)
    parser.add_argument("--problems", nargs="+", choices=problems, default=list(problems), metavar="PROBLEM",
                        help=", ".join(problems))
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), help="samplers as strings, and peers")
    parser.add_argument("--target", default=None, help="the system compared with all peers (default: the first)")
    options = parser.parse_args(arguments)
    budget = options.budget or BUDGETS[options.effort]
    with one_line_errors():
        systems = check_systems(options.systems)
        chosen = {problem: problems[problem] for problem in options.problems}
        wanted = specs(chosen, systems, options.seeds or SEEDS[options.effort], budget)
        store = RunStore(options.store, options.any_kernels)
        failed = [] if options.tables_only else store.run_missing(wanted, say)
        found = read_all(store, wanted)
        if not found:
            raise MissingRuns(f"no run in {options.store} for these kernels, problems and budget")
        say(write(options.out, name, found, options.target or systems[0], budget))
    return 1 if failed else 0


def write(folder, name, found, target, budget):
    """Write the tables as text and everything measured as JSON; returns the text."""
    os.makedirs(folder, exist_ok=True)
    text = "\n\n".join(table.text() for table in tables(found, target, budget)) + "\n"
    with atomic_file(os.path.join(folder, name + ".txt"), "w") as file:
        file.write(text)
    records = [
        {"problem": problem, "system": system, "seed": seed, **{key: one[key] for key in one if key != "rows"}}
        for (problem, system), measured in found.items()
        for seed, one in measured.items()
    ]
    report = {"provenance": chains.provenance(), "budget": budget, "target": target, "runs": records}
    report |= {"held_out": held_out(found, target), "ratios": compare(found, target)}
    write_json(os.path.join(folder, name + ".json"), report)
    return text
