"""Which part of a partition's results to compare, where the reference for all would take long.

Along many axes each index is computed by itself: the batch, the rows and columns of a product, the
output channels of a convolution. oneDNN runs the partition as it is; of such axes the reference
computes some indices only, from as many of the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..ops.check import row
from .subject import Operation, Subject

__all__ = ["Picks", "part_of", "picks_for", "seconds_of", "shapes_of"]

Place = tuple[int, int]
"""A tensor and one of its axes."""
Picks = Mapping[Place, npt.NDArray[np.int64]]
"""The indices that are compared, for each place where not all are."""

# Seconds that the reference takes, with the samples of stochastic arithmetic: for an operation of
# a product, and for an element of any op.
_OPERATION = 2.5e-9
_ELEMENT = 8e-7
_FEWEST = 4
"""Indices of an axis: the first, the last and some between."""


class _Op:
    """An op with its attributes and shapes."""

    def __init__(self, subject: Subject, op: Operation) -> None:
        self.kind = op.kind
        self.inputs, self.outputs = op.inputs, op.outputs
        self.row = row(op.kind)
        self.attrs = dict(op.attrs)
        self.shapes = {t: subject.tensors[t].shape for t in (*op.inputs, *op.outputs)}

    def attr(self, name: str) -> Any:
        if name in self.attrs:
            return self.attrs[name]
        known = self.row.attribute(name)
        return None if known is None else known.default

    def rank(self, tensor: int) -> int:
        return len(self.shapes[tensor])


Ties = Iterable[Sequence[Place]]


def _aligned(op: _Op, tensors: Sequence[int], skipped: Sequence[int] = ()) -> Iterator[list[Place]]:
    """The axes of tensors that are broadcast, but some of the first output's."""
    rank = op.rank(op.outputs[0])
    for axis in range(rank):
        if axis not in skipped:
            places = ((t, axis - rank + op.rank(t)) for t in tensors)
            yield [(t, a) for t, a in places if a >= 0]


def _elementwise(op: _Op) -> Ties:
    return _aligned(op, (*op.inputs, *op.outputs))


def _matmul(op: _Op) -> Ties:
    source, weights, dst = op.inputs[0], op.inputs[1], op.outputs[0]
    if min(op.rank(source), op.rank(weights)) < 2:
        return
    a = op.rank(source) - (1 if op.attr("transpose_a") else 2)
    b = op.rank(weights) - (2 if op.attr("transpose_b") else 1)
    rank = op.rank(dst)
    yield [(source, a), (dst, rank - 2)]
    bias = [(t, op.rank(t) - 1) for t in op.inputs[2:]]
    yield [(weights, b), (dst, rank - 1), *bias]
    for back in range(3, rank + 1):
        yield [(t, op.rank(t) - back) for t in (source, weights, dst) if op.rank(t) >= back]


def _channel_axis(op: _Op, tensor: int) -> int:
    return op.rank(tensor) - 1 if op.attr("data_format") == "NXC" else 1


def _convolution(op: _Op) -> Ties:
    source, weights, dst = op.inputs[0], op.inputs[1], op.outputs[0]
    yield [(source, 0), (dst, 0)]
    if op.attr("groups") == 1:
        made = op.attr("weights_format").index("O")
        spatial = op.rank(weights) - 2
        axis = made + spatial - 1 if op.attr("weights_format").startswith("X") else made
        yield [(weights, axis), (dst, _channel_axis(op, dst)), *((t, 0) for t in op.inputs[2:3])]


def _batch_and_channel(op: _Op) -> Ties:
    source, dst = op.inputs[0], op.outputs[0]
    yield [(source, 0), (dst, 0)]
    yield [(source, _channel_axis(op, source)), (dst, _channel_axis(op, dst))]


def _batch(op: _Op) -> Ties:
    yield [(op.inputs[0], 0), (op.outputs[0], 0)]


def _softmax(op: _Op) -> Ties:
    axis = op.attr("axis") % max(op.rank(op.inputs[0]), 1)
    return _aligned(op, (op.inputs[0], *op.outputs), [axis])


def _normalization(op: _Op) -> Ties:
    source = op.inputs[0]
    axis = op.attr("begin_norm_axis")
    first = (-1 if axis is None else axis) % max(op.rank(source), 1)
    for a in range(first):
        yield [(source, a), *((t, a) for t in op.outputs if op.rank(t) > a)]


def _batch_norm(op: _Op) -> Ties:
    source, dst = op.inputs[0], op.outputs[0]
    channel = _channel_axis(op, source)
    for axis in range(op.rank(source)):
        parameters = [(t, 0) for t in op.inputs[1:]] if axis == channel else []
        yield [(source, axis), (dst, axis), *parameters]


def _reduce(op: _Op) -> Ties:
    source, dst = op.inputs[0], op.outputs[0]
    rank = op.rank(source)
    if len(op.inputs) > 1 or op.attr("axes") is None:
        return
    gone = {a % max(rank, 1) for a in op.attr("axes")}
    kept = [a for a in range(rank) if a not in gone]
    for position, axis in enumerate(kept):
        yield [(source, axis), (dst, axis if op.attr("keep_dims") else position)]


def _transpose(op: _Op) -> Ties:
    source, dst = op.inputs[0], op.outputs[0]
    for axis, of in enumerate(op.attr("order")):
        yield [(source, of % op.rank(source)), (dst, axis)]


def _reshape(op: _Op) -> Ties:
    """Dims that are the same before and after, from the first on and back from the last."""
    source, dst = op.inputs[0], op.outputs[0]
    before, after = op.shapes[source], op.shapes[dst]
    first = 0
    while first < min(len(before), len(after)) and before[first] == after[first]:
        yield [(source, first), (dst, first)]
        first += 1
    last = 1
    while last <= min(len(before), len(after)) - first and before[-last] == after[-last]:
        yield [(source, len(before) - last), (dst, len(after) - last)]
        last += 1


def _concat(op: _Op) -> Ties:
    axis = op.attr("axis") % max(op.rank(op.outputs[0]), 1)
    return _aligned(op, (*op.inputs, *op.outputs), [axis])


def _quantization(op: _Op) -> Ties:
    """What scales are for one channel each is left whole, as the attribute has them."""
    axes = [op.attr("axis") % max(op.rank(op.inputs[0]), 1)]
    return _aligned(op, (op.inputs[0], op.outputs[0]), axes if _by_channel(op) else ())


def _by_channel(op: _Op) -> bool:
    return bool(op.attr("qtype") == "per_channel")


def _dynamic_quantization(op: _Op) -> Ties:
    source, scales, dst = op.inputs[0], op.inputs[1], op.outputs[0]
    if op.attr("qtype") != "per_group":
        yield from _quantization(op)
        return
    for axis, size in enumerate(op.shapes[source]):
        if all(op.rank(t) > axis and op.shapes[t][axis] == size for t in (source, *op.inputs[1:])):
            yield [(t, axis) for t in (source, scales, dst, *op.inputs[2:])]


_ELEMENTWISE = (
    *("Abs", "Add", "Clamp", "Divide", "Elu", "Exp", "GELU", "GreaterEqual", "HardSigmoid"),
    *("HardSwish", "LeakyReLU", "Log", "Maximum", "Minimum", "Mish", "Multiply", "Pow", "ReLU"),
    *("Reciprocal", "Reorder", "Round", "Select", "Sigmoid", "SoftPlus", "Sqrt", "Square"),
    *("SquaredDifference", "Subtract", "Tanh", "TypeCast"),
)
_REDUCTIONS = tuple(f"Reduce{r}" for r in ("L1", "L2", "Max", "Mean", "Min", "Prod", "Sum"))

_TIES: Mapping[str, Callable[[_Op], Ties]] = {
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
    **dict.fromkeys(_REDUCTIONS, _reduce),
    **dict.fromkeys(("SoftMax", "LogSoftmax"), _softmax),
    **dict.fromkeys(("LayerNorm", "RMSNorm"), _normalization),
    **dict.fromkeys(("AvgPool", "MaxPool", "Interpolate"), _batch_and_channel),
    **dict.fromkeys(("Convolution", "ConvTranspose"), _convolution),
    **dict.fromkeys(("Quantize", "Dequantize"), _quantization),
    **dict.fromkeys(("DynamicQuantize", "DynamicDequantize"), _dynamic_quantization),
    "BatchNormInference": _batch_norm,
    "Concat": _concat,
    "GroupNorm": _batch,
    "MatMul": _matmul,
    "StaticReshape": _reshape,
    "StaticTranspose": _transpose,
}
"""Axes along which each index is computed by itself, together: by kind of op; none for others."""


def _independent(subject: Subject) -> list[list[Place]]:
    """Places of one axis each, of which any indices may be left out."""
    every = [
        (t, axis)
        for t, tensor in enumerate(subject.tensors)
        for axis, size in enumerate(tensor.shape)
        if size > 1
    ]
    size_at = {(t, a): subject.tensors[t].shape[a] for t, a in every}
    group: dict[Place, set[Place]] = {place: {place} for place in every}
    fixed: set[Place] = set()
    for op in subject.ops:
        its = _Op(subject, op)
        tied: set[Place] = set()
        for tie in _TIES[op.kind](its) if op.kind in _TIES else ():
            places = [p for p in tie if p in group]
            if len({size_at[p] for p in places}) > 1:
                continue
            tied.update(places)
            merged = set().union(*(group[p] for p in places))
            for place in merged:
                group[place] = merged
        tensors = {*op.inputs, *op.outputs}
        fixed.update(p for p in every if p[0] in tensors and p not in tied)
    distinct = {id(members): members for members in group.values()}
    return [sorted(members) for members in distinct.values() if not members & fixed]


def part_of(op: Operation, shapes: Mapping[int, tuple[int, ...]]) -> dict[str, Any]:
    """An op's attributes where its tensors have these shapes."""
    attrs = dict(op.attrs)
    if op.kind == "StaticReshape":
        attrs["shape"] = list(shapes[op.outputs[0]])
    return attrs


def shapes_of(subject: Subject, picks: Picks) -> dict[int, tuple[int, ...]]:
    """Of all tensors, as far as they are compared."""
    return {
        t: tuple(
            len(picks[t, axis]) if (t, axis) in picks else size
            for axis, size in enumerate(tensor.shape)
        )
        for t, tensor in enumerate(subject.tensors)
    }


def seconds_of(subject: Subject, shapes: Mapping[int, tuple[int, ...]]) -> float:
    """About how long the reference takes, with its samples."""
    total = 0.0
    for op in subject.ops:
        given = [shapes[t] for t in op.inputs]
        made = [shapes[t] for t in op.outputs]
        operations = row(op.kind).flop(given, made, part_of(op, shapes))
        elements = sum(int(np.prod(s)) for s in (*given, *made))
        total += _OPERATION * operations + _ELEMENT * elements
    return total


def picks_for(subject: Subject, seconds: float, seed: int = 0) -> Picks:
    """Leave out indices until the reference takes no longer, as far as that goes.

    The longest axes go first, each to half of its indices; the first and the last index stay.
    """
    groups = _independent(subject)
    counts = [subject.tensors[g[0][0]].shape[g[0][1]] for g in groups]
    sizes = list(counts)

    def shapes() -> dict[int, tuple[int, ...]]:
        found = {t: list(tensor.shape) for t, tensor in enumerate(subject.tensors)}
        for group, count in zip(groups, counts, strict=True):
            for t, axis in group:
                found[t][axis] = count
        return {t: tuple(shape) for t, shape in found.items()}

    while seconds_of(subject, shapes()) > seconds:
        longest = max(range(len(groups)), key=lambda i: counts[i], default=None)
        if longest is None or counts[longest] <= _FEWEST:
            break
        counts[longest] = max(counts[longest] // 2, _FEWEST)
    random = np.random.default_rng(seed)
    picks: dict[Place, npt.NDArray[np.int64]] = {}
    for group, count, size in zip(groups, counts, sizes, strict=True):
        if count < size:
            between = 1 + random.choice(size - 2, count - 2, replace=False)
            chosen = np.sort(np.concatenate([[0, size - 1], between])).astype(np.int64)
            picks.update(dict.fromkeys(group, chosen))
    return picks
