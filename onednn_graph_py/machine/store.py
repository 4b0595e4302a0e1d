"""Files for results that hold for this machine: one for each oneDNN, CPU and package version."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import secrets
from pathlib import Path
from typing import Any

from .. import _core
from ..base.linked import version
from ..base.text.files import read_limited
from ..base.text.owners import changed_by_others, make_folders

__all__ = ["facts", "folder", "load", "place", "processor", "save"]

_NUMBERS = {"family": "cpu family", "model": "model"}

_LARGEST = 16 << 20  # bytes of a file of results, which have some thousands


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
    """Return the cache folder: `ONEDNN_GRAPH_PY_CACHE`, or one in the user's cache."""
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
        The name of a folder in the cache.
    *about
        Further facts that the results depend on, which JSON can hold.
    """
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


def save(file: Path, found: Any) -> None:
    """Write results as JSON, so that a reader sees all or nothing; ignore a read-only cache."""
    partial = file.with_name(f"{file.name}.{secrets.token_hex(8)}.partial")
    try:
        make_folders(file.parent)
        # A new file, never through a link, which nobody else may change.
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        with open(descriptor, "w", encoding="utf-8") as opened:
            json.dump(found, opened)
        partial.replace(file)
    except BaseException as e:
        with contextlib.suppress(OSError):
            partial.unlink()
        if not isinstance(e, OSError):
            raise
