"""Effective draws a CPU second on all problems with many trees together, beside other packages.

    python -m experiments.mixing_all [--quick | --full] [--tables-only] [--systems auto bartz ...]

The runs of `mixing_friedman` and `mixing_real`, from the same store, in one table with the medians over all problems;
makes those that are not stored and writes figures/mixing_all.*; needs PGBART_DATA.
"""

import sys

from . import mixing, mixing_friedman, mixing_real

__all__ = ["NAME", "PROBLEMS", "main"]

NAME = "mixing_all"
PROBLEMS = mixing_friedman.PROBLEMS | mixing_real.PROBLEMS


def main(arguments=None):
    """Command line; see `mixing.main`."""
    return mixing.main(NAME, PROBLEMS, __doc__.splitlines()[0], arguments)


if __name__ == "__main__":
    sys.exit(main())
