"""Resizing of spatial dims, and its gradient."""

import numpy as np

from ..ops.call import Call
from .registry import Array, reference
from .windows import channels_first, channels_restored, spatial_extents


def _coordinates(call: Call, size: int, new_size: int) -> Array:
    """Return the new elements' positions among the old ones, in float32 like oneDNN."""
    at = np.arange(new_size, dtype=np.float32)
    if call.attr("coordinate_transformation_mode") == "align_corners":
        return at * np.float32(size - 1) / np.float32(max(new_size - 1, 1))
    half = np.float32(0.5)
    return (at + half) * np.float32(size) / np.float32(new_size) - half


def interpolation_weights(call: Call, size: int, new_size: int) -> Array:
    """Return the matrix (new, old) that resizes one dim; each row has one or two entries."""
    at = _coordinates(call, size, new_size)
    new = np.arange(new_size)
    matrix = np.zeros((new_size, size))
    if call.attr("mode") == "nearest":
        # oneDNN's roundf rounds halves away from zero; no coordinate is below -0.5.
        nearest = np.floor(at.astype(np.float64) + 0.5).astype(np.int64)
        matrix[new, np.clip(nearest, 0, size - 1)] = 1.0
        return matrix
    left = np.floor(at).astype(np.int64)
    share = (at - left).astype(np.float64)
    np.add.at(matrix, (new, np.clip(left, 0, size - 1)), 1.0 - share)
    np.add.at(matrix, (new, np.clip(left + 1, 0, size - 1)), share)
    return matrix


@reference("Interpolate")
def _interpolate(call: Call, x: Array, sizes: Array | None = None) -> Array:
    y = channels_first(call, x)
    for axis, new_size in enumerate(spatial_extents(call, call.output(0)), start=2):
        matrix = interpolation_weights(call, y.shape[axis], new_size)
        y = np.moveaxis(np.tensordot(y, matrix, axes=(axis, 1)), -1, axis)
    return channels_restored(call, y)


@reference("InterpolateBackward")
def _interpolate_backward(
    call: Call, src: Array, diff_dst: Array, sizes: Array | None = None
) -> Array:
    # Resizing is linear, so only src's shape matters.
    spatial = channels_first(call, src).shape[2:]
    dx = channels_first(call, diff_dst)
    for axis, size in enumerate(spatial, start=2):
        matrix = interpolation_weights(call, size, dx.shape[axis])
        dx = np.moveaxis(np.tensordot(dx, matrix, axes=(axis, 0)), -1, axis)
    return channels_restored(call, dx)
