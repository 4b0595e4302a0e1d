"""Functions of each element, and arithmetic of several tensors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...frontends.recipes import ELEMENTWISE, chosen, clamp, gelu, power, prelu
from ...model.building.value import Value
from .table import Call, NotLowered, lowers


def _function(op_type: str, method: str, **attributes: float) -> None:
    """Enter an op that oneDNN has as ONNX has it, with the defaults of its attributes."""

    @lowers(op_type)
    def function(call: Call) -> Value:
        [x] = call.floats(0)
        given = {name: float(call.attribute(name, d)) for name, d in attributes.items()}
        made: Value = getattr(call.b, method)(x, **given)
        return made


for _method, _, _op_type in ELEMENTWISE:
    _function(_op_type, _method)
_function("Softplus", "softplus")
_function("Elu", "elu", alpha=1.0)
_function("LeakyRelu", "leaky_relu", alpha=0.01)
_function("HardSigmoid", "hard_sigmoid", alpha=0.2, beta=0.5)


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


@lowers("Softsign")
def _softsign(call: Call) -> Value:
    [x] = call.floats(0)
    return call.b.divide(x, call.b.abs(x) + 1.0)


@lowers("Gelu")
@lowers("Gelu", domain="com.microsoft")
def _gelu(call: Call) -> Value:
    [x] = call.floats(0)
    return gelu(call, x, approximate=call.attribute("approximate", "none"))


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
    return prelu(call, x, slope)


@lowers("Clip")
def _clip(call: Call) -> Value:
    [x] = call.floats(0)
    if call.version < 11:
        return clamp(call, x, call.attribute("min"), call.attribute("max"))
    low = call.need(1, "the minimum").item() if call.has(1) else None
    high = call.need(2, "the maximum").item() if call.has(2) else None
    return clamp(call, x, low, high)


@lowers("Neg")
def _neg(call: Call) -> Value:
    [x] = call.floats(0)
    return call.times(x, -1.0)


@lowers("Pow")
def _pow(call: Call) -> Value:
    [x] = call.floats(0)
    exponents = call.need(1, "the exponent")
    if exponents.size != 1 or exponents.ndim > x.ndim:
        raise NotLowered("the exponents are a tensor")
    return power(call, x, float(exponents.item()))


# -- several tensors


def _operands(call: Call) -> list[Value]:
    """Return all inputs; constants of one element do not need more dims than the others."""
    if call.version < 7 and call.attribute("broadcast", 0):
        raise NotLowered("it broadcasts as in opsets before 7")
    return call.floats(*range(len(call)))


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
