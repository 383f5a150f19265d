"""Effective draws a CPU second on real data, beside other packages.

    python -m experiments.mixing_real [--quick | --full] [--systems growprune "pg(n_particles=10)" bartz ...]

Makes the runs that are not stored (hours: run it on an idle machine) and writes figures/mixing_real.*; needs
PGBART_DATA.
"""

import sys

from . import mixing

__all__ = ["NAME", "PROBLEMS", "main"]

NAME = "mixing_real"
# From a problem to its data seed: the three training sets in turn; of all rows there is one.
PROBLEMS = {
    **dict.fromkeys(("CaliforniaHouses", "gas", "pol", "ct_slices_head"), lambda seed: 1 + seed % 3),
    "CaliforniaHouses-all": lambda seed: 0,
}


def main(arguments=None):
    """Command line; see `mixing.main`."""
    return mixing.main(NAME, PROBLEMS, __doc__.splitlines()[0], arguments)


if __name__ == "__main__":
    sys.exit(main())
