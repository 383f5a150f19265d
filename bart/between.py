"""What acts on a chain between its sweeps, beside the kernels of `bart.samplers.BetweenSweeps`."""

from __future__ import annotations

__all__ = ["EachSweep"]


class EachSweep:
    """A block of an Ensemble that is redrawn given all else, before sigma2, whenever a sweep begins.

    Attributes
    ----------
    names : tuple of str
        Traces that it adds to those of a sweep.
    width : int
        Numbers in a row of them.
    """

    names, width = (), 0

    def is_due(self, n_sweeps):
        """Whether it acts after `n_sweeps` sweeps."""
        return True

    def sweeps_left(self, n_sweeps):
        """Sweeps until it is due."""
        return 1

    def redraw(self, kernel, rng):
        """Draw it given the state of the chain; an interrupt leaves the old draw or the new one.

        Parameters
        ----------
        kernel : bart.kernels.sweep.EnsembleKernel
        rng : numpy.random.Generator
        """
        raise NotImplementedError

    def fill(self, row, kernel):
        """Write the present values of its traces to row, (width,)."""

    def name_traces(self, rows):
        """Rows of them, (n, width), as a dict of arrays."""
        return {name: rows[:, k] for k, name in enumerate(self.names)}
