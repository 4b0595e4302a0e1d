"""Other ways to write quantization: oneDNN has few kernels for zero points of channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ..building.builder import GraphBuilder
from ..building.constant_arrays import unpacked
from ..building.value import Node, Value
from ..ops.lookup import with_trait
from ..ops.rules import channel_axis
from .writing import Ops

__all__ = ["with_a_scale_for_each_input_channel", "with_separate_arithmetic"]

Shape = tuple[int, ...]
Shapes = dict[int, Shape]

_UNIT = {"qtype": "per_tensor", "scales": (1.0,)}


def _constant(ops: Ops, array: npt.ArrayLike) -> Value:
    elements = np.ascontiguousarray(array, np.float32)
    made = ops.value(elements.shape, "f32")
    made.data = elements
    return made


def _in_f32(ops: Ops, value: Value) -> Value:
    """Convert integers or floats; oneDNN may have no op for that."""
    if value.dtype == "f32":
        return value
    if value.data is not None:
        return _constant(ops, unpacked(value.data, value.shape, value.dtype).astype(np.float32))
    made = ops.value(ops.shapes[value.id], "f32")
    if value.dtype in ("s4", "u4"):
        one = _constant(ops, [1.0])
        ops.add("DynamicDequantize", (value, one), (made,), {"qtype": "per_tensor"})
    else:
        halves = value.dtype in ("bf16", "f16")
        ops.add("TypeCast" if halves else "Dequantize", (value,), (made,), {} if halves else _UNIT)
    return made


def _axis(node: Node, shape: Shape, count: int) -> int | None:
    return channel_axis(shape, int(node.attr("axis")) % len(shape), count)


def _quantization(kind: str) -> bool:
    return kind in with_trait("dequantizes") | with_trait("quantizes")


def with_a_scale_for_each_input_channel(
    builder: GraphBuilder, node: Node, shapes: Shapes
) -> list[Node] | None:
    """Repeat the scales of a depthwise ConvTranspose's groups for all of their input channels."""
    shape, scales = shapes[node.inputs[0].id], node.attrs.get("scales", ())
    if not _quantization(node.kind) or len(scales) < 2:
        return None
    axis = _axis(node, shape, len(scales))
    if axis is None or axis == int(node.attr("axis")) % len(shape):
        return None
    attrs = {**node.attrs, "axis": axis}
    for name in ("scales", "zps"):
        if attrs.get(name):
            attrs[name] = tuple(np.repeat(attrs[name], shape[axis] // len(scales)).tolist())
    return [replace(node, attrs=attrs)]


def _split(shape: Sequence[int], counts: Sequence[int]) -> tuple[Shape, Shape]:
    """Return a shape whose groups of several elements have dims of their own, and a group's."""
    apart: list[int] = []
    groups: list[int] = []
    for d, count in zip(shape, counts, strict=True):
        apart += [d] if count in (1, d) else [count, d // count]
        groups += [count] if count in (1, d) else [count, 1]
    return tuple(apart), tuple(groups)


def with_separate_arithmetic(
    builder: GraphBuilder, node: Node, shapes: Shapes
) -> list[Node] | None:
    """Scale and shift by separate ops in f32, in which integers with zero points are exact."""
    dynamic = node.kind.startswith("Dynamic")
    if not _quantization(node.kind) or (node.attr("qtype") == "per_tensor" and not dynamic):
        return None
    ops = Ops(builder, node, shapes)
    (source, *parameters), (target,) = node.inputs, node.outputs
    shape = shapes[source.id]
    if not dynamic:
        zps = node.attrs.get("zps") or (0,)
        listed = [node.attrs["scales"], *([zps] if any(zps) else [])]
        parameters = [_constant(ops, values) for values in listed]
    counts = [1] * len(shape)
    if node.attr("qtype") == "per_group":
        counts = list(shapes[parameters[0].id])
    elif (count := math.prod(shapes[parameters[0].id])) > 1:
        axis = _axis(node, shape, count)
        if axis is None:
            return None
        counts[axis] = count
    apart, groups = _split(shape, counts)
    scales, *shifts = (
        ops.reshape(v, (1,) * len(apart) if math.prod(shapes[v.id]) == 1 else groups)
        for v in [_in_f32(ops, v) for v in parameters]
    )
    if node.kind in with_trait("dequantizes"):
        y = ops.reshape(_in_f32(ops, source), apart)
        for shift in shifts:
            y = ops.op("Subtract", y, shift)
        y = ops.reshape(ops.op("Multiply", y, scales), shape)
        if target.dtype != "f32":
            ops.add("TypeCast", (y,), (target,), {})
    else:
        y = ops.op("Divide", ops.reshape(source, apart), scales)
        for shift in shifts:
            y = ops.op("Add", y, shift)
        ops.add("Quantize", (ops.reshape(y, shape),), (target,), _UNIT)
    return ops.end()
