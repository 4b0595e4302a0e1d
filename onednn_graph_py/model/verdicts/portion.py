"""Choose the part of a partition's results to compare, if the reference would take long for all.

oneDNN runs the whole partition; the reference computes a part. Along many axes an index of the
result depends only on the same index of the inputs: the batch, the rows and columns of a product,
the output channels of a convolution. We may leave out any of these indices.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ops.lookup import row, with_attribute, with_trait
from .subject import Operation, Subject

Array = npt.NDArray[Any]
Place = tuple[int, int]  # a tensor and one of its axes
Picks = Mapping[Place, npt.NDArray[np.int64]]
"""The indices that the reference computes, for each place where it omits some."""

# Seconds of the reference, with the samples of stochastic arithmetic, for each operation, each
# element that an op reads, and each element that it makes.
_OPERATION, _READ, _MADE = 1e-9, 5e-8, 4e-7
_FEWEST = 4  # the fewest indices to keep of an axis: the first, the last and some between


class _Op:
    """An op with its attributes and shapes."""

    def __init__(self, subject: Subject, op: Operation) -> None:
        self.kind = op.kind
        self.inputs, self.outputs = op.inputs, op.outputs
        self.row = row(op.kind)
        self.attrs = dict(op.attrs)
        self.shapes = {t: subject.tensors[t].shape for t in (*op.inputs, *op.outputs)}

    def attr(self, name: str) -> Any:
        return self.row.value_of(name, self.attrs)

    def rank(self, tensor: int) -> int:
        return len(self.shapes[tensor])


Ties = Iterable[Sequence[Place]]


def _aligned(op: _Op, tensors: Sequence[int], skipped: Sequence[int] = ()) -> Iterator[list[Place]]:
    """Yield the axes that broadcast to each axis of the first output, except skipped ones."""
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
    # Without groups output channels are independent; channel by channel, inputs are tied to them.
    channels = op.shapes[source][_channel_axis(op, source)]
    depthwise = op.attr("groups") == channels == op.shapes[dst][_channel_axis(op, dst)]
    if op.attr("groups") == 1 or depthwise:
        order = op.attr("weights_format")
        axis = order.index("I" if depthwise and op.kind == "ConvTranspose" else "O")
        axis += op.rank(weights) - 3 if order.startswith("X") else 0
        tie = [(weights, axis), (dst, _channel_axis(op, dst)), *((t, 0) for t in op.inputs[2:3])]
        yield [*tie, *([(source, _channel_axis(op, source))] if depthwise else [])]


def _batch_and_channel(op: _Op) -> Ties:
    source, dst = op.inputs[0], op.outputs[0]
    yield [(source, 0), (dst, 0)]
    yield [(source, _channel_axis(op, source)), (dst, _channel_axis(op, dst))]


def _batch(op: _Op) -> Ties:
    yield [(op.inputs[0], 0), (op.outputs[0], 0)]


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
    """Tie the leading dims that a reshape keeps, and the trailing ones."""
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


def _along_an_axis(op: _Op) -> Ties:
    axis = op.attr("axis") % max(op.rank(op.outputs[0]), 1)
    return _aligned(op, (*op.inputs, *op.outputs), [axis])


def _dynamic_quantization(op: _Op) -> Ties:
    source, scales, dst = op.inputs[0], op.inputs[1], op.outputs[0]
    if op.attr("qtype") != "per_group":
        axis = op.attr("axis") % max(op.rank(source), 1)
        skipped = [axis] if op.attr("qtype") == "per_channel" else []
        yield from _aligned(op, (source, dst), skipped)
        return
    for axis, size in enumerate(op.shapes[source]):
        if all(op.rank(t) > axis and op.shapes[t][axis] == size for t in (source, *op.inputs[1:])):
            yield [(t, axis) for t in (source, scales, dst, *op.inputs[2:])]


_TIES: Mapping[str, Callable[[_Op], Ties]] = {
    # Gradients are always computed completely.
    **dict.fromkeys(with_trait("elementwise") - with_trait("gradient"), _elementwise),
    **dict.fromkeys(with_trait("reduces"), _reduce),
    "AvgPool": _batch_and_channel,
    "BatchNormInference": _batch_norm,
    "Concat": _along_an_axis,
    "ConvTranspose": _convolution,
    "Convolution": _convolution,
    "Dequantize": _elementwise,
    "DynamicDequantize": _dynamic_quantization,
    "DynamicQuantize": _dynamic_quantization,
    "GroupNorm": _batch,
    "Interpolate": _batch_and_channel,
    "LayerNorm": _normalization,
    "LogSoftmax": _along_an_axis,
    "MatMul": _matmul,
    "MaxPool": _batch_and_channel,
    "Quantize": _elementwise,
    "RMSNorm": _normalization,
    "SoftMax": _along_an_axis,
    "StaticReshape": _reshape,
    "StaticTranspose": _transpose,
}
"""For each kind of op, the tied axes along which it computes each index independently."""


def _independent(subject: Subject) -> list[list[Place]]:
    """Return groups of places where the same indices may be omitted."""
    every = [
        (t, axis)
        for t, tensor in enumerate(subject.tensors)
        for axis, size in enumerate(tensor.shape)
        if size > 1
    ]
    group: dict[Place, set[Place]] = {place: {place} for place in every}
    fixed: set[Place] = set()
    for op in subject.ops:
        its = _Op(subject, op)
        tied: set[Place] = set()
        for tie in _TIES[op.kind](its) if op.kind in _TIES else ():
            places = [p for p in tie if p in group]
            if len({subject.tensors[t].shape[axis] for t, axis in places}) > 1:
                continue
            tied.update(places)
            merged = set().union(*(group[p] for p in places))
            group.update(dict.fromkeys(merged, merged))
        fixed.update(p for p in every if p[0] in {*op.inputs, *op.outputs} and p not in tied)
    distinct = {id(g): g for g in group.values()}.values()
    return [sorted(g) for g in distinct if not g & fixed]


def part_of(op: Operation, shapes: Mapping[int, tuple[int, ...]], picks: Picks) -> dict[str, Any]:
    """Return an op's attributes for a part of its tensors."""
    attrs = dict(op.attrs)
    if op.kind == "StaticReshape":
        attrs["shape"] = list(shapes[op.outputs[0]])
    if op.kind in with_attribute("weights_format"):
        last = row(op.kind).value_of("data_format", attrs) == "NXC"
        channels = picks.get((op.inputs[0], len(shapes[op.inputs[0]]) - 1 if last else 1))
        if channels is not None:  # which are omitted only where each is a group
            attrs["groups"] = len(channels)
    if op.kind in with_attribute("zps") and attrs.get("qtype") == "per_channel":
        axis = row(op.kind).value_of("axis", attrs) % len(shapes[op.inputs[0]])
        picked = picks.get((op.inputs[0], axis))
        if picked is not None:
            for name in ("scales", "zps"):
                if len(attrs.get(name, ())) > 1:
                    attrs[name] = [attrs[name][i] for i in picked]
    return attrs


def picked(array: Array, tensor: int, picks: Picks) -> Array:
    """Take the elements of a tensor that the reference computes."""
    for axis in range(array.ndim):
        if (tensor, axis) in picks:
            array = np.take(array, picks[tensor, axis], axis)
    return array


def shapes_of(subject: Subject, picks: Picks) -> dict[int, tuple[int, ...]]:
    """Return the shapes of all tensors without the omitted indices."""
    return {
        t: tuple(
            len(picks[t, axis]) if (t, axis) in picks else size
            for axis, size in enumerate(tensor.shape)
        )
        for t, tensor in enumerate(subject.tensors)
    }


def seconds_of(subject: Subject, shapes: Mapping[int, tuple[int, ...]]) -> float:
    """Estimate the seconds that the reference takes, with its samples."""
    total = 0.0
    for op in subject.ops:
        read = [shapes[t] for t in op.inputs]
        written = [shapes[t] for t in op.outputs]
        total += _OPERATION * row(op.kind).flop(read, written, dict(op.attrs))
        total += _READ * sum(map(math.prod, read)) + _MADE * sum(map(math.prod, written))
    return total


def picks_for(subject: Subject, seconds: float) -> Picks:
    """Omit indices until the reference takes at most this number of seconds, if possible.

    The longest axis is halved repeatedly, but keeps its first and last index.
    """
    independent = _independent(subject)
    sizes = [subject.tensors[g[0][0]].shape[g[0][1]] for g in independent]
    counts = list(sizes)
    picks: dict[Place, npt.NDArray[np.int64]] = {}
    random = np.random.default_rng(0)
    while (
        max(counts, default=0) > _FEWEST
        and seconds_of(subject, shapes_of(subject, picks)) > seconds
    ):
        longest = counts.index(max(counts))
        size, count = sizes[longest], max(counts[longest] // 2, _FEWEST)
        between = 1 + random.choice(size - 2, count - 2, replace=False)
        chosen = np.sort(np.concatenate([[0, size - 1], between])).astype(np.int64)
        picks.update(dict.fromkeys(independent[longest], chosen))
        counts[longest] = count
    return picks
