"""Ops on integers with scales of their own, spelled out as floats between two roundings."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from .edits import VERSION, Edits, integer, is_op
from .placement import MOVES
from .quantized_weights import dequantized

Inputs = list["ir.Value | None"]
Rewrite = Callable[[Edits, ir.Node], "ir.Value | None"]


def spell_out(edits: Edits, node: ir.Node) -> None:
    """Replace such an op by DequantizeLinear, the op in floating point, and QuantizeLinear."""
    rewrite = REWRITES.get((node.domain, node.op_type))
    if rewrite is None and is_op(node, *MOVES):
        rewrite = _move
    made = None if rewrite is None else rewrite(edits, node)
    if made is not None:
        edits.replace(node, made)


def _attributes(node: ir.Node, *left_out: str) -> dict[str, Any]:
    return {n: a for n, a in node.attributes.items() if n not in left_out}


def _quantized(edits: Edits, node: ir.Node, x: ir.Value, places: tuple[int, int]) -> ir.Value:
    scale, point = (edits.of(node, i) for i in places)
    return edits.before(node, "QuantizeLinear", [x, scale, point], version=VERSION)


def _dequantized(
    edits: Edits, node: ir.Node, first: int, axis: int | None = None
) -> ir.Value | None:
    """Dequantize three inputs: numbers, scale, zero point; None if the scales are for blocks."""
    scale = edits.weight(edits.of(node, first + 1))
    if scale is None or scale.ndim > 1:
        return None
    x, factor, point = (edits.of(node, first + i) for i in range(3))
    return edits.dequantized(node, x, factor, point, axis if scale.size > 1 else None)


def _bias(edits: Edits, node: ir.Node, place: int, *scales: int, factor: float = 1) -> Any:
    """Return a bias as floats, None if it can't be had, and False if there is none."""
    if edits.of(node, place) is None:
        return False
    bias = edits.weight(edits.of(node, place))
    factors = [edits.weight(edits.of(node, i)) for i in scales]
    if bias is None or any(f is None for f in factors):
        return None
    scale = np.array([factor])
    for each in factors:
        scale = scale * np.asarray(each, np.float64).reshape(-1)
    if bias.dtype == np.float32:
        return edits.constant(bias, f"{node.name}.bias")
    made = dequantized(bias, scale, None, bias.ndim - 1)
    return edits.constant(made, f"{node.name}.bias")


def _conv(edits: Edits, node: ir.Node) -> ir.Value | None:
    x, weight = _dequantized(edits, node, 0), _dequantized(edits, node, 3, axis=0)
    bias = _bias(edits, node, 8, 1, 4)
    if x is None or weight is None or bias is None:
        return None
    inputs: Inputs = [x, weight] + ([bias] if bias else [])
    if not integer(node, "channels_last"):
        made = edits.before(node, "Conv", inputs, _attributes(node, "channels_last"))
    elif (kernel := edits.weight(edits.of(node, 3))) is not None:
        # The weights have them first all the same.
        made = _channels_last(edits, node, "Conv", inputs, kernel.ndim)
    else:
        return None
    return _quantized(edits, node, made, (6, 7))


def _channels_last(
    edits: Edits, node: ir.Node, op_type: str, inputs: Inputs, rank: int, version: int | None = None
) -> ir.Value:
    """Compute an op of what has the channels last."""
    order = {"perm": [0, rank - 1, *range(1, rank - 1)]}
    inputs = [edits.before(node, "Transpose", inputs[:1], order), *inputs[1:]]
    made = edits.before(node, op_type, inputs, _attributes(node, "channels_last"), version)
    return edits.before(node, "Transpose", [made], {"perm": [0, *range(2, rank), 1]})


def _matmul(edits: Edits, node: ir.Node) -> ir.Value | None:
    scale = edits.weight(edits.of(node, 1))
    if scale is None or scale.size > 1:
        return None
    x, weight = _dequantized(edits, node, 0), _dequantized(edits, node, 3, axis=-1)
    if x is None or weight is None:
        return None
    return _quantized(edits, node, edits.before(node, "MatMul", [x, weight]), (6, 7))


def _gemm(edits: Edits, node: ir.Node) -> ir.Value | None:
    axis = 0 if integer(node, "transB") else 1
    alpha = node.attributes.get("alpha")
    x, weight = _dequantized(edits, node, 0), _dequantized(edits, node, 3, axis=axis)
    bias = _bias(edits, node, 6, 1, 4, factor=alpha.as_float() if alpha is not None else 1)
    if x is None or weight is None or bias is None:
        return None
    inputs: Inputs = [x, weight] + ([bias] if bias else [])
    made = edits.before(node, "Gemm", inputs, _attributes(node), 13)
    return made if edits.of(node, 7) is None else _quantized(edits, node, made, (7, 8))


def _attention(edits: Edits, node: ir.Node) -> ir.Value | None:
    if edits.of(node, 8) is not None or len(node.outputs) > 1:
        return None
    scale = edits.weight(edits.of(node, 4))
    axis = 1 if scale is not None and scale.size > 1 else None
    x, weight, bias, *scales, mask = (edits.of(node, i) for i in range(6))
    points = (edits.of(node, i) for i in (6, 7))
    pairs = zip((x, weight), scales, points, (None, axis), strict=True)
    inputs = [*(edits.dequantized(node, *of) for of in pairs), bias, mask]
    return edits.before(node, "Attention", inputs, _attributes(node), 1, "com.microsoft")


def _binary(op_type: str) -> Rewrite:
    def rewrite(edits: Edits, node: ir.Node) -> ir.Value | None:
        x, y = _dequantized(edits, node, 0), _dequantized(edits, node, 3)
        if x is None or y is None:
            return None
        return _quantized(edits, node, edits.before(node, op_type, [x, y], version=14), (6, 7))

    return rewrite


def _unary(op_type: str) -> Rewrite:
    """Return the rewrite of an op of one tensor; some can have channels last."""

    def rewrite(edits: Edits, node: ir.Node) -> ir.Value | None:
        if integer(node, "channels_last"):
            return None
        x = _dequantized(edits, node, 0)
        if x is None:
            return None
        version = node.attributes.get("opset")
        made = edits.before(
            node,
            op_type,
            [x],
            _attributes(node, "channels_last", "opset"),
            None if version is None else version.as_int(),
        )
        return _quantized(edits, node, made, (3, 4))

    return rewrite


def _concat(edits: Edits, node: ir.Node) -> ir.Value | None:
    made = [_dequantized(edits, node, i) for i in range(2, len(node.inputs), 3)]
    if None in made:
        return None
    joined = edits.before(node, "Concat", made, _attributes(node), 13)
    return _quantized(edits, node, joined, (0, 1))


def _standard(edits: Edits, node: ir.Node) -> ir.Value | None:
    """Take the op of ONNX for the one that onnxruntime had before it."""
    axis = node.attributes.get("axis")
    attributes = {} if axis is None else {"axis": axis}
    return edits.before(node, node.op_type, list(node.inputs), attributes, VERSION)


def _move(edits: Edits, node: ir.Node) -> ir.Value | None:
    """Let an op that makes no new numbers read floats, which oneDNN fuses back."""
    given = node.inputs[0].producer() if node.inputs[0] is not None else None
    if not is_op(given, "QuantizeLinear") or len(node.outputs) > 1:
        return None
    parameters = edits.parameters(given)
    if parameters is None or parameters.dtype.itemsize > 1 or len(given.inputs) < 3:
        return None
    x = edits.dequantized(node, *(edits.of(n, i) for n, i in ((node, 0), (given, 1), (given, 2))))
    if node.op_type == "NhwcMaxPool":
        rank = len(node.attributes["kernel_shape"].as_ints()) + 2
        made = _channels_last(edits, node, "MaxPool", [x], rank, 12)
    else:
        rest = node.inputs[1:]
        made = edits.before(node, node.op_type, [x, *rest], _attributes(node), node.version)
    return edits.before(node, "QuantizeLinear", [made, *given.inputs[1:3]], None, VERSION)


REWRITES: dict[tuple[str, str], Rewrite] = {
    ("", "QLinearConv"): _conv,
    ("com.microsoft", "QLinearConv"): _conv,
    ("", "QLinearMatMul"): _matmul,
    ("com.microsoft", "NhwcMaxPool"): _move,
    ("com.microsoft", "QGemm"): _gemm,
    ("com.microsoft", "QAttention"): _attention,
    ("com.microsoft", "QLinearAdd"): _binary("Add"),
    ("com.microsoft", "QLinearMul"): _binary("Mul"),
    ("com.microsoft", "QLinearGlobalAveragePool"): _unary("GlobalAveragePool"),
    ("com.microsoft", "QLinearAveragePool"): _unary("AveragePool"),
    ("com.microsoft", "QLinearSigmoid"): _unary("Sigmoid"),
    ("com.microsoft", "QLinearLeakyRelu"): _unary("LeakyRelu"),
    ("com.microsoft", "QLinearSoftmax"): _unary("Softmax"),
    ("com.microsoft", "QLinearConcat"): _concat,
    ("com.microsoft", "QuantizeLinear"): _standard,
    ("com.microsoft", "DequantizeLinear"): _standard,
}
"""For each op what puts its parts before it and returns their result, or None if it can't."""
