"""The matrix product, convolution, transposed convolution and their gradients.

Convolution makes an element of dst from each window of src; transposed convolution makes a window
of dst from each element of src. So three sums of products compute all six ops. In their indices, n
is the batch, g the groups, s and l the channels of a group of the smaller and the larger tensor (l
has the windows), a to c the windows' spatial dims, and x to z the elements of a window.
"""

import numpy as np

from ..ops.call import Call
from .elementwise import along_channels
from .registry import Array, reference, references
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


def _product(formula: str, one: Array, other: Array, rank: int) -> Array:
    """Return a sum of products; @ stands for the windows' dims in the formula, * for a window's."""
    indices = formula.replace("@", "abc"[:rank]).replace("*", "xyz"[:rank])
    product: Array = np.einsum(indices, one, other, optimize=True)
    return product


@reference("Convolution", "ConvTransposeBackwardData")
def _from_windows(call: Call, large: Array, weights: Array, bias: Array | None = None) -> Array:
    x, kernels = channels_first(call, large), grouped_weights(call, weights)
    where = windows(call, x.shape[2:], kernels.shape[3:], spatial_extents(call, call.output(0)))
    patches = grouped_channels(call, where.over(x))
    y = _product("ngl@*,gsl*->ngs@", patches, kernels, x.ndim - 2)
    y = channels_restored(call, joined_channels(y))
    return y if bias is None else y + along_channels(call, bias, y.ndim)


@reference("ConvTranspose")
def _to_windows(call: Call, small: Array, weights: Array, bias: Array | None = None) -> Array:
    x, kernels = channels_first(call, small), grouped_weights(call, weights)
    spatial = spatial_extents(call, call.output(0))
    patches = _product("ngs@,gsl*->ngl@*", grouped_channels(call, x), kernels, x.ndim - 2)
    where = windows(call, spatial, kernels.shape[3:], x.shape[2:])
    y = channels_restored(call, where.spread(joined_channels(patches), spatial))
    return y if bias is None else y + along_channels(call, bias, y.ndim)


def _weights(call: Call, large: Array, small: Array) -> Array:
    x, y = channels_first(call, large), channels_first(call, small)
    last = call.attr("weights_format") in ("XIO", "XOI")
    shape = call.output(0).shape or ()
    where = windows(call, x.shape[2:], shape[:-2] if last else shape[2:], y.shape[2:])
    patches = grouped_channels(call, where.over(x))
    grouped = _product("ngl@*,ngs@->gsl*", patches, grouped_channels(call, y), x.ndim - 2)
    weights = grouped.reshape(-1, *grouped.shape[2:])
    return np.moveaxis(weights, (0, 1), (-1, -2)) if last else weights


references(
    {
        "ConvolutionBackwardData": lambda call, dy, weights, shape=None: _to_windows(
            call, dy, weights
        ),
        "ConvolutionBackwardWeights": lambda call, src, dy, shape=None: _weights(call, src, dy),
        "ConvTransposeBackwardWeights": lambda call, src, dy, shape=None: _weights(call, dy, src),
    }
)


@reference("MatMul")
def _matmul(call: Call, a: Array, b: Array, bias: Array | None = None) -> Array:
    # Vectors are not transposed; np.matmul treats them as a row or a column, like oneDNN.
    if call.attr("transpose_a") and a.ndim > 1:
        a = a.swapaxes(-1, -2)
    if call.attr("transpose_b") and b.ndim > 1:
        b = b.swapaxes(-1, -2)
    product = np.matmul(a, b)
    if bias is not None:
        product = product + bias
    # The product of two vectors has one dim in oneDNN, and is a scalar in NumPy.
    return np.asarray(product).reshape(call.output(0).shape or ())
