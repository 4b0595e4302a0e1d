"""Functions of the table's rows that count an op's operations from shapes and attributes.

They count the operations of the op's definition, even if a kernel does others: the sums and
products of a convolution over the whole window, also in the padding. A product and a sum are two
operations; a comparison, an exponential, a root are one each; moving, rounding and converting are
none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .row import Row

Dims = Sequence[int]


class Use:
    """An op with known shapes and its attributes."""

    def __init__(
        self,
        row: Row,
        inputs: Sequence[Dims],
        outputs: Sequence[Dims],
        attrs: Mapping[str, Any],
    ) -> None:
        self.row = row
        self.inputs = inputs
        self.outputs = outputs
        self.attrs = attrs

    def attr(self, name: str) -> Any:
        """Return an attribute, or its default."""
        return self.row.value_of(name, self.attrs)

    def source(self, i: int = 0) -> int:
        """Return the number of elements of an input."""
        return math.prod(self.inputs[i])

    def result(self, i: int = 0) -> int:
        """Return the number of elements of an output."""
        return math.prod(self.outputs[i])

    def has(self, port: str) -> bool:
        """Whether an optional input of this name is given."""
        names = [p.name for p in self.row.inputs[: len(self.inputs)]]
        return port in names


Work = Callable[[Use], int]
"""A function that counts the operations of a use."""


def a_result(count: int) -> Work:
    """Return a function that counts this number for each element of the first output."""
    return lambda use: count * use.result()


def a_source(count: int) -> Work:
    """Return a function that counts this number for each element of the first input."""
    return lambda use: count * use.source()


def none(use: Use) -> int:
    """Return 0, for an op that computes nothing."""
    return 0


# -- products


def matmul(use: Use) -> int:
    """Count a product and a sum for each element of a row, then the bias."""
    shape = use.inputs[0]
    across = len(shape) > 1 and use.attr("transpose_a")
    terms = shape[-2 if across else -1] if shape else 1
    return use.result() * (2 * terms + use.has("bias"))


def _per_channel(use: Use, weights: Dims) -> int:
    """Return the number of weights that are used for one element of the tensor they slide over.

    That is the destination of a convolution, the source of a transposed one. Its channels come
    last in XIO and XOI, first in OIX and IOX; the weights' shape already accounts for groups.
    """
    channels: int = weights[-1] if use.attr("weights_format").startswith("X") else weights[0]
    return math.prod(weights) // channels if channels else 0


def windows(tensor: str, index: int, weights: str, at: int) -> Work:
    """Return a function that counts two operations for each use of a weight, and the bias."""

    def count(use: Use) -> int:
        slid: Dims = getattr(use, tensor)[index]
        found = 2 * math.prod(slid) * _per_channel(use, getattr(use, weights)[at])
        return found + (use.result() if use.has("bias") else 0)

    return count


# -- the rest


def pool(tensor: str) -> Work:
    """Return a function that counts each window's sums and division, or its comparisons."""

    def count(use: Use) -> int:
        pooled: Dims = use.outputs[0] if tensor == "dst" else use.inputs[tensor == "second"]
        window: Dims = use.attr("kernel")
        return math.prod(pooled) * math.prod(window)

    return count


def interpolate(use: Use) -> int:
    """Count a product and a sum for each corner that is read; nothing in mode nearest."""
    if use.attr("mode") == "nearest":
        return 0
    corners: int = 1 << (len(use.outputs[0]) - 2)
    return 2 * corners * use.result()


def interpolate_backward(use: Use) -> int:
    """Count as `interpolate`, for each element of the gradient; one sum in mode nearest."""
    spread = 1 if use.attr("mode") == "nearest" else 2 << (len(use.inputs[1]) - 2)
    return use.source(1) * spread


def normalization(use: Use) -> int:
    """Count mean (1), variance (difference, square, sum) and result (difference, product).

    Scale and shift are two more.
    """
    return use.source() * (6 + 2 * use.has("gamma"))


def rms(use: Use) -> int:
    """Count the square, the sum, the product with the root's inverse, and that with the scale."""
    return use.source() * (3 + use.has("gamma"))


def quantization(use: Use) -> int:
    """Count the scale, and a zero point if there is one."""
    points = use.has("zps") or any(use.attr("zps") or ())
    return use.result() * (1 + points)
