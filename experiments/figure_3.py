"""Figure 3 of the paper: traces of the three samplers on hypercube-4, a chain from each kind of start."""

import numpy as np

from . import hypercube, paper, pictures, traces
from .command import run_script
from .report import origin_line, origin_record

__all__ = ["NAME", "make", "make_traces", "specs", "trace_specs"]

NAME = "figure_3"
DATA_SEED = 1


def trace_specs(settings, profile, dim):
    """The chains on one data set of a dimension: they are among those of tables 1 and 2."""
    return hypercube.dimension_specs(settings, profile, dim, (DATA_SEED,))


def specs(settings, profile):
    """The chains of figure 3."""
    return trace_specs(settings, profile, profile.trace_dims[0])


def make_traces(name, title, dim, store, settings, profile, folder):
    """Draw the traces on one hypercube from stored chains, write the files and return the caption.

    Parameters
    ----------
    name : str
        Stem of the files, and the item of the sampling command.
    title : str
        First words of the caption.
    dim : int
    store : Store
    settings : Settings
    profile : Profile
    folder : str

    Returns
    -------
    str

    Raises
    ------
    MissingChains
    """
    results, chains = {}, []
    for sampler in paper.SAMPLERS:
        read = store.read_all(hypercube.sampler_specs(settings, profile, dim, DATA_SEED, sampler))
        results[sampler] = [{"start": chain.spec.start, **chain.traces} for chain in read]
        chains += read
    references = store.read_all(hypercube.reference_specs(settings, profile, dim, DATA_SEED))
    level = hypercube.reference(references)["level"]
    problem = chains[0].spec.load()
    variances = {
        "train": float(np.var(problem.y_train)),
        "test": float(np.var(problem.y_test)),
        "noise": settings.label_noise**2,
    }
    figure = traces.draw(results, dim, profile.n_burn, level, variances)
    origin = origin_record(store, settings, profile)
    caption = [
        f"{title} Traces against sweep on {problem.name} (data seed {DATA_SEED}, {len(problem.y_train)} rows,"
        f" {problem.note}), one tree, a chain from each kind of start."
        f" {traces.describe(results, dim, profile.n_burn, level, variances)}",
        hypercube.describe(settings, profile),
        origin_line(origin),
    ]
    record = {
        "provenance": origin,
        "data_seed": DATA_SEED,
        "reference_level": level,
        "reference_levels": [float(chain.kept("log_likelihood").mean()) for chain in references],
        "chains": [_means(chain) for chain in chains],
    }
    return pictures.save(figure, folder, name, caption, record)


def _means(chain):
    """Means of a chain over its kept sweeps."""
    names = ("log_likelihood", "n_leaves", "train_mse", "test_mse")
    record = {"sampler": chain.spec.sampler, "start": chain.spec.start, "chain_seed": chain.header["seed"]}
    return {**record, **{name: float(chain.kept(name).mean()) for name in names}}


def make(store, settings, profile, folder="figures"):
    """Figure 3; see `make_traces`."""
    return make_traces(NAME, "Figure 3.", profile.trace_dims[0], store, settings, profile, folder)


if __name__ == "__main__":
    run_script(NAME, specs, make, __doc__)
