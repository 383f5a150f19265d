"""Table 3 of the paper: characteristics of the real data, and which of them are at hand."""

from . import paper, real, real_data
from .command import run_script
from .report import Table, rows_with_rules, write_report

__all__ = ["NAME", "make", "specs"]

NAME = "table_3"

_COLUMNS = [
    ("", "data"), ("", "source"), ("N train", "paper"), ("", "here"), ("N test", "paper"), ("", "here"),
    ("D", "paper"), ("", "here"), ("training", "sets"),
]  # fmt: skip


def specs(settings, profile):
    """No chains."""
    return []


def make(store, settings, profile, folder="figures"):
    """Write the table and return its text."""
    names = [*real_data.PAPER_SETS, *real_data.STAND_INS, real.EMBEDDED]
    split = [[_record(name) for name in names if (name in paper.REAL_SHAPES) is mine] for mine in (True, False)]
    groups = [group for group in split if group]
    notes = [
        "The paper's three sets first; below them stand-ins of our own, which are rows of their own in tables 4 and 5"
        " and for which the paper has no numbers. The test set is shared by the training sets, but for diabetes.",
        *(record["note"] for group in groups for record in group),
    ]
    table = Table("Table 3. Characteristics of the real data.", _COLUMNS, rows_with_rules(groups, _cells), notes)
    return write_report(
        folder, NAME, [table], [record for group in groups for record in group], store, settings, profile
    )


def _record(name):
    n_train, n_test, n_dims = paper.REAL_SHAPES.get(name, (None, None, None))
    record = {"problem": name, "paper_train": n_train, "paper_test": n_test, "paper_dims": n_dims}
    try:
        problems = [real_data.load(name, split) for split in (1, 2, 3)]
    except real_data.DataNotAvailable as error:
        return {**record, "source": "data not available", "note": f"{error}."}
    first = problems[0]
    return {
        **record,
        "source": "original" if name in paper.REAL_SHAPES else "stand-in",
        "train": len(first.y_train),
        "test": len(first.y_test),
        "dims": first.n_dims,
        "splits": len(problems),
        "note": f"{name}: {first.note}.",
    }


def _cells(record):
    names = ("paper_train", "train", "paper_test", "test", "paper_dims", "dims", "splits")
    return [record["problem"], record["source"], *(str(record.get(name) or "-") for name in names)]


if __name__ == "__main__":
    run_script(NAME, specs, make, __doc__)
