"""Elementwise ops, their gradients, and Dropout; shapes broadcast as NumPy's do."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ..ops.call import Call
from .registry import Array, Implementation, reference, references

_erfc = np.frompyfunc(math.erfc, 1, 1)  # NumPy has none


def sigmoid(x: Array) -> Array:
    """Return ``1 / (1 + exp(-x))``, without overflow."""
    e = np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, e, 1.0) / (1.0 + e))


def softplus(x: Array) -> Array:
    """Return ``log(1 + exp(x))``, without overflow."""
    return np.asarray(np.logaddexp(0.0, x))


def normal_cdf(x: Array) -> Array:
    """Return the probability that a standard normal variable is below x."""
    # We use erfc, as 1 + erf would cancel below 0.
    return np.asarray(_erfc(-x / math.sqrt(2.0)), np.float64) / 2.0


def gelu_tanh_argument(x: Array) -> Array:
    """Compute the argument of the hyperbolic tangent in GELU's approximation."""
    return np.asarray(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))


def _gelu(call: Call, x: Array) -> Array:
    if call.attr("mode") == "gelu_tanh":
        # (1 + tanh(v)) / 2, which would cancel below 0
        return x * sigmoid(2.0 * gelu_tanh_argument(x))
    return x * normal_cdf(x)


def _gen_index(call: Call, x: Array) -> Array:
    axis = call.axis("axis", x.ndim)
    along = [1] * x.ndim
    along[axis] = x.shape[axis]
    return np.broadcast_to(np.arange(x.shape[axis]).reshape(along), x.shape)


references(
    {
        "Abs": lambda call, x: np.abs(x),
        "Clamp": lambda call, x: np.clip(x, call.attr("min"), call.attr("max")),
        "Elu": lambda call, x: np.where(x > 0, x, call.attr("alpha") * np.expm1(x)),
        "Exp": lambda call, x: np.exp(x),
        "GELU": _gelu,
        "GenIndex": _gen_index,
        "HardSigmoid": lambda call, x: np.clip(call.attr("alpha") * x + call.attr("beta"), 0, 1),
        "HardSwish": lambda call, x: x * np.clip(x + 3.0, 0.0, 6.0) / 6.0,
        "LeakyReLU": lambda call, x: np.where(x > 0, x, call.attr("alpha") * x),
        "Log": lambda call, x: np.log(x),
        "Mish": lambda call, x: x * np.tanh(softplus(x)),
        "PReLU": lambda call, x, slope: np.where(x > 0, x, prelu_slope(call, x, slope) * x),
        "Pow": lambda call, x: np.power(x, call.attr("beta")),
        "ReLU": lambda call, x: np.maximum(x, 0.0),
        "Reciprocal": lambda call, x: 1.0 / x,
        "Round": lambda call, x: np.rint(x),
        "Sigmoid": lambda call, x: sigmoid(x),
        "SoftPlus": lambda call, x: softplus(call.attr("beta") * x) / call.attr("beta"),
        "Sqrt": lambda call, x: np.sqrt(x),
        "Square": lambda call, x: x * x,
        "Tanh": lambda call, x: np.tanh(x),
    }
)


def prelu_slope(call: Call, x: Array, slope: Array) -> Array:
    """Return the slope of PReLU in a shape that broadcasts to the input's."""
    per_channel = call.attr("per_channel_broadcast")
    if slope.ndim == 1 and per_channel and not call.channels_last and slope.size != 1:
        return slope.reshape(-1, *[1] * (x.ndim - 2))
    return slope


@reference("PReLUBackward")
def _prelu_backward(call: Call, x: Array, slope: Array, diff_dst: Array) -> tuple[Array, Array]:
    shape = (1,) * (x.ndim - slope.ndim) + slope.shape
    if slope.ndim == 1 and slope.size != 1 and not call.channels_last and x.ndim > 1:
        shape = (1, slope.size, *[1] * (x.ndim - 2))
    diff_src = np.where(x > 0, diff_dst, diff_dst * slope.reshape(shape))
    shared = tuple(axis for axis, d in enumerate(shape) if d == 1)
    diff_slope = np.where(x > 0, 0.0, diff_dst * x).sum(shared)
    return diff_src, diff_slope.reshape(slope.shape)


# -- gradients: diff_dst times the derivative

# Where a function has no derivative, the value is oneDNN's. With use_dst, input 0 is dst, not src.


def _elu(call: Call, v: Array) -> Array:
    alpha = call.attr("alpha")
    below = v + alpha if call.attr("use_dst") else alpha * np.exp(v)
    return np.where(v > 0, 1.0, below)


def _gelu_slope(call: Call, x: Array) -> Array:
    if call.attr("mode") == "gelu_tanh":
        share, rest = (sigmoid(sign * 2.0 * gelu_tanh_argument(x)) for sign in (1.0, -1.0))
        slope = math.sqrt(2.0 / math.pi) * (1.0 + 3.0 * 0.044715 * x * x)
        return share * (1.0 + 2.0 * x * rest * slope)
    density = np.exp(-x * x / 2.0) / math.sqrt(2.0 * math.pi)
    return normal_cdf(x) + x * density


def _hard_sigmoid(call: Call, x: Array) -> Array:
    alpha = call.attr("alpha")
    # oneDNN too decides in float32 whether the value is below 0 or above 1.
    y = (alpha * x + call.attr("beta")).astype(np.float32)
    return np.where((y > 0) & (y < 1), alpha, 0.0)


def _mish(call: Call, x: Array) -> Array:
    t = np.tanh(softplus(x))
    return t + x * sigmoid(x) * (1.0 - t * t)


def _tanh(call: Call, v: Array) -> Array:
    y = v if call.attr("use_dst") else np.tanh(v)
    return (1.0 - y) * (1.0 + y)


_DERIVATIVES: dict[str, Callable[[Call, Array], Array]] = {
    "AbsBackward": lambda call, x: np.sign(x),
    # Src and dst give the same result, as both are at a limit or both inside.
    "ClampBackward": lambda call, v: np.asarray((call.attr("min") < v) & (v < call.attr("max"))),
    "EluBackward": _elu,
    "GELUBackward": _gelu_slope,
    "HardSigmoidBackward": _hard_sigmoid,
    "HardSwishBackward": lambda call, x: np.where(
        x <= -3, 0.0, np.where(x >= 3, 1.0, x / 3.0 + 0.5)
    ),
    "MishBackward": _mish,
    "ReLUBackward": lambda call, v: v > 0,
    "SigmoidBackward": lambda call, v: (
        v * (1.0 - v) if call.attr("use_dst") else sigmoid(v) * sigmoid(-v)
    ),
    "SoftPlusBackward": lambda call, x: sigmoid(call.attr("beta") * x),
    "SqrtBackward": lambda call, v: 0.5 / (v if call.attr("use_dst") else np.sqrt(v)),
    "TanhBackward": _tanh,
}


def _gradient(derivative: Callable[[Call, Array], Array]) -> Implementation:
    return lambda call, x, diff_dst: derivative(call, x) * diff_dst


references({kind: _gradient(derivative) for kind, derivative in _DERIVATIVES.items()})


def along_channels(call: Call, values: Array, rank: int) -> Array:
    """Return the channels' values in a shape that broadcasts to data of a rank."""
    return values if call.channels_last else values.reshape(-1, *[1] * (rank - 2))


def batch_axes(call: Call, rank: int) -> tuple[int, ...]:
    """Return all axes except the channels'."""
    channels = rank - 1 if call.channels_last else 1
    return tuple(axis for axis in range(rank) if axis != channels)


references(
    {
        "Add": lambda call, a, b: a + b,
        "BiasAdd": lambda call, x, bias: x + along_channels(call, bias, x.ndim),
        "BiasAddBackward": lambda call, dy: np.asarray(dy.sum(batch_axes(call, dy.ndim))),
        "Divide": lambda call, a, b: a / b,
        "GreaterEqual": lambda call, a, b: a >= b,
        "Maximum": lambda call, a, b: np.maximum(a, b),
        "Minimum": lambda call, a, b: np.minimum(a, b),
        "Multiply": lambda call, a, b: a * b,
        "Select": lambda call, condition, a, b: np.where(condition, a, b),
        "SquaredDifference": lambda call, a, b: (a - b) ** 2,
        "Subtract": lambda call, a, b: a - b,
    }
)


_Words = npt.NDArray[np.uint64]

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def _philox(counter: list[_Words], seed: _Words) -> list[_Words]:
    """Make four random 32-bit words, in uint64, by Philox4x32-10 of Salmon et al. (2011)."""
    a, b, c, d = counter
    keys = [seed & _LOW, seed >> _HALF]
    for _ in range(10):
        first, second = np.uint64(0xD2511F53) * a, np.uint64(0xCD9E8D57) * c
        a, b = (second >> _HALF) ^ b ^ keys[0], second & _LOW
        c, d = (first >> _HALF) ^ d ^ keys[1], first & _LOW
        keys = [(keys[0] + np.uint64(0x9E3779B9)) & _LOW, (keys[1] + np.uint64(0xBB67AE85)) & _LOW]
    return [a, b, c, d]


@reference("Dropout")
def _dropout(
    call: Call, x: Array, seed: Array, offset: Array, probability: Array
) -> tuple[Array, ...]:
    key, start = (v.reshape(()).astype(np.int64).view(np.uint64) for v in (seed, offset))
    # One draw, from the index of the first of four elements, makes the numbers of all four.
    firsts = np.arange(0, x.size, 4, dtype=np.uint64)
    same = np.zeros_like(firsts)
    words = _philox([same + (start & _LOW), same + (start >> _HALF), firsts, same], key)
    drawn = np.stack(words, -1).reshape(-1)[: x.size].reshape(x.shape)
    p = min(max(float(probability.reshape(())), 0.0), 1.0)
    kept = drawn > p * float(_LOW)
    scale = 1.0 / (1.0 - p) if p < 1.0 else 0.0
    return np.where(kept, x * scale, 0.0), kept.astype(np.int64)
