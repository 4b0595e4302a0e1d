"""Changes of data types: of ops, parameters, regions and quantized tensors."""

from collections.abc import Iterator, Mapping, Sequence

from ...base.linked import linked_version
from ...machine.cpu import lacks
from ...model.building.value import Node, Value
from ...model.rewriting.rebuild import Edit
from ...ops.lookup import row, with_trait
from .changes import Around, Change, called

# For each kind, the inputs and outputs whose data type changes with the op's; statistics, gamma
# and beta stay f32. For kinds that are not listed, all change.
RETYPED: Mapping[str, tuple[Sequence[int], Sequence[int]]] = {
    "Select": ((1, 2), (0,)),
    "BatchNormForwardTraining": ((0,), (0,)),
    "BatchNormInference": ((0,), (0,)),
    "BatchNormTrainingBackward": ((0, 1), (0,)),
    "GroupNorm": ((0,), (0,)),
    "LayerNorm": ((0,), (0,)),
    "LayerNormBackward": ((0, 1), (0,)),
    "GenIndex": ((0,), ()),
}

_OTHER = {"u8": "s8", "s8": "u8", "f8_e4m3": "s8", "f8_e5m2": "s8"}


def integer_types(around: Around) -> Iterator[Change]:
    """Yield candidates that make a quantized tensor s8 instead of u8 or f8, or u8 instead of s8."""
    dynamic = [n for n in around.concerned if n.kind.startswith("Dynamic")]
    for node in (*around.quantizing, *dynamic):
        value = node.outputs[0] if node.kind.endswith("Quantize") else node.inputs[0]
        other = _OTHER.get(value.dtype)
        readers = around.readers.get(value.id, [])
        if other is None or any("Dequantize" not in r.kind for r in readers):
            continue
        what = ("the result" if value is node.outputs[0] else "input 0") + f" of {called(node)}"
        edit = Edit(dtypes={around.numbers[value.id]: other})
        yield Change(f"make {what} {other}", around.checked(edit), exact=False)


_FLOATS = ("f32", "bf16", "f16")
# A region of ops in one floating-point type ends at these, which convert or mark values.
_BORDER = with_trait("converts") - {"TypeCast"} | with_trait("marks")


def _ports(node: Node) -> tuple[Sequence[int], Sequence[int]]:
    """Return the indices of the inputs and outputs that have the op's floating-point type."""
    ports = RETYPED.get(node.kind, (range(len(node.inputs)), range(len(node.outputs))))
    return tuple(
        [i for i in which if i < len(values) and values[i].dtype in _FLOATS]
        for which, values in zip(ports, (node.inputs, node.outputs), strict=True)
    )  # type: ignore[return-value]


def _computes_in(node: Node) -> str | None:
    if node.kind in with_trait("converts") or node.kind == "End":
        return None
    inputs, outputs = _ports(node)
    dtypes = [node.inputs[i].dtype for i in inputs] + [node.outputs[i].dtype for i in outputs]
    return dtypes[0] if dtypes else None


def _retyped(around: Around, nodes: Sequence[Node], dtype: str, casts: Sequence[Node] = ()) -> Edit:
    """Make an edit in which ops compute in another type; values for other ops are cast back.

    The results of `casts` get the type too, so that these vanish.
    """
    inside = {n.id for n in (*nodes, *casts)}
    dtypes: dict[int, str] = {around.numbers[n.outputs[0].id]: dtype for n in casts}
    ports: dict[tuple[int, int], str] = {}
    for node in nodes:
        inputs, outputs = _ports(node)
        ports.update({(around.positions[node.id], i): dtype for i in inputs})
        dtypes.update({around.numbers[node.outputs[k].id]: dtype for k in outputs})
    read = [(n, i) for n in nodes for i in _ports(n)[0]] + [(n, 0) for n in casts]
    for node, i in read:
        value = node.inputs[i]
        if value.producer is None and all(r.id in inside for r in around.readers.get(value.id, [])):
            dtypes[around.numbers[value.id]] = dtype
    kinds = {around.positions[n.id]: n.kind for n in nodes}
    return around.checked(Edit(dtypes=dtypes, ports=ports, kinds=kinds))


def _region(around: Around) -> list[Node]:
    """Find the ops connected with the op by floating-point tensors, through TypeCasts too."""
    region: dict[int, Node] = {}
    waiting = [around.node]
    while waiting:
        node = waiting.pop()
        if node.id in region or node.kind in _BORDER:
            continue
        region[node.id] = node
        values: list[Value] = [v for v in (*node.inputs, *node.outputs) if v.dtype in _FLOATS]
        for value in values:
            waiting += around.readers.get(value.id, [])
            if value.producer is not None:
                waiting.append(value.producer)
    return [n for n in around.builder.nodes if n.id in region]


def region_types(around: Around) -> Iterator[Change]:
    """Yield candidates that compute the op, and all ops connected with it, in another type."""
    have = _computes_in(around.node)
    if have is None:
        return
    # TypeCasts inside are not needed any more; those at the border cast from another type.
    every = _region(around)
    region = [n for n in every if n.kind != "TypeCast"]
    inside = {n.id for n in region}
    casts = [
        n
        for n in every
        if n.kind == "TypeCast"
        and (readers := around.readers.get(n.outputs[0].id))
        and all(r.id in inside for r in readers)
    ]
    what = f"compute {called(around.node)} in {{}}, inputs and outputs too"
    if len(region) > 1:
        what = f"compute all {len(region)} ops connected with {called(around.node)} in {{}}"
    for dtype in _FLOATS:
        if lacks(dtype) is None and any(_computes_in(n) not in (None, dtype) for n in region):
            edit = _retyped(around, region, dtype, casts)
            yield Change(what.format(dtype), edit, exact=False)


def op_types(around: Around) -> Iterator[Change]:
    """Yield candidates that compute the op alone in another type, with TypeCasts around it."""
    have = _computes_in(around.node)
    if have is None:
        return
    for dtype in _FLOATS:
        if dtype != have and lacks(dtype) is None:
            # Values that other ops read, and outputs of the graph, keep their types.
            yield Change(
                f"compute {called(around.node)} alone in {dtype}, with TypeCasts around it",
                _retyped(around, [around.node], dtype),
                exact=dtype == "f32",
            )


def parameter_types(around: Around) -> Iterator[Change]:
    """Yield candidates that give the parameters (scales, statistics, bias) another type."""
    for node in around.concerned:
        schema = row(node.kind).at(linked_version())
        ports = [schema.port("inputs", i) for i in range(len(node.inputs))]
        first = ports[0].type if ports and ports[0] is not None else ""
        variables = dict.fromkeys(p.type for p in ports if p is not None and p.type != first)
        for variable in variables:
            which = [i for i, p in enumerate(ports) if p is not None and p.type == variable]
            have = node.inputs[which[0]].dtype
            for dtype in schema.types.get(variable, ()):
                if dtype == have or dtype not in _FLOATS or have not in _FLOATS:
                    continue
                edit = _with_parameters(around, node, which, dtype, variable)
                names = ", ".join(dict.fromkeys(p.name for i in which if (p := ports[i])))
                yield Change(f"make {names} of {called(node)} {dtype}", edit, exact=dtype == "f32")


def _with_parameters(
    around: Around, node: Node, which: Sequence[int], dtype: str, variable: str
) -> Edit:
    place = around.positions[node.id]
    dtypes = {}
    for i in which:
        value = node.inputs[i]
        if value.producer is None and len(around.readers.get(value.id, [])) == 1:
            dtypes[around.numbers[value.id]] = dtype
    schema = row(node.kind).at(linked_version())
    for k, value in enumerate(node.outputs):
        port = schema.port("outputs", k)
        if port is not None and port.type == variable:
            dtypes[around.numbers[value.id]] = dtype
    return around.checked(
        Edit(dtypes=dtypes, ports={(place, i): dtype for i in which}, kinds={place: node.kind})
    )
