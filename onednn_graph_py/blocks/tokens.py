"""Activations rounded to 8 bits, each token with a scale of its own."""

from __future__ import annotations

import numpy as np

from ..model.building.value import Value
from .parts import op, part

__all__ = ["rounded"]

LEAST = float(np.finfo(np.float32).tiny)
"""The step of a token of zeros."""


def rounded(x: Value, name: str | None) -> tuple[Value, Value]:
    """Return a value in s8, and the step of each of its tokens, (..., 1) in f32.

    All that round the same value read the same result. The step of a token with NaN or infinity,
    or whose sum is beyond f32, is NaN.

    Parameters
    ----------
    x : Value
        (..., size) of f32, bf16 or f16.
    name : str, optional
        Prefix of the ops' names.
    """
    b = x.builder
    if x.dtype != "f32":
        cast = _reader(x, "TypeCast", "f32")
        x = op(b, "TypeCast", x, dtype="f32", name=part(name, "in f32")) if cast is None else cast
    shared = _reader(x, "Divide", "f32")
    integers = None if shared is None else _reader(shared, "Quantize", "s8")
    if shared is not None and integers is not None:
        step = shared.producer.inputs[1]  # type: ignore[union-attr]
        if _is_step(step):
            return integers, step
    size = op(b, "Abs", x, name=part(name, "size"))
    most = op(b, "ReduceMax", size, axes=[-1], keep_dims=True, name=part(name, "most"))
    share = op(b, "Multiply", most, b.constant([1 / 127], "f32"), name=part(name, "share"))
    step = op(b, "Maximum", share, b.constant([LEAST], "f32"), name=part(name, "positive"))
    # The largest of NaN and a number may be the number; a sum keeps NaN.
    total = op(b, "ReduceSum", x, axes=[-1], keep_dims=True, name=part(name, "sum"))
    nothing = op(b, "Multiply", total, b.constant([0], "f32"), name=part(name, "zero or NaN"))
    step = op(b, "Add", step, nothing, name=part(name, "step"))
    shared = op(b, "Divide", x, step, name=part(name, "steps"))
    integers = op(
        b, "Quantize", shared, dtype="s8", qtype="per_tensor", scales=[1.0], name=part(name, "s8")
    )
    return integers, step


def _reader(x: Value, kind: str, dtype: str) -> Value | None:
    """Return the result of an op of a kind whose first input is a value."""
    for node in x.builder.contents.nodes:
        if node.kind == kind and node.inputs[0] is x and node.outputs[0].dtype == dtype:
            return node.outputs[0]
    return None


def _is_step(value: Value) -> bool:
    """Return whether `rounded` made a divisor."""
    added = value.producer
    positive = None if added is None or added.kind != "Add" else added.inputs[0].producer
    least = None if positive is None or positive.kind != "Maximum" else positive.inputs[1].data
    return least is not None and bool((least == LEAST).all())
