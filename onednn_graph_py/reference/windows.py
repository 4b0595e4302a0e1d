"""Windows that slide over the spatial dims, pooling, and interpolation."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..ops.call import Call, Operand
from ..ops.shapes.windows import entries, window_of
from .registry import Array, reference
from .rounding import float_info


def channels_first(call: Call, x: Array) -> Array:
    """Return data as (batch, channels, spatial), from the op's data format."""
    return np.moveaxis(x, -1, 1) if call.channels_last else x


def channels_restored(call: Call, x: Array) -> Array:
    """Return data in the op's data format, from (batch, channels, spatial)."""
    return np.moveaxis(x, 1, -1) if call.channels_last else x


def spatial_extents(call: Call, operand: Operand) -> tuple[int, ...]:
    """Return the spatial dims of an input or output."""
    shape = operand.shape or ()
    return shape[1:-1] if call.channels_last else shape[2:]


@dataclass(frozen=True)
class Windows:
    """The positions of windows; a tuple has an entry for each spatial dim."""

    count: tuple[int, ...]  # the number of windows
    kernel: tuple[int, ...]  # the number of a window's elements
    strides: tuple[int, ...]  # the distance from one window to the next
    dilations: tuple[int, ...]  # the distance from one element of a window to the next
    begin: tuple[int, ...]  # the distance from the start of the first window to the data

    @property
    def span(self) -> tuple[int, ...]:
        """The number of elements from the begin of the first window to the end of the last."""
        return tuple(
            (n - 1) * s + (k - 1) * d + 1
            for n, k, s, d in zip(
                self.count, self.kernel, self.strides, self.dilations, strict=True
            )
        )

    def over(self, x: Array, fill: float = 0.0) -> Array:
        """Return all windows of data.

        - `x`: (batch, channels, spatial)
        - `fill`: the value of elements outside the data
        - returns: (batch, channels, windows, elements of a window), the last two for each spatial
          dim
        """
        rank = len(self.count)
        spatial = x.shape[2:]
        padded = np.full((*x.shape[:2], *self._padded(spatial)), fill, x.dtype)
        padded[self._data(spatial)] = x
        dilated = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]
        axes = tuple(range(2, 2 + rank))
        every = np.lib.stride_tricks.sliding_window_view(padded, dilated, axes)
        starts = [
            slice(0, (n - 1) * s + 1, s) for n, s in zip(self.count, self.strides, strict=True)
        ]
        elements = [slice(None, None, d) for d in self.dilations]
        return every[(slice(None), slice(None), *starts, *elements)]

    def spread(self, values: Array, spatial: Sequence[int]) -> Array:
        """Add each window's elements to the data at their places: the transpose of `over`."""
        rank = len(self.count)
        padded = np.zeros((*values.shape[:2], *self._padded(spatial)), values.dtype)
        for element in itertools.product(*(range(k) for k in self.kernel)):
            at = [
                slice(e * d, e * d + (n - 1) * s + 1, s)
                for e, d, n, s in zip(
                    element, self.dilations, self.count, self.strides, strict=True
                )
            ]
            padded[(slice(None), slice(None), *at)] += values[(slice(None),) * (2 + rank) + element]
        return padded[self._data(spatial)]

    def _padded(self, spatial: Sequence[int]) -> tuple[int, ...]:
        """Return the spatial dims of an array that contains the data and all windows."""
        return tuple(
            max(b + size, span)
            for b, size, span in zip(self.begin, spatial, self.span, strict=True)
        )

    def _data(self, spatial: Sequence[int]) -> tuple[slice, ...]:
        """Return the slices of the padded array that contain the data."""
        at = (slice(b, b + size) for b, size in zip(self.begin, spatial, strict=True))
        return (slice(None), slice(None), *at)


def windows(
    call: Call, spatial: Sequence[int], kernel: Sequence[int], count: Sequence[int]
) -> Windows:
    """Return the positions of an op's windows.

    - `call`: the op; it has strides, pads_begin and maybe dilations and auto_pad
    - `spatial`: the spatial dims over which windows slide: those of the larger one of input and
      output
    - `count`: the number of windows, for each spatial dim
    """
    window = window_of(call, tuple(kernel))
    transposed = call.kind.startswith("ConvTranspose")
    begin = tuple(window.begin(i, 0 if transposed else size) for i, size in enumerate(spatial))
    return Windows(tuple(count), window.kernel, window.strides, window.dilations, begin)


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
