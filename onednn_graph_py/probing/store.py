"""Results of probing on disk, one file for each oneDNN, CPU and version of this package."""

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

__all__ = ["load", "path", "save"]


def _processor() -> str:
    """The CPU's name; where it is not told, the architecture."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def path(attempts: Sequence[Attempt]) -> Path:
    """Where the results of these attempts, on this machine, are kept."""
    linked = version()
    # What the sample uses look like belongs to the package's version and the attempts themselves.
    facts = [
        __version__,
        sorted((k, str(v)) for k, v in linked.items()),
        get_effective_cpu_isa().name,
        _processor(),
        [[a.kind, a.inputs, a.outputs] for a in attempts],
    ]
    digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12]
    root = os.environ.get("ONEDNN_GRAPH_PY_CACHE")
    if not root:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        root = str(Path(base) / "onednn_graph_py")
    name = f"{linked['major']}.{linked['minor']}.{linked['patch']}-{digest}.json"
    return Path(root) / "capabilities" / name


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


def save(file: Path, outcomes: Sequence[tuple[str, str]]) -> None:
    """Write outcomes so that a reader sees all or nothing; a read-only cache is no error."""
    partial = file.with_name(f"{file.name}.{os.getpid()}.partial")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(outcomes))
        partial.replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink()
