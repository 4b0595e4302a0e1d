"""Ops on two tensors, element by element; shapes broadcast as NumPy's do."""

from __future__ import annotations

import numpy as np

from ..ops.call import Call
from .registry import Array, reference


@reference("Add")
def _add(call: Call, a: Array, b: Array) -> Array:
    return a + b


@reference("Divide")
def _divide(call: Call, a: Array, b: Array) -> Array:
    return a / b


@reference("GreaterEqual")
def _greater_equal(call: Call, a: Array, b: Array) -> Array:
    return a >= b


@reference("Maximum")
def _maximum(call: Call, a: Array, b: Array) -> Array:
    return np.maximum(a, b)


@reference("Minimum")
def _minimum(call: Call, a: Array, b: Array) -> Array:
    return np.minimum(a, b)


@reference("Multiply")
def _multiply(call: Call, a: Array, b: Array) -> Array:
    return a * b


@reference("SquaredDifference")
def _squared_difference(call: Call, a: Array, b: Array) -> Array:
    return (a - b) ** 2


@reference("Subtract")
def _subtract(call: Call, a: Array, b: Array) -> Array:
    return a - b


@reference("Select")
def _select(call: Call, condition: Array, a: Array, b: Array) -> Array:
    return np.where(condition, a, b)


@reference("BiasAdd")
def _bias_add(call: Call, x: Array, bias: Array) -> Array:
    return x + along_channels(call, bias, x.ndim)


def along_channels(call: Call, values: Array, rank: int) -> Array:
    """Return the channels' values in a shape that broadcasts to data of a rank."""
    return values if call.channels_last else values.reshape(-1, *[1] * (rank - 2))
