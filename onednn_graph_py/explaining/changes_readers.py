"""Changes of who reads a value: outputs in the middle, second readers, operands in other order."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ..building.value import Node, Value
from ..ops.lookup import row
from .changes import Around, Candidate, called
from .rebuild import Copy, Edit

__all__ = ["fewer_outputs", "own_producers", "swapped_operands"]


def _between(around: Around) -> Iterator[tuple[Node, Value]]:
    """Ops with a result of theirs that another op of those concerned reads."""
    inside = {n.id for n in around.concerned}
    for node in around.concerned:
        for value in node.outputs:
            if any(r.id in inside for r in around.readers.get(value.id, ())):
                yield node, value


def fewer_outputs(around: Around) -> Iterator[Candidate]:
    """Without an output in the middle."""
    for _, value in _between(around):
        if not around.is_output(value):
            continue
        names = [n for n, v in around.builder.outputs.items() if v.id == value.id]
        hidden = frozenset({around.numbers[value.id]})
        yield Candidate(
            f"do not return {', '.join(map(repr, names))}, which other ops read too",
            around.checked(Edit(hidden=hidden)),
        )


def _again(producer: int, copy: Copy, node: Node, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
    """Write the producer once more before its reader, which then reads that."""
    made = copy.source.nodes[producer]
    taken = [copy.values[v.id] for v in made.inputs]
    results = copy.same(made, taken, name=f"{made.name}_again" if made.name else "")
    fresh = {v.id: r for v, r in zip(made.outputs, results, strict=True)}
    given = tuple(fresh.get(v.id, i) for v, i in zip(node.inputs, inputs, strict=True))
    return copy.same(node, given)


def own_producers(around: Around) -> Iterator[Candidate]:
    """A reader has a producer of its own, which is computed twice."""
    inside = {n.id for n in around.concerned}
    for node, value in _between(around):
        every = around.readers.get(value.id, [])
        if len(every) < 2 and not around.is_output(value):
            continue
        for reader in every:
            if reader.id in inside:
                yield Candidate(
                    f"compute {called(node)} twice, once for {called(reader)} alone",
                    around.written(reader, partial(_again, around.positions[node.id])),
                )


def _swapped(copy: Copy, node: Node, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
    return copy.same(_reversed(node), inputs[::-1])


def _reversed(node: Node) -> Node:
    return Node(
        node.id, node.kind, node.name, node.inputs[::-1], node.outputs, node.attrs, node.where
    )


def swapped_operands(around: Around) -> Iterator[Candidate]:
    """The operands of a commutative op in the other order."""
    for node in around.concerned:
        if row(node.kind).commutative and len(node.inputs) == 2:
            yield Candidate(f"swap the operands of {called(node)}", around.written(node, _swapped))
