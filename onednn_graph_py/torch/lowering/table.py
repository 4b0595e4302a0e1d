"""The table of lowerings: for each of torch's ops a function that adds it to a `GraphBuilder`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import fx

from ...building.builder import GraphBuilder
from ...building.value import Value
from ...machine.cpu import lacks

__all__ = [
    "DTYPES",
    "HOST_DTYPES",
    "LOWERINGS",
    "Lowering",
    "NotLowered",
    "dims_of",
    "dtype_of",
    "has_type",
    "lowers",
]

DTYPES: Mapping[torch.dtype, str] = {
    torch.float32: "f32",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.int8: "s8",
    torch.uint8: "u8",
    torch.int32: "s32",
    torch.bool: "boolean",
}
"""oneDNN's names of torch's data types."""

HOST_DTYPES: Mapping[torch.dtype, str] = {
    torch.int64: "s64",
    torch.float64: "f64",
    torch.int16: "s16",
}
"""Those of types that only host steps and views of a builder read."""

FLOATS = ("f32", "bf16", "f16")


class NotLowered(Exception):
    """Why an op can't be lowered: an answer, not an error, since the op then stays in torch."""


def dims_of(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return a tensor's dims, -1 for those that only a call determines."""
    return tuple(d if isinstance(d, int) else -1 for d in map(_known, tensor.shape))


def _known(size: Any) -> Any:
    """Return an int if a size is known, else the SymInt."""
    if isinstance(size, int):
        return size
    known = size.node.maybe_as_int()
    return size if known is None else known


def dtype_of(tensor: torch.Tensor, *, host: bool = False) -> str:
    """Return oneDNN's name of a tensor's data type, or also of one that it lacks.

    Raises
    ------
    NotLowered
        oneDNN does not have it, or can't compute in it on this CPU.
    """
    name = DTYPES.get(tensor.dtype)
    if host and name is None:
        name = HOST_DTYPES.get(tensor.dtype)
    if name is None:
        raise NotLowered(f"oneDNN has no {str(tensor.dtype).removeprefix('torch.')}")
    if why := lacks(name):
        raise NotLowered(why)
    return name


def has_type(tensor: torch.Tensor) -> bool:
    """Return whether oneDNN has a tensor's data type; of others a lowering reads the numbers."""
    return tensor.dtype in DTYPES


class Lowering:
    """The place of an op while it is lowered: what its function may ask and use.

    Parameters
    ----------
    b : GraphBuilder
        What the function adds ops to.
    node : fx.Node
        The call of torch's op.
    constants : mapping of fx.Node to torch.Tensor
        The tensors that are known: weights.
    """

    def __init__(
        self, b: GraphBuilder, node: fx.Node, constants: Mapping[fx.Node, torch.Tensor]
    ) -> None:
        self.b = b
        self.node = node
        self._constants = constants

    @property
    def result(self) -> torch.Tensor:
        """The result, or the first of them, as a tensor without data."""
        made = self.node.meta["val"]
        tensor: torch.Tensor = made[0] if isinstance(made, (tuple, list)) else made
        return tensor

    @property
    def dims(self) -> tuple[int, ...]:
        """The result's dims, -1 where unknown."""
        return dims_of(self.result)

    @property
    def dtype(self) -> str:
        """The result's data type."""
        return dtype_of(self.result)

    def argument(self, index: int) -> torch.Tensor:
        """Return a tensor that the op reads, without data."""
        tensor: torch.Tensor = self.node.args[index].meta["val"]
        return tensor

    def constant(self, index: int) -> npt.NDArray[Any]:
        """Return the numbers of a weight that the op reads.

        Raises
        ------
        NotLowered
            They can change between calls.
        """
        known = self._constants.get(self.node.args[index])
        if known is None:
            raise NotLowered(f"argument {index} must be a constant")
        numbers: npt.NDArray[Any] = known.detach().numpy()
        return numbers

    def cast(self, x: Value, dtype: str) -> Value:
        """Convert between floating-point types."""
        if x.dtype == dtype:
            return x
        if x.dtype not in FLOATS or dtype not in FLOATS:
            raise NotLowered(f"oneDNN does not convert {x.dtype} to {dtype}")
        if "f32" in (x.dtype, dtype):
            return self.b.type_cast(x, dtype=dtype)
        return self.b.type_cast(self.b.type_cast(x, dtype="f32"), dtype=dtype)

    def operand(self, given: Any, dtype: str) -> Value:
        """Return a value or a number as a value of a data type."""
        if isinstance(given, Value):
            return self.cast(given, dtype)
        if isinstance(given, (bool, int, float)):
            number = np.full((), given, np.float64)
            return self.b.constant(number if not self.dims else number[None], dtype)
        raise NotLowered(f"an operand is {type(given).__name__}")

    def need_float(self, *values: Value) -> None:
        """Raise `NotLowered` unless all values are of floating-point types."""
        for value in values:
            if value.dtype not in FLOATS:
                raise NotLowered(f"oneDNN computes it in floating point only, not in {value.dtype}")

    def need_first_only(self) -> None:
        """Raise `NotLowered` if other results than the first are read."""
        if any(user.args[1] != 0 for user in self.node.users):
            raise NotLowered("more than its first result is read")

    def times(self, x: Value, number: float) -> Value:
        """Multiply by a number, which is not rounded to a smaller type than f32."""
        if number == 1:
            return x
        wide = x.dtype if self.holds(number, x.dtype) else "f32"
        made = self.b.multiply(self.cast(x, wide), self.operand(number, wide))
        return self.cast(made, x.dtype)

    @staticmethod
    def holds(given: Any, dtype: str) -> bool:
        """Return whether a number can be a constant of a type: torch rounds it to f32 at most."""
        if dtype not in ("bf16", "f16") or not isinstance(given, (int, float)):
            return True
        kind = torch.bfloat16 if dtype == "bf16" else torch.float16
        return not math.isfinite(given) or torch.tensor(float(given), dtype=kind).item() == given

    def reshaped(self, x: Value, source: Sequence[Any], target: Sequence[Any]) -> Value:
        """Give a value another shape.

        Parameters
        ----------
        x : Value
        source, target : sequence of int or SymInt
            Its sizes in torch, and those of the result.
        """
        sizes = [_known(d) for d in target]
        given = [_known(d) for d in source]
        if [*map(_text, sizes)] == [*map(_text, given)]:
            return x
        shape: list[int] = []
        for i, size in enumerate(sizes):
            if isinstance(size, int):
                shape.append(size)
            elif i < len(given) and _text(given[i]) == _text(size):
                shape.append(0)  # the dim of the source
            else:
                shape.append(-1)
        if shape.count(-1) > 1:
            raise NotLowered("more than one dim of the new shape is unknown")
        if 0 in sizes or 0 in given:
            raise NotLowered("the tensor has no elements")
        return self.b.static_reshape(x, shape=shape, special_zero=True)


def _text(size: Any) -> str:
    return str(size) if isinstance(size, int) else str(size.node.expr)


Function = TypeVar("Function", bound=Callable[..., Any])

LOWERINGS: dict[Any, Callable[..., Any]] = {}
"""The function of each op: it takes a `Lowering` and the op's arguments, with tensors as values."""


def lowers(*targets: Any) -> Callable[[Function], Function]:
    """Enter a function into the table for these ops."""

    def enter(function: Function) -> Function:
        for target in targets:
            if target in LOWERINGS:
                raise AssertionError(f"{target} has two lowerings")
            LOWERINGS[target] = function
        return function

    return enter
