"""Normalizations and softmax."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from ...blocks.normalization import rms_norm
from ...frontends.recipes import channels_of, group_norm, weights_or
from ...model.building.value import Value
from .table import Lowering, NotLowered, lowers

aten = torch.ops.aten


@lowers(aten.layer_norm.default)
def _layer_norm(
    at: Lowering,
    x: Value,
    normalized_shape: Sequence[int],
    weight: Value | None,
    bias: Value | None,
    eps: float,
    *_: Any,
) -> Value:
    at.need_float(x)
    if len(normalized_shape) != 1:
        raise NotLowered("oneDNN's LayerNorm has weights of one dim")
    affine = []
    if weight is not None or bias is not None:
        (size,) = normalized_shape
        affine = [weights_or(at, weight, 1, size), weights_or(at, bias, 0, size)]
    rows = x[None] if x.ndim == 1 else x  # for one dim oneDNN has no kernel
    made: Value = at.b.layer_norm(
        rows, *affine, keep_stats=False, begin_norm_axis=-1, use_affine=bool(affine), epsilon=eps
    )
    return made.squeeze(0) if x.ndim == 1 else made


@lowers(aten.native_layer_norm.default)
def _native_layer_norm(at: Lowering, *arguments: Any) -> tuple[Value]:
    at.need_first_only()
    return (_layer_norm(at, *arguments),)


@lowers(aten.rms_norm.default)
def _rms_norm(
    at: Lowering, x: Value, normalized_shape: Sequence[int], weight: Value | None, eps: float | None
) -> Value:
    at.need_float(x)
    if len(normalized_shape) != 1:
        raise NotLowered("oneDNN's RMSNorm has weights of one dim")
    if weight is not None and weight.dtype not in (x.dtype, "f32"):
        weight = at.cast(weight, "f32")
    epsilon = torch.finfo(at.argument(0).dtype).eps if eps is None else eps
    return at.cast(rms_norm(x, weight, epsilon=epsilon), at.dtype)


@lowers(aten.group_norm.default)
def _group_norm(
    at: Lowering,
    x: Value,
    groups: int,
    weight: Value | None,
    bias: Value | None,
    eps: float,
    _: Any,
) -> Value:
    return group_norm(at, x, groups, eps, weight, bias)


@lowers(aten.instance_norm.default)
def _instance_norm(at: Lowering, x: Value, *more: Any) -> Value:
    weight, bias, mean, variance, _, _, eps, _ = more
    if mean is not None or variance is not None:
        raise NotLowered("it has statistics of earlier calls")
    return group_norm(at, x, channels_of(x), eps, weight, bias)


@lowers(aten.batch_norm.default)
def _batch_norm(at: Lowering, x: Value, *more: Any) -> Value:
    weight, bias, mean, variance, training, _, eps, _ = more
    if training or mean is None or variance is None:
        raise NotLowered("it computes the statistics of a batch")
    at.need_float(x)
    [size] = mean.shape
    if x.ndim == 2:  # oneDNN's BatchNormInference needs spatial dims
        deviation = at.b.sqrt(at.cast(variance, "f32") + float(eps))
        factor = at.b.divide(weights_or(at, weight, 1, size), deviation)
        shift = weights_or(at, bias, 0, size) - at.cast(mean, "f32") * factor
        return at.cast(at.cast(x, "f32") * factor + shift, at.dtype)
    return at.b.batch_norm_inference(
        x,
        weights_or(at, weight, 1, size),
        weights_or(at, bias, 0, size),
        at.cast(mean, "f32"),
        at.cast(variance, "f32"),
        epsilon=eps,
        data_format="NCX",
    )


@lowers(aten._native_batch_norm_legit_no_training.default)
def _native_batch_norm(at: Lowering, x: Value, *more: Any) -> tuple[Value]:
    at.need_first_only()
    *tensors, momentum, eps = more
    return (_batch_norm(at, x, *tensors, False, momentum, eps, None),)


def _along(method: str, at: Lowering, x: Value, dim: int, _: Any, **attributes: Any) -> Value:
    at.need_float(x)
    # Computed in the larger of the two types, as torch does.
    wide = at.cast(x, at.dtype) if at.dtype == "f32" else x
    return at.cast(getattr(at.b, method)(wide, axis=dim, **attributes), at.dtype)


_softmax = partial(_along, "softmax")
_log_softmax = partial(_along, "log_softmax")
lowers(aten.softmax.int, aten._softmax.default)(_softmax)
lowers(aten._safe_softmax.default)(partial(_softmax, mode="inf_as_zero"))
lowers(aten.log_softmax.int, aten._log_softmax.default)(_log_softmax)
