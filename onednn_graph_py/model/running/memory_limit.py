"""The most memory that a model may take: `MemoryLimit`."""

import operator
import threading
from collections.abc import Callable
from typing import SupportsIndex
from weakref import WeakSet

from ...base.errors import InvalidArgumentsError, OutOfMemoryError
from ...base.processes.forked import renew_in_forks


class MemoryLimit:
    """Counts the memory of a model's sizes, each with that of one call at least."""

    def __init__(self, name: str, limit: SupportsIndex, constants: Callable[[], int]) -> None:
        if isinstance(limit, bool) or not isinstance(limit, SupportsIndex):
            given = f"{limit!r} ({type(limit).__name__})"
            raise TypeError(f"{name}: memory_limit must be a number of bytes, got {given}")
        self._name, self._bytes, self._constants = name, operator.index(limit), constants
        self._sizes: WeakSet[SizeMemory] = WeakSet()
        self._after_fork()
        renew_in_forks(self)
        if (taken := constants()) > self._bytes:
            raise InvalidArgumentsError(
                f"{name}: memory_limit is {self._bytes:,} bytes, and its constants take {taken:,}"
            )

    def _after_fork(self) -> None:
        self._lock = threading.RLock()

    def has(self, nbytes: int, beside: int | None = None) -> bool:
        """Return whether there is room for so many bytes, beside sizes that take all they do."""
        others = self._taken() if beside is None else beside
        return self._constants() + others + nbytes <= self._bytes

    def take(self, nbytes: int, what: str) -> "SizeMemory":
        """Return the memory of a size, or raise `OutOfMemoryError` if there is no room for it."""
        with self._lock:
            self.require(nbytes, what)
            made = SizeMemory(self, nbytes)
            self._sizes.add(made)
            return made

    def grow(self, size: "SizeMemory") -> None:
        """Count one more call of a size at a time; the first is counted from the start."""
        with self._lock:
            if size.calls:
                self.require(size.nbytes, "one more call at a time")
            size.calls += 1

    def require(self, nbytes: int, what: str) -> None:
        """Raise `OutOfMemoryError` if there is no room for so many bytes."""
        if not self.has(nbytes):
            raise OutOfMemoryError(
                f"{self._name}: memory_limit is {self._bytes:,} bytes; {what} needs {nbytes:,}, "
                f"its constants take {self._constants():,} and compiled sizes {self._taken():,}"
            )

    def _taken(self) -> int:
        with self._lock:
            return sum(max(size.calls, 1) * size.nbytes for size in self._sizes)


class SizeMemory:
    """The memory of one size, which lives as long as what runs it; called before it grows."""

    def __init__(self, limit: MemoryLimit, nbytes: int) -> None:
        self._limit = limit
        self.nbytes = nbytes
        self.calls = 0

    def __call__(self) -> None:
        """Count one more call at a time, or raise."""
        self._limit.grow(self)
