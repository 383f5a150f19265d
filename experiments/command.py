"""Options that all scripts share."""

import argparse

from .settings import PROFILES, SETTINGS

__all__ = ["parse", "rows_with_rules"]


def parse(arguments, description):
    """Read a command line.

    Parameters
    ----------
    arguments : list of str or None
        None: those of the process.
    description : str

    Returns
    -------
    argparse.Namespace
        With ``profile`` (Profile), ``settings`` (Settings), ``out``, ``workers`` and ``download``.
    """
    parser = argparse.ArgumentParser(description=description)
    effort = parser.add_mutually_exclusive_group()
    effort.add_argument("--quick", action="store_true", help="D = 2, 3, 4; one real training set (default)")
    effort.add_argument("--full", action="store_true", help="D = 2, 3, 4, 5, 7; three real training sets")
    effort.add_argument("--tiny", action="store_true", help="seconds, for tests: figures without meaning")
    add = parser.add_argument
    add(
        "--settings",
        choices=sorted(SETTINGS),
        default="paper",
        help="of the paper, or of its authors' scripts",
    )
    add("--out", default="figures", help="folder of the files (default: figures)")
    add("--workers", type=int, default=None, help="processes (default: the number of CPUs)")
    add("--download", action="store_true", help="fetch CaliforniaHouses if PGBART_DATA is not set")
    options = parser.parse_args(arguments)
    if options.workers is not None and options.workers < 1:
        parser.error("--workers must be at least 1")
    options.profile = PROFILES["full" if options.full else "tiny" if options.tiny else "quick"]
    options.settings = SETTINGS[options.settings]
    return options


def rows_with_rules(groups, cells):
    """Cells of all records, with a rule between groups."""
    rows = []
    for group in groups:
        if rows:
            rows.append(None)
        rows += [cells(record) for record in group]
    return rows
