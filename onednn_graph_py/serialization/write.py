"""Make documents of built graphs, and write graphs as text in the library's own format."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .._core import UNKNOWN_DIM
from ..base.arguments import need_instance
from ..base.errors import InvalidGraphError
from ..base.linked import version
from ..base.text.files import write_whole
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
    graph = [_op_record(n, i, records) for i, n in enumerate(builder.nodes)]
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


def _op_record(node: Node, id: int, records: dict[int, TensorRecord]) -> OpRecord:
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


# The library escapes only these characters. benchdnn reads each of them as \r.
_ESCAPES = {"\r": "\\r", "\n": "\\n", "\\": "\\\\", "\t": "\\t", '"': '\\"'}
_ESCAPED = str.maketrans({**{chr(c): f"\\u{c:04x}" for c in range(32)}, **_ESCAPES})


def to_json(graph: GraphBuilder | GraphDocument) -> str:
    """Return the text that oneDNN itself would write, byte for byte except for numbers' digits.

    benchdnn and `onednn_graph_py.load` can read it. It does not contain the values of constants.
    Numbers have enough digits to read the same numbers again; oneDNN writes only 6. Infinite
    numbers are ``inf``, as in oneDNN, which benchdnn can't read.

    Raises
    ------
    InvalidGraphError
        The graph has no ops.

    Examples
    --------
    >>> from onednn_graph_py.serialization import parse
    >>> text = to_json(parse({"version": "3.7.2", "engine_kind": "cpu", "graph": [
    ...     {"id": 0, "kind": "End", "inputs": [], "outputs": []}]}))
    >>> text.splitlines()[1].strip()
    '"version": "3.7.2",'
    """
    document = from_builder(graph) if isinstance(graph, GraphBuilder) else graph
    need_instance("to_json: graph", document, GraphDocument, GraphBuilder)
    if not document.graph:
        raise InvalidGraphError("a graph without ops can't be written as JSON")
    fields: dict[str, Any] = {"version": document.version, "engine_kind": document.engine_kind}
    for name in ("fpmath_mode", "fpmath_mode_apply_to_int", "input_ports", "output_ports"):
        value = getattr(document, name)
        if value is not None:
            fields[name] = str(value).lower() if isinstance(value, bool) else value
    fields["graph"] = [_op(op) for op in document.graph]
    return _text(fields) + "\n"


def save(graph: GraphBuilder | GraphDocument, path: str | os.PathLike[str]) -> None:
    """Write `to_json` of a graph into a file.

    Raises
    ------
    InvalidGraphError
        The graph has no ops.
    OSError
        The file can't be written.
    """
    write_whole(path, to_json(graph))


def _op(op: OpRecord) -> dict[str, Any]:
    return {
        "id": op.id,
        "name": op.name,
        "kind": op.kind,
        "attrs": {name: _attribute(a) for name, a in op.attrs.items()},
        # A record has the fields in the order in which oneDNN writes them.
        "inputs": [vars(t) for t in op.inputs],
        "outputs": [vars(t) for t in op.outputs],
    }


def _attribute(attribute: AttributeRecord) -> dict[str, Any]:
    value: Any = attribute.value
    if attribute.type == "bool":
        value = int(value)
    elif attribute.type == "f32":
        value = float(value)
    elif attribute.type == "f32[]":
        value = tuple(float(v) for v in value)
    return {"type": attribute.type, "value": value}


def _number(value: float) -> str:
    """Return a float as C++ prints it, with more digits if 6 don't identify it."""
    for digits in range(6, 17):
        text = f"{value:.{digits}g}"
        if float(text) == value:
            return "-0.0" if text == "-0" else text  # otherwise it would be read as an integer
    return f"{value:.17g}"


def _text(value: Any, line: str = "\n") -> str:
    """Return a value with each entry of a list on a line, indented by two spaces for each level."""
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPED)}"'
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, int):
        return str(value)
    inner = line + "  "
    if isinstance(value, Mapping):
        brackets = "{}"
        entries = [f"{_text(name)}: {_text(v, inner)}" for name, v in value.items()]
    else:
        brackets = "[]"
        entries = [_text(v, inner) for v in value]
    if not entries:
        return brackets
    return f"{brackets[0]}{inner}{f',{inner}'.join(entries)}{line}{brackets[1]}"
