"""What the benchmarks measure with: samplers, CPU time, peak memory, the streaming pass, provenance."""

import os
import platform
import textwrap
import time
from importlib import metadata

import numpy as np
from bart.kernels.testing_rows import RowLoops

import bart
from bart.kernels import rowops
from experiments.chains import cpu_name
from experiments.report import WIDTH, write_json

HERE = os.path.dirname(os.path.abspath(__file__))
SAMPLERS = {
    "GrowPrune": bart.GrowPrune,
    "CGM": bart.CGM,
    "PG C=10": bart.ParticleGibbs,
}


def make_sampler(name):
    """A sampler by its name in `SAMPLERS`, or by a text that `bart.parse_sampler` reads."""
    return SAMPLERS[name]() if name in SAMPLERS else bart.parse_sampler(name)


def generator(*numbers):
    """A generator that depends on the numbers alone."""
    return np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(numbers)))


def cpu_seconds(function):
    """CPU seconds of the whole process in one call: other work on the machine counts little."""
    began = time.process_time()
    function()
    return time.process_time() - began


def middle(values):
    """Median, minimum and number of repeated measurements."""
    return {"median": float(np.median(values)), "min": float(np.min(values)), "repeats": len(values)}


class Pass:
    """The unit of work: one streaming masked sum of a float64 target over all rows, by the codes of one column.

    Parameters
    ----------
    codes : bart.RankCodes
        Its first column is read, cut in the middle, by the row loops the samplers use.
    target : (N,) float64
    seconds : float
        A measurement repeats the pass for about so long.
    """

    def __init__(self, codes, target, seconds=0.02):
        self._loops = RowLoops(rowops.TARGET)
        self._where = [(codes.codes[0], "<=", int(codes.n_values[0]) // 2)]
        self._target = np.array(target)
        repeat_for(self._loops, self._run, seconds)

    def _run(self):
        self._loops.masked_sum(self._where, self._target)

    def seconds(self):
        """CPU seconds of one pass, mean of the repeats of one measurement."""
        self._run()
        return self._loops.seconds / self._loops.repeats


def repeat_for(loops, run, seconds):
    """Set the repeats of some row loops so that `run()`, one call of a loop, takes about so many CPU seconds."""
    loops.repeats = 1
    run()
    while loops.seconds < seconds:
        loops.repeats = max(2 * loops.repeats, int(loops.repeats * seconds / max(loops.seconds, 1e-6)))
        run()


def time_updates(ensemble, n_pairs, n_sweeps):
    """Pairs of measurements, one after the other in one process: some sweeps, some passes.

    Parameters
    ----------
    ensemble : bart.Ensemble
        Runs on; its state at the call should be one the sampler stays at.
    n_pairs, n_sweeps : int
        Pairs, and the sweeps of each.

    Returns
    -------
    dict
        ``us_per_update`` (of one tree), ``us_per_pass``, ``passes`` (their ratio, pair by pair), each as `middle`
        gives it; ``mean_leaves`` of a tree; ``changed``, the share of updates that changed the tree.
    """
    model = ensemble.model
    unit = Pass(model.codes, ensemble.residual)
    updates, passes, leaves, changed = [], [], [], []
    for _ in range(n_pairs):
        found = {}
        seconds = cpu_seconds(lambda found=found: found.update(ensemble.run(n_sweeps)))
        updates.append(seconds / (n_sweeps * model.n_trees))
        passes.append(unit.seconds())
        leaves.append(found["n_leaves"].mean() / model.n_trees)
        changed.append(found["tree_changed"].mean())
    return {"n_rows": model.dataset.n_rows, "n_dims": model.dataset.n_dims, "n_trees": model.n_trees,
            "code_bytes": model.codes.codes.itemsize, "us_per_update": middle(1e6 * np.array(updates)),
            "us_per_pass": middle(1e6 * np.array(passes)), "passes": middle(np.divide(updates, passes)),
            "mean_leaves": float(np.mean(leaves)), "changed": float(np.mean(changed))}


def _status_bytes(field):
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(field + ":"):
                return 1024 * int(line.split()[1])
    raise OSError(f"no {field} in /proc/self/status")


class PeakMemory:
    """Peak resident memory from here on, less what is resident here. Linux only; None elsewhere."""

    def __init__(self):
        self._start = None
        try:
            with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
                file.write("5")         # the peak starts again at the present size
            self._start = _status_bytes("VmRSS")
        except OSError:
            pass

    def bytes(self):
        """Bytes, or None."""
        return None if self._start is None else _status_bytes("VmHWM") - self._start


def provenance():
    """Machine and versions, as plain values."""
    versions = {"python": platform.python_version(), "pgbart": bart.__version__}
    for package in ("numpy", "scipy", "cython"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:       # Cython is not needed to run
            continue
    return {"cpu": cpu_name(), "n_cpus": os.cpu_count(), "load": list(os.getloadavg()), "system": platform.platform(),
            "row_loops": rowops.TARGET, "versions": versions,
            "date": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())}


def provenance_line(origin):
    versions = ", ".join(f"{name} {version}" for name, version in origin["versions"].items())
    return (f"{origin['cpu']}, {origin['n_cpus']} CPUs, load {origin['load'][0]:.1f} at the start; row loops "
            f"{origin['row_loops']}; {versions}; {origin['date']}.")


def finish(name, origin, records, folder):
    """Print the provenance under a benchmark's tables; write it and the records to folder/name.json, unless None."""
    print(textwrap.fill(provenance_line(origin), WIDTH, subsequent_indent="  "), end="\n\n", flush=True)
    if folder:
        os.makedirs(folder, exist_ok=True)
        write_json(os.path.join(folder, f"{name}.json"), {"provenance": origin, "records": records})
