"""Functions of each element, and arithmetic of two tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from ...building.value import Value
from ...linked import linked_version
from .table import Lowering, NotLowered, lowers

aten = torch.ops.aten


def _unary(target: Any, method: str) -> None:
    """Enter an op that oneDNN has as torch has it."""

    @lowers(target)
    def function(at: Lowering, x: Value) -> Value:
        at.need_float(x)
        made: Value = getattr(at.b, method)(x)
        return made


for _target, _method in (
    (aten.relu.default, "relu"),
    (aten.sigmoid.default, "sigmoid"),
    (aten.tanh.default, "tanh"),
    (aten.mish.default, "mish"),
    (aten.hardswish.default, "hard_swish"),
    (aten.exp.default, "exp"),
    (aten.log.default, "log"),
    (aten.sqrt.default, "sqrt"),
    (aten.abs.default, "abs"),
):
    _unary(_target, _method)


@lowers(aten.round.default)
def _round(at: Lowering, x: Value) -> Value:
    at.need_float(x)
    return at.cast(at.b.round(at.cast(x, "f32")), x.dtype)  # it has no kernel for small types


@lowers(aten.gelu.default)
def _gelu(at: Lowering, x: Value, *, approximate: str = "none") -> Value:
    at.need_float(x)
    if approximate == "none":
        return at.b.gelu(x)
    if linked_version() >= (3, 9):
        return at.b.gelu(x, mode="gelu_tanh")
    y = at.cast(x, "f32")
    inside = (y + y * y * y * 0.044715) * math.sqrt(2 / math.pi)
    return at.cast(y * (at.b.tanh(inside) + 1) * 0.5, x.dtype)


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


@lowers(aten.hardsigmoid.default)
def _hardsigmoid(at: Lowering, x: Value) -> Value:
    at.need_float(x)
    return at.b.hard_sigmoid(x, alpha=1 / 6, beta=0.5)


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


@lowers(aten._prelu_kernel.default)
def _prelu(at: Lowering, x: Value, weight: Value) -> Value:
    at.need_float(x, weight)
    if x.ndim < 2:
        raise NotLowered("oneDNN's PReLU needs channels")
    return at.b.prelu(x, weight, data_format="NCX", per_channel_broadcast=False)


@lowers(aten.clamp.default, aten.hardtanh.default)
def _clamp(at: Lowering, x: Value, min: float | None = None, max: float | None = None) -> Value:
    at.need_float(x)
    if at.node.target is aten.hardtanh.default:
        min, max = -1 if min is None else min, 1 if max is None else max
    low, high = -math.inf if min is None else float(min), math.inf if max is None else float(max)
    if low > high:
        raise NotLowered("min is above max")
    return at.b.clamp(x, min=low, max=high)


@lowers(aten.square.default)
def _square(at: Lowering, x: Value) -> Value:
    at.need_float(x)
    return at.b.square(x)


@lowers(aten.relu6.default)
def _relu6(at: Lowering, x: Value) -> Value:
    return _clamp(at, x, 0, 6)


@lowers(aten.clamp_min.default)
def _clamp_min(at: Lowering, x: Value, min: float) -> Value:
    return _clamp(at, x, min)


@lowers(aten.clamp_max.default)
def _clamp_max(at: Lowering, x: Value, max: float) -> Value:
    return _clamp(at, x, None, max)


@lowers(aten.neg.default)
def _neg(at: Lowering, x: Value) -> Value:
    at.need_float(x)
    return x * -1


@lowers(aten.rsqrt.default)
def _rsqrt(at: Lowering, x: Value) -> Value:
    at.need_float(x)
    return _inverse(at, at.b.sqrt(x))


@lowers(aten.reciprocal.default)
def _reciprocal(at: Lowering, x: Value) -> Value:
    at.need_float(x)
    return _inverse(at, x)


def _inverse(at: Lowering, x: Value) -> Value:
    # Reciprocal alone has no kernel in 3.7.2.
    return at.b.divide(at.operand(1.0, x.dtype), x)


@lowers(aten.pow.Tensor_Scalar)
def _pow(at: Lowering, x: Value, exponent: float) -> Value:
    at.need_float(x)
    # In products and roots where there are few of them: Pow has no kernel in 3.7.2.
    made: dict[float, Callable[[], Value]] = {
        1: lambda: x,
        2: lambda: x * x,
        3: lambda: x * x * x,
        0.5: lambda: at.b.sqrt(x),
        -0.5: lambda: _inverse(at, at.b.sqrt(x)),
        -1: lambda: _inverse(at, x),
    }
    if exponent in made:
        return made[exponent]()
    raise NotLowered(f"oneDNN has no kernel for Pow; the exponent is {exponent}")


# -- two tensors


def _binary(targets: tuple[Any, ...], method: str, swapped: bool = False) -> None:
    @lowers(*targets)
    def function(at: Lowering, x: Any, y: Any, alpha: float = 1) -> Value:
        dtype = at.dtype
        wide = dtype if at.holds(x, dtype) and at.holds(y, dtype) else "f32"
        left, right = at.operand(x, wide), at.operand(y, wide)
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
    at.need_float(x, y)
    if not _covers(at):
        raise NotLowered("the condition has more elements than both tensors together")
    return at.b.select(condition, at.cast(x, dtype), at.cast(y, dtype))


def _covers(at: Lowering) -> bool:
    """Return whether each dim of the result is one of the two tensors', whatever its size."""
    shapes = [at.argument(i).shape for i in (1, 2)]
    for i, size in enumerate(reversed(at.result.shape)):
        given = [str(s[-1 - i]) for s in shapes if i < len(s)]
        if str(size) not in given:
            return False
    return True


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
