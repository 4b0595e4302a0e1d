"""Ops and logical tensors as plain values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy.typing as npt

from ..ops.call import Call, Operand
from ..ops.schema import OpSchema
from ..ops.table import OPS
from ..ops.terms import AttributeValue, Shape, Version

if TYPE_CHECKING:
    from .._core import logical_tensor


class Tensor(NamedTuple):
    """A logical tensor."""

    id: int
    dtype: str
    shape: Shape
    layout: str
    strides: tuple[int, ...] | None
    """The strides, in elements, of a strided layout with one or more dims, all known; else None."""
    mirror: logical_tensor  # the logical tensor itself, for messages
    data: npt.NDArray[Any] | None = None  # the elements of a constant, if they are known

    def _lies(self, least: int) -> bool:
        """Whether the dims from this size on have the strides of a contiguous array, or none."""
        if self.strides is None or self.shape is None:
            return True
        pairs = enumerate(zip(self.shape, self.strides, strict=True), start=1)
        return all(d < least or s == math.prod(self.shape[i:]) for i, (d, s) in pairs)

    @property
    def is_row_major(self) -> bool:
        """Whether it has no strides, or those of a contiguous array."""
        return self._lies(0)

    @property
    def is_in_order(self) -> bool:
        """Whether it lies as a contiguous array does, whatever the strides of unit dims are."""
        return self._lies(2)

    @property
    def has_gaps(self) -> bool:
        """Whether strides leave room between the elements."""
        if self.strides is None or self.shape is None or 0 in self.shape:
            return False
        reach = 1 + sum((d - 1) * s for d, s in zip(self.shape, self.strides, strict=True))
        return reach != math.prod(self.shape)


class Op(NamedTuple):
    """An op with its tensors, attributes and row of the table."""

    id: int
    kind: str
    label: str  # the op's name in messages: `op 3 'conv0' (Convolution)`
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    attrs: Mapping[str, AttributeValue]  # the attributes that are set; lists are tuples
    schema: OpSchema | None
    """The table's row for the oneDNN in question; None if that has no such op."""

    def attr(self, name: str) -> Any:
        """Return an attribute's value: the one that is set, or the default, or None."""
        if self.schema is None:
            return self.attrs.get(name)
        return self.schema.value_of(name, self.attrs)


def schema_of(kind: str, version: Version) -> OpSchema | None:
    """Return the table's row of a kind for a version of oneDNN; None if that has no such op."""
    row = OPS.get(kind)
    return None if row is None or version < row.since else row.at(version)


def op_of(described: tuple[Any, ...], version: Version) -> Op:
    """Make an `Op` of the values that the mirror passes, with the schema of a version."""
    id, kind, label, inputs, outputs, attrs = described
    return Op(
        id,
        kind,
        label,
        tuple(Tensor(*values) for values in inputs),
        tuple(Tensor(*values) for values in outputs),
        attrs,
        schema_of(kind, version),
    )


def operand_name(op: Op, ports: Literal["inputs", "outputs"], i: int) -> str:
    """Return an operand's name in messages, such as ``input 0 (src)``."""
    return f"{ports[:-1]} {i}" if op.schema is None else op.schema.operand_name(ports, i)


def call_of(op: Op, schema: OpSchema, shapes: Mapping[int, Shape]) -> Call:
    """Return the call that shape functions read; `shapes` has the tensors' shapes by id."""

    def operands(ports: Literal["inputs", "outputs"]) -> tuple[Operand, ...]:
        tensors: tuple[Tensor, ...] = getattr(op, ports)
        return tuple(
            Operand(op.label, operand_name(op, ports, i), shapes[t.id], t.dtype)
            for i, t in enumerate(tensors)
        )

    inputs = operands("inputs")
    if op.attr("use_affine") is False:  # oneDNN ignores gamma and beta
        inputs = inputs[: sum(not p.optional for p in schema.inputs)]
    return Call(schema, op.label, inputs, operands("outputs"), op.attrs)
