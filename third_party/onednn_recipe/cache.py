"""The user's cache: where sources and builds live, what is finished, who is at work."""

import fcntl
import json
import os
import runpy
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .report import RecipeError, say

Record = dict[str, Any]

# The package's own check, which needs nothing of the package: that can't be imported yet.
_OWNERS = Path(__file__).parents[2] / "onednn_graph_py" / "base" / "text" / "owners.py"
_changed_by_others: Callable[..., str] = runpy.run_path(str(_OWNERS))["changed_by_others"]


def read_record(path: Path) -> Record | None:
    """Read a JSON record; a missing or half-written one is None."""
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def write_record(path: Path, record: Record) -> None:
    """Write a JSON record so that a reader sees all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{secrets.token_hex(8)}.partial")
    try:
        with open(partial, "x") as file:  # a new file, never through a link
            file.write(json.dumps(record, indent=2) + "\n")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


class Cache:
    """Paths inside one cache directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tools = root / "tools"
        # Which source an unpinned build settled on: later builds take the same one, offline too.
        self.choice = root / "choice.json"

    def source(self, version: str) -> Path:
        """The kept source tree of a version."""
        return self.root / "src" / f"onednn-{version}"

    def source_record(self, version: str) -> Path:
        """Says what a kept source tree was verified against; written after the tree."""
        return self.root / "src" / f"onednn-{version}.json"

    def build(self, key: str) -> Path:
        """CMake's build directory."""
        return self.root / "build" / key

    def prefix(self, key: str) -> Path:
        """Where a build is installed."""
        return self.root / "prefix" / key

    def prefix_record(self, key: str) -> Path:
        """The stamp of a finished prefix; written last."""
        return self.prefix(key) / "finished.json"

    def log(self, key: str) -> Path:
        """The full output of a build."""
        return self.root / "log" / f"{key}.log"

    def check_owner(self) -> None:
        """Refuse a cache into which other users may put what is then built and run.

        Raises
        ------
        RecipeError
        """
        # What is fetched is verified by its contents; what is built is loaded as it is.
        own = [self.root, *self.root.glob("*"), *self.root.glob("*/*")]
        why = _changed_by_others(*own, *(self.root / "prefix").glob("*/**/*"))
        if why:
            raise RecipeError(
                f"{self.root} is not used as a cache: {why}, so what is built from it could be "
                "anything. Name another folder by ONEDNN_GRAPH_PY_CACHE, or change its owner "
                "or mode (chown, chmod go-w)."
            )

    @contextmanager
    def lock(self, poll_seconds: float = 0.5) -> Iterator[int]:
        """Hold the cache alone; say who holds it while waiting.

        Yields the lock's file descriptor. A build's child processes inherit it, so that compile
        jobs which outlive a killed parent still keep others out of their build directory.
        """
        before = os.umask(0o077)
        os.umask(before | 0o022)  # what is made is this user's alone to change
        self.root.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.root / "lock", flags, 0o644)
        try:
            _wait_for(descriptor, self.root, poll_seconds)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            yield descriptor
        finally:
            os.close(descriptor)
            os.umask(before)


def _wait_for(descriptor: int, root: Path, poll_seconds: float) -> None:
    announced: float | None = None
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            now = time.monotonic()
            if announced is None or now - announced >= 60:
                holder = os.pread(descriptor, 32, 0).decode() or "unknown"
                say(f"waiting for process {holder}, which is working in {root}")
                announced = now
            time.sleep(poll_seconds)
