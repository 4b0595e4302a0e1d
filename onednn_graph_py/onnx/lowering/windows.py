"""Windows that slide over the spatial dims, as convolutions have them, and pooling."""

import math
from collections.abc import Sequence

from ...frontends.windows import Windows, avg_pool, max_pool
from ...model.building.value import Value
from .table import Call, NotLowered, lowers


def _pooled(call: Call) -> tuple[Value, Windows]:
    [x] = call.floats(0)
    if call.is_read(1):
        raise NotLowered("the indices of the largest elements are read")
    kernel = call.attribute("kernel_shape", ())
    if len(kernel) != x.ndim - 2:
        raise NotLowered("the kernel has another rank")
    return x, windows_of(call, x.shape or (), kernel)


lowers("MaxPool")(lambda call: max_pool(call, *_pooled(call)))


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


def spatial(call: Call, name: str, count: int, default: int) -> list[int]:
    """Return an attribute that has a number for each spatial dim."""
    given = list(call.attribute(name, ())) or [default] * count
    if len(given) != count:
        raise NotLowered(f"{name} does not have a number for each spatial dim")
    return given


def halves(total: int, auto_pad: str) -> tuple[int, int]:
    """Return the padding before and behind a dim, which has one element more where it is odd."""
    less = total // 2
    return (less, total - less) if auto_pad == "SAME_UPPER" else (total - less, less)


def windows_of(call: Call, shape: Sequence[int], kernel: Sequence[int]) -> Windows:
    """Return the windows of a node over a tensor with batch and channels."""
    sizes, count = shape[2:], len(kernel)
    strides = spatial(call, "strides", count, 1)
    dilations = spatial(call, "dilations", count, 1)
    auto_pad = call.attribute("auto_pad", "NOTSET")
    pads = list(call.attribute("pads", ())) or [0] * 2 * count
    if len(pads) != 2 * count:
        raise NotLowered("pads does not have two numbers for each spatial dim")
    begin, end = pads[:count], pads[count:]
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    longer = False
    if auto_pad == "VALID":
        begin = end = [0] * count
    elif auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        pairs = [
            halves(_same(n, s, span), auto_pad)
            for n, s, span in zip(sizes, strides, spans, strict=True)
        ]
        begin, end = [p[0] for p in pairs], [p[1] for p in pairs]
    if min([*begin, *end]) < 0:
        raise NotLowered("a padding is negative")
    if call.attribute("ceil_mode", 0):
        given = end
        end = [
            _behind(n, s, span, b, e)
            for n, s, span, b, e in zip(sizes, strides, spans, begin, end, strict=True)
        ]
        longer = any(e > g for e, g in zip(end, given, strict=True))
    return Windows(list(kernel), strides, dilations, begin, end, longer)


def _same(size: int, stride: int, span: int) -> int:
    """Return the padding with which there is a window for each stride."""
    if stride == 1:
        return span - 1
    if size == -1:
        raise NotLowered(f"the padding follows from a size that is unknown, with a stride {stride}")
    return max((-(-size // stride) - 1) * stride + span - size, 0)


def _behind(size: int, stride: int, span: int, begin: int, end: int) -> int:
    """Return the padding behind a dim with which the last window is whole."""
    if stride == 1:
        return end
    if size == -1:
        raise NotLowered("ceil_mode with a size that is unknown")
    steps = -(-(size + begin + end - span) // stride)
    if steps * stride >= size + begin:  # it would begin behind the elements
        steps -= 1
    return max(steps * stride + span - size - begin, 0)
