"""Pooling, reductions and interpolation."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from ...frontends.recipes import reduced
from ...frontends.windows import Windows, avg_pool, max_pool
from ...model.building.value import Value
from .table import Lowering, NotLowered, each, lowers, need_batch

aten = torch.ops.aten


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


@lowers(aten.var.correction, aten.std.correction)
def _variance(
    at: Lowering, x: Value, dim: Any, *, correction: float | None, keepdim: bool
) -> Value:
    shape = x.shape or ()
    axes = [d % x.ndim for d in (range(x.ndim) if not dim and dim != 0 else each(dim, 1))]
    count = math.prod(shape[a] for a in axes)
    rest = count - (1 if correction is None else correction)
    if any(shape[a] == -1 for a in axes) or rest <= 0:
        raise NotLowered("the number of elements is unknown, or too small")
    at.need_float(x)
    wide = at.cast(x, "f32")
    apart = wide - reduced(at, "reduce_mean", wide, axes, True)
    made = reduced(at, "reduce_sum", apart * apart, axes, keepdim) * (1 / rest)
    return at.cast(made if at.node.target is aten.var.correction else at.b.sqrt(made), at.dtype)


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


@lowers(aten.upsample_nearest2d.vec)
def _nearest(at: Lowering, x: Value, size: Any, scales: Sequence[float] | None) -> Value:
    return _resized(at, x, "nearest", scales)


@lowers(aten.upsample_bilinear2d.vec)
def _bilinear(
    at: Lowering, x: Value, size: Any, align_corners: bool, scales: Sequence[float] | None
) -> Value:
    if align_corners:
        raise NotLowered("oneDNN does not align corners")
    return _resized(at, x, "bilinear", scales)
