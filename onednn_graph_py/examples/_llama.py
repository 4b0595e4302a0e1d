"""A small decoder of Llama's shape with random weights, which continues a text of numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import GraphBuilder
from ..base.dtypes import numpy_dtype
from ..blocks import (
    KVCache,
    KVMemory,
    embedding,
    gated_mlp,
    kv_cache,
    linear,
    rms_norm,
    rope,
    rope_tables,
)
from ..model.building.value import Value


class Sizes(NamedTuple):
    """The sizes of a decoder."""

    layers: int = 4
    width: int = 256
    heads: int = 4
    key_heads: int = 2
    hidden: int = 688
    words: int = 1000

    @property
    def head(self) -> int:
        """The elements of a head."""
        return self.width // self.heads


class Decoder:
    """Graphs of one decoder, whose weights and tensors have one data type."""

    def __init__(self, sizes: Sizes, dtype: str) -> None:
        self.sizes = sizes
        self.dtype = dtype
        self._random = np.random.default_rng(17)
        s = sizes
        self._table = self._weights(s.words, s.width, scale=1.0)
        shapes = {
            "query": (s.width, s.heads * s.head),
            "key": (s.width, s.key_heads * s.head),
            "value": (s.width, s.key_heads * s.head),
            "out": (s.heads * s.head, s.width),
            "gate": (s.width, s.hidden),
            "up": (s.width, s.hidden),
            "down": (s.hidden, s.width),
        }
        self._layers = [
            {name: self._weights(*shape) for name, shape in shapes.items()} for _ in range(s.layers)
        ]
        self._last = self._weights(s.width, s.words)

    def _weights(self, *shape: int, scale: float | None = None) -> npt.NDArray[Any]:
        size = shape[0] ** -0.5 if scale is None else scale
        made = self._random.standard_normal(shape) * size
        return made.astype(numpy_dtype(self.dtype))

    def graph(self) -> tuple[GraphBuilder, KVCache]:
        """Build the graph: from tokens, (1, tokens) of s64, the logits of the last one."""
        s, b = self.sizes, GraphBuilder()
        tokens = b.input((1, -1), "s64", name="tokens")
        cache = kv_cache(
            b, layers=s.layers, batch=1, heads=s.key_heads, size=s.head, dtype=self.dtype
        )
        positions = cache.positions(tokens)
        tables = rope_tables(positions, s.head, dtype=self.dtype, name="angles")
        x = embedding(tokens, self._table, name="embedding")
        for i, weights in enumerate(self._layers):
            with b.scope(f"layer{i}"):
                x = self._layer(x, weights, tables, cache)
        last = rms_norm(x[:, -1:], np.ones(s.width, numpy_dtype(self.dtype)), name="norm")
        b.output(logits=linear(last, self._last, name="logits")[0, 0])
        return b, cache

    def _layer(
        self,
        x: Value,
        weights: dict[str, npt.NDArray[Any]],
        tables: tuple[Value, Value],
        cache: KVCache,
    ) -> Value:
        s = self.sizes
        ones = np.ones(s.width, numpy_dtype(self.dtype))
        normed = rms_norm(x, ones, name="norm")

        def heads(which: str, count: int) -> Value:
            made = linear(normed, weights[which], name=which)
            apart: Value = made.static_reshape(shape=(1, -1, count, s.head), special_zero=False)
            return apart.transpose((0, 2, 1, 3))

        q, k = (
            rope(heads(which, count), *tables, name=f"rope of {which}")
            for which, count in (("query", s.heads), ("key", s.key_heads))
        )
        attended = cache.attend(q, k, heads("value", s.key_heads))
        together: Value = attended.transpose((0, 2, 1, 3)).static_reshape(
            shape=(1, -1, s.width), special_zero=False
        )
        x = x + linear(together, weights["out"], name="out")
        normed = rms_norm(x, ones, name="norm of mlp")
        return x + gated_mlp(normed, weights["gate"], weights["up"], weights["down"], name="mlp")


def continued(model: Any, memory: KVMemory, prompt: list[int], count: int) -> Iterator[Any]:
    """Yield the logits of tokens that continue a prompt, one call for each."""
    memory.length = 0
    fresh = prompt
    for _ in range(count):
        logits = memory.call(model, len(fresh), tokens=np.array([fresh]))
        fresh = [int(logits.argmax())]
        yield logits


def recomputed(model: Any, memory: KVMemory, text: list[int], count: int) -> Iterator[Any]:
    """Yield the logits of the last tokens of a text, each from all tokens before it.

    Each call computes them all, and finds nothing in the cache.
    """
    for length in range(len(text) - count, len(text)):
        memory.length = 0
        yield memory.call(model, length, tokens=np.array([text[:length]]))
