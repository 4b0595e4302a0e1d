"""Ops that move elements and change their type."""

import numpy as np

from ..ops.call import Call
from .registry import Array, references


def _reshape(call: Call, x: Array) -> Array:
    shape = list(call.attr("shape"))
    if call.attr("special_zero"):
        shape = [x.shape[i] if d == 0 else d for i, d in enumerate(shape)]
    return x.reshape(shape)


references(
    {
        "Concat": lambda call, *parts: np.concatenate(parts, axis=call.attr("axis")),
        "Reorder": lambda call, x: x,
        "StaticReshape": _reshape,
        "StaticTranspose": lambda call, x: x.transpose(call.attr("order")),
        "TypeCast": lambda call, x: x,
    }
)
