"""The memory that the system has free, and the CPU's last cache."""

from functools import cache
from pathlib import Path


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


@cache
def last_cache_bytes() -> int:
    """Return the size of the CPU's last cache; 32 MB if unknown."""
    caches = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")
    try:
        sizes = [(c / "size").read_text().strip() for c in caches]
        return max(int(s[:-1]) << {"K": 10, "M": 20, "G": 30}[s[-1]] for s in sizes)
    except (OSError, ValueError, LookupError):
        return 32 << 20
