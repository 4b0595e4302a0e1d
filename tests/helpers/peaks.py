"""The memory that a part of a test takes: `peak_within`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["peak_within"]


@contextmanager
def peak_within(limit: int) -> Iterator[None]:
    """Fail if the process takes more bytes meanwhile than it has now and the limit.

    ``ru_maxrss`` can't tell that: it is the peak since the process began.
    """
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = _peak()
    yield
    grown = _peak() - before
    assert grown < limit, f"{grown:,} bytes, which is more than {limit:,}"


def _peak() -> int:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    (line,) = (x for x in status.splitlines() if x.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024
