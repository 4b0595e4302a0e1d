"""The ops that torchao's PT2E quantization leaves in a graph."""

from __future__ import annotations

from typing import Any

import torch
import torch.ao.quantization.fx._decomposed  # it defines the ops

from ...blocks.linear import linear
from ...blocks.quantization import dequantize, quantize
from ...model.building.value import Value
from .table import DTYPES, Lowering, NotLowered, lowers

ops = torch.ops.quantized_decomposed


def _eight_bits(dtype: Any, low: int, high: int) -> str:
    """Return oneDNN's name of an 8-bit type, if all its values are used."""
    name = DTYPES.get(dtype, str(dtype))
    if name not in ("s8", "u8"):
        raise NotLowered(f"oneDNN's Quantize makes 8 bits, not {name}")
    info = torch.iinfo(dtype)
    if (low, high) != (info.min, info.max):
        raise NotLowered(f"oneDNN uses all values of {name}, not {low} to {high} only")
    return name


@lowers(ops.quantize_per_tensor.default)
def _quantize(
    at: Lowering, x: Value, scale: Any, point: Any, low: int, high: int, dtype: Any
) -> Value:
    if not (isinstance(scale, float) and isinstance(point, int)):
        raise NotLowered("the scale changes between calls")
    return quantize(x, _eight_bits(dtype, low, high), scale, point)


@lowers(ops.dequantize_per_tensor.default)
def _dequantize(
    at: Lowering,
    x: Value,
    scale: Any,
    point: Any,
    low: int,
    high: int,
    dtype: Any,
    *,
    out_dtype: Any = None,
) -> Value:
    if not (isinstance(scale, float) and isinstance(point, int)):
        raise NotLowered("the scale changes between calls")
    return dequantize(x, scale, point, dtype=at.dtype)


@lowers(ops.quantize_per_channel.default)
def _quantize_channels(
    at: Lowering, x: Value, scales: Any, points: Any, axis: int, low: int, high: int, dtype: Any
) -> Value:
    name = _eight_bits(dtype, low, high)
    return quantize(x, name, at.constant(1), at.constant(2), axis)


@lowers(ops.dequantize_per_channel.default)
def _dequantize_channels(
    at: Lowering,
    x: Value,
    scales: Any,
    points: Any,
    axis: int,
    low: int,
    high: int,
    dtype: Any,
    *,
    out_dtype: Any = None,
) -> Value:
    points_given = at.constant(2) if points is not None else None
    return dequantize(x, at.constant(1), points_given, axis, dtype=at.dtype)


def int8_linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    scale: torch.Tensor,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Multiply by weights of 8 bits: what `integer_products` makes of several calls."""
    floats = weight.to(scale.dtype) * scale.reshape(-1, 1)
    return torch.nn.functional.linear(x, floats.to(x.dtype), bias)


@lowers(int8_linear)
def _int8_linear(
    at: Lowering, x: Value, weight: Any, scale: Any, bias: Value | None = None
) -> Value:
    scales = at.constant(2).reshape(-1)
    return linear(x, at.constant(1), bias, transpose_b=True, scales=scales, activations="int8")
