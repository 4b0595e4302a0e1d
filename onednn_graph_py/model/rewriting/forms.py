"""Forms: groups of ops written so that oneDNN takes a faster kernel for the same computation.

Rows of effect FORM in `onednn_graph_py.safety` say which groups are faster in which form, and
where.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from ...ops.lookup import with_trait
from ...safety.speed import ROW_CHANNELS, ROW_PARTS, channel_parts
from ..building.value import Node, Value
from .query_blocks import in_query_blocks
from .rule import Ops

Form = Callable[[Ops, Sequence[Node], Collection[int]], bool]
"""Writes a group, given `Ops`, its nodes, and the ids of the values that it reads and that are read
elsewhere too. Returns False if it does not fit."""

_ROWS, _TERMS = 64, 4096
"""More rows of as many terms stay a product. On AVX2 oneDNN's convolution of 128 runs at 34 instead
of 100 GFLOP/s, the product at 50."""

_ELEMENTWISE = with_trait("epilogue")
_ONE_BY_ONE = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]}


class _Product(NamedTuple):
    """A product by a constant matrix."""

    node: Node
    x: Value
    matrix: Value
    before: tuple[Node | None, Node | None]
    """The ops that make floats of the two, if they are integers."""


def _product(node: Node, made: Mapping[int, Node]) -> _Product | None:
    """Return the product that an op is, given the Dequantize that makes each value, if one does."""
    if node.kind != "MatMul" or node.attr("transpose_a"):
        return None
    before = made.get(node.inputs[0].id), made.get(node.inputs[1].id)
    x, matrix = (v if n is None else n.inputs[0] for v, n in zip(node.inputs, before, strict=False))
    if matrix.data is None or len(matrix.shape or ()) != 2:
        return None
    columns = 0 if node.attr("transpose_b") else 1
    for of, channels in zip(before, (None, columns), strict=True):
        if of is not None and of.attr("qtype") != "per_tensor" and of.attr("axis") != channels:
            return None
    return _Product(node, x, matrix, before)


def _as_convolutions(ops: Ops, nodes: Sequence[Node], leaving: Collection[int]) -> bool:
    """Write products of rows by constant matrices as convolutions, each window of one row.

    Rows of matrices become the rows of a batch of one, and so do what elementwise ops behind them
    read and make. The terms of a row are the channels of one place; or of `ROW_PARTS` places, whose
    weights oneDNN reads up to twice as fast from memory, if there is no other row. Such a
    convolution, or one of integers, fuses only ops with one number: oneDNN has reference kernels
    for others.
    """
    made = {n.outputs[0].id: n for n in nodes if n.kind == "Dequantize"}
    products = {p.node.id: p for n in nodes if (p := _product(n, made)) is not None}
    for id, product in list(products.items()):
        dims = ops.shapes[product.x.id]
        if len(dims) > 1 and dims[-2] > _ROWS and dims[-1] >= _TERMS:
            del products[id]
    shapes = [ops.shapes[p.x.id] for p in products.values()]
    if not shapes or any(len(shape) not in (2, 3) for shape in shapes):
        return False
    terms = ROW_PARTS * ROW_CHANNELS
    in_parts = all(math.prod(s[:-1]) == 1 and s[-1] % terms == 0 for s in shapes)
    before = {n.id: n for p in products.values() for n in p.before if n is not None}
    rest = [n for n in nodes if n.id not in before]
    read = {v.id for n in rest if n.id not in products for v in n.inputs} | set(leaving)
    if any(n.outputs[0].id in read for n in before.values()):
        return False
    of_numbers = in_parts or bool(before)
    batches: dict[int, Value] = {}
    behind: dict[int, int] = {}  # the product behind which a value is made
    viewed = set()

    def batch(value: Value) -> Value:
        if value.id not in batches and len(ops.shapes[value.id]) == 2:
            batches[value.id] = ops.view(value, None)
        return batches.get(value.id, value)

    def view(value: Value) -> None:
        if value.id in behind and value.id not in viewed:
            viewed.add(value.id)
            ops.view(batches[value.id], 0 if len(ops.shapes[value.id]) == 2 else ..., value)

    for node in rest:
        ops.node = node
        result = node.outputs[0]
        makers = {behind[v.id] for v in node.inputs if v.id in behind}
        others = {math.prod(ops.shapes[v.id]) for v in node.inputs if v.id not in behind}
        if node.id in products:
            x = products[node.id].x
            if in_parts:
                view(x)
            written = ops.value((1, *ops.shapes[result.id])[-3:], result.dtype)
            _convolution(ops, products[node.id], x if in_parts else batch(x), written, in_parts)
            behind[result.id] = node.id
        elif (
            node.kind in _ELEMENTWISE
            and makers
            and (not of_numbers or (len(makers) == 1 and others <= {1}))
        ):
            written = ops.again(node, *map(batch, node.inputs))
            behind[result.id] = makers.pop()
        else:
            for value in node.inputs:
                view(value)
            ops.same()
            continue
        batches[result.id] = written
    inside = {v.id for n in rest for v in n.inputs} - set(leaving)
    for node in rest:
        if node.outputs[0].id not in inside:
            view(node.outputs[0])
    return True


def _convolution(ops: Ops, product: _Product, x: Value, y: Value, in_parts: bool) -> None:
    """Add the convolution that computes a product by a constant matrix."""
    transposed = bool(product.node.attr("transpose_b"))
    if in_parts:
        axis = len(ops.shapes[x.id]) - 1
        size = ops.shapes[x.id][axis] // ROW_PARTS
        parts = (size, ROW_PARTS) if transposed else (ROW_PARTS, size)
        weights = ops.split(product.matrix, int(transposed), parts)
        x = ops.split(x, axis, parts)
        x = x if axis == 1 else ops.view(x, 0)
        if transposed:  # the terms of a place lie apart, as their weights do
            x = ops.transposed(x, (0, 2, 1))
    else:
        weights = ops.view(product.matrix, (..., None) if transposed else None)
    operands = [
        value if of is None else ops.dequantized(of, value, 0 if transposed else 2)
        for value, of in zip((x, weights), product.before, strict=True)
    ]
    formats = {"data_format": "NXC", "weights_format": "OIX" if transposed else "XIO"}
    attrs = {**_ONE_BY_ONE, **formats}
    ops.add("Convolution", (*operands, *product.node.inputs[2:]), (y,), attrs)


def _in_channel_parts(ops: Ops, nodes: Sequence[Node], leaving: Collection[int]) -> bool:
    """Write a convolution as the sum of several, each of a part of the channels."""
    convolutions = [n for n in nodes if n.kind == "Convolution"]
    if len(convolutions) != 1 or convolutions[0].attr("groups") != 1:
        return False
    (node,) = convolutions
    x, weights, *bias = node.inputs
    dims, rank = ops.shapes[x.id], len(ops.shapes[x.id])
    axis = 1 if node.attr("data_format") == "NCX" else rank - 1
    of_weights = 1 if node.attr("weights_format") == "OIX" else rank - 2
    count = channel_parts(dims[axis], node.attr("strides")[-1])
    made = {v.id for n in nodes for v in n.outputs}
    if count == 1 or x.id in made or x.dtype != "f32" or weights.data is None:
        return False

    def part(value: Value, place: int, first: int) -> Value:
        index = [slice(None)] * rank
        index[place] = slice(first, first + dims[axis] // count)
        return ops.view(value, tuple(index))

    ops.node = node
    firsts = range(0, dims[axis], dims[axis] // count)
    parts = [(part(x, axis, i), part(weights, of_weights, i)) for i in firsts]
    total = ops.again(node, *parts[0], *bias)
    for operands in parts[1:]:
        result = node.outputs[0] if operands is parts[-1] else ops.like(total)
        ops.add("Add", (ops.again(node, *operands), total), (result,), {})
        total = result
    ops.nodes += [n for n in nodes if n is not node]
    return True


FORMS: Mapping[str, Form] = {
    "as a convolution": _as_convolutions,
    "in blocks of queries": in_query_blocks,
    "in parts of channels": _in_channel_parts,
}
"""The forms, by the remedy of the rows."""
