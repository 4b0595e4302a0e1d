"""Ops on integers: products of what a call rounds, and ops with scales, spelled out as floats."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from .edits import EIGHT_BITS, VERSION, Edits, Parameters, integer, is_op, only_reader
from .evaluation import MOST_KNOWN
from .quantized_weights import columns, dequantized

PRODUCTS = ("Conv", "ConvTranspose", "MatMul", "Gemm")

MOVES = ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "MaxPool")
"""Ops that make no new numbers."""

FUSED = (
    "Add", "Relu", "Sigmoid", "Tanh", "Clip", "LeakyRelu", "Elu", "HardSwish", "HardSigmoid",
    "Gelu", "Abs", "Mish",
)  # fmt: skip
"""Ops that oneDNN computes together with a product before them."""


def move(edits: Edits, node: ir.Node) -> None:
    """Keep 8 bits behind an op that only moves elements, as far as products that read them.

    What is quantized the same way behind such an op has the same numbers as before it.
    """
    if not is_op(node, *MOVES) or len(node.outputs) > 1:
        return
    given = node.inputs[0].producer() if node.inputs[0] is not None else None
    if not is_op(given, "DequantizeLinear"):
        return
    result = node.outputs[0]
    parameters = edits.parameters(given)
    readers = [u.node for u in result.uses()]
    if parameters is None or parameters.dtype not in EIGHT_BITS or result.is_graph_output():
        return
    if not readers or not all(is_op(r, *PRODUCTS, *MOVES) for r in readers):
        return
    uses = list(result.uses())
    following = next(n for n in edits.graph if n in readers)
    inputs = [result, *given.inputs[1:]]
    eight = edits.before(following, "QuantizeLinear", inputs, None, VERSION)
    eight.dtype, eight.shape = ir.DataType.from_numpy(parameters.dtype), result.shape
    back = edits.before(following, "DequantizeLinear", [eight, *given.inputs[1:]], None, VERSION)
    back.type, back.shape = result.type, result.shape
    for use in uses:
        use.node.replace_input_with(use.idx, back)


def merged(edits: Edits) -> None:
    """Leave out what rounds between a product and the op that oneDNN fuses with it.

    The numbers that 8 bits can't hold stay cut off where the smallest of them is 0, as quantizers
    leave out a ReLU there.
    """
    places = {n: i for i, n in enumerate(edits.graph)}
    found: dict[ir.Node, list[tuple[int, ir.Node, ir.Node, Parameters]]] = {}

    def look(edits: Edits, node: ir.Node) -> None:
        if not is_op(node, "DequantizeLinear"):
            return
        parameters = edits.parameters(node)
        quantize = node.inputs[0].producer() if node.inputs[0] is not None else None
        if parameters is None or not is_op(quantize, "QuantizeLinear"):
            return
        product = _biased_product(edits, quantize.inputs[0])
        reader = only_reader(node.outputs[0])
        if product is None or not is_op(reader, *FUSED) or edits.parameters(quantize) != parameters:
            return
        if only_reader(quantize.outputs[0]) is not None:
            found.setdefault(reader, []).append((places[product], quantize, node, parameters))

    edits.each(look)
    for candidates in found.values():
        # oneDNN fuses an Add with one of two products: the one that is computed last.
        _, quantize, dequantize, parameters = max(candidates, key=lambda c: c[0])
        source = quantize.inputs[0]
        assert source is not None
        if parameters.point == np.iinfo(parameters.dtype).min:
            low, high = parameters.range
            limits = [
                edits.constant(np.asarray(v, np.float32), f"{quantize.name}.limit")
                for v in (low, high)
            ]
            source = edits.before(dequantize, "Clip", [source, *limits], version=13)
        edits.replace(dequantize, source)
        edits.graph.remove(quantize, safe=True)


def _biased_product(edits: Edits, value: ir.Value | None) -> ir.Node | None:
    """Return the product that makes a value, alone or with a bias that is added."""
    if value is None or only_reader(value) is None:
        return None
    node = value.producer()
    if is_op(node, *PRODUCTS):
        return node
    if not is_op(node, "Add"):
        return None
    for i in (0, 1):
        before, other = edits.of(node, i), edits.of(node, 1 - i)
        if before is not None and only_reader(before) is node and edits.weight(other) is not None:
            product = before.producer()
            return product if is_op(product, *PRODUCTS) else None
    return None


Array = npt.NDArray[Any]


def compute_in_floats(edits: Edits, node: ir.Node) -> None:
    """Replace a dynamically quantized product by that of what it rounds."""
    if is_op(node, "MatMulInteger", "ConvInteger"):
        _product(edits, node)
    elif is_op(node, "DequantizeLinear"):
        _back(edits, node)
    elif is_op(node, "DynamicQuantizeMatMul", domain="com.microsoft"):
        _of_integers(edits, node)


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


def _of_integers(edits: Edits, node: ir.Node) -> None:
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


def _binary(op_type: str, edits: Edits, node: ir.Node) -> ir.Value | None:
    x, y = _dequantized(edits, node, 0), _dequantized(edits, node, 3)
    if x is None or y is None:
        return None
    return _quantized(edits, node, edits.before(node, op_type, [x, y], version=14), (6, 7))


def _unary(op_type: str, edits: Edits, node: ir.Node) -> ir.Value | None:
    """Rewrite an op of one tensor; some can have channels last."""
    x = None if integer(node, "channels_last") else _dequantized(edits, node, 0)
    if x is None:
        return None
    version = node.attributes.get("opset")
    attributes = _attributes(node, "channels_last", "opset")
    of = None if version is None else version.as_int()
    return _quantized(edits, node, edits.before(node, op_type, [x], attributes, of), (3, 4))


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
    ("com.microsoft", "QLinearAdd"): partial(_binary, "Add"),
    ("com.microsoft", "QLinearMul"): partial(_binary, "Mul"),
    ("com.microsoft", "QLinearGlobalAveragePool"): partial(_unary, "GlobalAveragePool"),
    ("com.microsoft", "QLinearAveragePool"): partial(_unary, "AveragePool"),
    ("com.microsoft", "QLinearSigmoid"): partial(_unary, "Sigmoid"),
    ("com.microsoft", "QLinearLeakyRelu"): partial(_unary, "LeakyRelu"),
    ("com.microsoft", "QLinearSoftmax"): partial(_unary, "Softmax"),
    ("com.microsoft", "QLinearConcat"): _concat,
    ("com.microsoft", "QuantizeLinear"): _standard,
    ("com.microsoft", "DequantizeLinear"): _standard,
}
"""For each op what puts its parts before it and returns their result, or None if it can't."""
