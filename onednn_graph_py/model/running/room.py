"""The memory that a model may take: `Room`."""

from collections.abc import Callable
from weakref import WeakSet

from ...base.errors import InvalidArgumentsError, OutOfMemoryError


class Room:
    """Counts the memory of a model's sizes, each with that of one call at least."""

    def __init__(self, name: str, limit: int, constants: Callable[[], int]) -> None:
        self._name, self._limit, self._constants = name, limit, constants
        self.sizes: WeakSet[Memory] = WeakSet()
        if constants() > limit:
            raise InvalidArgumentsError(
                f"{name}: memory_limit is {limit:,} bytes, and its constants take {constants():,}"
            )

    def has(self, nbytes: int, beside: int | None = None) -> bool:
        """Return whether there is room for so many bytes, beside sizes that take all they do."""
        others = self._taken() if beside is None else beside
        return self._constants() + others + nbytes <= self._limit

    def require(self, nbytes: int, what: str) -> None:
        """Raise `OutOfMemoryError` if there is no room for so many bytes."""
        if not self.has(nbytes):
            raise OutOfMemoryError(
                f"{self._name}: memory_limit is {self._limit:,} bytes; {what} needs {nbytes:,}, "
                f"its constants take {self._constants():,} and compiled sizes {self._taken():,}"
            )

    def _taken(self) -> int:
        return sum(max(size.calls, 1) * size.nbytes for size in self.sizes)


class Memory:
    """The memory of one size, which lives as long as what runs it; called before it grows."""

    def __init__(self, room: Room, nbytes: int) -> None:
        self._room = room
        self.nbytes = nbytes
        self.calls = 0
        room.sizes.add(self)

    def __call__(self) -> None:
        """Count one more call at a time; the first is counted from the start."""
        if self.calls:
            self._room.require(self.nbytes, "one more call at a time")
        self.calls += 1
