"""The command line: ``python -m bart`` or ``pgbart``, with fit, resume, predict and diagnose.

Results go to stdout and files, progress and messages to stderr. An error is one line; the exit code is 2 for wrong
usage, 1 for a failure, 130 for an interrupt.
"""

import argparse
import contextlib
import json
import math
import os
import re
import sys
import warnings

from . import __version__
from .cli_options import add_commands, options_of
from .diagnostics import require_arviz
from .inputs import check_real
from .ladder import Ladder
from .model import Model
from .outcomes import Probit
from .posterior import load
from .runs import resume
from .samplers.text import parse_sampler
from .sampling import sample
from .storage import atomic_file
from .summaries import quantile_levels
from .tables import TableError, read_table, write_table

__all__ = ["main"]

USAGE, FAILURE, INTERRUPTED = 2, 1, 130


class UsageError(Exception):
    """What the user asked for cannot be meant."""


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise UsageError(f"{message} ({self.prog} --help shows the usage)")


def main(argv=None):
    """Run a command.

    Parameters
    ----------
    argv : list of str, optional
        Arguments; those of the process by default.

    Returns
    -------
    int
        The exit code.
    """
    called = os.path.basename(sys.argv[0] or "")
    prog = "python -m bart" if called.startswith("__main__") or called.endswith(".py") else "pgbart"
    parser = _Parser(prog=prog, description=__doc__, allow_abbrev=False,
                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--version", action="version", version=f"pgbart {__version__}")
    add_commands(parser, {"fit": fit, "resume": resume_run, "predict": predict, "diagnose": diagnose})
    try:
        with _one_line_warnings(prog) as told:
            args = parser.parse_args(argv)
            args.told = told
            return args.run(args)
    except UsageError as error:
        return _say(prog, error, USAGE)
    except (TableError, ValueError, TypeError, RuntimeError, ImportError, OSError, MemoryError) as error:
        if isinstance(error, BrokenPipeError):
            # The reader of stdout has enough; nothing is left to be flushed to it at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILURE
        if isinstance(error, OSError) and error.filename is not None and error.strerror:
            error = f"{os.fspath(error.filename)}: {error.strerror}"
        return _say(prog, error or type(error).__name__, FAILURE)
    except KeyboardInterrupt:
        return _say(prog, "interrupted", INTERRUPTED)


def _say(prog, error, code):
    print(f"{prog}: error: {' '.join(str(error).split())}", file=sys.stderr)
    return code


@contextlib.contextmanager
def _one_line_warnings(prog):
    """Warnings as one line each on stderr; yields the list of their texts."""
    told = []

    def show(message, *_, **__):
        told.append(str(message))
        print(f"{prog}: warning: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show
        yield told


@contextlib.contextmanager
def _usage_of(flags):
    """An argument that the library refuses by name is wrong usage, and is then called by its flag."""
    try:
        yield
    except TableError:
        raise
    except (ValueError, TypeError) as error:
        name = re.match(r"[a-z_]+", str(error))
        if name is None or name[0] not in flags:
            raise
        raise UsageError(flags[name[0]] + str(error)[name.end() :]) from None


@contextlib.contextmanager
def _cells_of(path, columns):
    """A value that the library refuses by its place is a cell of the table; `columns` by the argument they were."""
    try:
        yield
    except ValueError as error:
        found = re.match(r"(\w+)(?:\[(\d+)\] = |.* at position (\d+))", str(error))
        if found is None or found[1] not in columns:
            raise
        place = f"row {int(found[2] or found[3]) + 1}, column {columns[found[1]]!r}"
        text = re.sub(r"^\w+\[\d+\] = | at position \d+", "", str(error))
        raise TableError(f"{path}: {place}: {text}") from None


# Commands


def fit(args):
    """``fit``: sample from the posterior of a table's target column, and save the run."""
    _check_out(args.out, [args.data], args.checkpoint)
    own = {"target": args.target, "offset": args.offset_column, "weights": args.weights}
    own = {what: column for what, column in own.items() if column is not None}
    for what, column in own.items():
        for flag, names in (("--exclude", args.exclude), ("--columns", args.columns or [])):
            if column in names:
                raise UsageError(f"{flag} names the {what} {column!r}")
    if args.offset_column is not None and (args.offset is not None or args.offset_column == args.target):
        raise UsageError("--offset-column has no place beside --offset, and cannot be the target")
    for what in ("target", "offset"):
        if args.weights is not None and args.weights == own.get(what):
            raise UsageError(f"--weights names the {what} {args.weights!r}")
    if args.checkpoint_every is not None and args.checkpoint is None:
        raise UsageError("--checkpoint-every has no effect without --checkpoint")
    with _usage_of(args.flags):
        sampler = args.sampler if args.sampler == "auto" else parse_sampler(args.sampler)
        options = {**options_of(args, "sample"), "ladder": _ladder(args), "stop_when": _targets(args)}
    wanted = None if args.columns is None else [*args.columns, *own.values()]
    X, _ = read_table(args.data, wanted, args.exclude, args.delimiter)
    values, model_options = {}, options_of(args, "model")
    for what, column in own.items():
        if column not in X.columns:
            raise TableError(f"{args.data}: no column {column!r}, the {what}; there are {', '.join(X.columns)}")
        values[what], X = X.pop(column)
    if not X.columns:
        named = " and ".join(f"the {what} {column!r}" for what, column in own.items())
        raise TableError(f"{args.data}: there is no column beside {named}")
    values["y"], own["y"] = values.pop("target"), own.pop("target")
    with _usage_of(args.flags):
        with _cells_of(args.data, own):
            model = Model(X, **{**model_options, **values})
        post = sample(model, sampler, **options)
    return _finish(args, post)


def resume_run(args):
    """``resume``: continue a run from its checkpoint folder."""
    _check_out(args.out, checkpoint=args.path)
    changes = options_of(args, "sample")
    if args.stop_r_hat is not None or args.stop_ess is not None or args.stop_names is not None:
        changes["stop_when"] = _targets(args)
    with _usage_of(args.flags):
        post = resume(args.path, **changes)
    return _finish(args, post)


def predict(args):
    """``predict``: posterior mean, interval and quantiles at the rows of a table."""
    if args.out is not None:
        _check_out(args.out, [args.run_file, args.data])
    if args.weights is not None and args.kind != "outcome":
        raise UsageError("--weights has no effect without --kind outcome")
    if args.kind == "outcome" and args.interval is None and args.quantiles is None:
        raise UsageError("--kind outcome has no effect without --interval or --quantiles: the mean is the same")
    with _usage_of(args.flags):
        quantile_levels(args.quantiles, args.interval)
    if len(set(args.quantiles or [])) < len(args.quantiles or []):
        raise UsageError("--quantiles has a level twice")
    post = load(args.run_file)
    names = post.header["column_names"]
    own = {"offset": args.offset, "weights": args.weights}
    own = {what: column for what, column in own.items() if column is not None}
    if args.weights is not None and args.weights == args.offset:
        raise UsageError(f"--weights names the offset {args.weights!r}")
    table, ignored = read_table(args.data, None if names is None else [*names, *own.values()], args.exclude,
                                args.delimiter)  # fmt: skip
    values = {}
    for what, column in own.items():
        if column not in table.columns:
            raise TableError(f"{args.data}: no column {column!r}; there are {', '.join(table.columns)}")
        values[what], table = table.pop(column)
    rows = table if names is not None else table.to_numpy()
    progress = False if args.quiet else None
    kind = args.kind or ("probability" if post.outcome == Probit.name else "mean")
    options = {"quantiles": args.quantiles, "interval": args.interval, "every": args.every}
    options |= {"n_threads": args.n_threads, **values}
    with _usage_of(args.flags), _cells_of(args.data, own):
        if kind == "probability":
            found = post.predict_proba(rows, **options)
        else:
            found = post.predict(rows, progress=progress, kind=kind, **options)
    if ignored and names is not None:
        print(f"columns that the run does not use: {', '.join(ignored)}", file=sys.stderr)
    columns = {"mean": getattr(found, "mean", found) if args.quantiles or args.interval else found}
    if args.interval is not None:
        columns["lower"], columns["upper"] = found.interval
    for level, values in zip(args.quantiles or [], found.quantiles if args.quantiles else [], strict=True):
        columns[f"q{level!r}"] = values
    if args.out is not None:
        with atomic_file(args.out, "w") as file:
            write_table(file, columns, args.delimiter)
    if args.json:
        record = {"n_rows": len(table), "kind": kind, "interval": args.interval,
                  "quantiles": args.quantiles, "out": args.out}  # fmt: skip
        if args.out is None:
            record["columns"] = {name: values.tolist() for name, values in columns.items()}
        _print_json(record)
    elif args.out is None:
        write_table(sys.stdout, columns, args.delimiter)
        sys.stdout.flush()
    return 0


def diagnose(args):
    """``diagnose``: summary, R-hat and ESS of a saved run, and whether they are good enough."""
    with _usage_of(args.flags):
        check_real(args.r_hat, "r_hat", 1)
        check_real(args.ess, "ess", 0)
    post = load(args.run_file)
    require_arviz()
    with _usage_of(args.flags):
        summary, trouble = _diagnosis(post, args.names, args.r_hat, args.ess)
    if args.json:
        _print_json({**_facts(post), "summary": _rows(summary), "converged": not trouble, "trouble": trouble})
    else:
        print(_heading(args.run_file, post))
        print(summary)
        print("not converged: " + "; ".join(trouble) if trouble else
              f"R-hat <= {args.r_hat:g} and bulk ESS >= {args.ess:g} for all traces above")  # fmt: skip
    return FAILURE if trouble and args.strict else 0


# Parts


def _ladder(args):
    given = {name: getattr(args, name) for name in ("n_rungs", "t_min") if getattr(args, name) is not None}
    if args.swap_every is not None:
        given["every"] = args.swap_every
    return Ladder(**given) if given else None


def _targets(args):
    if args.stop_r_hat is None and args.stop_ess is None:
        if args.stop_names is not None:
            raise UsageError("--stop-names has no effect without --stop-r-hat or --stop-ess")
        return None
    targets = {"r_hat": args.stop_r_hat, "ess_bulk": args.stop_ess}
    return targets if args.stop_names is None else {**targets, "names": args.stop_names}


def _check_out(path, inputs=(), checkpoint=None):
    """The file to be written is checked before any work: it must be none of those that are read or continued."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise UsageError(f"--out: there is no folder {folder!r}")
    if os.path.isdir(path):
        raise UsageError(f"--out: {path!r} is a folder")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"--out: the folder {folder!r} cannot be written to")
    for other in inputs:
        if other != "-" and os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other):
            raise UsageError(f"--out: {path!r} is the file {other!r} that is read")
    if checkpoint is not None:
        place, checkpoint = (os.path.realpath(name) + os.sep for name in (path, checkpoint))
        if place.startswith(checkpoint):
            raise UsageError(f"--out: {path!r} lies in the folder of the checkpoint")


def _finish(args, post):
    post.save(args.out)
    try:
        summary, trouble = _diagnosis(post, None, 1.05, 400.0)
    except ImportError as error:
        summary, trouble = None, []
        print(f"no convergence figures: {error}", file=sys.stderr)
    if trouble:
        warnings.warn("not converged: " + "; ".join(trouble), stacklevel=2)
    if args.json:
        record = {"out": args.out, **_facts(post), "summary": None if summary is None else _rows(summary)}
        _print_json({**record, "warnings": args.told})
    else:
        print(_heading(args.out, post))
        if summary is not None:
            print(summary)
    return 0


def _diagnosis(post, names, r_hat, ess):
    """The summary, of its own choice of traces where `names` is None, and a phrase for each trace whose figures fall
    short; one that is constant has none."""
    for name in names or ():
        if name not in post:
            raise ValueError(f"names: no trace {name!r}: there are {', '.join(post)}")
    summary, trouble = post.summary(names), []
    for name, row in summary.items():
        if post[name].min() == post[name].max():
            continue
        if post.n_chains > 1 and not row["r_hat"] <= r_hat:
            trouble.append(f"{name} has R-hat {row['r_hat']:.3f} > {r_hat:g}")
        if not row["ess_bulk"] >= ess:
            trouble.append(f"{name} has bulk ESS {row['ess_bulk']:.0f} < {ess:g}")
    if post.n_chains == 1:
        trouble.append("one chain alone has no R-hat")
    return summary, trouble


def _facts(post):
    """What a run was, as plain values; null what files of earlier versions do not tell."""
    header = post.header
    asked = header.get("n_draws_asked", post.n_draws)
    return {
        "n_chains": post.n_chains, "n_burn": post.n_burn, "n_draws": post.n_draws, "n_draws_asked": asked,
        "thin": header["thin"], "stopped": post.stopped, "seed": post.seed, "sampler": post.sampler,
        "ladder": post.ladder, "temperatures": _listed(post.temperatures), "swap_rates": _listed(post.swap_rates),
        "round_trips": _listed(post.round_trips), "starts": post.starts, "n_trees": header["n_trees"],
        "n_dims": header["n_dims"], "columns": header["column_names"], "outcome": post.outcome,
        "weighted": header.get("weights") is not None, "row_offset": header.get("row_offset") is not None,
        "priors": header.get("prior_settings"), "wall_seconds": sum(header.get("wall_seconds", ())),
        "keeps_trees": post.forests is not None, "version": header.get("version"),
    }  # fmt: skip


def _listed(array):
    return None if array is None else array.tolist()


def _heading(path, post):
    ended = "" if post.stopped is None else f", ended by {post.stopped}"
    return (
        f"{path}: {post.n_chains} chains of {post.n_draws} draws after {post.n_burn} sweeps{ended}; sampler"
        f" {post.sampler}, seed {post.seed}"
    )


def _rows(summary):
    return {name: dict(row) for name, row in summary.items()}


def _print_json(record):
    print(json.dumps(_plain(record), allow_nan=False))
    sys.stdout.flush()


def _plain(value):
    """NaN and infinities, for which JSON has no form, become null."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
