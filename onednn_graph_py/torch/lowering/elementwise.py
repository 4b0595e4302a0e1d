"""Functions of each element, and arithmetic of two tensors."""

from __future__ import annotations

from typing import Any

import torch

from ...frontends.lowering import holds
from ...frontends.recipes import ELEMENTWISE, chosen, clamp, gelu, power, prelu
from ...model.building.value import Value
from .table import Lowering, NotLowered, lowers

aten = torch.ops.aten


def _unary(target: Any, method: str, **attributes: float) -> None:
    """Enter an op that oneDNN has as torch has it."""

    @lowers(target)
    def function(at: Lowering, x: Value) -> Value:
        at.need_float(x)
        made: Value = getattr(at.b, method)(x, **attributes)
        return made


for _method, _name, _ in ELEMENTWISE:
    _unary(getattr(aten, _name).default, _method)
_unary(aten.hardsigmoid.default, "hard_sigmoid", alpha=1 / 6, beta=0.5)
_unary(aten.square.default, "square")

lowers(aten.gelu.default)(gelu)
lowers(aten._prelu_kernel.default)(prelu)
lowers(aten.clamp.default, aten.clamp_min.default)(clamp)
lowers(aten.pow.Tensor_Scalar)(power)


@lowers(aten.silu.default)
def _silu(at: Lowering, x: Value) -> Value:
    at.need_float(x)
    return x * at.b.sigmoid(x)


@lowers(aten.elu.default)
def _elu(
    at: Lowering, x: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1
) -> Value:
    at.need_float(x)
    if scale != 1 or input_scale != 1:
        raise NotLowered("oneDNN's Elu has no scale")
    return at.b.elu(x, alpha=float(alpha))


@lowers(aten.leaky_relu.default)
def _leaky_relu(at: Lowering, x: Value, negative_slope: float = 0.01) -> Value:
    at.need_float(x)
    return at.b.leaky_relu(x, alpha=float(negative_slope))


@lowers(aten.softplus.default)
def _softplus(at: Lowering, x: Value, beta: float = 1, threshold: float = 20) -> Value:
    at.need_float(x)
    # At these thresholds of x * beta both branches are equal in f32, and finite.
    if not 15 <= threshold <= 88:
        raise NotLowered("oneDNN's SoftPlus has no threshold")
    return at.b.softplus(x, beta=float(beta))


@lowers(aten.log_sigmoid_forward.default)
def _log_sigmoid(at: Lowering, x: Value) -> tuple[Value]:
    at.need_float(x)
    at.need_first_only()
    return (at.b.softplus(x, beta=-1.0),)


@lowers(aten.hardtanh.default)
def _hardtanh(at: Lowering, x: Value, min: float = -1, max: float = 1) -> Value:
    return clamp(at, x, min, max)


@lowers(aten.relu6.default)
def _relu6(at: Lowering, x: Value) -> Value:
    return clamp(at, x, 0, 6)


@lowers(aten.clamp_max.default)
def _clamp_max(at: Lowering, x: Value, max: float) -> Value:
    return clamp(at, x, None, max)


@lowers(aten.neg.default)
def _neg(at: Lowering, x: Value) -> Value:
    at.need_float(x)
    return x * -1


@lowers(aten.rsqrt.default)
def _rsqrt(at: Lowering, x: Value) -> Value:
    return power(at, x, -0.5)


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
        made: Value = getattr(at.b, method)(left, at.times(right, alpha))
        return at.cast(made, dtype)


_binary((aten.add.Tensor, aten.add.Scalar), "add")
_binary((aten.sub.Tensor, aten.sub.Scalar), "subtract")
_binary((aten.rsub.Scalar, aten.rsub.Tensor), "subtract", swapped=True)
_binary((aten.mul.Tensor, aten.mul.Scalar), "multiply")
_binary((aten.div.Tensor, aten.div.Scalar), "divide")
_binary((aten.maximum.default,), "maximum")
_binary((aten.minimum.default,), "minimum")


@lowers(aten.addcmul.default)
def _addcmul(at: Lowering, x: Value, y: Value, z: Value, *, value: float = 1) -> Value:
    at.need_float(x, y, z)
    return _shifted(at, x, y * z, value)


@lowers(aten.addcdiv.default)
def _addcdiv(at: Lowering, x: Value, y: Value, z: Value, *, value: float = 1) -> Value:
    at.need_float(x, y, z)
    return _shifted(at, x, at.b.divide(y, z), value)


def _shifted(at: Lowering, x: Value, shift: Value, value: float) -> Value:
    if set(shift.shape or ()) <= {1}:
        raise NotLowered("oneDNN reads out of bounds if it widens a scalar that it computed")
    return x + at.times(shift, value)


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


@lowers(aten._to_copy.default)
def _to(at: Lowering, x: Value, *rest: Any, **options: Any) -> Value:
    return at.cast(x, at.dtype)


@lowers(
    aten.clone.default,
    aten.alias.default,
    aten.detach.default,
    aten.lift_fresh_copy.default,
)
def _same(at: Lowering, x: Value, **options: Any) -> Value:
    return x
