"""Changes of the order of ops and operands, and of a value's readers."""

from collections.abc import Iterator
from functools import partial

from ...model.building.value import Node, Value
from ...model.rewriting.rebuild import Copy, Edit
from ...ops.lookup import with_trait
from .changes import Around, Change, called


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


def _first(second: int, copy: Copy, node: Node, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
    """Write the second op in the place of the first, on the first one's input."""
    made = {v.id for v in node.outputs}
    moved = copy.source.nodes[second]
    given = [inputs[0] if v.id in made else copy.values[v.id] for v in moved.inputs]
    return copy.same(moved, given)


def _second(first: int, copy: Copy, node: Node, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
    """Write the first op in the place of the second, on the second one's result."""
    before = copy.source.nodes[first]
    moved = copy.values[before.outputs[0].id]
    return copy.same(before, [moved, *(copy.values[v.id] for v in before.inputs[1:])])


def earlier(around: Around) -> Iterator[Change]:
    """Yield candidates that swap an op with one before it that only moves elements."""
    for node in (around.node, *around.neighbours):
        if node.kind not in with_trait("epilogue"):
            continue
        for value in node.inputs:
            before = value.producer
            if before is None or before.kind not in with_trait("moves"):
                continue
            # The second op's other inputs must exist when it is written in the place of the first.
            others = [v for v in node.inputs if v.id != value.id]
            single = all(v.producer is None and set(v.shape or ()) <= {1} for v in others)
            if single and len(around.readers[value.id]) == 1 and not around.is_output(value):
                edit = around.written(
                    before,
                    partial(_first, around.positions[node.id]),
                    (node, partial(_second, around.positions[before.id])),
                )
                yield Change(f"move {called(node)} before {called(before)}", edit)
