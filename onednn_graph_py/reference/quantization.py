"""Quantization to small integers or 8-bit floats, with scales and zero points.

Rounding and saturation are those of the output's data type.
"""

import numpy as np

from ..ops.call import Call
from ..ops.rules import channel_axis
from ..ops.terms import shape_text
from .registry import Array, references


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
