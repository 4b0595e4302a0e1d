"""Reasons why ops are unsupported, stay alone or run in parts, and changes that help."""

import functools
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...base.linked import linked_version, version
from ...machine.cpu import lacks
from ...model.building.builder import GraphBuilder
from ...model.building.value import Node, Value
from ...model.planning import SlowFusions
from ...model.rewriting.rebuild import numbers_of
from ...ops.lookup import row, with_trait
from .changes import Around, Change, called
from .probe import Group, Probe, can_compile, grouped, readers_of, refused_alone, specialised
from .search import Budget, Status, helpful, looks_of, tried_in_vain

__all__ = ["Change", "Reason", "Status", "reasons"]

# Ops that move elements or change their type: the search for neighbours goes on beyond them.
_THROUGH = with_trait("moves") | {"TypeCast"}

# A pattern with one op of a category is assumed to hold for all of them.
_CATEGORIES: dict[str, str] = {
    **dict.fromkeys(with_trait("epilogue"), "Unary"),
    **dict.fromkeys(with_trait("epilogue", "binary"), "Binary"),
    **dict.fromkeys(with_trait("reduces"), "Reduction"),
}


def category(kind: str) -> str:
    """Return the category that stands for an op in documented pairs; most are their own."""
    return _CATEGORIES.get(kind, kind)


@functools.cache
def _documented() -> dict[tuple[str, ...], str]:
    """Return the title of a pattern in which an op of one category reads a result of another."""
    rows = json.loads(Path(__file__).with_name("documented_pairs.json").read_text("utf-8"))
    linked = linked_version()
    return {
        tuple(pair.split(">")): row["pattern"]
        for row in rows
        if tuple(map(int, row["since"].split("."))) <= linked
        for pair in row["pairs"].split()
    }


def fusable_in(producer: str, consumer: str) -> str | None:
    """Return the title of a documented pattern in which `consumer` reads a result of `producer`."""
    return _documented().get((category(producer), category(consumer)))


def neighbours(node: Node, readers: dict[int, list[Node]]) -> dict[int, tuple[Node, str]]:
    """Find the ops with which an op fuses by the documents, also beyond ops that only move.

    Return them by id, each with the title of a pattern.
    """
    near: dict[int, tuple[Node, str]] = {}
    for maker in _makers(node):
        if title := fusable_in(maker.kind, node.kind):
            near[maker.id] = maker, title
    for reader in _readers(node.outputs, readers):
        if title := fusable_in(node.kind, reader.kind):
            near[reader.id] = reader, title
    return near


def _makers(node: Node) -> Iterator[Node]:
    for value in node.inputs:
        maker = value.producer
        while maker is not None:
            yield maker
            maker = maker.inputs[0].producer if maker.kind in _THROUGH else None


def _readers(values: tuple[Value, ...], readers: dict[int, list[Node]]) -> Iterator[Node]:
    for value in values:
        for reader in readers.get(value.id, ()):
            yield reader
            if reader.kind in _THROUGH:
                yield from _readers(reader.outputs, readers)


@dataclass(frozen=True)
class Reason:
    """The reason why an op does not run fused with ops that it could fuse with."""

    op: str  # the op's name; empty if it has none
    kind: str
    where: str  # the line of code that made it
    # `unsupported`: oneDNN has no kernel; `alone`: in a partition of its own, though the documents
    # have patterns with a neighbour; `in parts`: oneDNN fuses it, but the model runs the ops
    # separately, because fused they would be wrong or slower, or do not compile
    status: Status
    why: str  # the cause, as far as the library or this package's tables know it
    # changes each of which makes it supported or fused; those that compute the same come first
    changes: tuple[Change, ...]


def reasons(
    builder: GraphBuilder,
    *,
    shapes: Sequence[Sequence[int]] = (),
    slow_fusions: SlowFusions = "avoid",
) -> tuple[Reason, ...]:
    """Find the reasons for ops that are unsupported, alone or in parts, and changes that help.

    It tries every change: it builds the changed graph, lets the library partition it, and compiles
    the partition. It executes only partitions that may be slower than separate ops, to time them.
    `shapes` are those of the inputs, for a graph with unknown dims.
    """
    graph = specialised(builder, shapes)
    groups = grouped(graph, compiled=can_compile(graph), slow_fusions=slow_fusions)
    readers = readers_of(graph)
    numbers = numbers_of(graph)
    positions = {n.id: i for i, n in enumerate(graph.nodes)}
    unsupported = frozenset(n.id for g in groups if not g.supported for n in g.nodes)
    group_of = {n.id: g for g in groups for n in g.nodes}
    alone: dict[int, dict[int, str]] = {}
    budget = Budget()
    first: dict[Any, Node] = {}
    rows = []
    for node in graph.nodes:
        group = group_of.get(node.id)
        if group is None:
            continue
        near = neighbours(node, readers)
        if id(group) not in alone:
            alone[id(group)] = refused_alone(graph, group)
        status = _status(node, group, near, alone[id(group)])
        if status is None:
            continue
        around = Around(graph, node, near, readers, numbers, positions, group.nodes, unsupported)
        like = first.setdefault(looks_of(around, status), node)
        if like is not node:
            why = f"as {called(like)}, whose surroundings look the same"
            rows.append(Reason(node.name, node.kind, node.where, status, why, ()))
            continue
        concerned = [positions[n.id] for n in (*around.concerned, *around.quantizing)]
        probe = Probe(graph, around.position, concerned, groups, slow_fusions)
        rows.append(_reason(around, status, group, probe, budget))
    return tuple(rows)


def _status(
    node: Node, group: Group, near: Collection[int], alone: Mapping[int, str]
) -> Status | None:
    if not group.supported or (group.trouble and len(group.nodes) == 1) or node.id in alone:
        return "unsupported"
    if group.trouble or group.slow:
        if alone:
            return None  # the ops that can't run alone have their own reasons
        # A group has one reason, at its first op that is no conversion.
        others = (n for n in group.nodes if n.kind not in with_trait("converts"))
        return "in parts" if node.id == next(others, group.nodes[0]).id else None
    return "alone" if len(group.nodes) == 1 and near else None


def _reason(around: Around, status: Status, group: Group, probe: Probe, budget: Budget) -> Reason:
    changes = helpful(around, status, probe, budget)
    node = around.node
    why = _why(around, status, group)
    if not changes and budget.left <= 0:
        why += "; no more changes were tried, as this graph has so many ops of this sort"
    elif not changes:
        why += f"; {tried_in_vain(around, probe)}"
    return Reason(node.name, node.kind, node.where, status, why, tuple(changes))


# -- why


def _why(around: Around, status: Status, group: Group) -> str:
    if status == "in parts":
        kinds = tuple(n.kind for n in group.nodes)
        rest = " + ".join(group.kinds)
        if sorted(kinds) != sorted(group.kinds):
            rest += f", as which {' + '.join(kinds)} is written"
        return f"oneDNN fuses {rest}, but it runs in parts: {_plain(group.trouble or group.slow)}"
    if status == "unsupported":
        return _why_unsupported(around, group)
    others = []
    for other, title in around.patterns.values():
        others.append(f"{called(other)} (pattern {title})")
        if other.id in around.unsupported:
            others[-1] += ", which is unsupported itself"
    why = f"the documents let it fuse with {', '.join(dict.fromkeys(others))}, but oneDNN does not"
    return "; ".join([why, *_lacking(around), *_also_read(around)])


def _lacking(around: Around) -> Iterator[str]:
    """Yield a text for each data type around an op that this CPU does not compute in."""
    if around.builder.engine_kind.name == "cpu":
        nodes = (*around.concerned, *around.quantizing)
        dtypes = dict.fromkeys(v.dtype for n in nodes for v in (*n.inputs, *n.outputs))
        yield from (why for d in dtypes if (why := lacks(d)) is not None)


def _also_read(around: Around) -> Iterator[str]:
    """Yield a text for each value between an op and its neighbours that has other readers."""
    near = {n.id for n in around.neighbours}
    between = {v.id: v for v in around.node.outputs}
    between.update({v.id: v for v in around.node.inputs if v.producer and v.producer.id in near})
    for value in between.values():
        maker, every = value.producer, around.readers.get(value.id, [])
        names = [repr(n) for n, v in around.builder.outputs.items() if v.id == value.id]
        if maker is None or len(every) + len(names) < 2 or not every:
            continue
        uses = [f"read by {', '.join(called(n) for n in every)}"]
        uses += [f"returned as {', '.join(names)}"] if names else []
        yield f"the result of {called(maker)} is {' and '.join(uses)}"


def _plain(message: str) -> str:
    """Remove ids from a message: they differ between processes."""
    return re.sub(r"\b(op|partition) \d+", r"\1", message)


def _why_unsupported(around: Around, group: Group) -> str:
    node = around.node
    kind = around.builder.engine_kind.name
    if node.kind == "Wildcard":
        return "a Wildcard stands for an op that oneDNN does not know"
    if group.trouble:
        return _plain(group.trouble)
    dtypes = tuple(dict.fromkeys(v.dtype for v in (*node.inputs, *node.outputs)))
    missing = next((m for d in dtypes if (m := lacks(d)) is not None), None)
    if missing is not None and kind == "cpu":
        return missing
    release, types = version().release, ", ".join(dtypes)
    text = f"oneDNN {release} has no {kind} kernel for {node.kind} in {types} here"
    notes = [n.rstrip(".") for n in row(node.kind).notes if "CPU" in n and kind == "cpu"]
    return ": ".join([text, *notes])
