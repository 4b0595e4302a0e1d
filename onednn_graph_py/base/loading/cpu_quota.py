"""The CPU quota of a container, which models' threads follow unless the user said how many."""

import math
import os
from pathlib import Path
from typing import Any

_V1 = "sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct"
_V2 = "sys/fs/cgroup", "sys/fs/cgroup/unified"


def cpus(root: str = "/") -> int | None:
    """Return how many CPUs this process's control groups let it have, rounded up; None if all.

    Both versions of control groups count, and the groups around its own.
    """
    try:
        lines = Path(root, "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    shares = []
    for number, names, path in (line.split(":", 2) for line in lines if line.count(":") > 1):
        trees = _V2 if number == "0" else _V1 if "cpu" in names.split(",") else ()
        # In a container the path may be one outside, of which nothing is there but its root.
        group = Path(path.strip("/"))
        folders = [Path(root, tree, g) for tree in trees for g in (group, *group.parents)]
        shares += [_share(f) for f in folders]
    return min((math.ceil(share) for share in shares if share > 0), default=None)


def _share(folder: Path) -> float:
    """Return how many CPUs a group may have; 0 if it has no quota."""
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota, period = ((folder / f"cpu.cfs_{n}_us").read_text() for n in ("quota", "period"))
        return int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return 0


def follow(core: Any, root: str = "/") -> None:
    """Let models use no more threads than there are CPUs in the quota."""
    count = cpus(root)
    if count is None or "OMP_NUM_THREADS" in os.environ:
        return
    if core.version()["cpu_runtime"] == "OpenMP" and count < core.num_threads():
        core.set_num_threads(count)
