"""Reductions over axes, and normalizations by them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ...blocks.pooling import global_avg_pool
from ...building.value import Value
from .table import Call, NotLowered, lowers

_ALONE = {"reduce_l1": "abs", "reduce_l2": "abs"}
"""What a reduction is of single elements."""

_ROUNDED = ("reduce_max", "reduce_min")
"""Reductions that round nothing, so that small types need no conversion."""


def reduced(call: Call, method: str, x: Value, axes: Sequence[int], keep: bool = True) -> Value:
    """Reduce over axes; sums of small types are computed in f32, and rounded once.

    oneDNN does not reduce a tensor of which nothing is reduced, since the axes have a size of 1.
    """
    call.need_float(x)
    shape = x.shape or ()
    if 0 in shape:
        raise NotLowered("a tensor has no elements")
    axes = sorted(axes)
    others = [a for a in axes if shape[a] != 1]
    keeps = keep or len(others) < len(axes)
    wide = x if method in _ROUNDED else call.cast(x, "f32")
    if method == "reduce_mean" and _is_space(shape, axes):
        keeps, wide = True, global_avg_pool(wide)
    elif others:
        wide = getattr(call.b, method)(wide, axes=others, keep_dims=keeps)
    elif method in _ALONE:
        wide = getattr(call.b, _ALONE[method])(wide)
    made = call.cast(wide, x.dtype)
    return made.squeeze(axes) if keeps and not keep and axes else made


def _is_space(shape: Sequence[int], axes: Sequence[int]) -> bool:
    """Return whether axes are all dims behind batch and channels."""
    rank = len(shape)
    return rank in (4, 5) and [*axes] == [*range(2, rank)]


def _axes(call: Call) -> Sequence[int] | None:
    """Return the axes; None if nothing is reduced."""
    axes = call.axes(1)
    if not axes:
        if call.attribute("noop_with_empty_axes", 0):
            return None
        axes = tuple(range(len(call.dims(0))))
    return axes


def _over_axes(
    call: Call,
    method: str,
    before: Callable[[Value], Value] | None = None,
    after: Callable[[Value], Value] | None = None,
) -> Value:
    [x] = call.floats(0)
    dtype = x.dtype
    axes = _axes(call)
    if before is not None or after is not None:
        x = call.cast(x, "f32")
    if before is not None:
        x = before(x)
    if axes is None:
        x = call.b.abs(x) if method in _ALONE else x
    else:
        x = reduced(call, method, x, axes, bool(call.attribute("keepdims", 1)))
    if after is not None:
        x = after(x)
    return call.cast(x, dtype)


def _reduction(op_type: str, method: str) -> None:
    @lowers(op_type)
    def function(call: Call) -> Value:
        if method in _ROUNDED:
            # Where all is -inf, oneDNN's ReduceMax gives the smallest finite number: of halves it
            # becomes -inf as it is doubled. Other numbers stay as they are.
            return _over_axes(call, method, lambda x: x * 0.5, lambda x: x * 2.0)
        return _over_axes(call, method)


for _op_type, _method in (
    ("ReduceL1", "reduce_l1"),
    ("ReduceL2", "reduce_l2"),
    ("ReduceMax", "reduce_max"),
    ("ReduceMean", "reduce_mean"),
    ("ReduceMin", "reduce_min"),
    ("ReduceProd", "reduce_prod"),
    ("ReduceSum", "reduce_sum"),
):
    _reduction(_op_type, _method)


@lowers("ReduceSumSquare")
def _sum_square(call: Call) -> Value:
    return _over_axes(call, "reduce_sum", before=lambda x: x * x)


@lowers("ReduceLogSum")
def _log_sum(call: Call) -> Value:
    return _over_axes(call, "reduce_sum", after=call.b.log)


@lowers("GlobalAveragePool")
def _global_average(call: Call) -> Value:
    return _over_space(call, "reduce_mean")


@lowers("GlobalMaxPool")
def _global_max(call: Call) -> Value:
    return _over_space(call, "reduce_max")


def _over_space(call: Call, method: str) -> Value:
    x = call.value(0)
    return reduced(call, method, x, range(2, x.ndim))


@lowers("LpNormalization")
def _lp_normalization(call: Call) -> Value:
    [x] = call.floats(0)
    method = {1: "reduce_l1", 2: "reduce_l2"}.get(call.attribute("p", 2))
    if method is None:
        raise NotLowered("p is neither 1 nor 2")
    axis = call.attribute("axis", -1) % max(x.ndim, 1)
    wide = call.cast(x, "f32")
    size = reduced(call, method, wide, [axis])
    # Where all is 0 the result is, too; a maximum would hide NaN.
    smallest = call.operand(math.ldexp(1.0, -126), "f32", x.ndim)
    return call.cast(call.b.divide(wide, size + smallest), x.dtype)
