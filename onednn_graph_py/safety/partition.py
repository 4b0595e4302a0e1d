"""Ops that run together: the shapes that follow from one for the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import InvalidGraphOpError
from ..ops.call import Shape
from .calls import Op, Tensor, call_of
from .limits import check_limits
from .strides import check_strides

__all__ = ["check_together"]


def _overridden(before: Shape, by: Shape) -> Shape:
    """What is known after somebody told more; where they differ the later counts."""
    if by is None:
        return before
    if before is None or len(before) != len(by):
        return by
    return tuple(b if b >= 0 else a for a, b in zip(before, by, strict=True))


def _check_one(op: Op, known: dict[int, Shape]) -> None:
    """Check an op whose inputs are settled, and note what follows for its outputs."""
    if op.schema is None:
        return
    call = call_of(op, op.schema, known)
    check_limits(call)
    inferred = op.schema.infer(call)
    for output, operand, shape in zip(op.outputs, call.outputs, inferred, strict=False):
        operand.need_shape(shape, "as follows from its inputs and attributes")
        known[output.id] = _overridden(shape, operand.shape)


def check_together(ops: Sequence[Op], given: Mapping[int, Tensor]) -> dict[int, Shape]:
    """Check ops in the order of their dependencies.

    Parameters
    ----------
    ops : sequence of Op
    given : mapping of int to Tensor
        What is known of tensors beyond what the ops say, by id.

    Returns
    -------
    dict of int to Shape
        What is known of all tensors in the end, by id.

    Raises
    ------
    InvalidShapeError
        Shapes or strides would crash oneDNN.
    InvalidGraphOpError
        An op depends on its own output.
    """
    known: dict[int, Shape] = {}
    for op in ops:
        check_strides(op, given)
        for tensor in (*op.inputs, *op.outputs):
            known[tensor.id] = _overridden(known.get(tensor.id), tensor.shape)
    for tensor in given.values():
        known[tensor.id] = _overridden(known.get(tensor.id), tensor.shape)

    unsettled = {t.id for op in ops for t in op.outputs}
    left = list(ops)
    while left:
        later = []
        for op in left:
            if any(t.id in unsettled for t in op.inputs):
                later.append(op)
                continue
            _check_one(op, known)
            unsettled.difference_update(t.id for t in op.outputs)
        if len(later) == len(left):
            raise InvalidGraphOpError(f"{later[0].label} depends on its own output")
        left = later
    return known
