"""The cases that the quantized patterns of Convolution, ConvTranspose and MatMul share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ._cases import LONG_EPILOGUES, kernels_of
from ._epilogue import chain
from .pattern import Case, Deviation

__all__ = [
    "Deviations",
    "Form",
    "case_of",
    "conversions_apart",
    "epilogues",
    "forms",
    "long_epilogue",
    "long_epilogue_deviations",
    "ops_apart",
    "residuals",
    "types",
    "weighted_cases",
]

Form = tuple[str, Mapping[str, Any]]
"""A case's name and arguments."""

Deviations = Callable[[Mapping[str, Any]], tuple[Deviation, ...]]
"""Returns the known deviations of oneDNN's versions for a pattern's arguments."""

SOURCES = ("u8", "s8")
WEIGHTS = ("s8", "f32")
DESTINATIONS = ("u8", "s8", "bf16", "f16", "f32")
BIASES = (None, "f32", "bf16", "f16")


def _conversions(bias: str | None, dst: str, *, in_bf16: bool) -> dict[str, Any]:
    """Return the form of a combination of types of which oneDNN fuses most, found by trying.

    oneDNN fuses a TypeCast of the bias only from f32 to bf16, and only before BiasAdd.
    """
    bf16 = in_bf16 and "bf16" in (bias, dst) and "f16" not in (bias, dst)
    compute = "bf16" if bf16 else "f32"
    return {"compute": compute, "bias_add": bias is not None and bias != compute}


def types(
    sources: Iterable[str] = SOURCES,
    weights: Iterable[str] = WEIGHTS,
    biases: Iterable[str | None] = BIASES,
    destinations: Iterable[str] = DESTINATIONS,
    *,
    in_bf16: bool = True,
) -> Iterator[Form]:
    """Yield combinations of data types, by default all documented ones.

    Parameters
    ----------
    sources, weights, biases, destinations : iterable of str
        None for no bias.
    in_bf16 : bool
        Whether the op computes in bf16 if the bias or destination is bf16; else always in f32.
    """
    for src in sources:
        for w in weights:
            for dst in destinations:
                for bias in biases:
                    given = {"src": src, "weights": w, "dst": dst, "bias": bias}
                    name = "no bias" if bias is None else f"bias {bias}"
                    yield name, {**given, **_conversions(bias, dst, in_bf16=in_bf16)}


def forms() -> Iterator[Form]:
    """Yield forms with scales per tensor and per channel, zero points, and BiasAdd."""
    for src, dst in (("u8", "s8"), ("s8", "u8")):
        plain = {"src": src, "dst": dst}
        zero_points = {"src_zero_point": 3, "dst_zero_point": 7}
        yield "weights per channel", {**plain, "per_channel": True}
        yield "weights in f32 per channel", {**plain, "weights": "f32", "per_channel": True}
        yield "source's zero point", {**plain, "src_zero_point": 3}
        yield "destination's zero point", {**plain, "dst_zero_point": 7}
        yield (
            "both zero points, weights per channel, bias",
            {**plain, **zero_points, "per_channel": True, "bias": "f32"},
        )
        yield "weights' zero point", {**plain, "weights_zero_point": 2}
        yield "destination per channel", {**plain, "dst_per_channel": True}
    yield "BiasAdd", {"bias": "f32", "bias_add": True}
    yield "BiasAdd, 3 post-ops", {"bias": "f32", "bias_add": True, "epilogue": chain(3)}


def long_epilogue(length: int) -> Form:
    """Return the form with a bias, an epilogue of this length, and a Quantize."""
    return f"{length} post-ops", {"bias": "f32", "epilogue": chain(length)}


def epilogues() -> Iterator[Form]:
    """Yield epilogues of 0 to 3 ops, as 3.7 documents; of as many as are fused; of one more."""
    for length in (0, 1, 2, 3, 4, 5, 19, 20):
        yield long_epilogue(length)
    yield "4 post-ops, no Quantize", {"dst": "f32", "epilogue": chain(4)}
    yield "residual in f32", {"epilogue": ("Add:residual", "ReLU")}


def residuals() -> Iterator[Form]:
    """Yield forms in which a quantized tensor is added."""
    for residual in SOURCES:
        for dst in SOURCES:
            yield f"residual {residual}", {"dst": dst, "residual": residual, "epilogue": ("ReLU",)}
    yield "residual s8 with zero point", {"residual": "s8", "residual_zero_point": 3}
    yield "residual s8, 4 post-ops", {"residual": "s8", "epilogue": chain(4)}
    yield "residual s8, no Quantize", {"residual": "s8", "dst": "f32"}


def in_small_floats() -> Iterator[Form]:
    """Yield forms that compute in bf16 and f16, with TypeCasts."""
    yield "3 post-ops in bf16", {"compute": "bf16", "epilogue": chain(3)}
    yield "residual s8 in bf16", {"residual": "s8", "compute": "bf16"}
    yield "in f16", {"compute": "f16", "bias": "f16"}
    yield "in f16", {"compute": "f16", "bias": "f16", "dst": "f16"}


_PARTS_OF_LONG = {5: 3, 19: 6, 20: 6}


def long_epilogue_deviations(arguments: Mapping[str, Any]) -> tuple[Deviation, ...]:
    """Return the known deviations of a long epilogue; empty for fewer than 5 post-ops."""
    length = len(arguments.get("epilogue", ()))
    if length < 5:
        return ()
    short = Deviation(
        _PARTS_OF_LONG[length], "it fuses 4 post-ops, but documents 3", until=LONG_EPILOGUES
    )
    if length < 20:
        return (short,)
    return (short, Deviation(3, "it fuses 19 post-ops, but documents 20", since=LONG_EPILOGUES))


def conversions_apart(arguments: Mapping[str, Any]) -> int:
    """Count the TypeCasts of the bias and of the result, for an op that computes in f32."""
    bias, dst = arguments.get("bias"), arguments["dst"]
    return (bias not in (None, "f32")) + (dst in ("bf16", "f16"))


def ops_apart(arguments: Mapping[str, Any]) -> int:
    """Count the ops of a case without post-ops whose op computes in bf16 or f16."""
    bias, dst, compute = arguments.get("bias"), arguments["dst"], arguments["compute"]
    operands: int = 5 + (arguments["weights"] == "f32") + (bias not in (None, compute))
    return operands + (2 if dst in ("u8", "s8") else int(dst != compute))


def case_of(form: Form, deviations: Deviations) -> Case:
    """Return the case of a form."""
    name, given = form
    arguments = {"src": "u8", "weights": "s8", "dst": "s8", **given}
    return Case(
        name,
        f"{arguments['src']} {arguments['weights']} -> {arguments['dst']}",
        arguments,
        # A data type that only TypeCasts convert needs no instructions of its own.
        kernels=kernels_of(arguments.get("compute", "f32")),
        deviations=deviations(arguments),
    )


def weighted_cases(deviations: Deviations, *more: Form, in_bf16: bool = True) -> tuple[Case, ...]:
    """Return all combinations of types, forms of scales and zero points, epilogues, and `more`."""
    groups = (types(in_bf16=in_bf16), forms(), epilogues(), residuals(), in_small_floats(), more)
    return tuple(case_of(form, deviations) for group in groups for form in group)
