"""Changes of operands' ranks, broadcasting and strides."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from ...model.building.value import Node, Value, is_whole
from ...model.rewriting.rebuild import Copy, Edit
from ...ops.lookup import row
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


def _row_major(copy: Copy, value: Value) -> Value:
    return copy.leaf(value, strides=None)


def plain_strides(around: Around) -> Iterator[Change]:
    """Yield candidates that make strided inputs row-major, all of them or one."""
    strided = {
        around.numbers[v.id]: v for n in around.concerned for v in n.inputs if v.strides is not None
    }
    for chosen in dict.fromkeys((tuple(strided), *((i,) for i in strided))):
        if chosen:
            names = ", ".join(repr(strided[i].name) for i in chosen)
            yield Change(
                f"give {'inputs' if len(chosen) > 1 else 'input'} {names} in row-major order",
                around.checked(Edit(leaves=dict.fromkeys(chosen, _row_major))),
            )
