"""Ops on two tensors, element by element; shapes broadcast as NumPy's do."""

import numpy as np

from ..ops.call import Call
from .registry import Array, reference, references


def along_channels(call: Call, values: Array, rank: int) -> Array:
    """Return the channels' values in a shape that broadcasts to data of a rank."""
    return values if call.channels_last else values.reshape(-1, *[1] * (rank - 2))


def batch_axes(call: Call, rank: int) -> tuple[int, ...]:
    """Return all axes except the channels'."""
    channels = rank - 1 if call.channels_last else 1
    return tuple(axis for axis in range(rank) if axis != channels)


references(
    {
        "Add": lambda call, a, b: a + b,
        "BiasAdd": lambda call, x, bias: x + along_channels(call, bias, x.ndim),
        "Divide": lambda call, a, b: a / b,
        "GreaterEqual": lambda call, a, b: a >= b,
        "Maximum": lambda call, a, b: np.maximum(a, b),
        "Minimum": lambda call, a, b: np.minimum(a, b),
        "Multiply": lambda call, a, b: a * b,
        "Select": lambda call, condition, a, b: np.where(condition, a, b),
        "SquaredDifference": lambda call, a, b: (a - b) ** 2,
        "Subtract": lambda call, a, b: a - b,
    }
)


@reference("BiasAddBackward")
def _bias_add(call: Call, diff_dst: Array) -> Array:
    return np.asarray(diff_dst.sum(batch_axes(call, diff_dst.ndim)))
