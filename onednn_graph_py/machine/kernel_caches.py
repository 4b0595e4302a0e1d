"""oneDNN's caches of compiled partitions and of kernels, which outlive the shapes of models.

oneDNN keeps the newest 1,024 of each in case that they are compiled again. One takes 0.2 to 1 MB
(3.13.1), so a model that meets ever new shapes would leave a gigabyte there.
"""

import contextlib
import itertools

from .. import _core

_ALLOWED = 64  # the number of dropped partitions after which the caches are emptied

# Atomic, as evictions of several models may happen at once.
_dropped = itertools.count(1)


def empty_kernel_caches() -> None:
    """Empty both caches; their capacities stay as they are."""
    for get, put in (
        (_core.get_compiled_partition_cache_capacity, _core.set_compiled_partition_cache_capacity),
        (_core.get_primitive_cache_capacity, _core.set_primitive_cache_capacity),
    ):
        kept = get()
        with contextlib.ExitStack() as stack:
            stack.callback(put, kept)
            put(0)


def count_dropped(partitions: int) -> None:
    """Count compiled partitions that a model dropped; empty the caches every 64.

    Models that are in use keep what they have compiled. What is compiled next is generated anew.
    """
    if any([next(_dropped) % _ALLOWED == 0 for _ in range(partitions)]):
        empty_kernel_caches()
