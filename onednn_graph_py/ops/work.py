"""Functions of the table's rows that count an op's operations from shapes and attributes.

They count the operations of the op's definition, even if a kernel does others: the sums and
products of a convolution over the whole window, also in the padding. A product and a sum are two
operations; a comparison, an exponential, a root are one each; moving, rounding and converting are
none.
"""

import math
from collections.abc import Callable

from .call import Call, Operand

Work = Callable[[Call], int]
"""A function that counts the operations of a use, of which all dims are known."""


def a_result(count: int) -> Work:
    """Return a function that counts this number for each element of the first output."""
    return lambda call: count * call.output(0).count()


def a_source(count: int) -> Work:
    """Return a function that counts this number for each element of the first input."""
    return lambda call: count * call.input(0).count()


def none(call: Call) -> int:
    """Return 0, for an op that computes nothing."""
    return 0


# -- products


def matmul(call: Call) -> int:
    """Count a product and a sum for each element of a row, then the bias."""
    shape = call.input(0).shape or (1,)
    across = len(shape) > 1 and call.attr("transpose_a")
    return call.output(0).count() * (2 * shape[-2 if across else -1] + call.has("bias"))


def _per_channel(call: Call, weights: Operand) -> int:
    """Return the number of weights that are used for one element of the tensor they slide over.

    That is the destination of a convolution, the source of a transposed one. Its channels come
    last in XIO and XOI, first in OIX and IOX; the weights' shape already accounts for groups.
    """
    channels = weights.dim(-1 if call.attr("weights_format").startswith("X") else 0)
    return weights.count() // channels if channels else 0


def windows(tensor: str, index: int, weights: str, at: int, call: Call) -> int:
    """Count two operations for each use of a weight by one tensor's elements, and the bias."""
    slid: Operand = getattr(call, tensor)[index]
    operations = 2 * slid.count() * _per_channel(call, getattr(call, weights)[at])
    return operations + call.has("bias") * call.output(0).count()


# -- the rest


def pool(tensor: str, call: Call) -> int:
    """Count each window's sums and division, or its comparisons."""
    pooled = call.output(0) if tensor == "dst" else call.input(tensor == "second")
    kernel: tuple[int, ...] = call.attr("kernel")
    return pooled.count() * math.prod(kernel)


def interpolate(call: Call) -> int:
    """Count a product and a sum for each corner that is read; nothing in mode nearest."""
    if call.attr("mode") == "nearest":
        return 0
    return (2 << _spatial_dims(call.output(0))) * call.output(0).count()


def interpolate_backward(call: Call) -> int:
    """Count as `interpolate`, for each element of the gradient; one sum in mode nearest."""
    spread = 1 if call.attr("mode") == "nearest" else 2 << _spatial_dims(call.input(1))
    return call.input(1).count() * spread


def _spatial_dims(operand: Operand) -> int:
    return len(operand.shape or ()) - 2


def normalization(call: Call) -> int:
    """Count mean (1), variance (difference, square, sum) and result (difference, product).

    Scale and shift are two more.
    """
    return call.input(0).count() * (6 + 2 * call.has("gamma"))


def rms(call: Call) -> int:
    """Count the square, the sum, the product with the root's inverse, and that with the scale."""
    return call.input(0).count() * (3 + call.has("gamma"))


def quantization(call: Call) -> int:
    """Count the scale, and a zero point if there is one."""
    points = call.has("zps") or any(call.attr("zps") or ())
    return call.output(0).count() * (1 + points)
