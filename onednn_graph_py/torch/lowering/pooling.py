"""Pooling, reductions and interpolation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...blocks.pooling import global_avg_pool
from ...building.value import Value
from .table import Lowering, NotLowered, each, lowers, need_batch

aten = torch.ops.aten


def _ends(
    at: Lowering,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> list[int]:
    """Return the padding behind each dim, which depends on how torch rounds."""
    if not ceil_mode:
        return list(padding)
    before, after = (x.shape or ())[2:], at.dims[2:]
    if -1 in before:
        raise NotLowered("ceil_mode with unknown dims")
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    sizes = zip(before, after, spans, stride, padding, strict=True)
    return [max((o - 1) * s + span - n - p, 0) for n, o, span, s, p in sizes]


@lowers(aten.max_pool1d.default, aten.max_pool2d.default, aten.max_pool3d.default)
def _max_pool(
    at: Lowering,
    x: Value,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Value:
    at.need_float(x)
    spatial = int(str(at.node.target).split("pool")[1][0])
    need_batch(x, spatial)
    kernel = each(kernel_size, spatial)
    strides = each(stride, spatial) if stride else kernel
    pads, dilations = each(padding, spatial), each(dilation, spatial)
    return at.b.max_pool(
        x,
        kernel=kernel,
        strides=strides,
        pads_begin=pads,
        pads_end=_ends(at, x, kernel, strides, pads, dilations, ceil_mode),
        dilations=dilations,
        data_format="NCX",
    )


@lowers(aten.avg_pool1d.default, aten.avg_pool2d.default, aten.avg_pool3d.default)
def _avg_pool(
    at: Lowering,
    x: Value,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:
    at.need_float(x)
    spatial = int(str(at.node.target).split("pool")[1][0])
    need_batch(x, spatial)
    if divisor_override is not None:
        raise NotLowered("oneDNN's AvgPool has no other divisor")
    kernel = each(kernel_size, spatial)
    strides = each(stride, spatial) if stride else kernel
    pads = each(padding, spatial)
    ends = _ends(at, x, kernel, strides, pads, [1] * spatial, ceil_mode)
    # What ceil_mode adds behind the padding does not count, whatever count_include_pad says.
    included = count_include_pad and any(pads)
    if included and ends != pads:
        raise NotLowered("ceil_mode with padding that counts")
    return at.b.avg_pool(
        x,
        kernel=kernel,
        strides=strides,
        pads_begin=pads,
        pads_end=ends,
        exclude_pad=not included,
        data_format="NCX",
    )


@lowers(aten.adaptive_avg_pool1d.default, aten.adaptive_avg_pool2d.default)
@lowers(aten._adaptive_avg_pool2d.default)
def _adaptive_avg_pool(at: Lowering, x: Value, output_size: Any) -> Value:
    at.need_float(x)
    spatial = 1 if "pool1d" in str(at.node.target) else 2
    need_batch(x, spatial)
    sizes = each(output_size, spatial)
    if set(sizes) == {1}:
        return _reduced(at, "reduce_mean", x, range(2, x.ndim), True)
    before = (x.shape or ())[2:]
    if any(n == -1 or n % o for n, o in zip(before, sizes, strict=True)):
        raise NotLowered("windows of different sizes")
    kernel = [n // o for n, o in zip(before, sizes, strict=True)]
    none = [0] * spatial
    return at.b.avg_pool(
        x,
        kernel=kernel,
        strides=kernel,
        pads_begin=none,
        pads_end=none,
        exclude_pad=True,
        data_format="NCX",
    )


def _reduced(at: Lowering, method: str, x: Value, dims: Any, keepdim: bool) -> Value:
    at.need_float(x)
    axes = [*range(x.ndim)] if not dims and dims != 0 else each(dims, 1)
    if x.ndim == 0:
        raise NotLowered("oneDNN's reductions need a dim")
    axes = [d % x.ndim for d in axes]
    # torch sums small types in f32, and rounds once.
    wide = at.cast(x, "f32") if method in ("reduce_mean", "reduce_sum", "reduce_prod") else x
    if method == "reduce_mean" and x.ndim in (4, 5) and sorted(axes) == [*range(2, x.ndim)]:
        made = at.cast(global_avg_pool(wide), at.dtype)
        return made if keepdim else made.squeeze(axes)
    return at.cast(getattr(at.b, method)(wide, axes=axes, keep_dims=keepdim), at.dtype)


@lowers(aten.mean.dim, aten.mean.default)
def _mean(
    at: Lowering, x: Value, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Value:
    return _reduced(at, "reduce_mean", x, dim, keepdim)


@lowers(aten.sum.dim_IntList, aten.sum.default)
def _sum(
    at: Lowering, x: Value, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Value:
    return _reduced(at, "reduce_sum", x, dim, keepdim)


@lowers(aten.amax.default)
def _amax(at: Lowering, x: Value, dim: Any = (), keepdim: bool = False) -> Value:
    return _reduced(at, "reduce_max", x, dim, keepdim)


@lowers(aten.amin.default)
def _amin(at: Lowering, x: Value, dim: Any = (), keepdim: bool = False) -> Value:
    return _reduced(at, "reduce_min", x, dim, keepdim)


@lowers(aten.prod.default)
def _prod(at: Lowering, x: Value, *, dtype: Any = None) -> Value:
    return _reduced(at, "reduce_prod", x, None, False)


@lowers(aten.prod.dim_int)
def _prod_along(
    at: Lowering, x: Value, dim: int, keepdim: bool = False, *, dtype: Any = None
) -> Value:
    return _reduced(at, "reduce_prod", x, dim, keepdim)


def _resized(at: Lowering, x: Value, mode: str, scales: Sequence[float] | None) -> Value:
    at.need_float(x)
    before, after = (x.shape or ())[2:], at.dims[2:]
    if -1 in (*before, *after):
        raise NotLowered("sizes are unknown")
    factors = [o / n for n, o in zip(before, after, strict=True)]
    if scales is not None and [*scales] != factors:
        raise NotLowered("the factors are not those of the sizes")
    # torch takes the element at or before a place, oneDNN the nearest: by whole factors the same.
    if mode == "nearest" and any(not f.is_integer() for f in factors):
        raise NotLowered("a factor is not a whole number")
    return at.b.interpolate(x, mode=mode, sizes=[*after], data_format="NCX")


@lowers(aten.upsample_nearest2d.vec)
def _nearest(at: Lowering, x: Value, size: Any, scales: Sequence[float] | None = None) -> Value:
    return _resized(at, x, "nearest", scales)


@lowers(aten.upsample_bilinear2d.vec)
def _bilinear(
    at: Lowering, x: Value, size: Any, align_corners: bool, scales: Sequence[float] | None = None
) -> Value:
    if align_corners:
        raise NotLowered("oneDNN does not align corners")
    return _resized(at, x, "bilinear", scales)
