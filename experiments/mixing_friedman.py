"""Effective draws a CPU second on Friedman's function, beside other packages.

    python -m experiments.mixing_friedman [--quick | --full] [--systems growprune "pg(n_particles=10)" bartz ...]

Makes the runs that are not stored (hours: run it on an idle machine) and writes figures/mixing_friedman.*.
"""

import sys

from . import mixing

__all__ = ["NAME", "PROBLEMS", "main"]

NAME = "mixing_friedman"
# From a problem to its data seed: another data set for each seed.
PROBLEMS = dict.fromkeys(("friedman-2000-10", "friedman-2000-100", "friedman-10000-10"), lambda seed: seed)


def main(arguments=None):
    """Command line; see `mixing.main`."""
    return mixing.main(NAME, PROBLEMS, __doc__.splitlines()[0], arguments)


if __name__ == "__main__":
    sys.exit(main())
