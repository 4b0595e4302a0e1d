"""The memory that the system has free."""

from __future__ import annotations

__all__ = ["free_bytes"]


def free_bytes() -> int | None:
    """Return the number of bytes that the system has free; None if unknown."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None
