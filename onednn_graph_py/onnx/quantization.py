"""Quantized ops in the form that oneDNN fuses."""

from __future__ import annotations

import onnx_ir as ir

from .dynamic_quantization import in_floats
from .edits import Edits
from .integer_ops import spelled_out
from .options import Options
from .placement import merged, moved
from .quantized_weights import prepared

QUANTIZED = frozenset(
    {
        "QuantizeLinear",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "MatMulInteger",
        "ConvInteger",
        "MatMulNBits",
        "DynamicQuantizeMatMul",
        "MatMulIntegerToFloat",
    }
)


def rewrite(model: ir.Model, options: Options) -> bool:
    """Rewrite a model in place, and return whether it changed something."""
    if not any(n.op_type in QUANTIZED or n.op_type.startswith("Q") for n in model.graph):
        return False
    edits = Edits(model, options.activations)
    spelled_out(edits)
    if options.dynamic_quantization == "f32":
        in_floats(edits)
    moved(edits)
    if options.requantize == "merge":
        merged(edits)
    prepared(edits)
    return True
