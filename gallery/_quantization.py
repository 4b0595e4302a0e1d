"""The parts of quantized patterns: dequantized operands, biases, quantized results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onednn_graph_py.model.building.builder import GraphBuilder
from onednn_graph_py.model.building.value import Value

from ._epilogue import drawn, epilogue

__all__ = [
    "DST_SCALE",
    "SRC_SCALE",
    "bias_of",
    "converted",
    "dequantized",
    "dequantized_weights",
    "finished",
    "post_ops",
    "weighted",
]

# Not powers of two, so that scaling rounds; `fill_inputs` draws integers whose results fit.
SRC_SCALE = 0.06
DST_SCALE = 0.04
_WEIGHTS_STEPS = 90  # from 0 to the weights' largest magnitudes


def _parameters(scale: float, zero_point: int, channels: int | None, axis: int) -> dict[str, Any]:
    if channels is None:
        return {"qtype": "per_tensor", "scales": [scale], "zps": [zero_point]}
    scales = [float(s) for s in np.linspace(0.7 * scale, 1.3 * scale, channels)]
    zps = [zero_point] * channels
    return {"qtype": "per_channel", "axis": axis, "scales": scales, "zps": zps}


def converted(value: Value, dtype: str) -> Value:
    """Convert a value to another float type, with as few TypeCasts from or to f32 as possible."""
    if value.dtype != dtype and "f32" not in (value.dtype, dtype):
        value = value.type_cast(dtype="f32")
    made: Value = value if value.dtype == dtype else value.type_cast(dtype=dtype)
    return made


def dequantized(
    value: Value, compute: str = "f32", *, scale: float = SRC_SCALE, zero_point: int = 0
) -> Value:
    """Dequantize per tensor, then TypeCast unless `compute` is f32."""
    parameters = _parameters(scale, zero_point, None, 0)
    return converted(value.dequantize(**parameters), compute)


def dequantized_weights(
    b: GraphBuilder,
    shape: Sequence[int],
    dtype: str,
    compute: str,
    *,
    axis: int,
    per_channel: bool,
    zero_point: int,
) -> Value:
    """Return dequantized constant weights; weights in f32 are quantized first.

    Parameters
    ----------
    b : GraphBuilder
    shape : sequence of int
    dtype : str
        ``s8`` or ``u8``, or ``f32`` for weights that the graph quantizes to ``s8`` itself.
    compute : str
        The float type of the result.
    axis : int
        The axis of the output channels.
    per_channel : bool
        Whether there is a scale for each output channel.
    zero_point : int
    """
    channels = shape[axis]
    terms = int(np.prod(shape)) // channels
    exact = drawn(len(b.nodes) + 1, shape, 1 / terms**0.5)
    scale = 2 / (terms**0.5 * _WEIGHTS_STEPS)
    parameters = _parameters(scale, zero_point, channels if per_channel else None, axis)
    if dtype == "f32":
        made = b.constant(exact, name="weights").quantize(dtype="s8", **parameters)
    else:
        low, high = (0, 255) if dtype == "u8" else (-128, 127)
        along_axis = [-1 if i == axis else 1 for i in range(len(shape))]
        scales = np.reshape(np.asarray(parameters["scales"], np.float32), along_axis)
        steps = np.clip(np.rint(exact / scales) + zero_point, low, high)
        made = b.constant(steps, dtype, name="weights")
    return converted(made.dequantize(**parameters), compute)


def bias_of(b: GraphBuilder, channels: int, dtype: str, compute: str) -> Value:
    """Return a constant bias, with a TypeCast if its type differs from `compute`."""
    made = b.constant(drawn(len(b.nodes) + 2, (channels,), 0.3), dtype, name="bias")
    return converted(made, compute)


def post_ops(
    value: Value,
    ops: Sequence[str] = (),
    *,
    residual: str | None = None,
    residual_zero_point: int = 0,
    axis: int = -1,
) -> Value:
    """Add a quantized residual, a new input, if `residual` names its type; then apply post-ops.

    Parameters
    ----------
    value : Value
    ops : sequence of str
        Unary and Binary ops, as in `epilogue`.
    residual : str, optional
        The residual's data type.
    residual_zero_point : int
    axis : int
        The axis of the channels.
    """
    if residual is not None:
        assert value.shape is not None
        other = value.builder.input(value.shape, residual, name="residual")
        added = dequantized(other, value.dtype, zero_point=residual_zero_point)
        value = value.builder.add(value, added)
    return epilogue(value, ops, axis=axis)


def finished(
    value: Value,
    dst: str,
    *,
    scale: float = DST_SCALE,
    zero_point: int = 0,
    per_channel: bool = False,
    axis: int = -1,
) -> Value:
    """Convert the result to another data type.

    Parameters
    ----------
    value : Value
    dst : str
        A Quantize makes u8 and s8, after a TypeCast unless `value` is f32; a TypeCast makes
        floats unless `value` has this type.
    scale : float
    zero_point : int
    per_channel : bool
        Whether there is a scale for each channel.
    axis : int
        The axis of the channels.
    """
    if dst not in ("u8", "s8"):
        return converted(value, dst)
    assert value.shape is not None
    axis %= len(value.shape)
    channels = value.shape[axis] if per_channel else None
    parameters = _parameters(scale, zero_point, channels, axis)
    made: Value = converted(value, "f32").quantize(dtype=dst, **parameters)
    return made


def weighted(
    kind: str,
    source: Sequence[int],
    shape: Sequence[int],
    axis: int,
    attributes: dict[str, Any],
    src: str = "u8",
    weights: str = "s8",
    dst: str = "s8",
    *,
    compute: str = "f32",
    bias: str | None = None,
    bias_add: bool = False,
    epilogue: Sequence[str] = (),
    residual: str | None = None,
    per_channel: bool = False,
    dst_per_channel: bool = False,
    src_zero_point: int = 0,
    weights_zero_point: int = 0,
    dst_zero_point: int = 0,
    residual_zero_point: int = 0,
    src_scale: float = SRC_SCALE,
    dst_scale: float = DST_SCALE,
    then: Callable[[Value], Value] | None = None,
) -> GraphBuilder:
    """Dequantize source and weights, multiply or convolve, bias, post-ops, quantize.

    Parameters
    ----------
    kind : str
        Convolution, ConvTranspose or MatMul.
    source, shape : sequence of int
        Shapes of source and weights.
    axis : int
        The dim of the weights' output channels.
    attributes : dict
    src, weights, dst : str
        Data types; weights in f32 are quantized by the graph, a float destination has no Quantize.
    compute : str
        What the op computes in; others than f32 come from and go through TypeCast.
    bias : str, optional
        Its data type.
    bias_add : bool
        A BiasAdd instead of the op's third input.
    epilogue : sequence of str
        Unary and Binary ops.
    residual : str, optional
        Data type of a quantized tensor that is added before the epilogue.
    per_channel, dst_per_channel : bool
        Weights and destination have a scale for each output channel.
    src_zero_point, weights_zero_point, dst_zero_point, residual_zero_point : int
    src_scale, dst_scale : float
    then : callable, optional
        Adds further ops before the Quantize.
    """
    b = GraphBuilder()
    x = dequantized(
        b.input(source, src, name="src"), compute, scale=src_scale, zero_point=src_zero_point
    )
    w = dequantized_weights(
        b,
        shape,
        weights,
        compute,
        axis=axis,
        per_channel=per_channel,
        zero_point=weights_zero_point,
    )
    offset = None if bias is None else bias_of(b, shape[axis], bias, compute)
    third = [] if offset is None or bias_add else [offset]
    y: Value = b.op(kind, x, w, *third, **attributes)
    if offset is not None and bias_add:
        y = y.bias_add(offset)
    y = post_ops(y, epilogue, residual=residual, residual_zero_point=residual_zero_point)
    if then is not None:
        y = then(y)
    b.output(
        finished(y, dst, scale=dst_scale, zero_point=dst_zero_point, per_channel=dst_per_channel)
    )
    return b
