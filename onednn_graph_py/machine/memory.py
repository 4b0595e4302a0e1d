"""The memory that the system has left."""

from __future__ import annotations

__all__ = ["free_bytes"]


def free_bytes() -> int | None:
    """Return the number of bytes that the system could give; None where it does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None
