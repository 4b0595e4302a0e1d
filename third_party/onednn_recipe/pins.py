"""The pins of ``onednn.json``, typed."""

import json
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "onednn.json"


@dataclass(frozen=True)
class GitPin:
    """A release in upstream's git repository."""

    version: str
    url: str
    tag: str
    commit: str
    probe_seconds: float


@dataclass(frozen=True)
class DebianPin:
    """A Debian source package, of which only upstream's tarball is used."""

    version: str
    suite: str
    package: str
    package_version: str
    file: str
    sha256: str


@dataclass(frozen=True)
class Pins:
    """Everything that decides which oneDNN is built and how."""

    minimum_version: str
    git: GitPin
    debian: DebianPin
    pypi: dict[str, str]
    tools: dict[str, str]
    cmake_options: dict[str, str]


def load(path: Path = DATA) -> Pins:
    """Read the data file."""
    data = json.loads(path.read_text())
    return Pins(
        minimum_version=data["minimum_version"],
        git=GitPin(**data["git"]),
        debian=DebianPin(**data["debian"]),
        pypi=data["pypi"],
        tools=data["tools"],
        cmake_options=data["cmake_options"],
    )
