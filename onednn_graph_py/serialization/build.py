"""Documents as graphs: `GraphBuilder` and the mirror's graph, and back."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .. import _core
from .._core import UNKNOWN_DIM
from ..builder import GraphBuilder, Node, Value, is_whole, row_major
from ..errors import GraphFormatError, InvalidGraphError, OneDNNError
from ..ops.check import check, row
from ..ops.table import OPS
from .document import AttributeRecord, GraphDocument, OpRecord, TensorRecord
from .links import check_agreement, check_links, in_order
from .parse import parse
from .read import JSONSource, file_of

if TYPE_CHECKING:
    from ..ops.schema import AttributeType

__all__ = ["Origin", "from_builder", "load", "to_builder", "to_graph"]

# An attribute's name tells its type, whatever op has it.
_TYPES: dict[str, AttributeType] = {a.name: a.type for op in OPS.values() for a in op.attributes}


@dataclass(frozen=True)
class Origin:
    """The document that a builder was made from, and what became of its parts.

    It has what a builder has no place for: ids, properties, layouts, spellings, End.

    Parameters
    ----------
    document : GraphDocument
    tensors : dict of int to int
        Tensor ids of the document by the ids of values.
    ops : dict of int to int
        Indices into the document's ``graph`` by the ids of nodes.
    """

    document: GraphDocument
    tensors: dict[int, int]
    ops: dict[int, int]


@contextlib.contextmanager
def _at(place: object) -> Iterator[None]:
    """Put the place in the file before the message of an error."""
    try:
        yield
    except OneDNNError as e:
        raise type(e)(f"{place}: {e}") from None
    except TypeError as e:  # an attribute or argument is something else than the op needs
        raise GraphFormatError(f"{place}: {e}") from None


def _check_types(op: OpRecord) -> None:
    for name, attribute in op.attrs.items():
        expected = _TYPES.get(name, attribute.type)
        if attribute.type != expected:
            raise GraphFormatError(
                f'attrs.{name}.type: expected "{expected}", got "{attribute.type}"'
            )


def load(source: JSONSource) -> GraphBuilder:
    """Read a graph's JSON into a builder, ready to compile; see `parse` and `to_builder`.

    Parameters
    ----------
    source : path, str, bytes or dict

    Returns
    -------
    GraphBuilder
        Its inputs and outputs are called ``t`` and the tensor's id.

    Raises
    ------
    GraphFormatError
        It is no graph; the message names the place.
    OneDNNError
        An op is not right, or not known to the linked oneDNN.
    OSError
        The file can't be opened.
    """
    document = parse(source)
    path = file_of(source)
    if path is None:
        return to_builder(document)
    with _at(path):
        return to_builder(document)


def to_builder(document: GraphDocument) -> GraphBuilder:
    """Build what a document says, op by op, each checked with the table of ops.

    Tensors that no op makes become inputs, also the constant ones, whose values the file does not
    have. Results are the tensors that no op reads and those that ``output_ports`` or End mark.
    Inputs and results are called ``t`` and the tensor's id.

    Parameters
    ----------
    document : GraphDocument

    Returns
    -------
    GraphBuilder

    Raises
    ------
    GraphFormatError
        Ids, shapes or attribute types contradict each other, or an input's rank is not known.
    UnimplementedError
        The linked oneDNN is older than an op, an attribute or a data type.
    OneDNNError
        As `onednn_graph_py.ops.check`. All messages begin with the place in the file.
    """
    check_links(document)
    check_agreement(document)
    with _at("fpmath_mode"):
        builder = GraphBuilder(
            document.engine_kind,
            document.fpmath_mode or "strict",
            apply_to_int=bool(document.fpmath_mode_apply_to_int),
        )
    values: dict[int, Value] = {}
    places = {t.id: place for place, t in reversed(list(document.records()))}
    tensors = document.tensors()
    for id in document.inputs():
        with _at(places[id]):
            values[id] = _input(builder, tensors[id])
    ops: dict[int, int] = {}
    for i in in_order(document):
        op = document.graph[i]
        with _at(f"graph[{i}]"):
            _check_types(op)
            if op.kind == "End":  # a builder's outputs say the same
                specs = [(values[t.id].shape, values[t.id].dtype) for t in op.inputs]
                check("End", specs, op.values, [(t.dims, t.dtype) for t in op.outputs])
                continue
            node = _node(builder, op, [values[t.id] for t in op.inputs])
        ops[node.id] = i
        values.update(zip((t.id for t in op.outputs), node.outputs, strict=True))
    builder.output(**{f"t{id}": values[id] for id in document.outputs()})
    builder._origin = Origin(document, {v.id: id for id, v in values.items()}, ops)
    return builder


def _input(builder: GraphBuilder, tensor: TensorRecord) -> Value:
    if tensor.property_type == "host_scalar":  # the mirror knows which version has it
        _described(tensor)
    if tensor.layout_type == "opaque":
        raise GraphFormatError(
            "layout_type: an opaque layout means something only in the process that made it"
        )
    dims, strides = tensor.dims, tensor.strides
    if dims is None:
        raise GraphFormatError(
            f"shape: not known, not even the number of dims: [{UNKNOWN_DIM}] is what oneDNN writes "
            "for every shape that is not wholly known"
        )
    if not is_whole(dims) or strides == row_major(dims):
        strides = None
    return builder.input(dims, tensor.dtype, name=f"t{tensor.id}", strides=strides)


def _node(builder: GraphBuilder, op: OpRecord, inputs: list[Value]) -> Node:
    outputs = [(t.dims, None if t.dtype == "undef" else t.dtype) for t in op.outputs]
    builder._add(op.kind, inputs, op.values, outputs=outputs, name=op.name or None)
    return builder.nodes[-1]


def to_graph(document: GraphDocument) -> _core.graph:
    """The mirror's graph of a document, with the file's own ids, finalized.

    Layouts are as the file says, and so are shapes: nothing is inferred or checked with the table.
    Where a reader describes a tensor otherwise, what its maker says counts, as in oneDNN.

    Parameters
    ----------
    document : GraphDocument

    Returns
    -------
    graph

    Raises
    ------
    GraphFormatError
        Ids, shapes or attribute types contradict each other, or a layout is opaque.
    UnimplementedError
        The linked oneDNN is older than an op, an attribute or a data type.
    OneDNNError
        oneDNN does not take it. All messages begin with the place in the file.
    """
    check_links(document)
    check_agreement(document)
    tensors = document.tensors()
    g = _core.graph(document.engine_kind)
    if document.fpmath_mode is not None:
        g = _core.graph(document.engine_kind, document.fpmath_mode)
        g.set_fpmath_mode(g.get_fpmath_mode()[0], bool(document.fpmath_mode_apply_to_int))
    for i, op in enumerate(document.graph):
        with _at(f"graph[{i}]"):
            _check_types(op)
            made = _core.op(op.id, op.kind, op.name)
            for name, value in op.values.items():
                made.set_attr(name, value)
        for k, tensor in enumerate(op.inputs):
            with _at(f"graph[{i}].inputs[{k}]"):
                made.add_input(_described(tensors[tensor.id]))
        for k, tensor in enumerate(op.outputs):
            with _at(f"graph[{i}].outputs[{k}]"):
                made.add_output(_described(tensor))
        with _at(f"graph[{i}]"):
            g.add_op(made)
    g.finalize()
    return g


def _described(tensor: TensorRecord) -> _core.logical_tensor:
    if tensor.layout_type == "opaque":
        raise GraphFormatError(
            "layout_type: an opaque layout means something only in the process that made it"
        )
    dims, strides = tensor.dims, tensor.strides
    kind = tensor.property_type
    if dims is None:
        return _core.logical_tensor(tensor.id, tensor.dtype, -1, tensor.layout_type, kind)
    sizes = [UNKNOWN_DIM if d < 0 else d for d in dims]
    if tensor.layout_type == "strided" and strides is not None:
        return _core.logical_tensor(tensor.id, tensor.dtype, sizes, strides, kind)
    return _core.logical_tensor(tensor.id, tensor.dtype, sizes, tensor.layout_type, kind)


class _Ids:
    """Ids that a document does not have yet, one for each value or node that asks."""

    def __init__(self, known: dict[int, int], taken: Iterable[int]) -> None:
        self._known = dict(known)
        self._taken = set(taken)
        self._next = itertools.count()

    def of(self, id: int) -> int:
        """The document's id for a builder's."""
        if id not in self._known:
            self._known[id] = self.fresh()
        return self._known[id]

    def fresh(self) -> int:
        return next(n for n in self._next if n not in self._taken)


def from_builder(builder: GraphBuilder) -> GraphDocument:
    """The document of what was built.

    What `to_builder` made gets back its ids, names, properties and layouts, so that a document
    comes back as it was; what was added since has new ids. Of constants only the shape is kept.

    Parameters
    ----------
    builder : GraphBuilder

    Returns
    -------
    GraphDocument

    Raises
    ------
    InvalidGraphError
        There are no ops, an input that no op reads, or an output that no op makes: a file has no
        place for these.
    """
    if not builder.nodes:
        raise InvalidGraphError("a graph without ops can't be written as JSON")
    origin: Origin | None = builder._origin
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
        source.version if source and not fresh else _linked(),
        builder.engine_kind.name,
        graph,
        _kept(source.fpmath_mode if source else "", builder.fpmath_mode.name, "strict"),
        _kept(source.fpmath_mode_apply_to_int if source else "", builder.apply_to_int, False),
    )
    return _with_ports(document, builder, source, records)


def _kept(said: object, value: Any, default: Any) -> Any:
    """A field that the file left out stays out as long as it has its default."""
    return None if said is None and value == default else value


def _linked() -> str:
    v = _core.version()
    return f"{v['major']}.{v['minor']}.{v['patch']}"


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
    """The record of a node that came from one, connected as the node is."""

    def told(values: tuple[Value, ...], said: tuple[TensorRecord, ...]) -> Iterator[TensorRecord]:
        # A reader may describe a tensor otherwise than its maker does.
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
    """An End for each output that ops read too, which nothing else in the file would tell."""
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
            raise InvalidGraphError(f"input {value.name!r}: no op reads it, so JSON can't have it")
    for name, value in builder.outputs.items():
        if value.producer is None:
            raise InvalidGraphError(f"output {name!r}: no op makes it, so JSON can't have it")
    leaves = [*builder.inputs, *(v for v in builder.constants if v.id in read)]
    inputs = tuple(records[v.id].id for v in leaves)
    outputs = tuple(dict.fromkeys(records[v.id].id for v in builder.outputs.values()))
    if source and inputs == source.inputs() and outputs == source.outputs():
        return replace(document, input_ports=source.input_ports, output_ports=source.output_ports)
    return replace(document, input_ports=inputs, output_ports=outputs)
