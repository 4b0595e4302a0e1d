"""Normalizations, softmax, reductions, pooling and interpolation."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from ...blocks.normalization import rms_norm
from ...frontends.recipes import channels_of, group_norm, reduced, weights_or
from ...frontends.windows import Windows, avg_pool, max_pool
from ...model.building.value import Value
from .table import Lowering, NotLowered, each, lowers, need_batch

aten = torch.ops.aten


def _over_one_dim(norm: Callable[..., Value]) -> Callable[..., Value]:
    """Let a normalization over several dims, which oneDNN lacks, see them as one."""

    def normalized(at: Lowering, x: Value, dims: Sequence[int], *more: Any) -> Value:
        if len(dims) == 1:
            return norm(at, x, dims, *more)
        whole, size = at.argument(0).shape, (math.prod(dims),)
        rows = (*whole[: x.ndim - len(dims)], *size)
        flat = (at.reshaped(m, dims, size) if isinstance(m, Value) else m for m in more)
        return at.reshaped(norm(at, at.reshaped(x, whole, rows), size, *flat), rows, whole)

    return normalized


@lowers(aten.layer_norm.default)
@_over_one_dim
def _layer_norm(at: Lowering, x: Value, normalized_shape: Sequence[int], *more: Any) -> Value:
    weight, bias, eps, *_ = more
    at.need_float(x)
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
@_over_one_dim
def _rms_norm(
    at: Lowering, x: Value, normalized_shape: Sequence[int], weight: Value | None, eps: float | None
) -> Value:
    at.need_float(x)
    if weight is not None and weight.dtype not in (x.dtype, "f32"):
        weight = at.cast(weight, "f32")
    epsilon = torch.finfo(at.argument(0).dtype).eps if eps is None else eps
    return at.cast(rms_norm(x, weight, epsilon=epsilon), at.dtype)


@lowers(aten.group_norm.default)
def _group_norm(at: Lowering, x: Value, groups: int, *more: Any) -> Value:
    weight, bias, eps, _ = more
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


def _windows(
    at: Lowering, x: Value, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Windows:
    """Return the windows of pooling, whose last ones depend on how torch rounds."""
    at.need_float(x)
    spatial = int(str(at.node.target).split("pool")[1][0])
    need_batch(x, spatial)
    kernel, dilations, pads = (each(given, spatial) for given in (kernel, dilation, padding))
    strides = each(stride, spatial) if stride else kernel
    if not ceil_mode:
        return Windows(kernel, strides, dilations, pads, pads)
    before, after = (x.shape or ())[2:], at.dims[2:]
    if -1 in before:
        raise NotLowered("ceil_mode with unknown dims")
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    sizes = zip(before, after, spans, strides, pads, strict=True)
    ends = [max((o - 1) * s + span - n - p, 0) for n, o, span, s, p in sizes]
    return Windows(kernel, strides, dilations, pads, ends, ends != pads)


@lowers(aten.max_pool1d.default, aten.max_pool2d.default, aten.max_pool3d.default)
def _max_pool(at: Lowering, x: Value, *windows: Any) -> Value:
    return max_pool(at, x, _windows(at, x, *windows))


@lowers(aten.avg_pool1d.default, aten.avg_pool2d.default, aten.avg_pool3d.default)
def _avg_pool(
    at: Lowering,
    x: Value,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None = None,
) -> Value:
    if divisor_override is not None:
        raise NotLowered("oneDNN's AvgPool has no other divisor")
    windows = _windows(at, x, kernel_size, stride, padding, 1, ceil_mode)
    # What ceil_mode adds behind the padding does not count, whatever count_include_pad says.
    return avg_pool(at, x, windows, count_include_pad and any(windows.begin))


@lowers(aten.adaptive_avg_pool1d.default, aten.adaptive_avg_pool2d.default)
@lowers(aten._adaptive_avg_pool2d.default)
def _adaptive_avg_pool(at: Lowering, x: Value, output_size: Any) -> Value:
    at.need_float(x)
    spatial = 1 if "pool1d" in str(at.node.target) else 2
    need_batch(x, spatial)
    sizes = each(output_size, spatial)
    if set(sizes) == {1}:
        return _reduced("reduce_mean", at, x, range(2, x.ndim), True)
    before = (x.shape or ())[2:]
    if any(n == -1 or n % o for n, o in zip(before, sizes, strict=True)):
        raise NotLowered("windows of different sizes")
    kernel = [n // o for n, o in zip(before, sizes, strict=True)]
    none, ones = [0] * spatial, [1] * spatial
    return avg_pool(at, x, Windows(kernel, kernel, ones, none, none))


def _reduced(
    method: str, at: Lowering, x: Value, dims: Any = None, keepdim: bool = False, **_: Any
) -> Value:
    at.need_float(x)
    axes = [*range(x.ndim)] if not dims and dims != 0 else each(dims, 1)
    return at.cast(reduced(at, method, x, [d % x.ndim for d in axes if x.ndim], keepdim), at.dtype)


lowers(aten.mean.dim, aten.mean.default)(partial(_reduced, "reduce_mean"))
lowers(aten.sum.dim_IntList, aten.sum.default)(partial(_reduced, "reduce_sum"))
lowers(aten.prod.dim_int, aten.prod.default)(partial(_reduced, "reduce_prod"))
lowers(aten.amax.default)(partial(_reduced, "reduce_max"))
lowers(aten.amin.default)(partial(_reduced, "reduce_min"))


@lowers(aten.linalg_vector_norm.default)
def _norm(at: Lowering, x: Value, ord: float, dim: Any, keepdim: bool, **_: Any) -> Value:
    if ord not in (1, 2):
        raise NotLowered(f"oneDNN has no norm of {ord:g}")
    return _reduced("reduce_l1" if ord == 1 else "reduce_l2", at, x, dim, keepdim)


def _moments(
    at: Lowering, x: Value, dim: Any, *, correction: float | None, keepdim: bool
) -> tuple[Value, Value]:
    """Return the variance and the mean in f32."""
    shape = x.shape or ()
    every = range(x.ndim) if not dim and dim != 0 else each(dim, 1)
    axes = [d % x.ndim for d in every if x.ndim]
    count = math.prod(shape[a] for a in axes)
    less = 1 if correction is None else correction
    if less if any(shape[a] == -1 for a in axes) else count <= less:
        raise NotLowered("the number of elements is unknown, or too small")
    at.need_float(x)
    wide = at.cast(x, "f32")
    mean = reduced(at, "reduce_mean", wide, axes, True)
    apart = wide - mean
    variance = reduced(at, "reduce_mean", apart * apart, axes, keepdim)
    if less:
        variance = variance * (count / (count - less))
    return variance, mean if keepdim or not axes else mean.squeeze(axes)


@lowers(aten.var.correction)
def _variance(at: Lowering, x: Value, dim: Any, **options: Any) -> Value:
    return at.cast(_moments(at, x, dim, **options)[0], at.dtype)


@lowers(aten.std.correction)
def _deviation(at: Lowering, x: Value, dim: Any, **options: Any) -> Value:
    return at.cast(at.b.sqrt(_moments(at, x, dim, **options)[0]), at.dtype)


@lowers(aten.var_mean.correction)
def _variance_and_mean(at: Lowering, x: Value, dim: Any, **options: Any) -> tuple[Value, ...]:
    return tuple(at.cast(made, x.dtype) for made in _moments(at, x, dim, **options))


def _resized(at: Lowering, x: Value, mode: str, scales: Sequence[float] | None) -> Value:
    at.need_float(x)
    before, after = (x.shape or ())[2:], at.dims[2:]
    if -1 in (*before, *after):
        if scales is None or any(s % 1 for s in scales):
            raise NotLowered("sizes are unknown")
        return at.b.interpolate(x, mode=mode, scales=[*scales], data_format="NCX")
    factors = [o / n for n, o in zip(before, after, strict=True)]
    if scales is not None and [*scales] != factors:
        raise NotLowered("the factors are not those of the sizes")
    # torch takes the element at or before a place, oneDNN the nearest: by whole factors the same.
    if mode == "nearest" and any(not f.is_integer() for f in factors):
        raise NotLowered("a factor is not a whole number")
    return at.b.interpolate(x, mode=mode, sizes=[*after], data_format="NCX")


lowers(aten.upsample_nearest2d.vec)(lambda at, x, size, scales: _resized(at, x, "nearest", scales))


@lowers(aten.upsample_bilinear2d.vec)
def _bilinear(
    at: Lowering, x: Value, size: Any, align_corners: bool, scales: Sequence[float] | None
) -> Value:
    if align_corners:
        raise NotLowered("oneDNN does not align corners")
    return _resized(at, x, "bilinear", scales)
