"""The CPU quota of a container, which models' threads follow unless the user said how many."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_TREES = "sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct"
_TREES_OF_V2 = "sys/fs/cgroup", "sys/fs/cgroup/unified"


def cpus(root: str = "/") -> int | None:
    """Return how many CPUs this process's control groups let it have, rounded up; None if all.

    Both versions of control groups count, and the groups around its own.

    - `root`: the folder where the system's files are
    """
    found = [math.ceil(share) for share in _shares(Path(root)) if share > 0]
    return min(found, default=None)


def _shares(root: Path) -> Iterator[float]:
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for number, names, path in (line.split(":", 2) for line in lines if line.count(":") > 1):
        if number != "0" and "cpu" not in names.split(","):
            continue
        # In a container the path may be one outside, of which nothing is there but its root.
        group = Path(path.strip("/"))
        for tree in _TREES_OF_V2 if number == "0" else _TREES:
            for folder in (group, *group.parents):
                yield from _share(root / tree / folder)


def _share(folder: Path) -> Iterator[float]:
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota, period = ((folder / f"cpu.cfs_{n}_us").read_text() for n in ("quota", "period"))
        yield int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):  # no such file, or no quota
        return


def follow(core: Any, root: str = "/") -> None:
    """Let models use no more threads than there are CPUs in the quota."""
    count = cpus(root)
    if count is None or "OMP_NUM_THREADS" in os.environ:
        return
    if core.version()["cpu_runtime"] == "OpenMP" and count < core.num_threads():
        core.set_num_threads(count)
