"""Reductions over axes, and normalizations by them."""

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
    before: Callable[[Value], Value] = lambda x: x,
    after: Callable[[Value], Value] = lambda x: x,
) -> Value:
    [x] = call.floats(0)
    dtype = x.dtype
    if method not in EXACT:
        x = before(call.cast(x, "f32"))
    reduce = extreme if method in EXACT else reduced
    x = reduce(call, method, x, _axes(call), bool(call.attribute("keepdims", 1)))
    return call.cast(after(x), dtype)


def _over_space(call: Call, method: str) -> Value:
    x = call.value(0)
    return reduced(call, method, x, range(2, x.ndim), True)


_ROWS: dict[str, Callable[[Call], Value]] = {
    "GlobalAveragePool": lambda call: _over_space(call, "reduce_mean"),
    "GlobalMaxPool": lambda call: _over_space(call, "reduce_max"),
    "ReduceL1": lambda call: _over_axes(call, "reduce_l1"),
    "ReduceL2": lambda call: _over_axes(call, "reduce_l2"),
    "ReduceLogSum": lambda call: _over_axes(call, "reduce_sum", after=call.b.log),
    "ReduceMax": lambda call: _over_axes(call, "reduce_max"),
    "ReduceMean": lambda call: _over_axes(call, "reduce_mean"),
    "ReduceMin": lambda call: _over_axes(call, "reduce_min"),
    "ReduceProd": lambda call: _over_axes(call, "reduce_prod"),
    "ReduceSum": lambda call: _over_axes(call, "reduce_sum"),
    "ReduceSumSquare": lambda call: _over_axes(call, "reduce_sum", before=lambda x: x * x),
}
for _op_type, _function in _ROWS.items():
    lowers(_op_type)(_function)


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
