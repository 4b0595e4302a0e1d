"""Convolution and transposed convolution."""

from __future__ import annotations

import numpy as np

from ..ops.call import Call
from .binary import along_channels
from .registry import Array, reference
from .windows import channels_first, channels_restored, spatial_extents, windows


def grouped_weights(call: Call, weights: Array) -> Array:
    """Return weights as (groups, leading channels of a group, other channels of a group, spatial).

    The leading channels are Convolution's output channels and ConvTranspose's input channels: those
    of the tensor that has one element for each window.
    """
    if call.attr("weights_format") in ("XIO", "XOI"):
        weights = np.moveaxis(weights, (-1, -2), (0, 1))
    groups = call.attr("groups")
    return weights.reshape(groups, weights.shape[0] // groups, *weights.shape[1:])


def grouped_channels(call: Call, x: Array) -> Array:
    """Return data as (batch, groups, channels of a group, ...), from (batch, channels, ...)."""
    groups = call.attr("groups")
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])


def joined_channels(x: Array) -> Array:
    """Return (batch, channels, ...) from (batch, groups, channels of a group, ...)."""
    return x.reshape(x.shape[0], x.shape[1] * x.shape[2], *x.shape[3:])


def _biased(call: Call, y: Array, bias: Array | None) -> Array:
    y = channels_restored(call, y)
    return y if bias is None else y + along_channels(call, bias, y.ndim)


@reference("Convolution")
def _convolution(call: Call, x: Array, weights: Array, bias: Array | None = None) -> Array:
    x, kernels = channels_first(call, x), grouped_weights(call, weights)
    rank = x.ndim - 2
    count = spatial_extents(call, call.output(0))
    patches = grouped_channels(call, windows(call, x.shape[2:], kernels.shape[3:], count).over(x))
    # n batch, g groups, o and i channels of a group; ... windows, then elements of a window
    out, element = "abc"[:rank], "xyz"[:rank]
    y = np.einsum(f"ngi{out}{element},goi{element}->ngo{out}", patches, kernels, optimize=True)
    return _biased(call, joined_channels(y), bias)


@reference("ConvTranspose")
def _conv_transpose(call: Call, x: Array, weights: Array, bias: Array | None = None) -> Array:
    x, kernels = channels_first(call, x), grouped_weights(call, weights)
    rank = x.ndim - 2
    spatial = spatial_extents(call, call.output(0))
    where = windows(call, spatial, kernels.shape[3:], x.shape[2:], transposed=True)
    at, element = "abc"[:rank], "xyz"[:rank]
    patches = np.einsum(
        f"ngi{at},gio{element}->ngo{at}{element}", grouped_channels(call, x), kernels, optimize=True
    )
    y = where.spread(joined_channels(patches), spatial)
    return _biased(call, y, bias)
