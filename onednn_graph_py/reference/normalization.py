"""Normalization and softmax, and their gradients.

All variances are those of the population: they divide by the count, not by the count minus one.
"""

import math

import numpy as np

from ..ops.call import Call
from .elementwise import along_channels, batch_axes
from .products import grouped_channels, joined_channels
from .registry import Array, reference, references
from .windows import channels_first, channels_restored


def last_axes(call: Call, rank: int) -> tuple[int, ...]:
    """Return the axes from begin_norm_axis on."""
    return tuple(range(call.axis("begin_norm_axis", rank), rank))


def moments(x: Array, axes: tuple[int, ...], *, keepdims: bool = False) -> tuple[Array, Array]:
    """Return mean and variance along axes: NaN of no elements, of which NumPy would warn."""
    if 0 in (x.shape[a] for a in axes):
        nothing: Array = x.sum(axes, keepdims=keepdims) * np.nan
        return nothing, nothing
    return x.mean(axes, keepdims=keepdims), x.var(axes, keepdims=keepdims)


def _affine(call: Call, x: Array, gamma: Array | None, beta: Array | None) -> Array:
    if gamma is None or beta is None:
        return x
    return x * along_channels(call, gamma, x.ndim) + along_channels(call, beta, x.ndim)


@reference("BatchNormInference")
def _batch_norm(
    call: Call, x: Array, gamma: Array, beta: Array, mean: Array, variance: Array
) -> Array:
    deviation = np.sqrt(variance + call.attr("epsilon"))
    centred = x - along_channels(call, mean, x.ndim)
    return _affine(call, centred / along_channels(call, deviation, x.ndim), gamma, beta)


@reference("BatchNormForwardTraining")
def _batch_norm_training(
    call: Call,
    x: Array,
    mean: Array,
    variance: Array,
    gamma: Array | None = None,
    beta: Array | None = None,
) -> tuple[Array, ...]:
    axes = batch_axes(call, x.ndim)
    new_mean, new_variance = moments(x, axes)
    deviation = np.sqrt(new_variance + call.attr("epsilon"))
    centred = x - along_channels(call, new_mean, x.ndim)
    y = _affine(call, centred / along_channels(call, deviation, x.ndim), gamma, beta)
    momentum = call.attr("momentum")
    if momentum is None:
        momentum = 0.5  # oneDNN's value, which is not documented
    return (
        y,
        momentum * mean + (1.0 - momentum) * new_mean,
        momentum * variance + (1.0 - momentum) * new_variance,
        new_mean,
        new_variance,
    )


@reference("LayerNorm")
def _layer_norm(
    call: Call, x: Array, gamma: Array | None = None, beta: Array | None = None
) -> tuple[Array, ...]:
    axes = last_axes(call, x.ndim)
    mean, variance = moments(x, axes, keepdims=True)
    y = (x - mean) / np.sqrt(variance + call.attr("epsilon"))
    if gamma is not None and beta is not None:
        # gamma and beta may be flat; give them the shape of the normalized dims.
        shape = x.shape[axes[0] :] if gamma.size == math.prod(x.shape[axes[0] :]) else gamma.shape
        y = y * gamma.reshape(shape) + beta.reshape(shape)
    return y, mean.squeeze(axes), variance.squeeze(axes)


@reference("GroupNorm")
def _group_norm(
    call: Call, x: Array, gamma: Array | None = None, beta: Array | None = None
) -> tuple[Array, ...]:
    parts = grouped_channels(call, channels_first(call, x))
    axes = tuple(range(2, parts.ndim))
    mean, variance = moments(parts, axes, keepdims=True)
    y = (parts - mean) / np.sqrt(variance + call.attr("epsilon"))
    y = channels_restored(call, joined_channels(y))
    return _affine(call, y, gamma, beta), mean.squeeze(axes), variance.squeeze(axes)


def sizes_before_centring(call: Call, x: Array, variance: Array | None = None) -> Array:
    """Return the magnitudes of elements plus their mean's, divided by the standard deviation.

    This is for ops that subtract a mean that they compute: BatchNormForwardTraining, LayerNorm,
    GroupNorm, and gradients, which take the variance as an input.
    """
    parts, axes = x, last_axes(call, x.ndim) if call.kind.startswith("LayerNorm") else None
    if call.kind == "GroupNorm":
        parts = grouped_channels(call, channels_first(call, x))
        axes = tuple(range(2, parts.ndim))
    axes = axes or batch_axes(call, x.ndim)
    mean, own = moments(parts, axes, keepdims=True)
    spread = own if variance is None else variance.reshape(own.shape)
    sizes: Array = (np.abs(parts) + np.abs(mean)) / np.sqrt(spread + call.attr("epsilon"))
    if call.kind == "GroupNorm":
        sizes = channels_restored(call, joined_channels(sizes))
    return sizes


@reference("RMSNorm")
def _rms_norm(call: Call, x: Array, gamma: Array | None = None) -> Array:
    mean_square = np.mean(x * x, last_axes(call, x.ndim), keepdims=True)
    y: Array = x / np.sqrt(mean_square + call.attr("epsilon"))
    return y if gamma is None else y * gamma


def _log_sum_exp(x: Array, axis: int) -> tuple[Array, Array]:
    """Return the largest element, and the logarithm of the sum of exponentials minus it."""
    largest = x.max(axis, keepdims=True, initial=-np.inf)
    return largest, np.log(np.exp(x - largest).sum(axis, keepdims=True))


@reference("SoftMax")
def _softmax(call: Call, x: Array) -> tuple[Array, ...]:
    axis = call.axis("axis", x.ndim)
    largest, rest = _log_sum_exp(x, axis)
    y, stats = np.exp(x - largest - rest), largest + rest
    if call.attr("mode") == "inf_as_zero":
        empty = np.isneginf(largest)
        y, stats = np.where(empty, 0.0, y), np.where(empty, 0.0, stats)
    return y, stats


@reference("LogSoftmax")
def _log_softmax(call: Call, x: Array) -> Array:
    largest, rest = _log_sum_exp(x, call.axis("axis", x.ndim))
    return x - largest - rest


# -- gradients; they assume without a check that mean and variance are those of src


def _normalized(
    x: Array, diff_dst: Array, mean: Array, deviation: Array, gamma: Array, axes: tuple[int, ...]
) -> tuple[Array, Array]:
    """Return the gradient of src, for statistics over some axes, and the normalized src."""
    normal = (x - mean) / deviation
    scaled = diff_dst * gamma
    along_mean, _ = moments(scaled, axes, keepdims=True)
    along_deviation = normal * moments(scaled * normal, axes, keepdims=True)[0]
    return (scaled - along_mean - along_deviation) / deviation, normal


@reference("BatchNormTrainingBackward")
def _batch_norm_backward(
    call: Call, x: Array, diff_dst: Array, mean: Array, variance: Array, gamma: Array | None = None
) -> tuple[Array, ...]:
    axes = batch_axes(call, x.ndim)
    deviation = np.sqrt(variance + call.attr("epsilon"))
    dx, normal = _normalized(
        x,
        diff_dst,
        along_channels(call, mean, x.ndim),
        along_channels(call, deviation, x.ndim),
        along_channels(call, np.ones_like(mean) if gamma is None else gamma, x.ndim),
        axes,
    )
    return dx, (diff_dst * normal).sum(axes), diff_dst.sum(axes)


@reference("LayerNormBackward")
def _layer_norm_backward(
    call: Call,
    x: Array,
    diff_dst: Array,
    mean: Array,
    variance: Array,
    gamma: Array | None = None,
    beta: Array | None = None,
) -> tuple[Array, ...]:
    axes = last_axes(call, x.ndim)
    kept = (*x.shape[: axes[0]], *[1] * len(axes))
    dx, normal = _normalized(
        x,
        diff_dst,
        mean.reshape(kept),
        np.sqrt(variance + call.attr("epsilon")).reshape(kept),
        np.ones(()) if gamma is None else gamma,
        axes,
    )
    samples = tuple(range(axes[0]))
    return dx, (diff_dst * normal).sum(samples), diff_dst.sum(samples)


def _along(call: Call, terms: Array) -> Array:
    return np.asarray(terms.sum(call.axis("axis", terms.ndim), keepdims=True))


references(
    {
        "LogSoftmaxBackward": lambda call, dy, y: dy - np.exp(y) * _along(call, dy),
        "SoftMaxBackward": lambda call, dy, y: y * (dy - _along(call, dy * y)),
    }
)
