"""Gradients of normalization and softmax.

Mean and variance are inputs; the gradient assumes without a check that they are those of src.
"""

from __future__ import annotations

import numpy as np

from ...ops.call import Call
from ..binary import along_channels
from ..normalization import batch_axes, last_axes, moments
from ..registry import Array, reference, references


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
def _batch_norm(
    call: Call,
    x: Array,
    diff_dst: Array,
    mean: Array,
    variance: Array,
    gamma: Array | None = None,
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
def _layer_norm(
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
