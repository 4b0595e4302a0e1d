"""Quantized ops in the form that oneDNN fuses."""

import warnings

import onnx_ir as ir

from .dynamic_quantization import in_floats
from .edits import Edits
from .integer_ops import spelled_out
from .options import Options
from .placement import merged, moved
from .quantized_weights import prepared

_QUANTIZED = """
QuantizeLinear DequantizeLinear DynamicQuantizeLinear MatMulInteger ConvInteger MatMulNBits
DynamicQuantizeMatMul MatMulIntegerToFloat
"""
QUANTIZED = frozenset(_QUANTIZED.split())


def rewrite(model: ir.Model, options: Options) -> bool:
    """Rewrite a model in place, and return whether it changed something."""
    if not any(n.op_type in QUANTIZED or n.op_type.startswith("Q") for n in model.graph):
        return False
    before = _weight_bytes(model)
    edits = Edits(model, options.activations)
    spelled_out(edits)
    if options.dynamic_quantization == "f32":
        in_floats(edits)
    moved(edits)
    if options.requantize == "merge":
        merged(edits)
    prepared(edits)
    after = _weight_bytes(model)
    if after - before > max(before, 1 << 20):
        warnings.warn(
            f"weights of {before >> 20} MiB take {after >> 20} MiB, as activations are exact; with "
            "activations='int8' they stay in 8 bits",
            RuntimeWarning,
            stacklevel=2,
        )
    return True


def _weight_bytes(model: ir.Model) -> int:
    """Return the bytes of all weights that a node reads."""
    every = (v.const_value for v in model.graph.initializers.values() if v.uses())
    return sum(w.nbytes for w in every if w is not None)
