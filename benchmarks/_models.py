"""The networks that run.py measures, each written once for all libraries.

A network is a function over `Ops`, a handful of operations that every library has an
implementation of in _peers.py. So all of them compute the same thing, from the same numbers, and
what they answer can be compared. NumPy's implementation, here, says what is right; it also finds
the ranges that the int8 networks quantize with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Window(NamedTuple):
    """How the windows of a convolution lie, alike along all dims."""

    stride: int = 1
    padding: int = 0
    groups: int = 1
    dilation: int = 1
    transposed: bool = False


class Ops(Protocol):
    """What networks are made of; a tensor is whatever the library has for one.

    Activations are (1, tokens, hidden) or (1, channels, height, width). `name` says which of the
    parameters an operation uses.
    """

    def linear(self, x: Any, name: str) -> Any:
        """x @ weight, + bias if there is one."""

    def heads(self, x: Any, count: int) -> Any:
        """(1, tokens, hidden) to (1, count, tokens, hidden / count)."""

    def merged(self, x: Any) -> Any:
        """The inverse of `heads`."""

    def attention(
        self, query: Any, key: Any, value: Any, *, causal: bool = False, past: Any = None
    ) -> Any:
        """softmax(query @ key.T / sqrt(size)) @ value.

        There may be fewer heads of `key` and `value`, which as many heads of `query` share each.
        `causal`: a query sees the keys up to its own, the last of both being one token's.
        `past`: keys and values to put before the given ones.
        """

    def rotated(self, x: Any, name: str) -> Any:
        """x * cos + (minus its second half, then its first) * sin: positions, as Llama has them."""

    def layer_norm(self, x: Any, name: str) -> Any: ...

    def rms_norm(self, x: Any, name: str) -> Any:
        """x / sqrt(mean of its squares + EPSILON) * weight."""

    def gelu(self, x: Any) -> Any: ...

    def silu(self, x: Any) -> Any:
        """x * sigmoid(x)."""

    def relu(self, x: Any) -> Any: ...

    def relu6(self, x: Any) -> Any:
        """Between 0 and 6."""

    def add(self, x: Any, y: Any) -> Any: ...

    def multiply(self, x: Any, y: Any) -> Any: ...

    def convolution(self, x: Any, name: str, window: Window) -> Any:
        """With bias; over as many dims as the weights have behind their channels."""

    def max_pool(self, x: Any, kernel: int, stride: int, padding: int) -> Any: ...

    def mean(self, x: Any) -> Any:
        """(1, channels, height, width) to (1, channels)."""

    def quantized(self, x: Any, name: str, *, summand: bool = False) -> Any:
        """Pass through 8 bits, in an int8 network.

        `summand`: the result of a convolution that an addition takes next. Some libraries need
        8 bits there to convolve in 8 bits; oneDNN adds before it rounds.
        """


@dataclass
class Parameters:
    """Weights, and how int8 networks round.

    Parameters
    ----------
    arrays : mapping of str to array
        In float32; rounded to what the data type can hold.
    dtype : str
        f32, bf16 or int8; w8 or w4 if only weights are integers, of so many bits.
    ranges : mapping of str to (low, high)
        Of what goes through 8 bits.
    largest : int
        The largest weight of an int8 network. Libraries want 64 on a CPU without VNNI, whose sums
        of two products else saturate.
    """

    arrays: Mapping[str, Array]
    dtype: str
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    largest: int = 127

    def activation(self, name: str) -> tuple[float, bool]:
        """The scale, and whether there are negative numbers."""
        low, high = self.ranges[name]
        # Exactly what a float32 holds, so that all libraries get the same.
        scale = max(-low, high) / 127 if low < 0 else high / 255
        return float(np.float32(scale)), low < 0

    @property
    def integer_weights(self) -> bool:
        """Whether `weight` says what products take."""
        return self.dtype in ("int8", "w8", "w4")

    def weight(self, name: str) -> tuple[Array, Array, int]:
        """Integers, their scales, and the axis of those.

        8-bit integers have a scale for each output channel. 4-bit ones, of which an int8 array
        holds one each, have a row of scales for every `GROUP` inputs.
        """
        values = self.arrays[f"{name}.weight"]
        if self.dtype == "w4":
            groups = values.reshape(-1, GROUP, values.shape[1])
            scales = (np.abs(groups).max(1) / 7).astype(np.float32)
            return np.rint(values / spread(scales, 0, values)).astype(np.int8), scales, 0
        axis = 0 if values.ndim == 4 else 1
        others = tuple(i for i in range(values.ndim) if i != axis)
        largest = self.largest if self.dtype == "int8" else 127
        scales = (np.abs(values).max(others) / largest).astype(np.float32)
        return np.rint(values / spread(scales, axis, values)).astype(np.int8), scales, axis


# Inputs that share a scale of 4-bit weights.
GROUP = 128


def spread(scales: Array, axis: int, values: Array) -> Array:
    """Scales in a shape that the values can be multiplied with."""
    if scales.ndim == 2:
        return np.repeat(scales, len(values) // len(scales), axis)
    return scales.reshape([-1 if i == axis else 1 for i in range(values.ndim)])


def stored(array: Array, dtype: str) -> Array:
    """In bf16 for a bf16 network, and as it is otherwise."""
    return array.astype(ml_dtypes.bfloat16) if dtype == "bf16" else array


class NumpyOps:
    """`Ops` in float32, on rounded weights: what is right.

    Parameters
    ----------
    parameters : Parameters
    calibrate : bool
        Fill in `Parameters.ranges` instead of rounding.
    """

    def __init__(self, parameters: Parameters, calibrate: bool = False) -> None:
        self.parameters = parameters
        self.arrays = parameters.arrays
        self.calibrate = calibrate

    def _weight(self, name: str) -> Array:
        if not self.parameters.integer_weights:
            return self.arrays[f"{name}.weight"]
        integers, scales, axis = self.parameters.weight(name)
        made: Array = integers * spread(scales, axis, integers)
        return made

    def linear(self, x: Array, name: str) -> Array:
        bias = self.arrays.get(f"{name}.bias")
        made = x @ self._weight(name)
        return made if bias is None else made + bias

    def heads(self, x: Array, count: int) -> Array:
        return x.reshape(1, x.shape[1], count, -1).transpose(0, 2, 1, 3)

    def merged(self, x: Array) -> Array:
        return x.transpose(0, 2, 1, 3).reshape(1, x.shape[2], -1)

    def attention(
        self, query: Array, key: Array, value: Array, *, causal: bool = False, past: Any = None
    ) -> Array:
        if past is not None:
            key, value = (np.concatenate(pair, 2) for pair in zip(past, (key, value), strict=True))
        made = np.empty_like(query)
        hidden = ~np.tri(query.shape[2], key.shape[2], key.shape[2] - query.shape[2], dtype=bool)
        shared = query.shape[1] // key.shape[1]
        # Head by head: all scores at once may be gigabytes.
        for head in range(query.shape[1]):
            one = query[0, head] / np.float32(math.sqrt(query.shape[-1]))
            scores = one @ key[0, head // shared].T
            if causal:
                scores[hidden] = -np.inf
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            made[0, head] = weights @ value[0, head // shared] / weights.sum(-1, keepdims=True)
        return made

    def rotated(self, x: Array, name: str) -> Array:
        first, second = np.split(x, 2, -1)
        turned = np.concatenate([-second, first], -1)
        made: Array = x * self.arrays[f"{name}.cos"] + turned * self.arrays[f"{name}.sin"]
        return made

    def layer_norm(self, x: Array, name: str) -> Array:
        centered = x - x.mean(-1, keepdims=True)
        normal = centered / np.sqrt(np.square(centered).mean(-1, keepdims=True) + EPSILON)
        made: Array = normal * self.arrays[f"{name}.weight"] + self.arrays[f"{name}.bias"]
        return made

    def rms_norm(self, x: Array, name: str) -> Array:
        root = np.sqrt(np.square(x).mean(-1, keepdims=True) + EPSILON)
        made: Array = x / root * self.arrays[f"{name}.weight"]
        return made

    def gelu(self, x: Array) -> Array:
        erf = np.frompyfunc(math.erf, 1, 1)(x.astype(np.float64) / math.sqrt(2))
        return (x * (1 + erf.astype(np.float32)) / 2).astype(np.float32)

    def silu(self, x: Array) -> Array:
        made: Array = x / (1 + np.exp(-x))
        return made

    def relu(self, x: Array) -> Array:
        return np.maximum(x, 0)

    def relu6(self, x: Array) -> Array:
        return np.clip(x, 0, 6)

    def add(self, x: Array, y: Array) -> Array:
        made: Array = x + y
        return made

    def multiply(self, x: Array, y: Array) -> Array:
        made: Array = x * y
        return made

    def _windows(self, x: Array, kernel: int, stride: int, padding: int, border: float) -> Array:
        sides = [(0, 0), (0, 0), (padding, padding), (padding, padding)]
        padded = np.pad(x, sides, constant_values=border)
        windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (2, 3))
        return windows[:, :, ::stride, ::stride]

    def convolution(self, x: Array, name: str, window: Window) -> Array:
        stride, padding, groups, dilation, transposed = window
        weight = self._weight(name)
        rank = weight.ndim - 2
        if transposed:  # zeros between the elements; the weights are turned around
            wide = np.zeros((*x.shape[:2], *((n - 1) * stride + 1 for n in x.shape[2:])), x.dtype)
            wide[(..., *[slice(None, None, stride)] * rank)] = x
            x, stride, padding = wide, 1, dilation * (weight.shape[-1] - 1) - padding
            weight = np.flip(weight.swapaxes(0, 1), tuple(range(2, 2 + rank)))
        padded = np.pad(x[0], [(0, 0), *[(padding, padding)] * rank])
        kernel = weight.shape[2:]
        sizes = [
            (n - dilation * (k - 1) - 1) // stride + 1
            for n, k in zip(padded.shape[1:], kernel, strict=True)
        ]
        weight = weight.reshape(groups, len(weight) // groups, -1, *kernel)
        made = np.float32(0)
        for place in np.ndindex(*kernel):
            starts = [dilation * at for at in place]
            part = padded[
                (
                    slice(None),
                    *(
                        slice(start, start + (n - 1) * stride + 1, stride)
                        for start, n in zip(starts, sizes, strict=True)
                    ),
                )
            ]
            made = made + weight[(..., *place)] @ part.reshape(groups, weight.shape[2], -1)
        bias = self.arrays[f"{name}.bias"].reshape(-1, *[1] * rank)
        result: Array = made.reshape(1, -1, *sizes) + bias
        return result

    def max_pool(self, x: Array, kernel: int, stride: int, padding: int) -> Array:
        made: Array = self._windows(x, kernel, stride, padding, -np.inf).max((-1, -2))
        return made

    def mean(self, x: Array) -> Array:
        made: Array = x.mean((2, 3))
        return made

    def quantized(self, x: Array, name: str, *, summand: bool = False) -> Array:
        if self.calibrate:
            self.parameters.ranges[name] = (min(float(x.min()), 0), float(x.max()))
        if self.calibrate or self.parameters.dtype != "int8" or summand:
            return x
        scale, signed = self.parameters.activation(name)
        low, high = (-128, 127) if signed else (0, 255)
        return np.clip(np.rint(x / np.float32(scale)), low, high) * np.float32(scale)


EPSILON = 1e-5


class Network(Protocol):
    """One of those below."""

    def arrays(self) -> dict[str, Array]:
        """Random weights, the same at every call."""

    def inputs(self) -> dict[str, Array]:
        """Random inputs by name, in float32."""

    def output_shape(self) -> tuple[int, ...]: ...

    def run(self, ops: Ops, *inputs: Any) -> Any:
        """Compute."""


class OpenNetwork(Network, Protocol):
    """One that can be compiled for several shapes of its input."""

    def open_shapes(self) -> dict[str, tuple[int, ...]]:
        """The inputs', with -1 for what `other` changes."""

    def other(self) -> Network:
        """The same for another shape of the input."""


def normal(seed: int, *shape: int) -> Array:
    """Random numbers of variance 1, the same at every call."""
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def image(side: int) -> Array:
    """Random pixels, the same at every call."""
    return np.random.default_rng(1).random((1, 3, side, side), np.float32)


class Weights:
    """Random weights by name, such that activations neither grow nor vanish.

    Attributes
    ----------
    arrays : dict of str to array
    """

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._random = np.random.default_rng(0)

    def _normal(self, *shape: int) -> Array:
        return self._random.standard_normal(shape, np.float32)

    def linear(self, name: str, inputs: int, outputs: int, *, bias: bool = True) -> None:
        """(inputs, outputs)."""
        self.arrays[f"{name}.weight"] = self._normal(inputs, outputs) / np.float32(inputs**0.5)
        if bias:
            self.arrays[f"{name}.bias"] = self._normal(outputs) / 10

    def convolution(
        self, name: str, outputs: int, inputs: int, kernel: int, *, gain: float = 2, rank: int = 2
    ) -> None:
        """(outputs, inputs of a group, kernel, ...), and a bias."""
        factor = np.float32(math.sqrt(gain / (inputs * kernel**rank)))
        self.arrays[f"{name}.weight"] = self._normal(outputs, inputs, *[kernel] * rank) * factor
        self.arrays[f"{name}.bias"] = self._normal(outputs) / 10

    def norm(self, name: str, size: int, *, bias: bool = True) -> None:
        """Weights near 1."""
        self.arrays[f"{name}.weight"] = 1 + self._normal(size) / 10
        if bias:
            self.arrays[f"{name}.bias"] = self._normal(size) / 10


@dataclass(frozen=True)
class Encoder:
    """Transformer blocks of BERT's kind: normalized after attention and after the MLP."""

    layers: int = 12
    tokens: int = 128
    hidden: int = 768
    count_heads: int = 12
    inner: int = 3072

    def __str__(self) -> str:
        return f"{self.layers} layers, {self.hidden} wide, {self.tokens} tokens"

    def arrays(self) -> dict[str, Array]:
        made = Weights()
        for i in range(self.layers):
            for part in ("query", "key", "value", "out"):
                made.linear(f"{i}.{part}", self.hidden, self.hidden)
            made.norm(f"{i}.norm1", self.hidden)
            made.linear(f"{i}.inner", self.hidden, self.inner)
            made.linear(f"{i}.outer", self.inner, self.hidden)
            made.norm(f"{i}.norm2", self.hidden)
        return made.arrays

    def inputs(self) -> dict[str, Array]:
        return {"x": normal(1, 1, self.tokens, self.hidden)}

    def output_shape(self) -> tuple[int, ...]:
        return (1, self.tokens, self.hidden)

    def open_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"x": (1, -1, self.hidden)}

    def other(self) -> Encoder:
        return self.of_tokens(self.tokens * 3 // 4)

    def of_tokens(self, tokens: int) -> Encoder:
        """The same for so many tokens."""
        return replace(self, tokens=tokens)

    def tolerance(self) -> float:
        """How far rounding may move an f32 answer: by the root of its longest sum, a layer."""
        longest = max(self.inner, self.hidden, self.tokens)
        return float(np.finfo(np.float32).eps) * math.sqrt(longest) * self.layers

    def run(self, ops: Ops, *inputs: Any) -> Any:
        (x,) = inputs
        for i in range(self.layers):
            query, key, value = (
                ops.heads(ops.linear(x, f"{i}.{part}"), self.count_heads)
                for part in ("query", "key", "value")
            )
            seen = ops.linear(ops.merged(ops.attention(query, key, value)), f"{i}.out")
            x = ops.layer_norm(ops.add(x, seen), f"{i}.norm1")
            thought = ops.linear(ops.gelu(ops.linear(x, f"{i}.inner")), f"{i}.outer")
            x = ops.layer_norm(ops.add(x, thought), f"{i}.norm2")
        return x


@dataclass(frozen=True)
class ResNet:
    """ResNet-50 (v1.5), batch normalization folded into the convolutions."""

    blocks: tuple[int, ...] = (3, 4, 6, 3)
    side: int = 224
    width: int = 64
    classes: int = 1000

    def __str__(self) -> str:
        convolutions = 1 + 3 * sum(self.blocks) + len(self.blocks)
        return f"{convolutions} convolutions, {self.side}x{self.side}"

    def _plan(self) -> list[tuple[str, int, int, int]]:
        """Name, channels inside, stride, and channels before, of each bottleneck."""
        made = []
        before = self.width
        for stage, count in enumerate(self.blocks):
            inside = self.width << stage
            for i in range(count):
                made.append((f"{stage}.{i}", inside, 2 if stage and not i else 1, before))
                before = 4 * inside
        return made

    def arrays(self) -> dict[str, Array]:
        made = Weights()
        made.convolution("stem", self.width, 3, 7)
        for name, inside, _, before in self._plan():
            outside = 4 * inside
            made.convolution(f"{name}.reduce", inside, before, 1)
            made.convolution(f"{name}.middle", inside, inside, 3)
            # Small, or the residual sums grow without bounds.
            made.convolution(f"{name}.expand", outside, inside, 1, gain=0.2)
            if before != outside:
                made.convolution(f"{name}.shortcut", outside, before, 1, gain=1)
        made.linear("classes", (self.width << (len(self.blocks) - 1)) * 4, self.classes)
        return made.arrays

    def inputs(self) -> dict[str, Array]:
        return {"x": image(self.side)}

    def output_shape(self) -> tuple[int, ...]:
        return (1, self.classes)

    def open_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"x": (1, 3, -1, -1)}

    def other(self) -> ResNet:
        return replace(self, side=self.side * 3 // 4)

    def run(self, ops: Ops, *inputs: Any) -> Any:
        x = ops.quantized(inputs[0], "image")
        x = ops.quantized(ops.relu(ops.convolution(x, "stem", Window(2, 3))), "stem")
        # In int8, pooling takes and gives the same 8 bits.
        x = ops.quantized(ops.max_pool(x, 3, 2, 1), "stem")
        for name, inside, stride, before in self._plan():
            y = ops.relu(ops.convolution(x, f"{name}.reduce", Window()))
            y = ops.quantized(y, f"{name}.reduce")
            y = ops.relu(ops.convolution(y, f"{name}.middle", Window(stride, 1)))
            y = ops.quantized(y, f"{name}.middle")
            y = ops.convolution(y, f"{name}.expand", Window())
            y = ops.quantized(y, f"{name}.expand", summand=True)
            if before != 4 * inside:
                x = ops.convolution(x, f"{name}.shortcut", Window(stride))
                x = ops.quantized(x, f"{name}.shortcut")
            x = ops.quantized(ops.relu(ops.add(y, x)), f"{name}.sum")
        return ops.linear(ops.quantized(ops.mean(x), "mean"), "classes")


# Factor that channels grow by inside, channels after, how many, and the first one's stride.
MOBILE_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


@dataclass(frozen=True)
class MobileNet:
    """MobileNetV2, batch normalization folded into the convolutions.

    Parameters
    ----------
    side, classes : int
    width : int
        Channels of the first convolution, 32 in the paper; the others are in proportion.
    stages : int
        How many of `MOBILE_STAGES`.
    """

    side: int = 224
    width: int = 32
    classes: int = 1000
    stages: int = len(MOBILE_STAGES)

    def __str__(self) -> str:
        convolutions = 2 + sum(
            3 if inside > before else 2 for _, before, inside, *_ in self._plan()
        )
        return f"{convolutions} convolutions, {self.side}x{self.side}"

    def _channels(self, of_the_paper: int) -> int:
        return of_the_paper * self.width // 32

    def _plan(self) -> list[tuple[str, int, int, int, int]]:
        """Name, channels before, inside and after, and stride, of each block."""
        made = []
        before = self.width
        for stage, (factor, channels, count, stride) in enumerate(MOBILE_STAGES[: self.stages]):
            after = self._channels(channels)
            for i in range(count):
                step = 1 if i else stride
                made.append((f"{stage}.{i}", before, before * factor, after, step))
                before = after
        return made

    def arrays(self) -> dict[str, Array]:
        made = Weights()
        made.convolution("stem", self.width, 3, 3)
        for name, before, inside, after, _ in self._plan():
            if inside > before:
                made.convolution(f"{name}.expand", inside, before, 1)
            made.convolution(f"{name}.depthwise", inside, 1, 3)
            made.convolution(f"{name}.project", after, inside, 1, gain=1)
        last = self._channels(1280)
        made.convolution("last", last, self._plan()[-1][3], 1)
        made.linear("classes", last, self.classes)
        return made.arrays

    def inputs(self) -> dict[str, Array]:
        return {"x": image(self.side)}

    def output_shape(self) -> tuple[int, ...]:
        return (1, self.classes)

    def run(self, ops: Ops, *inputs: Any) -> Any:
        def convolved(x: Any, name: str, window: Window) -> Any:
            return ops.quantized(ops.relu6(ops.convolution(x, name, window)), name)

        x = convolved(ops.quantized(inputs[0], "image"), "stem", Window(2, 1))
        for name, before, inside, after, stride in self._plan():
            y = convolved(x, f"{name}.expand", Window()) if inside > before else x
            y = convolved(y, f"{name}.depthwise", Window(stride, 1, inside))
            y = ops.convolution(y, f"{name}.project", Window())
            if stride == 1 and before == after:
                y = ops.add(ops.quantized(y, f"{name}.project", summand=True), x)
            x = ops.quantized(y, f"{name}.sum")
        x = ops.mean(convolved(x, "last", Window()))
        return ops.linear(ops.quantized(x, "mean"), "classes")


@dataclass(frozen=True)
class Llama:
    """A block of Llama's kind, in the sizes of Llama 3.2 1B.

    RMSNorm, rotated positions, heads of keys that query heads share, SwiGLU. With `cached` tokens
    the keys and values of those are inputs.
    """

    tokens: int = 128
    cached: int = 0
    hidden: int = 2048
    count_heads: int = 32
    key_heads: int = 8
    inner: int = 8192

    def __str__(self) -> str:
        s = "s" * (self.tokens != 1)
        after = f" after {self.cached}" if self.cached else ""
        return f"{self.hidden} wide, {self.tokens} token{s}{after}"

    @property
    def _size(self) -> int:
        return self.hidden // self.count_heads

    def arrays(self) -> dict[str, Array]:
        made = Weights()
        widths = {"query": self.hidden, "key": self.key_heads * self._size, "out": self.hidden}
        for name, width in (widths | {"value": widths["key"]}).items():
            made.linear(name, self.hidden, width, bias=False)
        made.linear("gate", self.hidden, self.inner, bias=False)
        made.linear("up", self.hidden, self.inner, bias=False)
        made.linear("down", self.inner, self.hidden, bias=False)
        made.norm("norm1", self.hidden, bias=False)
        made.norm("norm2", self.hidden, bias=False)
        positions = np.arange(self.cached, self.cached + self.tokens)[:, None]
        speeds = 500000.0 ** -(np.arange(self._size) % (self._size // 2) * 2 / self._size)
        made.arrays["rotation.cos"] = np.cos(positions * speeds).astype(np.float32)
        made.arrays["rotation.sin"] = np.sin(positions * speeds).astype(np.float32)
        return made.arrays

    def inputs(self) -> dict[str, Array]:
        made = {"x": normal(1, 1, self.tokens, self.hidden)}
        if self.cached:
            shape = (1, self.key_heads, self.cached, self._size)
            made |= {"keys": normal(2, *shape), "values": normal(3, *shape)}
        return made

    def output_shape(self) -> tuple[int, ...]:
        return (1, self.tokens, self.hidden)

    def run(self, ops: Ops, *inputs: Any) -> Any:
        x, *past = inputs
        y = ops.rms_norm(x, "norm1")
        query = ops.rotated(ops.heads(ops.linear(y, "query"), self.count_heads), "rotation")
        key = ops.rotated(ops.heads(ops.linear(y, "key"), self.key_heads), "rotation")
        value = ops.heads(ops.linear(y, "value"), self.key_heads)
        seen = ops.attention(query, key, value, causal=True, past=past or None)
        x = ops.add(x, ops.linear(ops.merged(seen), "out"))
        y = ops.rms_norm(x, "norm2")
        gated = ops.multiply(ops.silu(ops.linear(y, "gate")), ops.linear(y, "up"))
        return ops.add(x, ops.linear(gated, "down"))


@dataclass(frozen=True)
class Attention:
    """Attention with a causal mask, alone."""

    count_heads: int = 12
    tokens: int = 512
    size: int = 64

    def __str__(self) -> str:
        return f"1x{self.count_heads}x{self.tokens}x{self.size}, causal"

    def arrays(self) -> dict[str, Array]:
        return {}

    def inputs(self) -> dict[str, Array]:
        shape = self.output_shape()
        return {name: normal(i, *shape) for i, name in enumerate(("query", "key", "value"))}

    def output_shape(self) -> tuple[int, ...]:
        return (1, self.count_heads, self.tokens, self.size)

    def run(self, ops: Ops, *inputs: Any) -> Any:
        return ops.attention(*inputs, causal=True)


@dataclass(frozen=True)
class Mlp:
    """Products of rows by square weights, each with ReLU behind it."""

    rows: int = 32
    width: int = 256
    layers: int = 6

    def __str__(self) -> str:
        return f"{self.layers} of {self.rows}x{self.width}x{self.width}, ReLU"

    def arrays(self) -> dict[str, Array]:
        weights = Weights()
        for i in range(self.layers):
            weights.linear(str(i), self.width, self.width)
        return weights.arrays

    def inputs(self) -> dict[str, Array]:
        return {"x": normal(0, self.rows, self.width)}

    def output_shape(self) -> tuple[int, ...]:
        return (self.rows, self.width)

    def run(self, ops: Ops, *inputs: Any) -> Any:
        (x,) = inputs
        for i in range(self.layers):
            x = ops.relu(ops.linear(x, str(i)))
        return x


@dataclass(frozen=True)
class Convolution:
    """A convolution with bias and ReLU, as one network or another has it.

    Parameters
    ----------
    network : str
        The network.
    dims : list of int
        Channels, then spatial dims.
    outputs : int
        Channels of the result.
    """

    network: str
    dims: tuple[int, ...]
    outputs: int
    kernel: int
    stride: int = 1
    padding: int = 0
    groups: int = 1
    dilation: int = 1
    transposed: bool = False

    def __str__(self) -> str:
        sizes = "x".join(map(str, self.dims))
        return f"{self.network}, {sizes} to {self.outputs}, kernel {self.kernel}"

    def arrays(self) -> dict[str, Array]:
        weights = Weights()
        channels = self.dims[0] // self.groups
        rank = len(self.dims) - 1
        weights.convolution("0", self.outputs, channels, self.kernel, rank=rank)
        if self.transposed:
            weights.arrays["0.weight"] = weights.arrays["0.weight"].swapaxes(0, 1).copy()
        return weights.arrays

    def inputs(self) -> dict[str, Array]:
        return {"x": normal(0, 1, *self.dims)}

    def output_shape(self) -> tuple[int, ...]:
        span = self.dilation * (self.kernel - 1) + 1
        sizes = (
            (n - 1) * self.stride + span - 2 * self.padding
            if self.transposed
            else (n + 2 * self.padding - span) // self.stride + 1
            for n in self.dims[1:]
        )
        return (1, self.outputs, *sizes)

    def run(self, ops: Ops, *inputs: Any) -> Any:
        how = (self.stride, self.padding, self.groups, self.dilation, self.transposed)
        return ops.relu(ops.convolution(inputs[0], "0", Window(*how)))


NETWORKS: dict[str, Callable[..., Network]] = {
    "encoder": Encoder,
    "resnet": ResNet,
    "mobilenet": MobileNet,
    "llama": Llama,
    "decode": partial(Llama, tokens=1, cached=512),
    "attention": Attention,
    "mlp": Mlp,
    "convolutions": Convolution,
}


def parameters_of(network: Network, dtype: str, largest: int = 127) -> Parameters:
    """Weights as the data type holds them, and ranges for int8."""
    arrays = network.arrays()
    if dtype == "bf16":
        for name, values in arrays.items():
            # oneDNN takes a layer normalization's parameters in f32 only.
            if ".norm" not in name:
                arrays[name] = values.astype(ml_dtypes.bfloat16).astype(np.float32)
    made = Parameters(arrays, dtype, largest=largest)
    if dtype == "int8":
        network.run(NumpyOps(made, calibrate=True), *network.inputs().values())
        # What is pooled keeps its range.
    return made


def inputs_of(network: Network, dtype: str) -> dict[str, Array]:
    """In float32, but only numbers that the data type holds."""
    return {k: stored(v, dtype).astype(np.float32) for k, v in network.inputs().items()}


def reference(network: Network, parameters: Parameters) -> Array:
    """The right output, in float32."""
    inputs = inputs_of(network, parameters.dtype)
    made: Array = network.run(NumpyOps(parameters), *inputs.values())
    return made


def weight_bytes(parameters: Parameters) -> float:
    """Bytes of all matrices as the data type has them; a call of one token reads each once."""
    size = {"f32": 4, "bf16": 2, "int8": 1, "w8": 1, "w4": 0.5}[parameters.dtype]
    matrices = [a for n, a in parameters.arrays.items() if n.endswith(".weight") and a.ndim == 2]
    return sum(a.size for a in matrices) * size


# How far, relative to the length of the vector of all outputs, an answer may be from NumPy's.
TOLERANCE = {"f32": 1e-4, "bf16": 5e-2, "int8": 5e-2, "w8": 5e-2, "w4": 5e-2}


def distance(output: Array, expected: Array) -> float:
    """Of two answers, relative; nan where shapes differ."""
    if output.shape != expected.shape:
        return math.nan
    difference = output.astype(np.float64) - expected
    return float(np.linalg.norm(difference) / np.linalg.norm(expected))
