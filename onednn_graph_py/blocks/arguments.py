"""Checks of the arguments of blocks; errors name the argument."""

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.arguments import need_instance
from ..base.errors import (
    InvalidArgumentsError,
    InvalidDataTypeError,
    InvalidShapeError,
    OneDNNError,
    reworded,
)
from ..model.building.builder import GraphBuilder
from ..model.building.value import Value
from ..ops.terms import shape_text

FLOATS = ("f32", "bf16", "f16")
INTEGERS = ("s8", "u8", "s4", "u4")


def need_value(block: str, argument: str, given: Any) -> Value:
    """Return the argument; raise TypeError unless it is a Value."""
    value: Value = need_instance(f"{block}: {argument}", given, Value)
    return value


def operand(
    block: str, argument: str, b: GraphBuilder, given: Any, dtype: str | None = None
) -> Value:
    """Return a value of the builder; turn an array or a number into a constant."""
    if isinstance(given, Value):
        if given.builder is not b:
            raise InvalidArgumentsError(
                f"{block}: {argument} must belong to the GraphBuilder of the first argument, got "
                f"{given!r} of another one"
            )
        return given
    if isinstance(given, numbers.Real) and not isinstance(given, np.generic):
        given = np.full(1, given)
    try:
        return b.constant(array_of(block, argument, given), dtype)
    except OneDNNError as e:
        raise reworded(e, f"{block}: {argument}: {e}") from None


def array_of(block: str, argument: str, given: Any, what: str = "a Value or an array") -> Any:
    """Return an argument as an array; raise TypeError unless it holds numbers."""
    try:
        array = np.asarray(given)
    except ValueError as e:
        raise TypeError(f"{block}: {argument} must be {what}: {e}") from None
    if array.dtype.kind in "OUS":
        raise TypeError(
            f"{block}: {argument} must be {what} of numbers, got {type(given).__name__}"
        )
    return array


def need_type(block: str, argument: str, value: Value, allowed: Sequence[str]) -> None:
    """Raise InvalidDataTypeError unless the value has an allowed data type."""
    need_dtype(block, argument, value.dtype, allowed)


def need_dtype(block: str, argument: str, dtype: Any, allowed: Sequence[str]) -> None:
    """Raise InvalidDataTypeError unless oneDNN's name of a data type is an allowed one."""
    if dtype not in allowed:
        raise InvalidDataTypeError(
            f"{block}: {argument} must be {' or '.join(allowed)}, got {dtype}"
        )


def need_rank(block: str, argument: str, value: Value, *ranks: int) -> tuple[int, ...]:
    """Return the shape; raise InvalidShapeError unless it has one of these numbers of dims."""
    if value.shape is None or (ranks and len(value.shape) not in ranks):
        wanted = " or ".join(str(r) for r in ranks) or "a known number of"
        raise InvalidShapeError(
            f"{block}: {argument} must have {wanted} dims, got {shape_text(value.shape)}"
        )
    return value.shape


def need_shape(
    block: str, argument: str, shape: Sequence[int], expected: Sequence[int], meaning: str
) -> None:
    """Raise InvalidShapeError unless each dim is as expected; -1 on either side passes."""
    fits = len(shape) == len(expected) and all(
        -1 in (s, e) or s == e for s, e in zip(shape, expected, strict=True)
    )
    if not fits:
        raise InvalidShapeError(
            f"{block}: {argument} must be {meaning} = {shape_text(tuple(expected))}, got "
            f"{shape_text(tuple(shape))}"
        )


def is_decompressed(value: Value) -> bool:
    """Return whether a DynamicDequantize made the value."""
    return value.producer is not None and value.producer.kind == "DynamicDequantize"


def need_integer_math(block: str, what: str, b: GraphBuilder, dtype: str) -> None:
    """Raise InvalidArgumentsError unless the math mode applies to integers, as weights need.

    Without it 3.7.2 computes wrong results for int4, and neither version compiles other types.
    """
    mode = b.fpmath_mode.name
    wide_enough = dtype == "f32" or mode in (dtype, "any")
    if not (b.apply_to_int and wide_enough):
        asked = "strict" if dtype == "f32" else dtype
        raise InvalidArgumentsError(
            f"{block}: {what} needs GraphBuilder(fpmath_mode={asked!r}, apply_to_int=True), got "
            f"fpmath_mode={mode!r}, apply_to_int={b.apply_to_int}"
        )
