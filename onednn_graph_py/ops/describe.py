"""An op's row as text for ``help()`` and the command line."""

import inspect
import textwrap
from typing import Any

from ..base.text.table import text_table
from .row import Attribute, Port, Row
from .terms import OLDEST, Version

_PAGES = "https://uxlfoundation.github.io/oneDNN/dev_guide_op_"

_LIST_OF = {"s64[]": tuple[int, ...], "f32[]": tuple[float, ...]}
_PYTHON_TYPES: dict[str, Any] = {"s64": int, "f32": float, "bool": bool, "string": str, **_LIST_OF}


def documentation_link(schema: Row) -> str:
    """Return the link to the op's page in oneDNN's documentation."""
    return f"{_PAGES}{schema.kind.lower()}.html"


def _parameter_name(schema: Row, port: Port) -> str:
    # "src/dst": use_dst says which of both it is.
    name = port.name.replace("/", "_or_")
    return f"{name}_input" if schema.attribute(name) else name


def signature(schema: Row) -> inspect.Signature:
    """Return the op's signature, with inputs by position and attributes by name."""
    parameters = []
    for port in schema.inputs:
        kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
        default: Any = inspect.Parameter.empty
        if port.variadic:
            kind = inspect.Parameter.VAR_POSITIONAL
        elif port.optional:
            default = None
        parameters.append(inspect.Parameter(_parameter_name(schema, port), kind, default=default))
    for attribute in sorted(schema.attributes, key=lambda a: not a.required):
        parameters.append(
            inspect.Parameter(
                attribute.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if attribute.required else attribute.default,
                annotation=_PYTHON_TYPES[attribute.type],
            )
        )
    return inspect.Signature(parameters)


def version_text(version: Version) -> str:
    """Return a version as text, such as ``3.8``."""
    return f"{version[0]}.{version[1]}"


def _port_name(port: Port) -> str:
    name = f"{port.name}..." if port.variadic else port.name
    return f"[{name}]" if port.optional else name


def _types(schema: Row, port: Port) -> str:
    return "any" if port.type == "any" else " ".join(schema.types[port.type])


def _value(attribute: Attribute) -> str:
    if attribute.required:
        return "required"
    if attribute.default is None:
        return "not set"
    return str(attribute.default)


def _history(schema: Row) -> list[str]:
    lines = []
    if schema.since > OLDEST:
        lines.append(f"since oneDNN {version_text(schema.since)}")
    lines += [f"{version_text(change.since)}: {change.what}" for change in schema.changes]
    return lines


def _ports(schema: Row) -> list[tuple[str, str, str]]:
    rows = []
    for what in ("input", "output"):
        ports: tuple[Port, ...] = getattr(schema, f"{what}s")
        rows += [(f"{what} {i}", _port_name(p), _types(schema, p)) for i, p in enumerate(ports)]
    return rows


def aligned(rows: list[tuple[str, ...]], indent: str = "    ") -> list[str]:
    """Return lines of aligned columns; the last column is wrapped."""
    columns = zip(*(row[:-1] for row in rows), strict=True)
    width = sum(max(map(len, column)) + 2 for column in columns)
    room = max(40, 100 - len(indent) - width)
    wrapped = [(*row[:-1], "\n".join(textwrap.wrap(row[-1], room))) for row in rows]
    return text_table(wrapped, indent=indent)


def _attribute_rows(schema: Row) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for a in schema.attributes:
        meaning = a.meaning
        if a.allowed:
            meaning += f" ({' | '.join(a.allowed)})"
        if a.since > OLDEST:
            meaning += f"; since {version_text(a.since)}"
        rows.append((a.name, a.type, _value(a), meaning))
    return rows


def text(schema: Row) -> str:
    """Return all of the row as readable text."""
    newest = schema.at((99, 0))  # all changes applied, as in the newest known oneDNN
    lines = [schema.summary, "", *aligned([*_ports(newest)])]
    shared = [p.type for p in (*newest.inputs, *newest.outputs) if p.type != "any"]
    if len(set(shared)) < len(shared) and len(set(shared)) > 1:
        groups: dict[str, list[str]] = {}
        for p in (*newest.inputs, *newest.outputs):
            groups.setdefault(p.type, []).append(p.name)
        several = [names for names in groups.values() if len(names) > 1]
        lines += [f"    of one data type: {', '.join(names)}" for names in several]
    elif len(shared) > 1 and len(set(shared)) == 1:
        lines.append("    all of one data type")
    if newest.combinations:
        lines += ["", "Documented data types", *(f"    {c}" for c in newest.combinations)]
    if newest.attributes:
        lines += ["", "Attributes", *aligned(_attribute_rows(newest))]
    if history := _history(schema):
        lines += ["", "Versions", *(f"    {line}" for line in history)]
    if schema.notes:
        lines += ["", "Notes"]
        for note in schema.notes:
            lines += textwrap.wrap(note, 96, initial_indent="    ", subsequent_indent="      ")
    lines += ["", documentation_link(schema)]
    return "\n".join(lines)
