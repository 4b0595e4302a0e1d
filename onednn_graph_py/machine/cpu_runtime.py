"""How the threads of the linked oneDNN's CPU runtime behave."""

from __future__ import annotations

from functools import cache

from ..linked import version

__all__ = ["threads_spin"]


@cache
def threads_spin() -> bool:
    """Whether threads wait for each other by spinning, as OpenMP's do; SYCL's sleep."""
    return version().cpu_runtime != "SYCL"
