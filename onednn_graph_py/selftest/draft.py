"""Graphs drawn at random: `Draft`, which the families share."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ..building.builder import GraphBuilder
from ..building.value import Value
from ..filling import fill_inputs
from ..machine.cpu import lacks
from ..ops.lookup import with_trait
from ..reference import round_to

__all__ = ["BINARY", "Arrays", "Dims", "Draft"]

Arrays = list[npt.NDArray[Any]]
Dims = tuple[int, ...]
_T = TypeVar("_T")

BINARY = tuple(sorted(with_trait("epilogue", "binary")))
"""The documents' category Binary."""
_UNARY: tuple[tuple[str, dict[str, float]], ...] = (
    ("Abs", {}),
    ("Clamp", {"min": -1.0, "max": 1.5}),
    ("Elu", {"alpha": 0.5}),
    ("GELU", {}),
    ("HardSigmoid", {"alpha": 0.2, "beta": 0.5}),
    ("HardSwish", {}),
    ("LeakyReLU", {"alpha": 0.1}),
    ("Mish", {}),
    ("ReLU", {}),
    ("Sigmoid", {}),
    ("SoftPlus", {}),
    ("Square", {}),
    ("Tanh", {}),
)


class Draft:
    """A graph in the making, and the random numbers that decide about it.

    The same family and seed draw the same graph on every CPU, except for data types: a type for
    which the CPU has no kernels becomes f32.

    Parameters
    ----------
    family : str
    seed : int
    fpmath_mode : str
        The builder's mode.
    """

    def __init__(self, family: str, seed: int, fpmath_mode: str = "strict") -> None:
        self.seed = seed
        self.random = random.Random(f"{family} {seed}")
        self.numbers = np.random.default_rng(seed)
        self.b = GraphBuilder(fpmath_mode=fpmath_mode)

    # -- decisions

    def chance(self, share: float) -> bool:
        """Return True in this share of all cases."""
        return self.random.random() < share

    def pick(self, choices: Sequence[_T]) -> _T:
        """Return one of the choices."""
        return self.random.choice(choices)

    def float_type(self) -> str:
        """Draw a floating-point data type that runs here."""
        drawn = self.pick(("f32", "f32", "bf16", "bf16", "f16"))
        return drawn if lacks(drawn) is None else "f32"

    def zero_point(self, dtype: str) -> int:
        """Draw a zero point, half of the time 0."""
        drawn = self.pick((0, 0, 3, 7))
        return drawn if dtype == "u8" else -drawn

    def broadcast(self, shape: Dims) -> Dims:
        """Draw a shape that broadcasts to `shape` along any dims; it may lack leading ones."""
        kept = [d if self.chance(0.5) else 1 for d in shape]
        while len(kept) > 1 and kept[0] == 1 and self.chance(0.4):
            del kept[0]
        return tuple(kept)

    def strides(self, shape: Dims) -> Dims:
        """Draw strides of a tensor whose dims have any order in memory, maybe with gaps."""
        order = list(range(len(shape)))
        self.random.shuffle(order)
        made, step = [0] * len(shape), 1
        for axis in order:
            made[axis] = step
            step *= shape[axis] + (2 if self.chance(0.2) else 0)
        return tuple(made)

    # -- tensors

    def input(self, shape: Dims, dtype: str, *, strided: bool = False) -> Value:
        """Add an input, row-major unless it is to be `strided`."""
        return self.b.input(shape, dtype, strides=self.strides(shape) if strided else None)

    def parameter(self, shape: Dims, dtype: str, terms: int = 1) -> Value:
        """Add an input or a constant; a constant's floats are scaled for sums of `terms` terms."""
        if self.chance(0.6):
            return self.input(shape, dtype)
        if dtype in ("s8", "u8"):
            low = -127 if dtype == "s8" else 0
            whole = self.numbers.integers(low, low + 255, shape)
            return self.b.constant(whole.astype(np.int8 if dtype == "s8" else np.uint8))
        array = self.numbers.uniform(0.5, 2.0, shape) * self.numbers.choice((-1, 1), shape)
        return self.b.constant(round_to(array / math.sqrt(terms), dtype), dtype)

    def dequantized(
        self, shape: Dims, dtype: str, *, zero_point: int = 0, axis: int | None = None, of: str
    ) -> Value:
        """Add a quantized tensor, dequantized to the type `of`; per channel along `axis`."""
        y: Value
        quantized = self.parameter(shape, dtype) if axis is not None else self.input(shape, dtype)
        if axis is None:
            y = quantized.dequantize(qtype="per_tensor", scales=[2.0**-5], zps=[zero_point])
        else:
            scales = [2.0 ** -self.random.randint(5, 7) for _ in range(shape[axis])]
            y = quantized.dequantize(
                qtype="per_channel", axis=axis, scales=scales, zps=[0] * len(scales)
            )
        return y if of == "f32" else y.type_cast(dtype=of)

    def quantized(self, y: Value) -> Value:
        """Quantize a tensor to integers, by steps of a power of two."""
        dtype = self.pick(("s8", "u8"))
        zero = self.zero_point(dtype)
        if y.dtype != "f32":
            y = y.type_cast(dtype="f32")
        return y.quantize(dtype=dtype, qtype="per_tensor", scales=[2.0**-4], zps=[zero])

    # -- ops

    def op(self, kind: str, *inputs: Value, **attrs: Any) -> Value:
        """Add an op with one output."""
        made: Value = self.b.op(kind, *inputs, **attrs)
        return made

    def unary(self, x: Value) -> Value:
        """Add an elementwise op."""
        kind, attrs = self.pick(_UNARY)
        return self.op(kind, x, **attrs)

    def binary(self, x: Value) -> Value:
        """Add an op of two tensors; the other one broadcasts along any dims, or none."""
        kind = self.pick(BINARY)
        shape = x.shape or ()
        other = self.parameter(shape if self.chance(0.2) else self.broadcast(shape), x.dtype)
        turned = kind != "Divide" and self.chance(0.15)
        return self.op(kind, *((other, x) if turned else (x, other)))

    def chain(self, x: Value, most: int) -> Value:
        """Add up to `most` elementwise and binary ops."""
        for _ in range(self.random.randint(0, most)):
            x = self.binary(x) if self.chance(0.7) else self.unary(x)
        return x

    def made(self, *outputs: Value) -> tuple[GraphBuilder, Arrays]:
        """Return the graph with these outputs, and arrays for its inputs."""
        self.b.output(*outputs)
        return self.b, fill_inputs(self.b, self.seed)
