"""Drawings in the languages of Graphviz and Mermaid, and as SVG through Graphviz."""

import importlib
import json
import re
from collections.abc import Sequence

from ...base.errors import UnimplementedError
from ...base.text.names import install_line
from ...base.text.table import element, joined
from .drawing import EDGE, NODE_FILL, PAGE, TERMINAL_FILL, TEXT, Drawing, fill_of
from .labels import edge_lines, node_lines, terminal_lines, title_lines

_FONT = "Helvetica,Arial,sans-serif"


def _label(lines: Sequence[str], *, heading: bool = False) -> str:
    """Return an HTML-like label, the only text in which Graphviz reads entities."""
    first, *rest = lines
    shown = [element("b", first) if heading else first]
    size = {"point-size": "10"}
    shown += [element("font", line, **size) if line.strip() else line for line in rest]
    return f"<{joined(shown, '<br/>')}>"


def _margins(drawing: Drawing) -> dict[int, int]:
    """Return the points around the nodes of each group, within which labels of arrows end.

    Graphviz draws a label right of an arrow and makes no room for it in a cluster.
    """
    groups = {node.key: node.group for node in drawing.nodes if node.group is not None}
    labels, widest = dict.fromkeys(groups.values(), 0), dict.fromkeys(groups.values(), 0)
    for node in drawing.nodes:
        if node.group is not None:
            letters = max(map(len, node_lines(drawing, node)))
            widest[node.group] = max(letters, widest[node.group])
    for edge in drawing.edges:
        group = groups.get(edge.source)
        if group is not None and group == groups.get(edge.target):
            labels[group] = max(labels[group], *map(len, edge_lines(edge)))
    # A letter of a label takes up to 6 points; half a node, 3 a letter and 16 beside them.
    return {i: max(14, 6 * labels[i] - 3 * widest[i]) for i in labels}


def to_dot(drawing: Drawing) -> str:
    """Return a digraph: ops are boxes, groups are clusters, arrows show tensors."""
    lines = [
        "digraph {",
        f'  graph [bgcolor="{PAGE}", fontname="{_FONT}", fontcolor="{TEXT}", labelloc=t, '
        f"ranksep=0.4, pad=0.3, label={_label(title_lines(drawing), heading=True)}]",
        f'  node [shape=box, style="filled,rounded", fontname="{_FONT}", fontsize=12, '
        f'margin="0.22,0.06", fillcolor="{NODE_FILL}", color="{TEXT}", fontcolor="{TEXT}"]',
        f'  edge [fontname="{_FONT}", fontsize=10, color="{EDGE}", fontcolor="{TEXT}"]',
    ]
    for terminal in drawing.terminals:
        lines.append(
            f'  {terminal.key} [shape=oval, style=filled, fillcolor="{TERMINAL_FILL}", '
            f'color="{EDGE}", label={_label(terminal_lines(terminal))}]'
        )

    def node_line(indent: str, i: int) -> str:
        node = drawing.nodes[i]
        label = _label(node_lines(drawing, node), heading=True)
        dashed = drawing.status_of(node) not in (None, "oneDNN")
        style = ', style="filled,rounded,dashed"' if dashed else ""
        return f"{indent}{node.key} [label={label}{style}]"

    members: dict[int | None, list[int]] = {}
    for i, node in enumerate(drawing.nodes):
        members.setdefault(node.group, []).append(i)
    margins = _margins(drawing)
    for i, group in enumerate(drawing.groups):
        if i not in members:
            continue
        style = "filled,rounded" if group.status == "oneDNN" else "filled,rounded,dashed"
        lines += [
            f"  subgraph cluster_g{i} {{",
            f'    graph [style="{style}", fillcolor="{fill_of(i, group)}", color="{TEXT}", '
            f"fontsize=11, labeljust=l, margin={margins[i]}, label={_label([group.title])}]",
            *(node_line("    ", n) for n in members[i]),
            "  }",
        ]
    lines += [node_line("  ", n) for n in members.get(None, ())]
    for edge in drawing.edges:
        # Edges that go back must not change the order of the nodes.
        back = ", style=dashed, constraint=false" if edge.back else ""
        # Spaces that stay keep a font that is wider than Graphviz reckons away from the arrow.
        label = _label([f"\u00a0{line}\u00a0" for line in edge_lines(edge)])
        lines.append(f"  {edge.source} -> {edge.target} [label={label}{back}]")
    return "\n".join([*lines, "}"]) + "\n"


def missing() -> str:
    """Return what must be installed before `to_svg` can work; empty if nothing must.

    The ``graphviz`` package only calls the program ``dot``, which comes with Graphviz.
    """
    import shutil

    lacking = []
    try:
        importlib.import_module("graphviz")
    except ImportError:
        lacking.append(f"the Python package graphviz ({install_line('diagrams')})")
    if shutil.which("dot") is None:
        lacking.append("Graphviz's program dot (Debian: apt install graphviz)")
    return " and ".join(lacking)


def to_svg(drawing: Drawing) -> str:
    """Return an SVG element; it raises UnimplementedError if `missing` says something."""
    lacking = missing()
    if lacking:
        raise UnimplementedError(
            f"diagram: SVG needs {lacking}; '.mmd' (Mermaid) and '.dot' need neither"
        )
    graphviz = importlib.import_module("graphviz")
    text: str = graphviz.Source(to_dot(drawing)).pipe(format="svg", encoding="utf-8")
    return text[text.index("<svg") :]  # an XML declaration must not stand inside a page


_PLAIN = " ,()=/"

# Mermaid reads these as a line break, a formula or an icon even after it has decoded `#NUMBER;`.
_READ_LATE = re.compile(r"\\(?=n)|\$(?=\$)|:(?=fa-)")
_WORD_JOINER = "\u2060"  # invisible, and allows no line break


def escaped(line: str) -> str:
    """Return text for a quoted label, with syntax of Mermaid, Markdown and HTML as `#NUMBER;`.

    Colons are escaped since Mermaid edits lines that look like its ``style`` statements; Markdown
    is escaped since Mermaid reads labels as Markdown.

    >>> escaped('say "hi"'), escaped("a_b/c"), escaped("_a_")
    ('say #34;hi#34;', 'a_b/c', '#95;a#95;')
    """
    line = _READ_LATE.sub(lambda found: found[0] + _WORD_JOINER, line)
    made = []
    for i, c in enumerate(line):
        around = line[i - 1] + line[i + 1] if 0 < i < len(line) - 1 else ""
        # Inside a word, number or line these characters start no emphasis, link or list.
        harmless = (
            (c == "_" and around.isalnum())
            or (c == "." and around.isascii() and around.isdigit())
            or (c == "+" and around == "  ")
        )
        made.append(c if c.isalnum() or c in _PLAIN or harmless else f"#{ord(c)};")
    return "".join(made)


def _mermaid_label(lines: Sequence[str]) -> str:
    return '"' + "<br/>".join(escaped(line) for line in lines) + '"'


_THEME = {
    "theme": "base",
    "themeVariables": {
        "lineColor": EDGE,
        "textColor": TEXT,
        "edgeLabelBackground": PAGE,
        "titleColor": TEXT,
    },
}


def to_mermaid(drawing: Drawing) -> str:
    """Return a flowchart: ops are boxes, groups are subgraphs, arrows show tensors."""
    title = json.dumps("; ".join(title_lines(drawing)), ensure_ascii=False)
    lines = ["---", f"title: {title}", "---"]  # YAML takes JSON's strings
    lines += [f"%%{{init: {json.dumps(_THEME)}}}%%", "flowchart TB"]
    for terminal in drawing.terminals:
        # Not a stadium shape: Mermaid 11 fails on labels like ours if an arrow misses its outline.
        lines.append(f"    {terminal.key}({_mermaid_label(terminal_lines(terminal))})")
    used: dict[int | None, list[str]] = {}
    for node in drawing.nodes:
        box = f"    {node.key}[{_mermaid_label(node_lines(drawing, node))}]"
        used.setdefault(node.group, []).append(box)
    for i, group in enumerate(drawing.groups):
        if i in used:
            lines.append(f"    subgraph g{i}[{_mermaid_label([group.title])}]")
            lines += [f"    {box}" for box in used[i]]
            lines.append("    end")
    lines += used.get(None, [])
    for edge in drawing.edges:
        arrow = "-.->" if edge.back else "-->"
        lines.append(f"    {edge.source} {arrow}|{_mermaid_label(edge_lines(edge))}| {edge.target}")
    lines += [
        f"    classDef op fill:{NODE_FILL},stroke:{TEXT},color:{TEXT}",
        f"    classDef other fill:{NODE_FILL},stroke:{TEXT},color:{TEXT},stroke-dasharray:4 3",
        f"    classDef terminal fill:{TERMINAL_FILL},stroke:{EDGE},color:{TEXT}",
    ]
    usual = [drawing.status_of(n) in (None, "oneDNN") for n in drawing.nodes]
    plain, other = (
        [n.key for n, is_usual in zip(drawing.nodes, usual, strict=True) if is_usual is wanted]
        for wanted in (True, False)
    )
    terminals = [t.key for t in drawing.terminals]
    for name, keys in (("op", plain), ("other", other), ("terminal", terminals)):
        if keys:
            lines.append(f"    class {','.join(keys)} {name}")
    for i, group in enumerate(drawing.groups):
        if i in used:
            dashes = "" if group.status == "oneDNN" else ",stroke-dasharray:4 3"
            lines.append(
                f"    style g{i} fill:{fill_of(i, group)},stroke:{TEXT},color:{TEXT}{dashes}"
            )
    return "\n".join(lines) + "\n"
