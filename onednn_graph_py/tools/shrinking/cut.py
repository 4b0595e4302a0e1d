"""Make graphs smaller: keep only some ops, or bypass an op."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from ..._core import UNKNOWN_DIM
from ...base.errors import OneDNNError
from ...serialization import GraphDocument, OpRecord, TensorRecord, to_builder
from ...serialization.tags import strides_of


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
    made = replace(document, graph=tuple(op for op in document.graph if op.id in ids))
    return _with_inputs(made)


def _with_inputs(document: GraphDocument) -> GraphDocument:
    """Give the new inputs a layout, and drop ports that the graph no longer has."""
    made = document.produced()

    def told(tensor: TensorRecord) -> TensorRecord:
        if tensor.id in made or tensor.layout_type == "strided":
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
                yield _passed(document, op, result.id, source)


def _passed(
    document: GraphDocument, without: OpRecord, result: int, source: TensorRecord
) -> GraphDocument:
    graph = tuple(
        replace(op, inputs=tuple(source if t.id == result else t for t in op.inputs))
        for op in document.graph
        if op.id != without.id
    )
    return _with_inputs(replace(document, graph=graph))
