"""Find the graphs to run, in files, folders and patterns."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...base.errors import InvalidArgumentsError
from ...serialization.options import Rewriting, parse_rewritings


@dataclass(frozen=True)
class Case:
    """A graph to run.

    Parameters
    ----------
    path : str
        The graph's file.
    rewriting : Rewriting, optional
        Changes to make first; None runs the file unchanged.
    """

    path: str
    rewriting: Rewriting | None = None

    def __str__(self) -> str:
        words = str(self.rewriting) if self.rewriting is not None else ""
        return f"{words} {self.path}" if words else self.path


def _files(where: str) -> list[str]:
    if os.path.isdir(where):
        return sorted(str(p) for p in Path(where).rglob("*.json"))
    if not os.path.exists(where) and glob.has_magic(where):
        found = sorted(glob.glob(where, recursive=True))
        return [f for name in found for f in (_files(name) if os.path.isdir(name) else [name])]
    return [where]


def cases_of(places: Iterable[str], options: Sequence[str] | None = None) -> list[Case]:
    """Find all cases, in order.

    Parameters
    ----------
    places : iterable of str
        Files, folders (searched for ``*.json``, with all below) and patterns such as
        ``dumps/**/*.json``.
    options : sequence of str, optional
        Options for `parse_rewritings`; each file runs with each combination.

    Raises
    ------
    InvalidArgumentsError
        A folder or pattern has no file, or options are invalid.
    """
    rewritings: list[Rewriting] | list[None] = parse_rewritings(options) if options else [None]
    made = []
    for place in places:
        files = _files(place)
        if not files:
            raise InvalidArgumentsError(f"{place}: there is no JSON file")
        made += [Case(file, rewriting) for file in files for rewriting in rewritings]
    return made
