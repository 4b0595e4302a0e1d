"""Attention in blocks of queries, each with the keys that it may see: `in_query_blocks`."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ...ops.lookup import with_trait
from ...safety.speed import query_blocks
from ..building.value import Node, Value
from .rule import Ops
from .shapes import joined

_BETWEEN = with_trait("epilogue") | {"SoftMax", "TypeCast"}
_HIDES = ("Add", "SoftMax", "TypeCast")  # what may follow a mask, and hides the same keys


class _Attention(NamedTuple):
    """The ops of attention in a group."""

    scores: Node
    between: tuple[Node, ...]
    """The ops from scores to weights; each reads the result of the one before."""
    result: Node
    rest: tuple[Node, ...]  # what reads the result


def _attention(nodes: Sequence[Node]) -> _Attention | None:
    """Return the attention of a group, if its queries, keys and values are made elsewhere."""
    made = {v.id: n for n in nodes for v in n.outputs}
    readers: dict[int, list[Node]] = {v.id: [] for n in nodes for v in n.outputs}
    for node in nodes:
        for id in {v.id for v in node.inputs} & readers.keys():
            readers[id].append(node)
    softmax = next((n for n in nodes if n.kind == "SoftMax"), None)
    if softmax is None or softmax.attr("axis") not in (-1, softmax.inputs[0].ndim - 1):
        return None
    between, scores = [softmax], made.get(softmax.inputs[0].id)
    while scores is not None and scores.kind in _BETWEEN:
        between.insert(0, scores)
        scores = made.get(scores.inputs[0].id)
    following = readers[softmax.outputs[0].id]
    while len(following) == 1 and following[0].kind == "TypeCast":
        between += following
        following = readers[following[0].outputs[0].id]
    if scores is None or scores.kind != "MatMul" or len(following) != 1:
        return None
    (result,) = following
    chain = (scores, *between, result)
    read = [*scores.inputs, *(v for n in (*between, result) for v in n.inputs[1:])]
    if (
        result.kind != "MatMul"
        or any(v.id in made for v in read)
        or any(len(n.outputs) > 1 or len(readers[n.outputs[0].id]) != 1 for n in chain[:-1])
        or any(n.attr("transpose_a") or len(n.inputs) > 2 for n in (scores, result))
    ):
        return None
    inside = {n.id for n in chain}
    rest = tuple(n for n in nodes if n.id not in inside)
    return _Attention(scores, tuple(between), result, rest)


def _part(ops: Ops, value: Value, queries: slice | None, keys: slice | None) -> Value:
    """Return the part of an operand for some queries, its second last dim, and keys, its last.

    A dim of 1 belongs to all; so does a dim that the operand does not have.
    """
    dims = ops.shapes[value.id]
    index = [slice(None)] * len(dims)
    for place, part in ((-2, queries), (-1, keys)):
        if part is not None and len(dims) >= -place and dims[place] != 1:
            index[place] = part
    return value if index == [slice(None)] * len(dims) else ops.view(value, tuple(index))


def _block(ops: Ops, found: _Attention, queries: slice, keys: slice) -> Value:
    """Add attention of some queries to some keys; return its result."""
    ops.node = node = found.scores
    query, key = node.inputs
    by_row = bool(node.attr("transpose_b"))
    query = _part(ops, query, queries, None)
    key = _part(ops, key, keys if by_row else None, None if by_row else keys)
    value = ops.again(node, query, key)
    for node in found.between:
        ops.node = node
        value = ops.again(node, value, *(_part(ops, v, queries, keys) for v in node.inputs[1:]))
    ops.node = node = found.result
    by_column = bool(node.attr("transpose_b"))
    last = node.inputs[1]
    last = _part(ops, last, None if by_column else keys, keys if by_column else None)
    return ops.again(node, value, last)


def in_query_blocks(ops: Ops, nodes: Sequence[Node], leaving: Collection[int]) -> bool:
    """Write attention with a constant mask as one for each of some blocks of queries.

    A block reads only the keys that one of its queries sees, which is exact.
    """
    found = _attention(nodes)
    if found is None or any(n.outputs[0].id in leaving for n in (found.scores, *found.between)):
        return False
    masks = {
        i: v.data
        for i, n in enumerate(found.between)
        for v in n.inputs[1:]
        if n.kind == "Add" and v.data is not None
    }
    if len(masks) != 1:
        return False
    ((place, mask),) = masks.items()
    behind = found.between[place:]
    masked = ops.shapes[behind[0].outputs[0].id]
    if mask.shape[-2:] != masked[-2:] or any(n.kind not in _HIDES for n in behind):
        return False
    blocks = query_blocks(mask)
    if len(blocks) < 2:
        return False
    parts = [
        _block(ops, found, slice(first, end), slice(first_key, end_key))
        for first, end, first_key, end_key in blocks
    ]
    result = found.result.outputs[0]
    joined(ops, parts, len(ops.shapes[result.id]) - 2, result)
    ops.nodes += found.rest
    return True
