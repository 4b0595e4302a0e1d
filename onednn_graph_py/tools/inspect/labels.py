"""The text in a diagram, before it is escaped; large drawings with joined ops."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from ...base.text.names import printable, shortened
from ...base.text.numbers import bytes_text, counted
from .drawing import WORDS, Drawing, Edge, OpNode, Tensor, Terminal

_LONGEST = 48
_SHOWN_KINDS = 6
_SHOWN_TENSORS = 3


def visible(name: str, longest: int = _LONGEST) -> str:
    r"""Return a name with only visible characters, on one line; a long one without its middle.

    >>> visible("a\nb"), visible("x" * 100, 9)
    ('a\\nb', 'xxxx…xxxx')
    """
    if len(name) > longest:
        half = (longest - 1) // 2
        name = f"{name[: longest - 1 - half]}…{name[-half:]}"
    return printable(name, but="")


def kinds_text(kinds: Sequence[str]) -> str:
    """Return the kinds of ops that follow each other; repetitions are written once.

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
    mark = WORDS[drawing.status_of(node) or "oneDNN"][1]
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


def _joined(drawing: Drawing, parts: Sequence[Sequence[OpNode]], titles: Sequence[str]) -> Drawing:
    """Draw the nodes of each part as one; a part with a title may have ops of several groups."""
    becomes = {node.key: part[0].key for part in parts for node in part}
    position = {part[0].key: i for i, part in enumerate(parts)}
    collected: dict[tuple[str, str], tuple[dict[Tensor, None], int]] = {}
    for edge in drawing.edges:
        a, b = becomes.get(edge.source, edge.source), becomes.get(edge.target, edge.target)
        if a != b:
            tensors, links = collected.get((a, b), ({}, 0))
            tensors.update(dict.fromkeys(edge.tensors))
            collected[a, b] = (tensors, links + edge.links)
    edges = tuple(
        Edge(
            a,
            b,
            tuple(tensors),
            links,
            back=a in position and b in position and position[a] > position[b],
        )
        for (a, b), (tensors, links) in collected.items()
    )
    nodes = tuple(_as_one(part, title) for part, title in zip(parts, titles, strict=True))
    return replace(drawing, nodes=nodes, edges=edges)


def _as_one(nodes: Sequence[OpNode], title: str) -> OpNode:
    """Make one node of several: the first one, with the ops and constants of all."""
    if len(nodes) == 1 and not title:
        return nodes[0]
    first, last = nodes[0], nodes[-1]
    kinds = tuple(kind for node in nodes for kind in node.kinds)
    inside = {node.group for node in nodes}
    return OpNode(
        first.key,
        tuple(m for node in nodes for m in node.members),
        (kinds_text(kinds),) if title else kinds,
        first.name,
        first.group if len(inside) == 1 else None,
        sum(node.constants for node in nodes),
        sum(node.constant_bytes for node in nodes),
        last.last or last.name,
        title,
        len(inside),
    )


def _sorted(drawing: Drawing) -> Drawing:
    """Sort nodes by group; nodes without a group keep their place among the ops."""
    order: dict[int, int] = {}
    for node in drawing.nodes:
        if node.group is not None:
            order[node.group] = min(node.members[0], order.get(node.group, node.members[0]))
    latest = -1
    for i in sorted(order):  # groups run in this order, not in that of their ops
        latest = order[i] = max(order[i], latest)

    def key(node: OpNode) -> tuple[int, int, int]:
        if node.group is None:
            return (node.members[0], -1, node.members[0])
        return (order[node.group], node.group, node.members[0])

    return replace(drawing, nodes=tuple(sorted(drawing.nodes, key=key)))


def readable(drawing: Drawing, most: int) -> Drawing:
    """Fold a drawing to at most `most` nodes, not counting terminals, if it has more.

    It joins the ops of each group; if that is not enough, groups that run one after the other.
    """
    if len(drawing.nodes) <= most:
        return drawing
    ordered = _sorted(drawing)
    groups: dict[object, list[OpNode]] = {}
    for node in ordered.nodes:
        groups.setdefault(node.key if node.group is None else node.group, []).append(node)
    ordered = _joined(ordered, list(groups.values()), [""] * len(groups))
    count = len(ordered.nodes)
    if count > most:
        # The slices follow an order of execution, so their edges form no circle.
        bounds = [count * i // most for i in range(most + 1)]
        titles = [f"part {i + 1} of {most}" for i in range(most)]
        ordered = _joined(ordered, [ordered.nodes[a:b] for a, b in pairwise(bounds)], titles)
    note = (
        f"{sum(len(n.members) for n in ordered.nodes)} ops are drawn as {len(ordered.nodes)} nodes"
    )
    return replace(ordered, notes=(*drawing.notes, note))


def by_scope(drawing: Drawing, depth: int) -> Drawing:
    """Draw all ops of a scope of names as one node.

    A depth of 1 is for the outermost scopes, 2 for those inside them, and so on. An op that is in
    fewer scopes is drawn in its innermost scope, or alone if it is in none.
    """
    parts: dict[tuple[str, str], list[OpNode]] = {}
    for node in drawing.nodes:
        scope = "/".join(node.name.split("/")[:-1][:depth])
        parts.setdefault((scope, "" if scope else node.key), []).append(node)
    return _joined(drawing, list(parts.values()), [scope for scope, _ in parts])
