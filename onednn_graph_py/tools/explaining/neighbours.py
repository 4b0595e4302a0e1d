"""The pairs of ops that may fuse, by oneDNN's documented patterns."""

import functools
import json
from collections.abc import Iterator
from pathlib import Path

from ...base.linked import linked_version
from ...model.building.builder import GraphBuilder
from ...model.building.value import Node, Value
from ...ops.lookup import with_trait

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


def readers_of(builder: GraphBuilder) -> dict[int, list[Node]]:
    """Return the ops that read each value, by its id."""
    made: dict[int, list[Node]] = {}
    for node in builder.nodes:
        for value in {v.id: v for v in node.inputs}.values():
            made.setdefault(value.id, []).append(node)
    return made


def neighbours(node: Node, readers: dict[int, list[Node]]) -> dict[int, tuple[Node, str]]:
    """Find the ops with which an op fuses by the documents, also beyond ops that only move.

    Return them by id, each with the title of a pattern.
    """
    found: dict[int, tuple[Node, str]] = {}
    for maker in _makers(node):
        if title := fusable_in(maker.kind, node.kind):
            found[maker.id] = maker, title
    for reader in _readers(node.outputs, readers):
        if title := fusable_in(node.kind, reader.kind):
            found[reader.id] = reader, title
    return found


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
