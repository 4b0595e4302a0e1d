"""Elementwise ops on one tensor."""

from __future__ import annotations

import math

import numpy as np

from ..ops.call import Call
from .registry import Array, reference, references

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


@reference("PReLU")
def _prelu(call: Call, x: Array, slope: Array) -> Array:
    return np.where(x > 0, x, prelu_slope(call, x, slope) * x)


def prelu_slope(call: Call, x: Array, slope: Array) -> Array:
    """Return the slope of PReLU in a shape that broadcasts to the input's."""
    per_channel = call.attr("per_channel_broadcast")
    if slope.ndim == 1 and per_channel and not call.channels_last and slope.size != 1:
        return slope.reshape(-1, *[1] * (x.ndim - 2))
    return slope
