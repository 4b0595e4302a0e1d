"""The mirror's ops and logical tensors, read once into plain values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy.typing as npt

from ..errors import InvalidArgumentsError
from ..ops.call import UNKNOWN, Call, Operand, Shape
from ..ops.check import label_of
from ..ops.schema import AttributeValue, OpSchema, Version
from ..ops.table import OPS

if TYPE_CHECKING:
    from .._core import logical_tensor, op

__all__ = ["Op", "Tensor", "call_of", "read_op", "read_tensor", "schema_of"]


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
    data: npt.NDArray[Any] | None = None
    """A constant's elements, where they are known."""


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


def read_tensor(given: logical_tensor) -> Tensor:
    """Read a logical tensor."""
    layout = given.get_layout_type().name
    shape: Shape
    strides = None
    try:
        dims = given.get_dims()
    except InvalidArgumentsError:  # of unknown rank
        shape = None
    else:
        known = not dims or min(dims) >= 0
        shape = tuple(dims) if known else tuple(max(d, UNKNOWN) for d in dims)
        if layout == "strided" and dims and known:
            strides = tuple(given.get_strides())
    dtype = given.get_data_type().name
    return Tensor(given.get_id(), dtype, shape, layout, strides, given)


@cache
def schema_of(kind: str, version: Version) -> OpSchema | None:
    """The row of a kind as a version of oneDNN has it; None if it has no such op."""
    row = OPS.get(kind)
    return None if row is None or version < row.since else row.at(version)


def read_op(given: op, version: Version) -> Op:
    """Read an op; the schema is that of a version."""
    kind = given.get_kind().name
    id = given.get_id()
    return Op(
        id,
        kind,
        label_of(kind, given.get_name(), id),
        tuple(read_tensor(t) for t in given.get_inputs()),
        tuple(read_tensor(t) for t in given.get_outputs()),
        {n: tuple(v) if isinstance(v, list) else v for n, v in given.get_attrs().items()},
        schema_of(kind, version),
    )


def call_of(given: Op, schema: OpSchema, shapes: Mapping[int, Shape]) -> Call:
    """The call that shape functions read, with what is known of the tensors' shapes by id."""

    def named(ports: Literal["inputs", "outputs"], i: int) -> str:
        port = schema.port(ports, i)
        return f"{ports[:-1]} {i}" + (f" ({port.name})" if port else "")

    def operands(ports: Literal["inputs", "outputs"]) -> tuple[Operand, ...]:
        tensors: tuple[Tensor, ...] = getattr(given, ports)
        return tuple(
            Operand(given.label, named(ports, i), shapes[t.id], t.dtype)
            for i, t in enumerate(tensors)
        )

    return Call(
        schema,
        given.label,
        operands("inputs"),
        operands("outputs"),
        given.attrs,
    )
