"""Normalizations, SoftMax, reductions and elementwise ops, in chains with broadcast operands."""

from __future__ import annotations

import numpy as np

from ..building.builder import GraphBuilder
from ..building.value import Value
from ..linked import linked_version
from ..ops import OPS
from .draft import Arrays, Dims, Draft

__all__ = ["case"]


def _shape(d: Draft) -> Dims:
    kind = d.pick(("channels alone", "large", "any", "any", "any"))
    if kind == "channels alone":  # (N, C, 1, ...)
        return (d.pick((1, 2, 3)), d.pick((4, 16, 17)), *(1,) * d.pick((1, 2, 3)))
    if kind == "large":
        return (*(d.pick((1, 2, 4)) for _ in range(d.pick((0, 1, 2)))), 64, d.pick((96, 256)))
    return tuple(d.pick((1, 2, 3, 5, 8, 17)) for _ in range(d.pick((2, 3, 3, 4, 4, 5))))


def _layer_norm(d: Draft, x: Value) -> Value:
    if d.chance(0.3):
        return d.op("LayerNorm", x, use_affine=False, keep_stats=False, epsilon=1e-3)
    parameters = [d.parameter((x.shape or ())[-1:], "f32") for _ in range(2)]
    return d.op("LayerNorm", x, *parameters, keep_stats=False, epsilon=1e-3)


def _rms_norm(d: Draft, x: Value) -> Value:
    """Build RMSNorm by its formula, as models do, or by the op if oneDNN has it."""
    if OPS["RMSNorm"].since <= linked_version() and d.chance(0.4):
        return d.op("RMSNorm", x, d.parameter((x.shape or ())[-1:], x.dtype))
    mean = x.square().reduce_mean(axes=(-1,), keep_dims=True)
    y = x / (mean + 1e-3).sqrt()
    return y * d.parameter((x.shape or ())[-1:], x.dtype)


def _per_channel(d: Draft, x: Value) -> Value:
    """Build BatchNormInference or GroupNorm."""
    shape, last = x.shape or (), d.pick(("NXC", "NCX"))
    if len(shape) < 3:
        return _layer_norm(d, x)
    channels = shape[-1 if last == "NXC" else 1]
    if d.chance(0.5):
        rows = [d.parameter((channels,), "f32") for _ in range(3)]
        variance = d.b.constant(np.float32(d.numbers.uniform(0.5, 1.5, channels)))
        return d.op("BatchNormInference", x, *rows, variance, epsilon=1e-3, data_format=last)
    groups = d.pick([g for g in range(1, channels + 1) if channels % g == 0])
    parameters = [d.parameter((channels,), "f32") for _ in range(2)]
    return d.op(
        "GroupNorm", x, *parameters, groups=groups, data_format=last, keep_stats=False, epsilon=1e-3
    )


def _softmax(d: Draft, x: Value) -> Value:
    axis = d.random.randrange(x.ndim) if d.chance(0.3) else -1
    return d.op(d.pick(("SoftMax", "SoftMax", "LogSoftmax")), x, axis=axis)


def _reduced(d: Draft, x: Value) -> Value:
    kind = d.pick(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2"))
    axes = tuple(sorted(d.random.sample(range(x.ndim), d.random.randint(1, x.ndim))))
    y = d.op(kind, x, axes=axes, keep_dims=True)
    return x + y if d.chance(0.3) else y


_FIRST = (_layer_norm, _rms_norm, _per_channel, _softmax, _reduced)


def case(seed: int) -> tuple[GraphBuilder, Arrays]:
    """Draw a chain of up to 6 ops."""
    d = Draft("chains", seed)
    y = d.input(_shape(d), d.float_type())
    if d.chance(0.4):
        y = d.chain(y, 2)
    if d.chance(0.65):
        y = d.pick(_FIRST)(d, y)
    if d.chance(0.1):
        y = y.type_cast(dtype="f32") if y.dtype != "f32" else y
    y = d.chain(y, 3)
    if y.producer is None:
        y = d.binary(y)
    return d.made(d.quantized(y) if d.chance(0.2) else y)
