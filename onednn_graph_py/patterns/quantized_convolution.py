"""Convolution of quantized tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..building.builder import GraphBuilder
from ._quantization import bias_of, dequantized, dequantized_weights, finished, post_ops
from ._quantized_cases import conversions_apart, long_epilogue_deviations, ops_apart, weighted_cases
from .pattern import Deviation, Pattern

__all__ = ["PATTERNS", "quantized_convolution"]


def quantized_convolution(
    src: str = "u8",
    weights: str = "s8",
    dst: str = "s8",
    *,
    compute: str = "f32",
    bias: str | None = None,
    bias_add: bool = False,
    epilogue: Sequence[str] = (),
    residual: str | None = None,
    per_channel: bool = False,
    dst_per_channel: bool = False,
    src_zero_point: int = 0,
    weights_zero_point: int = 0,
    dst_zero_point: int = 0,
    residual_zero_point: int = 0,
) -> GraphBuilder:
    """Build Convolution of dequantized source and weights, with bias, post-ops and Quantize.

    Parameters
    ----------
    src, weights, dst : str
        Data types. The graph quantizes weights in f32; a float destination has no Quantize.
    compute : str
        The data type in which Convolution computes; TypeCasts convert from and to others than f32.
    bias : str, optional
        Its data type.
    bias_add : bool
        Add the bias with a BiasAdd instead of Convolution's third input.
    epilogue : sequence of str
        Unary and Binary ops, as in `epilogue`.
    residual : str, optional
        Data type of a quantized tensor that is added before the epilogue.
    per_channel, dst_per_channel : bool
        Weights and destination have a scale for each output channel.
    src_zero_point, weights_zero_point, dst_zero_point, residual_zero_point : int
    """
    b = GraphBuilder()
    x = dequantized(b.input((1, 8, 8, 16), src, name="src"), compute, zero_point=src_zero_point)
    w = dequantized_weights(
        b,
        (3, 3, 16, 32),
        weights,
        compute,
        axis=3,
        per_channel=per_channel,
        zero_point=weights_zero_point,
    )
    offset = None if bias is None else bias_of(b, 32, bias, compute)
    y = b.convolution(
        x,
        w,
        *([] if offset is None or bias_add else [offset]),
        strides=(1, 1),
        pads_begin=(1, 1),
        pads_end=(1, 1),
        dilations=(1, 1),
    )
    if offset is not None and bias_add:
        y = y.bias_add(offset)
    y = post_ops(y, epilogue, residual=residual, residual_zero_point=residual_zero_point)
    b.output(finished(y, dst, zero_point=dst_zero_point, per_channel=dst_per_channel))
    return b


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
