"""The cache in which oneDNN keeps constants that it reordered, made safe.

oneDNN knows a constant by its partition and by the address of its memory. `GraphBuilder` gives
every graph ids of its own and keeps constants in private, read-only memory, so an entry never
stands for other values; what is left is how much memory the cache may hold.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from typing import NamedTuple

from .. import _core

__all__ = ["CacheInfo", "Registration", "cache_info", "clear_caches"]

DEFAULT_CAPACITY = 4096
"""In MB, set when a first model with constants is compiled and nobody chose another capacity."""


class CacheInfo(NamedTuple):
    """The capacities of oneDNN's caches.

    Parameters
    ----------
    constant_capacity : int
        Cache of reordered constants, in MB; 0 as long as no model has constants.
    compiled_partition_capacity : int
        Compiled partitions that oneDNN keeps in case they are compiled again.
    primitive_capacity : int
        Kernels that oneDNN keeps in case they are needed again.
    """

    constant_capacity: int
    compiled_partition_capacity: int
    primitive_capacity: int


class _Ledger:
    """A count of the cache memory that models took since it was last emptied.

    oneDNN never drops what belonged to models that are gone, and caches nothing more once it is
    full; so it is emptied when the models that are gone would make it full.
    """

    def __init__(self) -> None:
        # Models may end while this is held, by the garbage collector of the same thread.
        self._lock = threading.RLock()
        self._living = 0
        self._gone = 0

    def enter(self, kind: _core.engine.kind, size: int) -> None:
        """A model with so many bytes of constants is compiled."""
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
        """A model is gone."""
        with self._lock:
            self._living -= size
            self._gone += size


_ledger = _Ledger()


class Registration:
    """A model's share of the cache, as long as it lives.

    Parameters
    ----------
    bytes : int
        Of its constants.
    """

    def __init__(self, bytes: int) -> None:
        self.bytes = bytes

    def enter(self, kind: _core.engine.kind, size: int | None = None) -> None:
        """The model is compiled for one set of shapes.

        Parameters
        ----------
        kind : engine.kind
        size : int, optional
            In bytes, of what was computed from its constants; its constants, if left out.
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
        # Every setting empties it. Never to 0, at which running models would fail.
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
