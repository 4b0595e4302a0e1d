"""Check that a use of an op fits its row, and infer its outputs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from ..base.arguments import need_instance
from ..base.errors import InvalidGraphOpError, UnimplementedError
from ..base.linked import linked_version
from .attributes import normalize
from .call import Call, Operand
from .row import Port, Row
from .shapes.elementwise import merged
from .tensor_spec import SpecLike, TensorSpec, spec_of
from .terms import Version, label_of


def _operands(
    schema: Row, label: str, ports: Literal["inputs", "outputs"], specs: Sequence[SpecLike]
) -> tuple[Operand, ...]:
    operands = []
    for i, given in enumerate(specs):
        name = schema.operand_name(ports, i)
        try:
            spec = spec_of(given)
        except TypeError as e:
            raise TypeError(f"{label}: {name}: {e}") from None
        operands.append(Operand(label, name, spec.shape, spec.dtype))
    return tuple(operands)


def make_call(
    row: Row,
    inputs: Sequence[SpecLike],
    attrs: Mapping[str, Any] | None = None,
    outputs: Sequence[SpecLike] | None = None,
    *,
    name: str = "",
    id: int | None = None,
    version: Version | None = None,
) -> Call:
    """Make a `Call`, and check each attribute by itself; see `infer_outputs`."""
    label = label_of(row.kind, name, id)
    need_instance(f"{label}: inputs", inputs, Sequence)
    need_instance(f"{label}: attrs", attrs or {}, Mapping)
    try:
        schema = row.at(version or linked_version())
    except LookupError as e:
        raise UnimplementedError(f"{label}: {e}") from None
    return Call(
        schema,
        label,
        _operands(schema, label, "inputs", inputs),
        _operands(schema, label, "outputs", outputs or ()),
        normalize(schema, label, attrs or {}, row),
    )


def _count_text(counts: Sequence[int], ports: str) -> str:
    noun = ports[:-1] if tuple(counts) == (1,) else ports
    if len(counts) > 3:
        return f"{counts[0]} to {counts[-1]} {noun}"
    return " or ".join(str(n) for n in counts) + f" {noun}"


def _check_count(call: Call, ports: Literal["inputs", "outputs"]) -> None:
    declared: tuple[Port, ...] = getattr(call.schema, ports)
    count = len(getattr(call, ports))
    counts = call.schema.counts(ports)
    if count in counts or (declared and declared[-1].optional and declared[-1].variadic):
        return
    names = ", ".join(p.name for p in declared)
    call.refuse(
        f"must have {_count_text(counts, ports)}"
        + (f" ({names})" if names else "")
        + f", got {count}"
    )


def _check_types(
    call: Call, ports: Literal["inputs", "outputs"], fixed: dict[str, Operand]
) -> None:
    """Check that each type variable has one data type; `fixed` has the operand that chose it."""
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
    """Return the data type of an output whose type variable no input fixes.

    It is the inputs' own, or f32 if they differ or if it is not the op's result but statistics, if
    the rules allow that; else the only type that they allow; None if the caller must choose.
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
    dtypes = {operand.dtype for operand in call.inputs}
    natural = dtypes.pop() if i == 0 and len(dtypes) == 1 else "f32"
    if natural in possible:
        return natural
    return possible[0] if len(possible) == 1 else None


def _inferred(call: Call, fixed: Mapping[str, Operand]) -> tuple[TensorSpec, ...]:
    shapes = call.schema.infer(call)
    specs = []
    for i, output in enumerate(call.outputs):
        shape = shapes[i] if i < len(shapes) else None
        output.need_shape(shape, "as follows from its inputs and attributes")
        port = call.schema.port("outputs", i)
        dtype = output.dtype
        if dtype is None and port is not None and port.type != "any":
            chosen = fixed.get(port.type)
            if chosen is not None:
                dtype = chosen.dtype
            else:
                dtype = _open_type(call, i, call.schema.types[port.type])
        specs.append(TensorSpec(merged(shape, output.shape), dtype))
    return tuple(specs)


def _output_count(call: Call) -> int:
    """Return the number of outputs of an op if the caller gives none."""
    counts = call.schema.counts("outputs")
    for promise in ("keep_stats", "use_affine"):
        if call.schema.attribute(promise) is not None:
            return max(counts) if call.attr(promise) else min(counts)
    return min(counts)


def infer_outputs(
    row: Row,
    inputs: Sequence[SpecLike],
    attrs: Mapping[str, Any] | None = None,
    outputs: Sequence[SpecLike] | None = None,
    *,
    name: str = "",
    id: int | None = None,
    version: Version | None = None,
) -> tuple[TensorSpec, ...]:
    """Infer the outputs of an op, and raise if its use does not fit its row.

    Parameters, result and exceptions are those of `onednn_graph_py.ops.check`, which finds the row
    of a kind.
    """
    call = make_call(row, inputs, attrs, outputs, name=name, id=id, version=version)
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
