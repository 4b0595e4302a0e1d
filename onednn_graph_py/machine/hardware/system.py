"""The GPUs that the operating system shows, also those that no runtime finds."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

INTEL = 0x8086


@dataclass(frozen=True)
class Node:
    """A file through which programs reach a GPU."""

    path: str
    vendor: int | None  # PCI number of the vendor; None if the system does not show it
    accessible: bool  # whether this user may read and write it


def gpu_nodes(root: str = "/") -> list[Node]:
    """Return the render nodes of Linux, and the one of the Windows Subsystem for Linux."""
    base = Path(root)
    try:
        paths = sorted(base.glob("dev/dri/renderD*")) + sorted(base.glob("dev/dxg"))
    except OSError:
        return []
    return [
        Node(str(path), _vendor(base / "sys/class/drm" / path.name), _accessible(path))
        for path in paths
    ]


def _vendor(device: Path) -> int | None:
    try:
        return int((device / "device/vendor").read_text(), 16)
    except (OSError, ValueError):
        return None


def _accessible(path: Path) -> bool:
    return os.access(path, os.R_OK | os.W_OK)
