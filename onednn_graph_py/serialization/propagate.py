"""From changed inputs and attributes to the shapes and strides of all that ops make of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from .._core import UNKNOWN_DIM
from ..errors import InvalidShapeError, OneDNNError, reworded
from ..ops.check import check
from ..ops.lookup import row, with_attribute, with_trait
from .document import AttributeRecord, GraphDocument, OpRecord, Place, TensorRecord
from .links import in_order
from .tags import strides_of, tag_of

__all__ = ["Layouts", "propagate"]


@dataclass
class Layouts:
    """The graph's inputs as they are to be, by tensor id, and what the caller set himself.

    Parameters
    ----------
    shapes : dict of int to tuple of int or None
        None where not even the rank is known.
    strides : dict of int to tuple of int
        In elements; empty where they are not known.
    changed : set of int
        Ids of the tensors that are not as the file has them.
    order_changed : bool
        The order of some input's dims in memory is another than in the file.
    attrs : set of (int, str)
        Index into ``graph`` and name of the attributes that the caller set.
    """

    shapes: dict[int, tuple[int, ...] | None]
    strides: dict[int, tuple[int, ...]]
    changed: set[int]
    order_changed: bool
    attrs: set[tuple[int, str]]


def propagate(document: GraphDocument, layouts: Layouts, *, infer_all: bool) -> GraphDocument:
    """Infer what follows from `layouts`, op by op.

    Parameters
    ----------
    document : GraphDocument
        Whose attributes and kinds are as they are to be.
    layouts : Layouts
        Of the inputs; all tensors are added to it.
    infer_all : bool
        All shapes and strides are inferred, and not only those of changed tensors.

    Returns
    -------
    GraphDocument

    Raises
    ------
    InvalidShapeError
        Shapes don't fit together, or do not follow.
    OneDNNError
        An op is not right. All messages begin with the place of the op.
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
            raise reworded(e, f"graph[{i}]: {e}") from None
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
    """The shape in the file, of an output that no rule tells, if that can still be right."""
    if any(t.id in layouts.changed for t in op.inputs):
        raise InvalidShapeError(
            f"{place}: the shape of tensor {tensor.id} does not follow from what {op.kind} reads, "
            "which has changed"
        )
    return tensor.dims


def _strides(
    op: OpRecord, tensor: TensorRecord, shape: tuple[int, ...] | None, layouts: Layouts
) -> tuple[int, ...]:
    """An output's, by benchdnn's rule.

    The dims lie in the order in which the file has them, or, where an input's order is another
    than in the file, in the order that the op's first input has, but row-major where elements move.
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
    """The op with those attributes that hold what a shape says, as they must be now."""
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
    """Repeat scales to as many as there are channels; zero points beyond the file's are 0."""
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
    """A reshape that keeps the first dim keeps it, whatever it becomes."""
    target: Any = op.values.get("shape", ())
    if not (before and shape and target) or len(before) != len(shape):
        return
    if target[0] == before[0] != shape[0] and before[1:] == shape[1:]:
        attrs["shape"] = replace(attrs["shape"], value=(shape[0], *target[1:]))
