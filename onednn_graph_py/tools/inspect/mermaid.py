"""Drawings as Mermaid text, which JupyterLab, GitHub and others draw."""

import json
import re
from collections.abc import Sequence

from .drawing import EDGE, NODE_FILL, PAGE, TERMINAL_FILL, TEXT, Drawing, fill_of
from .labels import edge_lines, node_lines, terminal_lines, title_lines

_PLAIN = " ,()=/"

# Mermaid reads these as a line break, a formula or an icon even after it has decoded `#NUMBER;`.
_READ_LATE = re.compile(r"\\(?=n)|\$(?=\$)|:(?=fa-)")
_WORD_JOINER = "\u2060"  # invisible, and allows no line break


def escaped(line: str) -> str:
    """Return text for a quoted label, with syntax of Mermaid, Markdown and HTML as `#NUMBER;`.

    Colons are escaped since Mermaid edits lines that look like its ``style`` statements; Markdown
    is escaped since Mermaid reads labels as Markdown.

    Examples
    --------
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


def _label(lines: Sequence[str]) -> str:
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
        lines.append(f"    {terminal.key}({_label(terminal_lines(terminal))})")
    used: dict[int | None, list[str]] = {}
    for node in drawing.nodes:
        box = f"    {node.key}[{_label(node_lines(drawing, node))}]"
        used.setdefault(node.group, []).append(box)
    for i, group in enumerate(drawing.groups):
        if i in used:
            lines.append(f"    subgraph g{i}[{_label([group.title])}]")
            lines += [f"    {box}" for box in used[i]]
            lines.append("    end")
    lines += used.get(None, [])
    for edge in drawing.edges:
        arrow = "-.->" if edge.back else "-->"
        lines.append(f"    {edge.source} {arrow}|{_label(edge_lines(edge))}| {edge.target}")
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
