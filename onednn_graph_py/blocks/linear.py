"""Linear layers."""

from __future__ import annotations

from typing import Any

from ..model.building.value import Value
from .arguments import FLOATS, need_choice, need_rank, need_shape, need_type, need_value, operand
from .parts import ACTIVATIONS, activated, op, part

__all__ = ["linear"]


def linear(
    x: Value,
    weights: Any,
    bias: Any = None,
    *,
    transpose_b: bool = False,
    activation: str | None = None,
    name: str | None = None,
) -> Value:
    """Add a fully connected layer, one partition: activation(x @ weights + bias).

    The dequantization of weights is a partition of its own, except for 8-bit weights with scales as
    attributes if `x` is dequantized too.

    Parameters
    ----------
    x : Value
        (..., inputs) of f32, bf16 or f16.
    weights : Value or array
        (inputs, outputs), with `transpose_b` (outputs, inputs); of the data type of `x`.
    bias : Value or array, optional
        (outputs,), of the data type of `x`.
    transpose_b : bool
        Whether outputs come first in `weights`.
    activation : str, optional
        ``elu``, ``gelu``, ``hard_swish``, ``mish``, ``relu``, ``sigmoid``, ``silu``, ``tanh``.
    name : str, optional
        Name of the result, and prefix of the other ops' names.

    Returns
    -------
    Value
        (..., outputs), of the data type of `x`.

    Raises
    ------
    TypeError
        An argument is neither a value nor an array.
    InvalidArgumentsError
        The activation is unknown.
    InvalidShapeError
        Shapes don't fit together.
    InvalidDataTypeError
        Data types don't fit together.

    Notes
    -----
    oneDNN documents it as "MatMul Fusion Patterns".
    """
    x = need_value("linear", "x", x)
    b = x.builder
    need_type("linear", "x", x, FLOATS)
    need_choice("linear", "activation", activation, (None, *sorted((*ACTIVATIONS, "silu"))))
    w = operand("linear", "weights", b, weights, x.dtype)
    need_type("linear", "weights", w, (x.dtype,))
    shape = need_rank("linear", "weights", w, 2)
    inputs, outputs = shape[::-1] if transpose_b else shape
    need_shape("linear", "x", need_rank("linear", "x", x)[-1:], (inputs,), "(..., inputs)")
    operands = [x, w]
    if bias is not None:
        added = operand("linear", "bias", b, bias, x.dtype)
        need_type("linear", "bias", added, (x.dtype,))
        given = need_rank("linear", "bias", added)
        need_shape("linear", "bias", given, (outputs,), "(outputs,)")
        operands.append(added)
    inner = name if activation is None else part(name, "matmul")
    y = op(b, "MatMul", *operands, transpose_b=transpose_b, name=inner)
    return activated(y, activation, name)
