"""Ops of front ends that oneDNN lacks, or lacks a kernel for, written with those that it has."""

import math
from collections.abc import Sequence

import numpy as np

from ..blocks.pooling import global_avg_pool
from ..model.building.operands import selected
from ..model.building.value import Value
from ..model.rewriting import has_few_factors
from ..ops.lookup import with_attribute, with_trait
from .lowering import FLOATS, NotLowered, Place

ELEMENTWISE = (
    ("abs", "abs", "Abs"),
    ("exp", "exp", "Exp"),
    ("hard_swish", "hardswish", "HardSwish"),
    ("log", "log", "Log"),
    ("mish", "mish", "Mish"),
    ("reciprocal", "reciprocal", "Reciprocal"),
    ("relu", "relu", "Relu"),
    ("round", "round", "Round"),
    ("sigmoid", "sigmoid", "Sigmoid"),
    ("sqrt", "sqrt", "Sqrt"),
    ("tanh", "tanh", "Tanh"),
)
"""Methods of a builder for what all have in common, with torch's and ONNX's names of the op."""


def gelu(at: Place, x: Value, *, approximate: str = "none") -> Value:
    """Return GELU, by ``tanh`` or exactly: ``none``."""
    at.need_float(x)
    if approximate == "none":
        return at.b.gelu(x)
    y = at.cast(x, "f32")
    inside = (y + y * y * y * 0.044715) * math.sqrt(2 / math.pi)
    return at.cast(y * (at.b.tanh(inside) + 1) * 0.5, x.dtype)


def prelu(at: Place, x: Value, slope: Value) -> Value:
    """Return PReLU with a slope that broadcasts as in NumPy."""
    at.need_float(x, slope)
    if x.ndim < 2 or slope.ndim > x.ndim:
        raise NotLowered("oneDNN's PReLU needs channels")
    slope = slope[(None,) * (x.ndim - slope.ndim)] if slope.ndim < x.ndim else slope
    return at.b.prelu(x, slope, data_format="NCX", per_channel_broadcast=False)


def clamp(at: Place, x: Value, min: float | None = None, max: float | None = None) -> Value:
    """Return x within limits; all become the upper one if it is below the lower one."""
    at.need_float(x)
    most = math.inf if max is None else float(max)
    least = -math.inf if min is None else float(min)
    return at.b.clamp(x, min=most if least > most else least, max=most)


def power(at: Place, x: Value, exponent: float) -> Value:
    """Return a power that oneDNN can compute: its Pow has no kernel."""
    at.need_float(x)
    # Of -inf a product with the square root is NaN, which a power is not.
    if not has_few_factors(exponent) or (exponent % 1 and abs(exponent) != 0.5):
        raise NotLowered(f"oneDNN has no kernel for Pow; the exponent is {exponent:g}")
    return x if exponent == 1 else at.b.pow(x, beta=float(exponent))


# -- views


def transposed(at: Place, x: Value, order: Sequence[int]) -> Value:
    """Reorder the dims; a view for what oneDNN does not move."""
    if [*order] == [*range(x.ndim)]:
        return x
    if x.dtype not in FLOATS:
        return x.transpose([*order])
    at.need_float(x)
    before = x.producer
    if before is not None and before.kind == "StaticTranspose":
        first = before.attrs["order"]
        return transposed(at, before.inputs[0], [first[i] for i in order])
    return at.b.static_transpose(x, order=[*order])


def expanded(x: Value, dims: Sequence[int]) -> Value:
    """Repeat dims of 1, and add dims in front."""
    new = len(dims) - x.ndim
    pairs = list(zip((*[0] * new, *(x.shape or ())), dims, strict=True))
    if any(d == -1 and n in (0, 1) for n, d in pairs):
        raise NotLowered("a new dim is unknown")
    if 0 in dims:
        raise NotLowered("the result has no elements")
    wanted = [-1 if i >= new and n == d else d for i, (n, d) in enumerate(pairs)]
    return x.expand(wanted) if wanted != [-1] * x.ndim else x


# -- a choice


def chosen(at: Place, condition: Value, x: Value, y: Value) -> Value:
    """Return elements of x where a condition is true, of y elsewhere."""
    at.need_float(x, y)
    made = selected(condition, x, y)
    if isinstance(made, str):
        raise NotLowered(made)
    return made


# -- normalizations and reductions


def weights_or(at: Place, weights: Value | None, number: float, size: int) -> Value:
    """Return weights in f32, or as many of a number."""
    if weights is not None:
        return at.cast(weights, "f32")
    if size == -1:
        raise NotLowered("the number of channels is unknown")
    return at.b.constant(np.full((size,), number, np.float32))


def channels_of(x: Value) -> int:
    """Return how many channels a value has whose groups of channels are normalized."""
    if x.ndim < 3:
        raise NotLowered("oneDNN's GroupNorm needs spatial dims")
    channels = (x.shape or ())[1]
    if channels == -1:
        raise NotLowered("the number of channels is unknown")
    return channels


def group_norm(
    at: Place, x: Value, groups: int, epsilon: float, weight: Value | None, bias: Value | None
) -> Value:
    """Normalize groups of channels."""
    at.need_float(x)
    if x.ndim == 2:  # oneDNN's GroupNorm needs spatial dims
        return group_norm(at, x[:, :, None], groups, epsilon, weight, bias).squeeze(2)
    affine = []
    if weight is not None or bias is not None:
        channels = (x.shape or ())[1]
        affine = [weights_or(at, weight, 1, channels), weights_or(at, bias, 0, channels)]
    made: Value = at.b.group_norm(
        x,
        *affine,
        groups=groups,
        keep_stats=False,
        use_affine=bool(affine),
        epsilon=epsilon,
        data_format="NCX",
    )
    return made


EXACT = ("reduce_max", "reduce_min")
"""Reductions that round nothing, so that small types need no conversion."""


def reduced(at: Place, method: str, x: Value, axes: Sequence[int], keep: bool) -> Value:
    """Reduce over axes; sums of small types are computed in f32, and rounded once."""
    at.need_float(x)
    if 0 in (x.shape or ()):
        raise NotLowered("a tensor has no elements")
    if not axes:
        return at.b.abs(x) if method in ("reduce_l1", "reduce_l2") else x
    axes = sorted(axes)
    wide = x if method in EXACT else at.cast(x, "f32")
    if method == "reduce_mean" and x.ndim in (4, 5) and axes == [*range(2, x.ndim)]:
        made = global_avg_pool(wide)
        made = made if keep else made.squeeze(axes)
    elif method == "reduce_max" and axes[0] >= 2 and -1 not in (x.shape or ()) and _is_image(x):
        space = range(2, x.ndim)
        made = at.b.max_pool(
            wide,
            kernel=[(x.shape or ())[i] if i in axes else 1 for i in space],
            strides=[1 for _ in space],
            pads_begin=[0 for _ in space],
            pads_end=[0 for _ in space],
            data_format="NCX",
        )
        made = made if keep else made.squeeze(axes)
    else:
        made = getattr(at.b, method)(wide, axes=axes, keep_dims=keep)
    return at.cast(made, x.dtype)


def _is_image(x: Value) -> bool:
    """Return whether oneDNN gives a value its channels last, for which ReduceMax is slow."""
    node = x.producer
    while node is not None and node.kind in with_trait("elementwise"):
        node = node.inputs[0].producer
    if node is None or node.kind not in with_attribute("data_format"):
        return False
    return x.ndim in (3, 4, 5) and node.attrs.get("data_format") == "NCX"


def extreme(at: Place, method: str, x: Value, axes: Sequence[int], keep: bool) -> Value:
    """Return the largest or smallest of the elements along axes, as infinity where all are that.

    Of these oneDNN makes the largest finite number: of halves, infinity as it is doubled. Other
    numbers stay as they are.
    """
    at.need_float(x)
    made = reduced(at, method, at.cast(x, "f32") * 0.5, axes, keep) * 2.0
    return at.cast(made, x.dtype)
