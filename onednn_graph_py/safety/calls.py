"""Ops and logical tensors as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ..ops.call import Shape
from ..ops.schema import AttributeValue, OpSchema, Version
from ..ops.table import OPS

if TYPE_CHECKING:
    from .._core import logical_tensor

__all__ = ["Op", "Tensor", "op_of", "schema_of"]


class Tensor(NamedTuple):
    """A logical tensor."""

    id: int
    dtype: str
    shape: Shape
    layout: str
    strides: tuple[int, ...] | None
    """Of a strided layout whose dims are all known and at least one; else None."""
    mirror: logical_tensor
    """Shows itself in messages."""


class Op(NamedTuple):
    """An op with what was said about it."""

    id: int
    kind: str
    label: str
    """Names the op in messages: ``op 3 'conv0' (Convolution)``."""
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    attrs: Mapping[str, AttributeValue]
    """The attributes that are set; lists are tuples."""
    schema: OpSchema | None
    """The table's row as the oneDNN in question has it; None if it has no such op."""

    def attr(self, name: str) -> Any:
        """An attribute's value, its default where it is not set, or None without one."""
        if name in self.attrs:
            return self.attrs[name]
        known = self.schema.attribute(name) if self.schema else None
        return None if known is None else known.default


@cache
def schema_of(kind: str, version: Version) -> OpSchema | None:
    """The table's row of a kind as a version has it; None where there is none."""
    row = OPS.get(kind)
    return None if row is None or version < row.since else row.at(version)


def op_of(values: tuple[Any, ...], version: Version) -> Op:
    """Name the values by which the mirror tells an op; the schema is that of a version."""
    id, kind, label, inputs, outputs, attrs = values
    return Op(
        id,
        kind,
        label,
        tuple(map(Tensor._make, inputs)),
        tuple(map(Tensor._make, outputs)),
        attrs,
        schema_of(kind, version),
    )
