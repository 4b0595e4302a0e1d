"""Changes of a value's readers: outputs in the middle, second readers, the order of operands."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ...model.building.value import Node, Value
from ...model.rewriting.rebuild import Copy, Edit
from ...ops.lookup import row
from .changes import Around, Change, called

__all__ = ["fewer_outputs", "own_producers", "swapped_operands"]


def _between(around: Around) -> Iterator[tuple[Node, Value]]:
    """Yield the concerned ops, each with a result that another one of them reads."""
    inside = {n.id for n in around.concerned}
    for node in around.concerned:
        for value in node.outputs:
            if any(r.id in inside for r in around.readers.get(value.id, ())):
                yield node, value


def fewer_outputs(around: Around) -> Iterator[Change]:
    """Yield candidates that do not return a value that other ops read too."""
    for _, value in _between(around):
        if not around.is_output(value):
            continue
        names = [n for n, v in around.builder.outputs.items() if v.id == value.id]
        hidden = frozenset({around.numbers[value.id]})
        yield Change(
            f"do not return {', '.join(map(repr, names))}, which other ops read too",
            around.checked(Edit(hidden=hidden)),
        )


def _again(producer: int, copy: Copy, node: Node, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
    """Write the producer once more, for one reader, and then the reader."""
    made = copy.source.nodes[producer]
    taken = [copy.values[v.id] for v in made.inputs]
    results = copy.same(made, taken, name=f"{made.name}_again" if made.name else "")
    fresh = {v.id: r for v, r in zip(made.outputs, results, strict=True)}
    given = tuple(fresh.get(v.id, i) for v, i in zip(node.inputs, inputs, strict=True))
    return copy.same(node, given)


def own_producers(around: Around) -> Iterator[Change]:
    """Yield candidates that compute a producer twice, once for one reader alone."""
    inside = {n.id for n in around.concerned}
    for node, value in _between(around):
        every = around.readers.get(value.id, [])
        if len(every) < 2 and not around.is_output(value):
            continue
        for reader in every:
            if reader.id in inside:
                yield Change(
                    f"compute {called(node)} twice, once for {called(reader)} alone",
                    around.written(reader, partial(_again, around.positions[node.id])),
                )


def _swapped(copy: Copy, node: Node, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
    return copy.same(_reversed(node), inputs[::-1])


def _reversed(node: Node) -> Node:
    return Node(
        node.id, node.kind, node.name, node.inputs[::-1], node.outputs, node.attrs, node.where
    )


def swapped_operands(around: Around) -> Iterator[Change]:
    """Yield candidates that swap the operands of a commutative op."""
    for node in around.concerned:
        if row(node.kind).commutative and len(node.inputs) == 2:
            yield Change(f"swap the operands of {called(node)}", around.written(node, _swapped))
