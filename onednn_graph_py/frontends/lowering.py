"""The place of an op in a `GraphBuilder` for its lowering, and the table of lowerings."""

import math
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np

from ..base.dtypes import array_dtype
from ..machine.cpu import lacks
from ..model.building.builder import GraphBuilder
from ..model.building.value import Value

FLOATS = ("f32", "bf16", "f16")


class NotLowered(Exception):
    """Why an op can't be lowered: an answer, not an error, since it then runs elsewhere."""


class Place:
    """The place of an op while it is lowered: the builder, and what else its function may use."""

    def __init__(self, b: GraphBuilder) -> None:
        self.b = b

    def cast(self, x: Value, dtype: str) -> Value:
        """Convert between floating-point types."""
        if x.dtype == dtype:
            return x
        if x.dtype not in FLOATS or dtype not in FLOATS:
            raise NotLowered(f"oneDNN does not convert {x.dtype} to {dtype}")
        if "f32" in (x.dtype, dtype):
            return self.b.type_cast(x, dtype=dtype)
        return self.b.type_cast(self.b.type_cast(x, dtype="f32"), dtype=dtype)

    def need_float(self, *values: Value) -> None:
        """Raise `NotLowered` unless all values are of floating-point types that the CPU has."""
        for value in values:
            if value.dtype not in FLOATS:
                raise NotLowered(f"oneDNN computes it in floating point only, not in {value.dtype}")
            if why := lacks(value.dtype):
                raise NotLowered(why)

    def operand(self, argument: Any, dtype: str, rank: int = 1) -> Value:
        """Return a value or a number as a value of a data type.

        A number gets one element and the rank 1, or 0 dims if `rank` is 0.
        """
        if isinstance(argument, Value):
            return self.cast(argument, dtype)
        if isinstance(argument, (bool, int, float)):
            return self.b.constant(np.full((1,) if rank else (), argument, np.float64), dtype)
        raise NotLowered(f"an operand is {type(argument).__name__}")

    def times(self, x: Value, number: float) -> Value:
        """Multiply by a number, which is not rounded to a smaller type than f32."""
        if number == 1:
            return x
        wide = x.dtype if holds(number, x.dtype) else "f32"
        made = self.b.multiply(self.cast(x, wide), self.operand(number, wide, x.ndim))
        return self.cast(made, x.dtype)


def holds(numbers: Any, dtype: str) -> bool:
    """Return whether a number can be a constant of a data type; f32 is taken to have all."""
    if dtype not in ("bf16", "f16") or not isinstance(numbers, (int, float)):
        return True
    if not math.isfinite(numbers):
        return True
    with np.errstate(over="ignore"):
        return float(np.asarray(numbers, array_dtype(dtype))) == numbers


Key = TypeVar("Key")
Function = TypeVar("Function", bound=Callable[..., Any])
Entered = TypeVar("Entered", bound=Callable[..., Any])


class Table(dict[Key, Function], Generic[Key, Function]):
    """The function that lowers each op."""

    def enters(self, *keys: Key) -> Callable[[Entered], Entered]:
        """Enter a function into the table for these ops."""

        def enter(function: Entered) -> Entered:
            for key in keys:
                if key in self:
                    raise AssertionError(f"{key} has two lowerings")
                self[key] = function  # type: ignore[assignment]
            return function

        return enter
