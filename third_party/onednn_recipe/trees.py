"""Sources of oneDNN, and source trees on disk."""

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from .report import RecipeError


class Source:
    """A place that offers one version of oneDNN."""

    name: ClassVar[str]
    version: str

    @property
    def identity(self) -> str:
        """What it is whatever it is called; part of the cache key."""
        raise NotImplementedError

    def content(self) -> str:
        """What decides whether a finished build is still that of this source."""
        return self.identity

    def fetch(self, into: Path) -> None:
        """Fill an empty directory; raise UnavailableError if it can't be had."""
        raise NotImplementedError


@dataclass(frozen=True)
class LocalTree(Source):
    """The user's own source tree, built where it stands."""

    path: Path
    version: str

    name = "ONEDNN_SOURCE_DIR"

    @property
    def identity(self) -> str:
        """Its place: a tree that is being edited keeps its build directory and its objects."""
        return f"tree:{self.path}"

    def content(self) -> str:
        """Digest names, sizes and times of all files that the library is built from.

        A tree that somebody works on has to be rebuilt after an edit; reading 80 MB on every call
        to notice one would be slow, so this trusts modification times as make and ninja do.
        """
        digest = hashlib.sha256()
        parts = ("CMakeLists.txt", "cmake", "include", "src", "third_party")
        pending = [self.path / name for name in parts]
        while pending:
            path = pending.pop()
            if path.is_dir():
                pending += sorted(Path(entry.path) for entry in os.scandir(path))
            elif path.exists():
                facts = path.stat()
                digest.update(f"{path}\0{facts.st_size}\0{facts.st_mtime_ns}\0".encode())
        return digest.hexdigest()


def version_of(tree: Path) -> str:
    """Read the version that a source tree declares."""
    lists = tree / "CMakeLists.txt"
    text = lists.read_text() if lists.is_file() else ""
    match = re.search(r'set\(PROJECT_VERSION "([\d.]+)"\)', text)
    if match is None:
        raise RecipeError(
            f"{tree} should be a oneDNN source tree, whose CMakeLists.txt sets PROJECT_VERSION; "
            f"{'there is no such line' if text else 'there is no CMakeLists.txt'}. "
            "Name the top folder of an unpacked oneDNN."
        )
    return match.group(1)


def digest(tree: Path) -> str:
    """Digest names, kinds and contents of all files: what a fetched tree is verified by later.

    git's index is left out, as git rewrites it; its settings and hooks, which it runs, are not.
    """
    total = hashlib.sha256()
    for folder, names, files in os.walk(tree):
        names.sort()
        for name in sorted([*files, *(n for n in names if os.path.islink(f"{folder}/{n}"))]):
            path = Path(folder, name)
            where = str(path.relative_to(tree))
            if where == ".git/index":
                continue
            if path.is_symlink():
                kind, content = "link", os.fsencode(os.readlink(path))
            else:
                kind = "program" if os.access(path, os.X_OK) else "file"
                content = path.read_bytes()
            facts = f"{kind}\0{where}\0".encode(errors="surrogateescape")
            total.update(facts + hashlib.sha256(content).digest())
    return total.hexdigest()


def at_least(version: str, minimum: str) -> bool:
    """Whether a dotted version number is the minimum or newer."""
    parts = [[int(part) for part in text.split(".")] for text in (version, minimum)]
    return parts[0] >= parts[1]
