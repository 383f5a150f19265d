"""All tables and figures, in one go: ``python -m experiments.reproduce --quick``."""

import os
import time

from . import figure_3, tables_1_2, tables_4_5
from .command import parse

__all__ = ["main"]


def main(arguments=None):
    """Print the tables, write the files, and say how long each part took.

    Parameters
    ----------
    arguments : list of str, optional
        Command line; see ``--help``.
    """
    options = parse(arguments, __doc__)
    common = (options.settings, options.profile, options.out, options.workers)
    parts = [
        ("tables 1 and 2", lambda: tables_1_2.make(*common)),
        ("tables 4 and 5", lambda: tables_4_5.make(*common, options.download)),
        ("figure 3", lambda: figure_3.make(*common)),
    ]
    times = []
    for name, make in parts:
        began = time.perf_counter()
        print(make(), flush=True)
        times.append((name, time.perf_counter() - began))
    print(f"Files are in {os.path.abspath(options.out)}.")
    print("Wall time: " + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in times), end="")
    print(f"; in all {sum(seconds for _, seconds in times):.1f} s.")


if __name__ == "__main__":
    main()
