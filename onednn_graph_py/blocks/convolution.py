"""Convolution with batch normalization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ..model.building.value import Value
from .arguments import need_value, operand
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

    Notes
    -----
    oneDNN documents it as "Convolution Fusion Patterns".
    """
    x = need_value("conv_bn_relu", "x", x)
    b = x.builder
    spatial = x.ndim - 2
    ones, zeros = (1,) * spatial, (0,) * spatial
    operands = [x, operand("conv_bn_relu", "weights", b, weights, x.dtype)]
    if bias is not None:
        operands.append(operand("conv_bn_relu", "bias", b, bias, x.dtype))
    named = {"gamma": gamma, "beta": beta, "mean": mean, "variance": variance}
    parameters = [operand("conv_bn_relu", what, b, of, "f32") for what, of in named.items()]
    y = op(
        b,
        "Convolution",
        *operands,
        strides=ones if strides is None else strides,
        pads_begin=zeros if pads_begin is None else pads_begin,
        pads_end=zeros if pads_end is None else pads_end,
        dilations=ones if dilations is None else dilations,
        groups=groups,
        data_format=data_format,
        weights_format=weights_format,
        name=part(name, "convolution"),
    )
    y = op(
        b,
        "BatchNormInference",
        y,
        *parameters,
        epsilon=float(epsilon),
        data_format=data_format,
        name=part(name, "batch norm") if relu else name,
    )
    return op(b, "ReLU", y, name=name) if relu else y
