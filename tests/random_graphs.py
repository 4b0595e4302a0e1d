"""Random graphs for GraphBuilder."""

import random
from collections.abc import Mapping

import numpy as np

import onednn_graph_py as og
from onednn_graph_py.reference import round_to

Arrays = list[np.ndarray]


class _Maker:
    """Draws ops one after the other."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"graph {seed}")
        self.chance = np.random.default_rng(seed)
        self.b = og.GraphBuilder()
        self.dtype = self.rng.choice(("f32", "f32", "f32", "bf16"))
        self.values: list[og.Value] = []

    def noise(self, *shape: int, scale: float = 1.0) -> np.ndarray:
        return self.chance.standard_normal(shape) * scale

    def constant(self, array: np.ndarray) -> og.Value:
        return self.b.constant(round_to(array, self.dtype), self.dtype)

    def pick(self) -> og.Value:
        # Mostly the newest, so that chains form; sometimes an old one, so that diamonds do.
        if self.rng.random() < 0.7:
            return self.values[-1]
        return self.rng.choice(self.values)

    def unary(self, x: og.Value) -> og.Value:
        kind = self.rng.choice(
            (
                "relu",
                "gelu",
                "tanh",
                "sigmoid",
                "abs",
                "hard_swish",
                "elu",
                "leaky_relu",
                "softplus",
                "clamp",
                "mish",
            )
        )
        attrs = {
            "elu": {"alpha": 0.5},
            "leaky_relu": {"alpha": 0.1},
            "clamp": {"min": -1.0, "max": 1.5},
        }.get(kind, {})
        return getattr(x, kind)(**attrs)

    def binary(self, x: og.Value) -> og.Value:
        kind = self.rng.choice(("add", "multiply", "subtract", "maximum", "minimum"))
        same = [v for v in self.values if v.shape == x.shape]
        choice = self.rng.random()
        if choice < 0.5:
            other = self.rng.choice(same)
        elif choice < 0.75:
            other = self.constant(self.noise(x.shape[-1]))
        else:
            return x * self.rng.choice((0.5, -1.0, 2.0)) + 0.25
        return getattr(x, kind)(other)

    def matmul(self, x: og.Value) -> og.Value:
        inner, outer = x.shape[-1], self.rng.choice((4, 8, 16, 24))
        transposed = self.rng.random() < 0.4
        shape = (outer, inner) if transposed else (inner, outer)
        weights = self.constant(self.noise(*shape, scale=inner**-0.5))
        bias = [self.constant(self.noise(outer))] if self.rng.random() < 0.5 else []
        return x.matmul(weights, *bias, transpose_b=transposed)

    def normalize(self, x: og.Value) -> og.Value:
        if self.rng.random() < 0.5:
            return x.softmax(axis=-1)
        n = x.shape[-1]
        gamma = self.b.constant(np.float32(1 + self.noise(n, scale=0.1)))
        beta = self.b.constant(np.float32(self.noise(n, scale=0.1)))
        return x.layer_norm(gamma, beta, keep_stats=False, epsilon=1e-3)

    def reshape(self, x: og.Value) -> og.Value:
        if self.rng.random() < 0.5:
            order = list(range(x.ndim))
            self.rng.shuffle(order)
            return x.static_transpose(order=order)
        return x.static_reshape(shape=(-1, x.shape[-1]), special_zero=False)

    def reduce(self, x: og.Value) -> og.Value:
        kind = self.rng.choice(("reduce_mean", "reduce_max", "reduce_sum"))
        return x + getattr(x, kind)(axes=(-1,), keep_dims=True)

    def cast(self, x: og.Value) -> og.Value:
        return x.type_cast(dtype="bf16" if x.dtype == "f32" else "f32").type_cast(dtype=x.dtype)

    def quantized(self, x: og.Value) -> og.Value:
        """An int8 product; powers of two as scales, so that nothing is near a tie."""
        if x.dtype != "f32":
            return self.unary(x)
        kind = self.rng.choice(("u8", "s8"))
        zero = [self.rng.choice((0, 3))] if kind == "u8" else [0]
        q = x.quantize(dtype=kind, scales=[2.0**-4], zps=zero, qtype="per_tensor")
        d = q.dequantize(scales=[2.0**-4], zps=zero, qtype="per_tensor")
        if self.rng.random() < 0.3:
            return d
        inner, outer = x.shape[-1], self.rng.choice((8, 16))
        # Small weights, that no CPU saturates in 16 bits.
        whole = self.chance.integers(-8, 8, (inner, outer)).astype(np.int8)
        w = self.b.constant(whole).dequantize(scales=[2.0**-5], zps=[0], qtype="per_tensor")
        y = d.matmul(w)
        if self.rng.random() < 0.5:
            y = y.relu()
        y = y.quantize(dtype="s8", scales=[2.0**-3], zps=[0], qtype="per_tensor")
        return y.dequantize(scales=[2.0**-3], zps=[0], qtype="per_tensor")

    def convolution(self, x: og.Value) -> og.Value:
        if x.ndim != 4 or min(x.shape) < 1:
            return self.unary(x)
        channels, made = x.shape[-1], self.rng.choice((4, 8))
        size = self.rng.choice((1, 3))
        weights = self.constant(
            self.noise(size, size, channels, made, scale=(size * size * channels) ** -0.5)
        )
        pad = (size // 2,) * 2
        y = x.convolution(weights, strides=(1, 1), pads_begin=pad, pads_end=pad, dilations=(1, 1))
        return y.relu() if self.rng.random() < 0.5 else y

    def make(self) -> og.GraphBuilder:
        rank = self.rng.choice((2, 2, 3, 4))
        shape = tuple(self.rng.choice((1, 2, 3, 5)) for _ in range(rank - 1))
        shape += (self.rng.choice((4, 8, 16)),)
        for _ in range(self.rng.choice((1, 1, 2))):
            self.values.append(self.b.input(shape, self.dtype))
        steps = (
            (self.unary,) * 4
            + (self.binary,) * 5
            + (
                self.matmul,
                self.matmul,
                self.normalize,
                self.reshape,
                self.reduce,
                self.cast,
                self.quantized,
                self.quantized,
                self.convolution,
                self.convolution,
            )
        )
        for _ in range(self.rng.randint(1, 9)):
            made = self.rng.choice(steps)(self.pick())
            if made.shape and 0 < int(np.prod(made.shape)) <= 20000:
                self.values.append(made)
        last = [v for v in self.values if v.producer][-1:] or [self.unary(self.values[0])]
        others = [v for v in self.values[:-1] if v.producer and self.rng.random() < 0.15]
        named: Mapping[str, og.Value] = {f"y{i}": v for i, v in enumerate([*last, *others])}
        self.b.output(**named)
        return self.b


def random_graph(seed: int) -> tuple[og.GraphBuilder, Arrays]:
    """A graph and arrays for its inputs."""
    maker = _Maker(seed)
    b = maker.make()
    return b, [round_to(maker.noise(*(v.shape or ())), v.dtype) for v in b.inputs]
