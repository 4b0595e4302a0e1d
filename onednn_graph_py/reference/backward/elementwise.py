"""Gradients of element-wise ops: diff_dst times the derivative.

Where a function has no derivative, the value is oneDNN's. With use_dst, input 0 is dst, not src.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...ops.call import Call
from ..elementwise import gelu_tanh_argument, normal_cdf, sigmoid, softplus
from ..registry import Array, Implementation, references


def _clamp(call: Call, v: Array) -> Array:
    # Src and dst give the same result, as both are at a limit or both inside.
    return np.asarray((call.attr("min") < v) & (v < call.attr("max")))


def _elu(call: Call, v: Array) -> Array:
    alpha = call.attr("alpha")
    below = v + alpha if call.attr("use_dst") else alpha * np.exp(v)
    return np.where(v > 0, 1.0, below)


def _gelu(call: Call, x: Array) -> Array:
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
    "ClampBackward": _clamp,
    "EluBackward": _elu,
    "GELUBackward": _gelu,
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
