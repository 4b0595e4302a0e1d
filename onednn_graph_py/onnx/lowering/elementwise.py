"""Functions of each element, and arithmetic of several tensors."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ...base.dtypes import array_dtype
from ...frontends.recipes import ELEMENTWISE, chosen, clamp, gelu, power, prelu
from ...machine.cpu import lacks
from ...model.building.value import Value
from ..host_steps import HOSTED, as_type, hosted
from .table import FLOATS, Call, NotLowered, lowers


def _rows(inputs: int, rows: Mapping[str, Callable[..., Value]], domain: str = "") -> None:
    """Enter functions of a call and of its first inputs, which are in floating point."""

    def lowered(function: Callable[..., Value], call: Call) -> Value:
        return function(call, *call.floats(*range(inputs)))

    for op_type, function in rows.items():
        lowers(op_type, domain=domain)(partial(lowered, function))


def _method(name: str, call: Call, *values: Value, **attributes: float) -> Value:
    """Call a method of the builder; `attributes` have ONNX's defaults."""
    given = {name: float(call.attribute(name, d)) for name, d in attributes.items()}
    made: Value = getattr(call.b, name)(*values, **given)
    return made


def _celu(call: Call, x: Value) -> Value:
    alpha = float(call.attribute("alpha", 1.0))
    if alpha == 1:
        return call.b.elu(x, alpha=1.0)
    # What is above 0 does not reach Elu, as it may overflow if it is divided.
    below = call.b.minimum(x, call.operand(0.0, x.dtype, x.ndim))
    return call.b.relu(x) + call.times(call.b.elu(call.times(below, 1 / alpha), alpha=1.0), alpha)


def _selu(call: Call, x: Value) -> Value:
    alpha = float(call.attribute("alpha", 1.67326319217681884765625))
    gamma = float(call.attribute("gamma", 1.05070102214813232421875))
    return call.times(call.b.elu(x, alpha=alpha), gamma)


def _gelu(call: Call, x: Value) -> Value:
    return gelu(call, x, approximate=call.attribute("approximate", "none"))


def _gated(call: Call, x: Value) -> Value:
    return x * call.b.sigmoid(call.times(x, float(call.attribute("alpha", 1.0))))


def _clip(call: Call, x: Value) -> Value:
    if call.version < 11:
        return clamp(call, x, call.attribute("min"), call.attribute("max"))
    given = [i for i in (1, 2) if call.has(i)]
    if any(call.known(i) is None for i in given):
        for i in given:
            x = (call.b.maximum if i == 1 else call.b.minimum)(x, *call.floats(i))
        return x
    low, high = (call.need(i, "the limit").item() if i in given else None for i in (1, 2))
    return clamp(call, x, low, high)


def _pow(call: Call, x: Value) -> Value:
    exponents = call.need(1, "the exponent")
    if exponents.size != 1 or exponents.ndim > x.ndim:
        raise NotLowered("the exponents are a tensor")
    return power(call, x, float(exponents.item()))


_rows(
    1,
    {
        **{op_type: partial(_method, name) for name, _, op_type in ELEMENTWISE},
        "Celu": _celu,
        "Clip": _clip,
        "Elu": partial(_method, "elu", alpha=1.0),
        "Gelu": _gelu,
        "HardSigmoid": partial(_method, "hard_sigmoid", alpha=0.2, beta=0.5),
        "LeakyRelu": partial(_method, "leaky_relu", alpha=0.01),
        "Neg": lambda call, x: call.times(x, -1.0),
        "Pow": _pow,
        "Selu": _selu,
        "Softplus": partial(_method, "softplus"),
        "Softsign": lambda call, x: call.b.divide(x, call.b.abs(x) + 1.0),
        "Swish": _gated,
    },
)
_rows(1, {"Gelu": _gelu}, domain="com.microsoft")
_rows(2, {"PRelu": prelu, "SwiGLU": lambda call, x, y: _gated(call, x) * y})


# -- host steps, which take less time than a call of onnxruntime

_NUMBERS = {*FLOATS, "f64", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "boolean"}


def _step(call: Call, function: Callable[..., Any], *values: Value) -> Value:
    """Let NumPy compute an op of values, by default of all inputs."""
    values = values or tuple(call.value(i) for i in range(len(call)))
    made = call.result_dims[0], call.result_dtypes[0]
    if not {made[1], *(v.dtype for v in values)} <= _NUMBERS or call.attribute("broadcast", 0):
        raise NotLowered("a data type is not one of NumPy's, or it broadcasts as before opset 7")
    result: Value = call.b.call(function, *values, outputs=[made])
    return result


def _hosted(call: Call) -> Value:
    options: dict[str, Any] = {}
    if call.node.op_type in ("ArgMax", "ArgMin"):
        if call.attribute("select_last_index", 0):
            raise NotLowered("NumPy has the first of equal elements")
        options["axis"] = int(call.attribute("axis", 0))
        options["keepdims"] = bool(call.attribute("keepdims", 1))
    return _step(call, partial(hosted, HOSTED[call.node.op_type], **options))


lowers(*HOSTED)(_hosted)


# -- several tensors


def _folded(method: str, call: Call) -> Value:
    if call.version < 7 and call.attribute("broadcast", 0):
        raise NotLowered("it broadcasts as in opsets before 7")
    first, *others = call.floats(*range(len(call)))
    for value in others:
        first = getattr(call.b, method)(first, value)
    return first


lowers("Add", "Sum")(partial(_folded, "add"))
lowers("Div")(partial(_folded, "divide"))
lowers("Max")(partial(_folded, "maximum"))
lowers("Min")(partial(_folded, "minimum"))
lowers("Mul")(partial(_folded, "multiply"))
lowers("Sub")(partial(_folded, "subtract"))
lowers("Mean")(lambda call: call.times(_folded("add", call), 1 / len(call)))
lowers("Identity")(lambda call: call.value(0))


@lowers("Where")
def _where(call: Call) -> Value:
    condition, x, y = (call.value(i) for i in range(3))
    try:
        return chosen(call, condition, x, y)
    except NotLowered:
        return _step(call, partial(hosted, "where"))


@lowers("Cast", "CastLike")
def _cast(call: Call) -> Value:
    x, to = call.value(0), call.result_dtypes[0]
    if x.dtype in ("s8", "u8") and to in FLOATS:
        wide = call.b.dequantize(x, scales=[1.0], zps=[0])
        return call.cast(wide, to)
    if {x.dtype, to} <= {*FLOATS} and not (lacks(x.dtype) or lacks(to)):
        return call.cast(x, to)
    return _step(call, partial(as_type, array_dtype(to)), x)


@lowers("Dropout")
def _dropout(call: Call) -> Value:
    if call.is_read(1):
        raise NotLowered("its mask is read")
    training = call.known(2) if call.has(2) else np.asarray(False)
    if training is None or bool(training) or (call.version < 7 and not call.attribute("is_test")):
        raise NotLowered("it is of a training step")
    return call.value(0)
