"""Shapes of pooling."""

from ..call import Call, Operand
from ..terms import UNKNOWN, Shape
from .windows import Data, data_of, entries, given_shape, window_of


def _pooled(call: Call, src: Operand) -> Shape:
    """Return the shape of the forward op's result for `src`."""
    listed = call.attr("kernel")
    data = data_of(call, src)
    if data is None:
        if listed is None:
            return None
        return Data(UNKNOWN, UNKNOWN, (UNKNOWN,) * len(listed)).shape(call)
    n = len(data.spatial)
    if listed is None:  # oneDNN reports the missing attribute itself
        return None
    window = window_of(call, entries(call, "kernel", n, 1))
    ceil = call.attr("rounding_type") == "ceil"
    sizes = tuple(window.slide(i, data.spatial[i], ceil) for i in range(n))
    return Data(data.batch, data.channels, sizes).shape(call)


def pool(call: Call) -> list[Shape]:
    """Infer (N, C, windows) from (N, C, sizes)."""
    return [_pooled(call, call.input(0))]


def avg_pool_backward(call: Call) -> list[Shape]:
    """Return src's shape, which only the attribute src_shape or the declared output gives."""
    src = given_shape(call, "src_shape", call.output(0))
    why = f"the forward op's result for {src.name}"
    call.input(0).need_shape(_pooled(call, src) if src.shape is not None else None, why)
    return [src.shape]


def max_pool_backward(call: Call) -> list[Shape]:
    """Return the shape of src."""
    src = call.input(0)
    why = f"the forward op's result for {src.name}"
    call.input(1).need_shape(_pooled(call, src) if src.shape is not None else None, why)
    return [src.shape]
