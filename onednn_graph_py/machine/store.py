"""Files for results that hold for this machine: one for each oneDNN, CPU and package version."""

import contextlib
import hashlib
import json
import os
import platform
import secrets
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from .. import _core
from ..base.linked import version
from ..base.text.files import read_limited
from ..base.text.owners import changed_by_others, make_folders

_NUMBERS = {"family": "cpu family", "model": "model"}

_LARGEST = 16 << 20  # bytes of a file of results, which have some thousands
_MOST = 8192  # entries of a folder, about 2 kB each


@cache
def processor() -> str:
    """Return the CPU's name, family and model; the architecture if the system does not show them.

    A virtual machine may show one name for several models.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
    except OSError:
        lines = []
    shown = {name.strip(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    if "model name" not in shown:
        return platform.processor() or platform.machine()
    numbers = [f"{n} {shown[k]}" for n, k in _NUMBERS.items() if k in shown]
    return shown["model name"] + (f" ({', '.join(numbers)})" if numbers else "")


def machine() -> str:
    """Return an id of this machine and user, which a folder copied from another does not match."""
    try:
        name = Path("/etc/machine-id").read_text().strip()
    except OSError:
        name = os.uname().nodename
    return f"{name} {os.geteuid()}"


def facts(*about: Any) -> list[Any]:
    """Return facts that stored results depend on: package, oneDNN's build, CPU; then `about`.

    They equal themselves when read from JSON, if `about` does.
    """
    return [
        _core.__version__,
        sorted([k, str(v)] for k, v in _core.version().items()),
        _core.get_effective_cpu_isa().name,
        processor(),
        *about,
    ]


def folder() -> Path:
    """Return the cache folder: `ONEDNN_GRAPH_PY_CACHE`, or one in the user's cache."""
    root = os.environ.get("ONEDNN_GRAPH_PY_CACHE")
    if not root:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        root = str(Path(base) / "onednn_graph_py")
    return Path(root)


def place(name: str, *about: Any) -> Path:
    """Return the file that stores results for these facts, which JSON can hold, on this machine."""
    digest = hashlib.sha256(json.dumps(facts(*about)).encode()).hexdigest()[:12]
    return folder() / name / f"{version().release}-{digest}.json"


def load(file: Path) -> Any:
    """Read results that `save` wrote; None if there are none, or if others may have put them there.

    Not only what can't be parsed: a cache folder can be one that other users write to.
    """
    try:
        if changed_by_others(file):
            return None
        return json.loads(read_limited(file, _LARGEST, owners=(os.geteuid(), 0)))
    except (OSError, ValueError, RecursionError):
        return None


def save(file: Path, results: Any) -> None:
    """Write results as JSON, so that a reader sees all or nothing; ignore a read-only cache."""
    _save(file, results, Path.replace)


def _save_new(file: Path, results: Any) -> bool:
    """Write results unless the file exists; return whether it did not."""
    try:
        _save(file, results, lambda partial, file: file.hardlink_to(partial))
    except FileExistsError:
        return False
    return True


def _save(file: Path, results: Any, put: Callable[[Path, Path], Any]) -> None:
    partial = file.with_name(f"{file.name}.{secrets.token_hex(8)}.partial")
    try:
        make_folders(file.parent)
        # A new file, never through a link, which nobody else may change.
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        with open(descriptor, "w", encoding="utf-8") as opened:
            json.dump(results, opened)
        put(partial, file)
    except FileExistsError:
        raise
    except OSError:
        pass
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


class Entries:
    """Results on disk by a key, a file each, so that any number of processes read and write."""

    def __init__(self, name: str, *about: Any) -> None:
        self.folder = place(name, *about).with_suffix("")
        self._writes = 0

    def _file(self, key: str) -> Path:
        return self.folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"

    def find(self, key: str) -> dict[str, Any] | None:
        """Read what is kept under a key; None if there is nothing that can be trusted."""
        result = load(self._file(key))
        return result if isinstance(result, dict) and result.get("of") == key else None

    def keep(self, key: str, result: dict[str, Any]) -> None:
        """Write a result for other processes, if the folder can be written to."""
        save(self._file(key), {**result, "of": key})
        self._limit()

    def keep_first(
        self, key: str, result: dict[str, Any], counts: Callable[[dict[str, Any]], bool]
    ) -> dict[str, Any]:
        """Write a result if there is none that counts; return the one that is kept then."""
        file = self._file(key)
        before = self.find(key)
        if before is not None and counts(before):
            return before
        if before is None and _save_new(file, {**result, "of": key}):
            self._limit()
        else:
            other = self.find(key)
            if other is not None and counts(other):
                return other
            self.keep(key, result)
        return self.find(key) or result

    def _limit(self) -> None:
        """Remove the oldest quarter once there are too many; look at every 256th write only."""
        self._writes += 1
        if self._writes % 256 != 1:
            return
        ages = []
        for file in self.folder.glob("*.json"):
            with contextlib.suppress(OSError):  # another process may remove it
                ages.append((file.stat().st_mtime_ns, file))
        if len(ages) > _MOST:
            for _, file in sorted(ages)[: len(ages) - _MOST * 3 // 4]:
                with contextlib.suppress(OSError):
                    file.unlink()

    def clear(self) -> None:
        """Remove all results that can be removed."""
        for file in self.folder.glob("*.json"):
            with contextlib.suppress(OSError):
                file.unlink()

    def all(self) -> Iterator[dict[str, Any]]:
        """Yield all results that can be trusted, with their keys as ``of``."""
        for file in sorted(self.folder.glob("*.json")):
            result = load(file)
            of = result.get("of") if isinstance(result, dict) else None
            if isinstance(of, str) and self._file(of) == file:
                yield result
