"""Random graphs for GraphBuilder, and what they compute, node by node, in NumPy."""

import random
from collections.abc import Callable, Mapping

import numpy as np

import onednn_graph_py as og
from onednn_graph_py.builder import Node
from onednn_graph_py.reference import round_to, run

EPSILON = {"f32": 2.0**-24, "bf16": 2.0**-9, "f16": 2.0**-11}

Arrays = list[np.ndarray]


def evaluate(
    b: og.GraphBuilder,
    inputs: Arrays,
    after: Callable[[Node, np.ndarray], np.ndarray] | None = None,
) -> list[np.ndarray]:
    """All outputs, computed by the reference; `after` may change what each op makes."""
    known: dict[int, np.ndarray] = {v.id: a for v, a in zip(b.inputs, inputs, strict=True)}
    known.update({v.id: v.data for v in b.constants if v.data is not None})
    for node in b.nodes:
        made = run(
            node.kind,
            [known[v.id] for v in node.inputs],
            node.attrs,
            outputs=[
                (v.shape if v.shape and -1 not in v.shape else None, v.dtype) for v in node.outputs
            ],
        )
        for value, array in zip(node.outputs, made, strict=True):
            known[value.id] = after(node, array) if after else array
    return [known[v.id] for v in b.outputs.values()]


def accumulated(node: Node) -> int:
    """How many products or terms one element of an op's result adds up."""
    if node.kind == "MatMul":
        return int((node.inputs[0].shape or (1,))[-1])
    if node.kind == "Convolution":
        return int(np.prod((node.inputs[1].shape or (1,))[:-1]))
    if node.kind in ("SoftMax", "LayerNorm") or node.kind.startswith("Reduce"):
        return int(np.prod(node.inputs[0].shape or (1,)))
    return 4  # an elementwise function is good to a few units in the last place


def allowed(b: og.GraphBuilder, inputs: Arrays, exact: Arrays, seed: int) -> list[float]:
    """How far each output may be off.

    Stochastic arithmetic (Vignes 1993): every op's result is disturbed by what its data type and
    the length of its sums may round away, here and in oneDNN, and what comes of it at the outputs
    is measured.
    """
    worst = [0.0] * len(exact)
    chance = np.random.default_rng(seed)
    for _ in range(4):

        def disturb(node: Node, array: np.ndarray) -> np.ndarray:
            dtype = node.outputs[0].dtype
            if dtype not in EPSILON:
                return array
            wide = array.astype(np.float64)
            size = EPSILON[dtype] + EPSILON["f32"] * accumulated(node) ** 0.5
            # Sums cancel: what they lose is relative to their terms, not to the result.
            scale = np.abs(wide) + (np.abs(wide).mean() if accumulated(node) > 4 else 0)
            return round_to(wide + scale * size * chance.uniform(-2, 2, wide.shape), dtype)

        for i, disturbed in enumerate(evaluate(b, inputs, disturb)):
            off = np.abs(disturbed.astype(np.float64) - exact[i].astype(np.float64))
            worst[i] = max(worst[i], float(off.max(initial=0)))
    # Four samples find about half of the largest disturbance there is.
    return [
        8 * w + EPSILON.get(v.dtype, 0) * 4 * float(np.abs(e.astype(np.float64)).max(initial=0))
        for w, e, v in zip(worst, exact, b.outputs.values(), strict=True)
    ]


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
