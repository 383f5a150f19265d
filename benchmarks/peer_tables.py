"""The other packages: what to install, what of the prior they cannot match, stored figures; and the tables."""

from dataclasses import dataclass

from experiments.report import Table

CONVERGED = 1.05


@dataclass(frozen=True)
class Peer:
    """Another package, or another sampler of one.

    Attributes
    ----------
    environment : str
        Folder of its virtual environment, and the peer that `--install` makes it for.
    requirements : tuple of str
        For pip, pinned.
    differs : str
        What it does not share with the others.
    newer_python : bool
        Whether it needs Python 3.12.
    samples : bool
        Whether it leaves the posterior invariant, so that an ESS means something.
    least_sweeps : int
        Sweeps of a block at least, where a call costs much beside a sweep and a user's run is one call.
    """

    environment: str
    requirements: tuple = ()
    differs: str = ""
    newer_python: bool = False
    samples: bool = True
    least_sweeps: int = 1


PEERS = {
    "bartz": Peer(
        "bartz", ("bartz==0.13.0", "jax==0.10.2", "jaxlib==0.10.2"),
        "float32; at most 255 cut points a feature, at quantiles, each as likely; trees of depth 5 at most; the moves "
        "of all trees are proposed before any is decided. The same leaf and noise priors, no least number of rows in a "
        "node. A call from Python costs about as much as a sweep: its blocks are 20 sweeps or more in one call, and "
        "records are made inside the compiled loop and counted, some 1 %", least_sweeps=20),
    "stochtree": Peer(
        "stochtree", ("stochtree==0.4.5",),
        "grow/prune (num_gfr=0) by its low-level interface, the loop that its BARTModel runs; cut points uniform over "
        "the node's range. The same leaf and noise priors, no limit on depth or rows of a leaf"),
    "stochtree GFR": Peer(
        "stochtree", (),
        "grow-from-root over 100 cut points: a heuristic that does not sample the posterior, so no ESS", samples=False),
    "pymc-bart": Peer(
        "pymc-bart", ("pymc-bart==0.13.1", "bartrs==0.4.0", "pymc==6.4.0"),
        "10 particles, its default batches of a tenth of the trees; k has no counterpart: leaf values are its own rule "
        "(mean of the fit / m plus noise of scale sd(y) / sqrt(m), adapted during the burn-in); cut points at data "
        "values; trees of depth 8 at most; sigma2 has the same prior and is drawn from its conditional law after each "
        "batch; its own generator cannot be seeded", newer_python=True),
}

# Microseconds an update at N = 2000, 10 000 and 100 000, least and most of several runs; whole-process CPU time,
# measured earlier on a machine whose pass, with the row loops of that day, took so many ns a row.
STORED_PASS = (0.33, 0.5)
STORED = {
    "dbarts 0.9-34": {2000: (14.9, 14.9), 10_000: (63.0, 63.0), 100_000: (815.0, 815.0)},
    "BART 2.9.9": {2000: (91.0, 91.0), 10_000: (428.0, 428.0), 100_000: (3297.0, 3297.0)},
    "bartz": {2000: (10.7, 14.0), 10_000: (59.0, 59.0), 100_000: (450.0, 510.0)},
    "stochtree": {2000: (70.0, 70.0), 10_000: (312.0, 312.0), 100_000: (4517.0, 4517.0)},
    "pymc-bart": {2000: (947.0, 947.0), 10_000: (3915.0, 3915.0), 100_000: (38_660.0, 38_660.0)},
}


def missing_notes(missing):
    """The line that installs each package that is not there."""
    return [f"{name} is missing: python -m benchmarks.peers --install --peers {PEERS[name].environment}"
            for name in missing]


# ---------------------------------------------------------------------------------------------- time of an update
def update_table(records, missing):
    columns = [("rows", ""), ("system", ""), ("", ""), ("us", "median"), ("us", "least"), ("passes", "median"),
               ("passes", "least"), ("ratio", "median"), ("ratio", "least"), ("ns a row", "of a pass"),
               ("CPU by", "wall"), ("leaves", "a tree"), ("n", "")]
    rows = []
    for n_rows in dict.fromkeys(r["n_rows"] for r in records):
        here = [r for r in records if r["n_rows"] == n_rows]
        rows += [None] if rows else []
        rows += [measured_row(r) for r in here]
        rows += [[f"{n_rows}", name, "missing"] + ["-"] * (len(columns) - 3) for name in missing]
    r = records[0]
    return Table(
        f"Friedman, {r['n_dims']} features, {r['n_trees']} trees: CPU time of one tree's update, one thread", columns,
        rows, [*missing_notes(missing), *update_notes(records)], n_left=3)


def measured_row(r):
    update, passes, ratio = r["us_per_update"], r["passes"], r["ratio"]
    return [f"{r['n_rows']}", r["system"], "", number(update["median"]), number(update["min"]),
            number(passes["median"]), number(passes["min"]), number(ratio["median"]), number(ratio["min"]),
            f"{1e3 * r['us_per_pass']['median'] / r['n_rows']:.3f}", f"{r['cpu_by_wall']:.2f}",
            f"{r['mean_leaves']:.2f}", f"{update['repeats']}"]


def stored_table(records):
    """What was measured earlier, beside GrowPrune and, where it was measured too, the same package here."""
    columns = [("rows", ""), ("system", ""), ("stored", "us"), ("stored", "passes"), ("/ GrowPrune", "of passes"),
               ("/ GrowPrune", "of times"), ("here", "us"), ("here /", "stored")]
    here = {(r["system"], r["n_rows"]): r for r in records}
    rows = []
    for (system, n_rows), ours in here.items():
        if system == "GrowPrune" and any(n_rows in stored for stored in STORED.values()):
            rows += [None] if rows else []
            rows += [stored_row(name, n_rows, ours, here.get((name, n_rows))) for name in STORED]
    notes = [
        "us and passes an update, whole-process CPU time, measured earlier on another machine of this kind; nothing of "
        f"it in this run. A pass took {STORED_PASS[0]} to {STORED_PASS[1]} ns a row there, with the row loops of that "
        "day: passes are the time by the slower and the faster of these. / GrowPrune: by the medians of this run, of "
        "passes (one unit on both machines only where ns a row above is of that size too) and of times (as if the "
        "machines were equally fast: here / stored, of a package that was measured twice, says how far they are).",
        "dbarts: birth/death, change, swap; BART: birth/death; both R packages, in C++."]
    return Table("STORED, not measured here: one tree's update, same data and number of trees", columns, rows, notes)


def stored_row(name, n_rows, ours, again):
    low, high = STORED[name][n_rows]
    passes = [1e3 * us / (n_rows * ns) for us, ns in zip((low, high), reversed(STORED_PASS), strict=True)]
    update, unit = ours["us_per_update"]["median"], ours["passes"]["median"]
    found = again["us_per_update"]["median"] if again else None
    return [f"{n_rows}", name, span(low, high), span(*passes), span(passes[0] / unit, passes[1] / unit),
            span(low / update, high / update), number(found) if again else "-",
            span(found / high, found / low) if again else "-"]


def span(low, high):
    return number(low) if low == high else f"{number(low)}-{number(high)}"


def number(value):
    """Three digits, without an exponent."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def update_notes(records):
    sizes = "; ".join(
        f"{r['n_rows']} rows: {r['n_processes']} x {r['n_rounds']}" for r in records if r["system"] == "GrowPrune")
    notes = [
        "Unmarked rows: process CPU time, all threads, of whole sweeps by the trees updated (structure, leaf values, "
        "residual, and their share of sigma): us an update, n blocks of at least a sweep. Each system is a process of "
        "its own, all on one core; it is set up and warmed up first (imports, compilation, and up to 50 sweeps from "
        f"stumps or {number(records[0]['warm_up'])} s of CPU), then its state is continued in blocks of "
        f"{records[0]['block']:g} s, in turn: GrowPrune, system, pass. Passes, and the ratio to GrowPrune, are ratios "
        f"within a turn. Processes x turns: {sizes}. CPU by wall: near 1 where nothing else ran on the core."]
    return notes + differences(r["system"] for r in records)


def differences(systems):
    return [f"{name}: {PEERS[name].differs}." for name in dict.fromkeys(systems) if name in PEERS]


# ------------------------------------------------------------------------------------------------ effective draws
def ess_table(records, missing):
    columns = [("system", ""), ("sweeps", "a chain"), ("records", "a chain"), ("sigma", "ESS/s"), ("sigma", "R-hat"),
               ("log-lik", "ESS/s"), ("log-lik", "R-hat"), ("f, median", "ESS/s"), ("f, 5 %", "ESS/s"), ("f", "R-hat"),
               ("sigma", "mean"), ("f", "sd"), ("CPU", "by wall")]
    rows = [ess_row(r) for r in records]
    rows += [[name, "missing"] + ["-"] * (len(columns) - 2) for name in missing if PEERS[name].samples]
    r = records[0]
    return Table(
        f"Friedman, {r['n_rows']} rows, {r['n_dims']} features, {r['n_trees']} trees: effective draws a CPU second",
        columns, rows, [*missing_notes(missing), *ess_notes(r), *differences(r["system"] for r in records)], n_left=1)


def ess_row(r):
    rate, r_hat, chains = r["ess_per_second"], r["r_hat"], r["chains"]

    def cell(name, of):
        """In brackets where the chains disagree."""
        text = number(rate[name])
        return text if r_hat[of] <= CONVERGED else f"({text})"

    busy = sum(about["cpu"] for about in chains) / sum(about["wall"] for about in chains)
    return [r["system"], f"{sum(about['n_sweeps'] for about in chains) // len(chains)}", f"{r['records_a_chain']}",
            cell("sigma", "sigma"), f"{r_hat['sigma']:.2f}", cell("log_likelihood", "log_likelihood"),
            f"{r_hat['log_likelihood']:.2f}", cell("f_median", "f"), cell("f_low", "f"), f"{r_hat['f']:.2f}",
            f"{r['mean_sigma']:.3f}", f"{r['mean_f_sd']:.3f}", f"{busy:.2f}"]


def ess_notes(r):
    return [
        f"{r['n_chains']} chains a system from stumps, each {r['burn']:g} s of CPU of burn-in and {r['kept']:g} s of "
        "kept sweeps, compilation not counted; a process each, in turn, on one core. Records of sigma, of the "
        "log-likelihood and of f at 50 held-out points are equally spaced in sweeps, at most some "
        f"{r['n_records']} a chain; making them is not counted. ESS: rank-normalised bulk ESS of all chains together "
        "(ArviZ), by the CPU seconds of the kept sweeps; f: median and 5 % quantile over the points, R-hat of the "
        f"worst point. In brackets: R-hat (rank-normalised, split) above {CONVERGED}, where an ESS means nothing. "
        "Sigma and the posterior sd of f (mean over the points) in units of y, to compare levels; the true sigma is 1."]
