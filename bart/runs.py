"""A run as a file: model, data and settings without pickles, and `resume`, which continues it without the script.

Beside the chains' own files a checkpoint folder holds ``model-<digest>.npz``, data and priors, and ``run.npz``, the
arguments of `sample`, which names the former. Reading them makes arrays, plain values and the package's own records of
parameters, and executes no code.
"""

import dataclasses
import glob
import os
import re
import sys

import numpy as np

from .chain import ChainPlan
from .checkpoints import fingerprints
from .data import Dataset, RankCodes
from .ladder import Ladder
from .model import Model
from .outcomes import OUTCOMES, LatentDataset
from .samplers.text import format_sampler, parse_sampler
from .stopping import Targets, targets_record
from .storage import read_record, reading, write_record

__all__ = ["RunFile", "resume", "write_run"]

_FORMAT = "bart run 1"
_RUN = "run.npz"
_DATASET = ("X", "y", "scale", "column_names", "offset", "weights")
# Derived from X, y, scale and offset.
_DERIVED = ("y_scaled", "n_rows", "n_dims", "y_min", "y_max", "y_mid", "y_range")
# What `resume` may change: the number of draws and of chains, and what changes no draw.
_CHANGES = ("n_draws", "n_chains", "executor", "n_threads", "progress", "checkpoint_every", "checkpoint_sweeps",
            "callback", "callback_every", "time_limit", "stop_when")


class NotStorable(TypeError):
    """A model or sampler without a plain form."""


def model_record(model):
    """Plain values and arrays from which `model_of_record` makes the same model, bit for bit.

    Raises
    ------
    NotStorable
        A subclass, or an attribute that is neither plain nor one of the package's records of parameters.
    """
    if type(model) is not Model or type(model.dataset) not in (Dataset, LatentDataset):
        raise NotStorable(f"a {type(model).__name__} of a {type(model.dataset).__name__} has no plain form")
    extra = sorted(set(vars(model.dataset)) - {*_DATASET, *_DERIVED})
    if extra:
        raise NotStorable(f"the data set's {extra[0]} has no plain form")
    outcome = None if model.outcome is None else model.outcome.name
    if outcome is not None and type(model.outcome) is not OUTCOMES.get(outcome):
        raise NotStorable(f"the model's outcome has no plain form: {model.outcome!r}")
    own = {name: value for name, value in vars(model).items() if name not in ("dataset", "codes", "_domain", "outcome")}
    return {
        "outcome": None if outcome is None else {"name": outcome},
        "dataset": {name: getattr(model.dataset, name) for name in _DATASET},
        "attributes": {name: _pack(value, name) for name, value in own.items()},
    }


def model_of_record(record):
    """The model that `model_record` described."""
    data = record["dataset"]
    model = Model.__new__(Model)
    outcome = record.get("outcome")         # files from before there were others lack it
    # Older files have that of an outcome beside its name, and no other.
    offset = data["offset"] if "offset" in data else (outcome or {}).get("offset")
    if outcome is not None and outcome["name"] not in OUTCOMES:
        raise ValueError(f"the outcome {outcome['name']!r} is unknown to this version")
    model.outcome = None if outcome is None else OUTCOMES[outcome["name"]]()
    if outcome is None:
        # Files from before there were weights lack them.
        model.dataset = Dataset(data["X"], data["y"], data["scale"], offset, data.get("weights"))
    else:
        model.dataset = LatentDataset(data["X"], data["y"], model.outcome, offset)
    names = data["column_names"]
    model.dataset.column_names = None if names is None else tuple(names)
    for name, value in record["attributes"].items():
        setattr(model, name, _unpack(value))
    model.codes = RankCodes(model.dataset.X)
    model._domain = None
    return model


def _pack(value, name):
    if dataclasses.is_dataclass(value) and _records().get(_label(type(value))) is type(value):
        fields = {field.name: _pack(getattr(value, field.name), name) for field in dataclasses.fields(value)}
        return {"record": _label(type(value)), "fields": fields}
    if value is None or isinstance(value, (bool, int, float, str, np.generic, np.ndarray)):
        return {"value": value}
    if isinstance(value, (list, tuple)):
        return {"items": [_pack(item, name) for item in value], "tuple": isinstance(value, tuple)}
    raise NotStorable(f"the model's {name} has no plain form: {value!r}")


def _unpack(packed):
    if "record" in packed:
        kind = _records().get(packed["record"])
        if kind is None:
            raise ValueError(f"{packed['record']!r} is unknown to this version")
        return kind(**{name: _unpack(value) for name, value in packed["fields"].items()})
    if "items" in packed:
        items = [_unpack(item) for item in packed["items"]]
        return tuple(items) if packed["tuple"] else items
    return packed["value"]


def _label(kind):
    return f"{kind.__module__}:{kind.__qualname__}"


def _records():
    """The package's own dataclasses by label. What a file names is looked up here, never imported."""
    package = __name__.split(".")[0]
    found = {}
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == package:
            for value in list(vars(module).values()):
                if isinstance(value, type) and dataclasses.is_dataclass(value) and value.__module__ == name:
                    found[_label(value)] = value
    return found


class RunFile:
    """What `write_run` stored of a run.

    Parameters
    ----------
    path : str or os.PathLike
        The checkpoint folder.

    Attributes
    ----------
    options : dict
        Arguments of `sample`, as it takes them, without model and sampler.
    sampler_text : str or None
        None for a sampler of one's own.

    Raises
    ------
    ValueError
        There is no run in the folder, or its file is damaged or of another version.
    """

    def __init__(self, path):
        self.path = os.fspath(path)
        file = os.path.join(self.path, _RUN)
        if not os.path.isfile(file):
            begun = bool(glob.glob(os.path.join(glob.escape(self.path), "chain-*-state.npz")))
            raise ValueError(
                f"path: {self.path!r} holds the chains of a run, but not its settings, which earlier versions did not"
                " store; continue with sample(..., checkpoint=path)"
                if begun else f"path: there is no checkpointed run in {self.path!r}"
            )
        record = read_record(file)
        if not isinstance(record, dict) or record.get("format") != _FORMAT:
            raise ValueError(f"path: {file!r} is not of the format {_FORMAT!r}")
        with reading(file, "is damaged"):
            self._model_file, self._prints = record["model_file"], record["fingerprint"]
            self.sampler_text, self._model_trouble = record["sampler"], record["model_trouble"]
            options = dict(record["options"])
            if options["ladder"] is not None:
                options["ladder"] = Ladder(**options["ladder"])
            if options["stop_when"] is not None:
                options["stop_when"] = Targets(**options["stop_when"])
            self.options = options

    def model(self):
        """The model, made anew from the stored data and priors.

        Raises
        ------
        ValueError
            It was not stored, or the file is damaged.
        """
        if self._model_file is None:
            raise ValueError(f"model: it is not stored in {self.path!r} ({self._model_trouble}); give model=")
        file = os.path.join(self.path, os.path.basename(self._model_file))
        with reading(file, "is damaged"):
            return model_of_record(read_record(file))

    def check(self, model, sampler):
        """ValueError where model or sampler are not those of the run, before anything is written."""
        plan = ChainPlan(n_burn=0, n_draws=1)
        found = fingerprints(model, sampler, plan, 0, ["empty"])[0]
        other = [name for name in ("data", "model", "sampler") if found[name] != self._prints[name]]
        if other:
            raise ValueError(f"path: the run in {self.path!r} had other {' and other '.join(other)}")

    def sampler(self):
        """The sampler, from its text."""
        if self.sampler_text is None:
            raise ValueError(f"sampler: it is a class of your own, not stored in {self.path!r}; give sampler=")
        return parse_sampler(self.sampler_text)


def write_run(folder, model, sampler, plan, prints, options):
    """Store what `resume` needs in a checkpoint folder; the model only where it is not there yet.

    Parameters
    ----------
    folder : CheckpointFolder
    model : Model
    sampler : TreeSampler
    plan : ChainPlan
    prints : dict
        The `fingerprints` of a chain.
    options : dict
        Other arguments of `sample`: plain values, `stop_when` resolved.
    """
    os.makedirs(folder.path, exist_ok=True)
    for name in os.listdir(folder.path):        # left by a run that was killed while it wrote
        if re.fullmatch(r"\.(chain|model|run)\b.*\.tmp", name):
            os.unlink(os.path.join(folder.path, name))
    try:
        text = format_sampler(sampler)
    except ValueError:
        text = None
    model_file, trouble = f"model-{prints['data'][:8]}{prints['model'][:8]}.npz", None
    try:
        if not os.path.exists(os.path.join(folder.path, model_file)):
            write_record(os.path.join(folder.path, model_file), model_record(model))
    except NotStorable as error:
        model_file, trouble = None, str(error)
    ladder = plan.ladder
    if ladder is not None:
        ladder = {"temperatures": ladder.temperatures, "every": ladder.every, "tune": ladder.tune}
    plain = {field.name: getattr(plan, field.name) for field in dataclasses.fields(plan) if field.name != "ladder"}
    record = {
        "format": _FORMAT,
        "fingerprint": {name: prints[name] for name in ("data", "model", "sampler", "run", "seed")},
        "model_file": model_file,
        "model_trouble": trouble,
        "sampler": text,
        "options": {**plain, **options, "ladder": ladder, "stop_when": targets_record(options["stop_when"])},
    }
    write_record(os.path.join(folder.path, _RUN), record)
    for name in os.listdir(folder.path):
        if re.fullmatch(r"model-[0-9a-f]{16}\.npz", name) and name != model_file:
            os.unlink(os.path.join(folder.path, name))


def stored_entropy(folder):
    """The seed of the run in a checkpoint folder, or None."""
    found = folder.entropy()
    if found is None and os.path.isfile(os.path.join(folder.path, _RUN)):
        found = RunFile(folder.path).options["seed"]
    return found


def resume(path, model=None, sampler=None, **changes):
    """Continue a run from its checkpoint folder, without the script that began it.

    ``sample(..., checkpoint=path)`` stores data, priors, sampler and settings before its first sweep. The result equals
    that of the run had it not been cut, bit for bit; of a finished run it is the same again.

    Parameters
    ----------
    path : str or os.PathLike
        The folder that `sample` was given as `checkpoint`.
    model : Model, optional
        The model of the run. Only needed where it could not be stored: a subclass of Model.
    sampler : TreeSampler, optional
        Its sampler. Only needed for a sampler that is written in Python.
    **changes
        Arguments of `sample` in place of the stored ones: `n_draws` and `n_chains` for more draws or chains, and what
        changes no draw: `executor`, `n_threads`, `progress`, `checkpoint_every`, `checkpoint_sweeps`, `callback`,
        `callback_every`, `time_limit`, `stop_when`. Callback, time limit and an Executor object are not stored; a
        number of threads and `stop_when` are.

    Returns
    -------
    Posterior

    Raises
    ------
    ValueError, TypeError
        There is no run in the folder, its files are damaged or belong to another model or sampler, or an argument that
        would change its draws.
    RuntimeError
        Another run is under way in the folder; or as `sample`.
    """
    from .sampling import sample

    for name in changes:
        if name not in _CHANGES:
            raise TypeError(f"resume() takes no argument {name!r}: it would make another run; {', '.join(_CHANGES)} may"
                            " be changed")
    stored = RunFile(path)
    sampler = stored.sampler() if sampler is None else sampler
    model = stored.model() if model is None else model
    if not isinstance(model, Model):
        raise TypeError(f"model must be a Model, got {type(model).__name__}")
    stored.check(model, sampler)
    return sample(model, sampler, checkpoint=path, **{**stored.options, **changes})
