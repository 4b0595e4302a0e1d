"""Ops that move elements, change their type, or reduce them."""

import math
from collections.abc import Callable

import numpy as np

from ..ops.call import Call
from ..ops.rules import channel_axis
from ..ops.terms import shape_text
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


def _reduced(call: Call, x: Array, over: Callable[..., Array]) -> Array:
    axes = tuple(call.attr("axes") or ())
    return np.asarray(over(x, axis=axes, keepdims=call.attr("keep_dims")))


def _mean(call: Call, x: Array) -> Array:
    count = math.prod(x.shape[a] for a in call.attr("axes") or ())
    total = _reduced(call, x, np.sum)
    return total / count if count else total * np.nan  # NumPy's mean of no elements warns


references(
    {
        "ReduceL1": lambda call, x: _reduced(call, np.abs(x), np.sum),
        "ReduceL2": lambda call, x: np.sqrt(_reduced(call, x * x, np.sum)),
        "ReduceMax": lambda call, x: _reduced(call, x, np.max),
        "ReduceMean": _mean,
        "ReduceMin": lambda call, x: _reduced(call, x, np.min),
        "ReduceProd": lambda call, x: _reduced(call, x, np.prod),
        "ReduceSum": lambda call, x: _reduced(call, x, np.sum),
    }
)


def _spread(call: Call, values: Array, x: Array) -> Array:
    """Return scales or zero points in a shape that broadcasts to the data's."""
    if values.size == 1:  # one zero point may serve all channels or groups
        return values.reshape(())
    if call.attr("qtype") == "per_group":
        for axis, size in enumerate(call.attr("group_shape")):
            values = values.repeat(size, axis)
        return values
    axis = call.axis("axis", x.ndim)
    along = channel_axis(x.shape, axis, values.size)
    if along is None:
        call.refuse(
            f"{values.size} scales or zero points for {x.shape[axis]} channels (axis {axis} of "
            f"{shape_text(x.shape)}) don't fit"
        )
    spread = values.repeat(x.shape[along] // values.size)
    return spread.reshape([-1 if i == along else 1 for i in range(x.ndim)])


def _quantized(call: Call, x: Array, scales: Array, zps: Array | None = None) -> Array:
    y = x / _spread(call, scales, x)
    # The zero point is added before rounding: a tie goes to the even result, not to the even
    # rounded src / scale.
    return y if zps is None else y + _spread(call, zps, x)


def _dequantized(call: Call, x: Array, scales: Array, zps: Array | None = None) -> Array:
    shifted = x if zps is None else x - _spread(call, zps, x)
    return shifted * _spread(call, scales, x)


def _attributes(call: Call) -> tuple[Array, Array | None]:
    """Return the scales and zero points of a call's attributes."""
    zps = call.attr("zps")
    return np.asarray(call.attr("scales")), None if zps is None else np.asarray(zps)


references(
    {
        "Dequantize": lambda call, x: _dequantized(call, x, *_attributes(call)),
        "DynamicDequantize": _dequantized,
        "DynamicQuantize": _quantized,
        "Quantize": lambda call, x: _quantized(call, x, *_attributes(call)),
    }
)
