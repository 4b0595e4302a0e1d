"""MatMul of quantized tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from onednn_graph_py.model.building.builder import GraphBuilder
from onednn_graph_py.model.building.value import Value

from ._cases import LONG_EPILOGUES
from ._epilogue import chain
from ._quantization import weighted
from ._quantized_cases import conversions_apart, long_epilogue_deviations, ops_apart, weighted_cases
from .pattern import Deviation, Pattern

__all__ = ["PATTERNS", "quantized_matmul"]

_SRC = (4, 24, 32)
_WEIGHTS = (32, 48)


def quantized_matmul(
    *types: str,
    select: Literal["src_0", "src_1"] | None = None,
    transpose_b: bool = False,
    **arguments: Any,
) -> GraphBuilder:
    """Build MatMul of dequantized source and weights, with post-ops and Select; see `weighted`.

    Parameters
    ----------
    *types, **arguments
    select : str, optional
        The input of a Select that the result becomes; the other one is a constant.
    transpose_b : bool
        The weights' shape is (N, K).
    """

    def selected(y: Value) -> Value:
        if select is None:
            return y
        b = y.builder
        cond = b.input((*_SRC[:-1], _WEIGHTS[1]), "boolean", name="cond")
        other = b.constant([-1.0], y.dtype)
        return b.select(cond, *((y, other) if select == "src_0" else (other, y)))

    shape, axis = (_WEIGHTS[::-1], 0) if transpose_b else (_WEIGHTS, 1)
    attrs = {"transpose_b": transpose_b}
    return weighted("MatMul", _SRC, shape, axis, attrs, *types, then=selected, **arguments)


def _deviations(arguments: Mapping[str, Any]) -> tuple[Deviation, ...]:
    long = long_epilogue_deviations(arguments)
    if long:
        return long
    compute = arguments.get("compute", "f32")
    if compute == "f16":
        why = "it fuses TypeCasts to bf16, not to f16"
        # On CPUs with f16, 3.13.2 makes one partition less if a TypeCast and a Quantize end it.
        fused = arguments["dst"] in ("u8", "s8")
        return (
            Deviation(ops_apart(arguments), why, until=LONG_EPILOGUES),
            Deviation(ops_apart(arguments) - fused, why, since=LONG_EPILOGUES),
        )
    if arguments.get("residual") and arguments["dst"] == "f32":
        return (Deviation(2, "a quantized residual is fused only if a Quantize ends the pattern"),)
    if arguments.get("select") == "src_0":
        parts = 2 + (arguments["dst"] in ("u8", "s8"))
        return (Deviation(parts, "a result is fused only as Select's src_1", until=LONG_EPILOGUES),)
    apart = conversions_apart(arguments)
    if apart and compute == "f32":
        return (Deviation(1 + apart, "TypeCasts are fused only with a MatMul in bf16"),)
    return ()


PATTERNS = (
    Pattern(
        "Q-03",
        "Dequantize, Quantize? + Dequantize, Dequantize{0-3} + MatMul + BiasAdd? + "
        "[Unary | Binary]{0-3} + Select? + Quantize?",
        "quantized",
        "Source and weights each come from a Dequantize; a Quantize may precede the weights'. "
        "After at most one bias follow at most three Unary and Binary ops (3.13 says twenty), "
        "whose operands may be dequantized too, then an optional Select, then an optional "
        "Quantize. A TypeCast may follow each Dequantize and precede the Quantize, so that MatMul "
        "computes in bf16.",
        "graph/fusion_patterns/quantized_matmul_fusion_patterns",
        quantized_matmul,
        weighted_cases(
            _deviations,
            ("Select", {"select": "src_1"}),
            ("Select, no Quantize", {"select": "src_1", "dst": "f32"}),
            ("Select, bias, 3 post-ops", {"select": "src_1", "bias": "f32", "epilogue": chain(3)}),
            ("Select in bf16", {"select": "src_1", "compute": "bf16"}),
            ("Select of src_0", {"select": "src_0"}),
            ("Select of src_0, no Quantize", {"select": "src_0", "dst": "f32"}),
            ("transposed weights", {"transpose_b": True, "bias": "f32"}),
            ("transposed weights per channel", {"transpose_b": True, "per_channel": True}),
            ("no bias", {"weights": "u8"}),
            ("bias f32", {"weights": "u8", "src": "s8", "bias": "f32"}),
            ("weights per channel", {"weights": "u8", "per_channel": True}),
        ),
    ),
)
