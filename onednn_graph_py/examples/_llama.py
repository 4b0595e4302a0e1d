"""A decoder of Llama's shape with random weights, which continues a text of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from .. import GraphBuilder
from ..base.dtypes import numpy_dtype
from ..blocks import (
    KVCache,
    KVMemory,
    embedding,
    kv_cache,
    linear,
    rms_norm,
    rope,
    rope_tables,
)
from ..model.building.value import Value

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

    def floats(self) -> npt.NDArray[np.float32]:
        """Return the numbers that they stand for."""
        group = len(self.integers) // len(self.scales)
        return np.repeat(self.scales, group, 0) * self.integers.astype(np.float32)


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

    @property
    def weight_bytes(self) -> int:
        """The bytes of all weights of layers as oneDNN reads them: those of 4 bits take 8."""
        every = [self.last, *(w for layer in self.layers for w in layer.values())]
        return sum((w[0] if isinstance(w, Compressed) else w).nbytes for w in every)

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


def of_torch(decoder: Decoder, capacity: int) -> Callable[[list[int]], Any]:
    """Return the decoder in torch, which continues what it was called with before."""
    import torch

    s, dtype = decoder.sizes, getattr(torch, {"f32": "float32"}.get(decoder.dtype, "bfloat16"))
    functional = torch.nn.functional

    def tensor(weights: npt.NDArray[Any] | Compressed) -> Any:
        floats = weights.floats() if isinstance(weights, Compressed) else weights
        return torch.from_numpy(np.ascontiguousarray(floats.T.astype(np.float32))).to(dtype)

    table, last = tensor(decoder.table.T), tensor(decoder.last)
    layers = [{name: tensor(w) for name, w in layer.items()} for layer in decoder.layers]
    shape = (s.layers, 2, 1, s.key_heads, capacity, s.head)
    cached, length = torch.zeros(shape, dtype=dtype), 0
    speeds = 10000.0 ** (-torch.arange(0, s.head, 2) / s.head)

    def rotated(x: Any, angles: Any) -> Any:
        low, high = x.chunk(2, -1)
        cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
        return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)

    def normed(x: Any) -> Any:
        return functional.rms_norm(x, (s.width,), eps=1e-5)

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def call(tokens: list[int]) -> Any:
        nonlocal length
        before, length = length, length + len(tokens)
        angles = torch.arange(before, length)[:, None] * speeds
        mask = None  # one token sees all
        if len(tokens) > 1:
            mask = torch.full((len(tokens), length), -torch.inf).triu(before + 1).to(dtype)
        x = table[torch.tensor([tokens])]
        for layer, memory in zip(layers, cached, strict=True):
            y = normed(x)
            query, key, value = (
                functional.linear(y, layer[n]).unflatten(-1, (-1, s.head)).transpose(1, 2)
                for n in ("query", "key", "value")
            )
            memory[0, :, :, before:length] = rotated(key, angles)
            memory[1, :, :, before:length] = value
            seen = functional.scaled_dot_product_attention(
                rotated(query, angles), *memory[..., :length, :], mask, enable_gqa=True
            )
            x = x + functional.linear(seen.transpose(1, 2).flatten(2), layer["out"])
            y = normed(x)
            gate = functional.silu(functional.linear(y, layer["gate"]))
            x = x + functional.linear(gate * functional.linear(y, layer["up"]), layer["down"])
        return functional.linear(normed(x[:, -1:]), last)[0, 0].float().numpy()

    return cast("Callable[[list[int]], Any]", call)


def continued(model: Any, memory: KVMemory, prompt: list[int], count: int) -> Iterator[Any]:
    """Yield the logits of tokens that continue a prompt, one call for each."""
    memory.length = 0
    yield from greedy(lambda t: memory.call(model, len(t), tokens=np.array([t])), prompt, count)


def greedy(call: Callable[[list[int]], Any], prompt: list[int], count: int) -> Iterator[Any]:
    """Yield logits for as many tokens, each the likeliest; `call` remembers what it was given."""
    fresh = prompt
    for _ in range(count):
        logits = call(fresh)
        fresh = [int(logits.argmax())]
        yield logits


def recomputed(model: Any, memory: KVMemory, text: list[int], count: int) -> Iterator[Any]:
    """Yield the logits of the last tokens of a text, each from all tokens before it.

    Each call computes them all, and finds nothing in the cache.
    """
    for length in range(len(text) - count, len(text)):
        memory.length = 0
        yield memory.call(model, length, tokens=np.array([text[:length]]))
