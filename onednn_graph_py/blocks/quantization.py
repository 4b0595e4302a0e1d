"""Quantize and dequantize, per tensor, channel and group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.arguments import need_integers
from ..base.errors import InvalidArgumentsError, InvalidShapeError
from ..model.building.value import Value
from ..ops.terms import shape_text
from .arguments import (
    FLOATS,
    INTEGERS,
    array_of,
    need_dtype,
    need_rank,
    need_type,
    need_value,
    operand,
)
from .parts import op, part

EIGHT_BITS = ("u8", "s8", "f8_e5m2", "f8_e4m3")


def _static_attrs(
    block: str, x: Value, scales: Any, zero_points: Any, axis: int | None
) -> dict[str, Any]:
    values = array_of(block, "scales", scales).astype(np.float64, casting="same_kind").ravel()
    if values.size == 0 or not np.isfinite(values).all() or (values <= 0).any():
        raise InvalidArgumentsError(f"{block}: scales must be positive, got {scales!r}")
    attrs: dict[str, Any] = {"scales": values.tolist()}
    if values.size == 1 and axis is None:
        attrs["qtype"] = "per_tensor"
    else:
        attrs |= {"qtype": "per_channel", "axis": _axis_of(block, x, axis, values.size)}
    if zero_points is not None:
        points = array_of(block, "zero_points", zero_points).ravel()
        attrs["zps"] = (points.repeat(values.size) if points.size == 1 else points).tolist()
    return attrs


def _axis_of(block: str, x: Value, axis: int | None, count: int) -> int:
    """Return the axis along which each element has a scale."""
    if axis is None:
        raise InvalidArgumentsError(f"{block}: axis must be given with {count} scales")
    # oneDNN accepts a negative axis, but computes wrong results.
    return x.axis_of(axis)


def _dynamic(
    block: str, x: Value, scales: Value, zero_points: Any, axis: int | None,
    group_shape: Sequence[int] | None,
) -> tuple[list[Value], dict[str, Any]]:  # fmt: skip
    """Return a dynamic op's inputs other than `x`, and its attributes."""
    shape, counts = need_rank(block, "x", x), need_rank(block, "scales", scales)
    attrs: dict[str, Any] = {"qtype": "per_tensor"}
    if group_shape is not None or (len(counts) == len(shape) >= 2):
        if group_shape is None:
            group_shape = _groups(block, shape, counts)
        group = need_integers(f"{block}: group_shape", group_shape)
        grouped = [i for i, g in enumerate(group) if g > 1]
        last = (grouped or [len(group) - 1])[-1]
        attrs = {"qtype": "per_group", "group_shape": group, "axis": last}
    elif len(counts) == 1 and (counts != (1,) or axis is not None):
        attrs = {"qtype": "per_channel", "axis": _axis_of(block, x, axis, counts[0])}
    inputs = [scales]
    if zero_points is not None:
        dtype = None
        if not isinstance(zero_points, Value):
            zero_points, dtype = array_of(block, "zero_points", zero_points), "s32"
            if zero_points.size == 1 and -1 not in counts:
                zero_points = np.broadcast_to(zero_points.reshape(()), counts)
        inputs.append(operand(block, "zero_points", x.builder, zero_points, dtype))
    return inputs, attrs


def _groups(block: str, shape: tuple[int, ...], scales: tuple[int, ...]) -> tuple[int, ...]:
    """Return the size of a group along each dim."""
    pairs = list(zip(shape, scales, strict=True))
    if any(-1 in (d, s) and d != s for d, s in pairs):
        raise InvalidShapeError(
            f"{block}: group_shape must be given if dims are unknown, got x {shape_text(shape)} "
            f"and scales {shape_text(scales)}"
        )
    # Where both are unknown we assume a scale for each element.
    return tuple(1 if d == s else d // max(s, 1) for d, s in pairs)


def quantize(
    x: Value,
    dtype: str,
    scales: Any,
    zero_points: Any = None,
    axis: int | None = None,
    *,
    name: str | None = None,
) -> Value:
    """Quantize to 8 bits: round(x / scale) + zero point, saturated.

    Scales that are numbers or arrays make a Quantize, with scales as attributes, which oneDNN fuses
    with the op before it. Scales that are values make a DynamicQuantize, with scales as inputs,
    which is a partition of its own.

    Parameters
    ----------
    x : Value
        f32; bf16 and f16 are cast to f32 first.
    dtype : str
        ``u8`` or ``s8``; with numbers or arrays as scales also ``f8_e5m2`` and ``f8_e4m3``.
    scales : float, array or Value
        One scale, or one for each element along `axis`. Values are f32.
    zero_points : int, array or Value, optional
        One, or as many as scales. Not for f8.
    axis : int, optional
        The dim whose elements have their own scales.
    name : str, optional
        Name of the op.

    Returns
    -------
    Value
        It has the shape of `x`.

    Notes
    -----
    oneDNN documents the ops as Quantize and DynamicQuantize. On a CPU, zero points per channel
    other than 0 do not compile; most CPUs don't support f8.
    """
    x = need_value("quantize", "x", x)
    b = x.builder
    need_type("quantize", "x", x, FLOATS)
    dynamic = isinstance(scales, Value) or isinstance(zero_points, Value)
    allowed = ("u8", "s8") if dynamic else EIGHT_BITS
    need_dtype("quantize", "dtype", dtype, allowed)
    if dtype.startswith("f8") and zero_points is not None:
        raise InvalidArgumentsError(f"quantize: {dtype} has no zero_points, got {zero_points!r}")
    if not dynamic:
        attrs = _static_attrs("quantize", x, scales, zero_points, axis)
    else:
        factors = operand("quantize", "scales", b, scales, "f32")
        need_type("quantize", "scales", factors, ("f32",))
        inputs, attrs = _dynamic("quantize", x, factors, zero_points, axis, None)
        if attrs["qtype"] == "per_group":
            raise InvalidShapeError(
                "quantize: scales must have 1 dim, as oneDNN can't quantize groups, got "
                f"{shape_text(factors.shape)}"
            )
    if x.dtype != "f32":
        x = op(b, "TypeCast", x, dtype="f32", name=part(name, "f32"))
    if not dynamic:
        return op(b, "Quantize", x, dtype=dtype, name=name, **attrs)
    return op(b, "DynamicQuantize", x, *inputs, dtype=dtype, name=name, **attrs)


def dequantize(
    x: Value,
    scales: Any,
    zero_points: Any = None,
    axis: int | None = None,
    group_shape: Sequence[int] | None = None,
    dtype: str | None = None,
    *,
    name: str | None = None,
) -> Value:
    """Undo quantization: (x - zero point) * scale.

    Scales that are numbers or arrays make a Dequantize, with scales as attributes, which oneDNN
    fuses with the ops after it. Values, groups and int4 make a DynamicDequantize, with scales as
    inputs, which oneDNN fuses only into `sdpa` and `gated_mlp`.

    Parameters
    ----------
    x : Value
        u8, s8, u4 or s4; with numbers or arrays as scales also f8_e5m2 and f8_e4m3.
    scales : float, array or Value
        One scale, one for each element along `axis`, or for groups as many dims as `x`.
    zero_points : int, array or Value, optional
        One, or the shape of scales. Not for f8. Arrays that are inputs become s32.
    axis : int, optional
        The dim whose elements have their own scales.
    group_shape : sequence of int, optional
        The size of a group along each dim; by default inferred from the shapes.
    dtype : str, optional
        The result's data type: by default that of scales that are a value, else ``f32``. If it is
        another than the f32 that Dequantize makes, a TypeCast follows.
    name : str, optional
        Name of the result.

    Returns
    -------
    Value
        It has the shape of `x`.

    Notes
    -----
    oneDNN documents the ops as Dequantize and DynamicDequantize. On a CPU, zero points per channel
    other than 0 do not compile, nor does int4 with a single scale (give one per group); 3.13.2
    does not support int4 whose last dim is odd.
    """
    x = need_value("dequantize", "x", x)
    b = x.builder
    floats = FLOATS if dtype is None else (dtype,)
    if dtype is not None:
        need_dtype("dequantize", "dtype", dtype, FLOATS)
    if x.dtype.startswith("f8") and zero_points is not None:
        raise InvalidArgumentsError(f"dequantize: {x.dtype} has no zero_points")
    dynamic = (
        isinstance(scales, Value)
        or isinstance(zero_points, Value)
        or group_shape is not None
        or x.dtype in ("s4", "u4")
        or np.ndim(scales) > 1
    )
    if not dynamic:
        need_type("dequantize", "x", x, EIGHT_BITS)
        attrs = _static_attrs("dequantize", x, scales, zero_points, axis)
        if dtype in (None, "f32"):
            return op(b, "Dequantize", x, dtype="f32", name=name, **attrs)
        made = op(b, "Dequantize", x, dtype="f32", name=part(name, "f32"), **attrs)
        return op(b, "TypeCast", made, dtype=dtype, name=name)
    need_type("dequantize", "x", x, INTEGERS)
    factors = operand("dequantize", "scales", b, scales, dtype or "f32")
    need_type("dequantize", "scales", factors, floats)
    inputs, attrs = _dynamic("dequantize", x, factors, zero_points, axis, group_shape)
    return op(b, "DynamicDequantize", x, *inputs, name=name, **attrs)
