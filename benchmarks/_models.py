"""The networks that run.py measures, each written once for all libraries.

A network is a function over `Ops`, a handful of operations that every library has an
implementation of in _peers.py. So all of them compute the same thing, from the same numbers, and
what they answer can be compared. NumPy's implementation, here, says what is right; it also finds
the ranges that the int8 networks quantize with.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Ops(Protocol):
    """What networks are made of; a tensor is whatever the library has for one.

    Activations are (1, tokens, hidden) or (1, channels, height, width). `name` says which of the
    parameters an operation uses.
    """

    def linear(self, x: Any, name: str) -> Any:
        """x @ weight + bias."""

    def heads(self, x: Any, count: int) -> Any:
        """(1, tokens, hidden) to (1, count, tokens, hidden / count)."""

    def merged(self, x: Any) -> Any:
        """The inverse of `heads`."""

    def attention(self, query: Any, key: Any, value: Any) -> Any:
        """softmax(query @ key.T / sqrt(size)) @ value."""

    def layer_norm(self, x: Any, name: str) -> Any: ...

    def gelu(self, x: Any) -> Any: ...

    def relu(self, x: Any) -> Any: ...

    def add(self, x: Any, y: Any) -> Any: ...

    def convolution(self, x: Any, name: str, stride: int, padding: int) -> Any:
        """With bias."""

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
        f32, bf16 or int8.
    ranges : mapping of str to (low, high)
        Of what goes through 8 bits.
    """

    arrays: Mapping[str, Array]
    dtype: str
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)

    def activation(self, name: str) -> tuple[float, bool]:
        """The scale, and whether there are negative numbers."""
        low, high = self.ranges[name]
        # Exactly what a float32 holds, so that all libraries get the same.
        scale = max(-low, high) / 127 if low < 0 else high / 255
        return float(np.float32(scale)), low < 0

    def weight(self, name: str) -> tuple[Array, Array, int]:
        """8-bit integers, a scale for each output channel, and the axis of those."""
        values = self.arrays[f"{name}.weight"]
        axis = 0 if values.ndim == 4 else 1
        others = tuple(i for i in range(values.ndim) if i != axis)
        scales = (np.abs(values).max(others) / 127).astype(np.float32)
        spread = scales.reshape([-1 if i == axis else 1 for i in range(values.ndim)])
        return np.rint(values / spread).astype(np.int8), scales, axis


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
        if self.parameters.dtype != "int8":
            return self.arrays[f"{name}.weight"]
        integers, scales, axis = self.parameters.weight(name)
        return integers * scales.reshape([-1 if i == axis else 1 for i in range(integers.ndim)])

    def linear(self, x: Array, name: str) -> Array:
        return x @ self._weight(name) + self.arrays[f"{name}.bias"]

    def heads(self, x: Array, count: int) -> Array:
        return x.reshape(1, x.shape[1], count, -1).transpose(0, 2, 1, 3)

    def merged(self, x: Array) -> Array:
        return x.transpose(0, 2, 1, 3).reshape(1, x.shape[2], -1)

    def attention(self, query: Array, key: Array, value: Array) -> Array:
        scores = query @ key.swapaxes(-1, -2) / np.float32(math.sqrt(query.shape[-1]))
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        made: Array = weights / weights.sum(-1, keepdims=True) @ value
        return made

    def layer_norm(self, x: Array, name: str) -> Array:
        centered = x - x.mean(-1, keepdims=True)
        normal = centered / np.sqrt(np.square(centered).mean(-1, keepdims=True) + EPSILON)
        made: Array = normal * self.arrays[f"{name}.weight"] + self.arrays[f"{name}.bias"]
        return made

    def gelu(self, x: Array) -> Array:
        erf = np.frompyfunc(math.erf, 1, 1)(x.astype(np.float64) / math.sqrt(2))
        return (x * (1 + erf.astype(np.float32)) / 2).astype(np.float32)

    def relu(self, x: Array) -> Array:
        return np.maximum(x, 0)

    def add(self, x: Array, y: Array) -> Array:
        made: Array = x + y
        return made

    def _windows(self, x: Array, kernel: int, stride: int, padding: int, border: float) -> Array:
        sides = [(0, 0), (0, 0), (padding, padding), (padding, padding)]
        padded = np.pad(x, sides, constant_values=border)
        windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (2, 3))
        return windows[:, :, ::stride, ::stride]

    def convolution(self, x: Array, name: str, stride: int, padding: int) -> Array:
        weight = self._weight(name)
        windows = self._windows(x, weight.shape[-1], stride, padding, 0)[0]
        height, width = windows.shape[1:3]
        columns = windows.transpose(0, 3, 4, 1, 2).reshape(-1, height * width)
        made = weight.reshape(len(weight), -1) @ columns + self.arrays[f"{name}.bias"][:, None]
        return made.reshape(1, -1, height, width)

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

    def input(self) -> Array:
        """Random input, in float32."""

    def output_shape(self) -> tuple[int, ...]: ...

    def open_shape(self) -> tuple[int, ...]:
        """The input's, with -1 for what `other` changes."""

    def other(self) -> Network:
        """The same for another shape of the input."""

    def run(self, ops: Ops, x: Any) -> Any:
        """Compute."""


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
        random = np.random.default_rng(0)
        made: dict[str, Array] = {}

        def linear(name: str, inputs: int, outputs: int) -> None:
            weight = random.standard_normal((inputs, outputs), np.float32)
            made[f"{name}.weight"] = weight / np.float32(math.sqrt(inputs))
            made[f"{name}.bias"] = random.standard_normal(outputs, np.float32) / 10

        def norm(name: str) -> None:
            made[f"{name}.weight"] = 1 + random.standard_normal(self.hidden, np.float32) / 10
            made[f"{name}.bias"] = random.standard_normal(self.hidden, np.float32) / 10

        for i in range(self.layers):
            for part in ("query", "key", "value", "out"):
                linear(f"{i}.{part}", self.hidden, self.hidden)
            norm(f"{i}.norm1")
            linear(f"{i}.inner", self.hidden, self.inner)
            linear(f"{i}.outer", self.inner, self.hidden)
            norm(f"{i}.norm2")
        return made

    def input(self) -> Array:
        return np.random.default_rng(1).standard_normal((1, self.tokens, self.hidden), np.float32)

    def output_shape(self) -> tuple[int, ...]:
        return (1, self.tokens, self.hidden)

    def open_shape(self) -> tuple[int, ...]:
        return (1, -1, self.hidden)

    def other(self) -> Encoder:
        return Encoder(self.layers, self.tokens * 3 // 4, self.hidden, self.count_heads, self.inner)

    def run(self, ops: Ops, x: Any) -> Any:
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
        random = np.random.default_rng(0)
        made: dict[str, Array] = {}

        def add(name: str, *shape: int, fan: int, gain: float = 2) -> None:
            weight = random.standard_normal(shape, np.float32)
            made[f"{name}.weight"] = weight * np.float32(math.sqrt(gain / fan))
            outputs = shape[0] if len(shape) == 4 else shape[1]
            made[f"{name}.bias"] = random.standard_normal(outputs, np.float32) / 10

        add("stem", self.width, 3, 7, 7, fan=3 * 49)
        for name, inside, _, before in self._plan():
            outside = 4 * inside
            add(f"{name}.reduce", inside, before, 1, 1, fan=before)
            add(f"{name}.middle", inside, inside, 3, 3, fan=inside * 9)
            # Small, or the residual sums grow without bounds.
            add(f"{name}.expand", outside, inside, 1, 1, fan=inside, gain=0.2)
            if before != outside:
                add(f"{name}.shortcut", outside, before, 1, 1, fan=before, gain=1)
        last = (self.width << (len(self.blocks) - 1)) * 4
        add("classes", last, self.classes, fan=last, gain=1)
        return made

    def input(self) -> Array:
        return np.random.default_rng(1).random((1, 3, self.side, self.side), np.float32)

    def output_shape(self) -> tuple[int, ...]:
        return (1, self.classes)

    def open_shape(self) -> tuple[int, ...]:
        return (1, 3, -1, -1)

    def other(self) -> ResNet:
        return ResNet(self.blocks, self.side * 3 // 4, self.width, self.classes)

    def run(self, ops: Ops, x: Any) -> Any:
        x = ops.quantized(x, "image")
        x = ops.quantized(ops.relu(ops.convolution(x, "stem", 2, 3)), "stem")
        # In int8, pooling takes and gives the same 8 bits.
        x = ops.quantized(ops.max_pool(x, 3, 2, 1), "stem")
        for name, inside, stride, before in self._plan():
            y = ops.relu(ops.convolution(x, f"{name}.reduce", 1, 0))
            y = ops.quantized(y, f"{name}.reduce")
            y = ops.relu(ops.convolution(y, f"{name}.middle", stride, 1))
            y = ops.quantized(y, f"{name}.middle")
            y = ops.convolution(y, f"{name}.expand", 1, 0)
            y = ops.quantized(y, f"{name}.expand", summand=True)
            if before != 4 * inside:
                x = ops.convolution(x, f"{name}.shortcut", stride, 0)
                x = ops.quantized(x, f"{name}.shortcut")
            x = ops.quantized(ops.relu(ops.add(y, x)), f"{name}.sum")
        return ops.linear(ops.quantized(ops.mean(x), "mean"), "classes")


def parameters_of(network: Network, dtype: str) -> Parameters:
    """Weights as the data type holds them, and ranges for int8."""
    arrays = network.arrays()
    if dtype == "bf16":
        for name, values in arrays.items():
            # oneDNN takes a layer normalization's parameters in f32 only.
            if ".norm" not in name:
                arrays[name] = values.astype(ml_dtypes.bfloat16).astype(np.float32)
    made = Parameters(arrays, dtype)
    if dtype == "int8":
        network.run(NumpyOps(made, calibrate=True), network.input())
        # What is pooled keeps its range.
    return made


def input_of(network: Network, dtype: str) -> Array:
    """In float32, but only numbers that the data type holds."""
    return stored(network.input(), dtype).astype(np.float32)


def reference(network: Network, parameters: Parameters) -> Array:
    """The right output, in float32."""
    made: Array = network.run(NumpyOps(parameters), input_of(network, parameters.dtype))
    return made


# How far, relative to the length of the vector of all outputs, an answer may be from NumPy's.
TOLERANCE = {"f32": 1e-4, "bf16": 5e-2, "int8": 5e-2}


def distance(output: Array, expected: Array) -> float:
    """Of two answers, relative; nan where shapes differ."""
    if output.shape != expected.shape:
        return math.nan
    difference = output.astype(np.float64) - expected
    return float(np.linalg.norm(difference) / np.linalg.norm(expected))
