"""Search for the loaded libraries that contain a oneDNN, and for those that can write graphs."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# A text that every oneDNN contains (for ONEDNN_VERBOSE), and a file name that only those contain
# that can write graphs.
_ONEDNN = b"oneDNN v%d.%d.%d"
_DUMPS = b"-partitioning.json"

# oneDNN is never this small.
_SMALLEST = 4 << 20

_INITIALIZED = re.compile(r"^\s*\d+:\s*calling init: (/.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Library:
    """A library that contains a oneDNN."""

    path: str
    dumps: bool  # whether it was built with `ONEDNN_ENABLE_GRAPH_DUMP`


@cache
def _read(path: str) -> Library | None:
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size < _SMALLEST:
                return None
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as contents:
                if contents.find(_ONEDNN) < 0:
                    return None
                return Library(path, contents.find(_DUMPS) >= 0)
    except (OSError, ValueError):  # the file is gone or empty
        return None


def libraries_of(paths: Iterable[str]) -> list[Library]:
    """Return the libraries among some files that contain a oneDNN, in order."""
    found = (_read(path) for path in dict.fromkeys(paths))
    return [library for library in found if library is not None]


def loaded_in(folder: Path) -> list[str]:
    """Return the files of all libraries that a program loaded, from the dynamic linker's logs.

    ``LD_DEBUG=files`` wrote them into this folder, one for each process.
    """
    found: list[str] = []
    for log in sorted(folder.iterdir()):
        found += _INITIALIZED.findall(log.read_text(encoding="utf-8", errors="surrogateescape"))
    return list(dict.fromkeys(found))
