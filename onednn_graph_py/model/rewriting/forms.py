"""Forms: groups of ops written so that oneDNN takes a faster kernel for the same computation.

Rows of effect FORM in `onednn_graph_py.safety` say which groups are faster in which form, and
where.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

from ...ops.lookup import with_trait
from ..building.builder import GraphBuilder
from ..building.value import Node, Value
from .query_blocks import in_query_blocks
from .written import Written

__all__ = ["FORMS", "Form"]

_ELEMENTWISE = with_trait("epilogue")
_OF_ONE_ROW = MappingProxyType(
    {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1], "data_format": "NXC"}
)


Form = Callable[[GraphBuilder, Sequence[Node], Collection[int]], Written | None]
"""Takes a graph, a group of its nodes, and the ids of the values that are read outside of it."""


def _is_product_by_constant(node: Node) -> bool:
    return (
        node.kind == "MatMul"
        and node.inputs[1].data is not None
        and len(node.inputs[1].shape or ()) == 2
        and not node.attr("transpose_a")
    )


def _as_convolutions(
    builder: GraphBuilder, nodes: Sequence[Node], leaving: Collection[int]
) -> Written | None:
    """Write products of rows by constant matrices as convolutions whose windows hold one row.

    Rows of matrices become the rows of a batch of one, and so do what elementwise ops behind them
    read and make.
    """
    ranks = {len(n.inputs[0].shape or ()) for n in nodes if _is_product_by_constant(n)}
    others = {n.kind for n in nodes if not _is_product_by_constant(n)}
    if ranks == {3}:
        return _over_rows(Written(builder), nodes)
    matrices = all(len(n.outputs[0].shape or ()) == 2 for n in nodes)
    if ranks == {2} and others <= _ELEMENTWISE and matrices:
        return _over_rows_of_matrices(Written(builder), nodes, leaving)
    return None


def _convolution(written: Written, node: Node, x: Value, biases: Sequence[Value], y: Value) -> None:
    """Add the convolution of a product by a constant matrix."""
    matrix = node.inputs[1]
    rows, columns = matrix.shape or ()
    transposed = bool(node.attr("transpose_b"))
    dims = (rows, columns, 1) if transposed else (1, rows, columns)
    weights = written.value(dims, matrix)
    written.view(node, matrix, weights, (..., None) if transposed else None)
    attrs = {**_OF_ONE_ROW, "weights_format": "OIX" if transposed else "XIO"}
    written.add(node, "Convolution", (x, weights, *biases), (y,), attrs)


def _over_rows(written: Written, nodes: Sequence[Node]) -> Written:
    for node in nodes:
        if _is_product_by_constant(node):
            x, _, *biases = node.inputs
            _convolution(written, node, x, biases, node.outputs[0])
        else:
            written.nodes.append(node)
    return written


def _over_rows_of_matrices(
    written: Written, nodes: Sequence[Node], leaving: Collection[int]
) -> Written:
    batches: dict[int, Value] = {}

    def read(node: Node, value: Value) -> Value:
        if value.id not in batches and len(value.shape or ()) == 2:
            batches[value.id] = written.batch(value)
            written.view(node, value, batches[value.id], None)
        return batches.get(value.id, value)

    for node in nodes:
        (result,) = node.outputs
        if _is_product_by_constant(node):
            x, _, *biases = node.inputs
            x = read(node, x)
            batches[result.id] = written.batch(result)
            _convolution(written, node, x, biases, batches[result.id])
        else:
            inputs = [read(node, v) for v in node.inputs]
            batches[result.id] = written.batch(result)
            written.add(node, node.kind, inputs, (batches[result.id],), node.attrs)
    read_inside = {v.id for n in nodes for v in n.inputs}
    for node in nodes:
        (result,) = node.outputs
        if result.id in leaving or result.id not in read_inside:
            written.view(node, batches[result.id], result, 0)
    return written


FORMS: Mapping[str, Form] = {
    "as a 1x1 convolution": _as_convolutions,
    "in blocks of queries": in_query_blocks,
}
"""The forms, by the remedy of the rows."""
