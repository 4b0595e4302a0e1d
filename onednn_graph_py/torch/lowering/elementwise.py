"""Functions of each element, and arithmetic of two tensors."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ...frontends.lowering import holds
from ...frontends.recipes import ELEMENTWISE, chosen, clamp, gelu, power, prelu
from ...model.building.value import Value
from .table import Lowering, NotLowered, lowers

aten = torch.ops.aten


def _elu(at: Lowering, x: Value, alpha: float, scale: float, inner: float) -> Value:
    if not inner > 0:
        raise NotLowered("the scale of the input must be positive")
    return at.times(at.b.elu(at.times(x, inner), alpha=float(alpha * inner)), scale / inner)


def _softplus(at: Lowering, x: Value, beta: float, threshold: float) -> Value:
    # At these thresholds of x * beta both branches are equal in f32, and finite.
    if not 15 <= threshold <= 88:
        raise NotLowered("oneDNN's SoftPlus has no threshold")
    return at.b.softplus(x, beta=float(beta))


def _log_sigmoid(at: Lowering, x: Value) -> tuple[Value]:
    at.need_first_only()
    return (at.b.softplus(x, beta=-1.0),)


def _unary(function: Callable[..., Any], at: Lowering, x: Value, *numbers: Any) -> Any:
    at.need_float(x)
    return function(at, x, *numbers)


def _method(name: str) -> Callable[[Lowering, Value], Value]:
    return lambda at, x: getattr(at.b, name)(x)


_ROWS: dict[Any, Callable[..., Any]] = {
    **{getattr(aten, name).default: _method(method) for method, name, _ in ELEMENTWISE},
    aten.celu.default: lambda at, x, alpha: _elu(at, x, alpha, 1, 1 / alpha if alpha else 0),
    aten.clamp_max.default: lambda at, x, most: clamp(at, x, None, most),
    aten.elu.default: _elu,
    aten.hardsigmoid.default: lambda at, x: at.b.hard_sigmoid(x, alpha=1 / 6, beta=0.5),
    aten.leaky_relu.default: lambda at, x, slope: at.b.leaky_relu(x, alpha=float(slope)),
    aten.log_sigmoid_forward.default: _log_sigmoid,
    aten.neg.default: lambda at, x: x * -1,
    aten.relu6.default: lambda at, x: clamp(at, x, 0, 6),
    aten.rsqrt.default: lambda at, x: power(at, x, -0.5),
    aten.silu.default: lambda at, x: x * at.b.sigmoid(x),
    aten.softplus.default: _softplus,
    aten.square.default: lambda at, x: at.b.square(x),
}
for _target, _function in _ROWS.items():
    lowers(_target)(partial(_unary, _function))

lowers(aten.gelu.default)(gelu)
lowers(aten._prelu_kernel.default)(prelu)
lowers(aten.clamp.default, aten.clamp_min.default, aten.hardtanh.default)(clamp)
lowers(aten.pow.Tensor_Scalar)(power)


# -- two tensors


def _binary(targets: tuple[Any, ...], method: str, swapped: bool = False) -> None:
    @lowers(*targets)
    def function(at: Lowering, x: Any, y: Any, alpha: float = 1) -> Value:
        dtype = at.dtype
        wide = dtype if holds(x, dtype) and holds(y, dtype) else "f32"
        left, right = (at.operand(v, wide, len(at.dims)) for v in (x, y))
        at.need_float(left, right)
        if swapped:
            left, right = right, left
        result: Value = getattr(at.b, method)(left, at.times(right, alpha))
        return at.cast(result, dtype)


_binary((aten.add.Tensor, aten.add.Scalar), "add")
_binary((aten.sub.Tensor, aten.sub.Scalar), "subtract")
_binary((aten.rsub.Scalar, aten.rsub.Tensor), "subtract", swapped=True)
_binary((aten.mul.Tensor, aten.mul.Scalar), "multiply")
_binary((aten.div.Tensor, aten.div.Scalar), "divide")
_binary((aten.maximum.default,), "maximum")
_binary((aten.minimum.default,), "minimum")


@lowers(aten.addcdiv.default, aten.addcmul.default)
def _added(at: Lowering, x: Value, y: Value, z: Value, *, value: float) -> Value:
    x, y, z = (at.operand(v, at.dtype) for v in (x, y, z))
    changed: Value = y * z if at.node.target is aten.addcmul.default else at.b.divide(y, z)
    return x + at.times(changed, value)


@lowers(aten.lerp.Scalar)
def _lerp(at: Lowering, x: Value, y: Value, weight: float) -> Value:
    at.need_float(x, y)
    if abs(weight) < 0.5:
        return x + at.times(y - x, weight)
    return y - at.times(y - x, 1 - weight)


@lowers(aten.where.self)
def _where(at: Lowering, condition: Value, x: Value, y: Value) -> Value:
    dtype = at.dtype
    if condition.dtype != "boolean":
        raise NotLowered("the condition must be boolean")
    return chosen(at, condition, at.cast(x, dtype), at.cast(y, dtype))


lowers(aten.masked_fill.Scalar)(
    lambda at, x, mask, number: _where(at, mask, at.operand(number, at.dtype, x.ndim), x)
)


@lowers(aten.glu.default)
def _glu(at: Lowering, x: Value, dim: int) -> Value:
    half, gate = x.split(2, dim)
    return half * at.b.sigmoid(gate)


lowers(aten._to_copy.default)(lambda at, x, *rest, **options: at.cast(x, at.dtype))
lowers(aten.clone.default, aten.alias.default, aten.detach.default, aten.lift_fresh_copy.default)(
    lambda at, x, **options: x
)
