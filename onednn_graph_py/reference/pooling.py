"""Pooling."""

from __future__ import annotations

import numpy as np

from ..ops.call import Call
from ..ops.shapes.windows import entries
from .registry import Array, reference
from .rounding import float_info
from .windows import (
    Windows,
    channels_first,
    channels_restored,
    spatial_extents,
    windows,
)


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
