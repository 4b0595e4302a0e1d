"""Facts about a value of a model while its graph is walked: `Tensor`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..model.building.constant_arrays import ARRAY_DTYPES
from ..model.building.value import Value

Shape = tuple[int, ...]

NUMPY = ARRAY_DTYPES
"""NumPy's dtypes by the package's names; other types only islands have."""

SEQUENCE = "sequence"  # stands for what is no tensor; only islands read and make it

_OF_NUMPY = {dtype: name for name, dtype in NUMPY.items()}


def shape_of(given: Any) -> Shape:
    """Return the dims of an array; none for a sequence."""
    return given.shape if isinstance(given, np.ndarray) else ()


def dtype_of(array: Any) -> str:
    """Return the package's name of an array's data type; of others, NumPy's."""
    if not isinstance(array, np.ndarray):
        return SEQUENCE
    return _OF_NUMPY.get(array.dtype, "string" if array.dtype == object else str(array.dtype))


def common_dims(shapes: tuple[Shape, ...]) -> Shape:
    """Return the dims that shapes have in common, -1 for those that differ."""
    first, *others = shapes
    if any(len(s) != len(first) for s in others):
        raise ValueError("the number of dims differs")
    return tuple(d if all(s[i] == d for s in others) else -1 for i, d in enumerate(first))


@dataclass(eq=False)
class Tensor:
    """A value of the model, for each set of input dims that the walk has."""

    dtype: str  # see `inference.name_of`
    shapes: tuple[Shape, ...]  # its dims in each set
    # its numbers in each set, if they follow from weights and dims alone
    arrays: tuple[npt.NDArray[Any], ...] | None = None
    value: Value | None = None  # the value of the builder; of known tensors only once it is read

    @classmethod
    def of_arrays(cls, arrays: tuple[npt.NDArray[Any], ...], dtype: str) -> Tensor:
        """Return a tensor whose numbers are known."""
        return cls(dtype, tuple(a.shape for a in arrays), arrays)

    @property
    def dims(self) -> Shape:
        """The dims, -1 for those that differ between the sets."""
        return common_dims(self.shapes)

    @property
    def is_empty(self) -> bool:
        """Whether it has no elements in one of the sets."""
        return any(math.prod(s) == 0 for s in self.shapes)

    @property
    def fixed(self) -> npt.NDArray[Any] | None:
        """The numbers, if they are known and the same in all sets."""
        if self.arrays is None:
            return None
        first, *others = self.arrays
        return first if all(same(first, a) for a in others) else None


def same(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    """Return whether arrays are equal to the bit, so that a NaN equals itself."""
    if a is b:
        return True
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return np.array_equal(a, b) if a.dtype == object else a.tobytes() == b.tobytes()
