"""Make documents of graphs that a `GraphBuilder` built."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from .._core import UNKNOWN_DIM
from ..base.errors import InvalidGraphError
from ..base.linked import version
from ..model.building.builder import GraphBuilder
from ..model.building.foreign import require_ops
from ..model.building.value import Node, Value, is_whole, row_major
from ..ops.lookup import row
from .document import AttributeRecord, GraphDocument, OpRecord, TensorRecord
from .origin import Origin


class _Ids:
    """Ids that a document does not use yet, one for each value or node."""

    def __init__(self, known: dict[int, int], taken: Iterable[int]) -> None:
        self._known = dict(known)
        self._taken = set(taken)
        self._next = itertools.count()

    def of(self, id: int) -> int:
        """Return the document's id for a builder's."""
        if id not in self._known:
            self._known[id] = self.fresh()
        return self._known[id]

    def fresh(self) -> int:
        return next(n for n in self._next if n not in self._taken)


def from_builder(builder: GraphBuilder) -> GraphDocument:
    """Return the document of a builder's graph.

    Ops and tensors that `to_builder` made get back their ids, names, properties and layouts, so
    that a document survives the round trip; added ones get new ids. Constants lose their values.

    Parameters
    ----------
    builder : GraphBuilder

    Returns
    -------
    GraphDocument

    Raises
    ------
    InvalidGraphError
        The graph has no ops, has host steps or views (for which oneDNN has no op), or has an input
        that no op reads or an output that no op makes.
    """
    if not builder.nodes:
        raise InvalidGraphError("a graph without ops can't be written as JSON")
    require_ops(builder.nodes, (*builder.inputs, *builder.constants), "graph JSON")
    origin: Origin | None = builder.origin
    source = origin.document if origin else None
    known_tensors = source.tensors() if source else {}
    tensor_ids = _Ids(origin.tensors if origin else {}, known_tensors)
    old_ops = source.graph if source else ()
    op_ids = _Ids({}, (o.id for o in old_ops))
    leaves = [*builder.inputs, *builder.constants]
    records = {
        v.id: known_tensors.get(tensor_ids.of(v.id)) or _record(v, tensor_ids.of(v.id))
        for v in [*leaves, *(v for n in builder.nodes for v in n.outputs)]
    }
    made = [(i, op) for i, op in enumerate(old_ops) if op.kind == "End"]
    fresh: list[OpRecord] = []
    for node in builder.nodes:
        index = origin.ops.get(node.id) if origin else None
        if index is not None:
            made.append((index, _again(node, old_ops[index], records)))
        else:
            fresh.append(_new(node, op_ids.of(node.id), records))
    fresh += _new_ends(builder, source, records, op_ids)
    graph = (*(op for _, op in sorted(made, key=lambda pair: pair[0])), *fresh)
    document = GraphDocument(
        source.version if source and not fresh else version().release,
        builder.engine_kind.name,
        graph,
        _kept(source.fpmath_mode if source else "", builder.fpmath_mode.name, "strict"),
        _kept(source.fpmath_mode_apply_to_int if source else "", builder.apply_to_int, False),
    )
    return _with_ports(document, builder, source, records)


def _kept(said: object, value: Any, default: Any) -> Any:
    """Return the value, or None if it is the default and the file left out the field."""
    return None if said is None and value == default else value


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


def _again(node: Node, old: OpRecord, records: dict[int, TensorRecord]) -> OpRecord:
    """Return a node's record from the record it was made from, connected as the node is now."""

    def told(values: tuple[Value, ...], said: tuple[TensorRecord, ...]) -> Iterator[TensorRecord]:
        # A reader may describe a tensor differently than its maker.
        for value, record in zip(values, said, strict=True):
            mine = records[value.id]
            yield record if record.id == mine.id else mine

    return OpRecord(
        old.id,
        old.name,
        node.kind,
        old.attrs,
        tuple(told(node.inputs, old.inputs)),
        tuple(told(node.outputs, old.outputs)),
    )


def _new(node: Node, id: int, records: dict[int, TensorRecord]) -> OpRecord:
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


def _new_ends(
    builder: GraphBuilder,
    source: GraphDocument | None,
    records: dict[int, TensorRecord],
    ids: _Ids,
) -> list[OpRecord]:
    """Return an End for each output that ops read too; only End marks it as an output."""
    read = {v.id for n in builder.nodes for v in n.inputs}
    told = set(source.outputs()) if source else set()
    return [
        OpRecord(ids.fresh(), "end", "End", {}, (records[v.id],), ())
        for v in {v.id: v for v in builder.outputs.values()}.values()
        if v.id in read and v.producer is not None and records[v.id].id not in told
    ]


def _with_ports(
    document: GraphDocument,
    builder: GraphBuilder,
    source: GraphDocument | None,
    records: dict[int, TensorRecord],
) -> GraphDocument:
    read = {v.id for n in builder.nodes for v in n.inputs}
    for value in builder.inputs:
        if value.id not in read and not (source and records[value.id].id in source.tensors()):
            raise InvalidGraphError(
                f"input {value.name!r}: no op reads it, so JSON can't represent it"
            )
    for name, value in builder.outputs.items():
        if value.producer is None:
            raise InvalidGraphError(f"output {name!r}: no op makes it, so JSON can't represent it")
    leaves = [*builder.inputs, *(v for v in builder.constants if v.id in read)]
    inputs = tuple(records[v.id].id for v in leaves)
    outputs = tuple(dict.fromkeys(records[v.id].id for v in builder.outputs.values()))
    if source and inputs == source.inputs() and outputs == source.outputs():
        return replace(document, input_ports=source.input_ports, output_ports=source.output_ports)
    return replace(document, input_ports=inputs, output_ports=outputs)
