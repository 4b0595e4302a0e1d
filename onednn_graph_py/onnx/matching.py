"""What conditions of rules ask of values: numbers, types and axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir

__all__ = ["Rule", "is_close", "is_float", "is_mean_of_last", "is_row", "number_of", "same_type"]

FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)

Rule = tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]
"""What is looked for, what is put there instead, and a condition."""


def number_of(value: ir.Value | None) -> float | None:
    """Return the number of a constant with one element."""
    if value is None or value.const_value is None or value.is_graph_input():
        return None
    array = value.const_value.numpy()
    return float(array.reshape(-1)[0]) if array.size == 1 else None


def is_close(value: ir.Value | None, number: float, tolerance: float = 1e-3) -> bool:
    """Return whether a constant is a number, as an exporter may have rounded it."""
    found = number_of(value)
    return found is not None and math.isclose(found, number, rel_tol=tolerance)


def is_float(x: ir.Value) -> bool:
    """Return whether a value is of a floating-point type, as far as is known."""
    return x.dtype is None or x.dtype in FLOATS


def is_mean_of_last(value: ir.Value) -> bool:
    """Return whether a ReduceMean is over the last axis, and keeps it."""
    node = value.producer()
    if node is None:
        return False
    given = node.attributes.get("axes")
    axes: Sequence[int] | None = None if given is None else given.as_ints()
    if axes is None and len(node.inputs) > 1 and node.inputs[1] is not None:
        array = node.inputs[1].const_value
        axes = None if array is None else [int(a) for a in array.numpy().reshape(-1)]
    keep = node.attributes.get("keepdims")
    if axes is None or len(axes) != 1 or (keep is not None and not keep.as_int()):
        return False
    x = node.inputs[0]
    rank = None if x is None or x.shape is None else len(x.shape)
    return axes[0] == -1 or (rank is not None and axes[0] == rank - 1)


def is_row(value: ir.Value | None) -> bool:
    """Return whether a value is a weight of one dim with more than one element."""
    if value is None or value.const_value is None or value.is_graph_input():
        return False
    return len(value.const_value.shape) == 1 and value.const_value.size > 1


def same_type(*values: ir.Value) -> bool:
    """Return whether values are of one type, as far as is known."""
    return len({v.dtype for v in values if v.dtype is not None}) <= 1
