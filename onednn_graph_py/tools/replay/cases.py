"""Find the graphs to run, in files, folders and patterns."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ...base.errors import InvalidArgumentsError
from ...serialization import GraphDocument


@dataclass(frozen=True)
class Case:
    """A graph to run: that of a file, or a document instead."""

    path: str
    document: GraphDocument | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return self.path


def _files(where: str) -> list[str]:
    if os.path.isdir(where):
        return sorted(str(p) for p in Path(where).rglob("*.json"))
    if not os.path.exists(where) and glob.has_magic(where):
        found = sorted(glob.glob(where, recursive=True))
        return [f for name in found for f in (_files(name) if os.path.isdir(name) else [name])]
    return [where]


def cases_of(places: Iterable[str]) -> list[Case]:
    """Find the cases of files, folders with all below, and patterns such as ``dumps/**/*.json``.

    - raises `InvalidArgumentsError`: a folder or pattern has no JSON file
    """
    made = []
    for place in places:
        files = _files(place)
        if not files:
            raise InvalidArgumentsError(f"{place}: there is no JSON file")
        made += [Case(file) for file in files]
    return made
