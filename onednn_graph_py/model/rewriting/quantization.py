"""Other ways to write quantization: oneDNN has few kernels for zero points of channels."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ...ops.lookup import with_trait
from ...ops.rules import channel_axis
from ..building.constant_arrays import unpacked
from ..building.value import Node, Value
from .rule import Dims, Ops

_UNIT = {"qtype": "per_tensor", "scales": (1.0,)}


def _constant(ops: Ops, array: npt.ArrayLike) -> Value:
    return ops.constant(np.ascontiguousarray(array, np.float32), "f32")


def _in_f32(ops: Ops, value: Value) -> Value:
    """Convert integers or floats; oneDNN may have no op for that."""
    if value.dtype == "f32":
        return value
    if value.data is not None:
        return _constant(ops, unpacked(value.data, value.shape, value.dtype).astype(np.float32))
    if value.dtype in ("s4", "u4"):
        one = _constant(ops, [1.0])
        return ops.op("DynamicDequantize", value, one, qtype="per_tensor")
    if value.dtype in ("bf16", "f16"):
        return ops.cast(value, "f32")
    made = ops.like(value, dtype="f32")
    ops.add("Dequantize", (value,), (made,), _UNIT)  # which is refused for s32
    return made


def _axis(node: Node, shape: Dims, count: int) -> int | None:
    return channel_axis(shape, int(node.attr("axis")) % len(shape), count)


def with_a_scale_for_each_input_channel(ops: Ops, node: Node) -> bool:
    """Repeat the scales of a depthwise ConvTranspose's groups for all of their input channels."""
    shape, scales = ops.shapes[node.inputs[0].id], node.attrs.get("scales", ())
    if len(scales) < 2:
        return False
    axis = _axis(node, shape, len(scales))
    if axis is None or axis == int(node.attr("axis")) % len(shape):
        return False
    repeated = {
        name: tuple(np.repeat(node.attrs[name], shape[axis] // len(scales)).tolist())
        for name in ("scales", "zps")
        if node.attrs.get(name)
    }
    ops.same(axis=axis, **repeated)
    return True


def _split(shape: Sequence[int], counts: Sequence[int]) -> tuple[Dims, Dims]:
    """Return a shape whose groups of several elements have dims of their own, and a group's."""
    apart: list[int] = []
    groups: list[int] = []
    for d, count in zip(shape, counts, strict=True):
        apart += [d] if count in (1, d) else [count, d // count]
        groups += [count] if count in (1, d) else [count, 1]
    return tuple(apart), tuple(groups)


def with_separate_arithmetic(ops: Ops, node: Node) -> bool:
    """Scale and shift by separate ops in f32, in which integers with zero points are exact."""
    dynamic = node.kind.startswith("Dynamic")
    if node.attr("qtype") == "per_tensor" and not dynamic:
        return False
    (source, *parameters), (target,) = node.inputs, node.outputs
    shape = ops.shapes[source.id]
    if not dynamic:
        zps = node.attrs.get("zps") or (0,)
        listed = [node.attrs["scales"], *([zps] if any(zps) else [])]
        parameters = [_constant(ops, values) for values in listed]
    counts = [1] * len(shape)
    if node.attr("qtype") == "per_group":
        counts = list(ops.shapes[parameters[0].id])
    elif (count := math.prod(ops.shapes[parameters[0].id])) > 1:
        axis = _axis(node, shape, count)
        if axis is None:
            return False
        counts[axis] = count
    apart, groups = _split(shape, counts)
    scales, *shifts = (
        ops.reshape(v, (1,) * len(apart) if math.prod(ops.shapes[v.id]) == 1 else groups)
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
    return True
