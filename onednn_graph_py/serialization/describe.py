"""Make documents of graphs that a `GraphBuilder` built."""

from __future__ import annotations

from dataclasses import replace

from .._core import UNKNOWN_DIM
from ..base.errors import InvalidGraphError
from ..base.linked import version
from ..model.building.builder import GraphBuilder
from ..model.building.foreign import require_ops
from ..model.building.value import Node, Value, is_whole, row_major
from ..ops.lookup import row
from .document import AttributeRecord, GraphDocument, OpRecord, TensorRecord


def from_builder(builder: GraphBuilder) -> GraphDocument:
    """Return the document of a builder's graph.

    Ops and tensors are numbered anew. Those of a loaded graph keep what its file says of them but a
    builder does not hold, such as properties. Constants lose their values.

    Raises
    ------
    InvalidGraphError
        The graph has no ops, has host steps or views (for which oneDNN has no op), or has an input
        that no op reads or an output that no op makes.
    """
    if not builder.nodes:
        raise InvalidGraphError("a graph without ops can't be written as JSON")
    require_ops(builder.nodes, (*builder.inputs, *builder.constants), "graph JSON")
    read = {v.id for n in builder.nodes for v in n.inputs}
    for value in builder.inputs:
        if value.id not in read:
            raise InvalidGraphError(
                f"input {value.name!r}: no op reads it, so JSON can't represent it"
            )
    for name, value in builder.outputs.items():
        if value.producer is None:
            raise InvalidGraphError(f"output {name!r}: no op makes it, so JSON can't represent it")
    leaves = [*builder.inputs, *(v for v in builder.constants if v.id in read)]
    values = [*leaves, *(v for n in builder.nodes for v in n.outputs)]
    records = {
        v.id: replace(builder.records[v.id], id=i) if v.id in builder.records else _record(v, i)
        for i, v in enumerate(values)
    }
    graph = [_op(n, i, records) for i, n in enumerate(builder.nodes)]
    outputs = {v.id: records[v.id] for v in builder.outputs.values()}
    ended = {v.id for n in builder.nodes if n.kind == "End" for v in n.inputs}
    # Only End marks a tensor that ops read, too, as an output.
    graph += [
        OpRecord(len(graph) + i, "end", "End", {}, (outputs[id],), ())
        for i, id in enumerate(id for id in outputs if id in read - ended)
    ]
    return GraphDocument(
        version().release,
        builder.engine_kind.name,
        tuple(graph),
        builder.fpmath_mode.name,
        builder.apply_to_int,
        tuple(records[v.id].id for v in leaves),
        tuple(tensor.id for tensor in outputs.values()),
    )


def _record(value: Value, id: int) -> TensorRecord:
    shape: tuple[int, ...] = (UNKNOWN_DIM,)
    stride: tuple[int, ...] = (UNKNOWN_DIM,)
    if value.shape is not None:
        shape = tuple(UNKNOWN_DIM if d < 0 else d for d in value.shape)
        stride = value.strides or tuple(
            n if is_whole(value.shape[i + 1 :]) else UNKNOWN_DIM
            for i, n in enumerate(row_major(value.shape))
        )
    kind = "constant" if value.data is not None else "variable"
    return TensorRecord(id, value.dtype, shape, stride, "strided", kind)


def _op(node: Node, id: int, records: dict[int, TensorRecord]) -> OpRecord:
    schema = row(node.kind)
    attrs = {}
    for name, value in node.attrs.items():
        attribute = schema.attribute(name)
        if attribute is not None:
            attrs[name] = AttributeRecord(attribute.type, value)
    return OpRecord(
        id,
        node.name,
        node.kind,
        attrs,
        tuple(records[v.id] for v in node.inputs),
        tuple(records[v.id] for v in node.outputs),
    )
