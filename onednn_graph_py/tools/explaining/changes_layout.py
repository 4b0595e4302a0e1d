"""Changes of data_format, weights_format and strides, with the shapes that follow from them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ...model.building.value import Node, Value, is_whole
from ...model.rewriting.rebuild import Copy, Edit, LeafWriter, Writer
from ...ops.lookup import row, with_attribute, with_trait
from .changes import Around, Candidate, called

__all__ = ["data_formats", "plain_strides", "weights_formats"]

# These ops work in either format; only an axis attribute may have to change.
_FOLLOWING = (
    with_trait("epilogue") | with_trait("keeps", "elementwise") | with_attribute("zps") | {"Concat"}
)

Order = tuple[int, ...]


def _orders(rank: int, data_format: str) -> tuple[Order, Order]:
    """Return the axis orders that transpose this format to the other one, and back."""
    channels_first = (0, rank - 1, *range(1, rank - 1))
    channels_last = (0, *range(2, rank), 1)
    if data_format == "NXC":
        return channels_first, channels_last
    return channels_last, channels_first


def _has_format(node: Node) -> bool:
    return row(node.kind).attribute("data_format") is not None


def _format_of(node: Node) -> str:
    return str(node.attr("data_format"))


def _rank_of(node: Node) -> int | None:
    value = node.outputs[0] if node.kind == "PReLUBackward" else node.inputs[0]
    return None if value.shape is None else len(value.shape)


# -- how each op of the region is written


def _transposed(copy: Copy, value: Value, order: Order) -> Value:
    made: Value = copy.add("StaticTranspose", [value], {"order": order})
    return made


def _leaf(order: Order, copy: Copy, value: Value) -> Value:
    """Write an input or constant with its axes in another order, padded with dims of 1."""
    shape = (1,) * (len(order) - len(value.shape or ())) + (value.shape or ())
    if value.data is None:
        return copy.leaf(value, [shape[i] for i in order], strides=None)
    return copy.constant(np.transpose(value.data.reshape(shape), order), value.dtype)


def _relaid(
    turned: frozenset[int], order: Order, copy: Copy, node: Node, inputs: tuple[Value, ...]
) -> tuple[Value, ...]:
    """Write the op in the other format, and transpose inputs that are not in it yet."""
    rank = len(order)
    given = []
    for old, value in zip(node.inputs, inputs, strict=True):
        if len(old.shape or ()) == rank and copy.number(old) not in turned:
            value = _transposed(copy, value, order)
        given.append(value)
    attrs: dict[str, Any] = dict(node.attrs)
    if _has_format(node):
        attrs["data_format"] = "NCX" if _format_of(node) == "NXC" else "NXC"
    elif node.kind == "Concat" or attrs.get("qtype") == "per_channel":
        attrs["axis"] = order.index(int(node.attr("axis")) % rank)
    return copy.same(node, given, attrs)


def _turned_back(
    turned: frozenset[int], order: Order, copy: Copy, node: Node, inputs: tuple[Value, ...]
) -> tuple[Value, ...]:
    given = [
        _transposed(copy, value, order) if copy.number(old) in turned else value
        for old, value in zip(node.inputs, inputs, strict=True)
    ]
    return copy.same(node, given)


# -- the ops of the region


def _region(around: Around, start: Node, rank: int) -> dict[int, Node]:
    """Find the ops connected with `start` by tensors of this rank that work in either format."""
    found: dict[int, Node] = {}
    waiting = [start]
    while waiting:
        node = waiting.pop()
        if node.id in found or not (_has_format(node) or node.kind in _FOLLOWING):
            continue
        if _has_format(node) and _format_of(node) != _format_of(start):
            continue
        found[node.id] = node
        for value in (*node.inputs, *node.outputs):
            if value.shape is None or len(value.shape) != rank:
                continue
            waiting += around.readers.get(value.id, [])
            if value.producer is not None:
                waiting.append(value.producer)
    return found


def _weights(node: Node) -> set[int]:
    """Return the ids of the op's weights, which have a format of their own."""
    if row(node.kind).attribute("weights_format") is None:
        return set()
    tensors = [*node.inputs, *node.outputs]
    return (
        {v.id for v in tensors[1:2]} if not node.kind.endswith("Weights") else {node.outputs[0].id}
    )


def _other_format(around: Around, start: Node, rank: int) -> Edit | None:
    region = _region(around, start, rank)
    order, back = _orders(rank, _format_of(start))
    weights = {i for n in region.values() for i in _weights(n)}
    made = {v.id for n in region.values() for v in n.outputs} - weights
    turned = {i for i in made if _rank_is(around, i, rank)}
    leaves: dict[int, LeafWriter] = {}
    for node in region.values():
        for value in node.inputs:
            if value.producer is not None or value.id in weights or value.shape is None:
                continue
            inside = all(r.id in region for r in around.readers.get(value.id, []))
            lower = node.kind in with_trait("epilogue", "binary") and 0 < len(value.shape) < rank
            if lower and any(d != 1 for d in value.shape) and not inside:
                return None
            if inside and (len(value.shape) == rank or lower) and value.dtype not in ("s4", "u4"):
                leaves[around.numbers[value.id]] = partial(_leaf, order)
                turned.add(value.id)
    known = frozenset(around.numbers[i] for i in turned | weights)
    inside_out = frozenset(around.numbers[i] for i in turned)
    nodes: dict[int, Writer] = {
        around.positions[n.id]: partial(_relaid, known, order) for n in region.values()
    }
    for node in around.builder.nodes:
        if node.id not in region and any(v.id in turned for v in node.inputs):
            nodes[around.positions[node.id]] = partial(_turned_back, inside_out, back)
    kinds = {i: around.builder.nodes[i].kind for i in nodes}
    return Edit(nodes=nodes, leaves=leaves, kinds=kinds)


def _rank_is(around: Around, id: int, rank: int) -> bool:
    shapes = {v.id: v.shape for n in around.builder.nodes for v in n.outputs}
    return len(shapes[id] or ()) == rank


def data_formats(around: Around) -> Iterator[Candidate]:
    """Yield candidates that set the other data_format for an op and all ops connected with it."""
    done: set[int] = set()
    for node in around.concerned:
        rank = _rank_of(node) if node.inputs and _has_format(node) else None
        if rank is None or rank < 3 or node.id in done:
            continue
        done |= set(_region(around, node, rank))
        edit = _other_format(around, node, rank)
        other = "NCX" if _format_of(node) == "NXC" else "NXC"
        if edit is not None:
            yield Candidate(
                f"set data_format of {called(node)} and of all ops connected with it to {other}",
                edit,
            )


def _with_format(name: str, copy: Copy, node: Node, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
    return copy.same(node, inputs, {**node.attrs, "weights_format": name})


def weights_formats(around: Around) -> Iterator[Candidate]:
    """Yield candidates that set the other weights_format, and permute the weights to match."""
    for node in around.concerned:
        attribute = row(node.kind).attribute("weights_format")
        if attribute is None or len(node.inputs) < 2 or node.kind.endswith("Weights"):
            continue
        weights = node.inputs[1]
        have = str(node.attr("weights_format"))
        if weights.shape is None or not is_whole(weights.shape) or weights.producer is not None:
            continue
        if len(around.readers.get(weights.id, ())) != 1:
            continue
        rank = len(weights.shape)
        spatial = tuple(range(2, rank)) if have[0] != "X" else tuple(range(rank - 2))
        pair = (0, 1) if have[0] != "X" else (rank - 2, rank - 1)
        for other in attribute.allowed:
            if other == have or (other[0] == "X") == (have[0] == "X"):
                continue
            plain = have.replace("X", "") == other.replace("X", "")
            channels = pair if plain else pair[::-1]
            order = (*spatial, *channels) if other[0] == "X" else (*channels, *spatial)
            number = around.numbers[weights.id]
            edit = around.written(node, partial(_with_format, other))
            yield Candidate(
                f"set weights_format of {called(node)} to {other}, and permute {weights.name!r} "
                "to match",
                Edit(nodes=edit.nodes, leaves={number: partial(_leaf, order)}, kinds=edit.kinds),
            )


def _row_major(copy: Copy, value: Value) -> Value:
    return copy.leaf(value, strides=None)


def plain_strides(around: Around) -> Iterator[Candidate]:
    """Yield candidates that make strided inputs row-major, all of them or one."""
    strided = {
        around.numbers[v.id]: v for n in around.concerned for v in n.inputs if v.strides is not None
    }
    for chosen in dict.fromkeys((tuple(strided), *((i,) for i in strided))):
        if chosen:
            names = ", ".join(repr(strided[i].name) for i in chosen)
            yield Candidate(
                f"give {'inputs' if len(chosen) > 1 else 'input'} {names} in row-major order",
                around.checked(Edit(leaves=dict.fromkeys(chosen, _row_major))),
            )
