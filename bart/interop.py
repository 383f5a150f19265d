"""Other programs' forms of a run: ArviZ objects with pointwise log-likelihood, and coda's text files."""

from __future__ import annotations

import os

import numpy as np

from .data import check_rows
from .diagnostics import _import_arviz
from .inputs import as_vector, check_count
from .prediction import predict_blocks
from .predictive import check_gaussian, log_density_of, new_rows
from .storage import atomic_file

__all__ = ["arviz_object", "density_blocks", "log_likelihood_blocks", "pointwise_log_likelihood", "write_coda"]

_OF_SAMPLER = ("tree_changed", "root_changed", "row_visits", "seconds")


def _data_of(post, X, y, model, offset, weights):
    """Rows, responses, offsets and weights (None: all 1) from what was given or from a model, checked."""
    if model is not None:
        if any(given is not None for given in (X, y, offset, weights)):
            raise ValueError("model has no effect beside X, y, offset and weights: give one of them")
        from .inclusion import check_same_model

        check_same_model(post.header, model)
        data = model.dataset
        return data.X, data.y, data.offset if isinstance(data.offset, np.ndarray) else None, data.weights
    if X is None or y is None:
        raise ValueError(f"{'X' if X is None else 'y'} is missing: the run keeps no data, give X and y, or model=")
    X, y = check_rows(X, post.header["n_dims"], post.header["column_names"], "X"), as_vector(y, "y")
    if len(X) != len(y):
        raise ValueError(f"X has {len(X)} rows, but y has {len(y)} values")
    if weights is not None:
        check_gaussian(post, "weights=")
    return X, y, *new_rows(post.header, offset, weights, len(X))


def log_likelihood_blocks(post, X=None, y=None, model=None, every=1, n_threads=1, offset=None, weights=None):
    """`Posterior.log_likelihood_blocks`."""
    check_count(every, "every")
    check_count(n_threads, "n_threads")
    X, y, offset, weights = _data_of(post, X, y, model, offset, weights)
    return density_blocks(post, X, y, offset, weights, every, n_threads, log_density_of(post, y))


def density_blocks(post, X, y, offset, weights, every, n_threads, log_density):
    """Blocks of the log density of each row and draw; everything is checked already."""
    sigma = post["sigma"][:, ::every]
    root = None if weights is None else np.sqrt(weights)
    for block in predict_blocks(post, X, every=every, n_threads=n_threads, offset=offset):
        spread = sigma[block.chain, block.draws, None]
        if root is not None:
            spread = spread / root[block.rows]
        yield block._replace(values=log_density(y[block.rows], block.values, spread))


def pointwise_log_likelihood(post, X=None, y=None, model=None, every=1, n_threads=1, out=None, offset=None,
                             weights=None):  # fmt: skip
    """`Posterior.pointwise_log_likelihood`."""
    check_count(every, "every")
    check_count(n_threads, "n_threads")
    X, y, offset, weights = _data_of(post, X, y, model, offset, weights)
    log_density = log_density_of(post, y)
    shape = (post.n_chains, len(range(0, post.n_draws, every)), len(X))
    if out is None:
        out = np.empty(shape)
    elif not isinstance(out, np.ndarray) or out.shape != shape or out.dtype.kind != "f":
        found = f"{out.dtype} {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
        raise ValueError(f"out must be a floating-point array of shape {shape}, got {found}")
    for block in density_blocks(post, X, y, offset, weights, every, n_threads, log_density):
        out[block.chain, block.draws, block.rows] = block.values
    return out


def arviz_object(post, X=None, y=None, model=None, log_likelihood=False, n_threads=1, offset=None, weights=None):
    """`Posterior.to_arviz`."""
    arviz = _import_arviz()
    wants_data = model is not None or X is not None or y is not None
    if log_likelihood and not wants_data:
        raise ValueError("log_likelihood=True needs the data, which the run does not keep: give X and y, or model=")
    for name, value in (("X", X), ("offset", offset), ("weights", weights)):
        if value is not None and not log_likelihood:
            raise ValueError(f"{name} has no effect without log_likelihood=True")
    check_count(n_threads, "n_threads")
    if log_likelihood or model is not None:
        X, y, known, weights = _data_of(post, X, y, model, offset, weights)
    elif wants_data:
        y = as_vector(y, "y")
    groups = {}
    for prefix, traces in (("", post), ("warmup_", post.burn)):
        if prefix and post.n_burn == 0:
            continue
        copies = {name: np.array(traces[name]) for name in post.sweeps}
        copies["total_log_likelihood"] = copies.pop("log_likelihood")
        groups[prefix + "posterior"] = {key: copies[key] for key in copies if key not in _OF_SAMPLER}
        groups[prefix + "sample_stats"] = {key: copies[key] for key in _OF_SAMPLER}
    if log_likelihood:
        found = pointwise_log_likelihood(post, X, y, n_threads=n_threads, offset=known, weights=weights)
        groups["log_likelihood"] = {"y": found}
    if wants_data:
        groups["observed_data"] = {"y": np.array(y)}
    if int(arviz.__version__.split(".")[0]) >= 1:
        return arviz.from_dict(groups, save_warmup=True)
    return arviz.from_dict(**groups, save_warmup=True)


def write_coda(post, folder, names=None, stem=""):
    """`Posterior.to_coda`."""
    names = list(post) if names is None else list(names)
    if not names:
        raise ValueError("names is empty")
    for place, name in enumerate(names):
        if name not in post:
            raise ValueError(f"names[{place}] is {name!r}, which is none of {', '.join(post)}")
        if name in names[:place]:
            raise ValueError(f"names holds {name!r} twice")
    if post.n_draws < 2:
        raise ValueError("coda reads the spacing of the draws off the file: there must be at least two of them")
    if not isinstance(stem, str) or os.path.basename(stem) != stem:
        raise ValueError(f"stem must be the beginning of a file's name, got {stem!r}")
    folder = os.fspath(folder)
    os.makedirs(folder, exist_ok=True)
    thin, n = post.header["thin"], post.n_draws
    sweeps = post.n_burn + thin * np.arange(1, n + 1)
    paths = [os.path.join(folder, f"{stem}CODAindex.txt")]
    with atomic_file(paths[0], "w") as file:
        file.writelines(f"{name} {n * place + 1} {n * (place + 1)}\n" for place, name in enumerate(names))
    for chain in range(post.n_chains):
        paths.append(os.path.join(folder, f"{stem}CODAchain{chain + 1}.txt"))
        with atomic_file(paths[-1], "w") as file:
            for name in names:
                values = post[name][chain].tolist()
                file.writelines(f"{sweep} {value!r}\n" for sweep, value in zip(sweeps.tolist(), values, strict=True))
    return paths
