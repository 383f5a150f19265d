"""Figure 1 of the paper's supplement: traces of the three samplers on hypercube-2."""

from .command import run_script
from .figure_3 import make_traces, trace_specs

__all__ = ["NAME", "make", "specs"]

NAME = "figure_s1"


def specs(settings, profile):
    """The chains of the figure."""
    return trace_specs(settings, profile, profile.trace_dims[1])


def make(store, settings, profile, folder="figures"):
    """Draw the figure from stored chains; see `figure_3.make_traces`."""
    return make_traces(NAME, "Supplement, figure 1.", profile.trace_dims[1], store, settings, profile, folder)


if __name__ == "__main__":
    run_script(NAME, specs, make, __doc__)
