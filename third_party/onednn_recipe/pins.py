"""The pins of ``onednn.json``, typed."""

import json
from dataclasses import dataclass
from pathlib import Path

from .fetching import DebianSource, GitSource

DATA = Path(__file__).resolve().parent.parent / "onednn.json"


@dataclass(frozen=True)
class Pins:
    """Everything that decides which oneDNN is built and how."""

    minimum_version: str
    git: GitSource
    # Newest first: one that can't be had is followed by the next.
    debian: tuple[DebianSource, ...]
    pypi: dict[str, str]
    tools: dict[str, str]
    cmake_options: dict[str, str]


def load(path: Path = DATA) -> Pins:
    """Read the data file."""
    data = json.loads(path.read_text())
    data["git"] = GitSource(**data["git"])
    data["debian"] = tuple(DebianSource(**pin) for pin in data["debian"])
    return Pins(**data)
