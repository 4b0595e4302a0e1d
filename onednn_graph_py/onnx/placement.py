"""Where activations are rounded: between which ops QuantizeLinear and DequantizeLinear stand."""

import numpy as np
import onnx_ir as ir

from .edits import EIGHT_BITS, VERSION, Edits, Parameters, is_op, only_reader

PRODUCTS = ("Conv", "ConvTranspose", "MatMul", "Gemm")

MOVES = ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "MaxPool")
"""Ops that make no new numbers."""

FUSED = (
    "Add",
    "Relu",
    "Sigmoid",
    "Tanh",
    "Clip",
    "LeakyRelu",
    "Elu",
    "HardSwish",
    "HardSigmoid",
    "Gelu",
    "Abs",
    "Mish",
)
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
        product = _product(edits, quantize.inputs[0])
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


def _product(edits: Edits, value: ir.Value | None) -> ir.Node | None:
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
