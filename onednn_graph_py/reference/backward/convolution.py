"""Gradients of convolution and transposed convolution.

Convolution makes an element of dst from each window of src; transposed convolution makes a window
of dst from each element of src. So the gradient of either with respect to its data is the other op.

In the sums' indices, n is the batch, g the groups, o and i the channels of a group, a to c the
windows' spatial dims, and x to z the elements of a window.
"""

from __future__ import annotations

import numpy as np

from ...ops.call import Call
from ..convolution import grouped_channels, grouped_weights, joined_channels
from ..registry import Array, reference
from ..windows import channels_first, channels_restored, spatial_extents, windows

_AT, _ELEMENT = "abc", "xyz"


def _restored_weights(call: Call, grouped: Array) -> Array:
    """Return weights in the op's format, from the form of `grouped_weights`."""
    groups, channels, *others = grouped.shape
    weights = grouped.reshape(groups * channels, *others)
    if call.attr("weights_format") in ("XIO", "XOI"):
        weights = np.moveaxis(weights, (0, 1), (-1, -2))
    return weights


def _kernel(call: Call) -> tuple[int, ...]:
    """Return the spatial dims of the weights that the op returns."""
    shape = call.output(0).shape or ()
    return shape[:-2] if call.attr("weights_format") in ("XIO", "XOI") else shape[2:]


@reference("ConvolutionBackwardData")
def _convolution_data(
    call: Call, diff_dst: Array, weights: Array, dst_shape: Array | None = None
) -> Array:
    dy, kernels = channels_first(call, diff_dst), grouped_weights(call, weights)
    spatial = spatial_extents(call, call.output(0))
    at, element = _AT[: len(spatial)], _ELEMENT[: len(spatial)]
    patches = np.einsum(
        f"ngo{at},goi{element}->ngi{at}{element}",
        grouped_channels(call, dy),
        kernels,
        optimize=True,
    )
    where = windows(call, spatial, kernels.shape[3:], dy.shape[2:])
    return channels_restored(call, where.spread(joined_channels(patches), spatial))


@reference("ConvTransposeBackwardData")
def _transposed_data(call: Call, diff_dst: Array, weights: Array) -> Array:
    dy, kernels = channels_first(call, diff_dst), grouped_weights(call, weights)
    count = spatial_extents(call, call.output(0))
    at, element = _AT[: len(count)], _ELEMENT[: len(count)]
    where = windows(call, dy.shape[2:], kernels.shape[3:], count, transposed=True)
    patches = grouped_channels(call, where.over(dy))
    dx = np.einsum(f"ngo{at}{element},gio{element}->ngi{at}", patches, kernels, optimize=True)
    return channels_restored(call, joined_channels(dx))


@reference("ConvolutionBackwardWeights")
def _convolution_weights(
    call: Call, src: Array, diff_dst: Array, weights_shape: Array | None = None
) -> Array:
    x, dy = channels_first(call, src), channels_first(call, diff_dst)
    kernel = _kernel(call)
    at, element = _AT[: len(kernel)], _ELEMENT[: len(kernel)]
    where = windows(call, x.shape[2:], kernel, dy.shape[2:])
    patches = grouped_channels(call, where.over(x))
    made = np.einsum(
        f"ngi{at}{element},ngo{at}->goi{element}",
        patches,
        grouped_channels(call, dy),
        optimize=True,
    )
    return _restored_weights(call, made)


@reference("ConvTransposeBackwardWeights")
def _transposed_weights(
    call: Call, src: Array, diff_dst: Array, weights_shape: Array | None = None
) -> Array:
    x, dy = channels_first(call, src), channels_first(call, diff_dst)
    kernel = _kernel(call)
    at, element = _AT[: len(kernel)], _ELEMENT[: len(kernel)]
    where = windows(call, dy.shape[2:], kernel, x.shape[2:], transposed=True)
    patches = grouped_channels(call, where.over(dy))
    made = np.einsum(
        f"ngi{at},ngo{at}{element}->gio{element}",
        grouped_channels(call, x),
        patches,
        optimize=True,
    )
    return _restored_weights(call, made)
