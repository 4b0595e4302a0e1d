"""A description of a partition, without names, ids and weights: `Subject`, and its signature."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any

import numpy as np

from ... import _core
from ...ops.lookup import row
from ..building.constant_arrays import unpacked
from ..building.order import least_first
from ..building.value import Node, Value, row_major

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

    def __str__(self) -> str:
        shapes = " and ".join(
            f"{self.tensors[i].dtype} {list(self.tensors[i].shape)}" for i in self.inputs
        )
        return f"{' + '.join(op.kind for op in self.ops)} of {shapes}"

    @property
    def signature(self) -> str:
        """All facts that decide what oneDNN does, except the number of threads, as JSON."""
        # Not by cached_property, whose lock (up to Python 3.11) a fork may leave locked.
        known: dict[str, str] = self.__dict__
        if "_signature" not in known:
            known["_signature"] = self._signed()
        return known["_signature"]

    def _signed(self) -> str:
        order = _canonical_order(self)
        number: dict[int, int] = {}
        for i in order:
            for tensor in (*self.ops[i].inputs, *self.ops[i].outputs):
                number.setdefault(tensor, len(number))
        free = dict(zip(self.outputs, self.free, strict=True))
        # Equal scales and zero points cancel each other out, whatever their values, so the
        # signature says which are equal.
        scaled = [
            (name, value)
            for i in order
            for name, value in self.ops[i].attrs
            if name in ("scales", "zps")
        ]
        return json.dumps(
            {
                "ops": [
                    [
                        self.ops[i].kind,
                        _told(self.ops[i]),
                        [number[t] for t in self.ops[i].inputs],
                        [number[t] for t in self.ops[i].outputs],
                    ]
                    for i in order
                ],
                "equal": [scaled.index(pair) for pair in scaled],
                "tensors": [self.tensors[t].facts for t in number],
                "outputs": sorted((number[t], free[t]) for t in self.outputs),
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
    made: list[Any] = []
    for name, value in op.attrs:
        if name == "scales":
            value = ["of", len(value), all(s == 1.0 for s in value), len(set(value)) > 1]
        elif name == "zps":
            value = ["of", len(value), not any(value), len(set(value)) > 1]
        made.append([name, value])
    return made


def _hashed(*of: Any) -> str:
    return hashlib.sha256(repr(of).encode()).hexdigest()


def _canonical_order(subject: Subject) -> list[int]:
    """Sort ops in an order that depends only on their connections.

    The ops before and after an op distinguish it from others; ops alike in both have any order.
    """
    maker = {t: (i, port) for i, op in enumerate(subject.ops) for port, t in enumerate(op.outputs)}
    free = dict(zip(subject.outputs, subject.free, strict=True))
    readers: dict[int, list[tuple[int, int]]] = {}
    for i, op in enumerate(subject.ops):
        for port, t in enumerate(op.inputs):
            readers.setdefault(t, []).append((i, port))

    above: dict[int, str] = {}
    for i, op in enumerate(subject.ops):
        behind = [
            (above[maker[t][0]], maker[t][1]) if t in maker else subject.tensors[t].facts
            for t in op.inputs
        ]
        made = [(subject.tensors[t].facts, free.get(t)) for t in op.outputs]
        above[i] = _hashed(op.kind, _told(op), behind, made)
    key = dict(above)
    for _ in range(2):  # the second round also compares ops that share inputs
        below: dict[int, str] = {}
        for i in reversed(range(len(subject.ops))):
            op = subject.ops[i]
            beside = [
                sorted((key[j], port) for j, port in readers[t] if j != i) if t not in maker else []
                for t in op.inputs
            ]
            ahead = [sorted((below[j], port) for j, port in readers.get(t, ())) for t in op.outputs]
            below[i] = _hashed(key[i], beside, ahead)
        key = below

    before = [{maker[t][0] for t in op.inputs if t in maker} for op in subject.ops]
    return least_first(before, [key[i] for i in range(len(before))])


# -- a subject from a planner's nodes and tensors


def _plain(value: Any) -> Any:
    """Convert an attribute to one that can be pickled, compared and written as JSON."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return tuple(_plain(v) for v in value)
    if isinstance(value, np.generic):
        return value.item()
    return value


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


def _in_order(nodes: Sequence[Node]) -> list[Node]:
    """Sort nodes, each after those whose results it reads."""
    made_by = {v.id: n.id for n in nodes for v in n.outputs}
    by_id = {n.id: n for n in nodes}
    before = {n.id: [made_by[v.id] for v in n.inputs if v.id in made_by] for n in nodes}
    return [by_id[i] for i in TopologicalSorter(before).static_order()]


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
    nodes = _in_order(nodes)
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
    given = {lt.get_id(): lt for lt in inputs}
    tensors = []
    for i, value in values.items():
        shape = tuple(shapes[i])
        lt = given.get(i)
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
                tuple(sorted((name, _plain(value)) for name, value in node.attrs.items())),
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
