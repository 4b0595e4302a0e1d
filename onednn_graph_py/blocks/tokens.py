"""Activations rounded to 8 bits, each token with a scale of its own."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..machine.cpu import largest_int8_weight
from ..model.building.value import Value
from .parts import once, op, part, reshape

LEAST = float(np.finfo(np.float32).tiny)  # the step of a token of zeros

SHIFT = 128
"""The zero point of tokens in u8.

Without VNNI instructions oneDNN shifts tokens of s8 itself and packs the weights for that anew at
each call: a token by 2048x2048 weights takes 6.2 ms, and 0.5 ms in u8 (AVX2, 3.7 and 3.13).
"""


@once
def rounded(x: Value, *, name: str | None) -> tuple[Value, Value]:
    """Return the tokens of a value in 8 bits, (tokens, size), and their steps, (tokens, 1) in f32.

    They keep the dims of the value if several of these are unknown. `zero_point` is their zero
    point.

    All that round the same value read the same result. The step of a token with NaN or infinity,
    or whose sum is beyond f32, is NaN.

    - `x`: (..., size) of f32, bf16 or f16
    - `name`: prefix of the ops' names
    """
    b = x.builder
    tokens = _tokens(x, part(name, "tokens"))
    if tokens.dtype != "f32":
        tokens = op(b, "TypeCast", tokens, dtype="f32", name=part(name, "in f32"))
    last: dict[str, Any] = {"axes": [-1], "keep_dims": True}
    low = op(b, "ReduceMin", tokens, name=part(name, "least"), **last)
    below = op(b, "Multiply", low, b.constant([-1], "f32"), name=part(name, "below"))
    high = op(b, "ReduceMax", tokens, name=part(name, "most"), **last)
    size = op(b, "Maximum", high, below, name=part(name, "size"))
    share = op(b, "Multiply", size, b.constant([1 / 127], "f32"), name=part(name, "share"))
    positive = op(b, "Maximum", share, b.constant([LEAST], "f32"), name=part(name, "positive"))
    # The largest of NaN and a number may be the number; a sum keeps NaN.
    total = op(b, "ReduceSum", tokens, name=part(name, "sum"), **last)
    nothing = op(b, "Multiply", total, b.constant([0], "f32"), name=part(name, "zero or NaN"))
    step = op(b, "Add", positive, nothing, name=part(name, "step"))
    steps = op(b, "Divide", tokens, step, name=part(name, "steps"))
    zero = 0 if largest_int8_weight() == 127 else SHIFT
    one: dict[str, Any] = {"qtype": "per_tensor", "scales": [1.0], "zps": [zero]}
    dtype = "u8" if zero else "s8"
    return op(b, "Quantize", steps, dtype=dtype, name=part(name, dtype), **one), step


def zero_point(integers: Value) -> int:
    """Return the zero point of tokens that `rounded` returned."""
    return SHIFT if integers.dtype == "u8" else 0


def with_dims(tokens: Value, x: Value, name: str | None) -> Value:
    """Return tokens, (tokens, size), with the dims of a value whose tokens they are."""
    dims = (x.shape or ())[:-1]
    ones = _ones(dims)
    if tokens.ndim == x.ndim:
        return tokens
    if len(dims) - len(ones) == 1:
        result = tokens[tuple(None if i in ones else slice(None) for i in range(len(dims)))]
        result.name = name or ""
        return result
    return reshape(tokens, (*dims, (tokens.shape or ())[-1]), name)


def _tokens(x: Value, name: str | None) -> Value:
    """Return (tokens, size) of (..., size)."""
    dims = (x.shape or ())[:-1]
    ones = _ones(dims)
    if dims.count(-1) > 1:
        return x
    if len(dims) - len(ones) == 1:
        return x.squeeze(ones) if ones else x
    return reshape(x, (-1, (x.shape or ())[-1]), name)


def _ones(dims: Sequence[int]) -> list[int]:
    """Return which dims are of size 1, but for the last if all are."""
    ones = [i for i, d in enumerate(dims) if d == 1]
    return ones[:-1] if len(ones) == len(dims) else ones
