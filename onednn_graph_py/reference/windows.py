"""Windows that slide over the spatial dims, for convolution and pooling."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..ops.call import Call, Operand
from ..ops.shapes.windows import window_of
from .registry import Array


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
