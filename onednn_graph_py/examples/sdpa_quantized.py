"""Attention in 8 bits: the graph says what integers (or f8) stand for, one partition computes.

Query, key, value, the probabilities that SoftMax makes, and the result have 8 bits; Quantize and
Dequantize turn them into f32 and back. oneDNN's own example came with 3.13, and so did f8. Older
ones are given another form: they fuse attention in integers only with a result that is transposed
to (batch, sequence, heads, head size) and reordered, and compute it right only with s8 keys and
values, and all else of the query's type. Sizes are those of the example of 3.13.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import GraphBuilder, Value
from ..base.dtypes import numpy_dtype
from ..base.linked import linked_version
from ..machine.cpu import largest_int8_weight
from ._attention import padding_mask, root_scale
from ._run import Array, BuiltRun, Case, Skipped, cannot_run, too_old


@dataclass(frozen=True)
class _Quantized:
    """The quantization of 8-bit numbers, which stand for scale * (number - zero_point)."""

    data_type: str
    scale: np.float32
    zero_point: int = 0

    @property
    def is_float(self) -> bool:
        return self.data_type.startswith("f8")

    @property
    def _attributes(self) -> dict[str, Any]:
        attributes = {"qtype": "per_tensor", "scales": [self.scale]}
        return attributes if self.is_float else {**attributes, "zps": [self.zero_point]}

    def dequantize(self, x: Value) -> Value:
        return x.builder.dequantize(x, **self._attributes)

    def quantize(self, x: Value) -> Value:
        return x.builder.quantize(x, dtype=self.data_type, **self._attributes)

    def random(self, random: np.random.Generator, shape: tuple[int, ...], largest: int) -> Array:
        """Draw numbers of this type; integers are up to `largest` from their range's middle."""
        dtype = numpy_dtype(self.data_type)
        if self.is_float:
            return random.standard_normal(shape).astype(dtype)
        middle = 128 if self.data_type == "u8" else 0
        return (middle + random.integers(-largest, largest, shape, endpoint=True)).astype(dtype)


@dataclass(frozen=True)
class _Types:
    """The quantization of each tensor of 8 bits."""

    query: _Quantized
    """That of the result too, which is a mean of values, so it fits where they fit."""
    key: _Quantized  # that of the value too
    weights: _Quantized

    @staticmethod
    def of(data_type: str) -> _Types:
        if data_type.startswith("f8"):
            # A scale of 1 will do: f8 has room for normally distributed values.
            plain = _Quantized(data_type, np.float32(1))
            return _Types(plain, plain, plain)
        unsigned = data_type == "u8"
        inputs = _Quantized(data_type, np.float32(3 / 128), 128 if unsigned else 5)
        weights = _Quantized(data_type, np.float32(1 / (255 if unsigned else 127)))
        # 3.7.2 takes every key and value for s8: half of the results are wrong if they are u8.
        keys = inputs if _fuses_plain() else _Quantized("s8", inputs.scale, 5)
        return _Types(inputs, keys, weights)


def _fuses_plain() -> bool:
    """Whether attention is one partition without a transposed result."""
    return linked_version() >= (3, 13)


def _build(engine_kind: str, types: _Types, shape: tuple[int, ...]) -> GraphBuilder:
    mb, _, seq, _ = shape
    b = GraphBuilder(engine_kind)
    query, key, value = (
        one.dequantize(b.input(shape, one.data_type, name=name))
        for name, one in (("query", types.query), ("key", types.key), ("value", types.key))
    )
    scale, mask = b.input((1,), name="scale"), b.input((mb, 1, 1, seq), name="mask")
    scores = b.matmul(query, key, transpose_b=True) / scale + mask
    mode = {"mode": "inf_as_zero"} if _fuses_plain() else {}
    weights = types.weights.quantize(b.softmax(scores, axis=-1, **mode))
    result = b.matmul(types.weights.dequantize(weights), value)
    if not _fuses_plain():
        result = b.reorder(b.static_transpose(result, order=(0, 2, 1, 3)))
    b.output(result=types.query.quantize(result))
    return b


def _arrays(types: _Types, shape: tuple[int, ...]) -> dict[str, Array]:
    random = np.random.default_rng(0)
    mb, _, seq, head_size = shape
    largest = largest_int8_weight()
    return {
        "query": types.query.random(random, shape, 127),
        "key": types.key.random(random, shape, largest),
        "value": types.key.random(random, shape, largest),
        "scale": root_scale(head_size, "f32"),
        "mask": padding_mask((mb, 1, 1, seq), "f32"),
    }


def run(
    engine_kind: str = "cpu", mb: int = 2, seq: int = 128, heads: int = 16, head_size: int = 64
) -> Iterator[Case | Skipped]:
    """Run in each data type of 8 bits."""
    shape = (mb, heads, seq, head_size)
    for data_type in ("f8_e4m3", "f8_e5m2", "s8", "u8"):
        name = f"{data_type}, {mb}x{seq}, {heads} heads of {head_size}"
        types = _Types.of(data_type)
        skipped = too_old(name, (3, 13)) if data_type.startswith("f8") else None
        if skipped is None:
            builder = _build(engine_kind, types, shape)
            skipped = cannot_run(name, data_type, builder.graph)
        if skipped is not None:
            yield skipped
            continue
        arrays = _arrays(types, shape)
        # Inputs may hold anything, so a model runs int8 attention in parts where products of u8 and
        # s8 saturate. Here keys and values are small enough.
        small = largest_int8_weight() < 127 and not types.key.is_float
        done = BuiltRun(builder, arrays, "run" if small else "avoid")
        facts = [f"key and value: {types.key.data_type}, all else {data_type}"]
        if small:
            facts.append("no VNNI: keys and values are kept small, so that one partition is right")
        yield done.case(name, facts)
