"""What is known of the real data sets: files, shapes, where to get them, how they are split."""

from dataclasses import dataclass

__all__ = ["PAPER_SETS", "SOURCES", "STAND_INS", "Source"]

PAPER_SETS = ("CaliforniaHouses", "YearPredictionMSD", "CTslices")
STAND_INS = ("gas", "pol", "ct_slices_head")


@dataclass(frozen=True)
class Source:
    """What is known of a data set and of its original file.

    Attributes
    ----------
    name : str
    file : str
        Path under the folder that PGBART_DATA names; empty for data that come with a package.
    url : str
        Where to get it.
    shape : tuple of int
        Rows and columns of numbers of the file, without its header.
    n_train, n_test, n_dims : int
        Rows of each training set and of the test set, and features.
    features : str
        Which columns they are.
    target : str
    target_range : tuple of float
        The smallest and largest target that the file may have.
    licence : str
    note : str
        What a reader of results should know; part of `Problem.note`.
    x : tuple
        Bounds of the slice of the columns that are features.
    y : int
        Column of the target.
    header : tuple of str
        First and last name of the header line; empty without one.
    prefixes : tuple of str
        What the names of its members of ``exp-data.zip`` may start with, in any case.
    last_rows_test : bool
        The last `n_test` rows are the test set, rather than rows drawn.
    cut : bool
        The file is the beginning of a longer one: what follows the expected rows is not read.
    sha256 : str or None
        Of the file at `url`.
    member : str
        Of that file, where it is a tar archive.
    """

    name: str
    file: str
    url: str
    shape: tuple
    n_train: int
    n_test: int
    n_dims: int
    features: str
    target: str
    target_range: tuple
    licence: str
    note: str = ""
    x: tuple = (0, -1)
    y: int = -1
    header: tuple = ()
    prefixes: tuple = ()
    last_rows_test: bool = False
    cut: bool = False
    sha256: str | None = None
    member: str = ""

    @property
    def download(self):
        """Whether `load` can download it."""
        return self.name in PAPER_SETS


_UCI = "https://archive.ics.uci.edu/static/public"
_PACKED = "https://github.com/treforevans/uci_datasets"

SOURCES = {
    source.name: source
    for source in (
        Source(
            "CaliforniaHouses",
            "california_housing/cal_housing.data",
            "https://ndownloader.figshare.com/files/5976036",
            (20640, 9), 2000, 5000, 6,
            "columns 3 to 8: age, rooms, bedrooms, population, households, income",
            "median house value in dollars", (14999.0, 500001.0),
            "none stated",
            "StatLib houses (Pace & Barry 1997); the paper does not name its six features: all but longitude and "
            "latitude are the natural reading",
            x=(2, 8), prefixes=("houses",), member="CaliforniaHousing/cal_housing.data",
            sha256="aaa5c9a6afe2225cc2aed2723682ae403280c4a3695a2ddda4ffb5d8215ea681",
        ),
        Source(
            "YearPredictionMSD",
            "year_prediction_msd/YearPredictionMSD.txt",
            f"{_UCI}/203/yearpredictionmsd.zip",
            (515345, 91), 2000, 51630, 90,
            "columns 2 to 91: 12 averages and 78 covariances of timbre",
            "year of a song", (1922.0, 2011.0),
            "CC BY 4.0",
            "UCI 203, the official test set",
            x=(1, None), y=0, prefixes=("msd", "year"), last_rows_test=True,
        ),
        Source(
            "CTslices",
            "ct_slices/slice_localization_data.csv",
            f"{_UCI}/206/relative+location+of+ct+slices+on+axial+axis.zip",
            (53500, 386), 2000, 24564, 384,
            "value0 to value383, without patientId",
            "relative location of the slice", (0.0, 180.0),
            "CC BY 4.0",
            "UCI 206; rows are drawn whatever their patient, so that test and training rows share patients",
            x=(1, -1), header=("patientId", "reference"), prefixes=("ctslices", "ct", "slices", "slice"),
        ),
        Source(
            "gas", "gas/data.csv.gz", _PACKED, (2565, 129), 1500, 500, 128,
            "all columns but the last, centred by those who packed them", "last column", (-4.0, 3.0), "CC BY 4.0",
            "UCI gas sensor array drift as packed by uci_datasets, a wide stand-in, not of the paper",
        ),
        Source(
            "pol", "pol/data.csv.gz", _PACKED, (15000, 27), 2000, 5000, 26,
            "all columns but the last, centred by those who packed them", "last column, 11 values", (-29.0, 72.0),
            "none stated",
            "Torgo's pole telecommunications as packed by uci_datasets, a stand-in, not of the paper",
        ),
        Source(
            "ct_slices_head",
            "ct_slices_head/slice_localization_data.csv",
            f"{_UCI}/206/relative+location+of+ct+slices+on+axial+axis.zip",
            (682, 386), 400, 182, 384,
            "value0 to value383, without patientId; 22 of them are constant here",
            "relative location of the slice", (0.0, 180.0),
            "CC BY 4.0",
            "only the 682 complete rows (2 of 74 patients) at the beginning of CTslices, 22 constant columns kept: "
            "a stand-in for shape and speed at 384 features, not a benchmark of fit",
            x=(1, -1), header=("patientId", "reference"), cut=True,
        ),
        Source(
            "diabetes", "", "scikit-learn (load_diabetes)", (442, 11), 342, 100, 10,
            "all ten, not scaled", "disease progression", (25.0, 346.0), "of scikit-learn, BSD-3-Clause",
            "diabetes data of scikit-learn (Efron et al. 2004), a stand-in, not of the paper",
        ),
    )
}
