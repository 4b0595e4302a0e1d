"""Functions of each element, and arithmetic of several tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...building.value import Value
from ...linked import linked_version
from .table import Call, NotLowered, lowers


def _function(op_type: str, method: str) -> None:
    """Enter an op that oneDNN has as ONNX has it."""

    @lowers(op_type)
    def function(call: Call) -> Value:
        [x] = call.floats(0)
        made: Value = getattr(call.b, method)(x)
        return made


for _op_type, _method in (
    ("Abs", "abs"),
    ("Exp", "exp"),
    ("HardSwish", "hard_swish"),
    ("Log", "log"),
    ("Mish", "mish"),
    ("Relu", "relu"),
    ("Sigmoid", "sigmoid"),
    ("Softplus", "softplus"),
    ("Sqrt", "sqrt"),
    ("Tanh", "tanh"),
):
    _function(_op_type, _method)


@lowers("Round")
def _round(call: Call) -> Value:
    [x] = call.floats(0)
    return call.cast(call.b.round(call.cast(x, "f32")), x.dtype)  # no kernel for small types


@lowers("Elu")
def _elu(call: Call) -> Value:
    [x] = call.floats(0)
    return call.b.elu(x, alpha=float(call.attribute("alpha", 1.0)))


@lowers("Celu")
def _celu(call: Call) -> Value:
    [x] = call.floats(0)
    alpha = float(call.attribute("alpha", 1.0))
    if alpha == 1:
        return call.b.elu(x, alpha=1.0)
    # What is above 0 does not reach Elu, as it may overflow if it is divided.
    below = call.b.minimum(x, call.operand(0.0, x.dtype, x.ndim))
    return call.b.relu(x) + call.times(call.b.elu(call.times(below, 1 / alpha), alpha=1.0), alpha)


@lowers("Selu")
def _selu(call: Call) -> Value:
    [x] = call.floats(0)
    alpha = float(call.attribute("alpha", 1.67326319217681884765625))
    gamma = float(call.attribute("gamma", 1.05070102214813232421875))
    return call.times(call.b.elu(x, alpha=alpha), gamma)


@lowers("LeakyRelu")
def _leaky_relu(call: Call) -> Value:
    [x] = call.floats(0)
    return call.b.leaky_relu(x, alpha=float(call.attribute("alpha", 0.01)))


@lowers("HardSigmoid")
def _hard_sigmoid(call: Call) -> Value:
    [x] = call.floats(0)
    alpha, beta = call.attribute("alpha", 0.2), call.attribute("beta", 0.5)
    return call.b.hard_sigmoid(x, alpha=float(alpha), beta=float(beta))


@lowers("Softsign")
def _softsign(call: Call) -> Value:
    [x] = call.floats(0)
    return call.b.divide(x, call.b.abs(x) + 1.0)


@lowers("Gelu")
@lowers("Gelu", domain="com.microsoft")
def _gelu(call: Call) -> Value:
    [x] = call.floats(0)
    if call.attribute("approximate", "none") == "none":
        return call.b.gelu(x)
    if linked_version() >= (3, 9):
        return call.b.gelu(x, mode="gelu_tanh")
    y = call.cast(x, "f32")
    inside = (y + y * y * y * 0.044715) * math.sqrt(2 / math.pi)
    return call.cast(y * (call.b.tanh(inside) + 1) * 0.5, x.dtype)


@lowers("Swish")
def _swish(call: Call) -> Value:
    [x] = call.floats(0)
    return _gated(call, x)


def _gated(call: Call, x: Value) -> Value:
    return x * call.b.sigmoid(call.times(x, float(call.attribute("alpha", 1.0))))


@lowers("SwiGLU")
def _swiglu(call: Call) -> Value:
    x, y = call.floats(0, 1)
    return _gated(call, x) * y


@lowers("PRelu")
def _prelu(call: Call) -> Value:
    x, slope = call.floats(0, 1)
    if x.ndim < 2 or slope.ndim > x.ndim:
        raise NotLowered("oneDNN's PReLU needs channels")
    slope = slope[(None,) * (x.ndim - slope.ndim)] if slope.ndim < x.ndim else slope
    return call.b.prelu(x, slope, data_format="NCX", per_channel_broadcast=False)


@lowers("Clip")
def _clip(call: Call) -> Value:
    [x] = call.floats(0)
    if call.version < 11:
        low = call.attribute("min", -math.inf)
        high = call.attribute("max", math.inf)
    else:
        low = call.need(1, "the minimum").item() if call.has(1) else -math.inf
        high = call.need(2, "the maximum").item() if call.has(2) else math.inf
    low, high = float(low), float(high)
    # All become the maximum then.
    return call.b.clamp(x, min=min(low, high), max=high)


@lowers("Neg")
def _neg(call: Call) -> Value:
    [x] = call.floats(0)
    return call.times(x, -1.0)


@lowers("Reciprocal")
def _reciprocal(call: Call) -> Value:
    [x] = call.floats(0)
    return inverse(call, x)


def inverse(call: Call, x: Value) -> Value:
    """Return 1 / x: oneDNN's Reciprocal runs only behind a product."""
    return call.b.divide(call.operand(1.0, x.dtype, x.ndim), x)


@lowers("Pow")
def _pow(call: Call) -> Value:
    [x] = call.floats(0)
    exponents = call.need(1, "the exponent")
    if exponents.size != 1 or exponents.ndim > x.ndim:
        raise NotLowered("the exponents are a tensor")
    exponent = float(exponents.item())
    # In products and roots where there are few of them: Pow has no kernel.
    made: dict[float, Callable[[], Value]] = {
        1: lambda: x,
        2: lambda: x * x,
        3: lambda: x * x * x,
        0.5: lambda: call.b.sqrt(x),
        -0.5: lambda: inverse(call, call.b.sqrt(x)),
        -1: lambda: inverse(call, x),
    }
    if exponent not in made:
        raise NotLowered(f"oneDNN has no kernel for Pow; the exponent is {exponent:g}")
    return made[exponent]()


# -- several tensors


def _operands(call: Call) -> list[Value]:
    """Return all inputs; constants of one element do not need more dims than the others."""
    if call.version < 7 and call.attribute("broadcast", 0):
        raise NotLowered("it broadcasts as in opsets before 7")
    values = call.floats(*range(len(call)))
    return values


def _binary(op_type: str, method: str) -> None:
    @lowers(op_type)
    def function(call: Call) -> Value:
        x, y = _operands(call)
        made: Value = getattr(call.b, method)(x, y)
        return made


for _op_type, _method in (
    ("Add", "add"),
    ("Sub", "subtract"),
    ("Mul", "multiply"),
    ("Div", "divide"),
):
    _binary(_op_type, _method)


def _folded(method: str) -> Callable[[Call], Value]:
    def function(call: Call) -> Value:
        first, *others = _operands(call)
        for value in others:
            first = getattr(call.b, method)(first, value)
        return first

    return function


lowers("Max")(_folded("maximum"))
lowers("Min")(_folded("minimum"))
lowers("Sum")(_folded("add"))


@lowers("Mean")
def _mean(call: Call) -> Value:
    return call.times(_folded("add")(call), 1 / len(call))


@lowers("Where")
def _where(call: Call) -> Value:
    x, y = call.floats(1, 2)
    return chosen(call, call.value(0), x, y)


def chosen(call: Call, condition: Value, x: Value, y: Value) -> Value:
    """Return elements of x where a condition is true, of y elsewhere."""
    sizes = condition.shape or ()
    if not _covers(sizes, x, y):
        # oneDNN's Select widens no condition, but what it chooses from.
        if -1 in (*sizes, *(x.shape or ())) or max(x.ndim, y.ndim) > len(sizes):
            raise NotLowered("the condition has more elements than both tensors together")
        if x.data is not None and x.data.size == 1:
            x = call.b.constant(np.full(sizes, x.data.item(), np.float32), x.dtype)
        else:
            x = x.expand(np.broadcast_shapes(x.shape or (), sizes))
    if linked_version() < (3, 8) and sizes != x.shape:
        # It multiplies by the condition instead, which makes NaN of infinity.
        whole = np.broadcast_shapes(sizes, x.shape or (), y.shape or ())
        if -1 in (*sizes, *(x.shape or ()), *(y.shape or ())):
            raise NotLowered("before oneDNN 3.8, a condition of unknown dims makes NaN of infinity")
        condition, x = (v if v.shape == whole else v.expand(whole) for v in (condition, x))
    return call.b.select(condition, x, y)


def _covers(condition: Any, x: Value, y: Value) -> bool:
    """Return whether each dim of the condition is 1 or one of the two tensors'."""
    shapes = [x.shape or (), y.shape or ()]
    for i, size in enumerate(reversed(condition)):
        given = [s[-1 - i] for s in shapes if i < len(s)]
        if not given or (size != 1 and size not in given):
            return False
    return True


@lowers("Cast", "CastLike")
def _cast(call: Call) -> Value:
    x = call.value(0)
    to = call.result_dtypes[0]
    if x.dtype in ("s8", "u8") and to in ("f32", "bf16", "f16"):
        wide = call.b.dequantize(x, scales=[1.0], zps=[0])
        return call.cast(wide, to)
    return call.cast(x, to)


@lowers("Identity")
def _identity(call: Call) -> Value:
    return call.value(0)


@lowers("Dropout")
def _dropout(call: Call) -> Value:
    if call.is_read(1):
        raise NotLowered("its mask is read")
    training = call.known(2) if call.has(2) else np.asarray(False)
    if training is None or bool(training) or (call.version < 7 and not call.attribute("is_test")):
        raise NotLowered("it is of a training step")
    return call.value(0)
