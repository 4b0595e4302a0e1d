"""Reductions over axes, and normalizations by them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ...frontends.recipes import EXACT, extreme, reduced
from ...model.building.value import Value
from .table import Call, NotLowered, lowers


def _axes(call: Call) -> Sequence[int]:
    """Return the axes over which to reduce."""
    axes = call.axes(1)
    if not axes and not call.attribute("noop_with_empty_axes", 0):
        return range(len(call.dims(0)))
    return axes or ()


def _over_axes(
    call: Call,
    method: str,
    before: Callable[[Value], Value] | None = None,
    after: Callable[[Value], Value] | None = None,
) -> Value:
    [x] = call.floats(0)
    dtype = x.dtype
    if before is not None or after is not None:
        x = call.cast(x, "f32")
    if before is not None:
        x = before(x)
    reduce = extreme if method in EXACT else reduced
    x = reduce(call, method, x, _axes(call), bool(call.attribute("keepdims", 1)))
    if after is not None:
        x = after(x)
    return call.cast(x, dtype)


def _reduction(op_type: str, method: str) -> None:
    @lowers(op_type)
    def function(call: Call) -> Value:
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
    return reduced(call, method, x, range(2, x.ndim), True)


@lowers("LpNormalization")
def _lp_normalization(call: Call) -> Value:
    [x] = call.floats(0)
    method = {1: "reduce_l1", 2: "reduce_l2"}.get(call.attribute("p", 2))
    if method is None:
        raise NotLowered("p is neither 1 nor 2")
    axis = call.attribute("axis", -1) % max(x.ndim, 1)
    wide = call.cast(x, "f32")
    size = reduced(call, method, wide, [axis], True)
    # Where all is 0 the result is, too; a maximum would hide NaN.
    smallest = call.operand(math.ldexp(1.0, -126), "f32", x.ndim)
    return call.cast(call.b.divide(wide, size + smallest), x.dtype)
