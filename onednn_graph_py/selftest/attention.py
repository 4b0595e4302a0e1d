"""Draw attention by `blocks.sdpa`, op by op or in int8, with masks that broadcast anyhow."""

from __future__ import annotations

import math
from typing import Any, Literal

from ..blocks import sdpa
from ..building.builder import GraphBuilder
from ..building.value import Value
from ..linked import linked_version
from .draft import BINARY, Arrays, Dims, Draft

__all__ = ["case"]

_Causal = Literal["top_left", "bottom_right"] | bool
_CAUSAL: tuple[_Causal, ...] = (False, False, "top_left", "bottom_right")


def _dims(d: Draft) -> tuple[int, int, int, int, int]:
    """Draw the numbers of batches, heads, queries and keys, and the size of a head."""
    batch, heads = d.pick((1, 2, 2, 3)), d.pick((1, 2, 2, 4))
    queries = d.pick((1, 2, 4, 7, 16, 17, 33, 65))
    keys = d.pick((1, 2, 4, 7, 16, 17, 33, 65, 66, 80, 100)) if d.chance(0.6) else queries
    return batch, heads, queries, keys, d.pick((4, 8, 15, 16, 32, 64))


def _block(d: Draft) -> Value:
    """Build attention by `sdpa`, maybe with fewer key heads and a mask."""
    batch, heads, queries, keys, size = _dims(d)
    dtype = d.float_type()
    strided = d.chance(0.15)
    fewer = d.pick([n for n in range(1, heads + 1) if heads % n == 0]) if d.chance(0.2) else heads
    q = d.input((batch, heads, queries, size), dtype, strided=strided)
    k = d.input((batch, fewer, keys, size), dtype, strided=strided)
    v = d.input((batch, fewer, keys, size), dtype, strided=strided)
    mask = None
    if d.chance(0.75):
        wide = "f32" if linked_version() >= (3, 8) and d.chance(0.3) else dtype
        mask = d.parameter(d.broadcast((batch, heads, queries, keys)), wide)
    causal: _Causal = d.pick(_CAUSAL)
    if causal == "bottom_right" and keys < queries:
        causal = "top_left"
    return sdpa(q, k, v, mask=mask, causal=causal)


def _by_hand(d: Draft) -> Value:
    """Build attention op by op, with other binary ops and maybe Select before SoftMax."""
    batch, heads, queries, keys, size = _dims(d)
    dtype, groups = d.float_type(), d.pick((0, 0, 0, 2))
    leading: Dims = (batch, groups, heads) if groups else (batch, heads)
    shared: Dims = (batch, groups, 1) if groups else leading
    strided = d.chance(0.25)
    q = d.input((*leading, queries, size), dtype, strided=strided)
    turned = d.chance(0.7)
    k = d.input((*shared, *((keys, size) if turned else (size, keys))), dtype, strided=strided)
    v = d.input((*shared, keys, size), dtype, strided=strided)
    between = "f32" if linked_version() >= (3, 8) and d.chance(0.5) else dtype
    y = q.matmul(k, transpose_b=turned, dtype=between)
    y = d.op(d.pick(("Multiply", "Divide")), y, d.b.constant([math.sqrt(size)], between))
    shape = y.shape or ()
    for _ in range(d.random.randint(0, 2)):
        other = d.parameter(d.broadcast(shape), between)
        y = d.op(d.pick(BINARY), y, other)
    if d.chance(0.25):
        condition = d.input(d.broadcast(shape), "boolean")
        other = d.b.constant([-1e4], between)
        if d.chance(0.5):
            other = d.parameter(d.broadcast(shape), between)
        y = d.op("Select", condition, *((y, other) if d.chance(0.6) else (other, y)))
    y = y.softmax(axis=-1, dtype=dtype)
    y = y.matmul(v)
    if not groups and d.chance(0.4):
        y = y.static_transpose(order=(0, 2, 1, 3))
        if d.chance(0.5):
            y = y.static_reshape(shape=(batch, queries, heads * size), special_zero=False)
    return y


def _int8(d: Draft) -> Value:
    """Build attention of quantized queries, keys and values, with quantized probabilities."""
    batch, heads, queries, keys, size = _dims(d)
    kind = d.pick(("u8", "s8"))
    others = "s8" if d.chance(0.7) else "u8"
    dtype = d.float_type()
    zero = d.zero_point(kind)
    q = d.dequantized((batch, heads, queries, size), kind, zero_point=zero, of=dtype)
    k = d.dequantized((batch, heads, size, keys), others, of=dtype)
    v = d.dequantized((batch, heads, keys, size), others, of=dtype)
    y = q.matmul(k) / d.b.constant([math.sqrt(size)], dtype)
    if d.chance(0.7):
        y = y + d.parameter(d.broadcast(y.shape or ()), dtype)
    y = y.softmax(axis=-1)
    if dtype != "f32":
        y = y.type_cast(dtype="f32")
    between = d.pick(("u8", "s8"))
    scale: dict[str, Any] = {"qtype": "per_tensor", "scales": [2.0**-7], "zps": [0]}
    y = y.quantize(dtype=between, **scale).dequantize(**scale)
    if dtype != "f32":
        y = y.type_cast(dtype=dtype)
    y = y.matmul(v)
    if d.chance(0.3):
        y = y.static_transpose(order=(0, 2, 1, 3))
    return d.quantized(y) if d.chance(0.6) else y


def case(seed: int) -> tuple[GraphBuilder, Arrays]:
    """Draw an attention."""
    d = Draft("attention", seed)
    return d.made(d.pick((_block, _block, _by_hand, _by_hand, _int8))(d))
