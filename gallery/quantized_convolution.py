"""Convolution of quantized tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onednn_graph_py.model.building.builder import GraphBuilder

from ._quantization import weighted
from ._quantized_cases import conversions_apart, long_epilogue_deviations, ops_apart, weighted_cases
from .pattern import Deviation, Pattern

__all__ = ["PATTERNS", "quantized_convolution"]


def quantized_convolution(*types: str, **arguments: Any) -> GraphBuilder:
    """Build Convolution of dequantized source and weights, with post-ops; see `weighted`."""
    ones = (1, 1)
    attrs = {"strides": ones, "pads_begin": ones, "pads_end": ones, "dilations": ones}
    return weighted("Convolution", (1, 8, 8, 16), (3, 3, 16, 32), 3, attrs, *types, **arguments)


def _deviations(arguments: Mapping[str, Any]) -> tuple[Deviation, ...]:
    long = long_epilogue_deviations(arguments)
    if long:
        return long
    compute = arguments.get("compute", "f32")
    if compute == "f16":
        return (Deviation(ops_apart(arguments), "it fuses TypeCasts to bf16, not to f16"),)
    if arguments.get("weights_zero_point"):
        return (Deviation(None, "weights with a zero point do not compile"),)
    if arguments.get("residual") and arguments["dst"] == "f32":
        return (Deviation(2, "a quantized residual is fused only if a Quantize ends the pattern"),)
    if compute == "bf16":
        if arguments["dst"] == "f32":
            return (Deviation(2, "a final TypeCast is fused only if a Quantize follows"),)
        return ()
    apart = conversions_apart(arguments)
    if apart:
        return (Deviation(1 + apart, "TypeCasts are fused only with a Convolution in bf16"),)
    return ()


PATTERNS = (
    Pattern(
        "Q-01",
        "Dequantize, Quantize? + Dequantize, Dequantize{0-3} + Convolution + BiasAdd? + "
        "[Unary | Binary]{0-3} + Quantize?",
        "quantized",
        "Source and weights each come from a Dequantize; a Quantize may precede the weights'. "
        "After at most one bias follow at most three Unary and Binary ops (3.13 says twenty), "
        "whose operands may be dequantized too, then an optional Quantize. A TypeCast may follow "
        "each Dequantize and precede the Quantize, so that Convolution computes in bf16.",
        "graph/fusion_patterns/quantized_convolution_fusion_patterns",
        quantized_convolution,
        weighted_cases(_deviations),
    ),
)
