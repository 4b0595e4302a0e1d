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

__all__ = ["ALTERNATIVES", "Shapes", "complete"]

Shapes = dict[int, tuple[int, ...]]
"""Shapes by a value's id; the functions here add those of the values that they make."""

Alternative = Callable[[GraphBuilder, Node, Shapes], list[Node] | None]

_HALVES = ("bf16", "f16")


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
    """Copy inputs that are strided and not row-major."""
    copies: dict[int, Value] = {}
    before = []
    for value in node.inputs:
        if value.strides in (None, row_major(shapes[value.id])) or value.id in copies:
            continue
        copies[value.id] = _value(builder, value, shapes, value.dtype)
        before.append(_op("Reorder", node, value, copies[value.id]))
    if not before or node.kind == "Reorder":
        return None
    return [*before, replace(node, inputs=tuple(copies.get(v.id, v) for v in node.inputs))]


ALTERNATIVES: tuple[tuple[str, Alternative], ...] = (
    ("with row-major inputs", with_row_major_inputs),
    ("with its first operand transposed by a separate op", without_transpose_a),
    ("with its axis transposed by separate ops", with_axis_last),
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
