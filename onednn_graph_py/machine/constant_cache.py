"""The cache in which oneDNN keeps constants that it reordered, made safe.

oneDNN knows a constant by its partition and by the address of its memory. `GraphBuilder` gives
every graph its own ids and keeps constants in private, read-only memory, so an entry never
stands for other values. What models that are gone leave in the cache is given back when it is more
than 32 MB and an eighth of what living ones have there (``bindings/cached_constants.cpp``).

oneDNN also keeps the newest 1,024 compiled partitions and kernels in case that they are compiled
again. One takes 0.2 to 1 MB (3.13.1), so a model that meets ever new shapes would leave a gigabyte
there.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import NamedTuple

from .. import _core
from ..base.errors import InvalidArgumentsError

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


DEFAULT_CAPACITY = 4096
"""The capacity in MB that the first model with constants sets, if nobody chose another one."""


class CacheInfo(NamedTuple):
    """The capacities of oneDNN's caches.

    Parameters
    ----------
    constant_capacity : int
        Size of the cache of reordered constants, in MB; 0 as long as no model has constants.
    compiled_partition_capacity : int
        Number of compiled partitions that oneDNN keeps in case they are compiled again.
    primitive_capacity : int
        Number of kernels that oneDNN keeps in case they are needed again.
    """

    constant_capacity: int
    compiled_partition_capacity: int
    primitive_capacity: int


def turn_on(kind: _core.engine.kind) -> None:
    """Have oneDNN keep constants that it reorders, unless somebody chose a capacity."""
    if _core.get_constant_tensor_cache_capacity(kind) == 0:
        _core.set_constant_tensor_cache_capacity(kind, DEFAULT_CAPACITY)


def cache_info() -> CacheInfo:
    """Return the capacities of oneDNN's caches, which belong to the whole process.

    The capacities are set by `set_constant_tensor_cache_capacity`,
    `set_compiled_partition_cache_capacity` and `set_primitive_cache_capacity`. Entries of models
    that are gone stay until others push them out, or `clear_caches` is called. Of their constants,
    at most 32 MB stay, or an eighth of those of living models.
    """
    return CacheInfo(
        _core.get_constant_tensor_cache_capacity("cpu"),
        _core.get_compiled_partition_cache_capacity(),
        _core.get_primitive_cache_capacity(),
    )


def clear_caches() -> None:
    """Give back the memory of oneDNN's caches; capacities stay as they are.

    Models that are in use go on: their constants are reordered again at the next call. The cache of
    constants stays as it is as long as a model lives that released its constants. The blocks that
    oneDNN's calls gave back, at most 8 of up to 8 MiB, go too.
    """
    _core._release_kept_blocks()
    empty_constants()
    empty_kernel_caches()


def empty_constants() -> bool:
    """Let models reorder their constants again at their next call; return False if one holds them.

    `clear_caches` says who holds the cache.
    """
    capacity = _core.get_constant_tensor_cache_capacity("cpu")
    try:
        if capacity:
            # Setting any capacity empties the cache; 0 would make running models fail.
            _core.set_constant_tensor_cache_capacity("cpu", capacity)
    except InvalidArgumentsError:
        return False
    return True
