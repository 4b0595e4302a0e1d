"""Quantized ops in the form that oneDNN fuses."""

import warnings

import onnx_ir as ir

from .dynamic_quantization import compute_in_floats
from .edits import Edits
from .integer_ops import spell_out
from .options import Options
from .placement import merged, move
from .quantized_weights import prepare

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
    before = _weight_bytes(model)
    edits = Edits(model, options.activations)
    edits.each(spell_out)
    if options.dynamic_quantization == "f32":
        edits.each(compute_in_floats)
    edits.each(move)
    if options.requantize == "merge":
        merged(edits)
    edits.each(prepare)
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
