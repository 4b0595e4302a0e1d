"""Other ways to write quantization: oneDNN has few kernels for zero points of channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..building.builder import GraphBuilder
from ..building.constant_arrays import unpacked
from ..building.value import Node, Value, new_id
from ..ops.lookup import with_trait
from ..ops.rules import channel_axis

__all__ = ["with_a_scale_for_each_input_channel", "with_separate_arithmetic"]

Shape = tuple[int, ...]
Shapes = dict[int, Shape]

_UNIT = {"qtype": "per_tensor", "scales": (1.0,)}


class _Writing:
    """Writes ops in place of a node."""

    def __init__(self, builder: GraphBuilder, node: Node, shapes: Shapes) -> None:
        self.nodes: list[Node] = []
        self._builder, self._node, self._shapes = builder, node, shapes

    def _value(self, shape: Shape) -> Value:
        made = Value(self._builder, shape, "f32", self._node.name)
        self._shapes[made.id] = shape
        return made

    def constant(self, array: npt.NDArray[Any]) -> Value:
        made = self._value(array.shape)
        made.data = np.ascontiguousarray(array, np.float32)
        return made

    def op(self, kind: str, *inputs: Value, shape: Shape | None = None, **attrs: Any) -> Value:
        """Add an op whose result has the first input's shape by default; return the result."""
        made = self._value(self._shapes[inputs[0].id] if shape is None else shape)
        name, where = self._node.name, self._node.where
        self.nodes.append(Node(new_id(), kind, name, inputs, (made,), attrs, where))
        return made

    def reshaped(self, value: Value, shape: Shape) -> Value:
        if self._shapes[value.id] == shape:
            return value
        if value.data is not None:
            return self.constant(value.data.reshape(shape))
        return self.op("StaticReshape", value, shape=shape, special_zero=False)

    def in_f32(self, value: Value) -> Value:
        """Convert integers or floats; oneDNN may have no op for that."""
        if value.data is not None:
            return self.constant(unpacked(value.data, value.shape, value.dtype).astype(np.float32))
        if value.dtype in ("s8", "u8", "f8_e4m3", "f8_e5m2"):
            return self.op("Dequantize", value, **_UNIT)
        if value.dtype in ("s4", "u4"):
            one = self.constant(np.ones(1))
            return self.op("DynamicDequantize", value, one, qtype="per_tensor")
        return value if value.dtype == "f32" else self.op("TypeCast", value)

    def done(self, target: Value) -> list[Node]:
        """Return the ops, of which the last makes the node's result."""
        *before, last = self.nodes
        return [*before, replace(last, id=self._node.id, outputs=(target,))]


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
    writing = _Writing(builder, node, shapes)
    (source, *parameters), (target,) = node.inputs, node.outputs
    shape = shapes[source.id]
    if not dynamic:
        zps = node.attrs.get("zps") or (0,)
        listed = [node.attrs["scales"], *([zps] if any(zps) else [])]
        parameters = [writing.constant(np.float32(values)) for values in listed]
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
        writing.reshaped(v, (1,) * len(apart) if math.prod(shapes[v.id]) == 1 else groups)
        for v in map(writing.in_f32, parameters)
    )
    if node.kind in with_trait("dequantizes"):
        y = writing.reshaped(writing.in_f32(source), apart)
        for shift in shifts:
            y = writing.op("Subtract", y, shift)
        y = writing.reshaped(writing.op("Multiply", y, scales), shape)
        if target.dtype != "f32":
            writing.op("TypeCast", y)
    else:
        y = writing.op("Divide", writing.reshaped(source, apart), scales)
        for shift in shifts:
            y = writing.op("Add", y, shift)
        writing.op("Quantize", writing.reshaped(y, shape), **_UNIT)
    return writing.done(target)
