"""Whether an op is right, and if not, what is wrong with it."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ..dtypes import data_type_of
from ..errors import InvalidArgumentsError, InvalidGraphOpError, UnimplementedError
from .attributes import normalize, spelling
from .call import UNKNOWN, Call, Operand, Shape, shape_text
from .schema import OpSchema, Port, Version
from .table import OPS

__all__ = [
    "TensorSpec",
    "check",
    "label_of",
    "library_spelling",
    "linked_version",
    "make_call",
    "row",
    "spec_of",
]


@dataclass(frozen=True)
class TensorSpec:
    """The shape and data type of a tensor, as far as they are known.

    Parameters
    ----------
    shape : tuple of int, optional
        -1 for a dim that is not known yet; None if even the rank is unknown.
    dtype : str, optional
        oneDNN's name, such as ``f32``; None if unknown.
    """

    shape: Shape = None
    dtype: str | None = None

    def __str__(self) -> str:
        return f"{self.dtype or 'unknown type'} {shape_text(self.shape)}"


SpecLike = Any
"""A `TensorSpec`, a pair (shape, dtype), a logical tensor, or an array."""


def spec_of(value: SpecLike) -> TensorSpec:
    """A `TensorSpec` of whatever tells a shape and a data type.

    Raises
    ------
    TypeError
        It tells neither.
    """
    if isinstance(value, TensorSpec):
        return value
    if hasattr(value, "get_data_type"):  # a logical tensor
        try:
            shape: Shape = tuple(UNKNOWN if d < 0 else d for d in value.get_dims())
        except InvalidArgumentsError:  # of unknown rank
            shape = None
        return TensorSpec(shape, value.get_data_type().name)
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return TensorSpec(tuple(value.shape), data_type_of(np.dtype(value.dtype)).name)
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], (str, type(None))):
        dims, dtype = value
        return TensorSpec(None if dims is None else tuple(int(d) for d in dims), dtype)
    raise TypeError(
        "expected a TensorSpec, (shape, dtype), a logical_tensor or an array, got "
        f"{type(value).__name__}"
    )


def linked_version() -> Version:
    """The version of the oneDNN that this package is linked against."""
    from .. import _core

    version = _core.version()
    return version["major"], version["minor"]


def row(kind: str) -> OpSchema:
    """The row of a kind, in its newest form.

    Raises
    ------
    InvalidArgumentsError
        There is no such kind.
    """
    found = OPS.get(kind)
    if found is not None:
        return found
    same = [k for k in OPS if k.lower() == kind.lower()]
    near = same or difflib.get_close_matches(kind, OPS, n=1)
    hint = f", did you mean {near[0]!r}?" if near else ""
    raise InvalidArgumentsError(f"oneDNN has no op kind {kind!r}{hint}")


def library_spelling(kind: str, name: str, value: str) -> str:
    """A string attribute as the library spells it; one that is no choice of the op's as given."""
    schema = OPS.get(kind)
    attribute = schema.attribute(name) if schema is not None else None
    return value if attribute is None else spelling(attribute, value)


def label_of(kind: str, name: str = "", id: int | None = None) -> str:
    """``op 3 'conv0' (Convolution)``, as all messages name an op."""
    text = "op" if id is None else f"op {id}"
    return f"{text} {name!r} ({kind})" if name else f"{text} ({kind})"


def _operands(
    schema: OpSchema, label: str, ports: Literal["inputs", "outputs"], specs: Sequence[SpecLike]
) -> tuple[Operand, ...]:
    made = []
    for i, given in enumerate(specs):
        port = schema.port(ports, i)
        name = f"{ports[:-1]} {i}" + (f" ({port.name})" if port else "")
        try:
            spec = spec_of(given)
        except TypeError as e:
            raise TypeError(f"{label}: {name}: {e}") from None
        made.append(Operand(label, name, spec.shape, spec.dtype))
    return tuple(made)


def make_call(
    kind: str,
    inputs: Sequence[SpecLike],
    attrs: Mapping[str, Any] | None = None,
    outputs: Sequence[SpecLike] | None = None,
    *,
    name: str = "",
    id: int | None = None,
    version: Version | None = None,
) -> Call:
    """A `Call` with its attributes checked one by one; see `check` for the parameters."""
    newest = row(kind)
    label = label_of(kind, name, id)
    try:
        schema = newest.at(version or linked_version())
    except LookupError as e:
        raise UnimplementedError(f"{label}: {e}") from None
    return Call(
        schema,
        label,
        _operands(schema, label, "inputs", inputs),
        _operands(schema, label, "outputs", outputs or ()),
        normalize(schema, label, attrs or {}, newest),
    )


def _count_text(counts: Sequence[int], ports: str) -> str:
    noun = ports[:-1] if tuple(counts) == (1,) else ports
    if len(counts) > 3:
        return f"{counts[0]} to {counts[-1]} {noun}"
    return " or ".join(str(n) for n in counts) + f" {noun}"


def _check_count(call: Call, ports: Literal["inputs", "outputs"]) -> None:
    declared: tuple[Port, ...] = getattr(call.schema, ports)
    given = len(getattr(call, ports))
    counts = call.schema.counts(ports)
    if given in counts or (declared and declared[-1].optional and declared[-1].variadic):
        return
    names = ", ".join(p.name for p in declared)
    call.refuse(
        f"must have {_count_text(counts, ports)}"
        + (f" ({names})" if names else "")
        + f", got {given}"
    )


def _check_types(
    call: Call, ports: Literal["inputs", "outputs"], fixed: dict[str, Operand]
) -> None:
    """Each type variable stands for one data type; `fixed` has the port that chose it."""
    operands: Sequence[Operand] = getattr(call, ports)
    for i, operand in enumerate(operands):
        port = call.schema.port(ports, i)
        if port is None or port.type == "any" or operand.dtype is None:
            continue
        allowed = call.schema.types[port.type]
        if operand.dtype not in allowed:
            call.refuse(f"{operand.name} must be {' or '.join(allowed)}, got {operand.dtype}")
        first = fixed.setdefault(port.type, operand)
        if first.dtype != operand.dtype:
            call.refuse(
                f"{operand.name} must be {first.dtype} as {first.name} is, got {operand.dtype}"
            )


def _open_type(call: Call, i: int, allowed: Sequence[str]) -> str | None:
    """The data type of an output that its type variable leaves open.

    The inputs' own where that is allowed, f32 where they differ; None where the caller must say.
    """
    possible = []
    for dtype in allowed:
        outputs = list(call.outputs)
        outputs[i] = replace(outputs[i], dtype=dtype)
        try:
            for rule in call.schema.rules:
                rule(replace(call, outputs=tuple(outputs)))
        except InvalidGraphOpError:
            continue
        possible.append(dtype)
    given = {operand.dtype for operand in call.inputs}
    natural = given.pop() if len(given) == 1 else "f32"
    if natural in possible:
        return natural
    return possible[0] if len(possible) == 1 else None


def _inferred(call: Call, fixed: Mapping[str, Operand]) -> tuple[TensorSpec, ...]:
    shapes = call.schema.infer(call)
    made = []
    for i, given in enumerate(call.outputs):
        shape = shapes[i] if i < len(shapes) else None
        given.need_shape(shape, "as follows from its inputs and attributes")
        port = call.schema.port("outputs", i)
        dtype = given.dtype
        if dtype is None and port is not None and port.type != "any":
            chosen = fixed.get(port.type)
            if chosen is not None:
                dtype = chosen.dtype
            else:
                dtype = _open_type(call, i, call.schema.types[port.type])
        if shape is None:
            shape = given.shape
        elif given.shape is not None:
            shape = tuple(g if s < 0 else s for s, g in zip(shape, given.shape, strict=True))
        made.append(TensorSpec(shape, dtype))
    return tuple(made)


def _output_count(call: Call) -> int:
    """How many outputs an op has when nobody says."""
    counts = call.schema.counts("outputs")
    for promise in ("keep_stats", "use_affine"):
        if call.schema.attribute(promise) is not None:
            return max(counts) if call.attr(promise) else min(counts)
    return min(counts)


def check(
    kind: str,
    inputs: Sequence[SpecLike],
    attrs: Mapping[str, Any] | None = None,
    outputs: Sequence[SpecLike] | None = None,
    *,
    name: str = "",
    id: int | None = None,
    version: Version | None = None,
) -> tuple[TensorSpec, ...]:
    """Check one op, and infer its outputs.

    Parameters
    ----------
    kind : str
        Such as ``Convolution``.
    inputs : sequence of TensorSpec, (shape, dtype), logical_tensor or array
        In the order of the op's ports. Unknown shapes and data types pass.
    attrs : mapping of str to value, optional
        In the documents' spelling or the library's.
    outputs : sequence like `inputs`, optional
        The outputs that the caller expects; without them `check` only infers the outputs.
    name, id
        Name and id of the op in messages.
    version : (int, int), optional
        The oneDNN to check for; the linked one by default.

    Returns
    -------
    tuple of TensorSpec
        The outputs, as far as they follow; a data type that inputs leave open is None.

    Raises
    ------
    InvalidArgumentsError
        There is no such kind.
    UnimplementedError
        The version does not have the op.
    InvalidGraphOpError
        The number of inputs or outputs, a data type or an attribute is wrong.
    InvalidShapeError
        The shapes don't fit together, or don't make the outputs'.
    TypeError
        An attribute is of the wrong type, or a tensor is given by an object of another type.

    Examples
    --------
    >>> check("MatMul", [((8, 64), "f32"), ((64, 10), "f32")])
    (TensorSpec(shape=(8, 10), dtype='f32'),)
    """
    call = make_call(kind, inputs, attrs, outputs, name=name, id=id, version=version)
    _check_count(call, "inputs")
    fixed: dict[str, Operand] = {}
    _check_types(call, "inputs", fixed)
    if outputs is None:
        unsaid = (Operand(call.label, f"output {i}") for i in range(_output_count(call)))
        call = replace(call, outputs=tuple(unsaid))
    else:
        _check_count(call, "outputs")
        _check_types(call, "outputs", fixed)
    for rule in call.schema.rules:
        rule(call)
    return _inferred(call, fixed)


def type_combinations(
    kind: str, version: Version | None = None
) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The data types that an op's schema allows for the ports of its sample.

    Parameters
    ----------
    kind : str
    version : (int, int), optional
        The linked oneDNN's by default.

    Returns
    -------
    list of (inputs, outputs)
        Of both the data types, port by port.
    """
    schema = row(kind).at(version or linked_version())
    shapes, attrs = schema.sample
    unsaid: list[SpecLike] = [(shape, None) for shape in shapes]
    outputs = len(check(kind, unsaid, attrs, version=version))
    ports = [schema.port("inputs", i) for i in range(len(shapes))]
    ports += [schema.port("outputs", i) for i in range(outputs)]
    variables = [p.type for p in ports if p is not None]
    names = list(dict.fromkeys(variables))
    if not names:  # no port that the op must have, so nothing to choose
        return []
    made = []
    for chosen in itertools.product(*(schema.types[name] for name in names)):
        types = dict(zip(names, chosen, strict=True))
        dtypes = tuple(types[v] for v in variables)
        given, expected = dtypes[: len(shapes)], dtypes[len(shapes) :]
        try:
            check(
                kind,
                list(zip(shapes, given, strict=True)),
                attrs,
                [(None, dtype) for dtype in expected],
                version=version,
            )
        except InvalidGraphOpError:
            continue
        made.append((given, expected))
    return made
