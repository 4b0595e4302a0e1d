"""Fold large drawings: join equal parts, the ops of groups, and scopes of names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from .drawing import Drawing, Edge, Group, OpNode, Tensor
from .labels import kinds_text

# Limits that keep the search short in graphs of thousands of ops in which little repeats: blocks
# of a repeated part, and searches of a drawing.
_LONGEST_PART = 500
_MOST_REPETITIONS = 12


def _redrawn(
    drawing: Drawing,
    nodes: Sequence[OpNode],
    becomes: Mapping[str, str],
    groups: Sequence[Group],
    inside: Callable[[str, str], bool],
) -> Drawing:
    """Replace nodes and redraw the edges between them.

    `nodes` are in an order of execution. `becomes` maps a replaced node's key to its new node's;
    `inside` decides whether an edge between two nodes of the same new node vanishes.
    """
    position = {node.key: i for i, node in enumerate(nodes)}
    collected: dict[tuple[str, str], tuple[dict[Tensor, None], int, bool]] = {}
    for edge in drawing.edges:
        a, b = becomes.get(edge.source, edge.source), becomes.get(edge.target, edge.target)
        if a == b and inside(edge.source, edge.target):
            continue
        tensors, links, back = collected.get((a, b), ({}, 0, False))
        tensors.update(dict.fromkeys(edge.tensors))
        back = edge.back or (a in position and b in position and position[a] >= position[b])
        collected[a, b] = (tensors, links + edge.links, back)
    edges = tuple(
        Edge(a, b, tuple(tensors), links, back)
        for (a, b), (tensors, links, back) in collected.items()
    )
    return replace(drawing, nodes=tuple(nodes), groups=tuple(groups), edges=edges)


def _as_one(nodes: Sequence[OpNode], **changes: Any) -> OpNode:
    """Make one node of several: the first one, with the ops and constants of all."""
    first, last = nodes[0], nodes[-1]
    sums: dict[str, Any] = {
        "members": tuple(m for node in nodes for m in node.members),
        "constants": sum(node.constants for node in nodes),
        "constant_bytes": sum(node.constant_bytes for node in nodes),
        "last": (last.last or last.name) if len(nodes) > 1 else first.last,
    }
    return replace(first, **sums, **changes)


def _joined(
    drawing: Drawing, parts: Sequence[Sequence[OpNode]], drawn: Sequence[OpNode] = ()
) -> Drawing:
    """Draw the nodes of each part as one, of all their kinds if it is not given."""
    becomes = {node.key: part[0].key for part in parts for node in part}
    made = drawn or [
        _as_one(part, kinds=tuple(kind for node in part for kind in node.kinds)) for part in parts
    ]
    by_key = {node.key: node for node in made}
    kept = [by_key[node.key] for node in drawing.nodes if node.key in by_key]
    return _redrawn(drawing, kept, becomes, drawing.groups, lambda a, b: True)


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


# -- groups


def _by_group(drawing: Drawing) -> list[list[OpNode]]:
    """Return the nodes of each group; a node without one is alone."""
    parts: dict[object, list[OpNode]] = {}
    for node in drawing.nodes:
        parts.setdefault(node.key if node.group is None else node.group, []).append(node)
    return list(parts.values())


def _whole_groups(drawing: Drawing) -> Drawing:
    """Join all nodes of each group."""
    return _joined(drawing, _by_group(drawing))


# -- equal parts that follow each other


def _looks(drawing: Drawing, blocks: Sequence[Sequence[OpNode]]) -> list[int]:
    """Return numbers of blocks, equal for equal ones; numbers compare faster than blocks."""
    coming: dict[str, list[str]] = {}
    for edge in drawing.edges:
        coming.setdefault(edge.target, []).extend(str(t) for t in edge.tensors)

    def looks(node: OpNode) -> object:
        read = tuple(sorted(coming.get(node.key, ())))
        return node.kinds, node.constants, node.constant_bytes, node.times, node.scope, read

    numbers: dict[object, int] = {}
    return [
        numbers.setdefault((drawing.status_of(block[0]), *map(looks, block)), len(numbers))
        for block in blocks
    ]


def _longest_repetition(looks: Sequence[int]) -> tuple[int, int, int] | None:
    """Return the start of a run of equal parts, the length of a part, and their number.

    It is the run that saves most nodes; among equal ones, the run with the shortest part.
    """
    best: tuple[int, int, int] | None = None
    saved = 0
    all_looks = np.asarray(looks)
    for period in range(1, min(len(looks) // 2, _LONGEST_PART) + 1):
        differ = np.flatnonzero(all_looks[:-period] != all_looks[period:])
        ends = np.concatenate(([-1], differ, [len(looks) - period]))
        runs = np.diff(ends) - 1
        longest = int(np.argmax(runs))
        times = int(runs[longest]) // period + 1
        if (times - 1) * period > saved:
            saved = (times - 1) * period
            best = (int(ends[longest]) + 1, period, times)
    return best


def _repetition(drawing: Drawing) -> Drawing | None:
    """Draw the longest run of equal parts once; None if there is none."""
    blocks = _by_group(drawing)
    found = _longest_repetition(_looks(drawing, blocks))
    if found is None:
        return None
    start, period, times = found
    becomes: dict[str, str] = {}
    instance: dict[str, int] = {}
    dropped_groups: set[int] = set()
    groups = list(drawing.groups)
    drawn: dict[str, OpNode] = {}
    for i in range(period):
        alike = [blocks[start + i + period * k] for k in range(times)]
        for same in zip(*alike, strict=True):
            becomes.update({node.key: same[0].key for node in same})
            instance.update({node.key: k for k, node in enumerate(same)})
            drawn[same[0].key] = _as_one(same, times=sum(node.times for node in same))
        of = [block[0].group for block in alike]
        if of[0] is not None:
            group = groups[of[0]]
            title = f"{group.title.split(' (')[0]} ({times * group.times} alike)"
            groups[of[0]] = replace(group, title=title, times=times * group.times)
            dropped_groups.update(g for g in of[1:] if g is not None)
    left = [i for i in range(len(groups)) if i not in dropped_groups]
    number = {i: n for n, i in enumerate(left)}
    kept = [
        replace(node, group=None if node.group is None else number[node.group])
        for n in drawing.nodes
        if becomes.get(n.key, n.key) == n.key
        for node in (drawn.get(n.key, n),)
    ]
    return _redrawn(
        drawing,
        kept,
        becomes,
        [groups[i] for i in left],
        lambda a, b: instance.get(a) == instance.get(b),
    )


# -- choosing


def readable(drawing: Drawing, most: int) -> Drawing:
    """Fold a drawing only as far as needed to have at most `most` nodes, not counting terminals.

    It joins, in this order: repeated parts of the graph, such as layers; whole groups; groups that
    run one after the other.
    """
    if len(drawing.nodes) <= most:
        return drawing
    made = _sorted(drawing)
    for fold in (_repeated(most), _whole_groups, _repeated(most), _slices(most)):
        made = fold(made)
        if len(made.nodes) <= most:
            break
    note = f"{sum(len(n.members) for n in made.nodes)} ops are drawn as {len(made.nodes)} nodes"
    if any(edge.back for edge in made.edges):
        note += "; dashed arrows go to the next repetition"
    return replace(made, notes=(*drawing.notes, note))


def _repeated(most: int) -> Callable[[Drawing], Drawing]:
    def fold(drawing: Drawing) -> Drawing:
        for _ in range(_MOST_REPETITIONS):
            if len(drawing.nodes) <= most:
                break
            made = _repetition(drawing)
            if made is None:
                break
            drawing = made
        return drawing

    return fold


def _summary(drawing: Drawing, part: Sequence[OpNode], title: str) -> OpNode:
    """Return one node with a title for ops that may be in several groups."""
    inside = {node.group for node in part}
    return _as_one(
        part,
        kinds=(kinds_text([kind for node in part for kind in node.kinds]),),
        group=part[0].group if len(inside) == 1 else None,
        times=1,
        scope=title,
        groups=sum(1 if g is None else drawing.groups[g].times for g in inside),
    )


def _slices(most: int) -> Callable[[Drawing], Drawing]:
    """Return a function that joins groups that run one after the other, to leave `most` nodes.

    The slices follow an order of execution, so their edges form no circle.
    """

    def fold(drawing: Drawing) -> Drawing:
        count = len(drawing.nodes)
        bounds = [count * i // most for i in range(most + 1)]
        parts = [drawing.nodes[a:b] for a, b in pairwise(bounds) if a < b]
        titles = [f"part {i + 1} of {len(parts)}" for i in range(len(parts))]
        drawn = [_summary(drawing, p, title) for p, title in zip(parts, titles, strict=True)]
        return _joined(drawing, parts, drawn)

    return fold


def by_scope(drawing: Drawing, depth: int) -> Drawing:
    """Draw all ops of a scope of names as one node.

    A depth of 1 is for the outermost scopes, 2 for those inside them, and so on. An op that is in
    fewer scopes is drawn in its innermost scope, or alone if it is in none.
    """
    parts: dict[object, list[OpNode]] = {}
    for node in drawing.nodes:
        scope = "/".join(node.name.split("/")[:-1][:depth])
        parts.setdefault(("scope", scope) if scope else node.key, []).append(node)
    drawn = [
        _summary(drawing, part, name[1]) if isinstance(name, tuple) else part[0]
        for name, part in parts.items()
    ]
    return _joined(drawing, list(parts.values()), drawn)
