"""The directive ``op-table``: a section for each op, made from the rows of the table."""

from collections.abc import Iterable, Sequence

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from onednn_graph_py.model.building.op_methods import method_name
from onednn_graph_py.ops import OPS
from onednn_graph_py.ops.describe import documentation_link
from onednn_graph_py.ops.row import Port
from onednn_graph_py.ops.schema import OpSchema
from onednn_graph_py.ops.terms import OLDEST

Row = Sequence[str]


def _text(words: str) -> str:
    """Words of the table, with nothing that reStructuredText takes for markup."""
    return "".join(f"\\{c}" if c in "\\*`|_" else c for c in words)


def _table(head: Row, rows: Iterable[Row]) -> list[str]:
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in (head, *rows):
        lines += [f"   {'  -' if i else '* -'} {cell}" for i, cell in enumerate(row)]
    return [*lines, ""]


def _version(version: tuple[int, int]) -> str:
    return ".".join(str(n) for n in version)


def _ports(op: OpSchema) -> list[Row]:
    rows = []
    ports: tuple[Port, ...]
    for what, ports in (("input", op.inputs), ("output", op.outputs)):
        for number, port in enumerate(ports):
            types = "any" if port.type == "any" else ", ".join(op.types[port.type])
            extent = "any number" if port.variadic else "optional" if port.optional else ""
            variable = "" if port.type == "any" else port.type
            row = (f"{what} {number}", f"``{port.name}``", extent, _text(variable), _text(types))
            rows.append(row)
    return rows


def _attributes(op: OpSchema) -> list[Row]:
    rows = []
    for one in op.attributes:
        default = "not set" if one.default is None else f"``{one.default}``"
        meaning = _text(one.meaning)
        if one.allowed:
            meaning += ": " + ", ".join(f"``{value}``" for value in one.allowed)
        if one.since > OLDEST:
            meaning += f" (since {_version(one.since)})"
        required = "required" if one.required else default
        rows.append((f"``{one.name}``", f"``{one.type}``", required, meaning))
    return rows


def section(op: OpSchema) -> str:
    """One op, as reStructuredText."""
    newest = op.at((99, 0))
    lines = [f".. _op-{op.kind}:", "", op.kind, "-" * len(op.kind), ""]
    lines += [f"{_text(op.summary)} Method: ``{method_name(op.kind)}``; "
              f"`oneDNN's page <{documentation_link(op)}>`__.", ""]  # fmt: skip
    since = f"Since oneDNN {_version(op.since)}." if op.since > OLDEST else ""
    lines += [since or f"In oneDNN {_version(OLDEST)} and all that follow.", ""]
    lines += _table(("port", "name", "", "type", "data types"), _ports(newest))
    if newest.attributes:
        lines += _table(("attribute", "type", "default", "meaning"), _attributes(newest))
    if newest.combinations:
        lines += ["Documented data types, one port after the other:", ""]
        lines += [*(f"- {_text(one)}" for one in newest.combinations), ""]
    changes = [f"- oneDNN {_version(c.since)}: {_text(c.what)}" for c in op.changes]
    if changes:
        lines += ["Changes:", "", *changes, ""]
    if op.notes:
        lines += ["Notes:", "", *(f"- {_text(note)}" for note in op.notes), ""]
    return "\n".join(lines)


class OpTable(SphinxDirective):
    """All ops, by name: an overview and a section each."""

    def run(self) -> list[nodes.Node]:
        """Make the nodes."""
        self.env.note_reread()  # the table may have changed, which Sphinx can't see
        ops = [op for _, op in sorted(OPS.items())]
        rows = [
            (f":ref:`{op.kind} <op-{op.kind}>`",
             _version(op.since) if op.since > OLDEST else "", _text(op.summary))
            for op in ops
        ]  # fmt: skip
        text = "\n".join(_table(("op", "since", "what it computes"), rows))
        text += "\n" + "\n".join(section(op) for op in ops)
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("op-table", OpTable)
    return {"parallel_read_safe": True}
