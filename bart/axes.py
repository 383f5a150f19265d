"""Axes for a picture, on a figure that pyplot knows nothing of."""

__all__ = ["new_axes"]


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
