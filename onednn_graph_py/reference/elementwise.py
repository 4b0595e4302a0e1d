"""Elementwise ops on one tensor."""

from __future__ import annotations

import math

import numpy as np

from ..ops.call import Call
from .registry import Array, reference

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


@reference("Abs")
def _abs(call: Call, x: Array) -> Array:
    return np.abs(x)


@reference("Clamp")
def _clamp(call: Call, x: Array) -> Array:
    return np.clip(x, call.attr("min"), call.attr("max"))


@reference("Elu")
def _elu(call: Call, x: Array) -> Array:
    alpha: float = call.attr("alpha")
    return np.where(x > 0, x, alpha * np.expm1(x))


@reference("Exp")
def _exp(call: Call, x: Array) -> Array:
    return np.exp(x)


@reference("GELU")
def _gelu(call: Call, x: Array) -> Array:
    if call.attr("mode") == "gelu_tanh":
        # (1 + tanh(v)) / 2, which would cancel below 0
        return x * sigmoid(2.0 * gelu_tanh_argument(x))
    return x * normal_cdf(x)


@reference("HardSigmoid")
def _hard_sigmoid(call: Call, x: Array) -> Array:
    alpha: float = call.attr("alpha")
    beta: float = call.attr("beta")
    return np.clip(alpha * x + beta, 0.0, 1.0)


@reference("HardSwish")
def _hard_swish(call: Call, x: Array) -> Array:
    return np.asarray(x * np.clip(x + 3.0, 0.0, 6.0) / 6.0)


@reference("LeakyReLU")
def _leaky_relu(call: Call, x: Array) -> Array:
    alpha: float = call.attr("alpha")
    return np.where(x > 0, x, alpha * x)


@reference("Log")
def _log(call: Call, x: Array) -> Array:
    return np.log(x)


@reference("Mish")
def _mish(call: Call, x: Array) -> Array:
    return x * np.tanh(softplus(x))


@reference("Pow")
def _pow(call: Call, x: Array) -> Array:
    beta: float = call.attr("beta")
    return np.power(x, beta)


@reference("Reciprocal")
def _reciprocal(call: Call, x: Array) -> Array:
    return 1.0 / x


@reference("ReLU")
def _relu(call: Call, x: Array) -> Array:
    return np.maximum(x, 0.0)


@reference("Round")
def _round(call: Call, x: Array) -> Array:
    return np.rint(x)


@reference("Sigmoid")
def _sigmoid(call: Call, x: Array) -> Array:
    return sigmoid(x)


@reference("SoftPlus")
def _softplus(call: Call, x: Array) -> Array:
    beta: float = call.attr("beta")
    return softplus(beta * x) / beta


@reference("Sqrt")
def _sqrt(call: Call, x: Array) -> Array:
    return np.sqrt(x)


@reference("Square")
def _square(call: Call, x: Array) -> Array:
    return x * x


@reference("Tanh")
def _tanh(call: Call, x: Array) -> Array:
    return np.tanh(x)


@reference("GenIndex")
def _gen_index(call: Call, x: Array) -> Array:
    axis = call.axis("axis", x.ndim)
    along = [1] * x.ndim
    along[axis] = x.shape[axis]
    return np.broadcast_to(np.arange(x.shape[axis]).reshape(along), x.shape)


@reference("PReLU")
def _prelu(call: Call, x: Array, slope: Array) -> Array:
    return np.where(x > 0, x, prelu_slope(call, x, slope) * x)


def prelu_slope(call: Call, x: Array, slope: Array) -> Array:
    """Return the slope of PReLU in a shape that broadcasts to the input's."""
    per_channel = call.attr("per_channel_broadcast")
    if slope.ndim == 1 and per_channel and not call.channels_last and slope.size != 1:
        return slope.reshape(-1, *[1] * (x.ndim - 2))
    return slope
