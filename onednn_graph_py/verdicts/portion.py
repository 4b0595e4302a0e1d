"""Choose the part of a partition's results to compare, if the reference would take long for all.

oneDNN runs the whole partition; the reference computes a part. Along many axes an index of the
result depends only on the same index of the inputs: the batch, the rows and columns of a product,
the output channels of a convolution. We may leave out any of these indices. Windows slide along
spatial axes; there the reference computes one end, and we compare the results whose windows reach
no omitted element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ..ops.lookup import row, with_attribute, with_trait
from .subject import Operation, Subject

__all__ = ["Picks", "Portion", "part_of", "portion_for", "seconds_of", "shapes_of"]

Array = npt.NDArray[Any]
Place = tuple[int, int]
"""A tensor and one of its axes."""
Picks = Mapping[Place, npt.NDArray[np.int64]]
"""The indices that the reference computes, for each place where it omits some."""

# Seconds of the reference, with the samples of stochastic arithmetic, for each operation, each
# element that an op reads, and each element that it makes.
_OPERATION, _READ, _MADE = 1e-9, 5e-8, 4e-7
_FEWEST = 4
"""The fewest indices to keep of an axis: the first, the last and some between."""


@dataclass(frozen=True)
class Portion:
    """A part of the results.

    Parameters
    ----------
    picks : mapping of (int, int) to numpy.ndarray
        The indices that the reference computes, for each tensor and axis where some are omitted.
    right : mapping of (int, int) to (int, int)
        Their range, begin and end, in which results equal those of the whole partition.
    """

    picks: Picks
    right: Mapping[Place, tuple[int, int]]

    def of(self, array: Array, tensor: int) -> Array:
        """Take the elements of a tensor that the reference computes."""
        for axis in range(array.ndim):
            if (tensor, axis) in self.picks:
                array = np.take(array, self.picks[tensor, axis], axis)
        return array

    def compared(self, tensor: int, shape: Sequence[int]) -> tuple[slice, ...]:
        """Return the slices of a computed tensor that may be compared."""
        return tuple(slice(*self.right.get((tensor, a), (0, n))) for a, n in enumerate(shape))


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


def _concat(op: _Op) -> Ties:
    axis = op.attr("axis") % max(op.rank(op.outputs[0]), 1)
    return _aligned(op, (*op.inputs, *op.outputs), [axis])


def _quantization(op: _Op) -> Ties:
    return _aligned(op, (op.inputs[0], op.outputs[0]))


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
    "Concat": _concat,
    "ConvTranspose": _convolution,
    "Convolution": _convolution,
    "Dequantize": _quantization,
    "DynamicDequantize": _dynamic_quantization,
    "DynamicQuantize": _dynamic_quantization,
    "GroupNorm": _batch,
    "Interpolate": _batch_and_channel,
    "LayerNorm": _normalization,
    "LogSoftmax": _softmax,
    "MatMul": _matmul,
    "MaxPool": _batch_and_channel,
    "Quantize": _quantization,
    "RMSNorm": _normalization,
    "SoftMax": _softmax,
    "StaticReshape": _reshape,
    "StaticTranspose": _transpose,
}
"""For each kind of op, the tied axes along which it computes each index independently."""


@dataclass(frozen=True)
class _Link:
    """A window that slides along a source's axis and makes a result's axis."""

    source: Place
    made: Place
    extent: int
    stride: int
    begin: int


_SLIDING = with_attribute("kernel") - with_trait("gradient") | {"Convolution"}


def _links(op: _Op) -> Iterator[_Link]:
    if op.kind not in _SLIDING:
        return
    if op.attr("auto_pad") not in (None, "None") or op.attr("rounding_type") == "ceil":
        return
    source, dst = op.inputs[0], op.outputs[0]
    rank = op.rank(source) - 2
    if op.kind == "Convolution":
        weights = op.shapes[op.inputs[1]]
        kernel = weights[:rank] if op.attr("weights_format").startswith("X") else weights[2:]
    else:
        kernel = op.attr("kernel")
    first = 1 if op.attr("data_format") == "NXC" else 2
    dilations = op.attr("dilations") or (1,) * rank
    for i in range(rank):
        extent = dilations[i] * (kernel[i] - 1) + 1
        yield _Link(
            (source, first + i),
            (dst, first + i),
            extent,
            op.attr("strides")[i],
            op.attr("pads_begin")[i],
        )


class _Spatial:
    """Groups of places along which windows slide, tied to each other by those windows.

    For each element omitted from the result of a window with stride s, s elements are omitted from
    its source, so that the shapes still fit together.
    """

    def __init__(self, groups: list[frozenset[Place]], links: Sequence[_Link]) -> None:
        self.groups, self.links = groups, links
        self.at = {place: i for i, members in enumerate(groups) for place in members}
        ratio: dict[int, Fraction] = {0: Fraction(1)}
        self.fits = True
        for _ in groups:
            for link in links:
                source, made = self.at[link.source], self.at[link.made]
                if made in ratio:
                    wanted = ratio[made] * link.stride
                    self.fits &= ratio.setdefault(source, wanted) == wanted
                elif source in ratio:
                    ratio[made] = ratio[source] / link.stride
        scale = math.lcm(*(r.denominator for r in ratio.values()))
        self.drops = [int(ratio.get(i, Fraction(0)) * scale) for i in range(len(groups))]

    def most(self, subject: Subject) -> int:
        """Return how many times the smallest part can be omitted."""
        return min(
            (subject.tensors[t].shape[a] - 1) // drop
            for members, drop in zip(self.groups, self.drops, strict=True)
            for t, a in list(members)[:1]
            if drop
        )

    def right(self, subject: Subject, times: int, last: bool) -> dict[Place, tuple[int, int]]:
        """Return the range of right elements of each place, if some are omitted at one end.

        If `last`, the last elements stay and the first are omitted; else the reverse.
        """
        count = {
            place: subject.tensors[place[0]].shape[place[1]] - times * self.drops[i]
            for place, i in self.at.items()
        }
        found: dict[Place, tuple[int, int]] = {}
        linked = {link.made: link for link in self.links}
        for op in subject.ops:
            read = [p for p in self.at if p[0] in op.inputs]
            for place in read:
                found.setdefault(place, (0, count[place]))
            for place in (p for p in self.at if p[0] in op.outputs):
                link = linked.get(place)
                if link is None:
                    same = [found[p] for p in read if self.at[p] == self.at[place]]
                    begin = max((b for b, _ in same), default=0)
                    end = min((e for _, e in same), default=count[place])
                elif last:
                    begin = -(-(found[link.source][0] + link.begin) // link.stride)
                    end = count[place]
                else:
                    begin = 0
                    reach = found[link.source][1] - link.extent + link.begin
                    end = min(reach // link.stride + 1, count[place])
                found[place] = (begin, end)
        return found


def _axes_of(subject: Subject) -> tuple[list[list[Place]], list[_Spatial]]:
    """Return groups of places where any index may be omitted, and those that windows tie."""
    every = [
        (t, axis)
        for t, tensor in enumerate(subject.tensors)
        for axis, size in enumerate(tensor.shape)
        if size > 1
    ]
    size_at = {(t, a): subject.tensors[t].shape[a] for t, a in every}
    group: dict[Place, set[Place]] = {place: {place} for place in every}
    fixed: set[Place] = set()
    links: list[_Link] = []
    for op in subject.ops:
        its = _Op(subject, op)
        slid = [k for k in _links(its) if k.source in group and k.made in group]
        links += slid
        tied: set[Place] = {p for k in slid for p in (k.source, k.made)}
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
    distinct = [frozenset(members) for members in {id(g): g for g in group.values()}.values()]
    free = [g for g in distinct if not g & fixed]
    windowed = {p for link in links for p in (link.source, link.made)}
    independent = [sorted(g) for g in free if not g & windowed]
    return independent, list(_spatial(distinct, links, fixed))


def _spatial(
    groups: Sequence[frozenset[Place]], links: Sequence[_Link], fixed: set[Place]
) -> Iterator[_Spatial]:
    """Yield groups that windows connect, unless an op computes along them in another way."""
    left = [g for g in groups if any(k.source in g or k.made in g for k in links)]
    while left:
        together = [left.pop()]
        grown = True
        while grown:
            places = frozenset().union(*together)
            mine = [k for k in links if k.source in places or k.made in places]
            more = [g for g in left if any(k.source in g or k.made in g for k in mine)]
            left = [g for g in left if g not in more]
            together += more
            grown = bool(more)
        made = _Spatial(together, mine)
        if made.fits and not places & fixed:
            yield made


def part_of(op: Operation, shapes: Mapping[int, tuple[int, ...]], picks: Picks) -> dict[str, Any]:
    """Return an op's attributes for a part of its tensors."""
    attrs = dict(op.attrs)
    if op.kind == "StaticReshape":
        attrs["shape"] = list(shapes[op.outputs[0]])
    if op.kind in with_attribute("zps") and attrs.get("qtype") == "per_channel":
        axis = row(op.kind).value_of("axis", attrs) % len(shapes[op.inputs[0]])
        picked = picks.get((op.inputs[0], axis))
        if picked is not None:
            for name in ("scales", "zps"):
                if len(attrs.get(name, ())) > 1:
                    attrs[name] = [attrs[name][i] for i in picked]
    return attrs


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
        given = [shapes[t] for t in op.inputs]
        made = [shapes[t] for t in op.outputs]
        operations = row(op.kind).flop(given, made, dict(op.attrs))
        total += _OPERATION * operations
        total += _READ * sum(map(math.prod, given)) + _MADE * sum(map(math.prod, made))
    return total


def portion_for(subject: Subject, seconds: float) -> Portion:
    """Omit indices until the reference takes at most this number of seconds, if possible.

    First omit one end of spatial axes: keep the last elements of the innermost one, where windows
    meet the remainder of a row, and the first of others. Then halve the longest other axis
    repeatedly, but keep its first and last index.
    """
    independent, spatial = _axes_of(subject)
    shape_of = {t: tensor.shape for t, tensor in enumerate(subject.tensors)}
    picks: dict[Place, npt.NDArray[np.int64]] = {}
    right: dict[Place, tuple[int, int]] = {}

    def seconds_now() -> float:
        return seconds_of(subject, shapes_of(subject, picks))

    innermost = max((link.made[1] for s in spatial for link in s.links), default=0)
    for share in (Fraction(1, 2), Fraction(3, 4), Fraction(7, 8), Fraction(1)):
        for each in spatial:
            if seconds_now() <= seconds:
                break
            last = any(link.made[1] == innermost for link in each.links)
            for times in range(int(each.most(subject) * share), 0, -1):
                found = each.right(subject, times, last)
                if all(e - b >= 2 for (t, _), (b, e) in found.items() if t in subject.outputs):
                    right.update(found)
                    for (t, a), i in each.at.items():
                        drop = times * each.drops[i]
                        size = shape_of[t][a]
                        kept = np.arange(drop, size) if last else np.arange(size - drop)
                        picks[t, a] = kept.astype(np.int64)
                    break
    random = np.random.default_rng(0)
    while independent and seconds_now() > seconds:
        counts = [len(picks.get(g[0], range(shape_of[g[0][0]][g[0][1]]))) for g in independent]
        longest = counts.index(max(counts))
        if counts[longest] <= _FEWEST:
            break
        size = shape_of[independent[longest][0][0]][independent[longest][0][1]]
        count = max(counts[longest] // 2, _FEWEST)
        between = 1 + random.choice(size - 2, count - 2, replace=False)
        chosen = np.sort(np.concatenate([[0, size - 1], between])).astype(np.int64)
        picks.update(dict.fromkeys(independent[longest], chosen))
    return Portion(picks, right)
