"""Dynamically quantized products, computed in floating point, where they round nothing.

``(x / s) * s`` is `x`: what DynamicQuantizeLinear rounds, and what multiplies by its scale
afterwards, cancel each other. With `activations="int8"` products by weights round token by token.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from .edits import Edits, is_op, only_reader
from .evaluation import MOST_KNOWN
from .quantized_weights import columns, dequantized

Array = npt.NDArray[Any]


def compute_in_floats(edits: Edits, node: ir.Node) -> None:
    """Replace a dynamically quantized product by that of what it rounds."""
    if is_op(node, "MatMulInteger", "ConvInteger"):
        _product(edits, node)
    elif is_op(node, "DequantizeLinear"):
        _back(edits, node)
    elif is_op(node, "DynamicQuantizeMatMul", domain="com.microsoft"):
        _matmul(edits, node)


def _rounding(value: ir.Value | None) -> ir.Node | None:
    """Return the DynamicQuantizeLinear that makes a value."""
    node = None if value is None else value.producer()
    return node if is_op(node, "DynamicQuantizeLinear") else None


def _back(edits: Edits, node: ir.Node) -> None:
    """Leave out what dequantizes right behind."""
    rounding = _rounding(node.inputs[0])
    if rounding is None or [*node.inputs] != [*rounding.outputs]:
        return
    source = rounding.inputs[0]
    if source is not None:
        edits.replace(node, source)


def _product(edits: Edits, node: ir.Node) -> None:
    cast = only_reader(node.outputs[0])
    if not is_op(cast, "Cast"):
        return
    scaled = only_reader(cast.outputs[0])
    if not is_op(scaled, "Mul"):
        return
    factor = scaled.inputs[0 if scaled.inputs[1] is cast.outputs[0] else 1]
    left = _rounding(node.inputs[0])
    if left is None or factor is None or edits.of(node, 2) is not left.outputs[2]:
        return
    x = left.inputs[0]
    right = _rounding(edits.of(node, 1))
    scales = _scales(factor, left.outputs[1])
    if scales is None or x is None:
        return
    y: ir.Value | None
    if right is not None:
        y = right.inputs[0]
        if edits.of(node, 3) is not right.outputs[2] or scales is not right.outputs[1]:
            return
    else:
        known = _weight(edits, node, scales)
        if known is None:
            return
        if node.op_type == "MatMulInteger" and known[0].ndim == 2 and edits.rounds(node, known[1]):
            edits.product(scaled, x, columns(*known))
            edits.graph.remove([cast, node], safe=True)
            return
        axis = 0 if node.op_type == "ConvInteger" else known[0].ndim - 1
        y = edits.constant(dequantized(*known, axis), f"{node.name}.floats")
    if y is None:
        return
    op_type = "MatMul" if node.op_type == "MatMulInteger" else "Conv"
    attributes = {} if op_type == "MatMul" else dict(node.attributes)
    made = edits.before(node, op_type, [x, y], attributes)
    edits.replace(scaled, made)
    edits.graph.remove(cast, safe=True)
    edits.graph.remove(node, safe=True)


def _scales(factor: ir.Value, own: ir.Value) -> ir.Value | None:
    """Return what a scale is multiplied with; None if the factor is something else."""
    node = factor.producer()
    if node is None or not is_op(node, "Mul") or own not in node.inputs:
        return None
    return node.inputs[0 if node.inputs[1] is own else 1]


def _weight(
    edits: Edits, node: ir.Node, scales: ir.Value
) -> tuple[Array, Array, Array | None] | None:
    """Return weights, scales and zero points."""
    weight, scale = edits.weight(edits.of(node, 1)), edits.weight(scales)
    given = edits.of(node, 3)
    point = edits.weight(given)
    if weight is None or scale is None or (given is not None and point is None):
        return None
    if weight.size * 4 > MOST_KNOWN or scale.dtype != np.float32 or weight.ndim < 2:
        return None
    if node.op_type == "MatMulInteger":
        axis = weight.ndim - 1
        along = scale.ndim <= 1
    else:
        axis = 0
        along = scale.size == 1 or scale.shape[-weight.ndim + 1 :] == (
            weight.shape[0],
            *[1] * (weight.ndim - 2),
        )
    fits = [p is None or p.size in (1, weight.shape[axis]) for p in (scale, point)]
    if not along or not all(fits) or (point is not None and point.ndim > 1):
        return None
    return weight, scale.reshape(-1), point


def _matmul(edits: Edits, node: ir.Node) -> None:
    """Spell out onnxruntime's op of all of it."""
    given = edits.scaled(node, 1)
    if given is None:
        return
    weight, scale, point = given
    if weight.size * 4 > MOST_KNOWN or scale.ndim > 1 or scale.size not in (1, weight.shape[-1]):
        return
    if point is not None and point.size not in (1, scale.size):
        return
    rounds = weight.ndim == 2 and edits.rounds(node, scale)
    made = columns(*given) if rounds else dequantized(*given, weight.ndim - 1)
    edits.product(node, node.inputs[0], made, edits.of(node, 4))
