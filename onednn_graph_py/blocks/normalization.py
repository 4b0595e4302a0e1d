"""Normalization: `rms_norm`."""

from __future__ import annotations

import math
from typing import Any

from ..base.errors import InvalidArgumentsError
from ..base.linked import linked_version
from ..model.building.value import Value
from .arguments import FLOATS, need_rank, need_shape, need_type, need_value, operand
from .parts import op, part, reshape


def rms_norm(
    x: Value,
    weight: Any = None,
    *,
    epsilon: float = 1e-5,
    name: str | None = None,
    eps: float | None = None,
) -> Value:
    """Add RMSNorm: x / sqrt(mean(x * x) + epsilon) * weight, over the last dim.

    It is computed in f32 and rounded once to the data type of `x`.

    Parameters
    ----------
    x : Value
        (..., size) of f32, bf16 or f16.
    weight : Value or array, optional
        (size,), of the data type of `x` or f32.
    epsilon : float
        Positive.
    name : str, optional
        Name of the result, and prefix of the other ops' names.
    eps : float, optional
        Torch's name of `epsilon`.

    Returns
    -------
    Value
        It has the shape and data type of `x`.

    Notes
    -----
    Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019). From 3.11 on it is oneDNN's
    op RMSNorm, between conversions if `x` is not f32: on bf16 itself oneDNN takes 40 to 400 times
    as long (3.13.1, AVX-512). Before, it is several ops.
    """
    x = need_value("rms_norm", "x", x)
    b = x.builder
    need_type("rms_norm", "x", x, FLOATS)
    shape = need_rank("rms_norm", "x", x)
    size = shape[-1:] or need_rank("rms_norm", "x", x, 1)
    epsilon = epsilon if eps is None else eps
    if not (isinstance(epsilon, (int, float)) and math.isfinite(epsilon) and epsilon > 0):
        raise InvalidArgumentsError(f"rms_norm: epsilon must be positive, got {epsilon!r}")
    scale = None
    if weight is not None:
        scale = operand("rms_norm", "weight", b, weight)
        need_type("rms_norm", "weight", scale, tuple(dict.fromkeys((x.dtype, "f32"))))
        need_shape("rms_norm", "weight", need_rank("rms_norm", "weight", scale), size, "(size,)")
        scale = _cast(scale, "f32", part(name, "weight in f32"))
    y = _cast(x, "f32", part(name, "in f32"))
    last = name if y is x else part(name, "normalized")
    if linked_version() >= (3, 11):
        if len(shape) == 1:  # for which oneDNN has no kernel
            y = reshape(y, (1, *size), part(name, "one row"))
            last = part(name, "normalized row")
        operands = [y] if scale is None else [y, scale]
        y = op(b, "RMSNorm", *operands, begin_norm_axis=-1, epsilon=float(epsilon), name=last)
        if len(shape) == 1:
            y = reshape(y, size, name if x.dtype == "f32" else part(name, "normalized"))
    else:
        mean = op(b, "Multiply", y, y, name=part(name, "square"))
        if size != (1,):  # of which oneDNN makes no mean
            mean = op(
                b, "ReduceMean", mean, axes=[-1], keep_dims=True, name=part(name, "mean square")
            )
        above = op(b, "Add", mean, b.constant([epsilon], "f32"), name=part(name, "plus epsilon"))
        root = op(b, "Sqrt", above, name=part(name, "root"))
        # The other order needs one more pass over the elements.
        scaled = y if scale is None else op(b, "Multiply", y, scale, name=part(name, "scaled"))
        y = op(b, "Divide", scaled, root, name=last)
    return _cast(y, x.dtype, name)


def _cast(x: Value, dtype: str, name: str | None) -> Value:
    return x if x.dtype == dtype else op(x.builder, "TypeCast", x, dtype=dtype, name=name)
