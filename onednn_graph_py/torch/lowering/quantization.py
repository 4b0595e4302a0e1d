"""The ops that torchao's quantizations leave in a graph."""

from __future__ import annotations

from typing import Any

import torch
import torch.ao.quantization.fx._decomposed  # it defines the ops

from ...blocks.linear import linear
from ...blocks.quantization import dequantize, quantize
from ...model.building.value import Value
from .table import DTYPES, Lowering, NotLowered, lowers

aten = torch.ops.aten
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
def _dequantize(at: Lowering, x: Value, scale: Any, point: Any, *_: Any, **__: Any) -> Value:
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
    at: Lowering, x: Value, scales: Any, points: Any, axis: int, *_: Any, **__: Any
) -> Value:
    points_given = at.constant(2) if points is not None else None
    return dequantize(x, at.constant(1), points_given, axis, dtype=at.dtype)


def int8_linear(
    x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """Multiply by weights of 8 bits: what `integer_products` makes of several calls."""
    floats = weight.to(scale.dtype) * scale.reshape(-1, 1)
    return torch.nn.functional.linear(x, floats.to(x.dtype), bias)


@lowers(int8_linear)
def _int8_linear(
    at: Lowering, x: Value, weight: Any, scale: Any, bias: Value | None = None
) -> Value:
    scale = at.known(at.node.args[2])
    if scale is None:
        raise NotLowered("the scales change between calls")
    result = linear(
        x,
        at.constant(1),
        bias,
        transpose_b=True,
        scales=scale.float().reshape(-1).numpy(),
        activations="int8",
    )
    return at.cast(result, at.dtype)


def int4_linear(
    x: torch.Tensor, packed: torch.Tensor, group: int, scales_and_zeros: torch.Tensor
) -> torch.Tensor:
    """Multiply by weights of 4 bits as torch packs them; `integer_products` lets it round `x`."""
    return aten._weight_int4pack_mm_for_cpu(x, packed, group, scales_and_zeros)


@lowers(aten._weight_int4pack_mm_for_cpu.default, int4_linear)
def _packed_linear(at: Lowering, x: Value, packed: Any, group: int, scales_and_zeros: Any) -> Value:
    """Lower a product by packed weights: (integers * scale + zero) for each group of inputs."""
    packed, both = (at.known(at.node.args[i]) for i in (1, 3))
    if packed is None or both is None:
        raise NotLowered("the weights change between calls")
    inputs = len(both) * group
    # How they are packed depends on the CPU, so torch unpacks them: it multiplies ones by them.
    plain = torch.stack((torch.ones(both.shape[:2]), torch.zeros(both.shape[:2])), -1)
    integers = torch.cat(
        [
            aten._weight_int4pack_mm_for_cpu(rows, packed, group, plain).to(torch.int8)
            for rows in torch.eye(inputs).split(256)
        ]
    )
    scales, zeros = both.float().unbind(-1)
    return linear(
        x,
        integers.numpy(),
        scales=scales.numpy(),
        zero_points=(-zeros / scales).numpy(),
        activations="int8" if at.node.target is int4_linear else "exact",
    )
