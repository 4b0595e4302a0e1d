"""Smaller graphs: fewer ops, inputs and attributes, plain data types and layouts."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..._core import UNKNOWN_DIM
from ...base.errors import OneDNNError
from ...ops.schema import OpSchema
from ...ops.table import OPS
from ...ops.terms import AttributeValue
from ...serialization import GraphDocument, OpRecord, TensorRecord, to_builder
from ...serialization.links import strides_of
from .resize import resized

# The data types that may replace one, the simplest first.
_PLAINER: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("f16", "bf16", "f8_e4m3", "f8_e5m2"), ("f32",)),
    "u4": ("u8", "s8"),
    "s4": ("s8",),
    "u8": ("s8",),
}
# Attributes whose entries may be made smaller separately.
_SIZES = ("kernel", "sizes")


def _with_op(document: GraphDocument, i: int, op: OpRecord) -> GraphDocument:
    return replace(document, graph=(*document.graph[:i], op, *document.graph[i + 1 :]))


def optional_inputs(document: GraphDocument) -> Iterator[GraphDocument]:
    """Yield graphs without an optional input, or an optional result that no op reads."""
    read = document.read()
    for i, op in enumerate(document.graph):
        schema = OPS.get(op.kind)
        if schema is None:
            continue
        counts = schema.counts("inputs")
        variadic = schema.inputs and schema.inputs[-1].variadic
        for k in reversed(range(len(op.inputs))):
            if len(op.inputs) - 1 in counts or (variadic and len(op.inputs) > len(schema.inputs)):
                inputs = (*op.inputs[:k], *op.inputs[k + 1 :])
                changed = _with_op(document, i, replace(op, inputs=inputs))
                yield resized(changed, original=document) or changed
        last = op.outputs[-1:]
        if last and last[0].id not in read and len(op.outputs) - 1 in schema.counts("outputs"):
            yield _with_op(document, i, replace(op, outputs=op.outputs[:-1]))


def attributes(document: GraphDocument) -> Iterator[GraphDocument]:
    """Yield graphs with an attribute left out or simplified; shapes follow."""
    for i, op in enumerate(document.graph):
        for name, record in op.attrs.items():
            for value in _plainer(op, name, record.value):
                attrs = {n: a for n, a in op.attrs.items() if n != name or value is not None}
                if value is not None:
                    attrs[name] = replace(record, value=value)
                changed = _with_op(document, i, replace(op, attrs=attrs))
                smaller = resized(changed, original=document)
                if smaller is not None:
                    yield smaller


def _plainer(op: OpRecord, name: str, value: AttributeValue) -> Iterator[Any]:
    """Yield simpler values, the simplest first; None leaves the attribute out."""
    schema: OpSchema | None = OPS.get(op.kind)
    known = schema.attribute(name) if schema is not None else None
    if known is None or not known.required:
        yield None
    if known is None:
        return
    if known.type in ("s64[]", "f32[]") and isinstance(value, tuple) and name != "order":
        plain: list[Any] = [0, 1] if name.startswith(("pads", "zps", "output_pad")) else [1]
        for each in plain:
            entries = (each,) * len(value)
            if name in ("shape", "axes") or entries == value:  # later values are not simpler
                break
            yield entries
        if name in _SIZES or name.startswith(("pads", "strides", "dilations")):
            least = 0 if name.startswith("pads") else 1
            for i, v in enumerate(value):
                for size in dict.fromkeys((least, int(v) // 2, int(v) - 1)):
                    if least <= size < v:
                        yield (*value[:i], size, *value[i + 1 :])
        if name == "axes" and len(value) > 1:
            yield value[:1]
    elif name == "groups" and value != 1:
        yield 1


def data_types(document: GraphDocument) -> Iterator[GraphDocument]:
    """Yield graphs with a data type replaced by a simpler one, without needless casts."""
    used = dict.fromkeys(t.dtype for t in document.tensors().values())
    for dtype in used:
        for plainer in _PLAINER.get(dtype, ()):

            def told(
                tensor: TensorRecord, dtype: str = dtype, plainer: str = plainer
            ) -> TensorRecord:
                return replace(tensor, dtype=plainer) if tensor.dtype == dtype else tensor

            yield _without_casts(document.with_tensors(told))


def _without_casts(document: GraphDocument) -> GraphDocument:
    """Return the graph without TypeCasts whose input already has the data type."""
    source: dict[int, TensorRecord] = {}
    graph = []
    for op in document.graph:
        op = replace(op, inputs=tuple(source.get(t.id, t) for t in op.inputs))
        if op.kind == "TypeCast" and op.inputs[0].dtype == op.outputs[0].dtype:
            source[op.outputs[0].id] = op.inputs[0]
        else:
            graph.append(op)
    return replace(document, graph=tuple(graph)) if graph else document


def layouts(document: GraphDocument) -> Iterator[GraphDocument]:
    """Yield graphs in which all tensors, or one, are row-major without a special property."""
    tensors = document.tensors()
    special = [id for id, tensor in tensors.items() if _plain(tensor) != tensor]
    for chosen in (special, *([id] for id in special)):
        if chosen:

            def told(tensor: TensorRecord, chosen: list[int] = chosen) -> TensorRecord:
                return _plain(tensor) if tensor.id in chosen else tensor

            yield document.with_tensors(told)


def _plain(tensor: TensorRecord) -> TensorRecord:
    kept = ("undef", "variable", "host_scalar")  # a host scalar is passed in another way
    if tensor.property_type not in kept:
        tensor = replace(tensor, property_type="undef")
    dims = tensor.dims
    if dims is None or -1 in dims:
        return tensor
    return replace(tensor, stride=strides_of(dims), layout_type="strided")


def settings(document: GraphDocument) -> Iterator[GraphDocument]:
    """Yield the graph with the default floating-point mode."""
    if document.fpmath_mode not in (None, "strict"):
        yield replace(document, fpmath_mode="strict")
    if document.fpmath_mode_apply_to_int:
        yield replace(document, fpmath_mode_apply_to_int=False)


def settled(document: GraphDocument) -> GraphDocument:
    """Return the graph with all inferred shapes, to be cut anywhere; an invalid one unchanged."""
    try:
        builder = to_builder(document)
    except OneDNNError:
        return document
    shapes = {
        builder.records[v.id].id: v.shape
        for node in builder.nodes
        for v in node.outputs
        if v.shape is not None
    }

    def told(tensor: TensorRecord) -> TensorRecord:
        shape = shapes.get(tensor.id)
        if shape is None or shape == tensor.dims or -1 in shape:
            return tensor
        return replace(tensor, shape=shape, stride=strides_of(shape))

    return document.with_tensors(told)


def kept(document: GraphDocument, ids: Collection[int]) -> GraphDocument:
    """Return the graph with only the ops of these ids.

    Results of the other ops become inputs of the graph, and tensors that only they read outputs.
    """
    smaller = replace(document, graph=tuple(op for op in document.graph if op.id in ids))
    return _with_inputs(smaller)


def _with_inputs(document: GraphDocument) -> GraphDocument:
    """Give the new inputs a layout, and drop ports that the graph no longer has."""
    produced = document.produced()

    def told(tensor: TensorRecord) -> TensorRecord:
        if tensor.id in produced or tensor.layout_type == "strided":
            return tensor
        dims = tensor.dims
        stride = strides_of(dims) if dims is not None and -1 not in dims else (UNKNOWN_DIM,)
        return replace(tensor, layout_type="strided", stride=stride)

    document = document.with_tensors(told)
    inputs, outputs = set(document.inputs()), set(document.produced())
    ports = {
        "input_ports": tuple(i for i in document.input_ports or () if i in inputs),
        "output_ports": tuple(i for i in document.output_ports or () if i in outputs),
    }
    fields: Any = {name: ids or None for name, ids in ports.items() if getattr(document, name)}
    return replace(document, **fields)


def bypasses(document: GraphDocument) -> Iterator[GraphDocument]:
    """Yield graphs without one op, whose readers read one of its inputs instead."""
    read = document.read()
    for op in document.graph:
        if not op.outputs or not any(t.id in read for t in op.outputs):
            continue
        if any(t.id in read for t in op.outputs[1:]):
            continue
        result = op.outputs[0]
        for source in dict.fromkeys(op.inputs):
            if source.dtype == result.dtype and source.dims == result.dims:
                graph = tuple(
                    replace(o, inputs=tuple(source if t.id == result.id else t for t in o.inputs))
                    for o in document.graph
                    if o.id != op.id
                )
                yield _with_inputs(replace(document, graph=graph))
