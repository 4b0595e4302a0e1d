"""The contents of a graph's JSON file: `GraphDocument` and its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from .._core import UNKNOWN_DIM
from ..ops.terms import AttributeType, AttributeValue

BOOKKEEPING = ("partition_id", "backend")
"""Attributes that only oneDNN sets, in ``graph-N-partitioning.json``; callers can't set them."""

Ports = Literal["inputs", "outputs"]

_NOT_SAID = (UNKNOWN_DIM,)
"""oneDNN writes this for dims or strides if any of them is unknown, however many there are."""


@dataclass(frozen=True)
class TensorRecord:
    """A tensor, as an op's list of inputs or outputs describes it.

    Parameters
    ----------
    id : int
    dtype : str
        oneDNN's name of the data type, such as ``f32``.
    shape, stride : tuple of int
        As in the file; strides count elements. ``UNKNOWN_DIM`` (or -1) stands for an unknown dim;
        oneDNN also writes ``(UNKNOWN_DIM,)`` for every shape that is not completely known.
    layout_type, property_type : str
    """

    id: int
    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    layout_type: str = "strided"
    property_type: str = "undef"

    @property
    def dims(self) -> tuple[int, ...] | None:
        """The shape with -1 for unknown dims; None where even the rank is unknown."""
        if self.shape == _NOT_SAID:
            return None if self.stride == _NOT_SAID else (-1,) * len(self.stride)
        return tuple(max(d, -1) for d in self.shape)

    @property
    def strides(self) -> tuple[int, ...] | None:
        """The strides, in elements; None if they are not known."""
        dims = self.dims
        if dims is None or len(self.stride) != len(dims) or any(s < 0 for s in self.stride):
            return None
        return self.stride


@dataclass(frozen=True)
class AttributeRecord:
    """An attribute of an op, with the type that the file gives it.

    Lists become tuples. Numbers of type f32 keep all digits of the file.
    """

    type: AttributeType
    value: AttributeValue


@dataclass(frozen=True)
class OpRecord:
    """An op, as a file describes it.

    Parameters
    ----------
    id : int
    name, kind : str
        The kind may be one that no oneDNN has.
    attrs : mapping of str to AttributeRecord
        In the order of the file.
    inputs, outputs : tuple of TensorRecord
    """

    id: int
    name: str
    kind: str
    attrs: Mapping[str, AttributeRecord] = field(default_factory=dict, hash=False)
    inputs: tuple[TensorRecord, ...] = ()
    outputs: tuple[TensorRecord, ...] = ()

    @property
    def values(self) -> dict[str, AttributeValue]:
        """The attributes' values, without the attributes that only oneDNN sets."""
        return {n: a.value for n, a in self.attrs.items() if n not in BOOKKEEPING}


@dataclass(frozen=True)
class Place:
    """A place of a tensor's description in a document; it prints as ``graph[3].inputs[0]``."""

    op: int
    ports: Ports
    index: int

    def __str__(self) -> str:
        return f"graph[{self.op}].{self.ports}[{self.index}]"


@dataclass(frozen=True)
class GraphDocument:
    """A graph, exactly as in its file; use ``dataclasses.replace`` to change parts.

    Parameters
    ----------
    version : str
        The version of the oneDNN that wrote it, such as ``3.7.2``.
    engine_kind : str
    graph : tuple of OpRecord
        In the order of the file, which need not be an order of execution.
    fpmath_mode : str or None
    fpmath_mode_apply_to_int : bool or None
    input_ports, output_ports : tuple of int or None
        Ids of tensors. Don't rely on them: some files name tensors twice or name none, and
        benchdnn ignores them. None, as all optional fields, if the file does not have the field.
    """

    version: str
    engine_kind: str
    graph: tuple[OpRecord, ...]
    fpmath_mode: str | None = None
    fpmath_mode_apply_to_int: bool | None = None
    input_ports: tuple[int, ...] | None = None
    output_ports: tuple[int, ...] | None = None

    def records(self) -> Iterator[tuple[Place, TensorRecord]]:
        """Iterate over all descriptions of tensors, with their places, in the file's order."""
        for i, op in enumerate(self.graph):
            for k, tensor in enumerate(op.inputs):
                yield Place(i, "inputs", k), tensor
            for k, tensor in enumerate(op.outputs):
                yield Place(i, "outputs", k), tensor

    def tensors(self) -> dict[int, TensorRecord]:
        """Return all tensors by id, as their maker or else their first reader describes them.

        Readers may describe a tensor differently: see `records`.
        """
        tensors: dict[int, TensorRecord] = {}
        for place, tensor in self.records():
            if place.ports == "outputs":
                tensors[tensor.id] = tensor
            else:
                tensors.setdefault(tensor.id, tensor)
        return tensors

    def with_tensors(self, changed: Callable[[TensorRecord], TensorRecord]) -> GraphDocument:
        """Return the graph with a function applied to every description of a tensor."""

        def both(op: OpRecord) -> OpRecord:
            inputs, outputs = (tuple(map(changed, ports)) for ports in (op.inputs, op.outputs))
            return replace(op, inputs=inputs, outputs=outputs)

        return replace(self, graph=tuple(map(both, self.graph)))

    def produced(self) -> set[int]:
        """Return the ids of the tensors that ops make."""
        return {t.id for op in self.graph for t in op.outputs}

    def read(self) -> set[int]:
        """Return the ids of the tensors that ops other than End read."""
        return {t.id for op in self.graph if op.kind != "End" for t in op.inputs}

    def inputs(self) -> tuple[int, ...]:
        """Return the ids of the tensors that no op makes, those of `input_ports` first."""
        produced = self.produced()
        known = dict.fromkeys(t.id for op in self.graph for t in op.inputs if t.id not in produced)
        named = [id for id in self.input_ports or () if id in known]
        return tuple(dict.fromkeys([*named, *known]))

    def outputs(self) -> tuple[int, ...]:
        """Return the ids of the graph's results.

        First `output_ports`, then the tensors that End or no op reads.
        """
        read, ended = self.read(), {t.id for o in self.graph if o.kind == "End" for t in o.inputs}
        ids = [t.id for op in self.graph for t in op.outputs]
        known = set(ids)
        named = [id for id in self.output_ports or () if id in known]
        ends = [id for id in ids if id not in read or id in ended]
        return tuple(dict.fromkeys([*named, *ends]))
