"""Convolution with batch normalization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ..base.errors import InvalidArgumentsError, InvalidDataTypeError, InvalidShapeError
from ..model.building.value import Value
from ..ops.terms import shape_text
from .arguments import FLOATS, need_choice, need_rank, need_shape, need_type, need_value, operand
from .parts import op, part


def conv_bn_relu(
    x: Value,
    weights: Any,
    bias: Any = None,
    *,
    gamma: Any,
    beta: Any,
    mean: Any,
    variance: Any,
    epsilon: float = 1e-5,
    strides: Sequence[int] | None = None,
    pads_begin: Sequence[int] | None = None,
    pads_end: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    groups: int = 1,
    data_format: Literal["NCX", "NXC"] = "NCX",
    weights_format: Literal["OIX", "XIO"] = "OIX",
    relu: bool = True,
    name: str | None = None,
) -> Value:
    """Add a convolution, batch norm with given statistics, and ReLU: one partition.

    Parameters
    ----------
    x : Value
        (batch, channels, spatial dims), or with the channels last; f32, bf16 or f16.
    weights : Value or array
        (outputs, channels / groups, window), or reversed (window, channels / groups, outputs), of
        the data type of `x`.
    bias : Value or array, optional
        (outputs,), of the data type of `x`.
    gamma, beta, mean, variance : Value or array
        (outputs,) each; the result is normalized channels times `gamma` plus `beta`. Arrays become
        f32. Values are f32, or bf16 if `x` is bf16.
    epsilon : float
        It is added to the variance.
    strides, dilations : sequence of int, optional
        Per spatial dim; 1 by default.
    pads_begin, pads_end : sequence of int, optional
        Per spatial dim; 0 by default.
    groups : int
        Number of groups of channels.
    data_format, weights_format : str
        As in oneDNN's Convolution.
    relu : bool
        Whether a ReLU follows.
    name : str, optional
        Name of the result, and prefix of the other ops' names.

    Returns
    -------
    Value
        It has the data type of `x`.

    Raises
    ------
    TypeError
        An argument is neither a value nor an array.
    InvalidArgumentsError
        An attribute has an invalid value.
    InvalidShapeError
        Shapes don't fit together.
    InvalidDataTypeError
        Data types don't fit together.

    Notes
    -----
    oneDNN documents it as "Convolution Fusion Patterns".
    """
    block = "conv_bn_relu"
    x = need_value(block, "x", x)
    b = x.builder
    need_type(block, "x", x, FLOATS)
    need_choice(block, "data_format", data_format, ("NCX", "NXC"))
    need_choice(block, "weights_format", weights_format, ("OIX", "XIO"))
    shape = need_rank(block, "x", x, 3, 4, 5)
    w = operand(block, "weights", b, weights, x.dtype)
    need_type(block, "weights", w, (x.dtype,))
    window = need_rank(block, "weights", w, len(shape))
    spatial = len(shape) - 2
    channels = shape[1] if data_format == "NCX" else shape[-1]
    outputs, per_group = window[:2] if weights_format == "OIX" else window[:-3:-1]
    if -1 not in (channels, per_group) and per_group * groups != channels:
        raise InvalidShapeError(
            f"{block}: weights must be of {channels} / {groups} channels (those of x over groups), "
            f"got {per_group} in {shape_text(window)}"
        )
    lists = {"strides": (strides, 1), "pads_begin": (pads_begin, 0), "pads_end": (pads_end, 0)}
    lists["dilations"] = (dilations, 1)
    attrs: dict[str, Any] = {}
    for argument, (listed, default) in lists.items():
        attrs[argument] = (default,) * spatial if listed is None else tuple(listed)
        if len(attrs[argument]) != spatial:
            raise InvalidArgumentsError(
                f"{block}: {argument} must have {spatial} entries, one per spatial dim, got "
                f"{list(attrs[argument])}"
            )
    operands = [x, w]
    if bias is not None:
        operands.append(operand(block, "bias", b, bias, x.dtype))
        need_type(block, "bias", operands[-1], (x.dtype,))
        need_shape(block, "bias", need_rank(block, "bias", operands[-1]), (outputs,), "(outputs,)")
    parameters = []
    allowed = ("f32", "bf16") if x.dtype == "bf16" else ("f32",)
    named = {"gamma": gamma, "beta": beta, "mean": mean, "variance": variance}
    for argument, given in named.items():
        parameter = operand(block, argument, b, given, "f32")
        need_type(block, argument, parameter, allowed)
        need_shape(block, argument, need_rank(block, argument, parameter), (outputs,), "(outputs,)")
        parameters.append(parameter)
    if len({p.dtype for p in parameters}) > 1:
        raise InvalidDataTypeError(
            f"{block}: gamma, beta, mean and variance must be of one data type, got "
            + ", ".join(p.dtype for p in parameters)
        )

    y = op(
        b, "Convolution", *operands, groups=groups, data_format=data_format,
        weights_format=weights_format, name=part(name, "convolution"), **attrs,
    )  # fmt: skip
    last = part(name, "batch norm") if relu else name
    y = op(
        b, "BatchNormInference", y, *parameters, epsilon=float(epsilon), data_format=data_format,
        name=last,
    )  # fmt: skip
    return op(b, "ReLU", y, name=name) if relu else y
