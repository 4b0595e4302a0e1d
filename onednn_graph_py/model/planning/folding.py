"""Results of ops that read only constants, computed once for all shapes of a model."""

import threading
from collections.abc import Hashable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy.typing as npt

from ..building.value import Node

Array = npt.NDArray[Any]


class FoldedConstants:
    """The arrays that a model computed from its constants, by number.

    Results have the same number if they come from the same inputs by the same op. All shapes that a
    model is compiled for share the arrays. An array lives as long as a plan that has it. Callers
    hold `lock`.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._numbers: dict[Hashable, int] = {}
        self._arrays: WeakValueDictionary[int, Array] = WeakValueDictionary()

    def constant(self, key: Hashable) -> int:
        """Return the number of a constant, given its value's id, or all that it is."""
        return self._numbers.setdefault(("constant", key), len(self._numbers))

    def result(self, node: Node, output: int, shape: tuple[int, ...], inputs: Sequence[int]) -> int:
        """Return the number of an op's result of a shape, by the numbers of the constants it reads.

        Equal numbers mean equal results.
        """
        key = (node.signature, tuple(inputs), output, node.outputs[output].dtype, shape)
        return self._numbers.setdefault(key, len(self._numbers))

    def get(self, numbers: Sequence[int]) -> list[Array] | None:
        """Return the arrays with these numbers; None if one of them is missing."""
        found = [a for a in map(self._arrays.get, numbers) if a is not None]
        return found if len(found) == len(numbers) else None

    def put(self, numbers: Sequence[int], arrays: Sequence[Array]) -> None:
        """Keep arrays under these numbers."""
        self._arrays.update(zip(numbers, arrays, strict=True))

    def replace(self, array: Array, other: Array) -> None:
        """Keep another array in the place of one, if that is here."""
        with self.lock:
            for number in [n for n, a in self._arrays.items() if a is array]:
                self._arrays[number] = other

    @property
    def arrays(self) -> list[Array]:
        """All arrays."""
        with self.lock:
            return list(self._arrays.values())
