"""ConvTranspose of quantized tensors, and a pattern for each part of its documented rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from onednn_graph_py.model.building.builder import GraphBuilder
from onednn_graph_py.model.building.value import Value

from ._cases import LONG_EPILOGUES
from ._quantization import bias_of, weighted
from ._quantized_cases import (
    Form,
    case_of,
    conversions_apart,
    long_epilogue,
    long_epilogue_deviations,
    ops_apart,
    types,
    weighted_cases,
)
from .pattern import Case, Deviation, Pattern, named

__all__ = ["PATTERNS", "quantized_conv_transpose"]

_PAGE = "graph/fusion_patterns/quantized_convtranspose_fusion_patterns"


def quantized_conv_transpose(
    *types: str, order: Sequence[str] = (), **arguments: Any
) -> GraphBuilder:
    """Build ConvTranspose of dequantized source and weights, with post-ops; see `weighted`.

    `order` lists the kinds of Unary ops and BiasAdd, which replace the epilogue.
    """

    def ordered(y: Value) -> Value:
        for kind in order:
            more = [bias_of(y.builder, 32, y.dtype, y.dtype)] if kind == "BiasAdd" else []
            y = y.builder.op(kind, y, *more)
        return y

    ones = (1, 1)
    attrs = {"strides": (2, 2), "pads_begin": ones, "pads_end": ones, "dilations": ones}
    shapes = (1, 8, 8, 16), (3, 3, 32, 16)
    return weighted("ConvTranspose", *shapes, 2, attrs, *types, then=ordered, **arguments)


def _deviations(arguments: Mapping[str, Any]) -> tuple[Deviation, ...]:
    long = long_epilogue_deviations(arguments)
    if long:
        return long
    compute, epilogue = arguments.get("compute", "f32"), arguments.get("epilogue", ())
    residual, quantized = arguments.get("residual"), arguments["dst"] in ("u8", "s8")
    no_type_cast = "its pattern has no TypeCast"
    if compute != "f32":
        # The post-ops join ConvTranspose, the residual comes in with a Dequantize and a TypeCast;
        # from bf16, the last TypeCast joins Quantize.
        joined = compute == "bf16" and quantized
        parts = ops_apart(arguments) + 2 * (residual is not None) - joined
        return (Deviation(parts, no_type_cast),)
    if arguments.get("weights_zero_point"):
        return (Deviation(None, "weights with a zero point do not compile"),)
    refused = Deviation(
        None,
        "the mirror refuses a binary op behind it, because oneDNN reads its operand out of bounds",
        since=LONG_EPILOGUES,
    )
    if residual is not None and not quantized:
        needed = "a quantized residual is fused only if a Quantize ends the pattern"
        return (refused, Deviation(2, needed))
    if "Add:residual" in epilogue:
        return (refused,)
    apart = conversions_apart(arguments)
    return (Deviation(1 + apart, no_type_cast),) if apart else ()


_WHOLE = Pattern(
    "Q-02",
    "Dequantize, Quantize? + Dequantize, Dequantize{0-3} + ConvTranspose + BiasAdd? + "
    "[Unary | Binary]{0-3} + Quantize?",
    "quantized",
    "Source and weights each come from a Dequantize; a Quantize may precede the weights'. After at "
    "most one bias follow at most three Unary and Binary ops (later documents say four, then "
    "twenty), whose operands may be dequantized too, then an optional Quantize. Bias and "
    "destination may be bf16 and f16, though the pattern has no TypeCast.",
    _PAGE,
    quantized_conv_transpose,
    weighted_cases(_deviations, in_bf16=False),
)


# -- its parts

_SOURCE_PLAIN = {"src": "u8", "dst": "s8"}


def _part(number: str, name: str, title: str, rule: str, forms: Iterable[Form | Case]) -> Pattern:
    """Return a separate pattern for one part of the documented rule."""
    build = named(
        f"quantized_conv_transpose_{name}",
        quantized_conv_transpose,
        f"{title}; `quantized_conv_transpose` has the parameters.",
    )
    cases = tuple(f if isinstance(f, Case) else case_of(f, _deviations) for f in forms)
    return Pattern(number, title, "quantized", rule, _PAGE, build, cases)


def _of_types(**given: Iterable[str]) -> list[Form]:
    biases = given.pop("biases", None)
    return list(types(**given, biases=biases or (None, "f32"), in_bf16=False))


def _source_and_weights(src: str, weights: str) -> Pattern:
    quantized = "" if weights == "s8" else "Quantize + "
    rule = (
        "The weights are s8 and come from a Dequantize."
        if weights == "s8"
        else "The weights are f32 and go through a Quantize to s8, then a Dequantize."
    )
    return _part(
        f"Q-2A-{src}-{weights}",
        f"{src}_{weights}",
        f"Dequantize of {src}, {quantized}Dequantize of weights in {weights} + ConvTranspose",
        f"The source is {src} and comes from a Dequantize. {rule}",
        _of_types(sources=(src,), weights=(weights,)),
    )


def _bias(dtype: str) -> Pattern:
    return _part(
        f"Q-2B-{dtype}",
        f"bias_{dtype}",
        f"Dequantize, Dequantize + ConvTranspose with a bias in {dtype}",
        f"The bias is {dtype}: ConvTranspose's third input or BiasAdd's. All inputs of these ops "
        "have one type, so a TypeCast must convert a bias of another type.",
        _of_types(weights=("s8",), biases=(dtype,)),
    )


def _destination(dtype: str) -> Pattern:
    how = "A Quantize makes" if dtype in ("u8", "s8") else "No Quantize ends it, and"
    return _part(
        f"Q-2C-{dtype}",
        f"to_{dtype}",
        f"Dequantize, Dequantize + ConvTranspose to {dtype}",
        f"{how} the destination{'' if dtype in ('u8', 's8') else ' is'} {dtype}.",
        _of_types(weights=("s8",), destinations=(dtype,)),
    )


def _length(length: int) -> Pattern:
    rule = f"The number of Unary and Binary ops after the bias is {length}."
    if length == 5:
        rule = "Five Unary and Binary ops are too many before 3.13."
    return _part(
        f"Q-2E-{length}",
        f"{length}_post_ops",
        f"Dequantize, Dequantize + ConvTranspose + [Unary | Binary]{{{length}}} + Quantize?",
        rule,
        [
            long_epilogue(length),
            (f"{length} post-ops, BiasAdd", {**long_epilogue(length)[1], "bias_add": True}),
        ],
    )


def _in_order(*kinds: str, partitions: int) -> Case:
    name = " + ".join(kinds)
    return Case(name, "u8 s8 -> s8", {**_SOURCE_PLAIN, "order": kinds}, partitions)


def _residual(residual: str, dst: str) -> Form:
    return f"residual {residual}", {"residual": residual, "dst": dst}


PATTERNS: tuple[Pattern, ...] = (
    _WHOLE,
    *(_source_and_weights(src, weights) for src in ("u8", "s8") for weights in ("s8", "f32")),
    *(_bias(dtype) for dtype in ("f32", "bf16", "f16")),
    *(_destination(dtype) for dtype in ("u8", "s8", "f32", "bf16", "f16")),
    _part(
        "Q-2D-bias",
        "bias_first",
        "Dequantize, Dequantize + ConvTranspose + BiasAdd? + [Unary | Binary]{0-4} + Quantize",
        "BiasAdd comes first and once.",
        (
            _in_order("BiasAdd", partitions=1),
            _in_order("BiasAdd", "ReLU", partitions=1),
            _in_order("ReLU", "BiasAdd", partitions=3),
            _in_order("BiasAdd", "BiasAdd", partitions=3),
        ),
    ),
    *(_length(length) for length in range(6)),
    _part(
        "Q-2F",
        "residual",
        "Dequantize, Dequantize + ConvTranspose, Dequantize + Add + Quantize",
        "A Binary op's operand may come from a Dequantize; it counts as one of the post-ops.",
        (
            *(_residual(residual, dst) for residual in ("u8", "s8") for dst in ("u8", "s8")),
            ("residual s8, 3 more", {"residual": "s8", "epilogue": ("ReLU", "Multiply", "Add")}),
            ("residual s8, no Quantize", {"residual": "s8", "dst": "f32"}),
        ),
    ),
    _part(
        "Q-2Z-per_channel",
        "per_channel",
        "Dequantize, Dequantize per channel + ConvTranspose + Quantize?",
        "Weights may have a scale for each output channel.",
        [
            ("weights per channel", {"src": src, "dst": dst, "weights": w, "per_channel": True})
            for src in ("u8", "s8")
            for w in ("s8", "f32")
            for dst in ("u8", "s8", "f32")
        ],
    ),
    _part(
        "Q-2Z-src/dst",
        "zero_points",
        "Dequantize with a zero point, Dequantize + ConvTranspose + Quantize with a zero point",
        "Source and destination may have zero points other than 0 on a CPU.",
        [
            (
                f"zero points {zps}",
                {"src": t, "dst": t, "src_zero_point": zps[0], "dst_zero_point": zps[1]},
            )
            for t in ("u8", "s8")
            for zps in ((3, 0), (0, 7), (3, 7))
        ],
    ),
    _part(
        "Q-2Z-weights-w",
        "weights_zero_point",
        "Dequantize, Dequantize with a zero point + ConvTranspose + Quantize?",
        "The documents do not exclude a zero point of the weights.",
        [("weights' zero point", {"dst": dst, "weights_zero_point": 2}) for dst in ("s8", "f32")],
    ),
    _part(
        "Q-2G",
        "gpu_limits",
        "Dequantize, Dequantize + ConvTranspose + Quantize, as GPUs have it",
        "On a GPU all zero points are 0, and the Quantize is per tensor with scale 1.",
        [
            ("scale 1", {"src": t, "dst": t, "src_scale": 1.0, "dst_scale": 1.0})
            for t in ("u8", "s8")
        ]
        + [("scale 0.5, zero point 4", {"src_scale": 1.0, "dst_scale": 0.5, "dst_zero_point": 4})],
    ),
)
"""The whole pattern, then its parts."""
