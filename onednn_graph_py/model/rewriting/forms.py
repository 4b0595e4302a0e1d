"""Forms: groups of ops written so that oneDNN takes a faster kernel for the same computation.

Rows of effect FORM in `onednn_graph_py.safety` say which groups are faster in which form, and
where.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from ...ops.lookup import with_trait
from ..building.value import Node, Value
from .query_blocks import in_query_blocks
from .rule import Ops

Form = Callable[[Ops, Sequence[Node], Collection[int]], bool]
"""Writes a group, given `Ops`, its nodes, and the ids of the values that it reads and that are read
elsewhere too. Returns False if it does not fit."""

_ELEMENTWISE = with_trait("epilogue")
_WINDOWS_OF_ONE_ROW = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]}


def _is_product_by_constant(node: Node) -> bool:
    return (
        node.kind == "MatMul"
        and node.inputs[1].data is not None
        and len(node.inputs[1].shape or ()) == 2
        and not node.attr("transpose_a")
    )


def _as_convolutions(ops: Ops, nodes: Sequence[Node], leaving: Collection[int]) -> bool:
    """Write products of rows by constant matrices as convolutions whose windows hold one row.

    Rows of matrices become the rows of a batch of one, and so do what elementwise ops behind them
    read and make.
    """
    ranks = {len(ops.shapes[n.inputs[0].id]) for n in nodes if _is_product_by_constant(n)}
    if ranks == {3}:
        for node in nodes:
            ops.node = node
            if _is_product_by_constant(node):
                _convolution(ops, node, node.inputs[0], node.outputs[0])
            else:
                ops.same()
        return True
    others = {n.kind for n in nodes if not _is_product_by_constant(n)}
    matrices = all(len(ops.shapes[n.outputs[0].id]) == 2 for n in nodes)
    if ranks != {2} or leaving or not matrices or not others <= _ELEMENTWISE:
        return False
    read = {v.id for n in nodes for v in n.inputs}
    batches: dict[int, Value] = {}

    def batch(value: Value) -> Value:
        if value.id not in batches and len(ops.shapes[value.id]) == 2:
            batches[value.id] = ops.view(value, None)
        return batches.get(value.id, value)

    for node in nodes:
        ops.node = node
        (result,) = node.outputs
        if _is_product_by_constant(node):
            made = ops.value((1, *ops.shapes[result.id]), result.dtype)
            _convolution(ops, node, batch(node.inputs[0]), made)
        else:
            made = ops.again(node, *map(batch, node.inputs))
        batches[result.id] = made
        if result.id not in read:
            ops.view(made, 0, result)
    return True


def _convolution(ops: Ops, product: Node, x: Value, y: Value) -> None:
    """Add the convolution that computes a product by a constant matrix."""
    _, matrix, *biases = product.inputs
    transposed = bool(product.attr("transpose_b"))
    weights = ops.view(matrix, (..., None) if transposed else None)
    formats = {"data_format": "NXC", "weights_format": "OIX" if transposed else "XIO"}
    ops.add("Convolution", (x, weights, *biases), (y,), {**_WINDOWS_OF_ONE_ROW, **formats})


FORMS: Mapping[str, Form] = {
    "as a 1x1 convolution": _as_convolutions,
    "in blocks of queries": in_query_blocks,
}
"""The forms, by the remedy of the rows."""
