"""Gradients of parameters, which are sums: the slope of PReLU, the bias."""

from __future__ import annotations

import numpy as np

from ...ops.call import Call
from ..normalization import batch_axes
from ..registry import Array, reference


@reference("PReLUBackward")
def _prelu(call: Call, x: Array, slope: Array, diff_dst: Array) -> tuple[Array, Array]:
    shape = (1,) * (x.ndim - slope.ndim) + slope.shape
    if slope.ndim == 1 and slope.size > 1 and not call.channels_last and x.ndim > 1:
        shape = (1, slope.size, *[1] * (x.ndim - 2))
    diff_src = np.where(x > 0, diff_dst, diff_dst * slope.reshape(shape))
    shared = tuple(axis for axis, d in enumerate(shape) if d == 1)
    diff_slope = np.where(x > 0, 0.0, diff_dst * x).sum(shared)
    return diff_src, diff_slope.reshape(slope.shape)


@reference("BiasAddBackward")
def _bias_add(call: Call, diff_dst: Array) -> Array:
    return np.asarray(diff_dst.sum(batch_axes(call, diff_dst.ndim)))
