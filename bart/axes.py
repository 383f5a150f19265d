"""Axes for a picture, on a figure that pyplot knows nothing of."""

__all__ = ["COLOURS", "new_axes", "one_axes", "tidy"]

# Okabe and Ito's palette, safe for the colour-blind.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")


def new_axes(n_rows=1, n_columns=1, size=(6.4, 3.6), **options):
    """Axes on a figure that pyplot knows nothing of.

    Parameters
    ----------
    n_rows, n_columns : int
    size : pair of float
        Inches.
    **options
        Of ``Figure.subplots``.

    Returns
    -------
    ndarray of matplotlib.axes.Axes, shape (n_rows, n_columns)

    Raises
    ------
    ImportError
        Without matplotlib, naming the extra to install.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        message = "this needs matplotlib, which the extra 'plots' brings: pip install 'pgbart[plots]'"
        raise ImportError(message) from error
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure.subplots(n_rows, n_columns, squeeze=False, **options)


def one_axes(ax, size=(6.4, 3.6)):
    """The given axes, else new ones."""
    return new_axes(size=size)[0, 0] if ax is None else ax


def tidy(ax):
    """Take away the frame's upper and right side."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
