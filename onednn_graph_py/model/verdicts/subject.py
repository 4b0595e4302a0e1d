"""A description of a partition, without names, ids and weights: `Subject`, and its signature."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import _core
from ...ops.lookup import row
from ..building.constant_arrays import unpacked
from ..building.order import run_order
from ..building.value import Node, Value, plain_parts, row_major

_INTEGERS = ("s8", "u8", "s4", "u4")


@dataclass(frozen=True)
class Tensor:
    """A tensor of a partition."""

    shape: tuple[int, ...]
    dtype: str
    # the strides of an input that is not row-major, in elements
    strides: tuple[int, ...] | None = None
    opaque: bool = False  # whether the layout is opaque, so that only oneDNN can read or write it
    constant: bool = False
    # the range of a constant of 8-bit or 4-bit integers, rounded up to powers of two
    limits: tuple[int, int] | None = None
    # the value of a constant of one element that is not a scale: an epsilon, a divisor
    value: float | None = None

    @property
    def facts(self) -> tuple[Any, ...]:
        """All fields, for a signature."""
        return tuple(vars(self).values())

    @property
    def count(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Operation:
    """An op of a partition."""

    kind: str
    # tuple of (str, value), the attributes by name, in the library's spelling
    attrs: tuple[tuple[str, Any], ...]
    # inputs, outputs: the numbers of its tensors
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Subject:
    """A partition, as it would be compiled and run."""

    tensors: tuple[Tensor, ...]
    ops: tuple[Operation, ...]  # the ops, each after those whose results it reads
    # inputs, outputs: the numbers of tensors, in the order in which the partition is compiled for
    # them
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    # for each output, whether oneDNN may choose its layout; else it is row-major
    free: tuple[bool, ...]
    fpmath_mode: str = "strict"
    apply_to_int: bool = False
    threads: int = 1  # the number of threads for which it is compiled
    engine_kind: str = "cpu"

    @property
    def signature(self) -> str:
        """All facts that decide what oneDNN does, except the number of threads, as JSON."""
        # Equal scales and zero points cancel each other out, whatever their values, so the
        # signature says which are equal.
        scaled = [pair for op in self.ops for pair in op.attrs if pair[0] in ("scales", "zps")]
        return json.dumps(
            {
                "ops": [[op.kind, _told(op), op.inputs, op.outputs] for op in self.ops],
                "equal": [scaled.index(pair) for pair in scaled],
                "tensors": [tensor.facts for tensor in self.tensors],
                "outputs": [self.outputs, self.free],
                "fpmath": [self.fpmath_mode, self.apply_to_int],
                "engine": self.engine_kind,
            },
            separators=(",", ":"),
        )


def _told(op: Operation) -> list[Any]:
    """Return the attributes of an op that decide which kernels run.

    Scales and zero points, whose values differ between a model's layers, are reduced to their
    number, whether they have an effect, and whether they differ.
    """
    records: list[Any] = []
    for name, value in op.attrs:
        if name == "scales":
            value = ["of", len(value), all(s == 1.0 for s in value), len(set(value)) > 1]
        elif name == "zps":
            value = ["of", len(value), not any(value), len(set(value)) > 1]
        records.append([name, value])
    return records


def _power(limit: int) -> int:
    """Round away from 0 to a power of two, so that a model's weights have few different limits."""
    return int(math.copysign(1 << max(abs(limit) - 1, 0).bit_length(), limit)) if limit else 0


def _constant_facts(value: Value, port: str) -> dict[str, Any]:
    stored = value.data
    if stored is None:
        return {}
    if value.dtype in _INTEGERS:
        plain = stored.dtype.itemsize == 1 and value.dtype in ("s8", "u8")
        elements = stored if plain else unpacked(stored, value.shape, value.dtype).astype(np.int8)
        low, high = int(elements.min(initial=0)), int(elements.max(initial=0))
        return {"constant": True, "limits": (_power(low), _power(high))}
    if stored.size == 1 and value.dtype != "boolean" and port not in ("scales", "zps"):
        return {"constant": True, "value": float(stored.reshape(-1)[0])}
    return {"constant": True}


def _in_order(nodes: Sequence[Node], outputs: Iterable[int]) -> list[Node]:
    """Sort nodes, each after those whose results it reads, as the outputs depend on them.

    That order depends only on the connections of the nodes, not on when they were written.
    """
    makers = {v.id: n for n in nodes for v in n.outputs}
    nodes = list(dict.fromkeys([*(makers[i] for i in outputs), *nodes]))
    place = {v.id: i for i, n in enumerate(nodes) for v in n.outputs}
    before = [[place[v.id] for v in n.inputs if v.id in place] for n in nodes]
    return [nodes[i] for i in run_order(before)]


def subject_of(
    nodes: Sequence[Node],
    shapes: Mapping[int, tuple[int, ...]],
    inputs: Sequence[_core.logical_tensor],
    outputs: Sequence[_core.logical_tensor],
    *,
    fpmath_mode: str = "strict",
    apply_to_int: bool = False,
    threads: int = 0,
    engine_kind: str = "cpu",
) -> Subject:
    """Make the subject of a partition as it would run.

    Shapes are by id; inputs and outputs are the tensors for `partition.compile`.
    """
    nodes = _in_order(nodes, [lt.get_id() for lt in outputs])
    values: dict[int, Value] = {}
    ports: dict[int, str] = {}
    for node in nodes:
        for i, value in enumerate(node.inputs):
            values.setdefault(value.id, value)
            port = row(node.kind).port("inputs", i)
            ports.setdefault(value.id, port.name if port is not None else "")
        for value in node.outputs:
            values.setdefault(value.id, value)
    number = {i: n for n, i in enumerate(values)}
    by_id = {lt.get_id(): lt for lt in inputs}
    tensors = []
    for i, value in values.items():
        shape = tuple(shapes[i])
        lt = by_id.get(i)
        if lt is None:
            tensors.append(Tensor(shape, value.dtype))
            continue
        opaque = lt.get_layout_type() != _core.logical_tensor.strided
        strides = None if opaque or not shape else tuple(lt.get_strides())
        if strides == row_major(shape):
            strides = None
        facts = _constant_facts(value, ports.get(i, ""))
        tensors.append(Tensor(shape, value.dtype, strides, opaque, **facts))
    return Subject(
        tuple(tensors),
        tuple(
            Operation(
                node.kind,
                tuple(sorted((name, plain_parts(value)) for name, value in node.attrs.items())),
                tuple(number[v.id] for v in node.inputs),
                tuple(number[v.id] for v in node.outputs),
            )
            for node in nodes
        ),
        tuple(number[lt.get_id()] for lt in inputs),
        tuple(number[lt.get_id()] for lt in outputs),
        tuple(lt.get_layout_type() == _core.logical_tensor.any for lt in outputs),
        fpmath_mode,
        apply_to_int,
        threads or _core.num_threads(),
        engine_kind,
    )
