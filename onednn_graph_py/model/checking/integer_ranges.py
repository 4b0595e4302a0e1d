"""Ranges of integers to fill a graph's quantized inputs with, as wide as possible.

Defects show with numbers near a type's limits (a u8 above 127 read as s8), and hide if all
results saturate. So each input gets its type's whole range, which is made smaller only if a
Quantize behind it would saturate nearly all elements, or a SoftMax choose one element of each row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...ops.lookup import row, with_trait
from ...reference.rounding import integer_limits
from ..building.value import Node, Value
from .magnitudes import Shapes, Size, excess, quantization_parameters, sizes

HAND_ON = with_trait("keeps") | {"End"}  # ops that change no numbers; no op comes after End

# The size of their results does not depend on the size of their inputs.
_LEVELLED = with_trait("normalizes") | with_trait("quantizes") | with_trait("squashes")
# CPUs without VNNI add two products of u8 and s8 in 16 bits, into which 2 * 255 * 63 fits.
_LARGEST_S8_WEIGHT = 63
_FEWEST_WEIGHTS, _FEWEST = 16, 32
_TOLERATED = 1.1


@dataclass(frozen=True)
class IntegerRange:
    """The integers from `low` to `high`, or a share of them around `centre`."""

    low: int
    high: int
    centre: float = 0.0  # the integer that represents 0
    weights: bool = False  # whether they fill s8 weights, whose ranges are made smaller first
    share: float = 1.0  # from 0 to 1

    @property
    def bounds(self) -> tuple[int, int]:
        """The smallest and the largest number."""
        centre = min(max(self.centre, self.low), self.high)
        return (
            round(centre - self.share * (centre - self.low)),
            round(centre + self.share * (self.high - centre)),
        )

    @property
    def size(self) -> Size:
        """The size of numbers drawn from the range uniformly."""
        low, high = self.bounds
        return Size((low + high) / 2, (high - low + 1) / math.sqrt(12))

    def smaller(self, by: float) -> IntegerRange:
        """Return a smaller range, but never one of too few numbers to show errors."""
        fewest = (_FEWEST_WEIGHTS if self.weights else _FEWEST) / (self.high - self.low)
        return replace(self, share=min(self.share, max(self.share / by, fewest)))


def range_of(value: Value, readers: Mapping[int, Sequence[tuple[Node, int]]]) -> IntegerRange:
    """Return the whole range of an 8-bit or 4-bit integer input; s8 weights get half of theirs."""
    low, high = integer_limits(value.dtype)
    centre, weights = 0.0, False
    left = [value]
    while left:
        for node, i in readers.get(left.pop().id, ()):
            port = row(node.kind).port("inputs", i)
            if node.kind == "Dequantize":
                centre = quantization_parameters(node)[1]
            if node.kind in HAND_ON or (node.kind in with_trait("dequantizes") and not i):
                left += node.outputs
            elif port is not None and port.name == "weights" and value.dtype == "s8":
                weights = True
    if weights:
        low, high = -_LARGEST_S8_WEIGHT, _LARGEST_S8_WEIGHT
    return IntegerRange(low, high, centre, weights)


def _behind(value: Value, ranges: Mapping[int, IntegerRange]) -> list[int]:
    """Return the ids of the inputs that decide how large a tensor is."""
    nodes, seen, left = [], set(), [value]
    while left:
        current = left.pop()
        if current.id in seen:
            continue
        seen.add(current.id)
        if current.id in ranges:
            nodes.append(current.id)
        producer = current.producer
        if producer is not None and producer.kind not in _LEVELLED:
            left += producer.inputs
    return nodes


def _made_smaller(ranges: dict[int, IntegerRange], behind: Sequence[int], by: float) -> bool:
    """Make the weights' ranges smaller or, if that is impossible, the others'."""
    for weights in (True, False):
        before = {i: ranges[i] for i in behind if ranges[i].weights is weights}
        # A product's inputs share the reduction.
        after = {i: r.smaller(by if weights else math.sqrt(by)) for i, r in before.items()}
        if after != before:
            ranges.update(after)
            return True
    return False


def fitted(
    nodes: Sequence[Node],
    ranges: Mapping[int, IntegerRange],
    known: Mapping[int, Size],
    shapes: Shapes,
) -> dict[int, IntegerRange]:
    """Make ranges of integer inputs smaller until no op's input is too large (`magnitudes.excess`).

    Nodes are in an order of execution; ranges, known sizes and shapes are by the value's id.
    """
    made = dict(ranges)
    if not made:
        return made
    behind = {n.id: _behind(n.inputs[0], made) for n in nodes if n.inputs}
    concerned = [n for n in nodes if behind.get(n.id)]
    changed = True
    while changed:
        every = sizes(nodes, {**known, **{i: r.size for i, r in made.items()}}, shapes)
        changed = False
        for node in concerned:
            by = excess(node, every[node.inputs[0].id])
            if by > _TOLERATED and _made_smaller(made, behind[node.id], by):
                changed = True
                break
    return made
