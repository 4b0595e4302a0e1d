"""Shapes of products.

Each function of a convolution serves its transposed counterpart, too, whose windows slide over dst.
"""

from dataclasses import dataclass

from ..call import Call, Operand
from ..terms import UNKNOWN, Shape
from .elementwise import broadcast
from .windows import Data, Window, data_of, entries, given_shape, window_of


@dataclass(frozen=True)
class _Weights:
    """The channels and spatial dims of weights.

    `out` counts a group's channels for transposed convolutions, `into` for others.
    """

    out: int
    into: int
    spatial: tuple[int, ...]


def _weights_of(call: Call, operand: Operand) -> _Weights | None:
    operand.need_rank(3)
    shape = operand.shape
    if shape is None:
        return None
    order: str = call.attr("weights_format")
    spatial_first = order.startswith("X")
    spatial = shape[:-2] if spatial_first else shape[2:]
    if any(d == 0 for d in spatial):
        operand.refuse("spatial dims of at least 1")
    first, second = shape[-2:] if spatial_first else shape[:2]
    out_first = order.find("O") < order.find("I")  # oneDNN may refuse other orders later
    return _Weights(*((first, second) if out_first else (second, first)), spatial)


def _groups(call: Call) -> int:
    groups: int = call.attr("groups")
    if groups < 1:
        call.refuse(f"attribute groups must be at least 1, got {groups}")
    return groups


def _times(channels: int, groups: int) -> int:
    return UNKNOWN if channels < 0 else channels * groups


def _divided(channels: int, groups: int, of: Operand) -> int:
    if channels < 0:
        return UNKNOWN
    if channels % groups:
        of.refuse(f"channels that {groups} groups divide")
    return channels // groups


def _same(given: int, expected: int, of: Operand, what: str) -> None:
    if given >= 0 and expected >= 0 and given != expected:
        of.refuse(f"{expected} {what}, it has {given}")


@dataclass(frozen=True)
class _Parts:
    """The tensors and the window of the forward op, which makes dst of src and weights."""

    src: Data | None
    weights: _Weights | None
    dst: Data | None
    out_channels: int
    window: Window | None


def _is_transposed(call: Call) -> bool:
    return call.kind.startswith("ConvTranspose")


def _relate(call: Call, src: Operand, weights: Operand, dst: Operand) -> _Parts:
    """Check that channels, batches and ranks of the forward op fit together."""
    known = [o for o in (src, weights, dst) if o.rank is not None]
    for other in known[1:]:
        rank = known[0].rank or 0
        other.need_rank(rank, rank)
    s, w, d = data_of(call, src), _weights_of(call, weights), data_of(call, dst)
    groups, transposed = _groups(call), _is_transposed(call)
    out_channels = UNKNOWN
    if w is not None:
        out_channels = _times(w.out, groups) if transposed else w.out
        # The groups must divide the channels that are not counted per group.
        _divided(w.into if transposed else w.out, groups, weights)
    if s is not None:
        _divided(s.channels, groups, src)
        if w is not None:
            into = w.into if transposed else _times(w.into, groups)
            _same(s.channels, into, src, "channels, as the weights say")
    if d is not None:
        _same(d.channels, out_channels, dst, "channels, as the weights say")
        if s is not None:
            _same(d.batch, s.batch, dst, "batches")
    window = None
    if known:
        n = (known[0].rank or 0) - 2
        window = window_of(call, w.spatial if w is not None else (UNKNOWN,) * n)
        padding = entries(call, "output_padding", n, 0)
        for p, stride, dilation in zip(padding, window.strides, window.dilations, strict=True):
            if p >= max(stride, dilation):
                call.refuse_shape(
                    "attribute output_padding must be below the strides or dilations, it is "
                    f"{list(padding)}"
                )
    return _Parts(s, w, d, out_channels, window)


def _check_slide(call: Call, p: _Parts) -> None:
    """Check that the forward op turns src's spatial dims into dst's, if both are known."""
    wide, narrow = (p.dst, p.src) if _is_transposed(call) else (p.src, p.dst)
    if p.window is None or p.window.auto_pad != "None":
        return
    for i in range(len(p.window.kernel)):
        size = wide.spatial[i] if wide is not None else UNKNOWN
        expected = narrow.spatial[i] if narrow is not None else UNKNOWN
        slid = p.window.slide(i, size)
        if slid >= 0 and expected >= 0 and slid != expected:
            call.refuse_shape(
                f"spatial dim {i} goes from {size} to {slid} in the convolution, not to {expected}"
            )


def _bias(call: Call, channels: int) -> None:
    if len(call.inputs) > 2:
        call.input(2).need_rank(1, 1)
        call.input(2).need_count(channels, "output channels")


def convolution(call: Call) -> list[Shape]:
    """Infer (N, OC, windows) from (N, IC, sizes) and weights (OC, IC / groups, kernel).

    For a transposed one, (N, OC, sizes) from (N, IC, windows) and (IC, OC / groups, kernel).
    """
    p = _relate(call, call.input(0), call.input(1), call.output(0))
    _bias(call, p.out_channels)
    if p.window is None:
        return [None]
    n = len(p.window.kernel)
    sizes = p.src.spatial if p.src is not None else (UNKNOWN,) * n
    if _is_transposed(call):
        padding = entries(call, "output_padding", n, 0)
        spatial = tuple(p.window.unslide(i, sizes[i], padding[i]) for i in range(n))
    else:
        spatial = tuple(p.window.slide(i, sizes[i]) for i in range(n))
    batch = p.src.batch if p.src is not None else UNKNOWN
    return [Data(batch, p.out_channels, spatial).shape(call)]


def convolution_backward_data(call: Call) -> list[Shape]:
    """Return src's shape, which only the attribute dst_shape or the declared output gives."""
    shape = given_shape(call, "dst_shape", call.output(0))
    p = _relate(call, shape, call.input(1), call.input(0))
    _check_slide(call, p)
    if p.src is None and p.window is not None:
        batch = p.dst.batch if p.dst is not None else UNKNOWN
        groups = _groups(call)
        channels = _times(p.weights.into, groups) if p.weights is not None else UNKNOWN
        return [Data(batch, channels, (UNKNOWN,) * len(p.window.kernel)).shape(call)]
    return [shape.shape]


def convolution_backward_weights(call: Call) -> list[Shape]:
    """Return the weights' shape, which only weights_shape or the declared output gives."""
    shape = given_shape(call, "weights_shape", call.output(0))
    p = _relate(call, call.input(0), shape, call.input(1))
    _check_slide(call, p)
    return [shape.shape]


def conv_transpose_backward_data(call: Call) -> list[Shape]:
    """Infer src's shape, which is that of a convolution of diff_dst."""
    result = call.output(0)
    p = _relate(call, result, call.input(1), call.input(0))
    if p.window is None:
        return [result.shape]
    n = len(p.window.kernel)
    sizes = p.dst.spatial if p.dst is not None else (UNKNOWN,) * n
    batch = p.dst.batch if p.dst is not None else UNKNOWN
    channels = p.weights.into if p.weights is not None else UNKNOWN
    windows = tuple(p.window.slide(i, sizes[i]) for i in range(n))
    return [Data(batch, channels, windows).shape(call)]


def _batch(of: Operand) -> Operand:
    shape = of.shape or ()
    return Operand(of.call, f"{of.name}'s batch", shape[: max(len(shape) - 2, 0)])


def matmul(call: Call) -> list[Shape]:
    """Infer (batch, M, N) from (batch, M, K) and (batch, K, N); 1-D inputs are vectors."""
    a, b = call.input(0), call.input(1)
    a.need_rank(1)
    b.need_rank(1)
    if a.rank is None or b.rank is None:
        return [None]
    transpose_a = call.attr("transpose_a") and a.rank > 1
    transpose_b = call.attr("transpose_b") and b.rank > 1
    inner = a.dim(0) if a.rank == 1 else a.dim(-2 if transpose_a else -1)
    b.need_dim(0 if b.rank == 1 else -1 if transpose_b else -2, inner, "input 0's columns")
    dims = list(broadcast(_batch(a), _batch(b)) or ())
    if a.rank > 1:
        dims.append(a.dim(-1 if transpose_a else -2))
    if b.rank > 1:
        dims.append(b.dim(-2 if transpose_b else -1))
    if len(call.inputs) > 2:
        call.input(2).need_broadcastable(tuple(dims), "the product")
        if not dims:
            call.input(2).need_count(1, "the product is one number")
    return [tuple(dims)]
