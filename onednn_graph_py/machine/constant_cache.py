"""The cache in which oneDNN keeps constants that it reordered, made safe.

oneDNN knows a constant by its partition and by the address of its memory. `GraphBuilder` gives
every graph its own ids and keeps constants in private, read-only memory, so an entry never
stands for other values. This module limits the memory of the cache.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from typing import NamedTuple

from .. import _core
from ..processes.forked import renew_in_forks

__all__ = ["CacheInfo", "Registration", "cache_info", "clear_caches"]

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


class _Ledger:
    """A count of the memory that models took in the cache since it was last emptied.

    oneDNN never drops the constants of models that are gone, and caches nothing more once the cache
    is full. So the ledger empties it when those constants and a new model's would not fit.
    """

    def __init__(self) -> None:
        # The garbage collector may end models in a thread that holds this lock.
        self._lock = threading.RLock()
        renew_in_forks(self)
        self._living = 0
        self._gone = 0

    def _after_fork(self) -> None:
        self._lock = threading.RLock()

    def enter(self, kind: _core.engine.kind, size: int) -> None:
        """Count a compiled model with its constants' size in bytes."""
        with self._lock:
            capacity = _core.get_constant_tensor_cache_capacity(kind)
            if capacity == 0:
                capacity = DEFAULT_CAPACITY
                _core.set_constant_tensor_cache_capacity(kind, capacity)
            if self._gone and self._living + self._gone + size > capacity << 20:
                _core.set_constant_tensor_cache_capacity(kind, capacity)  # empties it
                self._gone = 0
            self._living += size

    def leave(self, size: int) -> None:
        """Count a model, with its constants' size in bytes, as gone."""
        with self._lock:
            self._living -= size
            self._gone += size


_ledger = _Ledger()


class Registration:
    """A model's share of the cache; the model holds it as long as it lives.

    Parameters
    ----------
    bytes : int
        The size of the model's constants.
    """

    def __init__(self, bytes: int) -> None:
        self.bytes = bytes

    def enter(self, kind: _core.engine.kind, size: int | None = None) -> None:
        """Count the constants of the model, which is compiled for one set of shapes.

        Parameters
        ----------
        kind : engine.kind
        size : int, optional
            The bytes of arrays that were computed from the constants; those of the constants
            themselves, if left out.
        """
        size = self.bytes if size is None else size
        if size == 0:
            return
        _ledger.enter(kind, size)
        weakref.finalize(self, _ledger.leave, size)


def cache_info() -> CacheInfo:
    """Return the capacities of oneDNN's caches, which belong to the whole process.

    The capacities are set by `set_constant_tensor_cache_capacity`,
    `set_compiled_partition_cache_capacity` and `set_primitive_cache_capacity`. Entries of models
    that are gone stay until others push them out, or `clear_caches` is called.

    Returns
    -------
    CacheInfo
    """
    return CacheInfo(
        _core.get_constant_tensor_cache_capacity("cpu"),
        _core.get_compiled_partition_cache_capacity(),
        _core.get_primitive_cache_capacity(),
    )


def clear_caches() -> None:
    """Give back the memory of oneDNN's caches; capacities stay as they are.

    Models that are in use go on: their constants are reordered again at the next call.
    """
    capacity = _core.get_constant_tensor_cache_capacity("cpu")
    if capacity:
        # Setting any capacity empties the cache; 0 would make running models fail.
        _core.set_constant_tensor_cache_capacity("cpu", capacity)
    for get, put in (
        (
            _core.get_compiled_partition_cache_capacity,
            _core.set_compiled_partition_cache_capacity,
        ),
        (_core.get_primitive_cache_capacity, _core.set_primitive_cache_capacity),
    ):
        kept = get()
        with contextlib.ExitStack() as stack:
            stack.callback(put, kept)
            put(0)
