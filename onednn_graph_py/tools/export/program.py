"""The contents of an exported program in any language: tensors, ops and fills of inputs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.arguments import need_whole
from ...base.errors import InvalidGraphError
from ...model.building.builder import GraphBuilder
from ...model.building.foreign import require_ops
from ...model.building.infer import infer_shapes, known_shapes
from ...model.building.value import Value
from ...model.checking.expected import Expected
from ...model.checking.filling import Fill, fill_inputs, fill_of_constant, fills_of
from ...ops.lookup import row
from ...ops.terms import AttributeType, AttributeValue

EMBEDDED_BYTES = 1 << 16
"""Larger constants, in bytes, are not written into the program but filled like inputs."""


@dataclass(frozen=True)
class ExportedTensor:
    """A tensor of the program: its id, and the name of its variable.

    `strides` are in elements, and None if row-major. An input has numbers to fill it with; so has a
    constant that is not small enough to have its values in `data`, where 4-bit integers are packed.
    """

    number: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    constant: bool = False
    fill: Fill | None = None
    data: npt.NDArray[Any] | None = None
    comment: str = ""


@dataclass(frozen=True)
class ExportedOp:
    """An op of the program; inputs and outputs are numbers of tensors."""

    number: int
    kind: str
    name: str
    attrs: tuple[tuple[str, AttributeType, AttributeValue], ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class ExportedResult:
    """An output by the reference in NumPy, and how far each element may be off."""

    values: npt.NDArray[Any]
    allowed: npt.NDArray[Any]


@dataclass(frozen=True)
class Program:
    """A program that fills a graph's inputs, runs it and prints its outputs.

    `outputs` are pairs of the name to print and a tensor's number; `expected` has what they should
    be, by this number, if the program compares.
    """

    engine_kind: str
    fpmath_mode: str
    apply_to_int: bool
    seed: int
    tensors: tuple[ExportedTensor, ...]
    ops: tuple[ExportedOp, ...]
    outputs: tuple[tuple[str, int], ...]
    expected: Mapping[int, ExportedResult]

    @property
    def given(self) -> tuple[ExportedTensor, ...]:
        """The tensors that no op makes."""
        return tuple(t for t in self.tensors if t.fill is not None or t.data is not None)


def _name(number: int, wanted: str) -> str:
    """Return a name that is not a keyword and that no other tensor has."""
    words = re.sub(r"\W+", "_", wanted, flags=re.ASCII).strip("_")[:40]
    return f"t{number}_{words}" if words else f"t{number}"


def program_of(
    builder: GraphBuilder,
    *,
    seed: int = 0,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    check: bool = False,
) -> Program:
    """Return the program of a graph, which compares its outputs with the reference's if asked.

    - raises `InvalidGraphError`: the graph has no output, or none that an op makes; or it has host
      steps or views, for which oneDNN has no op
    - raises `InvalidShapeError`: dims of an input are unknown
    """
    require_ops(builder.nodes, (*builder.inputs, *builder.constants), "an exported program")
    made_by_ops = {v.id for n in builder.nodes for v in n.outputs}
    outputs = [(n, v) for n, v in builder.outputs.items() if v.id in made_by_ops]
    if not outputs:
        raise InvalidGraphError("export: the graph has no output that an op makes")
    seed = need_whole("export: seed", seed, 0)
    known = infer_shapes(builder, known_shapes(builder, shapes))

    fills = fills_of(builder, {v.id: known[v.id] for v in builder.inputs})
    numbers: dict[int, int] = {}
    tensors: list[ExportedTensor] = []

    def add(value: Value, stem: str, **more: Any) -> None:
        numbers[value.id] = len(tensors)
        name = _name(len(tensors), value.name or stem)
        fields = (len(tensors), name, value.dtype, known[value.id], value.strides)
        tensors.append(ExportedTensor(*fields, **more))

    for value in builder.inputs:
        add(value, "input", fill=fills[value.id])
    for value in builder.constants:
        data = np.asarray(value.data)
        if data.nbytes <= EMBEDDED_BYTES:
            add(value, "constant", constant=True, data=data)
        else:
            comment = f"its {data.nbytes} bytes are not kept: filled like an input"
            fill = fill_of_constant(builder, value)
            add(value, "constant", constant=True, fill=fill, comment=comment)
    ops: list[ExportedOp] = []
    for node in builder.nodes:
        for value in node.outputs:
            add(value, node.kind.lower())
        types = {a.name: a.type for a in row(node.kind).attributes}
        ops.append(
            ExportedOp(
                len(ops),
                node.kind,
                node.name or node.kind.lower(),
                tuple((name, types[name], value) for name, value in node.attrs.items()),
                tuple(numbers[v.id] for v in node.inputs),
                tuple(numbers[v.id] for v in node.outputs),
            )
        )
    ended = {n.inputs[0].id for n in builder.nodes if n.kind == "End"}
    read = {v.id for n in builder.nodes if n.kind != "End" for v in n.inputs}
    # A partition outputs no tensor that only its own ops read; End makes it output the tensor.
    for i in dict.fromkeys(v.id for _, v in outputs if v.id in read and v.id not in ended):
        ops.append(ExportedOp(len(ops), "End", "end", (), (numbers[i],), ()))
    return Program(
        builder.engine_kind.name,
        builder.fpmath_mode.name,
        builder.apply_to_int,
        seed,
        tuple(tensors),
        tuple(ops),
        tuple((name, numbers[v.id]) for name, v in outputs),
        _expected(builder, seed, shapes, {v.id: numbers[v.id] for _, v in outputs})
        if check
        else {},
    )


def _expected(
    builder: GraphBuilder,
    seed: int,
    shapes: Mapping[str, tuple[int, ...]] | None,
    numbers: Mapping[int, int],
) -> dict[int, ExportedResult]:
    """Return what outputs should be; `numbers` are those of their tensors, by the value's id."""
    large = [v for v in builder.constants if np.asarray(v.data).nbytes > EMBEDDED_BYTES]
    if large:
        raise InvalidGraphError(
            f"export: a program that checks has all constants written out, but {len(large)} of "
            f"them have more than {EMBEDDED_BYTES:,} bytes"
        )
    expected = Expected(builder, fill_inputs(builder, seed, shapes=shapes), seed)
    return {n: ExportedResult(expected.value(i), expected.allowed(i)) for i, n in numbers.items()}
