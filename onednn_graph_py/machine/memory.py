"""How much memory the system has left."""

from __future__ import annotations

__all__ = ["free_bytes"]


def free_bytes() -> int | None:
    """How much memory the system could give; None where it does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None
