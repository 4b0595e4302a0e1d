"""Fold large drawings: join the ops of groups, of groups that follow each other, and of scopes."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from .drawing import Drawing, Edge, OpNode, Tensor
from .labels import kinds_text


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
    made = _sorted(drawing)
    groups: dict[object, list[OpNode]] = {}
    for node in made.nodes:
        groups.setdefault(node.key if node.group is None else node.group, []).append(node)
    made = _joined(made, list(groups.values()), [""] * len(groups))
    count = len(made.nodes)
    if count > most:
        # The slices follow an order of execution, so their edges form no circle.
        bounds = [count * i // most for i in range(most + 1)]
        titles = [f"part {i + 1} of {most}" for i in range(most)]
        made = _joined(made, [made.nodes[a:b] for a, b in pairwise(bounds)], titles)
    note = f"{sum(len(n.members) for n in made.nodes)} ops are drawn as {len(made.nodes)} nodes"
    return replace(made, notes=(*drawing.notes, note))


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
