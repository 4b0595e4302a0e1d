"""Pooling, and normalization over neighbouring channels."""

import math

from ...frontends.windows import Windows, avg_pool, max_pool
from ...model.building.value import Value
from .table import Call, NotLowered, lowers
from .windows import windows_of


def _pooled(call: Call) -> tuple[Value, Windows]:
    [x] = call.floats(0)
    if call.is_read(1):
        raise NotLowered("the indices of the largest elements are read")
    kernel = call.attribute("kernel_shape", ())
    if len(kernel) != x.ndim - 2:
        raise NotLowered("the kernel has another rank")
    return x, windows_of(call, x.shape or (), kernel)


@lowers("MaxPool")
def _max_pool(call: Call) -> Value:
    return max_pool(call, *_pooled(call))


@lowers("AveragePool")
def _average_pool(call: Call) -> Value:
    return avg_pool(call, *_pooled(call), bool(call.attribute("count_include_pad", 0)))


@lowers("LRN")
def _lrn(call: Call) -> Value:
    """Divide by a power of the mean square of neighbouring channels."""
    [x] = call.floats(0)
    beta = call.attribute("beta", 0.75)
    if beta not in (0.5, 0.75, 1.0):
        raise NotLowered(f"oneDNN has no kernel for Pow; beta is {beta:g}")
    shape = x.shape or ()
    if x.ndim < 3 or -1 in shape[1:]:
        raise NotLowered("the dims must be known")
    size = int(call.attribute("size"))
    y = call.cast(x, "f32")
    space = math.prod(shape[2:])
    rows = call.b.static_reshape(y * y, shape=[shape[0], 1, shape[1], space], special_zero=False)
    before = (size - 1) // 2
    mean = call.b.avg_pool(
        rows,
        kernel=[size, 1],
        strides=[1, 1],
        pads_begin=[before, 0],
        pads_end=[size - 1 - before, 0],
        exclude_pad=False,
        data_format="NCX",
    )
    mean = call.b.static_reshape(mean, shape=[*shape], special_zero=False)
    base = mean * float(call.attribute("alpha", 1e-4)) + float(call.attribute("bias", 1.0))
    if beta < 1:
        root = call.b.sqrt(base)
        base = root if beta == 0.5 else root * call.b.sqrt(root)
    return call.cast(call.b.divide(y, base), x.dtype)
