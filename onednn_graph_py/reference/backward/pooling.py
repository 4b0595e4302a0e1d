"""Gradients of pooling."""

from __future__ import annotations

import math

import numpy as np

from ...ops.call import Call
from ..pooling import average_counts, pooling_windows
from ..registry import Array, reference
from ..rounding import float_info
from ..windows import channels_first, channels_restored, spatial_extents


@reference("AvgPoolBackward")
def _avg_pool(call: Call, diff_dst: Array, src_shape: Array | None = None) -> Array:
    dy = channels_first(call, diff_dst)
    spatial = spatial_extents(call, call.output(0))
    where = pooling_windows(call, spatial, dy.shape[2:])
    shares = dy / average_counts(call, spatial, where)
    every = shares.reshape(*shares.shape, *[1] * len(spatial))
    spread = where.spread(np.broadcast_to(every, (*shares.shape, *where.kernel)), spatial)
    return channels_restored(call, spread)


@reference("MaxPoolBackward")
def _max_pool(call: Call, src: Array, diff_dst: Array) -> Array:
    x, dy = channels_first(call, src), channels_first(call, diff_dst)
    spatial = x.shape[2:]
    where = pooling_windows(call, spatial, dy.shape[2:])
    taken = where.over(x, -np.inf).reshape(*dy.shape, math.prod(where.kernel))
    # oneDNN looks for an element above the lowest finite number. If there is none, it takes the
    # first element, even if that is padding.
    lowest = float(float_info(call.input(0).dtype or "f32").min)
    first = np.where(taken > lowest, taken, -np.inf).argmax(-1, keepdims=True)
    gradients = np.zeros(taken.shape)
    np.put_along_axis(gradients, first, dy[..., np.newaxis], -1)
    spread = where.spread(gradients.reshape(*dy.shape, *where.kernel), spatial)
    return channels_restored(call, spread)
