"""The command line that the scripts share."""

import argparse
import os
import sys

from .settings import PROFILES, SETTINGS
from .store import MissingChains, Store

__all__ = ["STORE", "add_options", "parse", "run_script"]

STORE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "runs")


def add_options(parser):
    """Add what every script understands."""
    effort = parser.add_mutually_exclusive_group()
    effort.add_argument("--full", action="store_true", help="the paper's settings, ten seeds or more (default)")
    effort.add_argument("--quick", action="store_true", help="the same sweeps on fewer data sets: minutes")
    effort.add_argument("--tiny", action="store_true", help="seconds, for tests: figures without meaning")
    add = parser.add_argument
    add("--settings", choices=sorted(SETTINGS), default="paper", help="of the paper, or of its authors' scripts")
    add("--store", default=STORE, help="folder of the stored chains (default: experiments/runs)")
    add("--out", default="figures", help="folder of the tables and pictures (default: figures)")


def parse(parser, arguments):
    """Read a command line made by `add_options`.

    Returns
    -------
    argparse.Namespace
        With ``profile`` (Profile), ``settings`` (Settings), ``store`` (Store) and ``out``.
    """
    options = parser.parse_args(arguments)
    options.profile = PROFILES["quick" if options.quick else "tiny" if options.tiny else "full"]
    options.settings = SETTINGS[options.settings]
    options.store = Store(options.store)
    return options


def run_script(name, specs, make, description, arguments=None):
    """Make one item from stored chains and print it.

    Parameters
    ----------
    name : str
        Of the item.
    specs : callable
        ``specs(settings, profile)``, the chains that it needs.
    make : callable
        ``make(store, settings, profile, folder) -> str``.
    description : str
    arguments : list of str, optional
        Command line; None: that of the process.
    """
    parser = argparse.ArgumentParser(description=description)
    add_options(parser)
    options = parse(parser, arguments)
    try:
        options.store.check(specs(options.settings, options.profile), _sampling_command(name, options))
        print(make(options.store, options.settings, options.profile, options.out))
    except MissingChains as error:
        sys.exit(f"error: {error}")


def _sampling_command(name, options):
    """The command that samples the chains of an item."""
    parts = [f"python -m experiments.run_all --only {name} --{options.profile.name}"]
    if options.settings.name != "paper":
        parts.append(f"--settings {options.settings.name}")
    if os.path.abspath(options.store.folder) != STORE:
        parts.append(f"--store {options.store.folder}")
    return " ".join(parts)
