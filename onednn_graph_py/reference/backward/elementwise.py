"""Gradients of element-wise ops: diff_dst times the derivative.

Where a function has no derivative, the value is oneDNN's. With use_dst, input 0 is dst, not src.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...ops.call import Call
from ..elementwise import gelu_tanh_argument, normal_cdf, sigmoid, softplus
from ..registry import Array, reference


def _derivative(kind: str) -> Callable[[Callable[[Call, Array], Array]], None]:
    """Register an op by its derivative, a function of the call and input 0."""

    def register(derivative: Callable[[Call, Array], Array]) -> None:
        @reference(kind)
        def gradient(call: Call, x: Array, diff_dst: Array) -> Array:
            return derivative(call, x) * diff_dst

    return register


@_derivative("AbsBackward")
def _abs(call: Call, x: Array) -> Array:
    return np.sign(x)


@_derivative("ClampBackward")
def _clamp(call: Call, v: Array) -> Array:
    # Src and dst give the same result, as both are at a limit or both inside.
    return np.asarray((call.attr("min") < v) & (v < call.attr("max")))


@_derivative("EluBackward")
def _elu(call: Call, v: Array) -> Array:
    alpha = call.attr("alpha")
    below = v + alpha if call.attr("use_dst") else alpha * np.exp(v)
    return np.where(v > 0, 1.0, below)


@_derivative("GELUBackward")
def _gelu(call: Call, x: Array) -> Array:
    if call.attr("mode") == "gelu_tanh":
        share, rest = (sigmoid(sign * 2.0 * gelu_tanh_argument(x)) for sign in (1.0, -1.0))
        slope = math.sqrt(2.0 / math.pi) * (1.0 + 3.0 * 0.044715 * x * x)
        return share * (1.0 + 2.0 * x * rest * slope)
    density = np.exp(-x * x / 2.0) / math.sqrt(2.0 * math.pi)
    return normal_cdf(x) + x * density


@_derivative("HardSigmoidBackward")
def _hard_sigmoid(call: Call, x: Array) -> Array:
    alpha = call.attr("alpha")
    # oneDNN too decides in float32 whether the value is below 0 or above 1.
    y = (alpha * x + call.attr("beta")).astype(np.float32)
    return np.where((y > 0) & (y < 1), alpha, 0.0)


@_derivative("HardSwishBackward")
def _hard_swish(call: Call, x: Array) -> Array:
    return np.where(x <= -3, 0.0, np.where(x >= 3, 1.0, x / 3.0 + 0.5))


@_derivative("MishBackward")
def _mish(call: Call, x: Array) -> Array:
    t = np.tanh(softplus(x))
    return t + x * sigmoid(x) * (1.0 - t * t)


@_derivative("ReLUBackward")
def _relu(call: Call, v: Array) -> Array:
    return v > 0


@_derivative("SigmoidBackward")
def _sigmoid(call: Call, v: Array) -> Array:
    return v * (1.0 - v) if call.attr("use_dst") else sigmoid(v) * sigmoid(-v)


@_derivative("SoftPlusBackward")
def _softplus(call: Call, x: Array) -> Array:
    return sigmoid(call.attr("beta") * x)


@_derivative("SqrtBackward")
def _sqrt(call: Call, v: Array) -> Array:
    return 0.5 / (v if call.attr("use_dst") else np.sqrt(v))


@_derivative("TanhBackward")
def _tanh(call: Call, v: Array) -> Array:
    y = v if call.attr("use_dst") else np.tanh(v)
    return (1.0 - y) * (1.0 + y)
