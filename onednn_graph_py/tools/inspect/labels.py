"""The text in a diagram, before it is escaped for Mermaid or Graphviz."""

import itertools
from collections.abc import Sequence

from ...base.text.names import printable, shortened
from ...base.text.numbers import bytes_text, counted
from .drawing import Drawing, Edge, OpNode, Terminal

_LONGEST = 48
_SHOWN_KINDS = 6
_SHOWN_TENSORS = 3


def visible(name: str, longest: int = _LONGEST) -> str:
    r"""Return a name with only visible characters, on one line; a long one without its middle.

    Examples
    --------
    >>> visible("a\nb"), visible("x" * 100, 9)
    ('a\\nb', 'xxxx…xxxx')
    """
    if len(name) > longest:
        half = (longest - 1) // 2
        name = f"{name[: longest - 1 - half]}…{name[-half:]}"
    return printable(name, but="")


def kinds_text(kinds: Sequence[str]) -> str:
    """Return the kinds of ops that follow each other; repetitions are written once.

    Examples
    --------
    >>> kinds_text(["MatMul", "Add", "ReLU"] * 12)
    '(MatMul + Add + ReLU) x12'
    >>> kinds_text(["MatMul", "Add", "Add"])
    'MatMul + Add + Add'
    """
    count = len(kinds)
    for period in range(1, count // 2 + 1):
        unit = kinds[:period]
        if count % period == 0 and list(unit) * (count // period) == list(kinds):
            text = kinds_text(unit)
            return f"{text if period == 1 else f'({text})'} x{count // period}"
    runs = [(kind, len(list(same))) for kind, same in itertools.groupby(kinds)]
    # "A + B x2" could be misread as both twice.
    runs = [run for kind, n in runs for run in ([(kind, 1)] * n if n < 3 else [(kind, n)])]
    shown = [kind if n == 1 else f"{kind} x{n}" for kind, n in runs]
    if len(shown) > _SHOWN_KINDS:
        left_out = sum(n for _, n in runs[_SHOWN_KINDS - 2 : -1])
        shown = [*shown[: _SHOWN_KINDS - 2], f"{left_out} more", shown[-1]]
    return " + ".join(shown)


def _called(drawing: Drawing) -> str:
    return drawing.groups[0].title.split()[0] if drawing.groups else "partition"


def _names(node: OpNode) -> str:
    if not node.last or node.last == node.name:
        return visible(node.name)
    return f"{visible(node.name)} to {visible(node.last)}" if node.name else visible(node.last)


def node_lines(drawing: Drawing, node: OpNode) -> list[str]:
    """Return an op's kind, name and other facts; the first line is the heading."""
    if node.scope:
        lines = [visible(node.scope)]
        lines.append(
            f"{counted(len(node.members), 'op')} in {counted(node.groups, _called(drawing))}"
        )
    else:
        lines = [kinds_text(node.kinds)]
        if node.name or node.last:
            lines.append(_names(node))
    if node.constants:
        lines.append(f"{counted(node.constants, 'constant')}, {bytes_text(node.constant_bytes)}")
    marks = {
        "unsupported": "unsupported",
        "host": "Python",
        "reference": "NumPy",
        "view": "not run",
        "constant": "once",
    }
    mark = marks.get(drawing.status_of(node) or "")
    return [*lines, mark] if mark else lines


def terminal_lines(terminal: Terminal) -> list[str]:
    """Return the lines of a terminal: its role, its name and its tensor."""
    name = f"{terminal.role} {visible(terminal.name)}" if terminal.name else terminal.role
    return [name, str(terminal.tensor)]


def edge_lines(edge: Edge) -> list[str]:
    """Return the lines of an edge: its tensors, or the first ones of many."""
    return shortened(list(dict.fromkeys(str(t) for t in edge.tensors)), _SHOWN_TENSORS)


def title_lines(drawing: Drawing) -> list[str]:
    """Return the title: the graph, the numbers of its parts, and the notes."""
    ops = sum(len(node.members) for node in drawing.nodes)
    size = f"{counted(ops, 'op')} in {counted(len(drawing.groups), _called(drawing))}"
    return [f"{visible(drawing.title)}: {size}", *(visible(n, 160) for n in drawing.notes)]
