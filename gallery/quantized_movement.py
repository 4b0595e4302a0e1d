"""Quantized tensors whose elements move: Reorder, Concat, and shuffled channels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from onednn_graph_py.base.text.numbers import counted
from onednn_graph_py.model.building.builder import GraphBuilder
from onednn_graph_py.model.building.value import Value

from ._cases import in_floats, kernels_of
from ._quantization import SRC_SCALE, dequantized, finished
from .pattern import Case, Deviation, Pattern

__all__ = ["PATTERNS"]

_SHAPE = (2, 10, 10, 16)


def _reordered(b: GraphBuilder, dtype: str, zero_point: int) -> Value:
    _, h, w, c = _SHAPE
    # Channels are first in memory, so that Reorder has work to do.
    strides = (c * h * w, w, 1, h * w)
    x = b.input(_SHAPE, dtype, name="src", strides=strides)
    made: Value = dequantized(x, zero_point=zero_point).reorder()
    return made


def quantized_reorder(
    src: str = "u8",
    dst: str = "u8",
    *,
    src_zero_point: int = 0,
    dst_zero_point: int = 0,
    dst_scale: float = SRC_SCALE,
    dst_per_channel: bool = False,
) -> GraphBuilder:
    """Build Dequantize, Reorder and Quantize.

    Parameters
    ----------
    src, dst : str
        ``u8`` or ``s8``.
    src_zero_point, dst_zero_point : int
    dst_scale : float
    dst_per_channel : bool
        The destination has a scale for each channel.
    """
    b = GraphBuilder()
    y = _reordered(b, src, src_zero_point)
    b.output(
        finished(y, dst, scale=dst_scale, zero_point=dst_zero_point, per_channel=dst_per_channel)
    )
    return b


def quantized_reorder_add(
    src: str = "u8",
    dst: str = "u8",
    residual: str = "u8",
    *,
    auto_broadcast: str = "none",
    src_zero_point: int = 0,
    residual_zero_point: int = 0,
    dst_zero_point: int = 0,
) -> GraphBuilder:
    """Build Dequantize, Reorder, Add of another dequantized tensor, and Quantize.

    Parameters
    ----------
    src, dst, residual : str
        ``u8`` or ``s8``.
    auto_broadcast : str
        Add's attribute.
    src_zero_point, residual_zero_point, dst_zero_point : int
    """
    b = GraphBuilder()
    y = _reordered(b, src, src_zero_point)
    other = dequantized(b.input(_SHAPE, residual, name="residual"), zero_point=residual_zero_point)
    y = b.add(y, other, auto_broadcast=auto_broadcast)
    b.output(finished(y, dst, zero_point=dst_zero_point))
    return b


def quantized_concat(
    dtype: str = "u8",
    *,
    sources: int = 3,
    zero_point: int = 0,
    dst_scale: float = SRC_SCALE,
) -> GraphBuilder:
    """Build Dequantize of several tensors, Concat of their channels, and Quantize.

    Parameters
    ----------
    dtype : str
        The data type of all tensors, ``u8`` or ``s8``.
    sources : int
        The number of tensors.
    zero_point : int
        The zero point of all tensors.
    dst_scale : float
    """
    b = GraphBuilder()
    parts = [
        dequantized(b.input((2, 10, 10, 8 * (i + 1)), dtype), zero_point=zero_point)
        for i in range(sources)
    ]
    b.output(finished(b.concat(*parts, axis=3), dtype, scale=dst_scale, zero_point=zero_point))
    return b


def channel_shuffle(dtype: str = "f32", *, groups: int = 4) -> GraphBuilder:
    """Interleave groups of channels: StaticReshape, StaticTranspose, StaticReshape.

    Parameters
    ----------
    dtype : str
    groups : int
        A divisor of the 16 channels.
    """
    b = GraphBuilder()
    n, h, w, c = _SHAPE
    x = b.input((n, c, h, w), dtype, name="src")
    split = x.static_reshape(shape=(n, groups, c // groups, h, w), special_zero=False)
    swapped = split.static_transpose(order=(0, 2, 1, 3, 4))
    b.output(swapped.static_reshape(shape=(n, c, h, w), special_zero=False))
    return b


def type_cast_quantize(
    src: str = "bf16", dst: str = "u8", *, zero_point: int = 0, per_channel: bool = False
) -> GraphBuilder:
    """Build a TypeCast to f32, and Quantize.

    Parameters
    ----------
    src : str
        ``bf16`` or ``f16``.
    dst : str
        ``u8`` or ``s8``.
    zero_point : int
    per_channel : bool
        A scale for each channel.
    """
    b = GraphBuilder()
    x = b.input(_SHAPE, src, name="src")
    b.output(finished(x, dst, zero_point=zero_point, per_channel=per_channel))
    return b


_FUSIONS = "graph/fusion_patterns/fusion_patterns"
_TYPES = ("u8", "s8")


def _case(
    name: str, src: str, dst: str, given: Mapping[str, Any], *deviations: Deviation,
    partitions: int = 1,
) -> Case:  # fmt: skip
    arguments = {"src": src, "dst": dst, **given}
    return Case(name, f"{src} -> {dst}", arguments, partitions, deviations=deviations)


def _reorder_cases() -> Iterator[Case]:
    for src in _TYPES:
        for dst in _TYPES:
            yield _case("equal scales", src, dst, {})
            yield _case("another scale", src, dst, {"dst_scale": 0.05})
    for t in _TYPES:
        yield _case("source's zero point", t, t, {"src_zero_point": 3})
        yield _case("destination's zero point", t, t, {"dst_zero_point": 5})
        yield _case("zero points", t, t, {"src_zero_point": 3, "dst_zero_point": 5})
        yield _case("destination per channel", t, t, {"dst_per_channel": True})


def _reorder_add_cases() -> Iterator[Case]:
    for src in _TYPES:
        for residual in _TYPES:
            for dst in _TYPES:
                yield _case(f"residual {residual}", src, dst, {"residual": residual})
    for t in _TYPES:
        given = {"residual": t}
        yield _case("source's zero point", t, t, {**given, "src_zero_point": 3})
        yield _case("destination's zero point", t, t, {**given, "dst_zero_point": 5})
        no_zero_point = Deviation(None, "a residual with a zero point does not compile")
        yield _case(
            "residual's zero point", t, t, {**given, "residual_zero_point": 3}, no_zero_point
        )
    numpy = "auto_broadcast numpy, which is not the pattern"
    yield _case(numpy, "u8", "u8", {"auto_broadcast": "numpy"}, partitions=5)


def _concat_cases() -> Iterator[Case]:
    for dtype in _TYPES:
        for sources in (1, 2, 3, 64):
            name = counted(sources, "source")
            yield Case(name, dtype, {"dtype": dtype, "sources": sources})
        yield Case("zero point", dtype, {"dtype": dtype, "zero_point": 3})
        other = "another scale, which is not the pattern"
        yield Case(other, dtype, {"dtype": dtype, "dst_scale": 0.05}, partitions=5)


def _type_cast_cases() -> Iterator[Case]:
    for dst in _TYPES:
        for name, given in (
            ("per tensor", {}),
            ("zero point", {"zero_point": 3}),
            ("per channel", {"per_channel": True}),
        ):
            arguments = {"dst": dst, **given}
            # On a CPU without bf16, each op that converts is a partition of its own.
            yield Case(
                name, f"bf16 -> {dst}", {"src": "bf16", **arguments}, kernels=kernels_of("bf16")
            )
            yield Case(
                f"{name}, which is not the pattern",
                f"f16 -> {dst}",
                {"src": "f16", **arguments},
                partitions=2,
            )


PATTERNS = (
    Pattern(
        "Q-06",
        "Dequantize + Reorder + Quantize",
        "quantized",
        "A Dequantize makes the source, and a Quantize follows the Reorder.",
        _FUSIONS,
        quantized_reorder,
        tuple(_reorder_cases()),
    ),
    Pattern(
        "Q-07",
        "Dequantize, Dequantize + Reorder + Add + Quantize",
        "quantized",
        "Dequantize ops make the source and the added tensor; an Add that does not broadcast "
        "follows the Reorder, then a Quantize.",
        _FUSIONS,
        quantized_reorder_add,
        tuple(_reorder_add_cases()),
    ),
    Pattern(
        "Q-10",
        "Dequantize{1-64} + Concat + Quantize",
        "quantized",
        "Dequantize ops make the sources, and a Quantize follows the Concat; all have the same "
        "scale and zero point. The pattern is in oneDNN's sources, not in its documents.",
        "graph/operations/Concat",
        quantized_concat,
        tuple(_concat_cases()),
    ),
    Pattern(
        "Q-10-shuffle",
        "StaticReshape + StaticTranspose + StaticReshape",
        "floating point",
        "The reshapes split the channels and join them again; between them, the transpose swaps "
        "the two dims. The pattern is in oneDNN's sources, not in its documents.",
        "graph/operations/StaticTranspose",
        channel_shuffle,
        tuple(case for groups in (2, 4) for case in in_floats(f"{groups} groups", groups=groups)),
    ),
    Pattern(
        "Q-10-typecast",
        "TypeCast + Quantize",
        "quantized",
        "The TypeCast is from bf16 to f32. The pattern is in oneDNN's sources, not in its "
        "documents.",
        "graph/operations/TypeCast",
        type_cast_quantize,
        tuple(_type_cast_cases()),
    ),
)
