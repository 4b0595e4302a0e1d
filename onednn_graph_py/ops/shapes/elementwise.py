"""Shapes of ops that work element by element, broadcasting as NumPy does."""

from ..call import Call, Operand
from ..terms import UNKNOWN, Shape, shape_text


def broadcast(a: Operand, b: Operand) -> Shape:
    """Return the shape that two operands broadcast to."""
    if a.shape is None or b.shape is None:
        return None
    rank = max(len(a.shape), len(b.shape))
    dims = []
    for i in range(-rank, 0):
        x = a.dim(i) if -i <= len(a.shape) else 1
        y = b.dim(i) if -i <= len(b.shape) else 1
        if x >= 0 and y >= 0 and x != y and 1 not in (x, y):
            b.refuse(f"a shape that broadcasts with {a.name}, {shape_text(a.shape)}")
        if x < 0 or y < 0:
            # An unknown dim can only be 1 or equal to the other dim, if that is larger than 1.
            dims.append(max(x, y) if max(x, y) > 1 else UNKNOWN)
        else:
            dims.append(y if x == 1 else x)
    return tuple(dims)


def merged(a: Shape, b: Shape) -> Shape:
    """Return the shape that two descriptions of it give together: the dims known from either."""
    if a is None or b is None or len(a) != len(b):
        return b if a is None else a
    return tuple(y if x < 0 else x for x, y in zip(a, b, strict=True))


def _all_equal(call: Call) -> Shape:
    shape = call.input(0).shape
    for operand in call.inputs[1:]:
        operand.need_shape(call.input(0).shape, "that of input 0")
        shape = merged(shape, operand.shape)
    return shape


def same(call: Call) -> list[Shape]:
    """Return the shape that all inputs share, for each output."""
    return [_all_equal(call)] * len(call.schema.outputs)


def first(call: Call) -> list[Shape]:
    """Return the shape of input 0, for each output."""
    return [call.input(0).shape] * len(call.schema.outputs)


def binary(call: Call) -> list[Shape]:
    """Return the shape that both inputs broadcast to, or share if auto_broadcast is none."""
    if call.attr("auto_broadcast") == "none":
        return [_all_equal(call)]
    return [broadcast(call.input(0), call.input(1))]


def select(call: Call) -> list[Shape]:
    """Return the shape that inputs 1 and 2 broadcast to; the condition broadcasts to it too."""
    if call.attr("auto_broadcast") == "none":
        return [_all_equal(call)]
    both = broadcast(call.input(1), call.input(2))
    call.input(0).need_broadcastable(both, "inputs 1 and 2 together")
    return [both]


def _channels(call: Call) -> int:
    return call.input(0).dim(-1 if call.channels_last else 1)


def bias_add(call: Call) -> list[Shape]:
    """Return the shape of input 0; the bias has one element a channel."""
    call.input(0).need_rank(2)
    call.input(1).need_rank(1, 1)
    call.input(1).need_count(_channels(call), "channels")
    return [call.input(0).shape]


def bias_add_backward(call: Call) -> list[Shape]:
    """Return the shape of the bias's gradient: one element a channel."""
    call.input(0).need_rank(2)
    return [(_channels(call),)]


def _slope(call: Call, per_channel: bool) -> None:
    """Check that a slope broadcasts to input 0, or has an entry for each channel."""
    src, slope = call.input(0), call.input(1)
    if src.shape is None or slope.shape is None:
        return
    dims = slope.shape
    if per_channel and len(dims) == 1 and len(src.shape) > 1 and not call.channels_last:
        dims += (1,) * (len(src.shape) - 2)
    pairs = zip(reversed(dims), reversed(src.shape), strict=False)
    if len(dims) > len(src.shape) or any(s >= 0 and d >= 0 and s not in (1, d) for s, d in pairs):
        slope.refuse(f"a shape that broadcasts to that of {src.name}, {shape_text(src.shape)}")


def prelu(call: Call) -> list[Shape]:
    """Return the shape of input 0."""
    _slope(call, call.attr("per_channel_broadcast"))
    return [call.input(0).shape]


def prelu_backward(call: Call) -> list[Shape]:
    """Return the shapes of the gradients of the data and the slope."""
    src, slope, diff_dst = (call.input(i) for i in range(3))
    diff_dst.need_shape(src.shape, "that of input 0")
    _slope(call, per_channel=True)
    return [merged(src.shape, diff_dst.shape), slope.shape]


def gen_index(call: Call) -> list[Shape]:
    """Return the shape of input 0, which must have the axis."""
    src = call.input(0)
    src.need_rank(1)
    if src.rank and call.attr("axis") is not None:
        call.axis("axis", src.rank)
    return [src.shape]


def nothing(call: Call) -> list[Shape]:
    """Return no shapes, for an op without outputs."""
    return []
