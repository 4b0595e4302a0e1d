"""Linear layers."""

from __future__ import annotations

from typing import Any

from ..base.arguments import need_choice
from ..model.building.value import Value
from .arguments import FLOATS, need_rank, need_shape, need_type, need_value, operand
from .compressed import Compressed, Matrix
from .parts import ACTIVATIONS, activated, op, part
from .tokens import rounded, with_dims, zero_point


def linear(
    x: Value,
    weights: Any,
    bias: Any = None,
    *,
    transpose_b: bool = False,
    activation: str | None = None,
    scales: Any = None,
    zero_points: Any = None,
    activations: str = "exact",
    groups: str = "column",
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
        (inputs, outputs), with `transpose_b` (outputs, inputs); of the data type of `x`. An array
        with `scales`: integers of 8 or 4 bits.
    bias : Value or array, optional
        (outputs,), of the data type of `x`.
    transpose_b : bool
        Whether outputs come first in `weights`.
    activation : str, optional
        ``elu``, ``gelu``, ``hard_swish``, ``mish``, ``relu``, ``sigmoid``, ``silu``, ``tanh``.
    scales, zero_points : array, optional
        Those of compressed weights: one, (outputs,), or (groups, outputs) for groups of equal size
        along the inputs, with `transpose_b` (outputs, groups). Zero points may be fractions.
    activations : str
        ``exact`` computes with `x` as it is, and with compressed weights as floats. ``int8`` rounds
        `x` to 8 bits, each token by its largest number, and multiplies integers; weights must be an
        array, and floats are rounded to 8 bits by column.
    groups : str
        The weights of ``int8``: ``column`` rounds groups to 8 bits with one scale for each output,
        7 bits on CPUs without VNNI. ``exact`` rounds nothing: each group is a product of its own.
    name : str, optional
        Name of the result, and prefix of the other ops' names.

    Returns
    -------
    Value
        (..., outputs), of the data type of `x`.

    Notes
    -----
    oneDNN documents it as "MatMul Fusion Patterns".

    With ``int8``, a token that holds NaN or infinity makes NaN of all of its outputs. Layers that
    read the same `x` round it once.
    """
    x = need_value("linear", "x", x)
    b = x.builder
    need_type("linear", "x", x, FLOATS)
    need_choice("linear: activation", activation, (None, *sorted((*ACTIVATIONS, "silu"))))
    need_choice("linear: activations", activations, ("exact", "int8"))
    need_choice("linear: groups", groups, ("column", "exact"))
    if activations == "int8":
        compressed = Compressed.of("linear", weights, scales, zero_points, transpose_b)
        return _of_integers(x, compressed, bias, activation, groups, name)
    if scales is not None or zero_points is not None:
        weights = Compressed.of("linear", weights, scales, zero_points, transpose_b).floats()
        transpose_b = False
    w = operand("linear", "weights", b, weights, x.dtype)
    need_type("linear", "weights", w, (x.dtype,))
    shape = need_rank("linear", "weights", w, 2)
    inputs, outputs = shape[::-1] if transpose_b else shape
    need_shape("linear", "x", need_rank("linear", "x", x)[-1:], (inputs,), "(..., inputs)")
    operands = [x, w]
    if bias is not None:
        operands.append(_bias(x, bias, x.dtype, outputs))
    inner = name if activation is None else part(name, "matmul")
    y = op(b, "MatMul", *operands, transpose_b=transpose_b, name=inner)
    return activated(y, activation, name)


def _bias(x: Value, given: Any, dtype: str, outputs: int) -> Value:
    bias = operand("linear", "bias", x.builder, given, dtype)
    need_type("linear", "bias", bias, (dtype,))
    need_shape("linear", "bias", need_rank("linear", "bias", bias), (outputs,), "(outputs,)")
    return bias


def _of_integers(
    x: Value, weights: Compressed, bias: Any, activation: str | None, groups: str, name: str | None
) -> Value:
    """Add a layer whose products are those of integers."""
    b = x.builder
    inputs, outputs = weights.integers.shape
    need_shape("linear", "x", need_rank("linear", "x", x)[-1:], (inputs,), "(..., inputs)")
    added = None if bias is None else _bias(x, bias, x.dtype, outputs)
    inner = name if activation is None else part(name, "linear")
    narrow = inner if added is None else part(name, "without bias")
    integers, step = rounded(x, name=name)
    matrices = [weights.by_column()] if groups == "column" else weights.exact()
    y = _product(integers, matrices[0], name)
    for matrix in matrices[1:]:
        y = op(b, "Add", _product(integers, matrix, name), y, name=part(name, "sum"))
    scaled = narrow if x.dtype == "f32" else part(name, "scaled")
    if -1 in (y.shape or ()):
        # oneDNN fuses the steps of one token only. Behind a view it fuses none, so that all numbers
        # of tokens have one partition, and with it one packed copy of the weights.
        y = op(b, "Multiply", y[None], step[None], name=scaled)[0]
    else:
        y = op(b, "Multiply", y, step, name=scaled)
    y = with_dims(y, x, scaled)
    if x.dtype != "f32":
        y = op(b, "TypeCast", y, dtype=x.dtype, name=narrow)
    if added is not None:
        y = op(b, "Add", y, added, name=inner)
    return activated(y, activation, name)


def _product(integers: Value, matrix: Matrix, name: str | None) -> Value:
    """Add the product of some columns of integers by a matrix, in f32."""
    b = integers.builder
    if matrix.rows != slice(0, (integers.shape or ())[-1]):
        integers = integers[..., matrix.rows]
    one = {"qtype": "per_tensor", "scales": [1.0], "zps": [zero_point(integers)]}
    left = op(b, "Dequantize", integers, dtype="f32", name=part(name, "x"), **one)
    right = op(
        b, "Dequantize", b.constant(matrix.integers, copy=None), dtype="f32", qtype="per_channel",
        axis=1, scales=matrix.scales.tolist(), name=part(name, "weights"),
    )  # fmt: skip
    return op(b, "MatMul", left, right, name=part(name, "matmul"))
