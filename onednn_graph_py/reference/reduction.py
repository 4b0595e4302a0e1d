"""Reductions over some axes."""

import math
from collections.abc import Callable

import numpy as np

from ..ops.call import Call
from .registry import Array, references


def _reduced(call: Call, x: Array, over: Callable[..., Array]) -> Array:
    axes = tuple(call.attr("axes") or ())
    return np.asarray(over(x, axis=axes, keepdims=call.attr("keep_dims")))


def _mean(call: Call, x: Array) -> Array:
    count = math.prod(x.shape[a] for a in call.attr("axes") or ())
    total = _reduced(call, x, np.sum)
    return total / count if count else total * np.nan  # NumPy's mean of no elements warns


references(
    {
        "ReduceL1": lambda call, x: _reduced(call, np.abs(x), np.sum),
        "ReduceL2": lambda call, x: np.sqrt(_reduced(call, x * x, np.sum)),
        "ReduceMax": lambda call, x: _reduced(call, x, np.max),
        "ReduceMean": _mean,
        "ReduceMin": lambda call, x: _reduced(call, x, np.min),
        "ReduceProd": lambda call, x: _reduced(call, x, np.prod),
        "ReduceSum": lambda call, x: _reduced(call, x, np.sum),
    }
)
