"""QuantizeLinear and DequantizeLinear."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ...blocks.linear import linear
from ...blocks.quantization import dequantize, quantize
from ...model.building.value import Value
from ..edits import OWN
from .table import FLOATS, Call, NotLowered, lowers

Array = npt.NDArray[Any]

EIGHT_BITS = ("u8", "s8")


@lowers("QuantizeLinear")
def _quantize(call: Call) -> Value:
    dtype = call.result_dtypes[0]
    if dtype not in EIGHT_BITS:
        raise NotLowered(f"oneDNN's Quantize makes 8 bits, not {dtype}")
    [x] = call.floats(0)
    scales, points, axis = _parameters(call)
    return quantize(x, dtype, scales, points, axis)


@lowers("DequantizeLinear")
def _dequantize(call: Call) -> Value:
    dtype, made = call.dtype(0), call.result_dtypes[0]
    if dtype not in EIGHT_BITS:
        raise NotLowered(f"oneDNN's Dequantize takes 8 bits, not {dtype}")
    if made not in FLOATS:
        raise NotLowered(f"oneDNN's Dequantize makes floating point, not {made}")
    scales, points, axis = _parameters(call)
    return dequantize(call.value(0), scales, points, axis, dtype=made)


@lowers("Int8Linear", domain=OWN)
def _linear(call: Call) -> Value:
    weights, scales = call.need(1, "the weights"), call.need(2, "the scales")
    return linear(call.value(0), weights, scales=scales, activations="int8")


def _parameters(call: Call) -> tuple[Array, Array | None, int | None]:
    """Return scales, zero points, and the axis along which they differ."""
    scales = call.need(1, "the scale").astype(np.float64)
    points = call.need(2, "the zero point") if call.has(2) else None
    if points is not None:
        points = points.astype(np.int64)
        if not points.any():
            points = None
    if call.attribute("block_size", 0) or scales.ndim > 1:
        raise NotLowered("scales of blocks are not constant weights'")
    if scales.size == 1:
        return scales.reshape(-1), None if points is None else points.reshape(-1), None
    if points is not None:
        raise NotLowered("oneDNN has no zero points that differ along an axis")
    rank, axis = len(call.dims(0)), int(call.attribute("axis", 1))
    if not -rank <= axis < rank:
        raise NotLowered("axis is out of range")
    return scales, None, axis % rank
