"""The command line that the scripts share."""

import argparse
import contextlib
import importlib.util
import os
import shlex
import sys
import tempfile

from .settings import PROFILES, SETTINGS
from .store import MissingChains, Store

__all__ = ["STORE", "add_options", "check_surroundings", "one_line_errors", "parse", "run_script", "say"]

STORE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "runs")


def add_options(parser):
    """Add what every script understands."""
    effort = parser.add_mutually_exclusive_group()
    effort.add_argument("--full", action="store_true", help="the paper's settings, ten data sets a hypercube (default)")
    effort.add_argument("--quick", action="store_true", help="the same sweeps on fewer data sets: minutes")
    effort.add_argument("--tiny", action="store_true", help="seconds, for tests: figures without meaning")
    add = parser.add_argument
    add("--settings", choices=sorted(SETTINGS), default="paper", help="of the paper, or of its authors' scripts")
    add("--store", default=STORE, help="folder of the stored chains (default: experiments/runs)")
    add("--out", default="figures", help="folder of the tables and pictures (default: figures)")


@contextlib.contextmanager
def one_line_errors():
    """Bad input, files and folders that cannot be used, and an interrupt end the program with one line."""
    try:
        yield
    except KeyboardInterrupt:
        print("\ninterrupted; the same command goes on from here", file=sys.stderr)
        sys.exit(130)
    except (MissingChains, RuntimeError, ValueError, OSError, ImportError) as error:
        sys.exit(f"error: {error}")


def check_surroundings(options):
    """Before any work: the libraries that tables and figures need, the data folder, the folder of the output.

    Raises
    ------
    ImportError, ValueError, OSError
    """
    missing = [name for name in ("arviz", "matplotlib") if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(f"the experiments need {' and '.join(missing)}: pip install 'pgbart[all]'")
    data = os.environ.get("PGBART_DATA")
    if data and not os.path.isdir(data):
        raise ValueError(f"PGBART_DATA names no folder: {data}")
    os.makedirs(options.out, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=options.out):
        pass


def say(text):
    """Print, whatever the terminal or pipe can take: the files matter more."""
    try:
        print(text, flush=True)
    except UnicodeEncodeError:
        print(text.encode("ascii", "replace").decode(), flush=True)
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


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
    with one_line_errors():
        check_surroundings(options)
        options.store.check(specs(options.settings, options.profile), _sampling_command(name, options))
        say(make(options.store, options.settings, options.profile, options.out))


def _sampling_command(name, options):
    """The command that samples the chains of an item."""
    parts = [f"python -m experiments.run_all --only {name} --{options.profile.name}"]
    if options.settings.name != "paper":
        parts.append(f"--settings {options.settings.name}")
    if os.path.abspath(options.store.folder) != STORE:
        parts.append(f"--store {shlex.quote(options.store.folder)}")
    return " ".join(parts)
