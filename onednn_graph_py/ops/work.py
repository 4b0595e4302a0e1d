"""How much an op computes: `flop`, from shapes and attributes alone.

What is counted is what the op's definition asks for, whatever a kernel does instead: the sums and
products of a convolution over the whole window, also where it lies in the padding. A product and a
sum are two operations; a comparison, an exponential, a root are one each; moving, rounding and
converting are none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .check import row
from .table import binary, elementwise, movement, reduction, structure

__all__ = ["flop"]

Dims = Sequence[int]


class _Use:
    """An op with whole shapes."""

    def __init__(
        self, kind: str, inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Mapping[str, Any]
    ) -> None:
        self.kind = kind
        self.inputs = inputs
        self.outputs = outputs
        self.attrs = attrs

    def attr(self, name: str) -> Any:
        if name in self.attrs:
            return self.attrs[name]
        known = row(self.kind).attribute(name)
        return None if known is None else known.default

    def source(self, i: int = 0) -> int:
        """Elements of an input."""
        return math.prod(self.inputs[i])

    def result(self, i: int = 0) -> int:
        """Elements of an output."""
        return math.prod(self.outputs[i])

    def has(self, port: str) -> bool:
        """Whether an optional input of this name is given."""
        names = [p.name for p in row(self.kind).inputs[: len(self.inputs)]]
        return port in names


def _a_result(count: int) -> Callable[[_Use], int]:
    return lambda use: count * use.result()


def _a_source(count: int) -> Callable[[_Use], int]:
    return lambda use: count * use.source()


def _none(use: _Use) -> int:
    return 0


# -- products


def _matmul(use: _Use) -> int:
    """A product and a sum for each element of a row, then the bias."""
    shape = use.inputs[0]
    across = len(shape) > 1 and use.attr("transpose_a")
    terms = shape[-2 if across else -1] if shape else 1
    return use.result() * (2 * terms + use.has("bias"))


def _per_channel(use: _Use, weights: Dims) -> int:
    """Elements of the weights that meet one element of the tensor they are slid over.

    That is the destination of a convolution, the source of a transposed one. Its channels come
    last in XIO and XOI, first in OIX and IOX; groups are in the weights' shape already.
    """
    channels: int = weights[-1] if use.attr("weights_format").startswith("X") else weights[0]
    return math.prod(weights) // channels if channels else 0


def _windows(tensor: str, index: int, weights: str, at: int) -> Callable[[_Use], int]:
    """Two operations for each element of a tensor and of the weights that meet it, and the bias."""

    def count(use: _Use) -> int:
        slid: Dims = getattr(use, tensor)[index]
        found = 2 * math.prod(slid) * _per_channel(use, getattr(use, weights)[at])
        return found + (use.result() if use.has("bias") else 0)

    return count


# -- the rest


def _pool(tensor: str) -> Callable[[_Use], int]:
    """One for each element of a window: its sums and the division, or its comparisons."""

    def count(use: _Use) -> int:
        pooled: Dims = use.outputs[0] if tensor == "dst" else use.inputs[tensor == "second"]
        window: Dims = use.attr("kernel")
        return math.prod(pooled) * math.prod(window)

    return count


def _interpolate(use: _Use) -> int:
    """A product and a sum for each corner that is met; nothing where the nearest one is taken."""
    if use.attr("mode") == "nearest":
        return 0
    corners: int = 1 << (len(use.outputs[0]) - 2)
    return 2 * corners * use.result()


def _interpolate_backward(use: _Use) -> int:
    spread = 1 if use.attr("mode") == "nearest" else 2 << (len(use.inputs[1]) - 2)
    return use.source(1) * spread


def _normalization(use: _Use) -> int:
    """Mean (1), variance (difference, square, sum), result (difference, product), and parameters.

    Scale and shift are two more.
    """
    return use.source() * (6 + 2 * use.has("gamma"))


def _rms(use: _Use) -> int:
    """Square, sum, product with the root's inverse, and with the scale."""
    return use.source() * (3 + use.has("gamma"))


def _quantization(use: _Use) -> int:
    """The scale, and a zero point where there is one."""
    points = use.has("zps") or any(use.attr("zps") or ())
    return use.result() * (1 + points)


_OPS: dict[str, Callable[[_Use], int]] = {
    "MatMul": _matmul,
    "Convolution": _windows("outputs", 0, "inputs", 1),
    "ConvolutionBackwardData": _windows("inputs", 0, "inputs", 1),
    "ConvolutionBackwardWeights": _windows("inputs", 1, "outputs", 0),
    "ConvTranspose": _windows("inputs", 0, "inputs", 1),
    "ConvTransposeBackwardData": _windows("outputs", 0, "inputs", 1),
    "ConvTransposeBackwardWeights": _windows("inputs", 0, "outputs", 0),
    "AvgPool": _pool("dst"),
    "MaxPool": _pool("dst"),
    "AvgPoolBackward": _pool("first"),
    "MaxPoolBackward": _pool("second"),
    "Interpolate": _interpolate,
    "InterpolateBackward": _interpolate_backward,
    # Product with a factor, sum with a shift, both made of the four parameters beforehand.
    "BatchNormInference": _a_source(2),
    "BatchNormForwardTraining": _normalization,
    "LayerNorm": _normalization,
    "GroupNorm": _normalization,
    "RMSNorm": _rms,
    # Normalized again (2), summed with and without the gradient (3), three terms with their
    # factors (5).
    "BatchNormTrainingBackward": _a_source(10),
    "LayerNormBackward": _a_source(10),
    # Maximum, difference, exponential, sum, quotient or difference.
    "SoftMax": _a_source(5),
    "LogSoftmax": _a_source(5),
    # Product, sum, difference, product; or sum, exponential, product, difference.
    "SoftMaxBackward": _a_source(4),
    "LogSoftmaxBackward": _a_source(4),
    "Quantize": _quantization,
    "Dequantize": _quantization,
    "DynamicQuantize": _quantization,
    "DynamicDequantize": _quantization,
    "BiasAddBackward": _a_source(1),
    "ReduceL1": _a_source(2),
    "ReduceL2": _a_source(2),
    "PReLUBackward": _a_source(3),
    "Dropout": _a_source(2),
    "GenIndex": _none,
    "Select": _none,
}

_FAMILIES: tuple[tuple[Any, Callable[[_Use], int]], ...] = (
    (binary, _a_result(1)),
    (reduction, _a_source(1)),
    (movement, _none),
    (structure, _none),
)

for _row in elementwise.ROWS:
    # A gradient is the derivative and its product.
    _OPS.setdefault(_row.kind, _a_result(2 if _row.kind.endswith("Backward") else 1))
for _family, _count in _FAMILIES:
    for _row in _family.ROWS:
        _OPS.setdefault(_row.kind, _count)


def flop(
    kind: str, inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Mapping[str, Any]
) -> int:
    """Floating-point (or integer) operations of one op.

    Parameters
    ----------
    kind : str
    inputs, outputs : sequence of shapes
        All dims known.
    attrs : mapping of str to value
        Those that are set, in the library's spelling.

    Returns
    -------
    int

    Raises
    ------
    KeyError
        There is no such kind.

    Examples
    --------
    >>> flop("MatMul", [(4, 16), (16, 8)], [(4, 8)], {})
    1024
    """
    return _OPS[kind](_Use(kind, inputs, outputs, attrs))
