"""Arrays for a graph's inputs that give meaningful results.

Random numbers are not enough: a variance must be positive, scales are small, a mask of attention
scores is 0 or a large negative number, and a backward op's input that is the forward op's result
must be a possible one. The rules depend on the port's name in the op that reads the input.
Quantized integers have their type's whole range, unless results would saturate
(`integer_ranges`).

The numbers come from a counter-based generator (SplitMix64, Steele et al. 2014), so that an
exported C++ program makes the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ...base.arguments import need_instance, need_whole
from ...base.dtypes import HOST_DTYPES
from ...ops.lookup import row
from ...reference import round_to
from ..building.builder import GraphBuilder
from ..building.constant_arrays import unpacked
from ..building.foreign import ForeignNode
from ..building.infer import infer_shapes, known_shapes
from ..building.value import Node, Value
from .integer_ranges import HAND_ON, IntegerRange, fitted, range_of
from .magnitudes import Size, size_of, sizes

Array = npt.NDArray[Any]
Readers = Mapping[int, list[tuple[Node, int]]]

_MASKED = -1e4  # the mask's value that hides a score from SoftMax, within the range of f16


@dataclass(frozen=True)
class Fill:
    """The numbers to fill a tensor with."""

    # `uniform` between two numbers; `whole` numbers between them; `power of two` of such whole
    # numbers; `mostly true` (three of four, and the first of each row); `mask` of attention scores,
    # 0 or -1e4: causal to the bottom right, or for a single query the last quarter of the keys;
    # each further head or batch hides one more key
    kind: Literal["uniform", "whole", "power of two", "mostly true", "mask"]
    low: float = 0.0
    high: float = 0.0


_MASK = Fill("mask")
_TRUTH = Fill("mostly true")

# The fills by kind of op and name of port; a kind of "" stands for all others.
_RULES: Mapping[tuple[str, str], Fill] = {
    ("", "variance"): Fill("uniform", 0.5, 1.5),
    ("", "gamma"): Fill("uniform", 0.75, 1.25),
    ("", "beta"): Fill("uniform", -0.25, 0.25),
    ("", "mean"): Fill("uniform", -0.25, 0.25),
    ("", "scales"): Fill("power of two", -6, -4),
    ("", "zps"): Fill("whole", 0, 3),
    ("", "src/dst"): Fill("uniform", 0.125, 0.875),
    ("", "seed"): Fill("whole", 7, 7),
    ("", "offset"): Fill("whole", 3, 3),
    ("", "probability"): Fill("uniform", 0.5, 0.5),
    ("", "cond"): _TRUTH,
    ("Divide", "src_1"): Fill("uniform", 0.5, 2.0),
    ("Log", "src"): Fill("uniform", 0.5, 2.0),
    ("Pow", "src"): Fill("uniform", 0.5, 2.0),
    ("Reciprocal", "src"): Fill("uniform", 0.5, 2.0),
    ("ReduceProd", "src"): Fill("uniform", 0.5, 1.5),
    ("SoftMaxBackward", "dst"): Fill("uniform", 0.0, 1.0),
    ("LogSoftmaxBackward", "dst"): Fill("uniform", -4.0, -0.5),
    ("Sqrt", "src"): Fill("uniform", 0.125, 2.0),
}
_PLAIN = Fill("uniform", -2.0, 2.0)
_POSITION = Fill("whole", 0, 0)  # other integers are positions or similar
_FLOATS = ("f32", "bf16", "f16", "f8_e4m3", "f8_e5m2", "f64")
_QUANTIZED = ("s8", "u8", "s4", "u4")


# -- choosing numbers


def _readers(builder: GraphBuilder) -> Readers:
    readers: dict[int, list[tuple[Node, int]]] = {}
    for node in builder.nodes:
        if isinstance(node, ForeignNode):
            continue
        for i, value in enumerate(node.inputs):
            readers.setdefault(value.id, []).append((node, i))
    return readers


def _final_readers(value: Value, readers: Readers) -> Iterator[tuple[Node, int]]:
    for node, i in readers.get(value.id, ()):
        if node.kind in HAND_ON:  # the op that reads its result decides
            for made in node.outputs:
                yield from _final_readers(made, readers)
        else:
            yield node, i


def _masks_scores(node: Node, i: int, readers: Readers) -> bool:
    """Return whether an op adds its input `i` to attention scores."""
    other = node.inputs[1 - i].producer if node.kind == "Add" else None
    behind = {n.kind for n, _ in _final_readers(node.outputs[0], readers)}
    return other is not None and ("SoftMax" in behind or "Select" in behind)


def _weights(node: Node, shape: tuple[int, ...]) -> Fill:
    """Choose weights such that a sum of products is about as large as one input."""
    if node.kind == "MatMul" and len(shape) > 1:
        terms = shape[-1] if node.attr("transpose_b") else shape[-2]
    else:
        terms = math.prod(shape) // max(max(shape, default=1), 1)
    size = 2.0 ** round(math.log2(2 / math.sqrt(max(terms, 1))))
    return Fill("uniform", -size, size)


def _fill(value: Value, shape: tuple[int, ...], readers: Readers) -> Fill | IntegerRange:
    chosen = _PLAIN
    for node, i in _final_readers(value, readers):
        port = row(node.kind).port("inputs", i)
        name = port.name if port is not None else ""
        rule = _RULES.get((node.kind, name)) or _RULES.get(("", name))
        if rule is not None:
            return rule
        if _masks_scores(node, i, readers):
            return _MASK
        if name == "weights":
            chosen = _weights(node, shape)
    if value.dtype == "boolean":
        return _TRUTH
    if value.dtype in _QUANTIZED:
        return range_of(value, readers)
    return _POSITION if value.dtype not in _FLOATS else chosen


def _size(fill: Fill) -> Size:
    if fill.kind == "uniform" or fill.kind == "whole":
        return Size((fill.low + fill.high) / 2, (fill.high - fill.low) / math.sqrt(12))
    if fill.kind == "power of two":
        return Size(2.0 ** ((fill.low + fill.high) / 2), 0.0)
    return Size(0.0, 0.0)  # the values of a mask that hide nothing


def fills_of(
    builder: GraphBuilder, shapes: Mapping[int, tuple[int, ...]] | None = None
) -> dict[int, Fill]:
    """Choose numbers that suit each input; return them by the inputs' ids."""
    readers = _readers(builder)
    dims = {v.id: (shapes or {}).get(v.id, v.shape or ()) for v in builder.inputs}
    choices = {v.id: _fill(v, dims[v.id], readers) for v in builder.inputs}
    fills = {i: f for i, f in choices.items() if isinstance(f, Fill)}
    ranges = {i: f for i, f in choices.items() if isinstance(f, IntegerRange)}
    if ranges:
        known = {i: _size(f) for i, f in fills.items()}
        known |= {v.id: size_of(unpacked(v.data, v.shape, v.dtype)) for v in builder.constants}
        every = infer_shapes(builder, dims)
        ranges = fitted(builder.nodes, ranges, known, every)
        known |= {i: r.size for i, r in ranges.items()}
        fills |= _of_the_size_of_sums(builder, fills, readers, sizes(builder.nodes, known, every))
    return fills | {i: Fill("whole", *r.bounds) for i, r in ranges.items()}


def _of_the_size_of_sums(
    builder: GraphBuilder, fills: Mapping[int, Fill], readers: Readers, found: Mapping[int, Size]
) -> dict[int, Fill]:
    """Fill what is added to results of integers with numbers as large as they, so that it shows."""
    larger = {}
    for value in builder.inputs:
        for node, i in readers.get(value.id, ()):
            port = row(node.kind).port("inputs", i)
            added = node.kind == "Add" or (port is not None and port.name == "bias")
            if fills.get(value.id) != _PLAIN or not added:
                continue
            size = found[node.outputs[0].id].deviation
            if size > 2 * _PLAIN.high:
                limit = 2.0 ** round(math.log2(size))
                larger[value.id] = Fill("uniform", -limit, limit)
    return larger


def fill_of_constant(builder: GraphBuilder, value: Value) -> Fill:
    """Choose numbers for a constant of a builder whose values are not kept."""
    fill = _fill(value, value.shape or (), _readers(builder))
    if isinstance(fill, Fill):
        return fill
    elements = unpacked(value.data, value.shape, value.dtype)
    if not elements.size:
        return Fill("whole", *fill.bounds)
    return Fill("whole", float(elements.min()), float(elements.max()))


# -- making arrays


def _random(seed: int, number: int, count: int) -> npt.NDArray[np.uint64]:
    """Draw 64 random bits for each element by SplitMix64."""
    with np.errstate(over="ignore"):
        step = np.uint64(0x9E3779B97F4A7C15)
        start = np.uint64((seed << 32 ^ number) & 0xFFFFFFFFFFFFFFFF) * np.uint64(
            0xD1342543DE82EF95
        )
        z = start + (np.arange(count, dtype=np.uint64) + np.uint64(1)) * step
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed: npt.NDArray[np.uint64] = z ^ (z >> np.uint64(31))
        return mixed


def _mask(shape: tuple[int, ...]) -> Array:
    made = np.zeros(shape, np.float32)
    if len(shape) < 2:
        return made
    rows, columns = shape[-2:]
    # Heads get different masks, to show kernels that read the same mask for all heads.
    fewer = np.arange(math.prod(shape[:-2])) % max(columns // 2, 1)
    fewer = fewer.reshape(*shape[:-2], 1, 1)
    if rows == 1:
        kept = np.maximum(columns - columns // 4 - fewer, 1)
    else:
        kept = np.maximum(np.arange(rows)[:, None] + max(columns - rows, 0) - fewer, 0) + 1
    made[np.arange(columns) >= kept] = _MASKED
    return made


def filled(fill: Fill, shape: tuple[int, ...], dtype: str, *, seed: int, number: int) -> Array:
    """Make an array of the numbers that a fill describes.

    - `dtype`: oneDNN's name; bf16, 8-bit floats and 4-bit integers become ml_dtypes' types, the
      latter with a byte for each element
    - `seed`, `number`: the same seed and number give the same array; each tensor of a graph has a
      number
    """
    if fill.kind == "mask":
        return round_to(_mask(shape), dtype)
    bits = _random(seed, number, math.prod(shape)).reshape(shape)
    if fill.kind == "uniform":
        share = (bits >> np.uint64(40)).astype(np.float64) / 2.0**24
        array: Array = (fill.low + (fill.high - fill.low) * share).astype(np.float32)
    elif fill.kind == "mostly true":
        array = np.asarray((bits >> np.uint64(33)) % np.uint64(4) != 0)
        if shape and shape[-1]:
            array[..., 0] = True  # the softmax of a fully masked row is undefined
    else:
        many = np.uint64(int(fill.high) - int(fill.low) + 1)
        array = ((bits >> np.uint64(33)) % many).astype(np.int64) + int(fill.low)
        if fill.kind == "power of two":
            array = (2.0**array).astype(np.float32)
    host = HOST_DTYPES.get(dtype)
    return round_to(array, dtype) if host is None else array.astype(host)


def fill_inputs(
    builder: GraphBuilder, seed: int = 0, shapes: Mapping[str, tuple[int, ...]] | None = None
) -> list[Array]:
    """Make arrays for all inputs, in the order of a call.

    Parameters
    ----------
    builder : GraphBuilder
    seed : int
        The same seed gives the same arrays.
    shapes : mapping of str to tuple of int, optional
        Shapes of inputs with unknown dims, by name.

    Returns
    -------
    list of numpy.ndarray
        Arrays of the inputs' data types; 4-bit integers as ml_dtypes' types, a byte each.

    Raises
    ------
    InvalidArgumentsError
        There is no input of a name in `shapes`, or the seed is negative.
    InvalidShapeError
        Dims are unknown, or shapes do not fit the inputs.
    """
    need_instance("fill_inputs: builder", builder, GraphBuilder)
    seed = need_whole("fill_inputs: seed", seed, 0)
    known = known_shapes(builder, shapes)
    fills = fills_of(builder, known)
    return [
        filled(fills[v.id], known[v.id], v.dtype, seed=seed, number=i)
        for i, v in enumerate(builder.inputs)
    ]
