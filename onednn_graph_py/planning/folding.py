"""Results of ops that read only constants, computed once for all shapes of a model."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from ..building.value import Node

__all__ = ["FoldedConstants"]

Array = npt.NDArray[Any]


class FoldedConstants:
    """What a model computed from its constants, by what it was computed from.

    All shapes that a model is compiled for share it; the model's lock guards it. An array stays as
    long as a plan has it.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._arrays: WeakValueDictionary[int, Array] = WeakValueDictionary()

    def constant(self, id: int) -> int:
        """The number of a constant of the graph, by its value's id."""
        return self._numbers.setdefault(("constant", id), len(self._numbers))

    def result(self, node: Node, output: int, shape: tuple[int, ...], inputs: Sequence[int]) -> int:
        """The number of what an op makes: equal only for equal results.

        Parameters
        ----------
        node : Node
        output : int
        shape : tuple of int
            Of the output.
        inputs : sequence of int
            The numbers of what it reads.
        """
        attrs = tuple(sorted((name, _plain(value)) for name, value in node.attrs.items()))
        key = (node.kind, attrs, tuple(inputs), output, node.outputs[output].dtype, shape)
        return self._numbers.setdefault(key, len(self._numbers))

    def get(self, numbers: Sequence[int]) -> list[Array] | None:
        """The arrays of these; None if one was not computed yet."""
        found = [a for a in map(self._arrays.get, numbers) if a is not None]
        return found if len(found) == len(numbers) else None

    def put(self, numbers: Sequence[int], arrays: Sequence[Array]) -> None:
        """Keep what was computed."""
        self._arrays.update(zip(numbers, arrays, strict=True))

    @property
    def bytes(self) -> int:
        """Of all arrays."""
        return sum(a.nbytes for a in self._arrays.values())


def _plain(value: Any) -> Hashable:
    """An attribute, as it can be hashed."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return tuple(_plain(v) for v in value)
    made: Hashable = value.item() if isinstance(value, np.generic) else value
    return made
