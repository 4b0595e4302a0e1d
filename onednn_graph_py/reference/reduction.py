"""Reductions over some axes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..ops.call import Call
from .registry import Array, reference


def _reduced(call: Call, x: Array, over: Callable[..., Array]) -> Array:
    axes = tuple(call.attr("axes") or ())
    return np.asarray(over(x, axis=axes, keepdims=call.attr("keep_dims")))


@reference("ReduceL1")
def _l1(call: Call, x: Array) -> Array:
    return _reduced(call, np.abs(x), np.sum)


@reference("ReduceL2")
def _l2(call: Call, x: Array) -> Array:
    return np.sqrt(_reduced(call, x * x, np.sum))


@reference("ReduceMax")
def _max(call: Call, x: Array) -> Array:
    return _reduced(call, x, np.max)


@reference("ReduceMean")
def _mean(call: Call, x: Array) -> Array:
    count = math.prod(x.shape[a] for a in call.attr("axes") or ())
    total = _reduced(call, x, np.sum)
    return total / count if count else total * np.nan  # NumPy's mean of no elements warns


@reference("ReduceMin")
def _min(call: Call, x: Array) -> Array:
    return _reduced(call, x, np.min)


@reference("ReduceProd")
def _prod(call: Call, x: Array) -> Array:
    return _reduced(call, x, np.prod)


@reference("ReduceSum")
def _sum(call: Call, x: Array) -> Array:
    return _reduced(call, x, np.sum)
