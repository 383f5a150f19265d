"""Two-class problems: log loss and calibration of BARTClassifier beside scikit-learn's forests.

    python -m experiments.classifiers           # three splits of each problem: six CPU minutes
    python -m experiments.classifiers --quick   # one: two
"""

import argparse
import os
import textwrap
import time
import warnings
from dataclasses import dataclass

import numpy as np

from bart.storage import atomic_file

from . import pictures, real_data
from .chains import provenance
from .command import check_surroundings, one_line_errors, say
from .report import WIDTH, Table, rows_with_rules, write_json

__all__ = ["NAME", "SYSTEMS", "calibration_error", "load", "main", "measure"]

NAME = "classifiers"
SPLITS = (1, 2, 3)
N_BINS = 10
N_SIMULATED = 200
N_FOLDS = 3
# Probabilities of 0 and 1 that turn out wrong count as this one does.
LEAST = 1e-15
BART, TUNED = "BART", "BART, k tuned"
K_TRIED = (0.5, 1.0, 2.0, 3.0)
SYSTEMS = (BART, TUNED, "forest", "forest, leaves of 5", "extra trees, leaves of 5", "boosting",
           "logistic regression")  # fmt: skip
COLOURS = ("#000000", "#CC79A7", "#E69F00", "#0072B2", "#56B4E9", "#D55E00", "#009E73")
_TINY_ROWS = 60
_TAG = 11         # the first number of the stream that splits breast_cancer, as `problems` has one for each set


@dataclass(frozen=True)
class TwoClasses:
    """A training and a test set of two classes.

    Attributes
    ----------
    X_train, X_test : ndarray of float64, shape (n, n_dims)
    y_train, y_test : ndarray of bool, shape (n,)
    """

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def _breast_cancer(split):
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng([_TAG, split]).permutation(len(y))
    test, train = order[:190], order[190:]
    return TwoClasses(X[train], y[train] == 0, X[test], y[test] == 0)


def _above(name, limit):
    """A regression problem cut into two classes, at a number or a function of the training targets."""

    def load(split):
        problem = real_data.load(name, split)
        at = limit(problem.y_train)
        return TwoClasses(problem.X_train, problem.y_train > at, problem.X_test, problem.y_test > at)

    return load


# Name: how to load a split, and what the classes are.
PROBLEMS = {
    "breast_cancer": (
        _breast_cancer,
        "breast_cancer: malignant or benign, scikit-learn's own; 190 of 569 rows test.",
    ),
    "pol": (
        _above("pol", np.min),
        "pol: whether the target is above its least value, the natural cut of a target with eleven values of which the"
        " least has more than half of the rows.",
    ),
    "CaliforniaHouses": (
        _above("CaliforniaHouses", np.median),
        "CaliforniaHouses: whether the value is above the median of the training rows: classes of equal size.",
    ),
    "diabetes": (
        _above("diabetes", np.median),
        "diabetes: whether the progression is above the median of the training rows; 100 test rows.",
    ),
}


def available():
    """Names of the problems that are at hand."""
    return [name for name in PROBLEMS if name == "breast_cancer" or real_data.available(name)]


def load(name, split):
    """A problem's training and test rows.

    Parameters
    ----------
    name : str
        Of `PROBLEMS`.
    split : int
        1, 2 or 3.

    Returns
    -------
    TwoClasses
    """
    return PROBLEMS[name][0](split)


def make(system, seed, tiny=False):
    """A classifier of scikit-learn's interface; all defaults but what the name says."""
    from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from bart.estimators import BARTClassifier

    forest = {"n_estimators": 20 if tiny else 500, "random_state": seed}
    small = {"n_trees": 10, "n_burn": 20, "n_draws": 20} if tiny else {}
    return {
        BART: lambda: BARTClassifier(random_state=seed, **small),
        TUNED: lambda: GridSearchCV(BARTClassifier(random_state=seed, **small), {"k": K_TRIED},
                                    scoring="neg_log_loss", cv=N_FOLDS),
        "forest": lambda: RandomForestClassifier(**forest),
        "forest, leaves of 5": lambda: RandomForestClassifier(min_samples_leaf=5, **forest),
        "extra trees, leaves of 5": lambda: ExtraTreesClassifier(min_samples_leaf=5, **forest),
        "boosting": lambda: HistGradientBoostingClassifier(random_state=seed),
        "logistic regression": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    }[system]()  # fmt: skip


def row_losses(p, y):
    """(n,) -log of the probability that was given to what happened."""
    return -np.log(np.clip(np.where(y, p, 1.0 - p), LEAST, 1.0))


def bins(p, y):
    """Mean probability and share of ones in ten bins of equally many rows, in the order of p: two arrays (10,)."""
    parts = np.array_split(np.argsort(p, kind="stable"), min(N_BINS, len(p)))
    return np.array([p[part].mean() for part in parts]), np.array([np.mean(y[part]) for part in parts])


def calibration_error(p, y):
    """Mean distance of the share of ones from the mean probability over the `bins`."""
    given, seen = bins(p, y)
    return float(np.mean(np.abs(given - seen)))


def chance_error(p, rng):
    """The mean calibration error of these probabilities were they right: of labels drawn from them."""
    return float(np.mean([calibration_error(p, rng.random(len(p)) < p) for _ in range(N_SIMULATED)]))


def measure(system, data, seed, tiny=False):
    """Fit and predict once.

    Returns
    -------
    dict
        Numbers of one split, with "p" (n_test,) and "losses" (n_test,) beside them.
    """
    classifier = make(system, seed, tiny)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")         # R-hat is in the table
        classifier.fit(data.X_train, data.y_train)
    p = classifier.predict_proba(data.X_test)[:, 1]
    seconds, y = time.process_time() - began, data.y_test
    losses = row_losses(p, y)
    r_hat = getattr(getattr(classifier, "best_estimator_", classifier), "r_hat_", None)
    return {
        "log_loss": float(losses.mean()),
        "brier": float(np.mean((p - y) ** 2)),
        "errors": float(np.mean((p > 0.5) != y)),
        "calibration": calibration_error(p, y),
        "chance": chance_error(p, np.random.default_rng(seed)),
        "r_hat": None if r_hat is None else float(r_hat["log_likelihood"]),
        "seconds": seconds,
        "losses": losses,
        "p": p,
    }


def _of_problem(name, splits, tiny):
    """Records of all systems on one problem, and the data of its first split's reliability curves."""
    found, labels = {system: [] for system in SYSTEMS}, load(name, splits[0]).y_test
    for split in splits:
        data = load(name, split)
        if tiny:
            data = TwoClasses(data.X_train[:_TINY_ROWS], data.y_train[:_TINY_ROWS], data.X_test, data.y_test)
        for system in SYSTEMS:
            found[system].append(measure(system, data, split, tiny))
    records, curves = [], {}
    for system, runs in found.items():
        extra = [run["losses"] - own["losses"] for run, own in zip(runs, found[BART], strict=True)]
        records.append({
            "problem": name,
            "system": system,
            **{key: float(np.mean([run[key] for run in runs]))
               for key in ("log_loss", "brier", "errors", "calibration", "chance", "seconds")},
            "r_hat": max((run["r_hat"] for run in runs if run["r_hat"] is not None), default=None),
            "extra": float(np.mean([row.mean() for row in extra])),
            # The splits share test rows, so that their errors are not independent: no division by their number.
            "extra_se": float(np.mean([row.std(ddof=1) / np.sqrt(len(row)) for row in extra])),
        })  # fmt: skip
        given, seen = bins(runs[0]["p"], labels)
        curves[system] = {"given": given.tolist(), "seen": seen.tolist()}
    return records, curves


_COLUMNS = [
    ("", "problem"), ("", "system"), ("log", "loss"), ("more than BART", "(standard error)"), ("Brier", "score"),
    ("errors,", "%"), ("calibration", "error, %"), ("by chance", "alone, %"), ("R-hat,", "worst"), ("CPU", "seconds"),
]  # fmt: skip


def _cells(record):
    own = record["system"] == BART
    return [
        record["problem"],
        record["system"],
        f"{record['log_loss']:.4f}",
        "" if own else f"{record['extra']:+.4f} ({record['extra_se']:.4f})",
        f"{record['brier']:.4f}",
        f"{100 * record['errors']:.1f}",
        f"{100 * record['calibration']:.2f}",
        f"{100 * record['chance']:.2f}",
        "" if record["r_hat"] is None else f"{record['r_hat']:.2f}",
        f"{record['seconds']:.1f}",
    ]


def _notes(names, splits):
    return [
        f"Test rows of {len(splits)} split(s), means. {' '.join(PROBLEMS[name][1] for name in names)}",
        "Log loss: mean -log of the probability given to the class that was seen, nats; a probability below 1e-15"
        " counts as that. More than BART: the mean difference row by row, with its standard error over the test rows of"
        " a split.",
        f"Calibration error: mean distance of the share of the class from the mean probability over {N_BINS} bins of"
        " equally many test rows. By chance alone: what it would be if every probability were right.",
        "BART: BARTClassifier's defaults (200 trees, 4 chains, 250 + 250 sweeps), R-hat that of the log-likelihood, the"
        f" worst of the splits. K tuned: of {', '.join(f'{k:g}' for k in K_TRIED)} (2 is the default) by {N_FOLDS}-fold"
        " cross-validation of the log loss on the training rows. Forest: 500 trees. Boosting:"
        " HistGradientBoostingClassifier. All else at scikit-learn's defaults.",
    ]


def _draw(curves, folder, origin):
    """Reliability curves of the first split, a panel a problem."""
    figure_height, columns = 1.75, 2
    rows = -(-len(curves) // columns)
    with pictures.style():
        figure = pictures.new_figure(pictures.TEXT_WIDTH, 0.45 + figure_height * rows * 1.5)
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for ax in axes[len(curves):]:
            ax.set_axis_off()
        for ax, (name, of_systems) in zip(axes, curves.items(), strict=False):
            ax.plot([0, 1], [0, 1], color="0.6", dashes=(3, 2))
            for (system, curve), colour in zip(of_systems.items(), COLOURS, strict=True):
                own = system == BART
                ax.plot(curve["given"], curve["seen"], color=colour, label=system, marker="o" if own else ".",
                        markersize=4 if own else 3, linewidth=1.4 if own else 0.8, zorder=3 if own else 2)
            ax.set(title=name, xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel="mean probability", ylabel="share seen")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="upper center", ncols=4)
        figure.subplots_adjust(left=0.08, right=0.985, bottom=0.4 / figure.get_figheight(),
                               top=1 - 0.62 / figure.get_figheight(), wspace=0.25, hspace=0.33)
    caption = ("Share of the class that was seen against the mean probability given to it, in ten bins of equally many"
               " test rows of the first split; the closer to the diagonal, the better calibrated.")
    pictures.save(figure, folder, f"figure_{NAME}", caption, {"provenance": origin, "curves": curves})


def main(arguments=None):
    """Measure, write ``classifiers.txt``, ``.json`` and ``figure_classifiers.png``, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--quick", action="store_true", help="one split of each problem instead of three")
    add("--tiny", action="store_true", help="seconds, for tests: figures without meaning")
    add("--only", nargs="+", metavar="PROBLEM", choices=list(PROBLEMS), help="some of the problems")
    add("--out", default="figures", help="folder of the table and the picture (default: figures)")
    options = parser.parse_args(arguments)
    with one_line_errors():
        check_surroundings(options)
        names = [name for name in available() if options.only is None or name in options.only]
        if not names:
            raise ValueError(f"no problem at hand: PGBART_DATA has none of {', '.join(options.only or PROBLEMS)}")
        splits = SPLITS[:1] if options.quick or options.tiny else SPLITS
        origin = provenance()
        measured = {name: _of_problem(name, splits, options.tiny) for name in names}
        groups = [records for records, _ in measured.values()]
        table = Table("Two classes: log loss and calibration on held-out rows.", _COLUMNS,
                      rows_with_rules(groups, _cells), _notes(names, splits))
        machine = textwrap.wrap(f"{origin['cpu']}; commit {origin['commit']}.", WIDTH)
        text = table.text() + "\n" + "\n".join(machine) + "\n"
        with atomic_file(os.path.join(options.out, f"{NAME}.txt"), "w") as file:
            file.write(text)
        write_json(os.path.join(options.out, f"{NAME}.json"),
                   {"provenance": origin, "table": [record for group in groups for record in group]})
        _draw({name: curves for name, (_, curves) in measured.items()}, options.out, origin)
        say(text.rstrip("\n"))


if __name__ == "__main__":
    main()
