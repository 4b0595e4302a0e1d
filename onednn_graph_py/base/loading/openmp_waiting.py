"""The waiting of OpenMP's threads for each other: brief, unless the user has said otherwise.

GCC's libgomp has its threads spin for milliseconds before they sleep. Beside a busy process a
thread then spins while the one that it waits for has no CPU, and a call takes ten times as long now
and then. A short spin costs nothing on an idle machine (``docs/guide_parallel.md`` has figures).

libgomp reads its variables once, when it is loaded, so ours is set while the extension is loaded
and removed again: neither Python's ``os.environ`` nor a process that is started later has it. A
libgomp that another library has loaded before is left alone: PyTorch's, which the dynamic linker
takes for the system's.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .loaded import loaded_here

VARIABLES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
"""The variables by which a user chooses how threads wait."""

SPIN_COUNT = 1000
"""The number of looks whether a thread may go on before it sleeps, some microseconds in all."""

_before: frozenset[str] = frozenset()
_after: frozenset[str] = frozenset()


def _loaded() -> frozenset[str]:
    # Also a wheel's own copy, whose name has a hash in it.
    return frozenset(p for p in loaded_here() if Path(p).name.startswith(("libgomp.", "libgomp-")))


@contextmanager
def brief() -> Iterator[None]:
    """Have the OpenMP that is loaded meanwhile let its threads wait briefly."""
    global _before, _after
    if any(name in os.environ for name in VARIABLES):
        yield
        return
    _before = _loaded()
    # Past os.environ, which other threads may be reading, and which others copy for their children.
    os.putenv(VARIABLES[0], str(SPIN_COUNT))
    try:
        yield
    finally:
        os.unsetenv(VARIABLES[0])
        _after = _loaded()


def loaded_before() -> str | None:
    """Return the libgomp that another library had loaded, if ours waits as that one does."""
    return None if _after - _before else next(iter(sorted(_before)), None)
