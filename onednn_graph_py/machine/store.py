"""Facts about this machine, on disk: one place for each oneDNN, CPU and package."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import threading
from pathlib import Path
from typing import Any

from .. import _core
from ..linked import version

__all__ = ["facts", "folder", "place", "processor", "save"]


def processor() -> str:
    """The CPU's name; where it is not told, the architecture."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def facts(*about: Any) -> list[Any]:
    """Return facts that stored results depend on: package, oneDNN's build, CPU; then `about`."""
    return [
        _core.__version__,
        sorted((k, str(v)) for k, v in _core.version().items()),
        _core.get_effective_cpu_isa().name,
        processor(),
        *about,
    ]


def folder() -> Path:
    """The cache: `ONEDNN_GRAPH_PY_CACHE`, or the user's."""
    root = os.environ.get("ONEDNN_GRAPH_PY_CACHE")
    if not root:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        root = str(Path(base) / "onednn_graph_py")
    return Path(root)


def place(name: str, *about: Any) -> Path:
    """Return the file that stores results for these facts on this machine.

    Parameters
    ----------
    name : str
        Of a folder in the cache.
    *about
        What it depends on beside oneDNN, the CPU and this package; for JSON.
    """
    digest = hashlib.sha256(json.dumps(facts(*about)).encode()).hexdigest()[:12]
    return folder() / name / f"{version().release}-{digest}.json"


def save(file: Path, found: Any) -> None:
    """Write as JSON so that a reader sees all or nothing; a read-only cache is no error."""
    partial = file.with_name(f"{file.name}.{os.getpid()}-{threading.get_ident()}.partial")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(found))
        partial.replace(file)
    except BaseException as e:
        with contextlib.suppress(OSError):
            partial.unlink()
        if not isinstance(e, OSError):
            raise
