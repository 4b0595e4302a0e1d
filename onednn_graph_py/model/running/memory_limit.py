"""The most memory that a model may take: `MemoryLimit`."""

import operator
import threading
from collections.abc import Callable, Mapping
from typing import Protocol, SupportsIndex
from weakref import WeakSet

from ...base.errors import InvalidArgumentsError, OutOfMemoryError
from ...base.processes.forked import renew_in_forks


class Limited(Protocol):
    """A model below a limit."""

    def plain(self) -> Mapping[int, int]:
        """Return the bytes of its constants, by their places in memory."""

    def drop_while(self, is_too_much: Callable[[], bool]) -> None:
        """Drop sets of shapes, the least recently used first."""


class MemoryLimit:
    """Counts the memory of the sizes of models, each with that of one call at least."""

    def __init__(self, name: str, limit: SupportsIndex) -> None:
        if isinstance(limit, bool) or not isinstance(limit, SupportsIndex):
            shown = f"{limit!r} ({type(limit).__name__})"
            raise TypeError(f"{name}: memory_limit must be a number of bytes, got {shown}")
        self._name, self.nbytes = name, operator.index(limit)
        self._sizes: WeakSet[SizeMemory] = WeakSet()
        self._models: WeakSet[Limited] = WeakSet()
        self._after_fork()
        renew_in_forks(self)

    def _after_fork(self) -> None:
        self._lock = threading.RLock()

    def add(self, model: Limited) -> None:
        """Count a model's constants from now on, or raise if they do not fit."""
        with self._lock:
            self._models.add(model)
            try:
                self.require_constants(self._constants())
            except InvalidArgumentsError:
                self._models.discard(model)
                raise

    def require_constants(self, nbytes: int) -> None:
        """Raise `InvalidArgumentsError` if constants alone take more than the limit."""
        if nbytes > self.nbytes:
            raise InvalidArgumentsError(
                f"{self._name}: memory_limit is {self.nbytes:,} bytes, and its constants take "
                f"{nbytes:,}"
            )

    def has(self, nbytes: int) -> bool:
        """Return whether there is room for so many bytes."""
        return self._constants() + self._taken() + nbytes <= self.nbytes

    def make_room(self, nbytes: int, model: Limited) -> None:
        """Drop sizes of a model, then of the others, unless that would be in vain."""
        if self._constants() + nbytes > self.nbytes:
            return
        with self._lock:
            others = self._models - {model}
        for one in (model, *others):
            one.drop_while(lambda: not self.has(nbytes))

    def take(self, nbytes: int, what: str) -> "SizeMemory":
        """Return the memory of a size, or raise `OutOfMemoryError` if there is no room for it."""
        with self._lock:
            self.require(nbytes, what)
            memory = SizeMemory(self, nbytes)
            self._sizes.add(memory)
            return memory

    def require(self, nbytes: int, what: str) -> None:
        """Raise `OutOfMemoryError` if there is no room for so many bytes."""
        if not self.has(nbytes):
            raise OutOfMemoryError(
                f"{self._name}: memory_limit is {self.nbytes:,} bytes; {what} needs {nbytes:,}, "
                f"its constants take {self._constants():,} and compiled sizes {self._taken():,}"
            )

    def _constants(self) -> int:
        """Return the bytes of all models' constants, each once."""
        with self._lock:
            places = {k: v for model in self._models for k, v in model.plain().items()}
        return sum(places.values())

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
        """Count one more call at a time, or raise; the first is counted from the start."""
        with self._limit._lock:
            if self.calls:
                self._limit.require(self.nbytes, "one more call at a time")
            self.calls += 1
