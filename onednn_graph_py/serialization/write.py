"""Write a graph as text in the library's own format."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..base.errors import InvalidGraphError
from ..base.text.files import write_whole
from ..model.building.builder import GraphBuilder
from .describe import from_builder
from .document import AttributeRecord, GraphDocument, OpRecord

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
