"""What conditions of rules ask of values: numbers, types and axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import onnx_ir as ir

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
