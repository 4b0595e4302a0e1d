"""Infer the shapes and strides of ops' outputs after inputs or attributes changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from onednn_graph_py._core import UNKNOWN_DIM
from onednn_graph_py.base.errors import GraphFormatError, InvalidShapeError, OneDNNError, reworded
from onednn_graph_py.base.text.names import printable
from onednn_graph_py.ops.check import check
from onednn_graph_py.ops.lookup import row, with_attribute, with_trait
from onednn_graph_py.serialization.document import (
    AttributeRecord,
    GraphDocument,
    OpRecord,
    Place,
    TensorRecord,
)
from onednn_graph_py.serialization.links import in_order
from onednn_graph_py.serialization.tags import strides_of, tag_of


@dataclass
class Layouts:
    """The new shapes and strides of tensors, by id, and the attributes that the caller set."""

    shapes: dict[int, tuple[int, ...] | None]  # None if not even the rank is known
    strides: dict[int, tuple[int, ...]]  # in elements; empty if they are not known
    changed: set[int]  # ids of the tensors that differ from the file
    order_changed: bool  # whether the order of an input's dims in memory differs from the file
    # set of (int, str), the attributes that the caller set: index into `graph`, and name
    attrs: set[tuple[int, str]]


def propagate(document: GraphDocument, layouts: Layouts, *, infer_all: bool) -> GraphDocument:
    """Infer shapes, strides and dependent attributes from the inputs' layouts, op by op.

    - `document`: it has the new attributes and kinds already
    - `layouts`: the layouts of the inputs; those of all other tensors are added to it
    - `infer_all`: infer all shapes and strides, not only those of changed tensors
    - raises `InvalidShapeError`: shapes don't fit together, or an output's shape can't be inferred
    - raises `OneDNNError`: an op is invalid. All messages begin with the place of the op.
    """
    known = document.tensors()
    graph = list(document.graph)
    touched = {i for i, _ in layouts.attrs}
    for i in in_order(document):
        op = graph[i]
        stale = infer_all or i in touched or any(t.id in layouts.changed for t in op.inputs)
        if not stale:
            for t in op.outputs:
                layouts.shapes[t.id], layouts.strides[t.id] = t.dims, t.strides or ()
            continue
        try:
            graph[i] = op = _fitted(op, i, layouts, known)
            made = check(
                op.kind,
                [(layouts.shapes[t.id], None) for t in op.inputs],
                op.values,
                [(None, None) for _ in op.outputs],
                name=op.name,
                id=op.id,
            )
        except OneDNNError as e:
            raise reworded(e, printable(f"graph[{i}]: {e}")) from None
        except TypeError as e:
            raise GraphFormatError(f"graph[{i}]: {e}") from None
        for k, (tensor, spec) in enumerate(zip(op.outputs, made, strict=True)):
            shape = spec.shape
            if shape is None:
                shape = _kept(op, Place(i, "outputs", k), tensor, layouts)
            layouts.shapes[tensor.id] = shape
            layouts.strides[tensor.id] = _strides(op, tensor, shape, layouts)
            if shape != tensor.dims or layouts.strides[tensor.id] != tensor.strides:
                layouts.changed.add(tensor.id)
    wanted = set(known) if infer_all else layouts.changed

    def told(tensor: TensorRecord) -> TensorRecord:
        if tensor.id not in wanted:
            return tensor
        shape, strides = layouts.shapes[tensor.id], layouts.strides[tensor.id]
        if shape is None:
            return tensor
        if any(d < 0 for d in shape):
            strides = ()
        return replace(
            tensor,
            shape=tuple(UNKNOWN_DIM if d < 0 else d for d in shape),
            stride=strides if shape == () or strides else (UNKNOWN_DIM,) * len(shape),
        )

    return replace(document, graph=tuple(graph)).with_tensors(told)


def _kept(
    op: OpRecord, place: Place, tensor: TensorRecord, layouts: Layouts
) -> tuple[int, ...] | None:
    """Return the file's shape of an output that can't be inferred, if it can still be right."""
    if any(t.id in layouts.changed for t in op.inputs):
        raise InvalidShapeError(
            f"{place}: the shape of tensor {tensor.id} does not follow from what {op.kind} reads, "
            "which has changed"
        )
    return tensor.dims


def _strides(
    op: OpRecord, tensor: TensorRecord, shape: tuple[int, ...] | None, layouts: Layouts
) -> tuple[int, ...]:
    """Return an output's strides, in elements, by benchdnn's rule.

    The dims keep the order that they have in the file. If an input's order differs from the file,
    they take the order of the op's first input, or are row-major if the op moves elements.
    """
    if shape is None:
        return ()
    if not layouts.order_changed:
        tag = tag_of(tensor.stride, len(tensor.shape))
    elif op.kind in with_trait("moves") or not op.inputs:
        tag = ""
    else:
        first = layouts.shapes[op.inputs[0].id]
        tag = tag_of(layouts.strides[op.inputs[0].id], len(first or ()))
    return strides_of(shape, tag if len(tag) == len(shape) else "")


def _fitted(op: OpRecord, i: int, layouts: Layouts, known: Mapping[int, TensorRecord]) -> OpRecord:
    """Return the op with the attributes that depend on shapes fitted to the new shapes."""
    shape = layouts.shapes[op.inputs[0].id] if op.inputs else None
    if shape is None:
        return op
    attrs = dict(op.attrs)
    if op.kind in with_attribute("zps") and op.values.get("qtype") == "per_channel":
        _fit_channels(op, i, shape, layouts, attrs)
    elif op.kind == "StaticReshape" and (i, "shape") not in layouts.attrs:
        _fit_batch(op, shape, known[op.inputs[0].id].dims, attrs)
    return op if attrs == op.attrs else replace(op, attrs=attrs)


def _fit_channels(
    op: OpRecord,
    i: int,
    shape: tuple[int, ...],
    layouts: Layouts,
    attrs: dict[str, AttributeRecord],
) -> None:
    """Give each channel a scale, repeating the file's, and a zero point, adding zeros."""
    axis: Any = row(op.kind).value_of("axis", op.values)
    if not -len(shape) <= axis < len(shape) or shape[axis] < 0:
        return
    count = shape[axis]
    scales: Any = op.values.get("scales", ())
    if scales and (i, "scales") not in layouts.attrs:
        repeated = tuple(scales[k % len(scales)] for k in range(count))
        attrs["scales"] = replace(attrs["scales"], value=repeated)
    zps: Any = op.values.get("zps", ())
    if zps and (i, "zps") not in layouts.attrs:
        attrs["zps"] = replace(attrs["zps"], value=(*zps, *[0] * count)[:count])


def _fit_batch(
    op: OpRecord,
    shape: tuple[int, ...],
    before: tuple[int, ...] | None,
    attrs: dict[str, AttributeRecord],
) -> None:
    """Let a reshape that keeps the first dim keep it at its new size."""
    target: Any = op.values.get("shape", ())
    if not (before and shape and target) or len(before) != len(shape):
        return
    if target[0] == before[0] != shape[0] and before[1:] == shape[1:]:
        attrs["shape"] = replace(attrs["shape"], value=(shape[0], *target[1:]))
