"""The threads of the linked oneDNN's CPU runtime."""

from __future__ import annotations

from functools import cache

from ..base.linked import version


@cache
def threads_spin() -> bool:
    """Return whether threads wait for each other by spinning, as OpenMP's do; SYCL's sleep."""
    return version().cpu_runtime != "SYCL"


def threads_can_be_set() -> bool:
    """Return whether a caller can set the number of threads; if not, the runtime decides."""
    return version().cpu_runtime == "OpenMP"
