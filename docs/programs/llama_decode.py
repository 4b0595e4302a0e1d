"""A decoder of Llama's shape with random weights generates tokens with a cache of keys and values.

    python llama_decode.py [WIDTH LAYERS TOKENS PROMPT]

Embedding, RMSNorm, rotary positions, grouped heads and gated MLP are one model. Layers 2048 wide
are those of Llama 3.2 1B.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from onednn_graph_py import GraphBuilder, Value
from onednn_graph_py.base.dtypes import numpy_dtype
from onednn_graph_py.blocks import (
    KVCache,
    KVMemory,
    embedding,
    kv_cache,
    linear,
    rms_norm,
    rope,
    rope_tables,
)

GROUP = 32
"""Inputs whose 4-bit weights have one scale."""


class Sizes(NamedTuple):
    """The sizes of a decoder."""

    layers: int = 4
    width: int = 256
    heads: int = 4
    key_heads: int = 2
    hidden: int = 688
    words: int = 1000

    @classmethod
    def of(cls, width: int, layers: int) -> Sizes:
        """Return sizes in the proportions of Llama 3.2 1B, whose layers are 2048 wide."""
        heads = -(-width // 256) * 4
        return cls(layers, heads * 64, heads, heads // 4, heads * 256)

    @property
    def head(self) -> int:
        """The elements of a head."""
        return self.width // self.heads


class Compressed(NamedTuple):
    """Weights of 8 or 4 bits; an int8 array holds one number each."""

    integers: npt.NDArray[np.int8]  # (inputs, outputs)
    scales: npt.NDArray[np.float32]  # (groups of inputs, outputs)

    @classmethod
    def of(cls, weights: npt.NDArray[Any], bits: int) -> Compressed:
        """Round weights, with a scale for each output, and of 4 bits for each `GROUP` inputs."""
        groups = weights.reshape(-1, GROUP if bits == 4 else len(weights), weights.shape[1])
        scales = np.abs(groups).max(1) / ((1 << (bits - 1)) - 1)
        integers = np.rint(groups / scales[:, None]).astype(np.int8)
        return cls(integers.reshape(weights.shape), scales.astype(np.float32))


class Decoder:
    """Graphs of one decoder, whose tensors have one data type.

    - `bits`: 8 or 4 for layers of compressed weights, which round what they read to 8 bits; 0 for
      weights of the data type
    """

    def __init__(self, sizes: Sizes, dtype: str, bits: int = 0) -> None:
        self.sizes = sizes
        self.dtype = dtype
        self._bits = bits
        self._random = np.random.default_rng(17)
        s = sizes
        self.table = self._weights(s.words, s.width, scale=1.0)
        shapes = {
            "query": (s.width, s.heads * s.head),
            "key": (s.width, s.key_heads * s.head),
            "value": (s.width, s.key_heads * s.head),
            "out": (s.heads * s.head, s.width),
            "gate": (s.width, s.hidden),
            "up": (s.width, s.hidden),
            "down": (s.hidden, s.width),
        }
        self.layers = [
            {name: self._compressed(self._weights(*shape)) for name, shape in shapes.items()}
            for _ in range(s.layers)
        ]
        self.last = self._compressed(self._weights(s.width, s.words))

    def _weights(self, *shape: int, scale: float | None = None) -> npt.NDArray[Any]:
        size = shape[0] ** -0.5 if scale is None else scale
        made = self._random.standard_normal(shape, np.float32) * np.float32(size)
        return made.astype(numpy_dtype(self.dtype))

    def _compressed(self, weights: npt.NDArray[Any]) -> npt.NDArray[Any] | Compressed:
        return Compressed.of(weights, self._bits) if self._bits else weights

    def graph(self) -> tuple[GraphBuilder, KVCache]:
        """Build the graph: from tokens, (1, tokens) of s64, the logits of the last one."""
        s, b = self.sizes, GraphBuilder()
        tokens = b.input((1, -1), "s64", name="tokens")
        cache = kv_cache(
            b, layers=s.layers, batch=1, heads=s.key_heads, size=s.head, dtype=self.dtype
        )
        positions = cache.positions(tokens)
        tables = rope_tables(positions, s.head, dtype=self.dtype, name="angles")
        x = embedding(tokens, self.table, name="embedding")
        for i, weights in enumerate(self.layers):
            with b.scope(f"layer{i}"):
                x = self._layer(x, weights, tables, cache)
        last = rms_norm(x[:, -1:], np.ones(s.width, numpy_dtype(self.dtype)), name="norm")
        b.output(logits=_product(last, self.last, "logits")[0, 0])
        return b, cache

    def _layer(
        self,
        x: Value,
        weights: dict[str, npt.NDArray[Any] | Compressed],
        tables: tuple[Value, Value],
        cache: KVCache,
    ) -> Value:
        s = self.sizes
        ones = np.ones(s.width, numpy_dtype(self.dtype))
        normed = rms_norm(x, ones, name="norm")

        def heads(which: str, count: int) -> Value:
            made = _product(normed, weights[which], which)
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
        x = x + _product(together, weights["out"], "out")
        normed = rms_norm(x, ones, name="norm of mlp")
        gate = _product(normed, weights["gate"], "gate", "silu")
        return x + _product(gate * _product(normed, weights["up"], "up"), weights["down"], "down")


def _product(
    x: Value, weights: npt.NDArray[Any] | Compressed, name: str, activation: str | None = None
) -> Value:
    if isinstance(weights, Compressed):
        integers, scales = weights
        return linear(
            x, integers, scales=scales, activations="int8", activation=activation, name=name
        )
    return linear(x, weights, activation=activation, name=name)


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


def main(width: int = 256, layers: int = 4, tokens: int = 64, prompt: int = 16) -> None:
    """Generate tokens, and print how fast they come, in f32 and with weights of 8 and 4 bits."""
    sizes = Sizes.of(width, layers)
    start = [5 + 37 * i % (sizes.words - 5) for i in range(prompt)]
    for name, bits in (("f32", 0), ("8 bits", 8), ("4 bits", 4)):
        graph, cache = Decoder(sizes, "f32", bits).graph()
        model = graph.compile(name="decoder")
        memory = cache.allocate(prompt + tokens)
        text = [int(logits.argmax()) for logits in continued(model, memory, start, tokens)]
        begin = time.perf_counter()
        again = continued(model, memory, start, tokens)
        assert int(next(again).argmax()) == text[0]
        first = time.perf_counter()
        assert [int(logits.argmax()) for logits in again] == text[1:]
        rate = (tokens - 1) / (time.perf_counter() - first)
        print(f"{name}: first token after {(first - begin) * 1e3:.1f} ms, then {rate:.1f} a second")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
