"""Other ways to write an op that oneDNN computes wrongly as it is written.

Each function takes a node with the shapes of its tensors, and returns nodes that compute the same,
one of which keeps the node's id, or None if it does not apply. It adds the shapes of new values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..building.builder import GraphBuilder
from ..building.value import Node, Value, new_id, row_major
from .quantization import with_a_scale_for_each_input_channel, with_separate_arithmetic

__all__ = ["ALTERNATIVES", "REORDERED", "Shapes", "complete"]

Shapes = dict[int, tuple[int, ...]]
"""Shapes by a value's id; the functions here add those of the values that they make."""

Alternative = Callable[[GraphBuilder, Node, Shapes], list[Node] | None]

_HALVES = ("bf16", "f16")

REORDERED = ("f32", "bf16", "f16")
"""The data types of tensors that oneDNN can copy with an op."""


def _value(
    builder: GraphBuilder, like: Value, shapes: Shapes, dtype: str, order: Sequence[int] = ()
) -> Value:
    shape = shapes[like.id]
    shape = tuple(shape[i] for i in order) if order else shape
    made = Value(builder, shape, dtype, like.name)
    shapes[made.id] = shape
    return made


def _op(kind: str, of: Node, source: Value, made: Value, **attrs: Any) -> Node:
    return Node(new_id(), kind, of.name, (source,), (made,), attrs, of.where)


def in_f32(builder: GraphBuilder, node: Node, shapes: Shapes) -> list[Node] | None:
    """Cast 16-bit inputs to f32, and 16-bit outputs back; the result is rounded once, as before."""
    values = (*node.inputs, *node.outputs)
    if not any(v.dtype in _HALVES for v in values) or node.kind == "TypeCast":
        return None
    before, after = [], []
    inputs: dict[int, Value] = {}
    for value in node.inputs:
        if value.dtype in _HALVES and value.id not in inputs:
            wide = inputs[value.id] = _value(builder, value, shapes, "f32")
            before.append(_op("TypeCast", node, value, wide))
    outputs = []
    for value in node.outputs:
        wide = value
        if value.dtype in _HALVES:
            wide = _value(builder, value, shapes, "f32")
            after.append(_op("TypeCast", node, wide, value))
        outputs.append(wide)
    taken = tuple(inputs.get(v.id, v) for v in node.inputs)
    return [*before, replace(node, inputs=taken, outputs=tuple(outputs)), *after]


def without_transpose_a(builder: GraphBuilder, node: Node, shapes: Shapes) -> list[Node] | None:
    """Transpose a product's first operand by a separate op."""
    source = node.inputs[0] if node.inputs else None
    if node.kind != "MatMul" or source is None or not node.attrs.get("transpose_a"):
        return None
    rank = len(shapes[source.id])
    if rank < 2:
        return None
    order = (*range(rank - 2), rank - 1, rank - 2)
    turned = _value(builder, source, shapes, source.dtype, order)
    attrs = {k: v for k, v in node.attrs.items() if k != "transpose_a"}
    return [
        _op("StaticTranspose", node, source, turned, order=order),
        replace(node, inputs=(turned, *node.inputs[1:]), attrs=attrs),
    ]


def with_axis_last(builder: GraphBuilder, node: Node, shapes: Shapes) -> list[Node] | None:
    """Transpose the axis of a SoftMax to the end by separate ops, and back."""
    if node.kind != "SoftMax":
        return None
    source = node.inputs[0]
    rank = len(shapes[source.id])
    axis = int(node.attr("axis")) % rank
    if axis == rank - 1:
        return None
    order = (*range(axis), *range(axis + 1, rank), axis)
    back = (*range(axis), rank - 1, *range(axis, rank - 1))
    turned = _value(builder, source, shapes, source.dtype, order)
    outputs = tuple(_value(builder, v, shapes, v.dtype, order) for v in node.outputs)
    return [
        _op("StaticTranspose", node, source, turned, order=order),
        replace(node, inputs=(turned,), outputs=outputs, attrs={**node.attrs, "axis": -1}),
        *(
            _op("StaticTranspose", node, made, value, order=back)
            for made, value in zip(outputs, node.outputs, strict=True)
        ),
    ]


def with_row_major_inputs(builder: GraphBuilder, node: Node, shapes: Shapes) -> list[Node] | None:
    """Copy inputs that are strided and not row-major; no op copies others than floats."""
    copies: dict[int, Value] = {}
    before = []
    for value in node.inputs:
        if value.strides in (None, row_major(shapes[value.id])) or value.id in copies:
            continue
        if value.dtype not in REORDERED:
            continue
        copies[value.id] = _value(builder, value, shapes, value.dtype)
        before.append(_op("Reorder", node, value, copies[value.id]))
    if not before or node.kind == "Reorder":
        return None
    return [*before, replace(node, inputs=tuple(copies.get(v.id, v) for v in node.inputs))]


def with_gradients_of_parameters(
    builder: GraphBuilder, node: Node, shapes: Shapes
) -> list[Node] | None:
    """Let a batch normalization's gradient also make those of gamma and beta, which nobody reads.

    Without gamma it needs one: the mean, clamped to 1.
    """
    if node.kind != "BatchNormTrainingBackward" or len(node.outputs) > 1:
        return None
    mean = node.inputs[2]
    made = [_value(builder, mean, shapes, mean.dtype) for _ in range(3)]
    before = [] if node.inputs[4:] else [_op("Clamp", node, mean, made[2], min=1.0, max=1.0)]
    inputs = node.inputs if node.inputs[4:] else (*node.inputs, made[2])
    return [*before, replace(node, inputs=inputs, outputs=(*node.outputs, *made[:2]))]


def with_pixels_taken_before(
    builder: GraphBuilder, node: Node, shapes: Shapes
) -> list[Node] | None:
    """Take the pixels that a strided convolution with a kernel of 1 reads by a pooling before."""
    if node.kind != "ConvolutionBackwardWeights":
        return None
    source, gradient = (shapes[v.id] for v in node.inputs[:2])
    made = shapes[node.outputs[0].id]
    first = str(node.attr("weights_format")).startswith("X")
    kernel = made[:-2] if first else made[2:]
    if set(kernel) != {1} or any((*node.attrs["pads_begin"], *node.attrs["pads_end"])):
        return None
    last = node.attr("data_format") == "NXC"
    channels = source[-1 if last else 1]
    taken = Value(builder, None, node.inputs[0].dtype, node.inputs[0].name)
    shapes[taken.id] = (
        (*gradient[:-1], channels) if last else (gradient[0], channels, *gradient[2:])
    )
    none = (0,) * len(kernel)
    window = {"kernel": kernel, "pads_begin": none, "pads_end": none, "exclude_pad": False}
    attrs = {"strides": node.attrs["strides"], "data_format": node.attr("data_format"), **window}
    rest = {**node.attrs, "strides": kernel}
    return [
        _op("AvgPool", node, node.inputs[0], taken, **attrs),
        replace(node, inputs=(taken, *node.inputs[1:]), attrs=rest),
    ]


def with_unit_strides(builder: GraphBuilder, node: Node, shapes: Shapes) -> list[Node] | None:
    """Write a stride of 1 where a convolution has one window, and no padding behind it."""
    if node.kind != "Convolution" or str(node.attr("auto_pad")) != "None":
        return None
    dims, weights, made = (shapes[v.id] for v in (*node.inputs[:2], node.outputs[0]))
    kernel = weights[:-2] if str(node.attr("weights_format")).startswith("X") else weights[2:]
    last = str(node.attr("data_format")) == "NXC"
    dims, made = (d[1:-1] if last else d[2:] for d in (dims, made))
    attrs = {n: list(node.attrs[n]) for n in ("strides", "pads_end")}
    for i, windows in enumerate(made):
        extent = node.attrs["dilations"][i] * (kernel[i] - 1) + 1
        padded = extent - dims[i] - node.attrs["pads_begin"][i]
        if windows == 1 and padded >= 0:
            attrs["strides"][i], attrs["pads_end"][i] = 1, padded
    return [replace(node, attrs={**node.attrs, **attrs})]


ALTERNATIVES: tuple[tuple[str, Alternative], ...] = (
    ("with strides of 1 where it has one window", with_unit_strides),
    ("with its pixels taken by a separate op", with_pixels_taken_before),
    ("with gradients of its parameters too", with_gradients_of_parameters),
    ("with row-major inputs", with_row_major_inputs),
    ("with its first operand transposed by a separate op", without_transpose_a),
    ("with its axis transposed by separate ops", with_axis_last),
    ("with a scale for each input channel", with_a_scale_for_each_input_channel),
    ("with separate ops that scale and shift", with_separate_arithmetic),
    ("in f32", in_f32),
)
"""The ways to write an op, each with its name in messages; the cheap ones come first."""


def complete(node: Node, shapes: Shapes) -> Node:
    """Add attributes that oneDNN needs and that the shapes determine.

    Without `src_shape` AvgPoolBackward ends the process (3.7 to 3.13).
    """
    if node.kind == "AvgPoolBackward" and not node.attrs.get("src_shape") and len(node.inputs) == 1:
        return replace(node, attrs={**node.attrs, "src_shape": shapes[node.outputs[0].id]})
    return node
