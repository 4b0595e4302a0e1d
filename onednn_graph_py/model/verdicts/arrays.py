"""Make a subject's ops for the reference, and the arrays for judging it."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ...reference.rounding import integer_limits, round_to
from ..building.builder import GraphBuilder
from ..building.value import Value
from ..checking.filling import Fill, filled, fills_of
from ..checking.telling import telling
from .portion import Picks, part_of, shapes_of
from .subject import Subject

Array = npt.NDArray[Any]

_PERIOD = 65537
"""Number of elements after which large tensors repeat; it is prime, so that rows differ."""


def written(
    subject: Subject,
    shapes: Mapping[int, tuple[int, ...]],
    constants: Mapping[int, Array],
    picks: Picks,
) -> tuple[GraphBuilder, dict[int, Value]]:
    """Build the ops for tensors of these shapes; return the builder, and its values by number."""
    builder = GraphBuilder(
        subject.engine_kind, subject.fpmath_mode, apply_to_int=subject.apply_to_int
    )
    values: dict[int, Value] = {}
    for t in subject.inputs:
        tensor = subject.tensors[t]
        if t in constants:
            values[t] = builder.constant(constants[t], tensor.dtype)
        else:
            values[t] = builder.input(shapes[t], tensor.dtype)
        if not picks:
            values[t].strides = tensor.strides
    for op in subject.ops:
        outputs = [(shapes[t], subject.tensors[t].dtype) for t in op.outputs]
        inputs = [values[t] for t in op.inputs]
        made = builder.op(op.kind, *inputs, outputs=outputs, **part_of(op, shapes, picks))
        values.update(zip(op.outputs, made if isinstance(made, tuple) else (made,), strict=True))
    builder.output(**{str(t): values[t] for t in subject.outputs})
    return builder, values


def _numbers(fill: Fill, shape: tuple[int, ...], dtype: str, number: int, seed: int = 0) -> Array:
    count = math.prod(shape)
    if count <= _PERIOD or fill.kind == "mask":
        return filled(fill, shape, dtype, seed=seed, number=number)
    some = filled(fill, (_PERIOD,), dtype, seed=seed, number=number)
    made = np.resize(some, count).reshape(shape)
    if fill.kind == "mostly true":
        made[..., 0] = True
    return made


def draws_of(subject: Subject) -> Iterator[dict[int, Array]]:
    """Make arrays several times, until each scale and other entry of a channel shows."""
    known: dict[int, Array] = {}
    for t in subject.inputs:
        tensor = subject.tensors[t]
        if tensor.value is not None:
            known[t] = round_to(np.full(tensor.shape, tensor.value), tensor.dtype)
        elif tensor.limits is not None:
            # Numbers as large as the constant's own, whatever range the other inputs need.
            least, most = integer_limits(tensor.dtype)
            low, high = max(tensor.limits[0], least), min(tensor.limits[1], most)
            known[t] = _numbers(Fill("whole", low, high), tensor.shape, tensor.dtype, t)
    builder, values = written(subject, shapes_of(subject, {}), known, {})
    fills = fills_of(builder)
    drawn = [t for t in subject.inputs if t not in known]
    for t in drawn:
        fill = fills[values[t].id]
        if (fill.low, fill.high) == (-63, 63):
            # This range keeps products of weights from saturating; unknown weights may do so.
            fills[values[t].id] = Fill(fill.kind, *integer_limits(subject.tensors[t].dtype))

    def draw(seed: int) -> list[Array]:
        tensors = [(t, subject.tensors[t]) for t in drawn]
        return [_numbers(fills[values[t].id], of.shape, of.dtype, t, seed) for t, of in tensors]

    for arrays in telling(builder, draw):
        yield {**known, **dict(zip(drawn, arrays, strict=True))}
