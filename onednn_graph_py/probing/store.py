"""What was found out about this machine, on disk: one file for each oneDNN, CPU and package."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import __version__, get_effective_cpu_isa, version
from .probe import Attempt

__all__ = ["load", "path", "place", "processor", "save"]


def processor() -> str:
    """The CPU's name; where it is not told, the architecture."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def place(folder: str, *about: Any) -> Path:
    """Where what was found out about these facts is kept, on this machine.

    Parameters
    ----------
    folder : str
        In the cache: `ONEDNN_GRAPH_PY_CACHE`, or the user's.
    *about
        What it depends on beside oneDNN, the CPU and this package; for JSON.
    """
    linked = version()
    facts = [
        __version__,
        sorted((k, str(v)) for k, v in linked.items()),
        get_effective_cpu_isa().name,
        processor(),
        *about,
    ]
    digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12]
    root = os.environ.get("ONEDNN_GRAPH_PY_CACHE")
    if not root:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        root = str(Path(base) / "onednn_graph_py")
    name = f"{linked['major']}.{linked['minor']}.{linked['patch']}-{digest}.json"
    return Path(root) / folder / name


def path(attempts: Sequence[Attempt]) -> Path:
    """Where the results of these attempts, on this machine, are kept."""
    # What the sample uses look like belongs to the package's version and the attempts themselves.
    return place("capabilities", [[a.kind, a.inputs, a.outputs] for a in attempts])


def load(file: Path, count: int) -> list[tuple[str, str]] | None:
    """Outcomes as they were saved; None where there are none, or not as many."""
    try:
        kept: Any = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(kept, list) or len(kept) != count:
        return None
    try:
        return [(str(outcome), str(reason)) for outcome, reason in kept]
    except (TypeError, ValueError):
        return None


def save(file: Path, found: Any) -> None:
    """Write as JSON so that a reader sees all or nothing; a read-only cache is no error."""
    partial = file.with_name(f"{file.name}.{os.getpid()}.partial")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(found))
        partial.replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink()
