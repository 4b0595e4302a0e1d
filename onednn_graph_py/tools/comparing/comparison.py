"""The results of running one graph under several settings, for people to read."""

from __future__ import annotations

from .run import Runs
from .table import as_html, as_markdown, as_text

__all__ = ["Comparison"]


class Comparison(Runs):
    """One graph under several settings; it prints as a table with a column for each.

    Parameters
    ----------
    graph : str
        The file's name, and the options that rewrote it.
    runs : tuple of Run
        In the order of the settings.
    processor : str
        The CPU.
    seconds : float
        The time for which each run was timed, in seconds.
    rounds : int
        Number of rounds in which the runs took turns.
    load : float
        The machine's load average in the minute before, divided by the number of CPUs: 1 if other
        programs kept all CPUs busy.
    """

    def to_markdown(self) -> str:
        """Return the table as Markdown."""
        return as_markdown(self)

    __str__ = as_text
    _repr_html_ = as_html
