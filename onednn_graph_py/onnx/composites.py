"""Groups of nodes that become the one op that they stand for: `composed`.

Exporters for older opsets, and those that decompose, write GELU and attention in parts. oneDNN has
ops for the whole, but none for the error function, and none that looks for NaN.
"""

import math

import numpy as np
import onnx_ir as ir

from .edits import Edits, integer, is_op, only_reader

_FLOATS = (None, ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
"""The types of values for which the ops of the whole do; that of a value may be unknown."""


def composed(model: ir.Model) -> None:
    """Rewrite a model in place."""
    edits = Edits(model)
    edits.each(_gelu)
    edits.each(_attention)
    edits.each(_squeezed_late)


_OF_CHANNELS = ("Relu", "LeakyRelu", "Elu", "Sigmoid", "Tanh")
"""Activations behind a convolution's bias."""


def _squeezed_late(edits: Edits, node: ir.Node) -> None:
    """Move the Squeeze of a convolution behind its bias, as Keras' one-dimensional ones have it.

    oneDNN fuses the bias and the activation then.
    """
    if not is_op(node, "Squeeze"):
        return
    given = node.inputs[0]
    product = None if given is None else given.producer()
    if given is None or product is None or not is_op(product, "Conv", "ConvTranspose"):
        return
    kernel, last = product.inputs[1], only_reader(node.outputs[0])
    if kernel is None or kernel.shape is None or last is None or not is_op(last, "Add"):
        return
    listed = node.attributes.get("axes")
    axes = edits.weight(edits.of(node, 1)) if listed is None else np.array(listed.as_ints())
    bias = next((w for v in last.inputs if (w := edits.weight(v)) is not None), None)
    if axes is None or bias is None or only_reader(given) is None:
        return
    ahead = len(kernel.shape) - axes.size - bias.ndim
    if ahead < 0:
        return
    wide = np.expand_dims(bias.reshape((1,) * ahead + bias.shape), tuple(axes.tolist()))
    made = edits.before(last, "Add", [given, edits.constant(wide, f"{last.name}.bias")], None, 14)
    after = only_reader(last.outputs[0])
    if after is not None and is_op(after, *_OF_CHANNELS):
        last = after
        made = edits.before(last, last.op_type, [made], last.attributes, last.version)
    made = edits.before(last, "Squeeze", [made, *node.inputs[1:]], node.attributes, node.version)
    edits.replace(last, made)


def _number(edits: Edits, value: ir.Value | None) -> float | None:
    """Return the number of a weight with one element, if oneDNN computes in its type."""
    array = edits.weight(value)
    if array is None or array.size != 1 or array.dtype == np.float64:
        return None
    return float(array.reshape(-1)[0])


def _is_about(number: float | None, wanted: float) -> bool:
    """Return whether a number is another one, as an exporter may have rounded it."""
    return number is not None and math.isclose(number, wanted, rel_tol=1e-3)


def _scaled(edits: Edits, value: ir.Value | None) -> tuple[ir.Value | None, float]:
    """Return what is multiplied or divided by a number, and the factor."""
    node = None if value is None else value.producer()
    if node is not None and is_op(node, "Mul", "Div"):
        left, right = (_number(edits, v) for v in node.inputs)
        if right:
            return node.inputs[0], right if node.op_type == "Mul" else 1 / right
        if left and node.op_type == "Mul":
            return node.inputs[1], left
    return value, 1.0


def _gelu(edits: Edits, node: ir.Node) -> None:
    """Find ``x * 0.5 * (1 + erf(x / sqrt(2)))``, multiplied in any order."""
    if not is_op(node, "Erf"):
        return
    x, by = _scaled(edits, node.inputs[0])
    last = only_reader(node.outputs[0])
    if x is None or x.dtype not in _FLOATS or not _is_about(by, math.sqrt(0.5)):
        return
    rank = len(x.shape or ())
    if last is None or not is_op(last, "Add"):
        return
    if not any(_is_about(_number(edits, v), 1) for v in last.inputs):
        return
    factor, has_x = 1.0, False
    while not (has_x and _is_about(factor, 0.5)):
        factors, last = last.outputs[0], only_reader(last.outputs[0])
        if last is None or not is_op(last, "Mul", "Div"):
            return
        divided = last.op_type == "Div"
        other = last.inputs[0 if last.inputs[1] is factors else 1]
        number = _number(edits, other)
        if divided and (not number or last.inputs[0] is not factors):
            return
        if number is None:
            source, number = (x, 1.0) if other is x else _scaled(edits, other)
            if has_x or source is not x:
                return
            has_x = True
        factor = factor / number if divided else factor * number
    made = edits.before(last, "Gelu", [x], {"approximate": "none"}, 20)
    dims = _dims(edits, last.outputs[0], x)
    if dims > rank:
        ones = edits.constant(np.ones(dims, np.int64), "ones")
        made = edits.before(last, "Expand", [made, ones], None, 13)
    edits.replace(last, made)


def _dims(edits: Edits, value: ir.Value | None, x: ir.Value) -> int:
    """Return the most dims of the numbers between a value and the `x` that it is made of."""
    array, node = edits.weight(value), value and value.producer()
    if value is x or not node:
        return 0 if array is None else array.ndim
    return max(_dims(edits, v, x) for v in node.inputs)


def _attention(edits: Edits, node: ir.Node) -> None:
    """Find attention whose rows without a key are 0, as NaN is replaced."""
    weights = node.inputs[0] if is_op(node, "IsNaN") else None
    chosen = only_reader(node.outputs[0])
    softmax = None if weights is None else weights.producer()
    if softmax is None or chosen is None or not is_op(softmax, "Softmax"):
        return
    if not is_op(chosen, "Where") or chosen.inputs[2] is not weights:
        return
    result = only_reader(chosen.outputs[0])
    if result is None or not is_op(result, "MatMul") or result.inputs[0] is not chosen.outputs[0]:
        return
    if integer(softmax, "axis") != -1 or _number(edits, chosen.inputs[1]) != 0:
        return
    scores, mask = softmax.inputs[0], None
    added = None if scores is None else scores.producer()
    if added is not None and is_op(added, "Add"):
        scores, mask = added.inputs
        if scores is None or not is_op(scores.producer(), "MatMul"):
            scores, mask = mask, scores
    product = None if scores is None else scores.producer()
    if product is None or not is_op(product, "MatMul"):
        return
    read = (*product.inputs, result.inputs[1])
    if any(v is None or v.shape is None or len(v.shape) != 4 for v in read):
        return
    (query, first), (turned, second) = (_scaled(edits, v) for v in product.inputs)
    if query is None or query.dtype not in _FLOATS:
        return
    key = edits.before(result, "Transpose", [turned], {"perm": [0, 1, 3, 2]}, 13)
    operands = [query, key, result.inputs[1], *([] if mask is None else [mask])]
    scale = {"scale": first * second}
    edits.replace(result, edits.before(result, "Attention", operands, scale, 23))
