"""Graphs drawn at random: `Draft`, the words that all draws share.

Draws are uneven on purpose: no two entries of a list are equal if it can be helped, tensors have
any order in memory, and operands broadcast along any dims.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ...base.errors import OneDNNError
from ...base.linked import linked_version
from ...machine.cpu import lacks
from ...model.building.builder import GraphBuilder
from ...model.building.infer import infer_shapes
from ...model.building.value import Value, is_whole
from ...model.checking.filling import fill_inputs, fills_of
from ...ops.lookup import row, with_trait
from ...reference import round_to

Arrays = list[npt.NDArray[Any]]
Dims = tuple[int, ...]
_T = TypeVar("_T")

_SIZES = (1, 2, 2, 3, 3, 4, 5, 5, 6, 7, 8, 9, 13, 16, 17)
CALLS = 3  # sizes of an unknown dim, each for a call
_MOST = 6000  # elements of a drawn shape
_F8 = ("f8_e4m3", "f8_e5m2")
_EIGHT = ("s8", "u8", "s8", "u8", *_F8)
_WHOLE = {"s8": (-64, 65), "u8": (0, 128), "s4": (-8, 8), "u4": (0, 16)}
"""The numbers of constants: from the first on, and below the second."""


class Open(int):
    """A dim that is unknown when a graph is built, and has another size in each call."""

    sizes: tuple[int, ...]

    def __new__(cls, sizes: Sequence[int]) -> Open:
        """Make a dim of the first size."""
        dim = super().__new__(cls, sizes[0])
        dim.sizes = tuple(sizes)
        return dim


def sized(shape: Iterable[int], call: int) -> Dims:
    """Return a shape as it is in one of the calls."""
    return tuple(d.sizes[call] if isinstance(d, Open) else int(d) for d in shape)


def merged(shapes: Sequence[Dims]) -> Dims:
    """Return a shape that is each of these in its call."""
    return tuple(d[0] if len(set(d)) == 1 else Open(d) for d in zip(*shapes, strict=True))


@dataclass
class Drawn:
    """A graph, and its inputs for several calls."""

    builder: GraphBuilder
    # Arrays of the inputs, of other sizes in each call if dims are unknown.
    calls: list[Arrays]
    # Ways to compile it: several models live at a time. `forms` says whether groups run in a form
    # that is faster, or always if one fits.
    options: Sequence[Mapping[str, Any]] = ({},)


def inputs_of(builder: GraphBuilder, seed: int, shapes: Mapping[str, Dims] | None = None) -> Arrays:
    """Make arrays for a graph's inputs: some with ties and zeros, some large, small or strided.

    `shapes` has those of inputs by name, where dims are unknown.
    """
    chance = random.Random(seed)
    known = {v.id: tuple((shapes or {}).get(v.name, v.shape or ())) for v in builder.inputs}
    fills, arrays = fills_of(builder, known), fill_inputs(builder, seed, shapes)
    steep = any(n.kind in with_trait("steep") for n in builder.nodes)
    made = []
    for value, array in zip(builder.inputs, arrays, strict=True):
        fill = fills[value.id]
        how = chance.choice(("ties", "small", "plain", "plain", "strided", "large"))
        if fill.kind == "uniform" and -fill.low == fill.high:
            wide = array.astype(np.float32)
            if how == "ties":
                array = round_to(np.round(wide), value.dtype)
            elif how != "plain" and not (how == "large" and steep):
                factor = {"small": 2.0**-7, "large": 2.0**5}.get(how, 1.0)
                array = round_to(wide * np.float32(factor), value.dtype)
        if how == "strided" and not value.updated and array.ndim:
            array = np.asfortranarray(array)
        made.append(array)
    return made


class Draft:
    """A graph in the making, and the random numbers that decide about it.

    The same family and seed draw the same graph on every CPU, except for data types: a type for
    which the CPU has no kernels becomes f32.
    """

    def __init__(self, family: str, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(f"{family} {seed}")
        self.numbers = np.random.default_rng(seed)
        self.b = GraphBuilder()
        drawn = self.pick(("f32", "f32", "f32", "bf16", "f16"))
        self.dtype = drawn if lacks(drawn) is None else "f32"
        self.opens = self.chance(0.25)
        self.most = _MOST
        self.nan = False  # whether it may make NaN
        self.integers = False  # whether operands of several dims are dequantized
        self.given: dict[int, Dims] = {}  # shapes of inputs, by id
        self.filled: dict[int, Sequence[int]] = {}  # what fills an input in each call, by id

    # -- decisions

    def chance(self, share: float) -> bool:
        """Return True in this share of all cases."""
        return self.random.random() < share

    def pick(self, choices: Sequence[_T]) -> _T:
        """Return one of the choices."""
        return self.random.choice(choices)

    def uneven(self, n: int, choices: Sequence[_T]) -> tuple[_T, ...]:
        """Return n of the choices, each at most once as long as there are enough."""
        picks: list[_T] = []
        while len(picks) < n:
            picks += self.random.sample(choices, min(n - len(picks), len(choices)))
        return tuple(picks)

    def quantized_type(self, of: Sequence[str] = _EIGHT) -> str:
        """Draw a data type of quantized tensors."""
        drawn = self.pick(of)
        return drawn if lacks(drawn) is None else "s8"

    def divisor(self, n: int) -> int:
        """Draw the size or number of groups of n elements; 1 if their number is unknown."""
        fitting = [g for g in range(1, n + 1) if n % g == 0]
        return 1 if isinstance(n, Open) or not n else self.pick(fitting)

    def size(self, choices: Sequence[int] = _SIZES) -> int:
        """Draw a dim: sometimes one that is unknown until a call."""
        if self.opens and self.chance(0.3):
            return Open([self.pick(choices) for _ in range(CALLS)])
        return self.pick(choices)

    def dims(self, low: int, high: int) -> Dims:
        """Draw a shape of this many dims, of sizes that mostly differ."""
        rank = self.random.randint(low, high)
        while True:
            few = _SIZES if rank < 4 else _SIZES[:11]
            made = self.uneven(rank, few) if self.chance(0.6) else (0,) * rank
            made = tuple(d if d and not self.opens else self.size(few) for d in made)
            if self.chance(0.08):  # more than a tile, or a block of channels
                made = (*made[:-1], self.pick((33, 65, 66, 130)))
            if math.prod(max(sized([d], k)[0] for k in range(CALLS)) for d in made) <= self.most:
                return made

    def thinned(self, shape: Dims) -> Dims:
        """Draw a shape that broadcasts to another along any dims; it may lack leading ones."""
        kept = [d if self.chance(0.6) else 1 for d in shape]
        while len(kept) > 1 and kept[0] == 1 and self.chance(0.5):
            del kept[0]
        return tuple(kept)

    def beside(self, shape: Dims) -> Dims:
        """Draw a shape that broadcasts with another; both may grow by it, up to rank 6."""
        if self.chance(0.25):
            return shape
        thin = self.thinned(shape)
        if self.chance(0.3):  # dims of 1 grow, and leading ones come before
            thin = (*(1,) * (len(shape) - len(thin)), *thin)
            pairs = zip(thin, shape, strict=True)
            one = [(t, d == 1 and not isinstance(d, Open)) for t, d in pairs]
            thick = [self.size(_SIZES[:8]) if grows else t for t, grows in one]
            more = () if len(shape) > 5 or self.chance(0.6) else (self.pick((2, 3)),)
            return (*more, *thick)
        return thin

    # -- tensors

    def shape(self, value: Value) -> Dims:
        """Return a value's shape; unknown dims have their sizes by call."""
        if value.shape is not None and is_whole(value.shape):
            return value.shape
        shapes = [
            infer_shapes(self.b, {i: sized(s, k) for i, s in self.given.items()})[value.id]
            for k in range(CALLS)
        ]
        return merged(shapes)

    def alike(self, one: Value, other: Value) -> bool:
        """Return whether two tensors have the same shape in all calls."""
        return all(sized(self.shape(one), k) == sized(self.shape(other), k) for k in range(CALLS))

    def input(self, shape: Dims, dtype: str | None = None, *, strided: bool | None = None) -> Value:
        """Add an input, now and then one with its dims in another order in memory, or gaps."""
        declared = tuple(-1 if isinstance(d, Open) else d for d in shape)
        strided = self.chance(0.2) if strided is None else strided
        strides = None
        if strided and is_whole(declared) and shape:
            order = self.random.sample(range(len(shape)), len(shape))
            steps, step = [0] * len(shape), 1
            for axis in order:
                steps[axis] = step
                gap = self.chance(0.2) and dtype not in ("s4", "u4")  # two share a byte
                step *= shape[axis] + (self.pick((1, 2, 3)) if gap else 0)
            strides = steps
        value = self.b.input(declared, dtype or self.dtype, strides=strides)
        self.given[value.id] = shape
        return value

    def operand(
        self, shape: Dims, dtype: str | None = None, low: float = -2.0, high: float = 2.0
    ) -> Value:
        """Add an input, or a constant with numbers within bounds."""
        dtype = dtype or self.dtype
        if self.integers and len(shape) > 1 and dtype == self.dtype:
            if self.chance(0.3):
                return self.grouped(self.operand(shape, self.pick(("s4", "u4", "s8", "u8"))))
            axis = self.random.randrange(len(shape)) if self.chance(0.5) else None
            return self.dequantized(shape, self.quantized_type(("s8", "s8", "s8", *_F8)), axis)
        constant = not any(isinstance(d, Open) for d in shape)
        if not constant or self.chance(0.55):
            return self.input(shape, dtype)
        if dtype in _WHOLE:
            array: npt.NDArray[Any] = self.numbers.integers(*_WHOLE[dtype], shape)
        elif dtype == "boolean":
            array = self.numbers.random(shape) < 0.7
        else:
            array = self.numbers.uniform(low, high, shape)
        return self.b.constant(round_to(array, dtype), dtype)

    def positive(self, x: Value) -> Value:
        """Hold a tensor that an op made within positive bounds."""
        if x.producer is None:
            return x
        clamped: Value = self.b.op("Clamp", x, min=0.25, max=4.0)
        return clamped

    def scales(self, n: int, above: int = 0) -> list[float]:
        """Draw scales that differ: powers of two, so that no result is near a tie."""
        return [2.0 ** (e + above) for e in self.uneven(n, (-5, -4, -6, -3, -7))]

    def zps(self, n: int, dtype: str) -> list[int]:
        """Draw zero points that differ; or none, as symmetric quantization has."""
        if self.chance(0.5):
            return [0] * n
        drawn = self.uneven(n, (1, 3, 7, 12, 5, 9, 0))
        return [z + 100 if dtype == "u8" and self.chance(0.3) else z for z in drawn]

    def quantization(
        self, shape: Dims, dtype: str, axis: int | None = None, above: int = 0
    ) -> dict[str, Any]:
        """Draw the attributes of Quantize and Dequantize, per tensor or along an axis."""
        per_channel = axis is not None and shape[axis] != 0
        n = shape[axis] if axis is not None and per_channel else 1
        attrs: dict[str, Any] = {"qtype": "per_channel" if per_channel else "per_tensor"}
        if axis is not None and per_channel:
            attrs["axis"] = axis - len(shape) * self.chance(0.3)
        attrs["scales"] = self.scales(n, above)
        if dtype not in _F8:
            attrs["zps"] = self.zps(n, dtype)
        return attrs

    # -- ops

    def op(
        self, kind: str, *inputs: Value, dtype: str | None = None, count: int = 0, **attrs: Any
    ) -> Any:
        """Add an op; return its result, or several as a tuple."""
        outputs = [(None, None)] * count if count else None
        return self.b.add_op(kind, inputs, attrs, dtype=dtype, outputs=outputs)

    def has(self, kind: str) -> bool:
        """Return whether the linked oneDNN has an op."""
        return row(kind).since <= linked_version()

    def floats(self, y: Value) -> Value:
        """Cast a tensor to the main data type."""
        return y if y.dtype == self.dtype else y.type_cast(dtype=self.dtype)

    def dequantized(self, shape: Dims, dtype: str, axis: int | None = None) -> Value:
        """Add a tensor of integers, dequantized to the main data type."""
        axis = None if axis is None or isinstance(shape[axis], Open) else axis
        x = self.operand(shape, dtype)
        return self.floats(self.op("Dequantize", x, **self.quantization(shape, dtype, axis)))

    def grouped(self, x: Value) -> Value:
        """Dequantize integers of 4 or 8 bits with a scale for each group along a dim."""
        shape = self.shape(x)
        axis = self.random.randrange(len(shape) - 2, len(shape))
        size = self.divisor(shape[axis])
        many = (*shape[:axis], shape[axis] // size if size > 1 else shape[axis], *shape[axis + 1 :])
        known = not any(isinstance(d, Open) for d in many)
        if known and self.chance(0.5):
            numbers = round_to(self.numbers.uniform(2.0**-6, 2.0**-4, many), self.dtype)
            scales = self.b.constant(numbers, self.dtype)
        else:
            scales = self.input(many, strided=False)
        types = ("s4", "u4", "s32") if x.dtype in ("s4", "u4") else ("s8", "u8", "s32")
        zps = [self.input(many, self.pick(types), strided=False)] if self.chance(0.5) else []
        groups = [size if i == axis else 1 for i in range(len(shape))]
        floats: Value = self.op(
            "DynamicDequantize", x, scales, *zps, qtype="per_group", axis=axis, group_shape=groups
        )
        return floats

    def quantized(self, y: Value, axis: int | None = None, of: Sequence[str] = _EIGHT) -> Value:
        """Quantize a tensor to integers, or 8-bit floats."""
        shape, dtype = self.shape(y), self.quantized_type(of)
        axis = None if axis is None or isinstance(shape[axis], Open) else axis
        y = y if y.dtype == "f32" else y.type_cast(dtype="f32")
        # Larger scales than those of operands, or most of a product's elements would saturate.
        attrs = self.quantization(shape, dtype, axis, above=3)
        integers: Value = self.op("Quantize", y, dtype=dtype, **attrs)
        return integers

    def finished(self, *outputs: Value) -> Drawn:
        """Return the graph with these outputs, and arrays for its calls."""
        self.b.output(*outputs)
        known = all(is_whole(v.shape or ()) for v in self.b.inputs)
        calls = []
        for k in range(1 if known else CALLS):
            shapes = {v.id: sized(self.given[v.id], k) for v in self.b.inputs}
            with contextlib.suppress(OneDNNError):  # an attribute may fit one of the sizes only
                infer_shapes(self.b, shapes)
                named = {v.name: shapes[v.id] for v in self.b.inputs}
                calls.append(inputs_of(self.b, self.seed + k, named))
                for value, array in zip(self.b.inputs, calls[-1], strict=True):
                    if value.id in self.filled:
                        array[...] = self.filled[value.id][k]
        options = [
            {
                "layout": self.pick(("auto", "auto", "plain")),
                "policy": self.pick(("fusion", "fusion", "fusion", "debug")),
                **({"threads": 1} if self.chance(0.4) else {}),
                "tune": self.pick(("quick", "quick", "quick", "off", "full")),
                "forms": self.pick(("faster", "always")),
            }
            for _ in range(self.pick((1, 1, 2)))
        ]
        options[0]["policy"] = "fusion"
        return Drawn(self.b, calls, options)
