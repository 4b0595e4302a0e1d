"""Change a document's shapes, strides, data types, attributes and kinds of ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchdnn_batch import takes_batch
from benchdnn_propagate import Layouts, propagate

from onednn_graph_py._core import MAX_NDIMS
from onednn_graph_py.base.errors import InvalidArgumentsError, InvalidGraphOpError, OneDNNError
from onednn_graph_py.ops.lookup import row, with_trait
from onednn_graph_py.ops.row import Port
from onednn_graph_py.ops.schema import OpSchema
from onednn_graph_py.ops.terms import AttributeType, AttributeValue
from onednn_graph_py.serialization.document import (
    AttributeRecord,
    GraphDocument,
    OpRecord,
    TensorRecord,
)
from onednn_graph_py.serialization.links import check_links
from onednn_graph_py.serialization.tags import strides_of, tag_of
from onednn_graph_py.tools.explaining.changes_dtype import RETYPED

_FLOATS = ("f32", "bf16", "f16")


def rewrite(
    document: GraphDocument,
    *,
    shapes: Mapping[int, Sequence[int]] | None = None,
    strides: Mapping[int, Sequence[int] | str] | None = None,
    dtypes: str | Mapping[int, str] | None = None,
    attrs: Mapping[int, Mapping[str, Any]] | None = None,
    kinds: Mapping[int, str] | None = None,
    properties: Mapping[int, str] | None = None,
    mb: int | None = None,
    fpmath_mode: str | None = None,
    apply_to_int: bool | None = None,
    engine_kind: str | None = None,
    infer_all: bool = False,
) -> GraphDocument:
    """Change a graph as oneDNN's test driver benchdnn does, and infer what depends on it.

    - `shapes`: new shapes of the graph's inputs, by tensor id
    - `strides`: new layouts of the graph's inputs, by tensor id: numbers of elements, or a tag such
      as ``acdb``. By default an input whose shape changes keeps the order of its dims in memory.
    - `dtypes`: one floating-point type for the whole graph (``f32``, ``bf16`` or ``f16``; tensors
      that must stay f32 do), or any types by tensor id
    - `attrs`: new values of attributes, by op id
    - `kinds`: new kinds with as many ports, by op id; ``undef`` removes the op
    - `properties`: new properties such as ``constant``, by tensor id
    - `mb`: the size of the batch: dim 0 of the inputs that have one
    - `infer_all`: infer all shapes, as benchdnn always does: keep only the inputs' shapes, and the
      order of all tensors' dims in memory, without gaps. By default infer only what depends on a
      change.
    - raises `InvalidArgumentsError`: an op, tensor or attribute does not exist, or a tensor is not
      an input of the graph
    - raises `OneDNNError`: an op of the new graph is invalid; the message begins with its place

    Notes
    -----
    Scales of Quantize and Dequantize per channel are repeated to match the number of channels. A
    StaticReshape whose ``shape`` begins with the batch's size follows its change.

    Examples
    --------
    >>> from onednn_graph_py import GraphBuilder, serialization
    >>> b = GraphBuilder()
    >>> b.output(b.input((2, 4), "f32").relu())
    >>> document = serialization.from_builder(b)
    >>> made = rewrite(document, shapes={document.inputs()[0]: (8, 3)}, dtypes="bf16")
    >>> made.graph[0].outputs[0].shape, made.graph[0].outputs[0].dtype
    ((8, 3), 'bf16')
    """
    made = _with_kinds(document, kinds or {})
    made, set_attrs = _with_attrs(made, attrs or {})
    touched = set(set_attrs)
    touched |= {(i, "kind") for i, op in enumerate(made.graph) if op.id in (kinds or {})}
    layouts = _inputs(made, shapes or {}, strides or {}, mb, infer_all)
    layouts.attrs |= touched
    if touched or layouts.changed or infer_all:
        made = propagate(made, layouts, infer_all=infer_all)
    made = _with_dtypes(made, dtypes)
    made = _with_properties(made, properties or {})
    if fpmath_mode is not None:
        made = replace(made, fpmath_mode=fpmath_mode)
    if apply_to_int is not None:
        made = replace(made, fpmath_mode_apply_to_int=apply_to_int)
    if engine_kind is not None:
        made = replace(made, engine_kind=engine_kind)
    check_links(made)
    return made


# -- ops


def _op_index(document: GraphDocument, id: int, what: str) -> int:
    for i, op in enumerate(document.graph):
        if op.id == id:
            return i
    ids = ", ".join(str(op.id) for op in document.graph[:12])
    more = ", ..." if len(document.graph) > 12 else ""
    raise InvalidArgumentsError(f"{what}: there is no op {id} in the graph, only {ids}{more}")


def _replaced(document: GraphDocument, i: int, op: OpRecord) -> GraphDocument:
    graph = list(document.graph)
    graph[i] = op
    return replace(document, graph=tuple(graph))


def _ports(ports: Sequence[Port]) -> list[bool]:
    return [p.variadic for p in ports if not p.optional]


def _with_kinds(document: GraphDocument, kinds: Mapping[int, str]) -> GraphDocument:
    for id, kind in kinds.items():
        i = _op_index(document, id, "kinds")
        if kind == "undef":
            document = _without(document, i)
            continue
        old, new = row(document.graph[i].kind), row(kind)
        same = all(
            _ports(getattr(old, ports)) == _ports(getattr(new, ports))
            for ports in ("inputs", "outputs")
        )
        if not same:
            raise InvalidArgumentsError(
                f"graph[{i}]: {old.kind} can't become {kind}, which has other inputs or outputs"
            )
        document = _replaced(document, i, replace(document.graph[i], kind=kind))
    return document


def _without(document: GraphDocument, i: int) -> GraphDocument:
    """Remove an op: what reads its output reads the input that an op makes, or the only one."""
    op, made = document.graph[i], {t.id for o in document.graph for t in o.outputs}
    passed = op.inputs if len(op.inputs) == 1 else [t for t in op.inputs if t.id in made]
    if len(passed) != 1 or len(op.outputs) != 1:
        raise InvalidArgumentsError(
            f"graph[{i}]: {op.kind} can be removed only if one of its inputs stands for its output"
        )
    stands = {op.outputs[0].id: passed[0]}
    kept = tuple(
        replace(o, inputs=tuple(stands.get(t.id, t) for t in o.inputs))
        for o in document.graph
        if o is not op
    )
    outputs = document.output_ports
    if outputs is not None:
        outputs = tuple(stands[n].id if n in stands else n for n in outputs)
    return replace(document, graph=kept, output_ports=outputs)


def attribute_type(op: OpRecord, name: str) -> AttributeType:
    """Return the type of an attribute that an op has, or could have.

    - raises `InvalidArgumentsError`: the op can't have this attribute
    """
    if name in op.attrs:
        return op.attrs[name].type
    schema: OpSchema = row(op.kind)
    known = schema.attribute(name)
    if known is None:
        names = ", ".join(a.name for a in schema.attributes) or "none"
        raise InvalidArgumentsError(f"{op.kind} has no attribute {name!r}; it has: {names}")
    return known.type


def _stored(value: Any, type: AttributeType) -> AttributeValue:
    if isinstance(value, (list, tuple)):
        return tuple(value)
    made: AttributeValue = bool(value) if type == "bool" and value in (0, 1) else value
    return made


def _with_attrs(
    document: GraphDocument, attrs: Mapping[int, Mapping[str, Any]]
) -> tuple[GraphDocument, set[tuple[int, str]]]:
    changed = set()
    for id, values in attrs.items():
        i = _op_index(document, id, "attrs")
        op = document.graph[i]
        records = dict(op.attrs)
        for name, value in values.items():
            try:
                type = attribute_type(op, name)
            except OneDNNError as e:
                raise InvalidArgumentsError(f"graph[{i}] (op {id}): {e}") from None
            records[name] = AttributeRecord(type, _stored(value, type))
            changed.add((i, name))
        document = _replaced(document, i, replace(op, attrs=records))
    return document, changed


# -- the graph's inputs


def _inputs(
    document: GraphDocument,
    shapes: Mapping[int, Sequence[int]],
    strides: Mapping[int, Sequence[int] | str],
    mb: int | None,
    infer_all: bool,
) -> Layouts:
    inputs = document.inputs()
    tensors = document.tensors()
    for what, given in (("shapes", shapes), ("strides", strides)):
        for id in given:
            if id not in inputs:
                which = "made by an op" if id in tensors else "not in the graph"
                raise InvalidArgumentsError(
                    f"{what}: tensor {id} is {which}; the graph's inputs are "
                    f"{', '.join(map(str, inputs))}"
                )
    if mb is not None and mb < 0:
        raise InvalidArgumentsError(f"mb must be at least 0, got {mb}")
    batched = takes_batch(document) if mb is not None else frozenset()
    if mb is not None and not batched:
        raise InvalidArgumentsError("mb: no input of the graph has a batch as its first dim")
    made = Layouts({}, {}, set(), False, set())
    for id in inputs:
        tensor = tensors[id]
        shape = _shape(id, shapes[id]) if id in shapes else tensor.dims
        if mb is not None and id in batched and shape:
            shape = (mb, *shape[1:])
        made.shapes[id] = shape
        made.strides[id] = _input_strides(tensor, shape, strides.get(id), infer_all)
        if shape != tensor.dims or made.strides[id] != (tensor.strides or ()):
            made.changed.add(id)
        before = tag_of(tensor.stride, len(tensor.shape))
        asked = strides.get(id)
        other_rank = id in shapes and len(shape or ()) != len(tensor.shape)
        if (asked is None and other_rank and shape != ()) or (
            asked is not None and _order(asked, shape) != before
        ):
            made.order_changed = True
    return made


def _shape(id: int, given: Sequence[int]) -> tuple[int, ...]:
    shape = tuple(given)
    if len(shape) > MAX_NDIMS or any(not isinstance(d, int) or d < 0 for d in shape):
        raise InvalidArgumentsError(
            f"shapes: tensor {id} must have at most {MAX_NDIMS} dims, each an integer from 0 on, "
            f"got {shape!r}"
        )
    return shape


def _order(asked: Sequence[int] | str, shape: tuple[int, ...] | None) -> str:
    return asked if isinstance(asked, str) else tag_of(asked, len(shape or ()))


def _input_strides(
    tensor: TensorRecord,
    shape: tuple[int, ...] | None,
    asked: Sequence[int] | str | None,
    infer_all: bool,
) -> tuple[int, ...]:
    if shape is None:
        return ()
    if isinstance(asked, str) or asked is None:
        if asked is None and shape == tensor.dims and not infer_all:
            return tensor.strides or ()
        tag = asked or tag_of(tensor.stride, len(tensor.shape))
        if asked is None and len(tag) != len(shape):
            tag = ""
        try:
            return strides_of(shape, tag)
        except InvalidArgumentsError as e:
            raise InvalidArgumentsError(f"strides: tensor {tensor.id}: {e}") from None
    if len(asked) != len(shape) or any(s < 0 for s in asked):
        raise InvalidArgumentsError(
            f"strides: tensor {tensor.id} must have {len(shape)}, none negative, got {asked!r}"
        )
    return tuple(asked)


# -- data types and properties


def _each(document: GraphDocument, changed: Mapping[int, Mapping[str, str]]) -> GraphDocument:
    """Change fields of tensors in all places that describe them."""

    def told(tensor: TensorRecord) -> TensorRecord:
        fields: Any = changed.get(tensor.id, {})
        return replace(tensor, **fields)

    return document.with_tensors(told)


def _check_tensors(document: GraphDocument, ids: Mapping[int, str], what: str) -> None:
    known = document.tensors()
    for id in ids:
        if id not in known:
            raise InvalidArgumentsError(f"{what}: tensor {id} is not in the graph")


def _with_dtypes(document: GraphDocument, dtypes: str | Mapping[int, str] | None) -> GraphDocument:
    if dtypes is None:
        return document
    if not isinstance(dtypes, str):
        _check_tensors(document, dtypes, "dtypes")
        return _each(document, {id: {"dtype": dtype} for id, dtype in dtypes.items()})
    if dtypes not in _FLOATS:
        raise InvalidArgumentsError(
            f"dtypes: expected one of {', '.join(_FLOATS)} for the whole graph, got {dtypes!r}"
        )
    made = []
    for i, op in enumerate(document.graph):
        if op.kind in with_trait("converts"):
            raise InvalidGraphOpError(
                f"graph[{i}]: {op.kind} converts data types, so the graph can't have a single one; "
                "give data types by tensor id"
            )
        inputs, outputs = RETYPED.get(op.kind, (range(len(op.inputs)), range(len(op.outputs))))
        if op.kind == "GreaterEqual":
            inputs, outputs = ((0, 1) if op.inputs[0].dtype in _FLOATS else ()), ()
        made.append(
            replace(
                op,
                inputs=_retyped(op.inputs, inputs, dtypes),
                outputs=_retyped(op.outputs, outputs, dtypes),
            )
        )
    return replace(document, graph=tuple(made))


def _retyped(
    tensors: Sequence[TensorRecord], which: Sequence[int], dtype: str
) -> tuple[TensorRecord, ...]:
    return tuple(replace(t, dtype=dtype) if k in which else t for k, t in enumerate(tensors))


def _with_properties(document: GraphDocument, properties: Mapping[int, str]) -> GraphDocument:
    _check_tensors(document, properties, "properties")
    for id, name in properties.items():
        if name not in ("undef", "variable", "constant", "host_scalar"):
            raise InvalidArgumentsError(
                f"properties: tensor {id} can be undef, variable, constant or host_scalar, got "
                f"{name!r}"
            )
    return _each(document, {id: {"property_type": name} for id, name in properties.items()})
