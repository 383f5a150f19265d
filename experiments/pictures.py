"""What the figures share: sizes, fonts, colours, and the files of a figure."""

import os
import textwrap

from bart.storage import atomic_file

from .report import write_json

__all__ = [
    "COLUMN_WIDTH",
    "DPI",
    "SAMPLER_COLOURS",
    "START_COLOURS",
    "START_LABELS",
    "TEXT_WIDTH",
    "new_figure",
    "save",
    "start_colour",
    "start_label",
    "style",
]

# Inches: one column and the full text of the paper.
COLUMN_WIDTH = 3.35
TEXT_WIDTH = 6.75
DPI = 400
CAPTION_WIDTH = 118

# Okabe & Ito's palette, safe for the colour-blind; no colour stands both for a start and for a sampler.
START_COLOURS = {"empty": "#0072B2", "prior": "#E69F00", "overgrown": "#009E73", "smc": "#CC79A7"}
START_LABELS = {
    "empty": "empty tree",
    "prior": "prior draw",
    "overgrown": "over-grown tree",
    "smc": "particle filter",
}
SAMPLER_COLOURS = {"cgm": "#D55E00", "growprune": "#56B4E9", "pg": "#000000"}
_OTHER_START = "0.45"

_STYLE = {
    # STIX comes with matplotlib, so that a figure looks the same everywhere; it is narrow enough for a column.
    "font.family": "STIXGeneral",
    "mathtext.fontset": "stix",
    "axes.unicode_minus": True,
    "font.size": 8.0,
    "axes.titlesize": 8.0,
    "axes.labelsize": 8.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "axes.linewidth": 0.6,
    "lines.linewidth": 0.6,
    "grid.linewidth": 0.4,
    "grid.color": "0.88",
    "axes.axisbelow": True,
    "xtick.direction": "in",
    "ytick.direction": "in",
    "xtick.top": True,
    "ytick.right": True,
    "xtick.major.width": 0.5,
    "ytick.major.width": 0.5,
    "xtick.minor.width": 0.35,
    "ytick.minor.width": 0.35,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.minor.size": 1.4,
    "ytick.minor.size": 1.4,
    "xtick.major.pad": 2.5,
    "ytick.major.pad": 2.0,
    "axes.labelpad": 2.0,
    "axes.titlepad": 3.0,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "savefig.bbox": None,
}


def style():
    """Context of the figures' fonts, lines and ticks; build and save figures inside.

    Returns
    -------
    context manager
    """
    import matplotlib

    return matplotlib.rc_context(_STYLE)


def new_figure(width=COLUMN_WIDTH, height=2.8):
    """An empty figure that no pyplot state knows of.

    Parameters
    ----------
    width, height : float
        Inches.

    Returns
    -------
    matplotlib.figure.Figure
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DPI)
    FigureCanvasAgg(figure)
    return figure


def save(figure, folder, stem, caption, record):
    """Write ``stem.png``, its caption as ``stem.txt`` and its data as ``stem.json``, each atomically.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    folder : str
        Made if missing.
    stem : str
    caption : str or list of str
        Paragraphs, wrapped here.
    record : dict
        Plain values, ready for JSON.

    Returns
    -------
    str
        The caption as it stands in the text file.
    """
    os.makedirs(folder, exist_ok=True)
    with style(), atomic_file(os.path.join(folder, stem + ".png")) as file:
        # Without the name of the program the same figure is the same file.
        figure.savefig(file, format="png", dpi=DPI, metadata={"Software": None})
    paragraphs = [caption] if isinstance(caption, str) else caption
    text = "\n".join(line for part in paragraphs for line in textwrap.wrap(part, CAPTION_WIDTH)) + "\n"
    with atomic_file(os.path.join(folder, stem + ".txt"), "w") as file:
        file.write(text)
    write_json(os.path.join(folder, stem + ".json"), record)
    return text


def start_colour(kind):
    """Colour of a kind of start; grey for one without a colour of its own, such as a given tree."""
    return START_COLOURS.get(kind, _OTHER_START)


def start_label(kind):
    """Name of a kind of start in a legend."""
    return START_LABELS.get(kind, kind)
