"""Quantized ops in the form that oneDNN fuses."""

from __future__ import annotations

import onnx_ir as ir

from .dynamic_quantization import in_floats
from .edits import Edits
from .integer_ops import spelled_out
from .placement import merged, moved
from .quantized_weights import prepared

__all__ = ["rewrite"]

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


def rewrite(model: ir.Model, requantize: str, dynamic_quantization: str) -> bool:
    """Rewrite a model in place.

    Parameters
    ----------
    model : onnx_ir.Model
    requantize : str
        ``merge`` or ``exact``; see `onednn_graph_py.onnx.load`.
    dynamic_quantization : str
        ``f32`` or ``host``.

    Returns
    -------
    bool
        Whether it changed something.
    """
    if not any(n.op_type in QUANTIZED or n.op_type.startswith("Q") for n in model.graph):
        return False
    edits = Edits(model)
    spelled_out(edits)
    if dynamic_quantization == "f32":
        in_floats(edits)
    moved(edits)
    if requantize == "merge":
        merged(edits)
    prepared(edits)
    return True
