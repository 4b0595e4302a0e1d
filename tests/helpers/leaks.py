"""Whether something that is done again and again leaves anything behind in this process.

Memory is what the C library's allocator has in use, to the byte: start such a process with
`ENVIRONMENT`, or Python's own allocator and per-thread caches blur it.
"""

import contextlib
import ctypes
import gc
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from graphs import python

ENVIRONMENT = {
    "PYTHONMALLOC": "malloc",
    "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",
    "OMP_WAIT_POLICY": "PASSIVE",  # OpenMP's threads don't spin between kernels
}

BATCHES = 12
"""How many batches may grow before something counts as a leak."""

NOISE = 256
"""Bytes by which two counts differ although nothing happened but the counting."""

KERNEL = 320
"""Bytes that oneDNN keeps of a kernel that ran and is gone, in each thread that ran it.

Its tables of kernels' arguments go by kernels' addresses, and entries are emptied, not erased; see
``thread_local_cache_t`` in oneDNN's sources.
"""


class _MallInfo(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd",
            "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    )  # fmt: skip


_LIBC = ctypes.CDLL(None)


def smallest() -> int:
    """Return what an allocation counts at least; sanitizers count the bytes that are asked for."""
    return 8 if hasattr(_LIBC, "__sanitizer_get_current_allocated_bytes") else 16


def missing() -> str | None:
    """Say why memory can't be counted here; None if it can."""
    if hasattr(_LIBC, "__sanitizer_get_current_allocated_bytes") or hasattr(_LIBC, "mallinfo2"):
        return None
    return "the C library has no mallinfo2 (glibc 2.33 and later has)"


def allocated() -> int:
    """Return the bytes that are allocated now."""
    if hasattr(_LIBC, "__sanitizer_get_current_allocated_bytes"):
        count = _LIBC.__sanitizer_get_current_allocated_bytes
        count.restype = ctypes.c_size_t
        return int(count())
    _LIBC.mallinfo2.restype = _MallInfo
    now = _LIBC.mallinfo2()
    return int(now.uordblks + now.hblkhd)


def others() -> dict[str, int | frozenset[str]]:
    """Count what else a process can leave behind.

    Who made a segment of shared memory is not told, so those of other processes of this user are
    among them, too: they are given by name, and what such a process removes hides nothing. `growth`
    asks for new ones in every batch, which is no coincidence.
    """
    tasks = list(Path("/proc/self/task").iterdir())
    children = [c for task in tasks for c in _read(task / "children").split()]
    return {
        "file descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(tasks),
        "processes": len(children),
        "mappings of shared memory": _read(Path("/proc/self/maps")).count("/dev/shm/"),
        "segments of shared memory": _own_files("/dev/shm"),
    }


def _own_files(folder: str) -> frozenset[str]:
    names = set()
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # it is gone meanwhile
                if entry.stat(follow_symlinks=False).st_uid == os.getuid():
                    names.add(entry.name)
    return frozenset(names)


def _more(after: int | frozenset[str], before: int | frozenset[str]) -> int:
    if isinstance(after, frozenset):
        assert isinstance(before, frozenset)
        return len(after - before)
    assert isinstance(before, int)
    return after - before


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # a thread that ended meanwhile
        return ""


def _kept() -> int:
    gc.collect()
    # Python remembers 4,096 names by which attributes were asked for, and C++ makes them anew.
    ctypes.pythonapi.PyType_ClearCache()
    return allocated()


def growth(
    call: Callable[[], object], rounds: int, *, kernels: int = 0, warm: int | None = None
) -> list[str]:
    """Call it in batches after a warm-up; return what grew in every batch, in words.

    Caches that fill and containers that double grow in some batches, what leaks grows in each.
    `kernels` is how many kernels a round makes, runs and drops; `warm` how many rounds come first,
    by default as many as a batch has.
    """
    for _ in range(rounds if warm is None else warm):
        call()
    # One allocation that each round leaves behind is too many.
    allowed = {"bytes": NOISE + rounds * (smallest() - 1 + kernels * KERNEL)}
    least: dict[str, int] = {}
    for _ in range(BATCHES):
        before = {"bytes": _kept(), **others()}
        for _ in range(rounds):
            call()
        after = {"bytes": _kept(), **others()}
        grown = {name: _more(after[name], before[name]) for name in after}
        least = {name: min(n, least.get(name, n)) for name, n in grown.items()}
        too_many = {name: n for name, n in least.items() if n > allowed.get(name, 0)}
        if not too_many:
            return []
    return [f"{n} {name} in {rounds} rounds" for name, n in too_many.items()]


def references(arrays: list[object]) -> list[int]:
    """Return how often each array is referred to, apart from this list's own reference."""
    return [sys.getrefcount(array) for array in arrays]


def grown_by(program: str, **calls: tuple[int, int]) -> list[str]:
    """Run a program in a process of its own; return what its functions left.

    `calls` has the functions' names, each with a number of rounds and of kernels.
    """
    folder = str(Path(__file__).parent)
    text = f"""
import json, sys
sys.path.insert(0, {folder!r})
import leaks

import onednn_graph_py as og
{program}
grown = []
for name, (rounds, kernels) in {calls}.items():
    grown += leaks.growth(globals()[name], rounds, kernels=kernels)
print(json.dumps(grown))
"""
    done = python(text, env=ENVIRONMENT, seconds=1800)  # batches take their time
    told: list[str] = json.loads(done.stdout.splitlines()[-1])
    return told
