"""Attention in its documented forms, and gated MLP."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from onednn_graph_py.model.building.builder import GraphBuilder
from onednn_graph_py.model.building.value import Value

from ._cases import FLOATS, in_floats, kernels_of
from ._epilogue import UNARY, drawn
from .pattern import Case, Deviation, Pattern

__all__ = ["PATTERNS"]

Scale = Literal["Multiply", "Divide"] | None
Mask = Literal["Add", "Select", "Select hidden", "Select hidden, broadcast", "causal"] | None
Tail = Literal["Reorder", "StaticReshape"] | None
Shape = tuple[int, int, int, int]

# N, H, S, D: with few heads, and with more than twice as many as most machines have threads.
_SMALL: Shape = (2, 2, 16, 32)
_MANY_HEADS: Shape = (4, 16, 32, 32)

# Not -inf, since a row may hide all keys.
_FAR_BELOW = -1e4


def _scores(
    query: Value,
    key: Value,
    scale: Scale,
    mask: Mask,
    between: str,
    mask_first: Shape | None = None,
) -> Value:
    """Build MatMul + [Multiply | Divide]? + [Add | Select]?.

    `mask_first` is the shape of an added mask before its reshape.
    """
    b = query.builder
    y: Value = b.op("MatMul", query, key, transpose_b=True, outputs=[(None, between)])
    root = math.sqrt((query.shape or ())[-1])
    if scale is not None:
        factor = b.constant([root if scale == "Divide" else 1 / root], between)
        y = b.op(scale, y, factor)
    shape = y.shape or ()
    hidden = b.constant([_FAR_BELOW if mask == "Select hidden, broadcast" else -np.inf], between)
    if mask == "Add":
        added = b.input(mask_first or (1,) * (len(shape) - 2) + shape[-2:], between, name="mask")
        if mask_first is not None:
            added = b.op("StaticReshape", added, shape=(1, 1, 1, *shape[-2:]), special_zero=False)
        y = b.op("Add", y, added)
    elif mask == "Select":
        y = b.op("Select", b.input(shape, "boolean", name="seen"), y, hidden)
    elif mask in ("Select hidden", "Select hidden, broadcast"):
        if mask == "Select hidden":
            hidden = b.constant(np.full(shape, _FAR_BELOW), between)
        y = b.op("Select", b.input(shape, "boolean", name="hidden"), hidden, y)
    elif mask == "causal":
        rows, columns = (b.op("GenIndex", y, axis=axis) for axis in (-2, -1))
        y = b.op("Select", b.op("GreaterEqual", rows, columns), y, hidden)
    return y


def _tail(y: Value, tail: Tail) -> Value:
    """Build the tail, which swaps heads and queries."""
    if tail is None:
        return y
    b, (n, h, s, d) = y.builder, y.shape or ()
    y = b.op("StaticTranspose", y, order=(0, 2, 1, 3))
    if tail == "Reorder":
        return b.op("Reorder", y)  # type: ignore[no-any-return]
    made: Value = b.op("StaticReshape", y, shape=(n, s, h * d), special_zero=False)
    return made


def attention(
    dtype: str = "f32",
    scale: Scale = "Divide",
    mask: Mask = None,
    tail: Tail = None,
    between: str | None = None,
    int8: Literal["u8", "s8"] | None = None,
    shape: Shape = _SMALL,
) -> GraphBuilder:
    """Build MatMul + [Multiply | Divide]? + [Add | Select]? + SoftMax + MatMul and a tail.

    `between` is the data type of the scores. With `int8`, query, key and value are dequantized (to
    bf16 with a TypeCast), probabilities quantized and dequantized, and the result quantized.
    """
    b = GraphBuilder()

    def per_tensor(kind: str, x: Value, to: str, scale: float) -> Value:
        made: Value = b.op(
            kind, x, scales=[scale], zps=[0], qtype="per_tensor", outputs=[(None, to)]
        )
        return made

    def source(name: str) -> Value:
        x = b.input(shape, int8 or dtype, name=name)
        return dequantized(x, 1 / 16) if int8 else x

    def dequantized(x: Value, scale: float) -> Value:
        y = per_tensor("Dequantize", x, "f32", scale)
        return y if dtype == "f32" else b.op("TypeCast", y, outputs=[(None, dtype)])

    def quantized(x: Value, to: str, scale: float) -> Value:
        y = x if dtype == "f32" else b.op("TypeCast", x, outputs=[(None, "f32")])
        return per_tensor("Quantize", y, to, scale)

    y = _scores(source("query"), source("key"), scale, mask, between or dtype)
    y = b.op("SoftMax", y, axis=-1, outputs=[(None, dtype)])
    if int8:
        y = dequantized(quantized(y, "u8", 1 / 255), 1 / 255)
    y = _tail(b.op("MatMul", y, source("value")), tail)
    b.output(quantized(y, int8, 1 / 16) if int8 else y)
    return b


def grouped_query_attention(
    dtype: str = "f32",
    scale: Scale = "Divide",
    mask: Mask = None,
    tail: Tail = None,
    between: str | None = None,
    reshaped: bool = True,
) -> GraphBuilder:
    """Build attention in which several query heads share a key head.

    Query, key, value and an added mask are reshaped to 5 dims, and the result is reshaped back;
    without `reshaped` the inputs have 5 dims.
    """
    b = GraphBuilder()
    n, h, kv, s, d = 2, 4, 2, 16, 32
    grouped, one = (n, kv, h // kv, s, d), (n, kv, 1, s, d)

    def source(name: str, heads: int, to: Sequence[int]) -> Value:
        if not reshaped:
            return b.input(to, dtype, name=name)
        x = b.input((n, heads, s, d), dtype, name=name)
        made: Value = b.op("StaticReshape", x, shape=to, special_zero=False)
        return made

    query, key = source("query", h, grouped), source("key", kv, one)
    first = (1, 1, s, s) if reshaped else None
    y = _scores(query, key, scale, mask, between or dtype, first)
    y = b.op("SoftMax", y, axis=-1, outputs=[(None, dtype)])
    y = b.op("MatMul", y, source("value", kv, one))
    if reshaped:
        y = b.op("StaticReshape", y, shape=(n, h, s, d), special_zero=False)
    b.output(_tail(y, tail))
    return b


def _grouped(
    b: GraphBuilder, x: Value, zps: str | None, scales: str, axis: int, size: int
) -> Value:
    """Build DynamicDequantize with a scale for each `size` elements along an axis."""
    shape = list(x.shape or ())
    shape[axis] //= size
    group = [size if i == axis % len(shape) else 1 for i in range(len(shape))]
    parameters = [b.input(shape, scales)]
    if zps is not None:
        parameters.append(b.input(shape, zps))
    made: Value = b.op(
        "DynamicDequantize", x, *parameters, qtype="per_group", axis=axis % len(shape),
        group_shape=group, outputs=[(None, scales)],
    )  # fmt: skip
    return made


def compressed_attention(
    dtype: str = "f32",
    key: str | None = "s8",
    value: str | None = "s8",
    zps: str | None = None,
    mask: Mask = None,
    group: int = 32,
    apply_to_int: bool = True,
) -> GraphBuilder:
    """Build DynamicDequantize of key, value or both, and attention with the results.

    `key` and `value` are their compressed data types, None for no compression.
    """
    b = _for_integers(dtype, apply_to_int)
    n, h, s, d = 2, 2, 16, 64

    def source(name: str, compressed: str | None) -> Value:
        x = b.input((n, h, s, d), compressed or dtype, name=name)
        return x if compressed is None else _grouped(b, x, zps, dtype, -1, group)

    y = _scores(
        b.input((n, h, s, d), dtype, name="query"), source("key", key), "Divide", mask, dtype
    )
    y = b.op("SoftMax", y, axis=-1)
    b.output(b.op("MatMul", y, source("value", value)))
    return b


def _for_integers(dtype: str, apply_to_int: bool) -> GraphBuilder:
    return GraphBuilder("cpu", "strict" if dtype == "f32" else dtype, apply_to_int=apply_to_int)


def gated_mlp(
    dtype: str = "f32",
    activation: str | None = "Swish",
    weights: str | None = None,
    zps: str | None = None,
    group: int = 32,
) -> GraphBuilder:
    """Build MatMul (gate) + activation?, MatMul (up), Multiply of both, and MatMul (down).

    `weights` is their compressed data type, None for no compression. Swish is Sigmoid and Multiply.
    """
    b = _for_integers(dtype, weights is not None)
    x = b.input((16, 64), dtype, name="src")

    def layer(name: str, seed: int, x: Value) -> Value:
        if weights is None:
            w = b.constant(drawn(seed, (64, 64), 0.125), dtype, name=name)
        else:
            w = _grouped(b, b.input((64, 64), weights, name=name), zps, dtype, 0, group)
        return b.op("MatMul", x, w)  # type: ignore[no-any-return]

    gate, up = layer("gate", 0, x), layer("up", 1, x)
    if activation == "Swish":
        gate = b.op("Multiply", gate, b.op("Sigmoid", gate))
    elif activation is not None:
        gate = b.op(activation, gate, **UNARY[activation])
    b.output(layer("down", 2, b.op("Multiply", gate, up)))
    return b


_FUSIONS = "graph/fusion_patterns/"
_FIRST_OF_SELECT = "Select is fused only if the scores are its last input"
_OUT_OF_BOUNDS = "it reads past Select's broadcast input, so the mirror refuses to compile it"
_NO_4_BIT_ZERO_POINTS = (Deviation(None, "no kernel supports zero points of 4 bits"),)


def _select_cases(parts_in_3_7: int) -> tuple[Case, ...]:
    # 3.8 to 3.12 were not tried.
    split = (Deviation(parts_in_3_7, _FIRST_OF_SELECT, until=(3, 13)),)
    refused = (Deviation(None, _OUT_OF_BOUNDS, until=(3, 13)),)
    return (
        *in_floats("Select mask", mask="Select", deviations=split),
        *in_floats("Select mask of what is hidden", mask="Select hidden"),
        *in_floats(
            "Select mask of what is hidden, one value",
            mask="Select hidden, broadcast",
            deviations=refused,
        ),
    )


def _scores_in_f32() -> tuple[Case, ...]:
    return in_floats(
        "scores in f32", dtypes=("bf16", "f16"), needs=(3, 8), mask="Add", between="f32"
    )


def _compressed_cases() -> tuple[Case, ...]:
    made = []
    for d in FLOATS:
        forms: list[tuple[str, str | None, str | None, str | None]] = []
        for i in ("u8", "s8", "u4", "s4"):
            forms += [
                ("key and value", i, i, None),
                (f"key and value, zero points {i}", i, i, i),
                ("key and value, zero points s32", i, i, "s32"),
                ("key", i, None, None),
                ("value", None, i, None),
            ]
        for name, key, value, zps in forms:
            made.append(
                Case(
                    name,
                    f"{d} {key or value} -> {d}",
                    {"dtype": d, "key": key, "value": value, "zps": zps},
                    kernels=kernels_of(d),
                    deviations=_NO_4_BIT_ZERO_POINTS if zps in ("u4", "s4") else (),
                )
            )
        for mask in ("Add", "causal"):
            arguments = {"dtype": d, "mask": mask}
            made.append(Case(f"{mask} mask", f"{d} s8 -> {d}", arguments, kernels=kernels_of(d)))
    return tuple(made)


def _mlp_cases() -> tuple[Case, ...]:
    made: list[Case] = []
    for name in ("Swish", None, "ReLU", "GELU", "Sigmoid", "Tanh"):
        made += in_floats(name or "no activation", activation=name)
    for d in FLOATS:
        for i in ("u8", "s8", "u4", "s4"):
            for zps in (None, i):
                name = "compressed weights" + (", zero points" if zps else "")
                arguments = {"dtype": d, "weights": i, "zps": zps}
                made.append(Case(name, f"{d} {i} -> {d}", arguments, kernels=kernels_of(d)))
    return tuple(made)


PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        "FP-01",
        "MatMul + [Multiply | Divide]? + [Add | Select]? + SoftMax + MatMul + tail?",
        "floating point",
        "The first MatMul transposes the key. A factor or divisor scales the scores; the mask is "
        "added, selected, or made from GenIndex and GreaterEqual. StaticTranspose and Reorder or "
        "StaticReshape may follow. Data types are f32, bf16 or f16; from 3.8 on scores may be f32. "
        "Quantized attention has Dequantize before query, key and value, Quantize and Dequantize "
        "after SoftMax, and a Quantize at the end; TypeCasts convert bf16 and f16.",
        _FUSIONS + "sdpa",
        attention,
        (
            *in_floats("no scale", scale=None),
            *in_floats("Divide"),
            *in_floats("Multiply, 64 heads", scale="Multiply", shape=_MANY_HEADS),
            *in_floats("Add mask", mask="Add"),
            *in_floats("Add mask, 64 heads", mask="Add", shape=_MANY_HEADS),
            *_select_cases(4),
            *in_floats("causal mask of indices", mask="causal"),
            *in_floats("Add mask + Reorder", mask="Add", tail="Reorder"),
            *in_floats("Add mask + StaticReshape", mask="Add", tail="StaticReshape"),
            *_scores_in_f32(),
            *(
                Case(
                    f"quantized, {tail}",
                    f"{i} {d} -> {i}",
                    {"dtype": d, "int8": i, "mask": "Add", "tail": tail},
                    kernels=kernels_of(d),
                )
                for d in FLOATS
                for i in ("u8", "s8")
                for tail in ("Reorder", "StaticReshape")
            ),
        ),
    ),
    Pattern(
        "FP-02",
        "StaticReshape of all + MatMul + [Multiply | Divide] + [Add | Select]? + SoftMax + MatMul "
        "+ StaticReshape + tail?",
        "floating point",
        "Query is reshaped to (batch, key heads, query heads per key head, queries, size), key and "
        "value to (batch, key heads, 1, keys, size), a mask to the scores' shape, and the result "
        "to the query's first shape. 3.13 also documents inputs of 5 dims. Data types are f32, "
        "bf16 or f16.",
        _FUSIONS + "gqa",
        grouped_query_attention,
        (
            *in_floats("Divide"),
            *in_floats("Multiply", scale="Multiply"),
            *in_floats("Add mask", mask="Add"),
            *_select_cases(8),
            *in_floats("Add mask + Reorder", mask="Add", tail="Reorder"),
            *in_floats("Add mask + StaticReshape", mask="Add", tail="StaticReshape"),
            *in_floats("5 dims, Add mask", mask="Add", reshaped=False),
            *_scores_in_f32(),
        ),
    ),
    Pattern(
        "FP-03",
        "DynamicDequantize of key, value or both + attention",
        "floating point",
        "Key and value are u8, s8, u4 or s4, with a scale and an optional zero point for each "
        "group of elements along the head size. Query, scales and result are f32, bf16 or f16; the "
        "graph's math mode is this type, applied to integers.",
        _FUSIONS + "sdpa_with_compressed_kv",
        compressed_attention,
        _compressed_cases(),
    ),
    Pattern(
        "FP-04",
        "MatMul + activation?, MatMul + Multiply + MatMul",
        "floating point",
        "The activation is one Unary op, or Sigmoid and Multiply. Data types are f32, bf16 or f16; "
        "weights may come from a DynamicDequantize of u8, s8, u4 or s4.",
        _FUSIONS + "gated_mlp",
        gated_mlp,
        _mlp_cases(),
    ),
)
"""FP-01 to FP-04."""
