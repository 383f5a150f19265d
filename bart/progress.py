"""A progress bar by tqdm, or none."""

import sys

from .inputs import check_flag

__all__ = ["Bar"]


class Bar:
    """A tqdm bar, or an object that does nothing.

    Parameters
    ----------
    progress : bool or None
        None: a bar if tqdm is installed and stderr is a terminal.
    total : int
        Units of the whole work.
    unit, label : str
        Shown with the bar.
    done : int
        Units done before.

    Raises
    ------
    TypeError
        `progress` is something else.
    ImportError
        `progress` is True and tqdm is not installed.
    """

    def __init__(self, progress, total, unit, label, done=0):
        self._bar = None
        if progress is None:
            wanted = sys.stderr is not None and sys.stderr.isatty()
        else:
            wanted = check_flag(progress, "progress")
        if not wanted:
            return
        try:
            from tqdm.auto import tqdm
        except ImportError:
            if progress:
                message = "progress=True needs tqdm, which the extra 'progress' brings: pip install 'pgbart[progress]'"
                raise ImportError(message) from None
            return
        self._bar = tqdm(total=total, initial=min(done, total), unit=unit, desc=label, smoothing=0.1)

    @property
    def is_shown(self):
        """Whether there is a bar."""
        return self._bar is not None

    def update(self, n):
        """Count `n` more units."""
        if self._bar is not None:
            self._bar.update(n)

    def note(self, text):
        """Show a text behind the bar."""
        if self._bar is not None:
            self._bar.set_postfix_str(text)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self._bar is not None:
            self._bar.close()
