"""Estimates of the means and deviations of a graph's tensors, from those of its inputs.

They are right within a factor of about two, which is enough to choose inputs whose results neither
vanish nor saturate. We assume that elements are independent and normally distributed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...ops.lookup import row, with_trait
from ...reference.rounding import float_info, integer_limits, is_integer
from ..building.value import Node

_LARGEST = 1e30
_SAMPLE = 1 << 16
# Larger elements mask scores in attention, and say nothing about the size of the others.
_HOLDS_BACK = 1e3
# With larger deviations, results of SoftMax and similar ops are all 0 or 1, so they show no errors.
_STEEP_LIMIT = 4.0
_F16_LIMIT = 2.0**13

Shapes = Mapping[int, Sequence[int]]


class Size(NamedTuple):
    """The size of a tensor's elements."""

    mean: float
    deviation: float

    @property
    def square(self) -> float:
        """The mean square."""
        return self.mean**2 + self.deviation**2

    @property
    def reach(self) -> float:
        """The magnitude that few elements exceed by much."""
        return abs(self.mean) + self.deviation


def size_of(array: npt.NDArray[Any]) -> Size:
    """Return the size of known elements, without those that mask attention scores."""
    every = max(array.size // _SAMPLE, 1)  # large ones would take long
    known = array.reshape(-1)[::every].astype(np.float64)
    known = known[np.abs(known) < _HOLDS_BACK]
    return Size(float(known.mean()), float(known.std())) if known.size else Size(0.0, 0.0)


def quantization_parameters(node: Node) -> tuple[float, float]:
    """Return the root mean square of a node's scales, and the mean of its zero points."""
    scales, zps = node.attrs["scales"], node.attrs.get("zps") or (0,)
    return math.sqrt(sum(s * s for s in scales) / len(scales)), sum(zps) / len(zps)


def _bounded(mean: float, deviation: float) -> Size:
    return Size(max(-_LARGEST, min(mean, _LARGEST)), min(deviation, _LARGEST))


class _Use(NamedTuple):
    """An op, the sizes of its inputs, and its shapes."""

    node: Node
    given: Sequence[Size]
    inputs: Sequence[Sequence[int]]
    output: Sequence[int]


def _product(use: _Use) -> Size:
    """Return the size of a sum of products, with the bias."""
    one, other = use.given[:2]
    work = row(use.node.kind).flop(use.inputs, [use.output], use.node.attrs)
    terms = max(work // (2 * max(math.prod(use.output), 1)), 1)
    mean = terms * one.mean * other.mean
    square = terms * max(one.square * other.square - (one.mean * other.mean) ** 2, 0.0)
    for bias in use.given[2:]:
        mean, square = mean + bias.mean, square + bias.deviation**2
    return _bounded(mean, math.sqrt(square))


def _sum(use: _Use, sign: int = 1) -> Size:
    one, other = use.given[:2]
    return _bounded(one.mean + sign * other.mean, math.hypot(one.deviation, other.deviation))


def _multiply(use: _Use) -> Size:
    one, other = use.given[:2]
    mean = one.mean * other.mean
    return _bounded(mean, math.sqrt(max(one.square * other.square - mean**2, 0.0)))


def _divide(use: _Use) -> Size:
    one, by = use.given[0], max(math.sqrt(use.given[1].square), 1e-6)
    return _bounded(one.mean / by, one.deviation / by)


def _parameters(use: _Use) -> tuple[float, float]:
    if "scales" in use.node.attrs:
        return quantization_parameters(use.node)
    return math.sqrt(use.given[1].square), use.given[2].mean if len(use.given) > 2 else 0.0


def _dequantize(use: _Use) -> Size:
    scale, point = _parameters(use)
    return _bounded((use.given[0].mean - point) * scale, use.given[0].deviation * scale)


def _limits(dtype: str) -> tuple[float, float]:
    if is_integer(dtype):
        return integer_limits(dtype)
    largest = float(float_info(dtype).max)
    return -largest, largest


def _quantize(use: _Use) -> Size:
    scale, point = _parameters(use)
    low, high = _limits(use.node.outputs[0].dtype)
    scale = max(scale, 1e-30)
    mean = use.given[0].mean / scale + point
    return Size(max(low, min(mean, high)), min(use.given[0].deviation / scale, (high - low) / 2))


def _rectified(use: _Use) -> Size:
    """Return the size after an op that keeps positive inputs and makes negative ones small."""
    mean, deviation = use.given[0]
    if mean > 2 * deviation:
        return use.given[0]
    return Size(max(mean, 0.0) + 0.4 * deviation, 0.6 * deviation)


def _square(use: _Use) -> Size:
    mean, deviation = use.given[0]
    both = math.hypot(2 * mean * deviation, math.sqrt(2) * deviation**2)
    return _bounded(use.given[0].square, both)


def _exponential(use: _Use) -> Size:
    largest = math.exp(min(use.given[0].mean + use.given[0].deviation, 60.0))
    return Size(largest / 2, largest / 2)


def _root(use: _Use) -> Size:
    largest = math.sqrt(use.given[0].reach)
    return Size(largest, largest / 2)


def _probabilities(use: _Use) -> Size:
    """Return the size of probabilities: one element of a row is near 1, or all are small."""
    axis = use.node.attr("axis")
    count = use.output[axis] if use.output else 1
    return Size(1 / max(count, 1), 1 / max(count, 1))


def _constantly(mean: float, deviation: float) -> Callable[[_Use], Size]:
    return lambda use: Size(mean, deviation)


def _clamp(use: _Use) -> Size:
    low, high = use.node.attrs["min"], use.node.attrs["max"]
    mean, deviation = use.given[0]
    return Size(max(low, min(mean, high)), min(deviation, max(high - low, 0.0) / 2))


def _largest_of_window(use: _Use) -> Size:
    mean, deviation = use.given[0]
    return Size(mean + 1.5 * deviation, 0.6 * deviation)


def _mean_of_window(use: _Use) -> Size:
    mean, deviation = use.given[0]
    return Size(mean, deviation / math.sqrt(max(math.prod(use.node.attrs["kernel"]), 1)))


def _reduced(use: _Use) -> Size:
    mean, deviation = use.given[0]
    count = max(math.prod(use.inputs[0]) // max(math.prod(use.output), 1), 1)
    kind = use.node.kind
    if kind == "ReduceMean":
        return Size(mean, deviation / math.sqrt(count))
    if kind == "ReduceSum":
        return _bounded(count * mean, math.sqrt(count) * deviation)
    return _bounded(count * use.given[0].reach, math.sqrt(count) * deviation)


def _selected(use: _Use) -> Size:
    """Return the size of a Select's result; one of its two inputs may only mask scores."""
    return max(use.given[1:3], key=lambda s: s.reach if s.reach < _HOLDS_BACK else 0.0)


def _any_of(use: _Use) -> Size:
    return max(use.given, key=lambda s: s.reach)


def _unchanged(use: _Use) -> Size:
    return use.given[0] if use.given else Size(0.0, 1.0)


_RULES: Mapping[str, Callable[[_Use], Size]] = {
    **dict.fromkeys(with_trait("product"), _product),
    **dict.fromkeys(with_trait("normalizes"), _constantly(0.0, 1.0)),
    **dict.fromkeys(with_trait("rectifies"), _rectified),
    **dict.fromkeys(with_trait("dequantizes"), _dequantize),
    **dict.fromkeys(with_trait("quantizes"), _quantize),
    "Abs": _rectified, "Add": _sum, "AvgPool": _mean_of_window, "BiasAdd": _sum, "Clamp": _clamp,
    "Concat": _any_of, "Divide": _divide, "Exp": _exponential,
    "HardSigmoid": _constantly(0.5, 0.25), "MaxPool": _largest_of_window, "Maximum": _any_of,
    "Minimum": _any_of, "Multiply": _multiply, "ReduceL1": _reduced, "ReduceL2": _reduced,
    "ReduceMean": _reduced, "ReduceSum": _reduced, "Select": _selected,
    "Sigmoid": _constantly(0.5, 0.25), "SoftMax": _probabilities, "Sqrt": _root,
    "Square": _square, "Subtract": partial(_sum, sign=-1), "Tanh": _constantly(0.0, 0.7),
}  # fmt: skip


def sizes(nodes: Sequence[Node], known: Mapping[int, Size], shapes: Shapes) -> dict[int, Size]:
    """Return the size of every tensor, by its value's id.

    Nodes are in an order of execution; `known` has the sizes of the tensors that no op makes.
    """
    every = dict(known)
    for node in nodes:
        if not node.outputs:
            continue
        use = _Use(
            node,
            [every[v.id] for v in node.inputs],
            [shapes[v.id] for v in node.inputs],
            shapes[node.outputs[0].id],
        )
        size = _RULES.get(node.kind, _unchanged)(use)
        every.update({v.id: size for v in node.outputs})
    return every


def excess(node: Node, size: Size) -> float:
    """Return how many times too large the op's first input is; at most 1 if it suits.

    We accept that about a third of the quantized elements saturate.
    """
    largest = 0.0
    if node.kind == "Quantize":
        scale, point = quantization_parameters(node)
        low, high = _limits(node.outputs[0].dtype)
        above, below = size.mean + size.deviation, size.deviation - size.mean
        largest = above / max((high - point) * scale, 1e-30)
        if point > low:  # an unsigned type cuts off negative numbers
            largest = max(largest, below / ((point - low) * scale))
    elif node.kind in with_trait("steep"):
        largest = size.deviation / _STEEP_LIMIT
    if any(v.dtype == "f16" for v in (*node.inputs[:1], *node.outputs)):
        largest = max(largest, size.reach / _F16_LIMIT)
    return largest
