"""Changes of operands: rank, broadcasting, strides; of the order of ops, and of readers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from ...model.building.value import Node, Value, is_whole
from ...model.rewriting.rebuild import Copy, Edit
from ...ops.lookup import row, with_trait
from ...ops.terms import shape_text
from .changes import Around, Change, called

_LARGEST = 1 << 22  # elements of an operand that is broadcast in the graph


def _reshaped(shape: tuple[int, ...], copy: Copy, value: Value) -> Value:
    return copy.leaf(value, shape)


def _written_out(shape: tuple[int, ...], copy: Copy, value: Value) -> Value:
    if value.data is None:
        return copy.leaf(value, shape)
    return copy.constant(np.broadcast_to(value.data, shape), value.dtype)


def _forms(shape: tuple[int, ...], rank: int) -> Iterator[tuple[int, ...]]:
    """Yield shapes of the same number of elements that broadcast in the same way."""
    plain = shape
    while plain[:1] == (1,):
        plain = plain[1:]
    if len(shape) < rank:
        yield (1,) * (rank - len(shape)) + shape
    for length in range(len(plain), len(shape)):
        yield (1,) * (length - len(plain)) + plain
    if shape == ():
        yield (1,)


def operand_forms(around: Around) -> Iterator[Change]:
    """Yield candidates that give an operand another rank, or broadcast it to the whole shape."""
    for node in around.concerned:
        if row(node.kind).attribute("auto_broadcast") is None:
            continue
        full = node.outputs[0].shape
        free = [v for v in dict.fromkeys(node.inputs) if _may_change(around, v)]
        for value in free:
            yield from _of(around, node, value, len(full or ()))
        if full is not None and is_whole(full) and np.prod(full) <= _LARGEST:
            yield from _whole(around, node, free, full)


def _may_change(around: Around, value: Value) -> bool:
    if value.shape is None or not is_whole(value.shape) or value.producer is not None:
        return False
    return len(around.readers.get(value.id, ())) == 1 and value.strides is None


def _of(around: Around, node: Node, value: Value, rank: int) -> Iterator[Change]:
    shape = value.shape or ()
    for form in dict.fromkeys(_forms(shape, rank)):
        if form != shape:
            what = f"{value.name!r} of {called(node)} the shape {shape_text(form)}"
            yield _reformed(
                around, f"give {what} instead of {shape_text(shape)}", {value: form}, _reshaped
            )


def _whole(
    around: Around, node: Node, free: Sequence[Value], full: tuple[int, ...]
) -> Iterator[Change]:
    """Yield candidates whose operands have the result's shape, as some kernels broadcast none."""
    smaller = [v for v in free if v.shape != full and v.dtype not in ("s4", "u4")]
    for chosen in dict.fromkeys([tuple(smaller), *((v,) for v in smaller if v.data is not None)]):
        if chosen:
            names = ", ".join(repr(v.name) for v in chosen)
            yield _reformed(
                around,
                f"give {names} of {called(node)} the whole shape {shape_text(full)}",
                dict.fromkeys(chosen, full),
                _written_out,
            )


def _reformed(
    around: Around,
    text: str,
    forms: Mapping[Value, tuple[int, ...]],
    write: Callable[[tuple[int, ...], Copy, Value], Value],
) -> Change:
    leaves = {around.numbers[v.id]: partial(write, form) for v, form in forms.items()}
    return Change(text, around.checked(Edit(leaves=leaves)))


def plain_strides(around: Around) -> Iterator[Change]:
    """Yield candidates that make strided inputs row-major, all of them or one."""
    strided = {
        around.numbers[v.id]: v for n in around.concerned for v in n.inputs if v.strides is not None
    }
    row_major = partial(Copy.leaf, strides=None)
    for chosen in dict.fromkeys((tuple(strided), *((i,) for i in strided))):
        if chosen:
            names = ", ".join(repr(strided[i].name) for i in chosen)
            yield Change(
                f"give {'inputs' if len(chosen) > 1 else 'input'} {names} in row-major order",
                around.checked(Edit(leaves=dict.fromkeys(chosen, row_major))),
            )


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
    maker = copy.source.nodes[producer]
    operands = [copy.values[v.id] for v in maker.inputs]
    results = copy.same(maker, operands, name=f"{maker.name}_again" if maker.name else "")
    fresh = {v.id: r for v, r in zip(maker.outputs, results, strict=True)}
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
    results = {v.id for v in node.outputs}
    moved = copy.source.nodes[second]
    given = [inputs[0] if v.id in results else copy.values[v.id] for v in moved.inputs]
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
