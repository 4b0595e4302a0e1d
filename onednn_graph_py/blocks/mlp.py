"""Gated multilayer perceptrons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.arguments import need_choice
from ..base.errors import InvalidArgumentsError
from ..model.building.builder import GraphBuilder
from ..model.building.value import Value
from .arguments import (
    FLOATS,
    INTEGERS,
    is_decompressed,
    need_integer_math,
    need_rank,
    need_type,
    need_value,
    operand,
)
from .parts import ACTIVATIONS, activated, op, part
from .quantization import dequantize


def _mlp_weights(
    argument: str, b: GraphBuilder, given: Any, scales: Any, zero_points: Any, dtype: str,
    name: str | None,
) -> Value:  # fmt: skip
    if scales is None:
        if zero_points is not None:
            raise InvalidArgumentsError(f"gated_mlp: zero_points of {argument} need scales")
        w = operand("gated_mlp", argument, b, given, dtype)
        need_type("gated_mlp", argument, w, (dtype,))
    else:
        integers = operand("gated_mlp", argument, b, given)
        need_type("gated_mlp", argument, integers, INTEGERS)
        values = operand("gated_mlp", f"scales of {argument}", b, scales, dtype)
        need_type("gated_mlp", f"scales of {argument}", values, (dtype,))
        w = dequantize(integers, values, zero_points, name=part(name, f"{argument} dequantized"))
    if is_decompressed(w):
        need_integer_math("gated_mlp", f"compressed {argument}", b, dtype)
    return w


def gated_mlp(
    x: Value,
    gate_weights: Any,
    up_weights: Any,
    down_weights: Any,
    *,
    activation: str | None = "silu",
    transpose_b: bool = False,
    scales: Sequence[Any] | None = None,
    zero_points: Sequence[Any] | None = None,
    name: str | None = None,
) -> Value:
    """Add a gated MLP, one partition: (activation(x @ gate) * (x @ up)) @ down.

    Parameters
    ----------
    x : Value
        (..., inputs) of f32, bf16 or f16.
    gate_weights, up_weights : Value or array
        (inputs, hidden), of the data type of `x` or, with `scales`, u8, s8, u4 or s4.
    down_weights : Value or array
        (hidden, outputs), of the same data type.
    activation : str, optional
        As in `linear`; None for no activation.
    transpose_b : bool
        Whether the last two dims of all weights are swapped.
    scales, zero_points : sequence of 3 Values or arrays, optional
        Those of compressed gate, up and down weights, as in `dequantize`: the shape of the weights
        with each dim divided by the size of a group along it.
    name : str, optional
        Name of the result, and prefix of the other ops' names.

    Returns
    -------
    Value
        (..., outputs), of the data type of `x`.

    Notes
    -----
    oneDNN documents it as "Gated Multi-Layer Perceptron (Gated-MLP)".

    Compressed weights need ``GraphBuilder(fpmath_mode=..., apply_to_int=True)`` with the data type
    of `x` as mode, or ``strict`` for f32. 3.7.2 compiles only groups of a multiple of 32 elements.
    """
    x = need_value("gated_mlp", "x", x)
    b = x.builder
    need_type("gated_mlp", "x", x, FLOATS)
    need_choice("gated_mlp: activation", activation, (None, *sorted((*ACTIVATIONS, "silu"))))
    lists = []
    for argument, listed in (("scales", scales), ("zero_points", zero_points)):
        entries = [None] * 3 if listed is None else list(listed)
        if len(entries) != 3:
            raise InvalidArgumentsError(
                f"gated_mlp: {argument} must be 3 (of gate, up and down), got {len(entries)}"
            )
        lists.append(entries)
    weights = [gate_weights, up_weights, down_weights]
    names = ("gate_weights", "up_weights", "down_weights")
    gate, up, down = (
        _mlp_weights(argument, b, w, s, z, x.dtype, name)
        for argument, w, s, z in zip(names, weights, *lists, strict=True)
    )
    for argument, value in zip(names, (gate, up, down), strict=True):
        need_rank("gated_mlp", argument, value, 2)

    gated = op(b, "MatMul", x, gate, transpose_b=transpose_b, name=part(name, "gate"))
    raised = op(b, "MatMul", x, up, transpose_b=transpose_b, name=part(name, "up"))
    gated = activated(gated, activation, part(name, "activation"))
    hidden = op(b, "Multiply", gated, raised, name=part(name, "gated"))
    return op(b, "MatMul", hidden, down, transpose_b=transpose_b, name=name)
