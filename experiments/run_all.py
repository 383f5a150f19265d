"""Every table and figure: samples the chains that are not stored yet, then makes each item from the store."""

import argparse
import os
import signal
import sys
import time
import traceback

from . import (
    ablations,
    authors_runs,
    claims,
    figure_1,
    figure_2,
    figure_3,
    figure_s1,
    figure_s2,
    real_data,
    stuck,
    table_1,
    table_2,
    table_3,
    table_4,
    table_5,
)
from .command import add_options, check_surroundings, one_line_errors, parse, say
from .runner import run_missing
from .store import MissingChains, unique

__all__ = ["ITEMS", "main"]

_MODULES = (
    figure_1, figure_2, figure_3, figure_s1, figure_s2, table_1, table_2, table_3, table_4, table_5, claims, stuck,
    ablations, authors_runs,
)  # fmt: skip
ITEMS = {module.NAME: module for module in _MODULES}


def main(arguments=None):
    """Command line: ``python -m experiments.run_all --quick``.

    Parameters
    ----------
    arguments : list of str, optional
        See ``--help``.

    Returns
    -------
    int
        Exit code: 1 where an item failed.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    add = parser.add_argument
    add("--only", nargs="+", action="extend", choices=list(ITEMS), metavar="ITEM", help=", ".join(ITEMS))
    add("--jobs", type=int, default=None, help="processes (default: the number of CPUs)")
    add("--no-progress", action="store_true", help="print no progress")
    add("--download", action="store_true", help="fetch real data that PGBART_DATA does not have")
    options = parse(parser, arguments)
    if options.jobs is not None and options.jobs < 1:
        parser.error("--jobs must be at least 1")
    items = {name: module for name, module in ITEMS.items() if not options.only or name in options.only}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with one_line_errors():
        return _run(items, options)


def _run(items, options):
    began = time.perf_counter()
    check_surroundings(options)
    if options.download:
        _download()
    _sample(items, options)
    failed = [name for name, module in items.items() if not _make(name, module, options)]
    say(f"Files are in {os.path.abspath(options.out)}, chains in {os.path.abspath(options.store.folder)}.")
    say(f"Wall time {(time.perf_counter() - began) / 60:.1f} min.")
    if failed:
        print(f"error: failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _download():
    """Fetch the paper's data sets into the cache; the tables do without what cannot be had."""
    for name in real_data.PAPER_SETS:
        try:
            real_data.load(name, 1, download=True)
        except real_data.DataNotAvailable as error:
            print(f"{name}: {error}", file=sys.stderr)


def _sample(items, options):
    specs = [spec for module in items.values() for spec in module.specs(options.settings, options.profile)]
    missing = options.store.missing(specs)
    minutes = sum(spec.cost for spec in missing) / 60
    say(f"{len(unique(specs))} chains, {len(missing)} of them to sample: some {minutes:.1f} CPU minutes.")
    report = run_missing(options.store, specs, options.jobs, False if options.no_progress else None)
    say(
        f"Sampled {report['n_sampled']} chains in {report['wall_seconds'] / 60:.1f} min"
        f" ({report['cpu_seconds'] / 60:.1f} CPU min in sweeps); {report['n_stored']} were stored.\n"
    )


def _make(name, module, options):
    """Make and print an item; False where it failed: the others are made all the same."""
    try:
        say(module.make(options.store, options.settings, options.profile, options.out))
    except (MissingChains, OSError) as error:
        print(f"error: {name}: {error}", file=sys.stderr)
    except Exception:
        print(f"error: {name}", file=sys.stderr)
        traceback.print_exc()
    else:
        return True
    return False


if __name__ == "__main__":
    sys.exit(main())
