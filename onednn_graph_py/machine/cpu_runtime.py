"""The threads of the linked oneDNN's CPU runtime."""

from ..base.linked import version


def threads_can_be_set() -> bool:
    """Return whether a caller can set the number of threads; if not, the runtime decides."""
    return version().cpu_runtime == "OpenMP"
