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

_ROWS, _TERMS = 64, 2048
"""More rows of twice as many terms or more are sums over about so many. On AVX2 oneDNN's
convolution of 128 rows of 8192 terms runs at 34 GFLOP/s, the product at 50, the sum at 104."""

_ALL = slice(None)
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


def _sums(ops: Ops, product: _Product) -> int:
    """Return of how many sums a product's result is the sum; 0 if they would be rounded."""
    dims = ops.shapes[product.x.id]
    if len(dims) < 2 or dims[-2] <= _ROWS or dims[-1] < 2 * _TERMS:
        return 1
    return dims[-1] // _TERMS if product.x.dtype == "f32" else 0


def _as_convolutions(ops: Ops, nodes: Sequence[Node], leaving: Collection[int]) -> bool:
    """Write products of rows by constant matrices as convolutions, each window of one row.

    Rows of matrices become the rows of a batch of one, and so do what elementwise ops behind them
    read and make. The terms of a row are the channels of one place; or of `ROW_PARTS` places, whose
    weights oneDNN reads up to twice as fast from memory, if there is no other row. Such a
    convolution, or one of integers, fuses only ops with one number: oneDNN has reference kernels
    for others.
    """
    made = {n.outputs[0].id: n for n in nodes if n.kind == "Dequantize"}
    found = (p for n in nodes if (p := _product(n, made)) is not None)
    products = {p.node.id: p for p in found if _sums(ops, p)}
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
            rows = x if in_parts else batch(x)
            _convolutions(ops, products[node.id], rows, written, in_parts)
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


def _convolutions(ops: Ops, product: _Product, x: Value, y: Value, in_parts: bool) -> None:
    """Add the convolutions that compute a product by a constant matrix, and their sum."""
    count, terms = _sums(ops, product), ops.shapes[x.id][-1]
    if count == 1:
        _convolution(ops, product, x, y, in_parts)
        return
    parts = [ops.like(y) for _ in range(count)]
    for i, part in enumerate(parts):
        of = slice(terms * i // count, terms * (i + 1) // count)
        _convolution(ops, product, ops.view(x, (..., of)), part, in_parts, of)
    _sum(ops, parts, y)


def _sum(ops: Ops, parts: Sequence[Value], result: Value) -> None:
    """Add the ops that add up values."""
    total = parts[0]
    for part in parts[1:]:
        made = result if part is parts[-1] else ops.like(part)
        ops.add("Add", (part, total), (made,), {})
        total = made


def _convolution(
    ops: Ops, product: _Product, x: Value, y: Value, in_parts: bool, terms: slice = _ALL
) -> None:
    """Add the convolution that computes a product by a constant matrix, or by some of its terms."""
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
        weights = ops.view(product.matrix, (_ALL, terms, None) if transposed else (None, terms))
    operands = [
        value if of is None else ops.again(of, value, axis=0 if transposed else 2)
        for value, of in zip((x, weights), product.before, strict=True)
    ]
    formats = {"data_format": "NXC", "weights_format": "OIX" if transposed else "XIO"}
    attrs = {**_ONE_BY_ONE, **formats}
    bias = () if terms.start else product.node.inputs[2:]
    ops.add("Convolution", (*operands, *bias), (y,), attrs)


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
        index = [_ALL] * rank
        index[place] = slice(first, first + dims[axis] // count)
        return ops.view(value, tuple(index))

    ops.node = node
    firsts = range(0, dims[axis], dims[axis] // count)
    parts = [(part(x, axis, i), part(weights, of_weights, i)) for i in firsts]
    first = ops.again(node, *parts[0], *bias)
    _sum(ops, [first, *(ops.again(node, *operands) for operands in parts[1:])], node.outputs[0])
    ops.nodes += [n for n in nodes if n is not node]
    return True


FORMS: Mapping[str, Form] = {
    "as a convolution": _as_convolutions,
    "in blocks of queries": in_query_blocks,
    "in parts of channels": _in_channel_parts,
}
"""The forms, by the remedy of the rows."""
