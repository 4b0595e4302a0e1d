"""Pooling, and its gradients."""

import math

import numpy as np

from ..ops.call import Call
from ..ops.shapes.windows import entries
from .registry import Array, reference
from .rounding import float_info
from .windows import Windows, channels_first, channels_restored, spatial_extents, windows


def pooling_windows(call: Call, spatial: tuple[int, ...], count: tuple[int, ...]) -> Windows:
    """Return the positions of pooling's windows."""
    return windows(call, spatial, entries(call, "kernel", len(spatial), 1), count)


def average_counts(call: Call, spatial: tuple[int, ...], where: Windows) -> Array:
    """Return the divisors of the windows' sums, as (1, 1, windows)."""
    if call.attr("exclude_pad"):
        inside = where.over(np.ones((1, 1, *spatial)))
        return np.asarray(inside.sum(tuple(range(-len(spatial), 0))))
    return np.full((1, 1, *where.count), float(np.prod(where.kernel)))


@reference("AvgPool")
def _avg_pool(call: Call, x: Array) -> Array:
    x = channels_first(call, x)
    spatial = x.shape[2:]
    where = pooling_windows(call, spatial, spatial_extents(call, call.output(0)))
    sums = where.over(x).sum(tuple(range(-len(spatial), 0)))
    return channels_restored(call, sums / average_counts(call, spatial, where))


@reference("MaxPool")
def _max_pool(call: Call, x: Array) -> Array:
    x = channels_first(call, x)
    spatial = x.shape[2:]
    where = pooling_windows(call, spatial, spatial_extents(call, call.output(0)))
    # oneDNN starts from the lowest finite number, which is the result for windows of -inf.
    lowest = float(float_info(call.input(0).dtype or "f32").min)
    largest = where.over(x, lowest).max(tuple(range(-len(spatial), 0)), initial=lowest)
    return channels_restored(call, largest)


@reference("AvgPoolBackward")
def _avg_pool_backward(call: Call, diff_dst: Array, src_shape: Array | None = None) -> Array:
    dy = channels_first(call, diff_dst)
    spatial = spatial_extents(call, call.output(0))
    where = pooling_windows(call, spatial, dy.shape[2:])
    shares = dy / average_counts(call, spatial, where)
    every = shares.reshape(*shares.shape, *[1] * len(spatial))
    spread = where.spread(np.broadcast_to(every, (*shares.shape, *where.kernel)), spatial)
    return channels_restored(call, spread)


@reference("MaxPoolBackward")
def _max_pool_backward(call: Call, src: Array, diff_dst: Array) -> Array:
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
