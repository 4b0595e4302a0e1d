"""Graphs of up to ten ops of any kind, with branches that join again."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..building.builder import GraphBuilder
from ..building.value import Value
from ..reference import round_to
from .draft import Arrays, Draft

__all__ = ["case"]


class _Graph(Draft):
    """Draws ops one after the other."""

    def __init__(self, seed: int) -> None:
        super().__init__("graph", seed)
        self.dtype = self.float_type()
        self.values: list[Value] = []

    def noise(self, *shape: int, scale: float = 1.0) -> npt.NDArray[Any]:
        return self.numbers.standard_normal(shape) * scale

    def constant(self, array: npt.NDArray[Any], dtype: str) -> Value:
        return self.b.constant(round_to(array, dtype), dtype)

    def any_value(self) -> Value:
        # Mostly take the newest value, so that chains form; sometimes an old one, for diamonds.
        return self.values[-1] if self.chance(0.7) else self.pick(self.values)

    def joined(self, x: Value) -> Value:
        """Add a binary op of a value and another one, a constant or a number."""
        same = [v for v in self.values if v.shape == x.shape and v.dtype == x.dtype]
        choice = self.random.random()
        if same and choice < 0.4:
            kind = self.pick(("Add", "Multiply", "Subtract", "Maximum", "Minimum"))
            return self.op(kind, x, self.pick(same))
        if choice < 0.75:
            return self.binary(x)
        return x * self.pick((0.5, -1.0, 2.0)) + 0.25

    def matmul(self, x: Value) -> Value:
        inner, outer = (x.shape or ())[-1], self.pick((4, 8, 16, 24))
        transposed = self.chance(0.4)
        shape = (outer, inner) if transposed else (inner, outer)
        weights = self.constant(self.noise(*shape, scale=inner**-0.5), x.dtype)
        bias = [self.constant(self.noise(outer), x.dtype)] if self.chance(0.5) else []
        return x.matmul(weights, *bias, transpose_b=transposed)

    def normalize(self, x: Value) -> Value:
        if self.chance(0.5):
            return x.softmax(axis=-1)
        n = (x.shape or ())[-1]
        gamma = self.b.constant(np.float32(1 + self.noise(n, scale=0.1)))
        beta = self.b.constant(np.float32(self.noise(n, scale=0.1)))
        return self.op("LayerNorm", x, gamma, beta, keep_stats=False, epsilon=1e-3)

    def reshape(self, x: Value) -> Value:
        if self.chance(0.5):
            order = list(range(x.ndim))
            self.random.shuffle(order)
            return x.static_transpose(order=order)
        return x.static_reshape(shape=(-1, (x.shape or ())[-1]), special_zero=False)

    def reduce(self, x: Value) -> Value:
        kind = self.pick(("ReduceMean", "ReduceMax", "ReduceSum"))
        made = self.op(kind, x, axes=(-1,), keep_dims=True)
        return x + made

    def cast(self, x: Value) -> Value:
        return x.type_cast(dtype="bf16" if x.dtype == "f32" else "f32").type_cast(dtype=x.dtype)

    def int8(self, x: Value) -> Value:
        """Add an int8 product; its scales are powers of two, so that no result is near a tie."""
        if x.dtype != "f32":
            return self.unary(x)
        kind = self.pick(("u8", "s8"))
        zero = [self.pick((0, 3))] if kind == "u8" else [0]
        q = x.quantize(dtype=kind, scales=[2.0**-4], zps=zero, qtype="per_tensor")
        d = q.dequantize(scales=[2.0**-4], zps=zero, qtype="per_tensor")
        if self.chance(0.3):
            return d
        inner, outer = (x.shape or ())[-1], self.pick((8, 16))
        # Products with small weights saturate on no CPU; other families have large weights.
        whole = self.numbers.integers(-8, 8, (inner, outer)).astype(np.int8)
        w = self.b.constant(whole).dequantize(scales=[2.0**-5], zps=[0], qtype="per_tensor")
        y = d.matmul(w)
        if self.chance(0.5):
            y = y.relu()
        y = y.quantize(dtype="s8", scales=[2.0**-3], zps=[0], qtype="per_tensor")
        return y.dequantize(scales=[2.0**-3], zps=[0], qtype="per_tensor")

    def convolution(self, x: Value) -> Value:
        if x.ndim != 4:
            return self.unary(x)
        channels, made = (x.shape or ())[-1], self.pick((4, 8))
        size = self.pick((1, 3))
        weights = self.constant(
            self.noise(size, size, channels, made, scale=(size * size * channels) ** -0.5), x.dtype
        )
        pad = (size // 2,) * 2
        y = x.convolution(weights, strides=(1, 1), pads_begin=pad, pads_end=pad, dilations=(1, 1))
        return y.relu() if self.chance(0.5) else y

    def grown(self) -> tuple[GraphBuilder, Arrays]:
        """Draw the whole graph, and arrays for its inputs."""
        rank = self.pick((2, 2, 3, 4))
        shape = (*(self.pick((1, 2, 3, 5)) for _ in range(rank - 1)), self.pick((4, 8, 16)))
        for _ in range(self.pick((1, 1, 2))):
            self.values.append(self.b.input(shape, self.dtype))
        steps: tuple[Callable[[Value], Value], ...] = (
            (self.unary,) * 4
            + (self.joined,) * 5
            + (self.matmul,) * 2
            + (self.int8,) * 2
            + (self.convolution,) * 2
            + (self.normalize, self.reshape, self.reduce, self.cast)
        )
        for _ in range(self.random.randint(1, 9)):
            made = self.pick(steps)(self.any_value())
            if made.shape and 0 < math.prod(made.shape) <= 20000:
                self.values.append(made)
        last = [v for v in self.values if v.producer][-1:] or [self.unary(self.values[0])]
        others = [v for v in self.values[:-1] if v.producer and self.chance(0.15)]
        return self.made(*last, *others)


def case(seed: int) -> tuple[GraphBuilder, Arrays]:
    """Draw a graph."""
    return _Graph(seed).grown()
