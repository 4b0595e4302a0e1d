"""The pairs of ops that may fuse, from the documented patterns of the gallery."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from ..building.builder import GraphBuilder
from ..building.value import Node, Value
from ..errors import OneDNNError
from ..linked import linked_version
from ..ops.lookup import with_trait
from ..patterns import PATTERNS

__all__ = ["fusable_in", "neighbours", "readers_of"]

# Ops that move elements or change their type: the search for neighbours goes on beyond them.
_THROUGH = with_trait("moves") | {"TypeCast"}

# A pattern with one op of a category is assumed to hold for all of them.
_CATEGORIES: dict[str, str] = {
    **dict.fromkeys(with_trait("epilogue"), "Unary"),
    **dict.fromkeys(with_trait("epilogue", "binary"), "Binary"),
    **dict.fromkeys(with_trait("reduces"), "Reduction"),
}


def _category(kind: str) -> str:
    return _CATEGORIES.get(kind, kind)


@functools.cache
def _documented() -> dict[tuple[str, str], tuple[str, ...]]:
    """Return titles of the patterns in which an op of one category reads a result of another."""
    made: dict[tuple[str, str], dict[str, None]] = {}
    linked = linked_version()
    for pattern in PATTERNS.values():
        for case in pattern.cases:
            if case.partitions != 1 or case.needs > linked:
                continue
            try:
                builder = pattern.graph(case)
            except OneDNNError:  # this oneDNN lacks one of its ops
                continue
            for node in builder.nodes:
                for value in node.inputs:
                    maker = value.producer
                    if maker is not None:
                        pair = _category(maker.kind), _category(node.kind)
                        made.setdefault(pair, {})[pattern.title] = None
    return {pair: tuple(titles) for pair, titles in made.items()}


def fusable_in(producer: str, consumer: str) -> tuple[str, ...]:
    """Return titles of documented patterns in which `consumer` reads a result of `producer`."""
    return _documented().get((_category(producer), _category(consumer)), ())


def readers_of(builder: GraphBuilder) -> dict[int, list[Node]]:
    """Return the ops that read each value, by its id."""
    made: dict[int, list[Node]] = {}
    for node in builder.nodes:
        for value in {v.id: v for v in node.inputs}.values():
            made.setdefault(value.id, []).append(node)
    return made


def neighbours(
    node: Node, readers: dict[int, list[Node]]
) -> dict[int, tuple[Node, tuple[str, ...]]]:
    """Find the ops with which an op fuses by the documents, also beyond ops that only move.

    Return them by id, each with the titles of the patterns.
    """
    found: dict[int, tuple[Node, tuple[str, ...]]] = {}
    for maker in _makers(node):
        if titles := fusable_in(maker.kind, node.kind):
            found[maker.id] = maker, titles
    for reader in _readers(node.outputs, readers):
        if titles := fusable_in(node.kind, reader.kind):
            found[reader.id] = reader, titles
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
