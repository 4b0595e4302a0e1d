"""The gradient of resizing."""

from __future__ import annotations

import numpy as np

from ...ops.call import Call
from ..interpolation import interpolation_weights
from ..registry import Array, reference
from ..windows import channels_first, channels_restored


@reference("InterpolateBackward")
def _interpolate(call: Call, src: Array, diff_dst: Array, sizes: Array | None = None) -> Array:
    # Resizing is linear, so only src's shape matters.
    spatial = channels_first(call, src).shape[2:]
    dx = channels_first(call, diff_dst)
    for axis, size in enumerate(spatial, start=2):
        matrix = interpolation_weights(call, size, dx.shape[axis])
        dx = np.moveaxis(np.tensordot(dx, matrix, axes=(axis, 0)), -1, axis)
    return channels_restored(call, dx)
