"""Matrix products, convolutions, and what quantizes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.errors import InvalidShapeError
from ...blocks.linear import linear
from ...blocks.quantization import dequantize, quantize
from ...frontends.windows import Windows, conv_transpose, convolution
from ...model.building.einsum import einsum
from ...model.building.value import Value
from ..edits import OWN
from .table import FLOATS, Call, NotLowered, lowers
from .windows import halves, spatial, windows_of

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


@lowers("MatMul")
def _matmul(call: Call) -> Value:
    """Multiply as NumPy does: a vector is a row on the left, and a column on the right."""
    x, y = call.floats(0, 1)
    if x.ndim == 0 or y.ndim == 0:
        raise NotLowered("oneDNN's MatMul takes no scalars")
    left = x[None] if x.ndim == 1 else x
    right = y[:, None] if y.ndim == 1 else y
    made = call.b.matmul(left, right)
    ones = [-2] * (x.ndim == 1) + [-1] * (y.ndim == 1)
    return made.squeeze(ones) if ones else made


@lowers("Gemm")
def gemm(call: Call) -> Value:
    """Lower Gemm, or what it is in another op."""
    x, y = call.floats(0, 1)
    alpha = float(call.attribute("alpha", 1.0))
    beta = float(call.attribute("beta", 1.0)) if call.has(2) else 0.0
    known = call.known(1)
    if alpha != 1 and known is not None:
        y, alpha = call.b.constant(known.astype(np.float64) * alpha, y.dtype), 1.0
    across, along = bool(call.attribute("transA", 0)), bool(call.attribute("transB", 0))
    columns = (y.shape or ())[0 if along else 1]
    bias = None if beta == 0 else _bias(call, beta)
    if bias is not None and alpha == 1 and bias.shape in ((columns,), (1, columns)) and columns > 0:
        row = bias if bias.ndim == 1 else bias.squeeze(0)
        return call.b.matmul(x, y, row, transpose_a=across, transpose_b=along)
    made = call.times(call.b.matmul(x, y, transpose_a=across, transpose_b=along), alpha)
    return made if bias is None else made + bias


def _bias(call: Call, factor: float) -> Value:
    """Return Gemm's input 2, multiplied by a number; a constant is multiplied now."""
    known, value = call.known(2), call.value(2)
    if known is None or factor == 1:
        return call.times(value, factor)
    return call.b.constant(known.astype(np.float64) * factor, value.dtype)


@lowers("Conv")
def conv(call: Call) -> Value:
    """Lower Conv, or what it is in another op."""
    x, weights = call.floats(0, 1)
    windows = windows_of(call, x.shape or (), _kernel(x, weights))
    bias = call.value(2) if call.has(2) else None
    return convolution(call, x, weights, bias, windows, int(call.attribute("group", 1)))


def _kernel(x: Value, weights: Value) -> Sequence[int]:
    if x.ndim != weights.ndim or x.ndim < 3:
        raise NotLowered("there are no spatial dims")
    found = (weights.shape or ())[2:]
    if -1 in found:
        raise NotLowered("the kernel's size is unknown")
    return found


@lowers("ConvTranspose")
def _conv_transpose(call: Call) -> Value:
    x, weights = call.floats(0, 1)
    kernel = _kernel(x, weights)
    count = len(kernel)
    strides = spatial(call, "strides", count, 1)
    dilations = spatial(call, "dilations", count, 1)
    further = spatial(call, "output_padding", count, 0)
    begin, end, further = _transposed_padding(
        call, (x.shape or ())[2:], kernel, strides, dilations, further
    )
    windows = Windows(kernel, strides, dilations, begin, end)
    bias = call.value(2) if call.has(2) else None
    groups = int(call.attribute("group", 1))
    return conv_transpose(call, x, weights, bias, windows, further, groups)


def _transposed_padding(
    call: Call,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    further: list[int],
) -> tuple[list[int], list[int], list[int]]:
    """Return the padding before and behind each dim, and that of the output."""
    count = len(kernel)
    auto_pad = call.attribute("auto_pad", "NOTSET")
    wanted = list(call.attribute("output_shape", ()))[-count:]
    if not wanted and auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        pads = list(call.attribute("pads", ())) or [0] * 2 * count
        if auto_pad == "VALID":
            pads = [0] * 2 * count
        return pads[:count], pads[count:], further
    begin, end = [], []
    for i, (size, k, stride, d) in enumerate(zip(sizes, kernel, strides, dilations, strict=True)):
        if wanted and size == -1:
            raise NotLowered("the padding follows from a size that is unknown")
        beyond = wanted[i] - stride * size if wanted else 0
        total = -stride + further[i] + (k - 1) * d + 1 - beyond
        if total < 0:
            further, total = [*further[:i], further[i] - total, *further[i + 1 :]], 0
        before, behind = halves(total, auto_pad)
        begin.append(before)
        end.append(behind)
    return begin, end, further


@lowers("Einsum")
def _einsum(call: Call) -> Value:
    """Lower a sum of products."""
    equation = call.attribute("equation")
    values = [call.value(i) for i in range(equation.count(",") + 1)]
    call.need_float(*values)
    try:
        made = einsum(equation, values)
    except InvalidShapeError as e:
        raise NotLowered(str(e)) from None
    if made is None:
        raise NotLowered("the sum has dots, or repeats an index")
    return made
