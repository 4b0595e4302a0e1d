"""Facts about a oneDNN source tree on disk."""

import hashlib
import os
import re
from pathlib import Path

from .report import RecipeError


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
    made = hashlib.sha256()
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
            told = f"{kind}\0{where}\0".encode(errors="surrogateescape")
            made.update(told + hashlib.sha256(content).digest())
    return made.hexdigest()


def fingerprint(tree: Path) -> str:
    """Digest names, sizes and times of all files that the library is built from.

    A tree that somebody works on has to be rebuilt after an edit; reading 80 MB on every call to
    notice one would be slow, so this trusts modification times as make and ninja do.
    """
    digest = hashlib.sha256()
    pending = [tree / name for name in ("CMakeLists.txt", "cmake", "include", "src", "third_party")]
    while pending:
        path = pending.pop()
        if path.is_dir():
            pending += sorted(Path(entry.path) for entry in os.scandir(path))
        elif path.exists():
            facts = path.stat()
            digest.update(f"{path}\0{facts.st_size}\0{facts.st_mtime_ns}\0".encode())
    return digest.hexdigest()
